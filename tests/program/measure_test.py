"""bench/measure.py and gpu_measure.py with programs that only write down how they were started: jobs, seeds, binding, figures and
failures."""

import argparse
import csv
import json
import os
import pathlib
import re
import shlex
import stat
import subprocess
import sys

import pytest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import comparison  # noqa: E402
import cpu  # noqa: E402
import launch  # noqa: E402
import links  # noqa: E402
from partita_report.summary import meta_of  # noqa: E402

DATE = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"

MPIRUN = """#!/bin/sh
if [ "$1" = --version ]; then echo "{version}"; exit 0; fi
printf '%s\\n' "$*" >> {folder}/started
while [ "${{1#{folder}/partita}}" = "$1" ]; do shift; done
exec "$@"
"""

# A benchmark whose median is 10 times its seed; with FAIL_JOB the job of that seed fails.
PARTITA = """#!{python}
import json, os, sys
words = sys.argv[1:]
if words == ["--version"]:
    sys.exit(print("partita 0.1.0 (revision abc)"))
if os.environ.get("FAIL_WITH") in words:
    sys.exit(1)
if words[:2] == ["run", "jacobi2d"]:
    cells = int(words[words.index("--size") + 1])
    run = {{"time_s": cells / 1000, "halo_share": 0.5}}
    job = {{"mpi": "Some MPI", "ranks": 2, "cells": [cells, cells]}}
    output = words[words.index("--output") + 1]
    seed = int(words[words.index("--order-seed") + 1])
    json.dump({{"app": "jacobi2d", "order_seed": seed, "job": job, "runs": {{"traditional": [run], "kernel": [run]}}}}, open(output + ".json", "w"))
    open(output + "-residual.csv", "w").write("mode,iteration,residual,time_s\\n")
    sys.exit(0)
seed, file = words[words.index("--seed") + 1], words[words.index("--json") + 1]
if os.environ.get("FAIL_JOB") == seed:
    sys.exit(1)
row = {{"bytes": 8192, "partitions": 8, "reference": "persistent", "link": "direct"}}
rows = [dict(row, subject="persistent", samples=[100, 100], early=0),
        dict(row, subject="partita-c", samples=[10 * int(seed)] * 2, early=2)]
place = {{"node": 0, "cores": "0-1"}}
json.dump({{"benchmark": "late-neighbours", "unit": "us", "metric": "x_persistent", "notes": [], "rows": rows, "revision": "abc", "date": "2026-01-31T23:59:00Z",
            "command": "partita bench", "binding": [dict(place, rank=0), dict(place, rank=1)],
            "machine": {{"cpu": "A CPU", "cores": 4, "mpi": "Some MPI", "thread_level": "multiple"}}}}, open(file, "w"))
"""


MEASURE = ["measure.py", "--only", "late-neighbours", "--threads", "1"]


class Measured:
    def __init__(self, sources, folder, *words, tool=MEASURE, version="HYDRA build details", mpirun="", **environment):
        self.output = folder / "results"
        for name, text in (("mpirun", MPIRUN.format(version=version, folder=folder)), ("partita", PARTITA.format(python=sys.executable))):
            program = folder / name
            program.write_text(text)
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
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
    assert "- partita-c, 8 partitions: 10 of 10 samples early, at each size of 8192 bytes" in measured.page
    assert "- persistent, 8 partitions: 0 of 10 samples early, at each size of 8192 bytes" in measured.page


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


def test_a_first_contact_has_one_sample(measure):
    measured = measure("--samples", "7", tool=["measure.py", "--only", "first-contact-mpi"])
    assert measured.started
    assert all("-i" not in words and "-x" not in words for words in measured.started)


def test_no_jobs_at_all_are_refused(measure):
    measured = measure("--jobs", "0")
    assert measured.ended.returncode == 2
    assert "0 is below 1" in measured.ended.stderr


def hydra(folder):
    program = folder / "mpirun"
    program.write_text(MPIRUN.format(version="HYDRA build details", folder=folder))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return [str(program), "-n", "2"]


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
    assert made.measure_all(runs, lambda run, job: measured.append((job, run.name)) or (run.name, job) != ("b", 4)) == ([runs[0], *runs[2:]], [runs[1]])
    assert sorted(measured) == [(job, name) for job in range(1, 6) for name in "abcd"]
    assert [[name for job, name in measured if job == wanted] for wanted in (1, 2)] == [list("abcd"), list("cdab")]
    assert made.shown_command(runs[0], 2).startswith("mpirun -n 2 -bind-to user:4+5,6+7 partita")
    assert made.shown_command(runs[0]).startswith("mpirun -n 2 -bind-to user:CORES partita")


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
    program = tmp_path / "partita_plain_ping_pong"
    program.write_text("#!/bin/sh\nfor size in 8 1024 8192 65536; do echo $size 1.5; done\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    measured = measure("--jobs", "2", "--bind", "none", tool=["measure.py", "--only", "thread-levels"])
    assert measured.ended.returncode == 0, measured.ended.stderr
    meta = meta_of((measured.output / "thread-levels.csv").read_text())
    assert re.fullmatch(DATE, meta["date"]) and meta["revision"] == "abc" and meta["kernel"] == os.uname().release
    assert meta["command"] == "mpirun -n 2 partita_plain_ping_pong --thread-level LEVEL 8 1024 8192 65536" and meta["command"] in measured.page


def test_the_cost_of_a_locked_instruction_is_a_figure_of_its_own_without_a_page(measure, tmp_path):
    program = tmp_path / "partita_locked_cost"
    program.write_text(f"#!{sys.executable}\nimport json, os\n"
                       "print(json.dumps({'one locked instruction': 9.5, 'another': 19, 'cores': sum(2 ** core for core in os.sched_getaffinity(0))}))\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
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


def test_plates_of_several_sizes_are_one_figure(measure):
    measured = measure("--jobs", "2", "--only", "jacobi", "--quick", tool=["gpu_measure.py"])
    assert measured.ended.returncode == 0, measured.ended.stderr
    assert sorted(file.name for file in measured.output.glob("*.json")) == [f"jacobi-{cells}-{job}.json" for cells in (256, 64) for job in (1, 2)]
    meta = meta_of((measured.output / "jacobi.csv").read_text())
    assert all(re.fullmatch(DATE, date) for date in meta["date"].split(" | ")) and meta["seed"] == "1 | 2"
    assert meta["command"].count("partita run jacobi2d --device gpu") == meta["command"].count("--order-seed SEED") == 2
    rows = [(row["size"], row["subject"], float(row["median"])) for row in measured.rows("jacobi")]
    assert rows == [(str(cells), mode, cells / 1000) for cells in (64, 256) for mode in ("traditional", "kernel")]


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
