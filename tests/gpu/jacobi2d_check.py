"""Checks jacobi2d on GPUs from outside: every mode against the solution of one rank's threads, cell by cell and bit by bit.

    jacobi2d_check.py PROGRAM RANKS LAUNCHER...      LAUNCHER is the command that starts a program on RANKS ranks

Ends with 77 where there is no GPU. Ranks may share GPUs, but for the modes that need one for each rank. Mode nccl must run
where an NCCL can be loaded (NCCL_LIBRARY, or by its name).
"""
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAM, RANKS, LAUNCHER = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
LIMIT_S = 120
SHARING_MODES = {"traditional", "traditional-device", "engine", "kernel"}
failures = []


def run(*options):
    """The finished process, and the record that it wrote (None if it wrote none)."""
    with tempfile.TemporaryDirectory() as folder:
        prefix = pathlib.Path(folder) / "out"
        command = [*LAUNCHER, PROGRAM, "run", "jacobi2d", "--no-picture", "--json", "--output", str(prefix), *options]
        result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
        written = prefix.with_suffix(".json")
        return result, json.loads(written.read_text()) if written.exists() else None


def expect(condition, what, result):
    if not condition:
        failures.append(f"{what}\n  {' '.join(result.args)}\n  exit code {result.returncode}\n  stdout: {result.stdout}\n"
                        f"  stderr: {result.stderr}")


def nccl_can_be_loaded():
    named = os.environ.get("NCCL_LIBRARY")
    for name in [named] if named else ["libnccl.so.2", "libnccl.so"]:
        try:
            ctypes.CDLL(name)
            return True
        except OSError as error:
            print(f"mode nccl is left out: {error}")
    return False


def skip_without_gpus():
    result, _ = run("--device", "gpu", "--mode", "traditional", "--size", "64", "64", "--max-iterations", "1")
    if result.returncode == 2 and "--device gpu needs a GPU" in result.stderr:
        print("skipped:", result.stderr.strip())
        sys.exit(77)
    return "a GPU for each rank" in result.stdout


def check_plate(gpu_each, *plate):
    """All modes come to the same number of iterations, residual and cells as the threads of one process."""
    cpu, expected = run("--mode", "nonblocking", "--threads", "1", *plate)
    result, record = run("--device", "gpu", "--reference", "cpu", *plate)
    name = " ".join(plate)
    expect(cpu.returncode == 0 and expected is not None, f"{name}: the CPU solves it", cpu)
    expect(result.returncode == 0 and record is not None, f"{name}: every mode solves it", result)
    if expected is None or record is None:
        return
    want = expected["runs"]["nonblocking"][0]
    modes = set(SHARING_MODES)
    if gpu_each:
        modes |= {"persistent-kernel", "nccl"} if with_nccl else {"persistent-kernel"}
    expect("nccl" in modes or "left out: mode nccl" in result.stdout, f"{name}: nccl runs, or is said to be left out", result)
    expect(modes <= set(record["runs"]), f"{name}: {', '.join(sorted(modes))} run", result)
    for mode, runs in record["runs"].items():
        for key in ("iterations", "converged", "residual"):
            expect(runs[0][key] == want[key], f"{name}: mode {mode} has the {key} {want[key]}", result)
        expect(runs[0]["identical_to_one_rank"], f"{name}: mode {mode} computes the same bits", result)


def check_plates(gpu_each):
    # As many iterations as leave every set of halos, and either field, the last one.
    for iterations in (1, 2, 3, 4, 5, 6, 7):
        check_plate(gpu_each, "--size", "67", "93", "--tolerance", "0", "--max-iterations", str(iterations))
    check_plate(gpu_each, "--size", "67", "93", "--tolerance", "0", "--max-iterations", "24", "--check-every", "1")
    # Stops by tolerance, between two multiples of nothing.
    check_plate(gpu_each, "--size", "96", "128", "--tolerance", "1e-3", "--check-every", "7")
    # Halos of several partitions, on rows alone, on columns alone and on both; sizes that leave blocks different.
    check_plate(gpu_each, "--size", "512", "768", "--tolerance", "0", "--max-iterations", "101", "--partitions", "16")
    check_plate(gpu_each, "--size", "1023", "640", "--tolerance", "0", "--max-iterations", "50", "--ranks", str(RANKS), "1",
                "--partitions", "5")
    check_plate(gpu_each, "--size", "640", "1023", "--tolerance", "0", "--max-iterations", "50", "--ranks", "1", str(RANKS),
                "--partitions", "5")
    # More tiles than thread blocks that stay, and halos longer than a thread block.
    check_plate(gpu_each, "--size", "3000", "2600", "--tolerance", "0", "--max-iterations", "20", "--check-every", "10")


def check_refusals():
    result, _ = run("--device", "gpu", "--mode", "nccl", "--nccl", "/nowhere/libnccl.so")
    expect(result.returncode == 2 and "nccl" in result.stderr, "an NCCL that is not there is an error", result)


gpu_for_each_rank = skip_without_gpus()
with_nccl = nccl_can_be_loaded()
check_plates(gpu_for_each_rank)
check_refusals()
for failure in failures:
    print("FAILED:", failure)
sys.exit(1 if failures else 0)
