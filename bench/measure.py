#!/usr/bin/env python3
"""Runs the whole measured comparison and writes into a folder the results, as JSON with all samples and as CSV summaries, and a
page that quotes these. The JSON stays out of the repository.

  bench/measure.py --program build/release/bin/partita --output docs/measurements/NAME
                   [--mpirun "mpirun -n 2"] [--peer native] [--peer library:/path/to/peer.so]
                   [--jobs 5] [--at-once N] [--bind auto|none] [--threads 4] [--samples N] [--only NAME]... [--quick]
                   [--before PROGRAM | --before-library FOLDER] [--before-revision NAME] [--any-revision]

On other numbers of ranks than two (--mpirun "mpirun -n 4") it measures collectives, which take any; their figures are then called
NAME-4-ranks.
Every comparison runs in one job, the subjects in an order drawn anew each round, and in several such jobs: NAME-1.json, NAME-2.json
and so on, whose number is their seed. NAME.csv holds the jobs of NAME as one figure. Each rank is pinned to cores of its own where
the launcher has words for that. A run of which a job fails is named on the page and in the exit status.
--before names an older build's program, and --before-library the folder of its libraries, on which the program at hand runs: these
make each job too, in turns with it, and before-NAME.csv holds what both took. Parts without such jobs, as counts of instructions, have
none before.
With valgrind installed it also counts Partita's instructions per epoch (design page docs/design/measuring.md).
"""

import argparse
import collections
import csv
import itertools
import json
import pathlib
import platform
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import comparison
import cpu
import launch
import links
import pages
import turns
from comparison import Run
from partita_report.charts import short_bytes
from partita_report.results import Job, Row
from partita_report.summary import META, figure_of, meta_text, to_csv
from partita_report.turns import table
from processes import exit_when_told_to_end

RUN_LIMIT_S = 1200
COUNTED_EPOCHS = 100
COUNTED_PARTITIONS = (8, 1)
COUNTED_CALLS = 100  # as in bench/foreign_calls.c
VERIFIED_EPOCHS = 3  # as in bench/run.cpp
PRELOAD_SIZES = (8, 1024, 8192, 65536)
PRELOAD_JOBS = 9
MEASURED_LINKS = ("auto", links.names()[-1])
LINKS_BETWEEN = links.names()[1:-1]  # neither `auto` on a node nor over any MPI
CLOSE_EPOCHS = ("--close-epochs", "10")  # two in a row suffice for an epoch that holds, but the machine may disturb one
# Info key of MPIPCL. In its overlapping mode it has jobs of its own: beside its default mode some did not end.
MPIPCL_MODE = "?PMODE="
THREAD_LEVELS = ("single", "multiple")
COLLECTIVES = ("allreduce", "allgather", "reduce_scatter", "alltoall", "bcast")


def planned_runs(options):
    """The comparison."""
    overlapping = [peer for peer in options.peer if MPIPCL_MODE in peer]
    peers = [argument for peer in ("isend", *options.peer) if peer not in overlapping for argument in ("--peer", peer)]
    both = ["--link", ",".join(MEASURED_LINKS)]
    threads = ["--threads", str(options.threads)]
    overlap = ["--compute-us", "1000", "--noise-percent", "40"]
    count = options.samples or (20 if options.quick else None)
    samples = ["-i", str(count), "-x", "2"] if count else []
    large = "1M:1M" if options.quick else "64K:16M"
    ranks = options.comparison.ranks
    # Each mark but the last has 1 ms to travel before the time begins; the collective of one partition, and the MPI's, begin then.
    collectives = [Run(f"{name}-apart{'' if ranks == 2 else f'-{ranks}-ranks'}",
                       [name, "-m", "64K:64K" if options.quick else "8K:1M", "--partitions", "8", "--compute-us", "1000",
                        *(samples or ["-i", "40", "-x", "4"])]) for name in COLLECTIVES]
    if ranks != 2:
        return [each for each in collectives if not options.only or each.name in options.only]

    def run(name, *arguments):
        return Run(name, [*arguments, *samples])

    runs = [
        run("latency", "latency", "-m", "8:4M", "--partitions", "8", *both, *peers),
        run("latency-partitions", "latency", "-m", "4K:1M", "--partitions", "1,2,4,16,32,64,128", *peers),
        run("latency-alloc", "latency", "-m", "8:4M", "--partitions", "8", "--memory", "alloc", *peers),
        run("bw", "bw", "-m", "8:4M", "--partitions", "8", *both, *peers),
        run("bw-partitions", "bw", "-m", "4K:1M", "--partitions", "1,2,4,16,32,64,128", *peers),
        run("overhead", "overhead", "-m", "4K:4M", "--partitions", "1,4,16", *both, *peers),
        run("start-pready-wait", "start-pready-wait", "-m", "8:4K", "--partitions", "8", *both, *peers),
        run("latency-drop-in", "latency", "-m", "8:4K", "--partitions", "8", "--face", "c,mpi"),
        run("foreign", "foreign", "-m", "8:64K"),
    ]
    for delay in ("none", "single", "uniform", "gaussian"):
        shape = ["--delay", delay, *overlap, *threads]
        runs.append(run(f"perceived-bandwidth-{delay}", "perceived-bandwidth", "-m", large, "--partitions",
                        "4,32", *shape, *both, *peers))
        runs.append(run(f"availability-{delay}", "availability", "-m", large, "--partitions", "8",
                        *shape, *peers))
        runs.append(run(f"early-bird-{delay}", "early-bird", "-m", large, "--partitions", "8",
                        *shape, *peers))
    late = ["late-neighbours", "-m", "64K:64K" if options.quick else "8K:8M", "--partitions", "8"]
    for behind, chosen in (("", both), *((f"-{link}", ["--link", link]) for link in LINKS_BETWEEN)):
        runs.append(run(f"late-neighbours{behind}", *late, *chosen, *peers))
        runs.append(run(f"late-neighbours-held{behind}", *late, *CLOSE_EPOCHS, *chosen, "--peer", "isend"))
    # Subjects of Partita share the way of their setup messages, so each link has jobs of its own, each of one sample.
    runs += [Run(f"first-contact-{link}", ["first-contact", "--link", link, *peers]) for link in MEASURED_LINKS]
    if overlapping:
        beside = [argument for peer in overlapping for argument in ("--peer", peer)]
        uniform = ["-m", large, "--delay", "uniform", *overlap, *threads]
        runs += [run("latency-mpipcl", "latency", "-m", "8:4M", "--partitions", "8", *beside),
                 run("late-neighbours-mpipcl", *late, *beside),
                 run("early-bird-uniform-mpipcl", "early-bird", "--partitions", "8", *uniform, *beside),
                 run("perceived-bandwidth-uniform-mpipcl", "perceived-bandwidth", "--partitions", "4", *uniform, *beside)]
    return [each for each in runs + collectives if not options.only or each.name in options.only]


def counted_run(link, partitions):
    """Beside the folder, the arguments of valgrind and of the program in a run whose instructions are counted."""
    return (["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=partita::bench::counted_send*"],
            ["bench", "start-pready-wait", "-m", "1K:1K", "--partitions", str(partitions), "--link", link, "--batch", "1", "-x", "0",
             "-i", str(COUNTED_EPOCHS - VERIFIED_EPOCHS)])


def shown_count_command(options):
    """The command of the counts for readers: without this machine's paths."""
    valgrind, program = counted_run("LINK", "PARTITIONS")
    return shlex.join([*launch.shown_launcher(options.comparison.launcher), "valgrind", *valgrind, "partita", *program])


def count_instructions(options):
    """Partita's own instructions for Start, Pready of each partition and Wait of a send on each link: {(link, partitions):
    {"own": {function: instructions}, "links": {...}}}, the latter of what its links do. Per epoch."""
    if not shutil.which("valgrind"):
        return {}
    counts = {}
    for link, partitions in itertools.product(MEASURED_LINKS, COUNTED_PARTITIONS):
        with tempfile.TemporaryDirectory() as folder:
            valgrind, program = counted_run(link, partitions)
            command = [*options.comparison.launcher_of(1), "valgrind", *valgrind, f"--callgrind-out-file={folder}/out.%p",
                       options.program, *program]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False)
            who = f"== instructions over link {link}, partitions: {partitions}"
            if ended.returncode != 0:
                print(f"{who}: exit status {ended.returncode}\n{ended.stderr[-2000:]}")
                continue
            found = {"own": collections.Counter(), "links": collections.Counter()}
            for file in pathlib.Path(folder).iterdir():
                for instructions, function, library in annotated(file):
                    if "libpartita" not in library and "partita::" not in function or "partita::bench" in function:
                        continue
                    found["links" if "partita::link::" in function else "own"][function] += instructions
            if not found["own"]:
                print(f"{who}: callgrind saw none; the program and libraries need their symbols")
                continue
            counts[link, partitions] = {part: {function: instructions / COUNTED_EPOCHS for function, instructions in functions.most_common()}
                                        for part, functions in found.items()}
    return counts


def annotated(file):
    """(instructions, function, object) for every function that callgrind saw in `file`."""
    text = subprocess.run(["callgrind_annotate", "--threshold=100", "--auto=no", "--inclusive=no", str(file)],
                          capture_output=True, text=True, check=False).stdout
    for line in text.splitlines():
        found = re.match(r"\s*([\d,]+)\s+(?:\([^)]*\)\s+)?(\S*?):(.*?)(?:\s+\[(.*)\])?$", line)
        if found:
            yield int(found[1].replace(",", "")), found[3], found[4] or ""


def counted_foreign_run(folder, call, alive, program="partita_foreign_calls"):
    return ["valgrind", "--tool=callgrind", "--collect-atstart=no", f"--toggle-collect=counted_{call}",
            f"--callgrind-out-file={folder}/out.%p", str(program), *(["alive"] if alive else [])]


def origin_of(options, command):
    """What a CSV file tells of where it comes from that no record of a job tells. The ranks' binding, where the launcher starts some.
    Ask before measuring: the date is that of the begin."""
    revision = turns.revision_of(options.program)
    launched = command.startswith(shlex.join(launch.shown_launcher(options.comparison.launcher)))
    bound = shlex.join(options.comparison.pinning) if launched else ""
    return {"date": comparison.now(), **({"revision": revision} if revision else {}), "command": command, "kernel": platform.release(),
            **({"binding": bound} if bound else {})}


def write_table(file, heading, rows, origin):
    with open(file, "w", encoding="utf-8", newline="") as out:
        out.writelines(f"{META}{key}: {value}\n" for key, value in origin.items())
        csv.writer(out, lineterminator="\n").writerows([heading, *([f"{cell:g}" if isinstance(cell, float) else cell for cell in row]
                                                                   for row in rows)])


def measure_small_costs(options):
    """Instructions of the drop-in for a call on a request of the MPI's own, and what a copy into another process's memory and
    the look before it take: small-costs.csv."""
    programs = pathlib.Path(options.program).resolve().parent
    found = {"command": shlex.join(counted_foreign_run(".", "test", True)), "instructions_per_call": {}, "remote_copy_ns": {}}
    origin = origin_of(options, found["command"])
    for call in ("test", "wait"):
        for alive in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                command = counted_foreign_run(folder, call, alive, programs / "partita_foreign_calls")
                subprocess.run(command, capture_output=True, timeout=RUN_LIMIT_S, check=True)
                counted = sum(instructions for file in pathlib.Path(folder).iterdir()
                              for instructions, function, library in annotated(file)
                              if "libpartita" in library or "partita::" in function)
                found["instructions_per_call"][f"{call}, {'requests of ours alive' if alive else 'none of ours'}"] = counted / COUNTED_CALLS
    ended = subprocess.run([str(programs / "partita_remote_copy_cost")], capture_output=True, text=True, timeout=RUN_LIMIT_S, check=True)
    found["remote_copy_ns"] = json.loads(ended.stdout)
    write_table(options.output / "small-costs.csv", ("what", "unit", "value"),
                [(call, "instructions a call", value) for call, value in found["instructions_per_call"].items()]
                + [("look" if size == "look" else f"copy of {size} bytes and look", "ns", value)
                   for size, value in found["remote_copy_ns"].items()], origin)
    print(json.dumps(found, indent=1))


def measure_locked_cost(options):
    """What a locked instruction takes, below which no mark comes: locked-cost.csv. Each job has another core, as long as there are some."""
    program = pathlib.Path(options.program).resolve().parent / "partita_locked_cost"
    if not shutil.which("taskset"):
        sys.exit("locked-cost pins its jobs by taskset, which is not on PATH; it comes with util-linux")
    cores = [core for node in launch.cores_of_nodes() for core in node]
    jobs = []
    for number in range(1, options.jobs + 1):
        core = cores[(number - 1) % len(cores)]
        told = origin_of(options, f"taskset -c CORE {program.name}")
        ended = subprocess.run(["taskset", "-c", str(core), str(program)], capture_output=True, text=True, timeout=RUN_LIMIT_S, check=True)
        origin = {"benchmark": "locked-cost", "unit": "ns", **cpu.machine(), **told, **cpu.clocks([core]), "binding": f"core {core}"}
        costs = json.loads(ended.stdout)
        jobs.append(Job(f"job {number}", {key: meta_text(value) for key, value in origin.items()},
                        [Row(what, next(iter(costs)), [ns]) for what, ns in costs.items()]))
    (options.output / "locked-cost.csv").write_text(to_csv(figure_of("locked-cost", jobs)), encoding="utf-8")


def write_ping_pongs(file, benchmark, times, origin):
    """`times`: for each subject {bytes: [us, one a job]}; the first subject is the yardstick of the others."""
    reference = next(iter(times))
    jobs = len(next(iter(times[reference].values())))
    figure = figure_of(benchmark, [Job(file.name, {"benchmark": benchmark, "unit": "us", **origin},
                                       [Row(subject, reference, [by_size[size][job]], size=size) for size in times[reference]
                                        for subject, by_size in times.items()]) for job in range(jobs)])
    file.write_text(to_csv(figure), encoding="utf-8")


def measure_preload(options):
    """One-way times of a program that knows nothing of Partita, plain and with the drop-in preloaded, in jobs that alternate:
    {"plain" or "preloaded": {bytes: [us, one a job]}}."""
    folder = pathlib.Path(options.program).resolve().parent
    program, library = folder / "partita_plain_ping_pong", folder.parent / "lib" / "libpartita_mpi.so"
    if not program.exists() or not library.exists():
        print(f"== preload: {program.name} or {library.name} is not beside the program; built from the same tree they are")
        return {}
    origin = origin_of(options, preload_command(options))
    times = {subject: {size: [] for size in PRELOAD_SIZES} for subject in ("plain", "preloaded")}
    for preloaded in (False, True) * PRELOAD_JOBS:
        setting = ["env", f"LD_PRELOAD={library}"] if preloaded else []
        ended = subprocess.run([*options.comparison.launcher_of(1), *setting, str(program), *map(str, PRELOAD_SIZES)],
                               capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False)
        if ended.returncode != 0:
            print(f"== preload: exit status {ended.returncode}\n{ended.stderr[-2000:]}")
            return {}
        for line in ended.stdout.splitlines():
            size, time_us = line.split()
            times["preloaded" if preloaded else "plain"][int(size)].append(float(time_us))
    write_ping_pongs(options.output / "preload.csv", "preload", times, origin)
    return times


def measure_thread_levels(options):
    """One-way times of the same program after an MPI_Init_thread that asks for the lowest and for the highest level, in an order drawn
    for each job: {level: {bytes: [us, one a job]}}; nothing where a job fails."""
    program = pathlib.Path(options.program).resolve().parent / "partita_plain_ping_pong"
    if not program.exists():
        print(f"== thread-levels: {program.name} is not beside the program; built from the same tree it is")
        return {}
    origin = origin_of(options, thread_levels_command(options))
    times = {level: {size: [] for size in PRELOAD_SIZES} for level in THREAD_LEVELS}
    for job in range(1, options.jobs + 1):
        for level in random.Random(job).sample(THREAD_LEVELS, len(THREAD_LEVELS)):
            ended = subprocess.run([*options.comparison.launcher_of(1), str(program), "--thread-level", level, *map(str, PRELOAD_SIZES)],
                                   capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False)
            if ended.returncode != 0:
                print(f"== thread-levels: exit status {ended.returncode}\n{ended.stderr[-2000:]}")
                return {}
            for line in ended.stdout.splitlines():
                size, time_us = line.split()
                times[level][int(size)].append(float(time_us))
    write_ping_pongs(options.output / "thread-levels.csv", "thread-levels", times, origin)
    return times


MEASURED_ALONE = {"small-costs": measure_small_costs, "locked-cost": measure_locked_cost}  # write no page


def links_used(jobs):
    used = collections.defaultdict(set)
    for found in jobs:
        for row in found["rows"]:
            if row["link"]:
                used[row["subject"]].add(row["link"])
    return "; ".join(f"{subject}: {', '.join(sorted(links))}" for subject, links in used.items())


def early_samples(jobs):
    """Lines that say how many samples of each subject were early, of all jobs together, where the benchmark counts them: the same
    share at all sizes is told once."""
    early, taken = collections.Counter(), collections.Counter()
    for found in jobs:
        for row in found["rows"]:
            if "early" in row:
                early[row["subject"], row["partitions"], row["bytes"]] += row["early"]
                taken[row["subject"], row["partitions"], row["bytes"]] += len(row["samples"])
    sizes = collections.defaultdict(list)
    for (subject, partitions, size), count in taken.items():
        sizes[subject, partitions, early[subject, partitions, size], count].append(short_bytes(size))
    return [f"- {subject}, {partitions} partitions: {count} of {samples} samples early, at each size of {', '.join(with_them)}"
            for (subject, partitions, count, samples), with_them in sizes.items()]


def where_ranks_ran(jobs):
    """The places of the ranks; those of the jobs in turn where they differ."""
    places = dict.fromkeys(", ".join(f"rank {place['rank']} on node {place['node']}, cores {place['cores']}" for place in found["binding"])
                           for found in jobs)
    return "; in other jobs ".join(places)


def table_of(name):
    return [f"<!--= table('{name}') --><!--/-->", ""]


def ping_pong_command(options, setting, *words):
    """For readers, of the program without Partita."""
    return " ".join([shlex.join(launch.shown_launcher(options.comparison.launcher)), *setting, "partita_plain_ping_pong", *words,
                     *map(str, PRELOAD_SIZES)])


def preload_command(options):
    return ping_pong_command(options, ["[env LD_PRELOAD=libpartita_mpi.so]"])


def thread_levels_command(options):
    return ping_pong_command(options, [], "--thread-level", "LEVEL")


def preload_section(options):
    return [f"## preload: us one way, medians of {PRELOAD_JOBS} jobs each", "", f"    {preload_command(options)}", "", *table_of("preload")]


def thread_levels_section(options):
    return ["## thread-levels: us one way", "", f"    {thread_levels_command(options)}", "",
            "Without Partita: what the MPI itself takes for being ready for calls from several threads.", "",
            *table_of("thread-levels")]


def instructions_section(options):
    return ["## Instructions of Start, Pready of each partition, and Wait (send, matched, receiver started)", "",
            f"    {shown_count_command(options)}", "", "By function: instructions.csv.", "",
            "<!--= instructions('instructions') --><!--/-->", ""]


def of_both_section(figure):
    return [f"## {figure.name}: {figure.unit}", "",
            f"Two builds in turns, {figure.meta['revision']}; what differs: {figure.meta['differs']}. In parentheses how many times as good as before.",
            "", *([f"Left out, as only one of them has it: {figure.meta['left_out']}.", ""] if "left_out" in figure.meta else []),
            *table_of(figure.name)]


def page(options, done, failed, counts, preload, levels, of_both=()):
    """The page of the folder, with the command that made each figure; pages.py fills in the figures, from the CSV files."""
    text = ["# Measured comparison", ""]
    if done:
        jobs = options.comparison.results(done[0])
        machine = jobs[0]["machine"]
        pinned = f"pinned by `{shlex.join(options.comparison.pinning)}`" if options.comparison.pinning else "not pinned by this program"
        if options.comparison.lanes:
            pinned += f", {len(options.comparison.lanes)} jobs at a time, each on cores of its own"
        text += [f"{machine['cpu']}, {machine['cores']} cores; {machine['mpi']}, thread level {machine['thread_level']}. {'Two' if options.comparison.ranks == 2 else options.comparison.ranks} ranks, "
                 f"{pinned}: {where_ranks_ran(jobs)}. Medians of {options.jobs} jobs, `JOB` in the commands; in parentheses how many "
                 "times as good as the row's yardstick of the same job, the persistent send or of collectives the MPI's: above 1 is "
                 "better. The intervals stand in the CSV files.", "",
                 "<!--= origins() --><!--/-->", ""]
    text += instructions_section(options) if counts else []
    text += preload_section(options) if preload else []
    text += thread_levels_section(options) if levels else []
    for run in done:
        jobs = options.comparison.results(run)
        found = jobs[0]
        text += [f"## {run.name}: {found['unit']}", "", f"    {options.comparison.shown_command(run)}", ""]
        if links_used(jobs):
            text += [f"Links: {links_used(jobs)}.", ""]
        text += [f"- {note}" for note in found["notes"]] + ([""] if found["notes"] else [])
        text += table_of(run.name)
        text += early_samples(jobs) + ([""] if early_samples(jobs) else [])
    for figure in of_both:
        text += of_both_section(figure)
    if failed:
        text += ["## Failed", ""] + [f"- `{options.comparison.shown_command(run)}`" for run in failed] + [""]
    return pages.filled(options.output / "README.md", "\n".join(text))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    comparison.add_options(parser)
    turns.add_options(parser, library=True)
    parser.add_argument("--peer", action="append", default=[])
    parser.add_argument("--threads", type=comparison.positive, default=4)
    parser.add_argument("--at-once", type=comparison.positive, default=1, help="jobs at a time, each on cores of its own; with Hydra's mpirun")
    parser.add_argument("--samples", type=comparison.positive, help="of each row of a job; the benchmark's own number without")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    # A core for each thread that marks, and one for the progress thread.
    options.comparison = comparison.Comparison(parser, options, cores=options.threads + 1, limit_s=RUN_LIMIT_S, at_once=options.at_once,
                                               builds=turns.builds_of(parser, options))
    return options


def main():
    exit_when_told_to_end()
    options = parse_arguments()
    options.output.mkdir(parents=True, exist_ok=True)
    done, failed = options.comparison.measure_all(planned_runs(options))
    origin = origin_of(options, shown_count_command(options))
    of_two = options.comparison.ranks == 2  # of which alone all but the runs is
    counts = count_instructions(options) if of_two and (not options.only or "instructions" in options.only) else {}
    if counts:
        write_table(options.output / "instructions.csv", ("link", "partitions", "part", "function", "instructions"),
                    [(*counted, part, function, count) for counted, parts in counts.items() for part, functions in parts.items()
                     for function, count in functions.items()], origin)
    preload = measure_preload(options) if of_two and (not options.only or "preload" in options.only) else {}
    levels = measure_thread_levels(options) if of_two and (not options.only or "thread-levels" in options.only) else {}
    alone = [measure_it for name, measure_it in MEASURED_ALONE.items() if name in options.only]
    if alone:
        for measure_it in alone:
            measure_it(options)
        return 0
    of_both = options.comparison.write_summaries(done)
    (options.output / "README.md").write_text(page(options, done, failed, counts, preload, levels, of_both))
    print("".join(f"\n{table(figure)}" for figure in of_both), end="")
    print(f"\n{len(done)} runs measured, {len(failed)} failed: {options.output / 'README.md'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
