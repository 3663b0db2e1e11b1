"""Checks the program partita from outside: exit codes, where errors go, and what info tells.

    check.py [--gpu] PROGRAM RANKS LAUNCHER...      LAUNCHER is the command that starts a program on RANKS ranks

With --gpu only what info tells of GPU memory, which must be there; ends with 77 on a machine without GPUs.
"""
import os
import pathlib
import re
import subprocess
import sys

ARGUMENTS = [word for word in sys.argv[1:] if word != "--gpu"]
ON_GPU = len(ARGUMENTS) < len(sys.argv) - 1
PROGRAM, RANKS, LAUNCHER = ARGUMENTS[0], int(ARGUMENTS[1]), ARGUMENTS[2:]
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
    if "\n  bench " in result.stdout:
        latency = run("bench", "latency", "--help")
        expect(latency.returncode == 0 and "--json" in latency.stdout, "help of a benchmark goes on to --json", latency)
        fig4 = run("bench", "partitioned.fig4", "--help")
        expect(fig4.returncode == 0 and ("no CUDA" in fig4.stdout) != ("--json" in fig4.stdout),
               "help of a GPU benchmark lists its options, or says why it cannot", fig4)


def check_version():
    result = run("--version")
    expect(result.returncode == 0 and re.fullmatch(r"partita \d+\.\d+\.\d+ \(revision [-A-Za-z0-9._+/]+\)\n", result.stdout),
           "--version tells the version and the revision, once", result)


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


def link_lines(result):
    """What info tells of each link, as (memory, line), under what its pairs of ranks are called."""
    groups, group = {}, None
    for line in result.stdout.splitlines():
        if line.startswith("    ") and " transfer" in line:
            groups.setdefault(group, []).append((line[11:25].strip(), line))
        elif line.startswith("  "):
            group = line.strip()
    return groups


def check_gpu_links(result):
    groups = link_lines(result)
    expect(len(groups) == min(RANKS, 2), "info groups the ranks' pairs by themselves and others", result)
    for pairs, lines in groups.items():
        own = pairs == "every rank to itself"
        plain = [line for memory, line in lines if memory == "GPU"]
        pool = [line for memory, line in lines if memory == "GPU pool"]
        expect(len(plain) == 2, f"info tells the links of GPU memory, two sizes, from {pairs}", result)
        if own or "reaches no other" not in result.stdout:
            expect(all(" direct " in line and "maps the receive buffer" in line for line in plain),
                   f"GPU memory is mapped, from {pairs}", result)
        expect(len(pool) == 1, f"info tells the link of memory from pools, from {pairs}", result)
        if own:
            expect(all("maps the receive buffer" in line for line in pool), "a rank writes its own pool", result)
        else:
            expect(all("staged in host memory, since" in line and "stream-ordered pool (cudaMallocAsync)" in line
                       for line in pool), "info tells why memory of a pool is staged", result)


def check_info_on_gpus():
    result = run("info")
    expect(result.returncode == 0, "info ends with 0", result)
    expect("GPU 0: " in result.stdout, "info sees the GPUs of this machine", result)
    check_gpu_links(result)
    forced = run("info", PARTITA_LINK="mpi")
    lines = [line for lines in link_lines(forced).values() for memory, line in lines if memory.startswith("GPU")]
    expect(forced.returncode == 0 and lines, "info tells the links of GPU memory with PARTITA_LINK=mpi", forced)
    expect(all(" mpi " in line for line in lines), "PARTITA_LINK=mpi decides for GPU memory too", forced)


def check_info():
    result = run("info")
    expect(result.returncode == 0, "info ends with 0", result)
    expect(f"job: {RANKS} rank" in result.stdout, "info counts the ranks", result)
    expect("MPI_THREAD_" in result.stdout, "info tells the thread level", result)
    expect("PARTITA_LINK " in result.stdout, "info tells the settings", result)
    expect("every rank to itself" in result.stdout, "info tells the link of a rank to itself", result)
    expect("GPUs of rank" in result.stdout, "info tells each rank's GPUs", result)
    if "GPU 0: " in result.stdout:
        check_gpu_links(result)
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
    result = run("info", PARTITA_PARTITIONS="many")
    expect(result.returncode != 0, "a wrong value is an error", result)
    expect("PARTITA_PARTITIONS=many" in result.stderr + result.stdout, "the error names the setting", result)
    result = run("info", PARTITA_FROBNICATE="1")
    expect(result.returncode == 0, "an unknown setting is no error", result)
    expect("PARTITA_FROBNICATE" in result.stderr + result.stdout, "the warning names the setting", result)


if ON_GPU and not any(pathlib.Path("/proc/driver/nvidia/gpus").glob("*")):
    print("skipped: needs a GPU, this machine has none")
    sys.exit(77)
on_hosts = [check_help, check_version, check_wrong_commands, check_info, check_wrong_setting]
for check in [check_info_on_gpus] if ON_GPU else on_hosts:
    check()
for failure in failures:
    print("FAILED:", failure)
sys.exit(1 if failures else 0)
