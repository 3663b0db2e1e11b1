#!/usr/bin/env python3
"""Measures the Game of Life on GPUs with several numbers of ranks, as cpu-free-stream-triggered-mpi does in section VI-C, and writes
figures that no single job has.

  bench/life_scaling.py --program build/cuda/bin/partita --output docs/measurements/NAME --ranks 1,2,4,8
                        [--gpus N] [--mpirun "mpirun -n {ranks}"] [--jobs 5] [--bind auto|none] [--samples N] [--boards 512K:128M]

Each number of ranks has its jobs of `queue.fig6` (a step by the bytes of the whole board) and `queue.fig8` (by the bytes of an edge);
the first number is 1. All ranks are on one host and see all GPUs that they have: those that the jobs report, or with --gpus N the first
N of them, by CUDA_VISIBLE_DEVICES. More ranks than GPUs share them, evenly, under NVIDIA's multi-process service, which the caller
starts. Into the folder come the jobs' JSON files and

  queue-fig6.csv    time of a step where each rank has a GPU, a case a number of ranks: what is compared are modes at equal ranks
  queue-fig7.csv    the same of all numbers of ranks, a case a number of ranks and of those on a GPU
  queue-fig8.csv    time of a step by the bytes of an edge, a case a number of ranks; without 1 rank, which has no peer
  queue-table5.csv  of each board and mode the largest mean speed-up over one rank in mode traditional, and with how many ranks

and a table of what is to be reached (goals.csv)."""

import argparse
import collections
import copy
import json
import os
import pathlib
import statistics
import sys

import comparison
import gpu_measure
from comparison import Run
from partita_report.failure import Failure
from partita_report.results import Job, Row, read
from partita_report.summary import figure_of, to_csv
from processes import exit_when_told_to_end

RUN_LIMIT_S = 600
YARDSTICK = "traditional"
NO_MODE = "sweeps-alone"

# The jobs of one number of ranks, by benchmark: lists of results.Job.
Measured = collections.namedtuple("Measured", "ranks ranks_a_gpu jobs")


def ranks_list(text):
    numbers = [comparison.positive(number) for number in text.split(",")]
    if numbers[0] != 1 or numbers != sorted(set(numbers)):
        raise argparse.ArgumentTypeError(f"{text}: expected are ascending numbers from 1 on, which is what speed-ups are over")
    return numbers


def ranks_a_gpu(ranks, gpus):
    """How many share a GPU."""
    if ranks > gpus and ranks % gpus != 0:
        raise Failure(f"{ranks} ranks do not divide evenly over {gpus} GPUs (--ranks, --gpus)")
    return max(1, ranks // gpus)


def environment_with(gpus):
    """In which programs see so many GPUs, of those that they would see; None: as it is."""
    if gpus is None:
        return None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = [str(number) for number in range(gpus)] if visible is None else [name for name in visible.split(",") if name]
    if len(devices) < gpus:
        raise Failure(f"--gpus {gpus}: CUDA_VISIBLE_DEVICES={visible} has {len(devices)}")
    return {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(devices[:gpus])}


class Gpus:
    """How many all ranks have: `count`, None until a job has told."""

    def __init__(self, options):
        self.ranks, self.asked = options.ranks, options.gpus is not None
        self.count = options.gpus

    def check(self, file):
        """Compares how many GPUs the job of `file` saw, which has ended well, with what is expected. Raises Failure."""
        seen = json.loads(file.read_text()).get("machine", {}).get("gpus", 0)
        if seen < 1:
            raise Failure(f"{file.name} does not tell how many GPUs its ranks see")
        if self.count is None:
            self.count = seen
            for ranks in self.ranks:
                ranks_a_gpu(ranks, seen)
        if seen != self.count:
            expected = f"--gpus {self.count}" if self.asked else f"{self.count}, as of the first job"
            raise Failure(f"{file.name}: its ranks see {seen} GPUs each; expected is {expected}")


def ranks_shown(ranks):
    return "1 rank" if ranks == 1 else f"{ranks} ranks"


def planned_runs(options, ranks):
    samples = ["-i", str(options.samples)] if options.samples else []
    boards = ["-m", options.boards] if options.boards else []
    runs = [Run("queue-fig6", ["queue.fig6", *boards, *samples], size=f"{ranks}-ranks")]
    return runs if ranks == 1 else [*runs, Run("queue-fig8", ["queue.fig8", *samples], size=f"{ranks}-ranks")]


def comparison_on(parser, options, ranks):
    own = copy.copy(options)
    own.mpirun = options.mpirun.replace("{ranks}", str(ranks))
    return comparison.Comparison(parser, own, cores=gpu_measure.CORES_A_RANK, limit_s=RUN_LIMIT_S, ranks=ranks,
                                 environment=environment_with(options.gpus))


def measure(parser, options):
    """A Measured of each number of ranks, and the commands of the runs that failed. All runs are made once before any is made again."""
    planned = [(ranks, comparison_on(parser, options, ranks), planned_runs(options, ranks)) for ranks in options.ranks]
    gpus, failed = Gpus(options), []
    for job in range(1, options.jobs + 1):
        for _, jobs, runs in planned:
            for run in runs:
                if jobs.measure(run, job):
                    gpus.check(jobs.file_of(run, job))
                else:
                    failed.append(run)
    measured = [Measured(ranks, ranks_a_gpu(ranks, gpus.count or ranks),
                         {run.name: [job for number in range(1, options.jobs + 1) for job in read(jobs.file_of(run, number))]
                          for run in runs if run not in failed}) for ranks, jobs, runs in planned]
    return measured, [jobs.shown_command(run) for _, jobs, runs in planned for run in runs if run in failed]


# ---- Figures of several numbers of ranks ------------------------------------------------------------------------------


def steps(name, measured, case_of):
    """A figure of the jobs of `name`, those of each number of ranks a case, which case_of(measured) names."""
    found = [Job(job.source, job.meta, [as_case(row, case_of(each)) for row in job.rows])
             for each in measured for job in each.jobs.get(name, ())]
    return figure_of(name, found) if found else None


def as_case(row, case):
    own = copy.copy(row)
    own.case = case
    return own


def one_rank_means(measured):
    """Board -> mean time of a step over all samples of mode traditional on one rank."""
    samples = collections.defaultdict(list)
    for job in measured[0].jobs.get("queue-fig6", ()):
        for row in job.rows:
            if row.subject == YARDSTICK:
                samples[row.size] += row.samples
    return {size: statistics.fmean(values) for size, values in samples.items()}


def speed_ups(each, alone):
    """By (board, mode), the mean speed-up of each job."""
    found = collections.defaultdict(list)
    for job in each.jobs.get("queue-fig6", ()):
        for row in job.rows:
            if row.size in alone and row.subject != NO_MODE:
                found[row.size, row.subject].append(statistics.fmean(alone[row.size] / sample for sample in row.samples))
    return found


def table5(measured):
    """The best number of ranks of each board and mode, by the mean over its jobs; None where one rank was not measured."""
    alone = one_rank_means(measured)
    best = {}
    for each in measured:
        for place, values in speed_ups(each, alone).items():
            if place not in best or statistics.fmean(values) > statistics.fmean(best[place][1]):
                best[place] = each.ranks, values
    if not best:
        return None
    meta = {"benchmark": "queue.table5", "unit": "times the speed of one rank", **shared_meta(measured)}
    count = max(len(values) for _, values in best.values())
    jobs = [Job(f"job {number + 1}", meta, [Row(mode, YARDSTICK, [values[number]], size=size, ranks=ranks)
                                            for (size, mode), (ranks, values) in sorted(best.items()) if number < len(values)])
            for number in range(count)]
    return figure_of("queue-table5", jobs)


def shared_meta(measured):
    """Only with the jobs of one rank."""
    first = measured[0].jobs["queue-fig6"][0].meta
    return {key: first[key] for key in ("gpus", "cpu", "cores", "mpi", "revision") if key in first}


def figures(measured):
    """By name, those that can be made of what was measured."""
    own_gpu = [each for each in measured if each.ranks_a_gpu == 1]
    found = {"queue-fig6": steps("queue-fig6", own_gpu, lambda each: ranks_shown(each.ranks)),
             "queue-fig7": steps("queue-fig6", measured, lambda each: f"{ranks_shown(each.ranks)}, {each.ranks_a_gpu} a GPU"),
             "queue-fig8": steps("queue-fig8", own_gpu or measured, lambda each: ranks_shown(each.ranks)),
             "queue-table5": table5(measured)}
    return {name: figure for name, figure in found.items() if figure is not None}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--ranks", type=ranks_list, required=True)
    parser.add_argument("--gpus", type=comparison.positive, help="that all ranks have; without, as many as they see")
    comparison.add_options(parser)
    parser.set_defaults(mpirun="mpirun -n {ranks}")
    parser.add_argument("--samples", type=comparison.positive, help="of each row of a job; the benchmark's own number without")
    parser.add_argument("--boards", help="sizes of the whole board; the benchmark's own without")
    options = parser.parse_args()
    if "{ranks}" not in options.mpirun:
        parser.error(f"--mpirun '{options.mpirun}' does not say where the number of ranks goes: {{ranks}}")
    try:
        environment_with(options.gpus)
        for ranks in options.ranks:
            ranks_a_gpu(ranks, options.gpus or ranks)
    except Failure as failure:
        parser.error(str(failure))
    return parser, options


def main():
    exit_when_told_to_end()
    parser, options = parse_arguments()
    options.output.mkdir(parents=True, exist_ok=True)
    try:
        measured, failed = measure(parser, options)
    except Failure as failure:
        parser.error(str(failure))
    made = figures(measured)
    for name, figure in made.items():
        (options.output / f"{name}.csv").write_text(to_csv(figure), encoding="utf-8")
    text = gpu_measure.summary(made) + "".join(f"failed: {command}\n" for command in failed)
    (options.output / "life-scaling.txt").write_text(text)
    print(f"\n{text}", end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
