#!/usr/bin/env python3
"""Measures the GPU requests on two GPUs: a JSON file with all samples and a CSV summary a benchmark in a folder, and a table of what
is to be reached (goals.csv). Pages quote the summaries (pages.py); the JSON stays out of the repository.

  bench/gpu_measure.py --program build/cuda/bin/partita --output docs/measurements/NAME
                       [--mpirun "mpirun -n 2"] [--nccl PATH|none] [--nvshmem PATH] [--only NAME]... [--quick] [--tune]
                       [--only transport-sweep] [--gpu-aware-mpi]
  bench/gpu_measure.py --from docs/measurements/NAME

One process a GPU. NCCL is taken from --nccl, or from the wheel of the Python that runs this; NVSHMEM from --nvshmem, the path
of libpartita_bench_nvshmem.so, and from that wheel. --tune adds a search for the blocks and threads of the bandwidth;
--only transport-sweep takes fig4 with 1 to 64 transport partitions, from which the library's choice of them is made.
--gpu-aware-mpi measures MPI_Send of GPU memory in fig4, by an MPI that knows such memory (it is not left out where that
fails). --from measures nothing and judges a folder that was measured before. A run that fails with a peer is
repeated without it. One that fails without is named in the table and in the exit status.
"""

import argparse
import collections
import importlib.util
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time

import goals
from partita_report.results import keep_summaries, read_figures

RUN_LIMIT_S = 240
SWEEP = "transport-sweep"
SWEPT = (1, 2, 4, 8, 16, 32, 64)  # transport partitions
MIB = 1024 * 1024

Run = collections.namedtuple("Run", "name arguments")


# ---- Running ----------------------------------------------------------------------------------------------------------


def wheel_library(package, name):
    """The library `name` in the wheel of the Python package `package`; None where there is none."""
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        spec = None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        library = pathlib.Path(folder) / "lib" / name
        if library.exists():
            return library
    return None


def environment():
    """Where NVSHMEM's parts find one another."""
    host_library = wheel_library("nvidia.nvshmem", "libnvshmem_host.so.3")
    known = os.environ.get("LD_LIBRARY_PATH", "")
    if host_library is None:
        return dict(os.environ)
    return dict(os.environ, LD_LIBRARY_PATH=":".join(filter(None, [known, str(host_library.parent)])))


def planned_runs(options):
    nccl = ["--nccl", options.nccl]
    nvshmem = ["--nvshmem", options.nvshmem] if options.nvshmem else []
    gpu_aware_mpi = ["--gpu-aware-mpi"] if options.gpu_aware_mpi else []
    samples = ["-i", "10", "-x", "2"] if options.quick else []
    runs = [
        Run("latency", ["partitioned.latency", *nccl, *nvshmem, *samples]),
        Run("bandwidth", ["partitioned.bandwidth", *nccl, *nvshmem, *samples]),
        Run("fig3", ["partitioned.fig3", *nvshmem, *samples]),
        Run("table1", ["partitioned.table1", *nccl, *nvshmem]),
        Run("progress", ["partitioned.progress"]),
        Run("fig4", ["partitioned.fig4", *nccl, *nvshmem, *gpu_aware_mpi, *samples]),
        Run("fig2", ["partitioned.fig2", *samples]),
        Run("fig8", ["partitioned.fig8", *nccl, *(["-m", "2K:16K", "-i", "3"] if options.quick else [])]),
        Run("fig5", ["partitioned.fig5", "-m", "8K:64M" if options.quick else "8K:256M", *(samples or ["-i", "20"])]),
    ]
    if options.tune:
        runs.append(Run("bandwidth-tuning", ["partitioned.bandwidth", "-m", "1M:64M", "--blocks", "64,128,256",
                                             "--block-threads", "256,512,1024", "--nccl", "none", "-i", "10"]))
    if SWEEP in options.only:
        runs += [Run(f"{SWEEP}-{count}", ["partitioned.fig4", "-m", "1M:256M", "--transport-partitions", str(count),
                                          "--nccl", "none", "-i", "10", "-x", "2"])
                 for count in SWEPT]
    return [run for run in runs if not options.only or run.name in options.only or run.name.startswith(SWEEP)]


def shown_command(options, run):
    """The command for readers: without this machine's paths."""
    arguments = [re.sub(r"^/.*/", "", argument) for argument in run.arguments]
    launcher = shlex.split(options.mpirun)
    launcher[0] = pathlib.Path(launcher[0]).name
    return f"{shlex.join(launcher)} partita bench {shlex.join(arguments)} --json {run.name}.json"


def without(run, peer):
    """The run without the option `peer` and its value; the same run where it has none."""
    if peer not in run.arguments:
        return run
    at = run.arguments.index(peer)
    left_out = ["--nccl", "none"] if peer == "--nccl" else []
    return Run(run.name, [*run.arguments[:at], *run.arguments[at + 2:], *left_out])


def measure_with_peers(options, run):
    """True if the run ended well, if need be without the peers."""
    tries = [run, without(run, "--nvshmem"), without(without(run, "--nvshmem"), "--nccl")]
    for number, each in enumerate(tries):
        if each not in tries[:number] and measure(options, each):
            return True
    return False


def measure(options, run):
    """True if the run ended well; its JSON file is then in the output folder."""
    print(f"\n== {run.name}: {shown_command(options, run)}", flush=True)
    file = options.output / f"{run.name}.json"
    file.unlink(missing_ok=True)
    command = [*shlex.split(options.mpirun), options.program, "bench", *run.arguments, "--json", str(file)]
    begin = time.monotonic()
    process = subprocess.Popen(command, start_new_session=True, env=environment())
    try:
        code = process.wait(timeout=RUN_LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        print(f"== {run.name}: did not end within {RUN_LIMIT_S} s", flush=True)
        return False
    print(f"== {run.name}: {time.monotonic() - begin:.0f} s, exit status {code}", flush=True)
    return code == 0 and file.exists()


# ---- What is to be reached --------------------------------------------------------------------------------------------


def figures_of(folder):
    """By name; of a figure that has both, the summary counts, which pages quote."""
    files = {file.stem: file for ending in ("json", "csv") for file in sorted(folder.glob(f"*.{ending}"))}
    return {name: figure for name, file in files.items() for figure in read_figures([file])}


def summary(figures):
    """The goals (goals.csv) of the figures that are there."""
    lines = [f"{'benchmark':<10} {'measure':<60} {'reach':>14} {'measured':>10}"]
    for goal in goals.read_goals().values():
        if goal.figure in figures:
            judged = goals.judge(goal, figures[goal.figure])
            shown = f"{goals.worst_value(judged):.2f}" if judged.values else "-"
            lines.append(f"{goal.figure:<10} {goal.what:<60} {f'{goal.reach[:2]} {goal.reach[2:]} {goal.unit}'.strip():>14} {shown:>10}  "
                         f"{judged.said}")
    return "\n".join(lines) + "\n" + sweep_tables(figures)


def sweep_tables(found):
    """Of each mode a table in GB/s, sizes down and transport partitions across; empty without a sweep."""
    counts = [count for count in SWEPT if f"{SWEEP}-{count}" in found]
    text = ""
    for subject in ("engine", "kernel", "traditional") if counts else ():
        medians = {(point.size, count): point.median for count in counts for point in found[f"{SWEEP}-{count}"].points
                   if point.subject == subject}
        text += f"\n{subject}, GB/s" + "".join(f"{count:>8}" for count in counts) + "\n"
        for size in sorted({size for size, _ in medians}):
            cells = "".join(f"{medians.get((size, count), float('nan')):>8.1f}" for count in counts)
            text += f"{f'{size // MIB} MiB':>{len(subject) + 6}}{cells}\n"
    return text


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--from", dest="measured", metavar="FOLDER", type=pathlib.Path)
    parser.add_argument("--mpirun", default="mpirun -n 2")
    parser.add_argument("--nccl", default=None)
    parser.add_argument("--nvshmem", default=None)
    parser.add_argument("--gpu-aware-mpi", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tune", action="store_true")
    options = parser.parse_args()
    if options.measured is None and not (options.program and options.output):
        parser.error("--program and --output are needed, or --from")
    if options.measured is not None and not options.measured.is_dir():
        parser.error(f"--from {options.measured}: there is no such folder")
    options.nccl = options.nccl or str(wheel_library("nvidia.nccl", "libnccl.so.2") or "auto")
    return options


def main():
    options = parse_arguments()
    if options.measured:
        print(summary(figures_of(options.measured)), end="")
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    runs = planned_runs(options)
    failed = [run for run in runs if not measure_with_peers(options, run)]
    keep_summaries(options.output, [run.name for run in runs if run not in failed])
    text = summary(figures_of(options.output))
    text += "".join(f"failed: {shown_command(options, run)}\n" for run in failed)
    (options.output / "summary.txt").write_text(text)
    print(f"\n{text}", end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
