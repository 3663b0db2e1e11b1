#!/usr/bin/env python3
"""Runs a GPU test under a tool of compute-sanitizer, a sanitizer for each rank, and wants a clean report from each.

    sanitizer_check.py TOOL BIN_DIR PROGRAM RANKS LAUNCHER...    TOOL: memcheck, racecheck or synccheck
                                                                 BIN_DIR: where CUDA's programs lie, beside PATH
                                                                 LAUNCHER: none for a test of one process

Which cases run tells GTEST_FILTER. Ends with 77 where compute-sanitizer or the GPUs are missing."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

TOOL, BIN_DIR, PROGRAM, RANKS, LAUNCHER = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5:]
LIMIT_S = max(20, int(os.environ.get("PARTITEST_LIMIT", "300")) - 15)
FOUND_EXIT_CODE = 99
CLEAN = {"memcheck": r"ERROR SUMMARY: 0 errors", "synccheck": r"ERROR SUMMARY: 0 errors",
         "racecheck": r"RACECHECK SUMMARY: 0 hazards"}[TOOL]
MOST_LINES = 400


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def sanitizer():
    found = shutil.which("compute-sanitizer", path=os.pathsep.join([BIN_DIR, os.environ.get("PATH", "")]))
    return found or skip("compute-sanitizer is neither on PATH nor beside nvcc")


def gpu_count():
    gpus = pathlib.Path("/proc/driver/nvidia/gpus")
    return len(list(gpus.iterdir())) if gpus.exists() else 0


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


def main():
    # The tests fail calls of CUDA on purpose; what they make of that is theirs to check.
    command = [*LAUNCHER, sanitizer(), "--tool", TOOL, "--target-processes", "all", "--report-api-errors", "no",
               "--error-exitcode", str(FOUND_EXIT_CODE), PROGRAM]
    needed = int(os.environ.get("PARTITEST_GPUS", "1"))
    if gpu_count() < needed:
        skip(f"needs {needed} GPUs, this machine has {gpu_count()} (compute-sanitizer does not run under the multi-process service)")
    code, output = run(command)
    lines = output.splitlines()
    print("\n".join(lines[-MOST_LINES:]))
    if code == 77:
        sys.exit(77)
    wrong = []
    if code is None:
        wrong.append(f"it did not end within {LIMIT_S} s")
    elif code != 0:
        wrong.append(f"exit code {code}" + (" (the tool found something)" if code == FOUND_EXIT_CODE else ""))
    clean = len(re.findall(CLEAN, output))
    if clean != RANKS:
        wrong.append(f"{clean} clean reports of {TOOL}, expected is one for each of {RANKS} processes")
    if not re.search(r"\[  PASSED  \] [1-9]\d* test", output):
        wrong.append("no case passed")
    for sentence in wrong:
        print(f"FAILED: {TOOL}: {sentence}")
    sys.exit(1 if wrong else 0)


main()
