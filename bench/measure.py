#!/usr/bin/env python3
"""Runs the whole measured comparison and writes the results, and a page about them, into a folder.

  bench/measure.py --program build/release/bin/partita --output docs/measurements/NAME
                   [--mpirun "mpirun -n 2"] [--peer native] [--peer library:/path/to/peer.so]
                   [--threads 4] [--only NAME]... [--quick]

Every comparison runs in one job, the subjects alternating. A run that fails is named on the page and in the exit status.
With valgrind installed it also counts Partita's instructions per epoch (design page docs/design/measuring.md).
"""

import argparse
import collections
import json
import pathlib
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

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


def measure_small_costs(options):
    """Instructions of the drop-in for a call on a request of the MPI's own, and what a copy into another process's memory and
    the look before it take: small-costs.json."""
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
    (options.output / "small-costs.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


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
    (options.output / "preload.json").write_text(json.dumps(
        {"unit": "us", "plain": {size: both[0] for size, both in times.items()},
         "preloaded": {size: both[1] for size, both in times.items()}}, indent=1) + "\n")
    return times


def preload_table(options, times):
    sizes = " ".join(map(str, PRELOAD_SIZES))
    lines = [f"## preload: us one way, medians of {PRELOAD_JOBS} jobs each", "",
             f"    {shlex.join(shown_launcher(options))} [env LD_PRELOAD=libpartita_mpi.so] partita_plain_ping_pong {sizes}", "",
             "| bytes | plain | preloaded | preloaded over plain |", "|---:|---:|---:|---:|"]
    for size, both in times.items():
        plain, preloaded = (statistics.median(each) for each in both)
        lines.append(f"| {size_name(size)} | {plain:.4g} | {preloaded:.4g} | {preloaded / plain:.2f} |")
    return [*lines, ""]


def results(options, run):
    return json.loads((options.output / f"{run.name}.json").read_text())


def size_name(size):
    for unit in ("", "K", "M", "G"):
        if size < 1024 or size % 1024:
            return f"{size}{unit}"
        size //= 1024
    return f"{size}T"


def table(found):
    """Markdown: a line for each size and partition count, a column for each subject."""
    subjects = list(dict.fromkeys(row["subject"] for row in found["rows"]))
    lines = [f"| bytes | partitions | {' | '.join(subjects)} |", "|" + "---:|" * (2 + len(subjects))]
    cases = dict.fromkeys((row["partitions"], row["bytes"]) for row in found["rows"])
    for partitions, size in cases:
        cells = []
        for subject in subjects:
            row = next(r for r in found["rows"] if (r["partitions"], r["bytes"], r["subject"]) == (partitions, size, subject))
            cell = f"{row['median']:.4g}"
            if subject != row["reference"]:
                cell += f" ({row['metric']:.2f})"
            cells.append(cell)
        lines.append(f"| {size_name(size)} | {partitions} | {' | '.join(cells)} |")
    return "\n".join(lines)


def links_used(found):
    used = collections.defaultdict(set)
    for row in found["rows"]:
        if row["link"]:
            used[row["subject"]].add(row["link"])
    return "; ".join(f"{subject}: {', '.join(sorted(links))}" for subject, links in used.items())


def page(options, done, failed, counts, preload):
    """The page that states every figure, with the command that made it."""
    machine = results(options, done[0])["machine"] if done else {}
    text = ["# Measured comparison", ""]
    if machine:
        text += [f"{machine['cpu']}, {machine['cores']} cores; {machine['mpi']}, thread level {machine['thread_level']}; 2 ranks of one "
                 "node. Medians; in parentheses the figure named in the heading, against the persistent send of the same job.", ""]
    if counts:
        text += ["## Instructions of Start + 8 × Pready + Wait (send, matched, receiver started)", "",
                 f"    {shown_count_command(options)}", "", "By function: instructions.json.", "",
                 "| link | Partita's own | in its links |", "|---|---:|---:|"]
        text += [f"| {link} | {sum(parts['own'].values()):.0f} | {sum(parts['links'].values()):.0f} |"
                 for link, parts in counts.items()]
        text += [""]
    if preload:
        text += preload_table(options, preload)
    for run in done:
        found = results(options, run)
        text += [f"## {run.name}: {found['unit']} ({found['metric']})", "", f"    {shown_command(options, run)}", ""]
        if links_used(found):
            text += [f"Links: {links_used(found)}.", ""]
        text += [f"- {note}" for note in found["notes"]] + ([""] if found["notes"] else [])
        text += [table(found), ""]
    if failed:
        text += ["## Failed", ""] + [f"- `{shown_command(options, run)}`" for run in failed] + [""]
    return "\n".join(text)


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
        found = {"command": shown_count_command(options), "epochs": COUNTED_EPOCHS, "instructions_per_epoch": counts}
        (options.output / "instructions.json").write_text(json.dumps(found, indent=1) + "\n")
    preload = measure_preload(options) if not options.only or "preload" in options.only else {}
    if "small-costs" in options.only:
        return measure_small_costs(options)
    (options.output / "README.md").write_text(page(options, done, failed, counts, preload))
    print(f"\n{len(done)} runs measured, {len(failed)} failed: {options.output / 'README.md'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
