#!/usr/bin/env python3
"""Measures the GPU requests on two GPUs: one JSON file a benchmark in a folder, a table of what is to be reached, and the tables
of the folder's page (gpu_page.py).

  bench/gpu_measure.py --program build/cuda/bin/partita --output docs/measurements/NAME
                       [--mpirun "mpirun -n 2"] [--nccl PATH|none] [--nvshmem PATH] [--only NAME]... [--quick] [--tune]
                       [--only transport-sweep] [--gpu-aware-mpi]
  bench/gpu_measure.py --from docs/measurements/NAME [--only NAME]...

One process a GPU. NCCL is taken from --nccl, or from the wheel of the Python that runs this; NVSHMEM from --nvshmem, the path
of libpartita_bench_nvshmem.so, and from that wheel. --tune adds a search for the blocks and threads of the bandwidth;
--only transport-sweep takes fig4 with 1 to 64 transport partitions, from which the library's choice of them is made.
--gpu-aware-mpi measures MPI_Send of GPU memory in fig4, by an MPI that knows such memory (it is not left out where that
fails). --from measures nothing and prints all tables of a folder that was measured before. A run that fails with a peer is
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

import gpu_page

RUN_LIMIT_S = 240
SWEEP = "transport-sweep"
SWEPT = (1, 2, 4, 8, 16, 32, 64)  # transport partitions
KIB = 1024
MIB = 1024 * 1024

Run = collections.namedtuple("Run", "name arguments")
Goal = collections.namedtuple("Goal", "run what reach larger_is_better find")


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


def rows_of(rows, subject, at=lambda size: True):
    return [row for row in rows if row["subject"] == subject and at(row["bytes"])]


def worst_median(subject, at, gpu_copy):
    """The largest median of `subject` among the sizes that `at` takes; None where one of them did not go by `gpu_copy`."""
    def find(rows):
        own = rows_of(rows, subject, at)
        as_meant = all(row["gpu_copy"] == gpu_copy for row in own)
        return max((row["median"] for row in own), default=None) if as_meant else None
    return find


def smallest_best_put(at):
    """Of the grids at each size the best one; of the sizes the worst."""
    def find(rows):
        best = collections.defaultdict(float)
        for row in rows:
            if row["subject"].startswith("put-") and at(row["bytes"]):
                best[row["bytes"]] = max(best[row["bytes"]], row["median"])
        return min(best.values(), default=None)
    return find


def metric(subject, choose):
    """The metric of `subject` at the sizes that `choose` leaves, the worst of them."""
    def find(rows):
        own = sorted(rows_of(rows, subject), key=lambda row: row["bytes"])
        return min((row["metric"] for row in choose(own)), default=None)
    return find


def halo_share(rows, size):
    """Of a step of mode traditional, what it takes beyond computing."""
    medians = {row["subject"]: row["median"] for row in rows if row["bytes"] == size}
    return 1 - medians["traditional"] / medians["sweeps-alone"]


def worst_best_over(peer, at=lambda rows, size: True):
    """At each size that `at` takes the best mode of Partita over `peer`; of the sizes the worst."""
    def find(rows):
        theirs = {row["bytes"]: row["median"] for row in rows_of(rows, peer)}
        best = collections.defaultdict(float)
        for row in rows:
            if row["subject"] in ("engine", "kernel", "persistent-kernel"):
                best[row["bytes"]] = max(best[row["bytes"]], row["median"])
        return min((best[size] / median for size, median in theirs.items() if at(rows, size)), default=None)
    return find


def where_halos_cost(rows, size):
    return halo_share(rows, size) >= 0.1


def worst_of_most(subject, value):
    """`value` of `subject` with the most partitions."""
    def find(rows):
        own = sorted(rows_of(rows, subject), key=lambda row: row["partitions"])
        return own[-1][value] if own else None
    return find


def median(subject):
    return lambda rows: next((row["median"] for row in rows_of(rows, subject)), None)


def more_of_most(subject, other):
    """By how much the median of `subject` is above that of `other`, with the most partitions."""
    def find(rows):
        medians = [worst_of_most(name, "median")(rows) for name in (subject, other)]
        return medians[0] - medians[1] if None not in medians else None
    return find


def percent_of_a_second(find):
    """Of a figure in microseconds of a second."""
    def find_percent(rows):
        value = find(rows)
        return None if value is None else value / 1e4
    return find_percent


def small(size):
    return size <= KIB


GOALS = [
    Goal("latency", "one way, device-driven packets, to 1 KiB (us)", 1.3, False,
         worst_median("device-packets", small, "packets")),
    Goal("latency", "one way, device-driven plain, to 1 KiB (us)", 2.1, False,
         worst_median("device-plain", small, "kernel")),
    Goal("latency", "one way, host-driven, one block (us)", 2.7, False, worst_median("host-block", small, "kernel")),
    Goal("latency", "one way, host-driven, with counter (us)", 3.4, False, worst_median("host-counter", small, "kernel")),
    Goal("bandwidth", "in a kernel, 1 MiB (GB/s)", 210, True, smallest_best_put(lambda size: size == MIB)),
    Goal("bandwidth", "in a kernel, from 16 MiB on (GB/s)", 345, True, smallest_best_put(lambda size: size >= 16 * MIB)),
    Goal("fig4", "kernel copy over traditional, one block", 3, True, metric("kernel", lambda rows: rows[:1])),
    Goal("fig4", "kernel copy over traditional, largest grid", 1.06, True, metric("kernel", lambda rows: rows[-1:])),
    Goal("fig4", "in place over traditional, largest grid", 1.06, True, metric("kernel-in-place", lambda rows: rows[-1:])),
    Goal("fig4", "engine over traditional, one block", 1.3, True, metric("engine", lambda rows: rows[:1])),
    Goal("fig4", "engine over traditional, worst other grid", 1.0, True, metric("engine", lambda rows: rows[1:])),
    Goal("fig3", "default over block, 1,024 threads, kernel copy", 2, False,
         metric("kernel-default", lambda rows: rows[-1:])),
    Goal("fig3", "default over block, 1,024 threads, engine", 2, False,
         metric("engine-default", lambda rows: rows[-1:])),
    Goal("fig8", "persistent kernel over traditional, smallest plate", 2, True,
         metric("persistent-kernel", lambda rows: rows[:1])),
    Goal("fig8", "best mode over traditional, halo >= 10 % of a step", 1.06, True,
         worst_best_over("traditional", where_halos_cost)),
    Goal("fig8", "best mode over traditional, halo less than that", 1.0, True,
         worst_best_over("traditional", lambda rows, size: not where_halos_cost(rows, size))),
    Goal("fig8", "best mode over NCCL, worst plate", 1.0, True, worst_best_over("nccl")),
    Goal("table1", "Psend_init (us)", 5, False, median("psend_init")),
    Goal("table1", "Precv_init (us)", 5, False, median("precv_init")),
    Goal("table1", "Prequest_create (us)", 30, False, median("prequest_create")),
    Goal("table1", "Pbuf_prepare, first (us)", 150, False, median("pbuf_prepare first")),
    Goal("table1", "Pbuf_prepare, later (us)", 1, False, median("pbuf_prepare later")),
    Goal("table1", "Pbuf_prepare in a kernel (us)", 1.6, False, median("pbuf_prepare kernel")),
    # Asked for are 0 %: a sample has 0.2 s, and 10 us more in it cannot be told from 0.
    Goal("progress", "CPU asleep, 1,000 requests idle, over none (%)", 0.005, False,
         percent_of_a_second(more_of_most("asleep-idle", "asleep-bare"))),
    Goal("progress", "a step, 1,000 partitions by kernels, over idle", 1.5, False,
         worst_of_most("step-kernel", "metric")),
]


def verdict(goal, value):
    if value is None:
        return "not measured"
    return "reached" if (value >= goal.reach if goal.larger_is_better else value <= goal.reach) else "missed"


def summary(options, runs):
    """The goals of the runs, from the files that are there."""
    found = {}
    for run in runs:
        file = options.output / f"{run.name}.json"
        if file.exists():
            found[run.name] = json.loads(file.read_text())["rows"]
    lines = [f"{'benchmark':<10} {'measure':<52} {'reach':>10} {'measured':>10}"]
    for goal in GOALS:
        if goal.run not in {run.name for run in runs}:
            continue
        value = goal.find(found.get(goal.run, []))
        sign = ">=" if goal.larger_is_better else "<="
        shown = "-" if value is None else f"{value:.2f}"
        lines.append(f"{goal.run:<10} {goal.what:<52} {sign + ' ' + format(goal.reach, 'g'):>10} {shown:>10}  "
                     f"{verdict(goal, value)}")
    return "\n".join(lines) + "\n" + sweep_tables(found)


def sweep_tables(found):
    """Of each mode a table in GB/s, sizes down and transport partitions across; empty without a sweep."""
    counts = [count for count in SWEPT if f"{SWEEP}-{count}" in found]
    text = ""
    for subject in ("engine", "kernel", "traditional") if counts else ():
        medians = {(row["bytes"], count): row["median"]
                   for count in counts for row in rows_of(found[f"{SWEEP}-{count}"], subject)}
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
        options.output = options.measured
        print(f"{summary(options, planned_runs(options))}\n{gpu_page.page(options.measured)}", end="")
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    runs = planned_runs(options)
    failed = [run for run in runs if not measure_with_peers(options, run)]
    text = summary(options, runs)
    text += "".join(f"failed: {shown_command(options, run)}\n" for run in failed)
    (options.output / "summary.txt").write_text(text)
    print(f"\n{text}\n{gpu_page.page(options.output)}", end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
