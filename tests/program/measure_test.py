"""bench/measure.py and gpu_measure.py with programs that only write down how they were started: jobs, seeds, binding, figures and
failures."""

import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time

import pytest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import comparison  # noqa: E402
import cpu  # noqa: E402
import goals  # noqa: E402
import gpu_measure  # noqa: E402
import launch  # noqa: E402
import links  # noqa: E402
import processes  # noqa: E402
import quoted  # noqa: E402
import turns  # noqa: E402
from partita_report.summary import joined, meta_of  # noqa: E402

DATE = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"

MPIRUN = """#!/bin/sh
if [ "$1" = --version ]; then echo "{version}"; exit 0; fi
printf '%s\\n' "$*" >> {folder}/started
while [ "$1" != env ] && [ "${{1#{folder}/partita}}" = "$1" ]; do shift; done
exec "$@"
"""

# A benchmark whose median is 10 times its seed and its scale, 3 with the libraries of the folder older; with FAIL_JOB the job of that seed fails.
PARTITA = """#!{python}
import json, os, sys
words = sys.argv[1:]
if words == ["--version"]:
    sys.exit(print("partita 0.1.0 {told}"))
known = [] if "{told}" == "(revision seedless)" else ["--seed", "--order-seed"]
if words[-1] == "--help":
    sys.exit(print("Usage: partita [OPTIONS]", *known))
if not known and {{"--seed", "--order-seed"}} & {{*words}}:
    sys.exit("unknown option")
scale = 3 if "older" in os.environ.get("LD_LIBRARY_PATH", "") else {scale}
if os.environ.get("FAIL_WITH") in words:
    sys.exit(1)
if words[0] == "run":
    output = words[words.index("--output") + 1]
    seed = int(words[words.index("--order-seed") + 1]) if known else 1
if words[:2] == ["run", "jacobi2d"]:
    cells = int(words[words.index("--size") + 1])
    run = {{"time_s": scale * cells / 1000, "halo_share": 0.5}}
    job = {{"mpi": "Some MPI", "ranks": 2, "cells": [cells, cells]}}
    json.dump({{"app": "jacobi2d", "order_seed": seed, "job": job, "runs": {{"traditional": [run], "kernel": [run]}}}}, open(output + ".json", "w"))
    open(output + "-residual.csv", "w").write("mode,iteration,residual,time_s\\n")
    sys.exit(0)
if words[:2] == ["run", "fft"]:
    cells = int(words[words.index("--size") + 1])
    runs = {{name: [{{"iteration_s": cells * s, "exchange_share": 0.25}}] for name, s in (("alltoall-staged", 0.003), ("alltoall", 0.002))}}
    problem = {{"size": [cells] * 3, "decomposition": "slab", "slices": 8, "iterations": 10}}
    json.dump({{"app": "fft", "order_seed": seed, "job": {{"mpi": "Some MPI", "ranks": 2, "device": "Some GPU"}}, "problem": problem, "runs": runs}}, open(output + ".json", "w"))
    sys.exit(0)
seed, file = words[words.index("--seed") + 1] if known else "1", words[words.index("--json") + 1]
if os.environ.get("FAIL_JOB") == seed:
    sys.exit(1)
row = {{"bytes": 8192, "partitions": 8, "reference": "persistent", "link": "direct"}}
rows = [dict(row, subject="persistent", samples=[100, 100], early=0),
        dict(row, subject="partita-c", samples=[10 * scale * int(seed)] * 2, early=2),
        dict(row, subject="{own}", samples=[1, 1], early=0)][:3 if "{own}" else 2]
place = {{"node": 0, "cores": "0-1"}}
json.dump({{"benchmark": "late-neighbours", "unit": "us", "metric": "x_persistent", "notes": [], "rows": rows, "revision": "abc", "date": "2026-01-31T23:59:00Z",
            "command": "partita bench", "binding": [dict(place, rank=0), dict(place, rank=1)],
            "machine": {{"cpu": "A CPU", "cores": 4, "mpi": "Some MPI", "thread_level": "multiple"}}}}, open(file, "w"))
"""


LIMIT_S = 30
MEASURE = ["measure.py", "--only", "late-neighbours", "--threads", "1"]


def write_program(file, text):
    file.write_text(text)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


def partita(told="(revision abc)", scale=1, own=""):
    return PARTITA.format(python=sys.executable, told=told, scale=scale, own=own)


class Measured:
    def __init__(self, sources, folder, *words, tool=MEASURE, version="HYDRA build details", mpirun="", program=partita(), **environment):
        self.output = folder / "results"
        write_program(folder / "mpirun", MPIRUN.format(version=version, folder=folder))
        write_program(folder / "partita", program)
        self.ended = subprocess.run(
            [sys.executable, sources / "bench" / tool[0], "--program", folder / "partita", "--output", self.output, "--mpirun",
             mpirun or f"{folder}/mpirun -n 2", *tool[1:], *words],
            capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **environment})
        started = folder / "started"
        self.started = [shlex.split(line) for line in started.read_text().splitlines()] if started.exists() else []
        page = self.output / "README.md"
        self.page = page.read_text() if page.exists() else ""

    def rows(self, name):
        lines = (self.output / f"{name}.csv").read_text().splitlines()
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))

    def summary(self, subject):
        return next(row for row in self.rows("late-neighbours") if row["subject"] == subject)


@pytest.fixture
def measure(sources, tmp_path):
    return lambda *words, **more: Measured(sources, tmp_path, *words, **more)


def test_five_jobs_stand_behind_each_figure_and_each_has_its_seed(measure):
    measured = measure()
    assert measured.ended.returncode == 0, measured.ended.stderr
    assert sorted(file.name for file in measured.output.glob("*.json")) == [f"late-neighbours-{job}.json" for job in range(1, 6)]
    seeds = [words[words.index("--seed") + 1] for words in measured.started]
    assert seeds == ["1", "2", "3", "4", "5"]


def test_a_figure_is_the_median_of_the_jobs_beside_the_least_and_the_largest(measure):
    measured = measure()
    summary = measured.summary("partita-c")
    assert [float(summary[column]) for column in ("jobs", "median", "min", "max")] == [5, 30, 10, 50]
    assert "- partita-c, 8 partitions: 10 of 10 samples early, at each size of 8K" in measured.page
    assert "- persistent, 8 partitions: 0 of 10 samples early, at each size of 8K" in measured.page


def test_another_number_of_jobs_may_be_asked_for(measure):
    measured = measure("--jobs", "2")
    assert len(measured.started) == 2
    assert float(measured.summary("partita-c")["median"]) == 15
    assert "Medians of 2 jobs" in measured.page


def test_the_samples_of_a_job_may_be_fewer(measure):
    assert all("-i 7 -x 2" in " ".join(words) for words in measure("--samples", "7").started)


def test_the_links_are_auto_and_the_last_of_the_list_of_links(measure):
    last = links.names()[-1]
    only = [word for name in ("latency", "first-contact-auto", f"first-contact-{last}") for word in ("--only", name)]
    measured = measure("--jobs", "1", tool=["measure.py", *only])
    assert [words[words.index("--link") + 1] for words in measured.started] == [f"auto,{last}", "auto", last]


def test_late_neighbours_are_measured_over_each_link_in_figures_of_which_there_are_goals(measure):
    between = links.names()[1:-1]
    names = [f"late-neighbours{held}{link}" for held in ("", "-held") for link in ("", *(f"-{link}" for link in between))]
    measured = measure("--jobs", "1", tool=["measure.py", *(word for name in names for word in ("--only", name))])
    assert measured.ended.returncode == 0, measured.ended.stderr
    both = f"auto,{links.names()[-1]}"
    taken = [(words[words.index("--json") + 1].rpartition("/")[2], "--close-epochs" in words, words[words.index("--link") + 1])
             for words in measured.started]
    assert sorted(taken) == sorted((f"{name}-1.json", "-held" in name, link) for name, link in zip(names, [both, *between] * 2))
    assert all((measured.output / f"{name}.csv").exists() for name in names)
    judged = {(goal.figure, goal.subject) for goal in goals.read_goals().values()}
    assert {(name, f"partita-c{link}") for name, link in zip(names, ["", *(f":{link}" for link in between)] * 2)} <= judged


def test_a_peer_in_a_mode_of_mpipcl_has_jobs_of_its_own(measure, sources):
    mode = "library:/some/mpipcl.so?PMODE=SENDER"
    names = [file.stem for file in sorted((sources / "docs/measurements/mpich-64-cores").glob("*-mpipcl.csv"))]
    only = [word for name in (*names, "latency") for word in ("--only", name)]
    measured = measure("--jobs", "1", "--peer", "native", "--peer", mode, tool=["measure.py", *only])
    assert measured.ended.returncode == 0, measured.ended.stderr
    peers = {words[words.index("--json") + 1].rpartition("/")[2]: [word for at, word in enumerate(words) if words[at - 1] == "--peer"]
             for words in measured.started}
    assert peers == {"latency-1.json": ["isend", "native"], **{f"{name}-1.json": [mode] for name in names}} and len(names) == 4
    benchmarks = [words[words.index("bench") + 1] for words in measured.started]
    assert sorted(benchmarks) == ["early-bird", "late-neighbours", "latency", "latency", "perceived-bandwidth"]
    uniform = [words for words in measured.started if {"early-bird", "perceived-bandwidth"} & {*words}]
    assert all("--delay uniform" in " ".join(words) for words in uniform)
    assert len(measure("--jobs", "1", "--peer", "native", tool=["measure.py", *only]).started) == len(measured.started) + 1, "latency alone"


def test_a_first_contact_has_one_sample(measure):
    measured = measure("--samples", "7", tool=["measure.py", "--only", "first-contact-mpi"])
    assert measured.started
    assert all("-i" not in words and "-x" not in words for words in measured.started)


def test_four_ranks_measure_the_collectives_alone_and_share_the_cores_by_four(measure, tmp_path, sources):
    measured = measure("--jobs", "1", "--threads", "1", tool=["measure.py"], mpirun=f"{tmp_path}/mpirun -n 4")
    assert measured.ended.returncode == 0, measured.ended.stdout + measured.ended.stderr
    told = dict(re.findall(r"^== (\S+), job 1 of 1: .* partita bench (\w+) ", measured.ended.stdout, re.MULTILINE))
    kinds = ["allreduce", "allgather", "reduce_scatter", "alltoall", "bcast"]
    assert told == {f"{kind}-apart-4-ranks": kind for kind in kinds}
    assert all(" --partitions 8 --compute-us 1000 " in " ".join(words) for words in measured.started)
    assert sorted(file.name for file in measured.output.glob("*-ranks.csv")) == sorted(f"{kind}-apart-4-ranks.csv" for kind in kinds)
    goals = [line.split(",") for line in (sources / "bench/goals.csv").read_text().splitlines()]
    assert {row[1] for row in goals if "-apart" in row[0]} == set(told), "they are judged"
    assert "4 ranks, pinned by" in measured.page


def test_two_ranks_measure_the_collectives_too(measure):
    measured = measure("--jobs", "1", tool=["measure.py", "--only", "bcast-apart", "--threads", "1"])
    assert len(measured.started) == 1 and "bench bcast -m 8K:1M" in " ".join(measured.started[0])


@pytest.mark.parametrize("words, ranks", [("mpirun -n 4", 4), ("mpirun -np 8 --oversubscribe", 8), ("srun --ntasks 3", 3), ("srun", 2), ("mpirun -n", 2)])
def test_the_number_of_ranks_is_the_one_that_the_launcher_is_told(words, ranks):
    assert launch.ranks_of(words.split()) == ranks


def test_no_jobs_at_all_are_refused(measure):
    measured = measure("--jobs", "0")
    assert measured.ended.returncode == 2
    assert "0 is below 1" in measured.ended.stderr


def hydra(folder):
    return [str(write_program(folder / "mpirun", MPIRUN.format(version="HYDRA build details", folder=folder))), "-n", "2"]


def test_jobs_at_once_have_cores_of_their_own_of_one_numa_node(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "cores_of_nodes", lambda: [[0, 1, 2, 3, 4], [8, 9, 10, 11]])
    words = [launcher[-2:] for launcher in launch.lanes(hydra(tmp_path), 2, ranks=2, cores_a_rank=2)]
    assert words == [["-bind-to", "user:0+1,2+3"], ["-bind-to", "user:8+9,10+11"]]
    with pytest.raises(ValueError, match="3 jobs at once need 4 cores each, all of one NUMA node; there is room for 2"):
        launch.lanes(hydra(tmp_path), 3, ranks=2, cores_a_rank=2)


def test_jobs_at_once_are_each_measured_once_and_begin_with_different_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "cores_of_nodes", lambda: [list(range(8))])
    options = argparse.Namespace(program="partita", output=tmp_path, mpirun=shlex.join(hydra(tmp_path)), bind="auto", jobs=5)
    made = comparison.Comparison(argparse.ArgumentParser(), options, cores=2, limit_s=1, at_once=2)
    runs = [comparison.Run(name, []) for name in "abcd"]
    measured = []
    assert made.measure_all(runs, lambda run, job, build: measured.append((job, run.name)) or (run.name, job) != ("b", 4)) == ([runs[0], *runs[2:]], [runs[1]])
    assert sorted(measured) == [(job, name) for job in range(1, 6) for name in "abcd"]
    assert [[name for job, name in measured if job == wanted] for wanted in (1, 2)] == [list("abcd"), list("cdab")]
    assert made.shown_command(runs[0], 2).startswith("mpirun -n 2 -bind-to user:4+5,6+7 partita")
    assert made.shown_command(runs[0]).startswith("mpirun -n 2 -bind-to user:CORES partita")


def test_a_run_has_its_variables_in_its_environment_and_in_the_command_that_is_told(tmp_path, monkeypatch):
    monkeypatch.delenv("FAIL_WITH", raising=False)
    options = argparse.Namespace(program=str(write_program(tmp_path / "partita", partita())), output=tmp_path,
                                 mpirun=shlex.join(hydra(tmp_path)), bind="none", jobs=1)
    made = comparison.Comparison(argparse.ArgumentParser(), options, cores=1, limit_s=60)
    failing, plain = comparison.Run("a", ["some"], environment=("FAIL_WITH=some",)), comparison.Run("b", ["some"])
    assert not made.measure(failing, 1)
    assert made.measure(plain, 1)
    assert made.shown_command(failing) == f"FAIL_WITH=some {made.shown_command(plain).replace('b-JOB', 'a-JOB')}"


@pytest.mark.parametrize(("version", "mpirun"), [("mpirun (Open MPI) 5.0.5", ""), ("HYDRA build details", "{}/mpirun -n 2 -bind-to core:2")])
def test_jobs_at_once_need_a_launcher_that_can_be_told_their_cores(measure, tmp_path, version, mpirun):
    measured = measure("--at-once", "2", version=version, mpirun=mpirun.format(tmp_path))
    assert measured.ended.returncode == 2
    assert "several jobs at once need Hydra's mpirun" in measured.ended.stderr
    assert not measured.started


@pytest.mark.parametrize(("version", "words"), [("HYDRA build details", "-bind-to core:{}"),
                                                ("mpirun (Open MPI) 5.0.5", "--map-by slot:PE={} --bind-to core"),
                                                ("slurm 23.11", "--cpus-per-task={} --cpu-bind=cores")])
def test_ranks_are_pinned_by_the_words_of_the_launcher_and_the_page_says_so(measure, version, words):
    measured = measure(version=version)
    cores = max(1, min(2, len(os.sched_getaffinity(0)) // 2))
    pinned = words.format(cores)
    assert measured.started
    assert all(pinned in " ".join(started) for started in measured.started)
    assert f"Two ranks, pinned by `{pinned}`: rank 0 on node 0, cores 0-1, rank 1 on node 0, cores 0-1." in measured.page
    command = json.loads((measured.output / "late-neighbours-3.json").read_text())["command"]
    assert command.startswith(f"mpirun -n 2 {pinned} partita bench late-neighbours")
    assert command.endswith("--seed 3 --json late-neighbours-3.json")


@pytest.mark.parametrize("version", ["HYDRA build details", "a launcher of another kind"])
def test_a_launcher_is_left_alone_that_pins_already_or_is_not_known(measure, tmp_path, version):
    known = version.startswith("HYDRA")
    measured = measure(version=version, mpirun=f"{tmp_path}/mpirun -n 2{' -bind-to none' if known else ''}")
    assert measured.started
    for started in measured.started:
        words = started[:started.index(str(tmp_path / "partita"))]
        assert words == (["-n", "2", "-bind-to", "none"] if known else ["-n", "2"])


def test_binding_can_be_left_to_others(measure):
    assert all("-bind-to" not in words for words in measure("--bind", "none").started)


def test_a_run_is_failed_if_one_of_its_jobs_is(measure):
    measured = measure(FAIL_JOB="3")
    assert measured.ended.returncode == 1
    assert len(measured.started) == 5
    assert "## Failed" in measured.page
    assert not (measured.output / "late-neighbours.csv").exists()


def test_no_launcher_is_refused_in_a_sentence(measure):
    measured = measure(mpirun=" ")
    assert measured.ended.returncode == 2
    assert "--mpirun is empty" in measured.ended.stderr


def test_figures_of_programs_without_records_tell_where_they_come_from_too(measure, tmp_path):
    write_program(tmp_path / "partita_plain_ping_pong", "#!/bin/sh\nfor size in 8 1024 8192 65536; do echo $size 1.5; done\n")
    measured = measure("--jobs", "2", "--bind", "none", tool=["measure.py", "--only", "thread-levels"])
    assert measured.ended.returncode == 0, measured.ended.stderr
    meta = meta_of((measured.output / "thread-levels.csv").read_text())
    assert re.fullmatch(DATE, meta["date"]) and meta["revision"] == "abc" and meta["kernel"] == os.uname().release
    assert meta["command"] == "mpirun -n 2 partita_plain_ping_pong --thread-level LEVEL 8 1024 8192 65536" and meta["command"] in measured.page


VALGRIND = """#!/bin/sh
for word; do
  case $word in --callgrind-out-file=*) file=${word#*=} ;; esac
  [ "$before" = --partitions ] && partitions=$word
  before=$word
done
echo $partitions > "$(dirname "$file")/out.1"
"""
ANNOTATE = """#!/bin/sh
for file; do :; done
partitions=$(cat "$file")
echo "$((partitions * 1000)) (80.0%)  src/capi/pready.cpp:Partita_Pready [/lib/libpartita.so.0]"
echo "$((partitions * 200)) (16.0%)  src/link/put.cpp:partita::link::put() [/lib/libpartita.so.0]"
echo "7 (4.0%)  bench/start.cpp:partita::bench::counted_send() [/bin/partita]"
"""


def test_instructions_are_counted_of_an_epoch_with_eight_partitions_and_with_one(measure, tmp_path):
    for name, text in (("valgrind", VALGRIND), ("callgrind_annotate", ANNOTATE), ("launch", '#!/bin/sh\n[ "$1" = --version ] || exec "$@"\n')):
        write_program(tmp_path / name, text)
    measured = measure(tool=["measure.py", "--only", "instructions"], mpirun=str(tmp_path / "launch"), PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert measured.ended.returncode == 0, measured.ended.stderr
    counted = {(row["link"], row["partitions"], row["part"]): float(row["instructions"]) for row in measured.rows("instructions")}
    assert counted == {(link, partitions, part): int(partitions) * each for link in ("auto", links.names()[-1]) for partitions in ("8", "1")
                       for part, each in (("own", 10), ("links", 2))}, "of 100 epochs"
    assert "| auto | 8 | 80 | 16 |" in measured.page and "| auto | 1 | 10 | 2 |" in measured.page


def test_the_cost_of_a_locked_instruction_is_a_figure_of_its_own_without_a_page(measure, tmp_path):
    write_program(tmp_path / "partita_locked_cost",
                  f"#!{sys.executable}\nimport json, os\n"
                  "print(json.dumps({'one locked instruction': 9.5, 'another': 19, 'cores': sum(2 ** core for core in os.sched_getaffinity(0))}))\n")
    measured = measure("--jobs", "2", tool=["measure.py", "--only", "locked-cost"])
    assert measured.ended.returncode == 0 and not measured.page, measured.ended.stderr
    rows = {row["subject"]: row for row in measured.rows("locked-cost")}
    assert [(what, row["jobs"], float(row["median"]), row["ratio"]) for what, row in rows.items()][:2] == [
        ("one locked instruction", "2", 9.5, ""), ("another", "2", 19, "0.5")]
    meta = meta_of((measured.output / "locked-cost.csv").read_text())
    assert (meta["unit"], meta["command"], meta["revision"]) == ("ns", "taskset -c CORE partita_locked_cost", "abc")
    cores = [core for node in launch.cores_of_nodes() for core in node]
    used = [cores[0], cores[1 % len(cores)]]  # each job one core of its own, where there are as many
    assert sorted(float(rows["cores"][end]) for end in ("min", "max")) == sorted(2.0 ** core for core in used)
    assert meta["binding"] == " | ".join(dict.fromkeys(f"core {core}" for core in used))
    assert all(re.fullmatch(DATE, date) for date in meta["date"].split(" | "))
    assert {key: meta[key] for key in ("cpu", "cores")} == {key: str(value) for key, value in cpu.machine().items()}
    assert meta["cores"] == str(os.cpu_count()) and cpu.clocks(used).keys() <= meta.keys()


def test_the_cost_of_a_locked_instruction_needs_a_way_to_pin_its_jobs(measure, tmp_path):
    measured = measure(tool=["measure.py", "--only", "locked-cost"], PATH=str(tmp_path))
    assert measured.ended.returncode == 1
    assert "locked-cost pins its jobs by taskset, which is not on PATH" in measured.ended.stderr and "Traceback" not in measured.ended.stderr


def test_what_a_machine_tells_of_its_cores_is_written_as_records_write_it(tmp_path, monkeypatch):
    told = [f"processor\t: {core}\nmodel name\t: A CPU: of many cores\ncpu MHz\t\t: {mhz}\n" for core, mhz in ((0, 800), (1, 2100.5), (2, 3000))]
    monkeypatch.setattr(cpu, "CPUINFO", tmp_path / "cpuinfo")
    cpu.CPUINFO.write_text("\n".join(told))
    assert cpu.machine()["cpu"] == "A CPU: of many cores"
    assert {key: rate for key, rate in cpu.clocks([1, 2]).items() if key.endswith("mhz")} == {"cpu_least_mhz": 2100.5, "cpu_most_mhz": 3000}
    cpu.CPUINFO.write_text("processor: 0\n")
    assert cpu.machine()["cpu"] == "" and "cpu_least_mhz" not in cpu.clocks([0])


def test_runs_on_gpus_have_jobs_and_pinned_ranks_too(measure):
    measured = measure("--jobs", "3", "--only", "fig2", "--nccl", "none", "--samples", "7", tool=["gpu_measure.py"])
    assert measured.ended.returncode == 0, measured.ended.stderr
    assert [words[words.index("--seed") + 1] for words in measured.started] == ["1", "2", "3"]
    assert all("-bind-to core:" in " ".join(words) and "-i 7 -x 2" in " ".join(words) for words in measured.started)
    assert [row["jobs"] for row in measured.rows("fig2")] == ["3", "3"]


def test_each_collective_that_may_go_by_peer_memory_is_measured_where_it_does(measure, sources):
    may = re.findall(r"^SIZE\((\w+),", (sources / "src/two_sided/peer_sizes.inc").read_text(), re.MULTILINE)
    lines = re.findall(r'^COLLECTIVE\("ipc\.(\S+)", (\w+),', (sources / "bench/gpu/peer_collectives.inc").read_text(), re.MULTILINE)
    assert may and sorted(may) == sorted(name for _, name in lines)
    only = [word for name, _ in lines for word in ("--only", f"ipc-{name}")]
    measured = measure("--jobs", "1", "--quick", *only, tool=["gpu_measure.py"])
    assert measured.ended.returncode == 0, measured.ended.stderr
    for name, _ in lines:
        command = meta_of((measured.output / f"ipc-{name}.csv").read_text())["command"]
        assert command.startswith("PARTITA_GPU_AWARE=on PARTITA_PEER_COLLECTIVES=0 ") and f"partita bench ipc.{name} -m 1K:4M -i 10 -x 2 " in command, command


def test_plates_of_several_sizes_are_one_figure(measure):
    measured = measure("--jobs", "2", "--only", "jacobi", "--quick", tool=["gpu_measure.py"])
    assert measured.ended.returncode == 0, measured.ended.stderr
    assert sorted(file.name for file in measured.output.glob("*.json")) == [f"jacobi-{cells}-{job}.json" for cells in (256, 64) for job in (1, 2)]
    meta = meta_of((measured.output / "jacobi.csv").read_text())
    assert all(re.fullmatch(DATE, date) for date in meta["date"].split(" | ")) and meta["seed"] == "1 | 2"
    assert meta["command"].count("partita run jacobi2d --device gpu") == meta["command"].count("--order-seed SEED") == 2
    rows = [(row["size"], row["subject"], float(row["median"])) for row in measured.rows("jacobi")]
    assert rows == [(str(cells), mode, cells / 1000) for cells in (64, 256) for mode in ("traditional", "kernel")]


def test_transforms_of_several_cubes_are_one_figure_whose_runs_leave_gpu_memory_to_partita(measure):
    measured = measure("--jobs", "2", "--only", "ipc-fig12", "--quick", tool=["gpu_measure.py"])
    assert measured.ended.returncode == 0, measured.ended.stderr
    command = meta_of((measured.output / "ipc-fig12.csv").read_text())["command"]
    assert command.count("PARTITA_GPU_AWARE=on mpirun -n 2 ") == command.count(" partita run fft --device gpu ") == command.count(" --staged ") == 3
    rows = [(row["size"], row["subject"], float(row["median"])) for row in measured.rows("ipc-fig12")]
    assert [row for row in rows if row[1] == "alltoall"] == [(str(cells), "alltoall", 2.0 * cells) for cells in (64, 128, 256)]
    assert [row for row in rows if row[0] == "64"] == [("64", name + part, float(ms * share)) for name, ms in (("alltoall-staged", 192), ("alltoall", 128))
                                                        for part, share in (("", 1), (":exchange", 0.25))]
    assert "MPI_Alltoall, by peer memory over staged, every cube: a bar of our own" in measured.ended.stdout and " 1.50  reached" in measured.ended.stdout


def test_a_cube_has_no_more_runs_in_a_job_than_peers_keep_mapped_whatever_samples_are_asked_for(measure):
    measured = measure("--jobs", "1", "--only", "ipc-fig12", "--samples", "2", tool=["gpu_measure.py"])
    assert measured.ended.returncode == 0, measured.ended.stderr
    asked = {words[words.index("--size") + 1]: words[words.index("--repeat") + 1] for words in measured.started}
    assert asked == {"64": "2", "128": "2", "256": "2", "512": "1"}


def test_transforms_are_left_out_where_no_peer_memory_is_reached_and_need_two_ranks(measure, tmp_path):
    measured = measure("--jobs", "1", "--quick", "--two-nodes", "--only", "ipc-fig12", "--only", "fig2", tool=["gpu_measure.py"])
    assert measured.ended.returncode == 0, measured.ended.stderr
    assert "ipc-fig12: left out, as the ranks are on two nodes" in measured.ended.stdout
    assert {file.stem for file in measured.output.glob("*.csv")} == {"fig2"}
    measured = measure("--jobs", "1", "--only", "ipc-fig12", tool=["gpu_measure.py"], mpirun=f"{tmp_path}/mpirun -n 1")
    assert measured.ended.returncode == 2 and "ipc-fig12 needs two ranks or more" in measured.ended.stderr, measured.ended


@pytest.mark.parametrize("place", ["cu13/lib/libcufft.so.12", "cufft/lib/libcufft.so.12", "cufft/lib/libcufft.so.11"])
def test_cufft_is_found_in_the_wheel_of_either_cuda(place, tmp_path, monkeypatch):
    library = tmp_path / "nvidia" / place
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for name in [name for name in sys.modules if name.partition(".")[0] == "nvidia"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delenv("CUFFT_LIBRARY", raising=False)
    assert gpu_measure.cufft_words() == ["--cufft", str(library)]
    monkeypatch.setenv("CUFFT_LIBRARY", "own.so")
    assert gpu_measure.cufft_words() == []
    sys.modules.pop("nvidia", None)


@pytest.mark.parametrize("words, made", [([], {"channel-fig11", "channel-fig13"}), (["--two-nodes"], {"channel-fig12", "channel-fig14"})])
def test_messages_are_measured_in_a_node_or_between_nodes_as_the_ranks_are(measure, words, made):
    only = [word for number in range(11, 15) for word in ("--only", f"channel-fig{number}")]
    measured = measure("--jobs", "1", "--quick", *only, *words, tool=["gpu_measure.py"])
    assert measured.ended.returncode == 0, measured.ended.stderr
    assert {file.stem for file in measured.output.glob("*.csv")} == made
    for name in made:
        assert meta_of((measured.output / f"{name}.csv").read_text())["command"].startswith("PARTITA_GPU_AWARE=on mpirun ")


def test_goodput_beside_a_gpu_aware_mpi_is_a_figure_of_its_own_that_has_goals(measure):
    only = ["--only", "fig4", "--only", "fig4-gpu-aware"]
    for words, name in (([], "fig4"), (["--gpu-aware-mpi"], "fig4-gpu-aware")):
        measured = measure("--jobs", "1", *only, *words, tool=["gpu_measure.py"])
        assert measured.ended.returncode == 0, measured.ended.stderr
        started = measured.started[-1]
        assert started[started.index("--json") + 1].endswith(f"/{name}-1.json") and ("--gpu-aware-mpi" in started) == bool(words)
        assert (measured.output / f"{name}.csv").exists() and name in {goal.figure for goal in goals.read_goals().values()}
    assert len(measured.started) == 2


def test_a_job_that_fails_with_a_peer_is_made_again_without(measure):
    measured = measure("--jobs", "2", "--only", "latency", "--nccl", "none", "--nvshmem", "peer.so", tool=["gpu_measure.py"], FAIL_WITH="peer.so")
    assert measured.ended.returncode == 0, measured.ended.stderr
    assert ["--nvshmem" in words for words in measured.started] == [True, False, True, False]
    assert [row["jobs"] for row in measured.rows("latency")] == ["2", "2"]


def test_a_run_on_gpus_that_fails_without_peers_too_is_named(measure):
    measured = measure("--jobs", "2", "--only", "fig2", tool=["gpu_measure.py"], FAIL_JOB="2")
    assert measured.ended.returncode == 1
    assert "failed: mpirun -n 2 " in measured.ended.stdout and "partita bench partitioned.fig2" in measured.ended.stdout
    assert not (measured.output / "fig2.csv").exists()


# ---- Two builds in turns ----------------------------------------------------------------------------------------------


@pytest.fixture
def older(tmp_path):
    """Writes the older build's program."""
    return lambda *, told="(revision old)", scale=2, own="": write_program(tmp_path / "partita-older", partita(told, scale, own))


def builds_started(measured):
    return ["before" if any("partita-older" in word or word == "env" for word in words) else "now" for words in measured.started]


def test_each_job_is_made_by_both_builds_in_an_order_drawn_for_each_job(measure, older):
    measured = measure("--jobs", "8", "--before", older())
    assert measured.ended.returncode == 0, measured.ended.stderr
    seeds = [words[words.index("--seed") + 1] for words in measured.started]
    assert seeds == [str(job) for job in range(1, 9) for _ in range(2)]
    order = builds_started(measured)
    pairs = list(zip(order[::2], order[1::2]))
    assert set(pairs) == {("before", "now"), ("now", "before")}
    assert builds_started(measure("--jobs", "8", "--before", older()))[16:] == order
    for folder in (measured.output, measured.output / "before"):
        assert sorted(file.name for file in folder.glob("*.json")) == [f"late-neighbours-{job}.json" for job in range(1, 9)]


def test_a_run_has_settings_of_its_own(tmp_path, monkeypatch):
    told = "import os; open(os.environ['TOLD'], 'a').write(' '.join(os.environ.get(name, '-') for name in ('PARTITA_NODES', 'OTHER')) + chr(10))\n"
    program = write_program(tmp_path / "partita", partita().replace("import json, os, sys\n", "import json, os, sys\n" + told))
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    monkeypatch.delenv("PARTITA_NODES", raising=False)
    options = argparse.Namespace(output=tmp_path, mpirun=shlex.join(hydra(tmp_path)), bind="none", jobs=1, program=str(program))
    made = comparison.Comparison(argparse.ArgumentParser(), options, cores=1, limit_s=60, environment=dict(os.environ, OTHER="kept"))
    divided = comparison.Run("a", [], environment=("PARTITA_NODES=2",))
    assert made.measure(divided, 1) and made.measure(comparison.Run("b", []), 1)
    assert (tmp_path / "told").read_text().splitlines() == ["2 kept", "- kept"]
    assert made.shown_command(divided).startswith("PARTITA_NODES=2 ")
    assert json.loads((tmp_path / "a-1.json").read_text())["command"].startswith("PARTITA_NODES=2 ")


def test_program_and_libraries_of_a_build_are_read_anew_for_each_job(tmp_path, monkeypatch):
    for name in ("now", "older"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "libpartita.so.0").write_text(name)
    write_program(tmp_path / "ldd", LDD.format(found=tmp_path / "older", more=":").replace("/now/", f"{tmp_path}/now/"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    dropped = []
    monkeypatch.setattr(os, "posix_fadvise", lambda descriptor, *what: dropped.append((os.readlink(f"/proc/self/fd/{descriptor}"), *what)))
    program = str(write_program(tmp_path / "partita", partita()))
    options = argparse.Namespace(output=tmp_path, mpirun=shlex.join(hydra(tmp_path)), bind="none", jobs=2)
    builds = {"older": turns.Build("before", program, "old", "before", str(tmp_path / "older")), "now": turns.Build("now", program)}
    made = comparison.Comparison(argparse.ArgumentParser(), options, cores=1, limit_s=60, builds=list(builds.values()))
    for folder, build in builds.items():
        for job in (1, 2):
            assert made.measure(comparison.Run("a", []), job, build)
            assert dropped == [(str(tmp_path / file), 0, 0, os.POSIX_FADV_DONTNEED) for file in ("partita", f"{folder}/libpartita.so.0")]
            dropped.clear()


def test_a_figure_of_both_builds_has_each_subject_twice_and_the_ratio_within_each_pair_of_jobs(measure, older):
    measured = measure("--jobs", "3", "--before", older())
    assert [float(row["median"]) for row in measured.rows("late-neighbours")] == [100, 20], "the figure of this build is as without"
    rows = {row["subject"]: row for row in measured.rows("before-late-neighbours")}
    assert list(rows) == ["persistent before", "persistent now", "partita-c before", "partita-c now"]
    before, now = rows["partita-c before"], rows["partita-c now"]
    assert [float(before[column]) for column in ("jobs", "median", "min", "max")] == [3, 40, 20, 60] and before["ratio"] == ""
    assert [float(now[column]) for column in ("jobs", "median", "min", "max")] == [3, 20, 10, 30]
    assert [now["reference"], *(float(now[column]) for column in ("ratio", "ratio_min", "ratio_max"))] == ["partita-c before", 2, 2, 2]
    meta = meta_of((measured.output / "before-late-neighbours.csv").read_text())
    assert (meta["revision"], meta["differs"]) == ("old (before), abc (now)", "program and library") and "left_out" not in meta
    assert re.search(r"partita-c +2\.000   2\.000 to 2\.000 +faster", measured.ended.stdout), measured.ended.stdout
    assert "## before-late-neighbours: us" in measured.page and "Two builds in turns, old (before), abc (now);" in measured.page
    assert "| 8K | 8 | 100 | 100 (1.00) | 40 | 20 (2.00) |" in measured.page


def test_what_pairs_of_jobs_say_is_told_once():
    assert joined([{"date": "1 | 2", "mpi": "M"}, {"date": "2 | 3", "mpi": "M", "ucx": "U"}]) == {"date": "1 | 2 | 3", "mpi": "M", "ucx": "U"}


def test_pages_quote_a_figure_of_both_builds(measure, older):
    measured = measure("--jobs", "2", "--before", older())
    quotes = quoted.Quotes(measured.output)
    assert quotes.medians("before-late-neighbours", "partita-c before") == [30]
    assert quotes.ratios("before-late-neighbours", "partita-c now") == quotes.times(
        "before-late-neighbours", "partita-c now", "partita-c before") == [2]
    assert "old (before), abc (now)" in quotes.origins()


def test_subjects_of_one_build_alone_are_left_out_and_named(measure, older):
    measured = measure("--jobs", "2", "--before", older(own="gone"), program=partita(own="new"))
    assert measured.ended.returncode == 0, measured.ended.stderr
    assert "new" in [row["subject"] for row in measured.rows("late-neighbours")]
    assert {row["subject"].split()[0] for row in measured.rows("before-late-neighbours")} == {"persistent", "partita-c"}
    assert meta_of((measured.output / "before-late-neighbours.csv").read_text())["left_out"] == "gone (before), new (now)"
    assert "left out, as only one build has them: gone (before), new (now)" in measured.ended.stdout
    assert "Left out, as only one of them has it: gone (before), new (now)." in measured.page


@pytest.mark.parametrize(("told", "wrong"), [("(revision abc-dirty)", "was built from changed sources (abc-dirty)"),
                                             ("(revision unknown)", "does not tell of which revision it is"),
                                             ("", "does not tell of which revision it is")])
def test_builds_that_nobody_could_make_again_are_refused_unless_allowed(measure, older, told, wrong):
    refused = measure("--before", older(told=told))
    assert refused.ended.returncode == 2 and not refused.started
    assert f"partita-older {wrong}" in refused.ended.stderr
    refused = measure("--before", older(), program=partita(told))
    assert refused.ended.returncode == 2 and not refused.started
    assert f"partita {wrong}" in refused.ended.stderr
    refused = measure("--before", older(), "--before-revision", "v1", program=partita(told))
    assert refused.ended.returncode == 2, "the older build's name says nothing of this one"
    allowed = measure("--jobs", "1", "--before", older(told=told), "--any-revision")
    assert allowed.ended.returncode == 0, allowed.ended.stderr
    named = measure("--jobs", "1", "--before", older(told=told), "--before-revision", "v1-dirty")
    assert meta_of((named.output / "before-late-neighbours.csv").read_text())["revision"] == "v1-dirty (before), abc (now)"


def test_options_about_an_older_build_need_one_that_is_there(measure, tmp_path):
    for words, said in ((["--any-revision"], "--before names its program"), (["--before-revision", "v1"], "--before names its program"),
                        (["--before", "a", "--before-library", "b"], "leave one of them out"),
                        (["--before", str(tmp_path / "none")], "No such file")):
        refused = measure(*words)
        assert refused.ended.returncode == 2 and said in refused.ended.stderr and "Traceback" not in refused.ended.stderr, refused.ended.stderr


def test_a_run_is_failed_if_a_job_of_the_older_build_is(measure, older):
    measured = measure("--jobs", "2", "--before", older(), FAIL_JOB="2")
    assert measured.ended.returncode == 1 and len(measured.started) == 4
    assert "== late-neighbours, before: exit status 1" in measured.ended.stdout
    assert not (measured.output / "before-late-neighbours.csv").exists()


def test_runs_on_gpus_are_made_by_both_builds_too(measure, older):
    measured = measure("--jobs", "2", "--only", "fig2", "--only", "jacobi", "--quick", "--before", older(), tool=["gpu_measure.py"])
    assert measured.ended.returncode == 0, measured.ended.stderr
    assert sorted(builds_started(measured)) == ["before"] * 6 + ["now"] * 6
    assert {(row["size"], row["subject"], row["ratio"]) for row in measured.rows("before-jacobi") if row["subject"].endswith("now")} == {
        (cells, f"{mode} now", "2") for cells in ("64", "256") for mode in ("traditional", "kernel")}
    again = measure(tool=["gpu_measure.py", "--from", str(measured.output)])
    for told in (measured.ended.stdout, again.ended.stdout, (measured.output / "summary.txt").read_text()):
        assert "before-fig2: times as good as before, old (before), abc (now)" in told


def test_an_older_program_is_given_no_option_that_its_help_does_not_list(measure, older):
    measured = measure("--jobs", "2", "--only", "fig2", "--only", "jacobi", "--quick", "--before", older(told="(revision seedless)"),
                       tool=["gpu_measure.py"])
    assert measured.ended.returncode == 0, measured.ended.stdout
    for kind, words in zip(builds_started(measured), measured.started):
        assert bool({"--seed", "--order-seed"} & {*words}) == (kind == "now")
    assert {row["subject"] for row in measured.rows("before-jacobi")} == {f"{mode} {when}" for mode in ("traditional", "kernel")
                                                                         for when in ("before", "now")}


LDD = """#!/bin/sh
case "$LD_LIBRARY_PATH" in
*older*) echo "	libpartita.so.0 => {found}/libpartita.so.0 (0x00007f)"; {more} ;;
*) echo "	libpartita.so.0 => /now/libpartita.so.0 (0x00007f)" ;;
esac
"""


def libraries_before(folder, found="", more=":"):
    (folder / "older").mkdir(exist_ok=True)
    write_program(folder / "ldd", LDD.format(found=found or folder / "older", more=more))
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def test_one_program_is_measured_on_the_libraries_of_an_older_build(measure, tmp_path):
    measured = measure("--jobs", "2", "--before-library", str(tmp_path / "older"), "--before-revision", "old", **libraries_before(tmp_path))
    assert measured.ended.returncode == 0, measured.ended.stderr
    for words in measured.started:
        assert words.count("env") == (1 if f"LD_LIBRARY_PATH={tmp_path}/older" in " ".join(words) else 0)
    assert sorted(builds_started(measured)) == ["before", "before", "now", "now"]
    rows = {row["subject"]: row for row in measured.rows("before-late-neighbours")}
    assert float(rows["partita-c now"]["ratio"]) == 3
    meta = meta_of((measured.output / "before-late-neighbours.csv").read_text())
    assert (meta["revision"], meta["differs"]) == ("old (before), abc (now)", "the library")


@pytest.mark.parametrize(("words", "libraries", "said"), [
    ([], {}, "does not tell of which revision it is"),
    (["--before-revision", "old"], {"found": "/elsewhere"}, "does not take libpartita.so.0 from"),
    (["--before-revision", "old"], {"more": "echo 'undefined symbol: Partita_New\t(partita)'"}, "lack what"),
    (["--before-revision", "old"], {"more": "echo '	libpartita_mpi.so.0 => not found'"}, "does not take libpartita_mpi.so.0 from")])
def test_libraries_are_refused_that_the_program_would_not_run_on(measure, tmp_path, words, libraries, said):
    refused = measure("--before-library", str(tmp_path / "older"), *words, **libraries_before(tmp_path, **libraries))
    assert refused.ended.returncode == 2 and not refused.started
    assert said in refused.ended.stderr and "Traceback" not in refused.ended.stderr, refused.ended.stderr


@pytest.mark.skipif(not shutil.which("cc") or not shutil.which("ldd"), reason="needs a C compiler and ldd")
def test_the_loader_is_asked_which_libraries_a_program_takes(tmp_path, monkeypatch):
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)

    def compiled(name, text, *words):
        (tmp_path / "source.c").write_text(text)
        (tmp_path / name).parent.mkdir(exist_ok=True)
        subprocess.run(["cc", "-o", tmp_path / name, tmp_path / "source.c", *words], check=True)
        return tmp_path / name

    for folder, text in (("now", "int a() { return 1; } int b() { return 1; }"), ("alike", "int a() { return 2; } int b() { return 2; }"),
                         ("lacking", "int a() { return 3; }")):
        compiled(f"{folder}/libpartita.so.0", text, "-shared", "-fPIC", "-Wl,-soname,libpartita.so.0")
    linked = ["int a(); int b(); int main() { return a() + b(); }", str(tmp_path / "now/libpartita.so.0"), f"-Wl,-rpath,{tmp_path}/now"]
    program = compiled("partita", *linked, "-Wl,--enable-new-dtags")
    fixed = compiled("partita-rpath", *linked, "-Wl,--disable-new-dtags")
    alone = compiled("partita-alone", "int main() { return 0; }")

    def check(of, folder):
        turns.check_libraries(of, tmp_path / folder, str(tmp_path / folder))

    check(program, "alike")
    for of, folder, said in ((program, "lacking", "lack what .* needs: b;"), (fixed, "alike", "does not take libpartita.so.0 from .*/alike, but .*/now/"),
                             (program, "", "does not take"), (alone, "alike", "loads no libpartita.so")):
        with pytest.raises(ValueError, match=said):
            check(of, folder)


# ---- Ends before its time ---------------------------------------------------------------------------------------------


SLEEPING = "#!/bin/sh\n[ $1 = --version ] && exit 0\n{trap}\necho $$ > {folder}/new && mv {folder}/new {folder}/job\n{sleep}\n"


@pytest.mark.parametrize("tool", [MEASURE, ["gpu_measure.py", "--only", "fig2"], ["life_scaling.py", "--ranks", "1"]], ids=lambda tool: tool[0])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_no_job_goes_on_and_none_begins_when_the_program_is_ended(sources, tmp_path, tool, number):
    write_program(tmp_path / "mpirun", MPIRUN.format(version="HYDRA build details", folder=tmp_path))
    write_program(tmp_path / "partita", SLEEPING.format(folder=tmp_path, trap="", sleep="exec sleep 60"))
    results = tmp_path / "results"
    results.mkdir()
    later = [results / name for name in ("late-neighbours-2.json", "fig2-2.json", "queue-fig6-1-ranks-2.json")]
    for file in later:
        file.touch()
    measuring = subprocess.Popen([sys.executable, sources / "bench" / tool[0], *tool[1:], "--program", tmp_path / "partita", "--output", results,
                                  "--mpirun", f"{tmp_path}/mpirun -n {'{ranks}' if tool[0] == 'life_scaling.py' else 2}"],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=take_interrupts)
    try:
        eventually((tmp_path / "job").exists)
        job = int((tmp_path / "job").read_text())
        measuring.send_signal(number)
        output, _ = measuring.communicate(timeout=LIMIT_S)
        assert measuring.returncode != 0
        eventually(lambda: not pathlib.Path(f"/proc/{job}").exists())
        assert output.count("\n== ") <= 2 and len((tmp_path / "started").read_text().splitlines()) == 1, output
        assert all(file.exists() for file in later)
    finally:
        measuring.kill()
        measuring.wait()


def test_a_job_that_does_not_end_when_it_is_told_to_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "STOP_S", 0.1)
    program = write_program(tmp_path / "partita", SLEEPING.format(folder=tmp_path, trap="trap '' TERM", sleep="while :; do sleep 1; done"))
    known = processes.Processes()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        code = pool.submit(known.run, [program, "run"], LIMIT_S, None)
        eventually((tmp_path / "job").exists)
        known.end()
        assert code.result() == -signal.SIGKILL
        assert known.run([program, "run"], LIMIT_S, None) is None


def take_interrupts():
    """Also where whoever runs the tests has them ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def eventually(condition):
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
