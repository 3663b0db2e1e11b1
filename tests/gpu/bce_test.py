"""bce on GPUs from outside: every mode against the weights that one rank's thread trains. Ranks may share GPUs, but for mode
nccl, which must run where an NCCL can be loaded (NCCL_LIBRARY, or by its name) and each rank has a GPU."""

import json
import os
import subprocess

import pytest

from gpus import nccl_can_be_loaded

LIMIT_S = 120
SHARING_MODES = {"traditional", "schedule", "in-kernel", "resident"}
SHARING_MODES_ON_TWO_NODES = {"traditional", "schedule", "two-level"}
PROBLEMS = {
    "one_partition": ["--samples", "100", "--features", "64", "--partitions", "1"],
    "many_partitions": ["--samples", "1000", "--features", "4096", "--partitions", "64"],
    # Parts that are no whole runs of a warp, and fewer samples than warps.
    "odd": ["--samples", "13", "--features", "693", "--partitions", "7"],
    # More parts than thread blocks that stay.
    "more_parts_than_blocks": ["--samples", "64", "--features", "8192", "--partitions", "2048"],
}


@pytest.fixture(scope="module")
def run(given, tmp_path_factory):
    """Runs the app: the finished process, and the record that it wrote (None if it wrote none)."""
    def started(*options):
        prefix = tmp_path_factory.mktemp("bce") / "out"
        command = [*given.launcher(), given["program"], "run", "bce", "--device", "gpu", "--json", "--output", str(prefix), *options]
        result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
        written = prefix.with_suffix(".json")
        return result, json.loads(written.read_text()) if written.exists() else None
    return started


@pytest.fixture(scope="module")
def modes(run):
    """Those that must run here."""
    result, _ = run("--mode", "traditional", "--samples", "64", "--features", "16", "--steps", "2")
    if result.returncode == 2 and "--device gpu needs a GPU" in result.stderr:
        pytest.skip(result.stderr.strip())
    alone = "a GPU for each rank" in result.stdout
    sharing = SHARING_MODES_ON_TWO_NODES if os.environ.get("PARTITA_NODES") == "2" else SHARING_MODES
    return sharing | ({"nccl"} if alone and nccl_can_be_loaded() else set())


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_all_modes_train_the_weights_of_one_rank(problem, modes, run):
    result, record = run("--steps", "30", "--repeat", "2", *problem)
    assert result.returncode == 0 and record is not None, result
    assert "nccl" in modes or "left out: mode nccl" in result.stdout, f"nccl runs, or is said to be left out: {result}"
    assert modes <= set(record["runs"]) | ({"two-level"} if "mode two-level needs features that divide" in result.stdout else set())
    losses = record["runs"]["traditional"][0]["losses"]
    for mode, runs in record["runs"].items():
        for each in runs:
            assert each["equal_to_one_rank"] and each["difference_from_one_rank"] < 1e-6, f"mode {mode}: {result.stdout}"
            assert each["losses"] == pytest.approx(losses, rel=1e-9), f"mode {mode}"


def test_an_nccl_that_is_not_there_is_an_error(modes, run):
    result, _ = run("--mode", "nccl", "--nccl", "/nowhere/libnccl.so")
    assert result.returncode == 2 and "nccl" in result.stderr, result
