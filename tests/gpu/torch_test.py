"""Partitioned communication between tensors of PyTorch, in the memory of each of its allocators. The ranks (torch_rank.py) run in a
Python that has PyTorch; PARTITEST_PYTHON names one, where python3 on PATH has none."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

SETTINGS = {"default": "", "expandable": "expandable_segments:True", "async": "backend:cudaMallocAsync"}
LIMIT_S = max(30, int(os.environ.get("PARTITEST_LIMIT", "240")) - 15)


def pythons():
    """Every python3 on PATH, after the one that PARTITEST_PYTHON names."""
    if os.environ.get("PARTITEST_PYTHON"):
        yield os.environ["PARTITEST_PYTHON"]
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found = shutil.which("python3", path=folder)
        if found:
            yield found
    yield sys.executable


@pytest.fixture(scope="module")
def python_with_torch():
    """A Python that imports PyTorch with a GPU."""
    reasons = []
    for candidate in dict.fromkeys(pythons()):
        look = subprocess.run([candidate, "-c", "import torch; assert torch.cuda.is_available(), 'PyTorch sees no GPU'"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        if look.returncode == 0:
            return candidate
        reasons.append(f"{candidate}: {(look.stdout.strip() or 'it says nothing').splitlines()[-1]}")
    pytest.skip(f"PyTorch with CUDA is not there ({'; '.join(reasons)})")


@pytest.fixture(scope="module", params=SETTINGS)
def output(request, given, python_with_torch):
    """What the ranks say, which have ended well."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")}
    if SETTINGS[request.param]:
        env["PYTORCH_CUDA_ALLOC_CONF"] = SETTINGS[request.param]
    command = [*given.launcher(), python_with_torch, pathlib.Path(__file__).with_name("torch_rank.py"), request.param,
               given["bridge"], given["includes"]]
    run = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S)
    assert run.returncode == 0, run.stdout
    assert run.stdout.count("ends well") == int(given["ranks"]), run.stdout
    return run.stdout


def test_tensors_travel(output):
    print(output)


def test_tensors_are_marked_by_a_kernel_that_cupy_compiles(output):
    left_out = re.search(r"(?m)^left out: (.*)$", output)
    if left_out:
        pytest.skip(left_out[1])
