"""fft on GPUs from outside: every exchange against the transform that FFTW does on rank 0, and against the input. Ranks may
share GPUs. cuFFT is that of CUFFT_LIBRARY, else that which the build found in the CUDA toolkit, else the loader's; where one of the
first two is there, it must be loaded."""

import json
import os
import pathlib
import re
import subprocess

import pytest

LIMIT_S = 150
EXCHANGES = ("alltoall", "alltoallv", "partitioned")
STAGED = tuple(f"{exchange}-staged" for exchange in EXCHANGES)
PROBLEMS = {
    "cube": ["--size", "64", "64", "64"],
    # Tiles that are cut off, slices of different numbers of planes, ranks with different ones, and lines of a prime length.
    "uneven": ["--size", "37", "50", "41", "--slices", "5"],
    # Ranks without cells.
    "flat": ["--size", "3", "2", "300"],
    "cell": ["--size", "1", "1", "1"],
}


@pytest.fixture(scope="module")
def cufft(given):
    """The path of the library that is there; empty where it is left to the loader."""
    path = os.environ.get("CUFFT_LIBRARY") or given.get("cufft", "")
    return path if pathlib.Path(path).is_file() else ""


@pytest.fixture(scope="module")
def run(given, cufft, tmp_path_factory):
    """Runs the app: the finished process, and the record that it wrote (None if it wrote none)."""
    def started(*options, **settings):
        prefix = tmp_path_factory.mktemp("fft") / "out"
        command = [*given.launcher(), given["program"], "run", "fft", "--device", "gpu", "--json", "--output", str(prefix), *options]
        variables = {**os.environ, **({"CUFFT_LIBRARY": cufft} if cufft else {}), **settings}
        result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=variables)
        written = prefix.with_suffix(".json")
        return result, json.loads(written.read_text()) if written.exists() else None
    return started


@pytest.fixture(scope="module", autouse=True)
def needs_a_gpu_and_cufft(run, cufft):
    result, _ = run("--size", "8", "8", "8", "--exchange", "alltoallv")
    if result.returncode != 2:
        return
    if "--device gpu needs a GPU" in result.stderr or ("--device gpu needs cuFFT" in result.stderr and not cufft):
        pytest.skip(result.stderr.strip())


@pytest.mark.parametrize("decomposition", ("slab", "pencil"))
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_all_exchanges_give_the_spectrum_and_the_input_back(problem, decomposition, run):
    result, record = run("--decomposition", decomposition, "--iterations", "3", "--staged", *problem)
    assert result.returncode == 0 and record is not None, result
    assert set(record["runs"]) == {*EXCHANGES, *STAGED}
    assert record["machine"]["gpu"] and "cuda_runtime" in record["versions"] and all(place["gpu"] for place in record["binding"])
    for exchange, (each,) in record["runs"].items():
        assert each["right"] and each["spectrum_error"] < 1e-13 and each["input_error"] < 1e-13, f"{exchange}: {result.stdout}"
    # The same plans for the same planes: the numbers are the same, whoever moved them.
    assert len({each["input_error"] for (each,) in record["runs"].values()}) == 1, record["runs"]


@pytest.fixture(scope="module")
def reachable(given):
    """Skips where ranks have nothing to exchange, or some GPU does not reach all others, by handles of CUDA IPC."""
    if given["ranks"] == "1":
        pytest.skip("one rank has no peers")
    told = subprocess.run([*given.launcher(), given["program"], "info"], capture_output=True, text=True, timeout=LIMIT_S)
    assert told.returncode == 0, told
    gpus = re.findall(r"^  (GPU (\d+): .*)$", told.stdout, re.MULTILINE)
    numbers = {number for _, number in gpus}
    assert gpus, told.stdout
    for line, number in gpus:
        found = re.search(r", reaches ((?:\d+, )*\d+)", line)
        if set(found[1].split(", ") if found else []) != numbers - {number} or "without" in line:
            pytest.skip(f"the GPUs do not reach each other: {line}")


def test_collectives_go_from_gpu_to_gpu_and_partitions_by_link_mpi_only_where_they_are_staged(run, reachable):
    result, record = run("--size", "64", "64", "64", "--iterations", "2", "--staged", PARTITA_GPU_AWARE="on", PARTITA_VERBOSE="1")
    assert result.returncode == 0 and record is not None, result
    assert record["job"]["gpu_memory"]["by"] == "Partita" and not record["notes"], record
    assert all(way["by_peers"] for way in record["job"]["gpu_memory"]["collectives"].values()), record["job"]
    assert not re.findall(r".* on GPU memory goes through host memory.*", result.stderr), result.stderr
    links = {exchange: each.get("links") for exchange, (each,) in record["runs"].items()}
    assert links["partitioned-staged"] == ["mpi"] and "mpi" not in links["partitioned"], links


def test_a_library_that_is_not_there_is_named(run):
    result, record = run("--cufft", "/nonexistent/libcufft.so")
    assert result.returncode == 2 and record is None, result
    assert "--device gpu needs cuFFT" in result.stderr and "/nonexistent/libcufft.so" in result.stderr, result


def test_a_grid_that_no_gpu_holds_is_refused_before_it_is_begun(given, run):
    """Each rank's cells and buffers are three times 64 GiB; its host keeps the cells alone."""
    result, record = run("--size", str(4096 * int(given["ranks"])), "1024", "1024", "--exchange", "partitioned", "--no-verify")
    assert result.returncode == 2 and record is None, result
    if "which the system does not give it" in result.stderr:
        pytest.skip("this host has no memory for a grid that its GPUs do not hold")
    assert "bytes of the memory of one GPU, of which" in result.stderr, result
