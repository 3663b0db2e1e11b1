"""jacobi2d on GPUs from outside: every mode against the solution of one rank's threads, cell by cell and bit by bit. Ranks may
share GPUs, but for the modes that need one for each rank. Mode nccl must run where an NCCL can be loaded (NCCL_LIBRARY, or by
its name)."""

import json
import subprocess

import pytest

from gpus import nccl_can_be_loaded

LIMIT_S = 120
SHARING_MODES = {"traditional", "traditional-device", "engine", "kernel"}
# As many iterations as leave every set of halos, and either field, the last one.
PLATES = {f"{iterations}_iterations": ["--size", "67", "93", "--tolerance", "0", "--max-iterations", str(iterations)]
          for iterations in (1, 2, 3, 4, 5, 6, 7)}
PLATES |= {
    "checked_every_iteration": ["--size", "67", "93", "--tolerance", "0", "--max-iterations", "24", "--check-every", "1"],
    # Between two multiples of nothing.
    "stops_by_tolerance": ["--size", "96", "128", "--tolerance", "1e-3", "--check-every", "7"],
    # Halos of several partitions, on rows alone, on columns alone and on both; sizes that leave blocks different.
    "halos_of_partitions": ["--size", "512", "768", "--tolerance", "0", "--max-iterations", "101", "--partitions", "16"],
    "rows_alone": ["--size", "1023", "640", "--tolerance", "0", "--max-iterations", "50", "--ranks", "RANKS", "1", "--partitions", "5"],
    "columns_alone": ["--size", "640", "1023", "--tolerance", "0", "--max-iterations", "50", "--ranks", "1", "RANKS",
                      "--partitions", "5"],
    # More tiles than thread blocks that stay, and halos longer than a thread block.
    "many_tiles": ["--size", "3000", "2600", "--tolerance", "0", "--max-iterations", "20", "--check-every", "10"],
}


@pytest.fixture(scope="module")
def run(given, tmp_path_factory):
    """Runs the app: the finished process, and the record that it wrote (None if it wrote none)."""
    def started(*options):
        prefix = tmp_path_factory.mktemp("jacobi2d") / "out"
        command = [*given.launcher(), given["program"], "run", "jacobi2d", "--no-picture", "--json", "--output", str(prefix), *options]
        result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
        written = prefix.with_suffix(".json")
        return result, json.loads(written.read_text()) if written.exists() else None
    return started


@pytest.fixture(scope="module")
def modes(run):
    """Those that must run here."""
    result, _ = run("--device", "gpu", "--mode", "traditional", "--size", "64", "64", "--max-iterations", "1")
    if result.returncode == 2 and "--device gpu needs a GPU" in result.stderr:
        pytest.skip(result.stderr.strip())
    if "a GPU for each rank" not in result.stdout:
        return SHARING_MODES
    return SHARING_MODES | {"persistent-kernel"} | ({"nccl"} if nccl_can_be_loaded() else set())


@pytest.mark.parametrize("plate", PLATES.values(), ids=PLATES)
def test_all_modes_come_to_the_same_as_the_threads_of_one_process(plate, modes, run, given):
    """The number of iterations, the residual and the cells."""
    options = [given["ranks"] if word == "RANKS" else word for word in plate]
    cpu, expected = run("--mode", "nonblocking", "--threads", "1", *options)
    assert cpu.returncode == 0 and expected is not None, f"the CPU solves it: {cpu}"
    result, record = run("--device", "gpu", "--reference", "cpu", *options)
    assert result.returncode == 0 and record is not None, f"every mode solves it: {result}"
    assert "nccl" in modes or "left out: mode nccl" in result.stdout, f"nccl runs, or is said to be left out: {result}"
    assert modes <= set(record["runs"])
    want = expected["runs"]["nonblocking"][0]
    for mode, runs in record["runs"].items():
        for key in ("iterations", "converged", "residual"):
            assert runs[0][key] == want[key], f"{key} of mode {mode}"
        assert runs[0]["identical_to_one_rank"], f"mode {mode} computes other bits: {result.stdout}"


def test_an_nccl_that_is_not_there_is_an_error(modes, run):
    result, _ = run("--device", "gpu", "--mode", "nccl", "--nccl", "/nowhere/libnccl.so")
    assert result.returncode == 2 and "nccl" in result.stderr, result
