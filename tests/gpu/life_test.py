"""life on GPUs from outside: every mode against the board that one rank plays. Ranks may share GPUs."""

import json
import subprocess

import pytest

LIMIT_S = 120
MODES = {"traditional", "staged-mpi", "queue-regular", "queue-ready", "graph-regular", "graph-ready", "in-kernel", "graph-in-kernel"}
# More generations than two graphs hold, and some left over: an even number, an odd one.
BOARDS = {
    "square": ["--size", "256", "256", "--generations", "46"],
    "bounded_and_odd": ["--size", "131", "77", "--boundary", "bounded", "--generations", "43"],
    "edges_of_many_blocks": ["--size", "64", "70000", "--generations", "40", "--no-picture"],
    "fewer_generations_than_a_graph_holds": ["--size", "40", "40", "--generations", "1"],
}


@pytest.fixture(scope="module")
def run(given, tmp_path_factory):
    """Runs the app: the finished process, and the record that it wrote (None if it wrote none)."""
    def started(*options):
        prefix = tmp_path_factory.mktemp("life") / "out"
        command = [*given.launcher(), given["program"], "run", "life", "--device", "gpu", "--json", "--output", str(prefix), *options]
        result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
        written = prefix.with_suffix(".json")
        return result, json.loads(written.read_text()) if written.exists() else None
    return started


@pytest.fixture(scope="module", autouse=True)
def gpu(run):
    result, _ = run("--mode", "traditional", "--size", "16", "16", "--generations", "1")
    if result.returncode == 2 and "--device gpu needs a GPU" in result.stderr:
        pytest.skip(result.stderr.strip())


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_all_modes_play_the_board_of_one_rank(board, run):
    result, record = run("--repeat", "2", *board)
    assert result.returncode == 0 and record is not None, result
    assert set(record["runs"]) == MODES
    for mode, runs in record["runs"].items():
        assert all(each["identical_to_one_rank"] for each in runs), f"mode {mode}: {result.stdout}"


def test_a_mode_of_the_host_is_refused(run):
    result, _ = run("--mode", "partitioned")
    assert result.returncode == 2 and "is no mode of --device gpu" in result.stderr, result
