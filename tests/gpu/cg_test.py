"""cg on GPUs from outside: every mode against the solution that one rank's thread finds on the host, and the known one. Ranks
may share GPUs."""

import json
import subprocess

import pytest

LIMIT_S = 150
MODES = ("traditional", "queue", "graph")
PROBLEMS = {
    "square": ["--size", "24", "24"],
    # Rows of which several thread blocks have a part, and ranks with different ones.
    "wide": ["--size", "9", "2000", "--batch", "25"],
    # A row for each rank of four, of an odd number of doubles.
    "narrow": ["--size", "4", "37", "--batch", "7"],
}


@pytest.fixture(scope="module")
def run(given, tmp_path_factory):
    """Runs the app: the finished process, and the record that it wrote (None if it wrote none)."""
    def started(*options):
        prefix = tmp_path_factory.mktemp("cg") / "out"
        command = [*given.launcher(), given["program"], "run", "cg", "--device", "gpu", "--json", "--output", str(prefix), *options]
        result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
        written = prefix.with_suffix(".json")
        return result, json.loads(written.read_text()) if written.exists() else None
    return started


@pytest.fixture(scope="module", autouse=True)
def needs_a_gpu(run):
    result, _ = run("--mode", "traditional", "--size", "8", "8")
    if result.returncode == 2 and "--device gpu needs a GPU" in result.stderr:
        pytest.skip(result.stderr.strip())


def expect_right(result, record, modes):
    assert result.returncode == 0 and record is not None, result
    assert set(record["runs"]) == set(modes)
    for mode, runs in record["runs"].items():
        for each in runs:
            assert each["right"] and each["difference_from_one_rank"] < 1e-10, f"mode {mode}: {result.stdout}"
            assert each["residuals"][0] == 1 and each["residuals"][-1] <= 1e-12, f"mode {mode}"


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_all_modes_find_the_solution_of_one_rank(problem, run):
    result, record = run("--repeat", "2", *problem)
    expect_right(result, record, MODES)
    # The same kernels in the same order: the numbers of a stream are those of its graph.
    assert record["runs"]["queue"][0]["residuals"] == record["runs"]["graph"][0]["residuals"]


def test_the_progress_engine_sums_in_the_queue_and_in_no_graph(run):
    result, record = run("--size", "12", "16", "--sums", "engine")
    expect_right(result, record, ("traditional", "queue"))
    assert "left out: mode graph" in result.stdout, result
    alone, _ = run("--mode", "graph", "--sums", "engine")
    assert alone.returncode == 2 and "--sums" in alone.stderr, alone
