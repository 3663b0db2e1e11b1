"""The GPUs of this machine, without CUDA."""

import os
import pathlib

GPUS = pathlib.Path("/proc/driver/nvidia/gpus")  # a folder for each


def gpu_count():
    return len(list(GPUS.iterdir())) if GPUS.exists() else 0


def ranks_share_a_gpu():
    """Whether they do so under the multi-process service."""
    return os.environ.get("PARTITEST_SHARE_GPU", "0") not in ("", "0")
