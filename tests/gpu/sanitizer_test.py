"""A GPU test under a tool of compute-sanitizer, a sanitizer for each rank, wants a clean report from each. Which cases of it run
tells GTEST_FILTER. `launcher=none` starts a test of one process."""

import os
import re
import shutil
import signal
import subprocess

import pytest

from gpus import gpu_count

SKIPPED_EXIT_CODE = 77  # of the test
LIMIT_S = max(20, int(os.environ.get("PARTITEST_LIMIT", "300")) - 15)
FOUND_EXIT_CODE = 99
CLEAN = {"memcheck": r"ERROR SUMMARY: 0 errors", "synccheck": r"ERROR SUMMARY: 0 errors",
         "racecheck": r"RACECHECK SUMMARY: 0 hazards"}
MOST_LINES = 400
NEEDED = int(os.environ.get("PARTITEST_GPUS", "1"))


@pytest.fixture
def sanitizer(given):
    """The program; CUDA's folder is looked at beside PATH."""
    found = shutil.which("compute-sanitizer", path=os.pathsep.join([given["cuda_bin"], os.environ.get("PATH", "")]))
    return found or pytest.skip("compute-sanitizer is neither on PATH nor beside nvcc")


def run(command):
    """Exit code (None past the limit) and output of the job, which ends whole."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True)
    try:
        output, _ = process.communicate(timeout=LIMIT_S)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return None, output


@pytest.mark.skipif(gpu_count() < NEEDED, reason=f"needs {NEEDED} GPUs, this machine has {gpu_count()} (compute-sanitizer does "
                    "not run under the multi-process service)")
def test_the_tool_finds_nothing(given, sanitizer):
    tool, ranks = given["tool"], int(given["ranks"])
    launcher = [] if given.get("launcher", "") == "none" else given.launcher()
    # The tests fail calls of CUDA on purpose; what they make of that is theirs to check.
    code, output = run([*launcher, sanitizer, "--tool", tool, "--target-processes", "all", "--report-api-errors", "no",
                        "--error-exitcode", str(FOUND_EXIT_CODE), given["program"]])
    print("\n".join(output.splitlines()[-MOST_LINES:]))
    if code == SKIPPED_EXIT_CODE:
        pytest.skip(reason_in(output))
    assert code is not None, f"it did not end within {LIMIT_S} s"
    assert code != FOUND_EXIT_CODE, f"{tool} found something"
    assert code == 0
    assert len(re.findall(CLEAN[tool], output)) == ranks, "a clean report for each process"
    assert re.search(r"\[  PASSED  \] [1-9]\d* test", output), "some case passed"


def reason_in(output):
    """Why the test under the tool skipped itself."""
    said = re.search(r"(?m)^skipped: (.*)$", output) or re.search(r"(?m): Skipped\n(\S.*)$", output)
    return said[1] if said else "every case of the test was skipped"
