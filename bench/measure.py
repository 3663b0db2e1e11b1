#!/usr/bin/env python3
"""Runs the whole measured comparison and writes into a folder the results, as JSON with all samples and as CSV summaries, and a
page that quotes these. The JSON stays out of the repository.

  bench/measure.py --program build/release/bin/partita --output docs/measurements/NAME
                   [--mpirun "mpirun -n 2"] [--peer native] [--peer library:/path/to/peer.so]
                   [--threads 4] [--only NAME]... [--quick]

Every comparison runs in one job, the subjects alternating. A run that fails is named on the page and in the exit status.
With valgrind installed it also counts Partita's instructions per epoch (design page docs/design/measuring.md).
"""

import argparse
import collections
import csv
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import pages
from partita_report.results import Job, Row, keep_summaries
from partita_report.summary import figure_of, to_csv

RUN_LIMIT_S = 1200
COUNTED_EPOCHS = 100
COUNTED_CALLS = 100  # as in bench/foreign_calls.c
VERIFIED_EPOCHS = 3  # as in bench/run.cpp
PRELOAD_SIZES = (8, 1024, 8192, 65536)
PRELOAD_JOBS = 9

Run = collections.namedtuple("Run", "name arguments")


def planned_runs(options):
    """The comparison: what design.md asks for, one JSON file each."""
    peers = [argument for peer in options.peer for argument in ("--peer", peer)]
    links = ["--link", "auto,mpi"]
    threads = ["--threads", str(options.threads)]
    overlap = ["--compute-us", "1000", "--noise-percent", "40"]
    samples = ["-i", "20", "-x", "2"] if options.quick else []
    large = "1M:1M" if options.quick else "64K:16M"

    def run(name, *arguments):
        return Run(name, [*arguments, *samples])

    runs = [
        run("latency", "latency", "-m", "8:4M", "--partitions", "8", *links, *peers),
        run("latency-partitions", "latency", "-m", "4K:1M", "--partitions", "1,2,4,16,32,64,128", *peers),
        run("latency-alloc", "latency", "-m", "8:4M", "--partitions", "8", "--memory", "alloc", *peers),
        run("bw", "bw", "-m", "8:4M", "--partitions", "8", *links, *peers),
        run("bw-partitions", "bw", "-m", "4K:1M", "--partitions", "1,2,4,16,32,64,128", *peers),
        run("overhead", "overhead", "-m", "4K:4M", "--partitions", "1,4,16", *links, *peers),
        run("start-pready-wait", "start-pready-wait", "-m", "8:4K", "--partitions", "8", *links, *peers),
        run("latency-drop-in", "latency", "-m", "8:4K", "--partitions", "8", "--face", "c,mpi"),
        run("foreign", "foreign", "-m", "8:64K"),
    ]
    for delay in ("none", "single", "uniform", "gaussian"):
        shape = ["--delay", delay, *overlap, *threads]
        runs.append(run(f"perceived-bandwidth-{delay}", "perceived-bandwidth", "-m", large, "--partitions",
                        "4,32", *shape, *links, *peers))
        runs.append(run(f"availability-{delay}", "availability", "-m", large, "--partitions", "8",
                        *shape, *peers))
        runs.append(run(f"early-bird-{delay}", "early-bird", "-m", large, "--partitions", "8",
                        *shape, *peers))
    runs.append(run("late-neighbours", "late-neighbours", "-m", "64K:64K" if options.quick else "8K:8M", "--partitions",
                    "8", *links, *peers))
    return [each for each in runs if not options.only or each.name in options.only]


def shown_launcher(options):
    """The launcher's words for readers: without this machine's paths."""
    launcher = shlex.split(options.mpirun)
    return [pathlib.Path(launcher[0]).name, *launcher[1:]]


def shown_command(options, run):
    """The command for readers: without this machine's paths."""
    arguments = [re.sub(r"library:.*/", "library:", argument) for argument in run.arguments]
    return f"{shlex.join(shown_launcher(options))} partita bench {shlex.join(arguments)} --json {run.name}.json"


def measure(options, run):
    """True if the run ended well; its JSON file is then in the output folder."""
    print(f"\n== {run.name}: {shown_command(options, run)}", flush=True)
    command = [*shlex.split(options.mpirun), options.program, "bench", *run.arguments,
               "--json", str(options.output / f"{run.name}.json")]
    try:
        code = subprocess.run(command, timeout=RUN_LIMIT_S, check=False).returncode
    except subprocess.TimeoutExpired:
        print(f"== {run.name}: did not end within {RUN_LIMIT_S} s", flush=True)
        return False
    if code != 0:
        print(f"== {run.name}: exit status {code}", flush=True)
    return code == 0


def counted_run(link):
    """Beside the folder, the arguments of valgrind and of the program in a run whose instructions are counted."""
    return (["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=partita::bench::counted_send*"],
            ["bench", "start-pready-wait", "-m", "1K:1K", "--partitions", "8", "--link", link, "--batch", "1", "-x", "0",
             "-i", str(COUNTED_EPOCHS - VERIFIED_EPOCHS)])


def shown_count_command(options):
    """The command of the counts for readers: without this machine's paths."""
    valgrind, program = counted_run("LINK")
    return shlex.join([*shown_launcher(options), "valgrind", *valgrind, "partita", *program])


def count_instructions(options):
    """Partita's own instructions for Start + 8 x Pready + Wait of a send on each link: {link: {"own": {function: instructions},
    "links": {...}}}, the latter of what its links do. Per epoch."""
    if not shutil.which("valgrind"):
        return {}
    counts = {}
    for link in ("auto", "mpi"):
        with tempfile.TemporaryDirectory() as folder:
            valgrind, program = counted_run(link)
            command = [*shlex.split(options.mpirun), "valgrind", *valgrind, f"--callgrind-out-file={folder}/out.%p",
                       options.program, *program]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False)
            if ended.returncode != 0:
                print(f"== instructions over link {link}: exit status {ended.returncode}\n{ended.stderr[-2000:]}")
                continue
            found = {"own": collections.Counter(), "links": collections.Counter()}
            for file in pathlib.Path(folder).iterdir():
                for instructions, function, library in annotated(file):
                    if "libpartita" not in library and "partita::" not in function or "partita::bench" in function:
                        continue
                    found["links" if "partita::link::" in function else "own"][function] += instructions
            if not found["own"]:
                print(f"== instructions over link {link}: callgrind saw none; the program and libraries need their symbols")
                continue
            counts[link] = {part: {function: instructions / COUNTED_EPOCHS for function, instructions in functions.most_common()}
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


def write_table(file, heading, rows):
    with open(file, "w", encoding="utf-8", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([heading, *([f"{cell:g}" if isinstance(cell, float) else cell for cell in row]
                                                                   for row in rows)])


def measure_small_costs(options):
    """Instructions of the drop-in for a call on a request of the MPI's own, and what a copy into another process's memory and
    the look before it take: small-costs.csv."""
    programs = pathlib.Path(options.program).resolve().parent
    found = {"command": shlex.join(counted_foreign_run(".", "test", True)), "instructions_per_call": {}, "remote_copy_ns": {}}
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
                   for size, value in found["remote_copy_ns"].items()])
    print(json.dumps(found, indent=1))


def write_preload(file, times):
    """A summary in which every job is one, with one sample of each size."""
    jobs = [Job(file.name, {"benchmark": "preload", "unit": "us"},
                [Row(subject, "plain", [both[number][job]], size=size) for size, both in times.items()
                 for number, subject in enumerate(("plain", "preloaded"))]) for job in range(PRELOAD_JOBS)]
    file.write_text(to_csv(figure_of("preload", jobs)), encoding="utf-8")


def measure_preload(options):
    """One-way times of a program that knows nothing of Partita, plain and with the drop-in preloaded, in jobs that alternate:
    {bytes: ([plain], [preloaded])} in microseconds."""
    folder = pathlib.Path(options.program).resolve().parent
    program, library = folder / "partita_plain_ping_pong", folder.parent / "lib" / "libpartita_mpi.so"
    if not program.exists() or not library.exists():
        print(f"== preload: {program.name} or {library.name} is not beside the program; built from the same tree they are")
        return {}
    times = {size: ([], []) for size in PRELOAD_SIZES}
    for preloaded in (False, True) * PRELOAD_JOBS:
        setting = ["env", f"LD_PRELOAD={library}"] if preloaded else []
        ended = subprocess.run([*shlex.split(options.mpirun), *setting, str(program), *map(str, PRELOAD_SIZES)],
                               capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False)
        if ended.returncode != 0:
            print(f"== preload: exit status {ended.returncode}\n{ended.stderr[-2000:]}")
            return {}
        for line in ended.stdout.splitlines():
            size, time_us = line.split()
            times[int(size)][preloaded].append(float(time_us))
    write_preload(options.output / "preload.csv", times)
    return times


def results(options, run):
    return json.loads((options.output / f"{run.name}.json").read_text())


def links_used(found):
    used = collections.defaultdict(set)
    for row in found["rows"]:
        if row["link"]:
            used[row["subject"]].add(row["link"])
    return "; ".join(f"{subject}: {', '.join(sorted(links))}" for subject, links in used.items())


def table_of(name):
    return [f"<!--= table('{name}') --><!--/-->", ""]


def preload_section(options):
    sizes = " ".join(map(str, PRELOAD_SIZES))
    return [f"## preload: us one way, medians of {PRELOAD_JOBS} jobs each", "",
            f"    {shlex.join(shown_launcher(options))} [env LD_PRELOAD=libpartita_mpi.so] partita_plain_ping_pong {sizes}", "",
            *table_of("preload")]


def instructions_section(options):
    return ["## Instructions of Start + 8 × Pready + Wait (send, matched, receiver started)", "",
            f"    {shown_count_command(options)}", "", "By function: instructions.csv.", "",
            "<!--= instructions('instructions') --><!--/-->", ""]


def page(options, done, failed, counts, preload):
    """The page of the folder, with the command that made each figure; pages.py fills in the figures, from the CSV files."""
    machine = results(options, done[0])["machine"] if done else {}
    text = ["# Measured comparison", ""]
    if machine:
        text += [f"{machine['cpu']}, {machine['cores']} cores; {machine['mpi']}, thread level {machine['thread_level']}; 2 ranks of one "
                 "node. Medians; in parentheses how many times as good as the persistent send of the same job: above 1 is better. The "
                 "intervals stand in the CSV files.", ""]
    text += instructions_section(options) if counts else []
    text += preload_section(options) if preload else []
    for run in done:
        found = results(options, run)
        text += [f"## {run.name}: {found['unit']}", "", f"    {shown_command(options, run)}", ""]
        if links_used(found):
            text += [f"Links: {links_used(found)}.", ""]
        text += [f"- {note}" for note in found["notes"]] + ([""] if found["notes"] else [])
        text += table_of(run.name)
    if failed:
        text += ["## Failed", ""] + [f"- `{shown_command(options, run)}`" for run in failed] + [""]
    return pages.filled(options.output / "README.md", "\n".join(text))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("--mpirun", default="mpirun -n 2")
    parser.add_argument("--peer", action="append", default=[])
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--quick", action="store_true")
    return parser.parse_args()


def main():
    options = parse_arguments()
    options.output.mkdir(parents=True, exist_ok=True)
    done, failed = [], []
    for run in planned_runs(options):
        (done if measure(options, run) else failed).append(run)
    counts = count_instructions(options) if not options.only or "instructions" in options.only else {}
    if counts:
        write_table(options.output / "instructions.csv", ("link", "part", "function", "instructions"),
                    [(link, part, function, count) for link, parts in counts.items() for part, functions in parts.items()
                     for function, count in functions.items()])
    preload = measure_preload(options) if not options.only or "preload" in options.only else {}
    if "small-costs" in options.only:
        return measure_small_costs(options)
    keep_summaries(options.output, [run.name for run in done])
    (options.output / "README.md").write_text(page(options, done, failed, counts, preload))
    print(f"\n{len(done)} runs measured, {len(failed)} failed: {options.output / 'README.md'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
