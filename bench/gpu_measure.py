#!/usr/bin/env python3
"""Measures the GPU requests on two GPUs: JSON files with all samples and a CSV summary a benchmark in a folder, and a table of what
is to be reached (goals.csv). Pages quote the summaries (pages.py); the JSON stays out of the repository.

  bench/gpu_measure.py --program build/cuda/bin/partita --output docs/measurements/NAME
                       [--mpirun "mpirun -n 2"] [--jobs 5] [--bind auto|none] [--samples N] [--nccl PATH|none] [--nvshmem PATH]
                       [--only NAME]... [--quick] [--tune] [--only transport-sweep] [--gpu-aware-mpi] [--two-nodes] [--before PROGRAM]
  bench/gpu_measure.py --from docs/measurements/NAME

One process a GPU. Every run is made in several jobs, all runs once before any is made again (comparison.py): NAME-k.json, and
NAME.csv for all of them. NCCL is taken from --nccl, or from the wheel of the Python that runs this; NVSHMEM from --nvshmem, the path
of libpartita_bench_nvshmem.so, and from that wheel; cuFFT, for ipc-fig12, from $CUFFT_LIBRARY, its wheel (CUDA 13's is nvidia/cu13,
CUDA 12's nvidia/cufft), or where the loader looks. --tune adds a search for the blocks and threads of the bandwidth;
--only transport-sweep takes fig4 with 1 to 64 transport partitions, from which the library's choice of them is made.
fig7 and fig11 take an even number of ranks, and this machine for two nodes, unless --two-nodes says that the launcher's ranks are on two;
then channel-fig12 and -fig14 take the place of channel-fig11 and -fig13, and ipc-fig12 is left out: its exchanges go by the peers' memory
in one node alone. It needs two ranks or more.
--gpu-aware-mpi measures an MPI's calls on GPU memory in fig4, which is then called fig4-gpu-aware, fig6, fig7, queue-fig5 and
channel-fig11 to -fig14, by an MPI that knows such memory (it is not left out where that fails). --before names an older build's program,
which makes each job too, in turns with this one: before-NAME.csv holds what both took. (The kernels of a program are of its library's
revision, so none is measured on another library.) --from measures nothing and judges a folder that was measured before. A job that fails
with a peer is repeated without it. A run of which a job fails without is named in the table and in the exit status.
"""

import argparse
import importlib.util
import os
import pathlib
import re
import sys

import comparison
import goals
import turns
from comparison import Run
from partita_report.results import read_figures
from partita_report.turns import of_two_builds, table
from processes import exit_when_told_to_end

RUN_LIMIT_S = 240
CORES_A_RANK = 4  # for the marking host thread, progress, and what CUDA, NCCL and NVSHMEM have beside
SWEEP = "transport-sweep"
SWEPT = (1, 2, 4, 8, 16, 32, 64)  # transport partitions
MIB = 1024 * 1024
# Without memory that the two could share: neither the machine's nor that of peers' GPUs.
ONE_MACHINE_AS_TWO_NODES = ("PARTITA_NODES=2", "UCX_TLS=tcp,self,cuda_copy")
PLATES = (64, 256, 1024, 2048, 4096, 8192)  # cells a side
BOARDS = (256, 1024, 4096)  # likewise
# Cells a side: transforms there and back in a run, and runs at most. Each run has buffers of its own, which peers keep mapped: more runs
# of the largest cube would pass the bound on that, 4 GiB or a sixteenth of the GPU's memory (docs/design/gpu-aware.md, Memory), and go
# through host memory. On a small GPU one run may do so (docs/design/measuring-gpu.md, ipc.fig12).
CUBES = {64: (100, 3), 128: (50, 3), 256: (20, 3), 512: (10, 1)}
FFT = "ipc-fig12"
# In the order in which the app looks where it is told nothing. The wheels of CUDA 13 share a folder.
CUFFT = (("nvidia.cu13", "libcufft.so.12"), ("nvidia.cufft", "libcufft.so.12"), ("nvidia.cufft", "libcufft.so.11"))
GPU_AWARE = ("PARTITA_GPU_AWARE=on",)  # Partita takes GPU memory, whatever the MPI takes
BY_PEERS = (*GPU_AWARE, "PARTITA_PEER_COLLECTIVES=0")  # collectives of any size by peer memory, on any MPI
# The benchmarks ipc.NAME of the one list of them.
PEER_COLLECTIVES = re.findall(r'^COLLECTIVE\("ipc\.([\w-]+)"', (pathlib.Path(__file__).parent / "gpu/peer_collectives.inc").read_text(encoding="utf-8"),
                              re.MULTILINE)


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


def cufft_words():
    """Names cuFFT's wheel to the app, where there is one and $CUFFT_LIBRARY names no other."""
    found = [] if "CUFFT_LIBRARY" in os.environ else list(filter(None, (wheel_library(*place) for place in CUFFT)))
    return ["--cufft", str(found[0])] if found else []


def fft_run(cells, iterations, repeat, device):
    """ipc.fig12: a cube by each exchange, and by its twin through host memory."""
    return Run(FFT, [*device, "--staged", "--size", *[str(cells)] * 3, "--iterations", str(iterations), "--repeat", str(repeat)], "fft",
               str(cells), GPU_AWARE)


def planned_runs(options):
    nccl = ["--nccl", options.nccl]
    nvshmem = ["--nvshmem", options.nvshmem] if options.nvshmem else []
    gpu_aware_mpi = ["--gpu-aware-mpi"] if options.gpu_aware_mpi else []
    two_nodes = () if options.two_nodes else ONE_MACHINE_AS_TWO_NODES
    count = options.samples or (10 if options.quick else None)
    samples = ["-i", str(count), "-x", "2"] if count else []
    runs = [
        Run("latency", ["partitioned.latency", *nccl, *nvshmem, *samples]),
        Run("bandwidth", ["partitioned.bandwidth", *nccl, *nvshmem, *samples]),
        Run("fig3", ["partitioned.fig3", *nvshmem, *samples]),
        Run("table1", ["partitioned.table1", *nccl, *nvshmem]),
        Run("late-neighbours-kernels", ["partitioned.late-neighbours", *samples]),
        Run("progress", ["partitioned.progress"]),
        Run("collectives-in-kernels", ["collective.in-kernel", *nccl, *samples]),
        Run("queue-fig5", ["queue.fig5", *nccl, *gpu_aware_mpi, *(["-m", "1:64M"] if options.quick else []), *samples]),
        Run("queue-fig1", ["queue.fig1", *samples]),
        Run("queue-enqueue", ["queue.enqueue", *samples]),
        Run("queue-pack", ["queue.pack", *samples]),
        *(Run(f"channel-{name}", [f"channel.{name}", *gpu_aware_mpi, *samples], environment=GPU_AWARE)
          for name in (("fig12", "fig14") if options.two_nodes else ("fig11", "fig13"))),
        Run("two-sided-split", ["two-sided", "--split", "-m", "1:4M", *samples]),
        Run("ipc-fig3", ["ipc.fig3", *samples]),
        Run("ipc-fig4", ["ipc.fig4", *samples], environment=BY_PEERS),
        Run("ipc-fig5", ["ipc.fig5", *samples], environment=BY_PEERS),
        Run("fig6", ["partitioned.fig6", *nccl, *gpu_aware_mpi, *samples]),
        Run("fig10", ["partitioned.fig10", *nccl, *samples]),
        Run("fig7", ["partitioned.fig7", *nccl, *gpu_aware_mpi, *samples], environment=two_nodes),
        Run("fig11", ["partitioned.fig11", *nccl, *samples], environment=two_nodes),
        Run("fig4-gpu-aware" if gpu_aware_mpi else "fig4", ["partitioned.fig4", *nccl, *nvshmem, *gpu_aware_mpi, *samples]),
        Run("fig2", ["partitioned.fig2", *samples]),
        Run("fig8", ["partitioned.fig8", *nccl, *(["-m", "2K:16K", "-i", "3"] if options.quick else [])]),
        Run("fig5", ["partitioned.fig5", "-m", "8K:64M" if options.quick else "8K:256M", *(samples or ["-i", "20"])]),
    ]
    runs += [Run(f"ipc-{name}", [f"ipc.{name}", "-m", "1K:4M" if options.quick else "1K:32M", *samples], environment=BY_PEERS)
             for name in PEER_COLLECTIVES]
    runs += [Run("jacobi", ["--device", "gpu", "--mode", "all", "--size", str(cells), str(cells), "--max-iterations", "500", "--repeat", "3",
                            "--no-picture", *nccl], "jacobi2d", str(cells)) for cells in PLATES[:2 if options.quick else None]]
    runs += [Run("life", ["--device", "gpu", "--size", str(cells), str(cells), "--no-verify", "--no-picture"], "life", str(cells))
             for cells in BOARDS[:2 if options.quick else None]]
    if not options.two_nodes:
        runs += [fft_run(cells, iterations, min(options.samples or repeat, repeat), ["--device", "gpu", *cufft_words()])
                 for cells, (iterations, repeat) in list(CUBES.items())[:3 if options.quick else None]]
    if options.tune:
        runs.append(Run("bandwidth-tuning", ["partitioned.bandwidth", "-m", "1M:64M", "--blocks", "64,128,256",
                                             "--block-threads", "256,512,1024", "--nccl", "none", "-i", "10"]))
    if SWEEP in options.only:
        runs += [Run(f"{SWEEP}-{count}", ["partitioned.fig4", "-m", "1M:256M", "--transport-partitions", str(count),
                                          "--nccl", "none", "-i", "10", "-x", "2"])
                 for count in SWEPT]
    return [run for run in runs if not options.only or run.name in options.only or run.name.startswith(SWEEP)]


def check_fft(parser, options, runs, ranks):
    """Ends the program, or says it, where its exchanges cannot go by the peers' memory."""
    if options.two_nodes and (not options.only or FFT in options.only):
        print(f"== {FFT}: left out, as the ranks are on two nodes (--two-nodes), between which nothing goes by peer memory", flush=True)
    if ranks < 2 and any(run.name == FFT for run in runs):
        parser.error(f"{FFT} needs two ranks or more, between which cells travel; --mpirun starts {ranks}")


def without(run, peer):
    """The run without the option `peer` and its value; the same run where it has none."""
    if peer not in run.arguments:
        return run
    at = run.arguments.index(peer)
    left_out = ["--nccl", "none"] if peer == "--nccl" and not run.app else []
    return run._replace(arguments=[*run.arguments[:at], *run.arguments[at + 2:], *left_out])


def measure_with_peers(jobs, run, job, build):
    """True if the job ended well, if need be without the peers."""
    tries = [run, without(run, "--nvshmem"), without(without(run, "--nvshmem"), "--nccl")]
    return any(jobs.measure(each, job, build) for number, each in enumerate(tries) if each not in tries[:number])


# ---- What is to be reached --------------------------------------------------------------------------------------------


def figures_of(folder):
    """By name; of a figure that has both, the summary counts, which pages quote."""
    files = {file.stem: file for ending in ("json", "csv") for file in sorted(folder.glob(f"*.{ending}"))
             if not file.stem.endswith("-residual")}  # a history that jacobi2d writes beside its results
    return {name: figure for name, file in files.items() for figure in read_figures([file])}


def summary(figures):
    """The goals (goals.csv) of the figures that are there, and what older builds took in turns."""
    lines = [f"{'benchmark':<10} {'measure':<60} {'reach':>14} {'measured':>10}"]
    for goal in goals.read_goals().values():
        if goal.figure in figures:
            judged = goals.judge(goal, figures[goal.figure])
            shown = goals.worst_shown(judged) if judged.values else "-"
            lines.append(f"{goal.figure:<10} {goal.what:<60} {f'{goal.reach[:2]} {goal.reach[2:]} {goal.unit}'.strip():>14} {shown:>10}  "
                         f"{judged.said}")
    both = "".join(f"\n{table(figure)}" for figure in figures.values() if of_two_builds(figure))
    return "\n".join(lines) + "\n" + sweep_tables(figures) + both


def sweep_tables(found):
    """A table in GB/s of each mode, sizes down and transport partitions across; empty without a sweep."""
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
    comparison.add_options(parser)
    turns.add_options(parser)
    parser.add_argument("--samples", type=comparison.positive, help="of each row of a job; the benchmark's own number without")
    parser.add_argument("--nccl", default=None)
    parser.add_argument("--nvshmem", default=None)
    parser.add_argument("--gpu-aware-mpi", action="store_true")
    parser.add_argument("--two-nodes", action="store_true", help="the launcher starts ranks on two nodes, as many on each")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tune", action="store_true")
    options = parser.parse_args()
    if options.measured is None and not (options.program and options.output):
        parser.error("--program and --output are needed, or --from")
    if options.measured is not None and not options.measured.is_dir():
        parser.error(f"--from {options.measured}: there is no such folder")
    options.nccl = options.nccl or str(wheel_library("nvidia.nccl", "libnccl.so.2") or "auto")
    return parser, options


def main():
    exit_when_told_to_end()
    parser, options = parse_arguments()
    if options.measured:
        print(summary(figures_of(options.measured)), end="")
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    jobs = comparison.Comparison(parser, options, cores=CORES_A_RANK, limit_s=RUN_LIMIT_S, environment=environment(),
                                 builds=turns.builds_of(parser, options))
    runs = planned_runs(options)
    check_fft(parser, options, runs, jobs.ranks)
    done, failed = jobs.measure_all(runs, lambda run, job, build: measure_with_peers(jobs, run, job, build))
    broken = {run.name for run in failed}
    jobs.write_summaries([run for run in done if run.name not in broken])
    text = summary(figures_of(options.output))
    text += "".join(f"failed: {jobs.shown_command(run)}\n" for run in failed)
    (options.output / "summary.txt").write_text(text)
    print(f"\n{text}", end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
