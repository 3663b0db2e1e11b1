"""The GPUs of this machine, without CUDA, and what runs on them."""

import ctypes
import os
import pathlib

GPUS = pathlib.Path("/proc/driver/nvidia/gpus")  # a folder for each


def gpu_count():
    return len(list(GPUS.iterdir())) if GPUS.exists() else 0


def ranks_share_a_gpu():
    """Whether they do so under the multi-process service."""
    return os.environ.get("PARTITEST_SHARE_GPU", "0") not in ("", "0")


def nccl_can_be_loaded():
    named = os.environ.get("NCCL_LIBRARY")
    for name in [named] if named else ["libnccl.so.2", "libnccl.so"]:
        try:
            ctypes.CDLL(name)
            return True
        except OSError as error:
            print(f"mode nccl is left out: {error}")
    return False
