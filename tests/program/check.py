"""Checks the program partita from outside: exit codes, where errors go, and what info tells.

    check.py PROGRAM RANKS LAUNCHER...      LAUNCHER is the command that starts a program on RANKS ranks
"""
import os
import subprocess
import sys

PROGRAM, RANKS, LAUNCHER = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
LIMIT_S = 60
failures = []


def run(*arguments, **environment):
    return subprocess.run([*LAUNCHER, PROGRAM, *arguments], capture_output=True, text=True, timeout=LIMIT_S,
                          env={**os.environ, **environment})


def expect(condition, what, result):
    if not condition:
        failures.append(f"{what}\n  exit code {result.returncode}\n  stdout: {result.stdout}\n  stderr: {result.stderr}")


def check_help():
    result = run("--help")
    expect(result.returncode == 0, "--help ends with 0", result)
    for name in ("run", "info"):
        expect(f"\n  {name} " in result.stdout, f"--help lists {name}", result)
    expect(result.stdout.count("Usage:") == 1, "--help is printed by one rank", result)
    apps = run("run", "--help")
    expect(apps.returncode == 0 and "jacobi2d" in apps.stdout, "run --help lists the apps", apps)


def check_wrong_commands():
    for arguments in ([], ["frobnicate"], ["run"], ["run", "frobnicate"], ["info", "--frobnicate"], ["info", "leftover"],
                      ["run", "jacobi2d", "--frobnicate"], ["run", "jacobi2d", "--mode", "kernel"],
                      ["run", "jacobi2d", "--device", "gpu", "--mode", "nonblocking"],
                      ["run", "jacobi2d", "--reference", "gpu"], ["run", "jacobi2d", "--multiplier", "2"]):
        result = run(*arguments)
        name = " ".join(["partita", *arguments])
        expect(result.returncode == 2, f"{name} ends with 2", result)
        expect("partita" in result.stderr or "jacobi2d" in result.stderr, f"{name} says what is wrong", result)
        if arguments and arguments[-1] in ("frobnicate", "--frobnicate", "leftover"):
            word = arguments[-1]
            expect(result.stderr.count(word) == 1, f"{name} names {word}, once", result)


def check_info():
    result = run("info")
    expect(result.returncode == 0, "info ends with 0", result)
    expect(f"job: {RANKS} rank" in result.stdout, "info counts the ranks", result)
    expect("MPI_THREAD_" in result.stdout, "info tells the thread level", result)
    expect("PARTITA_LINK " in result.stdout, "info tells the settings", result)
    expect("every rank to itself" in result.stdout, "info tells the link of a rank to itself", result)
    expect("GPUs of rank" in result.stdout, "info tells each rank's GPUs", result)
    if "GPU 0: " in result.stdout:
        links = [line for line in result.stdout.splitlines() if " transfer" in line]
        expect(any(" GPU " in line for line in links), "info tells the links of GPU memory", result)
        expect(any(" GPU pool " in line for line in links), "info tells the link of memory from pools", result)
    else:
        expect("no GPUs: " in result.stdout, "info tells why there are no GPUs", result)
    if RANKS > 1:
        expect("every rank to the others of its node" in result.stdout, "info tells the links of a node", result)
    forced = run("info", PARTITA_LINK="mpi")
    links = [line for line in forced.stdout.splitlines() if " transfer" in line and line.startswith("    ")]
    expect(forced.returncode == 0 and links, "info runs with PARTITA_LINK=mpi", forced)
    expect(all(" mpi " in line for line in links), "PARTITA_LINK=mpi decides for every pair", forced)
    expect("every rank to itself" in forced.stdout, "info groups pairs whose reasons name their ranks", forced)


def check_wrong_setting():
    result = run("info", PARTITA_FROBNICATE="1")
    expect(result.returncode != 0, "an unknown setting is an error", result)
    expect("PARTITA_FROBNICATE" in result.stderr + result.stdout, "the error names the setting", result)


for check in (check_help, check_wrong_commands, check_info, check_wrong_setting):
    check()
for failure in failures:
    print("FAILED:", failure)
sys.exit(1 if failures else 0)
