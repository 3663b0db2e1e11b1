"""The library asks the GPU's driver for functions of CUDA 12.0 at most, whatever toolkit it is built with: each toolkit's
cuda.h decides for which version of a function its name stands, and a driver that lacks one is not used at all.

The first version of a function has the function's name as its symbol, the version k the name with _vk behind it.
cudaTypedefs.h tells in which CUDA each came.
"""
import pathlib
import re
import subprocess

import pytest

FLOOR = 12000  # as CUDA counts; docs/design/dependencies.md has it, too
ASKED = '#include "memory/cuda/driver.hpp"\n#define TEXT(name) #name\n#define SAY(name) ASKED name TEXT(name)\nPARTITA_DRIVER_FUNCTIONS(SAY)\n'


@pytest.fixture(scope="module")
def symbols(given):
    """The symbol that the library asks the driver for, by the function's name."""
    sources = pathlib.Path(given["sources"])
    command = [given["compiler"], "-std=c++20", "-E", "-P", "-x", "c++", "-I", sources / "src", "-I", sources / "include",
               "-isystem", given["cuda"], "-"]
    lines = subprocess.run(command, input=ASKED, check=True, capture_output=True, text=True).stdout
    names = re.findall(r"^\s*X\((\w+)\)", (sources / "src/memory/cuda/driver.hpp").read_text(encoding="utf-8"), re.MULTILINE)
    return dict(zip(names, re.findall(r'ASKED \w+ "(\w+)"', lines), strict=True))


@pytest.fixture(scope="module")
def versions(given):
    """The versions of CUDA with which each version of a function came, by the function's name, oldest first."""
    text = (pathlib.Path(given["cuda"]) / "cudaTypedefs.h").read_text(encoding="utf-8")
    found = {}
    for name, version in re.findall(r"\*\s*PFN_(cu\w+?)_v(\d+)\)", text):
        found.setdefault(name, set()).add(int(version))
    return {name: sorted(each) for name, each in found.items()}


def came_with(name, symbol, versions):
    """The version of CUDA that brought `symbol`."""
    number = int(re.fullmatch(rf"{name}(?:_v(\d+))?", symbol).group(1) or 1)
    return versions[name][number - 1]


def test_no_function_is_newer_than_the_oldest_driver_that_the_library_takes(symbols, versions):
    newer = {symbol: came for name, symbol in symbols.items() if (came := came_with(name, symbol, versions)) > FLOOR}
    assert newer == {}, "see how src/memory/cuda/driver.cpp can do without, or name the version that it needs"


def test_a_newer_version_of_a_function_is_seen(versions):
    assert came_with("cuMemAlloc", "cuMemAlloc_v2", versions) == 3020
    assert came_with("cuMulticastCreate", "cuMulticastCreate", versions) > FLOOR
