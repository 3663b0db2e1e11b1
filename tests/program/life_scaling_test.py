"""bench/life_scaling.py with a program that only writes down how it was started, and times that are known."""

import csv
import os
import shlex
import stat
import subprocess
import sys

import pytest

MPIRUN = """#!/bin/sh
if [ "$1" = --version ]; then echo "HYDRA build details"; exit 0; fi
printf '%s\\n' "$*" >> {folder}/started
echo "$CUDA_VISIBLE_DEVICES" >> {folder}/devices
RANKS=$2; export RANKS
while [ "$1" != {folder}/partita ]; do shift; done
exec "$@"
"""

# On R ranks a step takes 1200 / R us in mode traditional, and 1000 / R in the others, but on 4 ranks on the small board, where all take 500.
# Job k has samples of k more and k less. Jobs see those of the machine's GPUs that are visible, but job {blind} sees one more.
PARTITA = """#!{python}
import json, os, sys
words, ranks = sys.argv[1:], int(os.environ["RANKS"])
seed, file = int(words[words.index("--seed") + 1]), words[words.index("--json") + 1]
if words[1] == "queue.fig8" and ranks == {fails}:
    sys.exit(1)
visible = os.environ.get("CUDA_VISIBLE_DEVICES")
gpus = {gpus} if visible is None else len(visible.split(","))
rows = []
for size in (512, 1024):
    for subject, us in (("traditional", 1200), ("queue-regular", 1000), ("graph-ready", 1000), ("sweeps-alone", 600)):
        step = 500 if ranks == 4 and size == 512 else us / ranks
        rows.append(dict(bytes=size, partitions=1, subject=subject, reference="traditional", samples=[step - seed, step + seed]))
json.dump({{"benchmark": words[1], "unit": "us", "rows": rows, "revision": "abc", "machine": {{"mpi": "Some MPI", "gpu": "Some GPU", "gpus": gpus + (seed == {blind})}}}}, open(file, "w"))
"""


class Measured:
    def __init__(self, sources, folder, *words, fails=0, gpus=4, blind=0, visible=None):
        self.output = folder / "results"
        for name, text in (("mpirun", MPIRUN.format(folder=folder)), ("partita", PARTITA.format(python=sys.executable, fails=fails, gpus=gpus, blind=blind))):
            program = folder / name
            program.write_text(text)
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        environment = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        environment |= {"CUDA_VISIBLE_DEVICES": visible} if visible is not None else {}
        self.ended = subprocess.run(
            [sys.executable, "-B", sources / "bench/life_scaling.py", "--program", folder / "partita", "--output", self.output,
             "--mpirun", f"{folder}/mpirun -n {{ranks}}", "--jobs", "2", *words],
            capture_output=True, text=True, check=False, timeout=60, env=environment)
        started = folder / "started"
        self.started = [shlex.split(line) for line in started.read_text().splitlines()] if started.exists() else []
        self.devices = set((folder / "devices").read_text().splitlines()) if started.exists() else set()

    def rows(self, name):
        lines = (self.output / f"{name}.csv").read_text().splitlines()
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))

    def row(self, name, subject, size, case=""):
        return next(row for row in self.rows(name) if (row["subject"], row["size"], row.get("case", "")) == (subject, str(size), case))


@pytest.fixture
def scaled(sources, tmp_path):
    return lambda *words, **more: Measured(sources, tmp_path, *words, **more)


def test_each_number_of_ranks_has_its_jobs_and_all_are_made_before_any_is_made_again(scaled):
    measured = scaled("--ranks", "1,2,4")
    assert measured.ended.returncode == 0, measured.ended.stderr
    words = [(each[1], each[each.index("bench") + 1], each[each.index("--seed") + 1]) for each in measured.started]
    once = [("1", "queue.fig6"), ("2", "queue.fig6"), ("2", "queue.fig8"), ("4", "queue.fig6"), ("4", "queue.fig8")]
    assert words == [(*run, job) for job in ("1", "2") for run in once]
    assert all("-bind-to core:" in " ".join(each) for each in measured.started)


def test_modes_are_compared_at_equal_ranks(scaled):
    measured = scaled("--ranks", "1,2,4")
    assert {row["case"] for row in measured.rows("queue-fig6")} == {"1 rank", "2 ranks", "4 ranks"}
    row = measured.row("queue-fig6", "queue-regular", 1024, "2 ranks")
    assert float(row["median"]) == 500 and float(row["ratio"]) == 1.2 and row["jobs"] == "2"
    assert {row["case"] for row in measured.rows("queue-fig8")} == {"2 ranks", "4 ranks"}


def test_the_best_number_of_ranks_is_that_of_the_largest_mean_speed_up_over_one_rank(scaled):
    measured = scaled("--ranks", "1,2,4")
    for subject, size, ranks, speed_up in (("graph-ready", 1024, "4", 4.8), ("traditional", 1024, "4", 4), ("graph-ready", 512, "2", 2.4),
                                           ("traditional", 512, "4", 2.4)):
        row = measured.row("queue-table5", subject, size)
        assert row["ranks"] == ranks and float(row["median"]) == pytest.approx(speed_up, rel=1e-3), row
    assert float(measured.row("queue-table5", "graph-ready", 1024)["ratio"]) == pytest.approx(1.2, rel=1e-3)
    assert not [row for row in measured.rows("queue-table5") if row["subject"] == "sweeps-alone"]


def test_ranks_that_share_gpus_stand_in_a_figure_of_their_own(scaled):
    for words, gpus in ((["--gpus", "2"], 4), ([], 2)):
        measured = scaled("--ranks", "1,2,4", *words, gpus=gpus)
        assert measured.ended.returncode == 0, measured.ended.stderr
        assert {row["case"] for row in measured.rows("queue-fig6")} == {"1 rank", "2 ranks"}
        assert {row["case"] for row in measured.rows("queue-fig7")} == {"1 rank, 1 a GPU", "2 ranks, 1 a GPU", "4 ranks, 2 a GPU"}


@pytest.mark.parametrize("words, visible, seen", [(["--gpus", "2"], None, "0,1"), (["--gpus", "1"], "3,GPU-5e,1", "3"), ([], None, ""),
                                                  ([], "3,1", "3,1")])
def test_ranks_see_as_many_gpus_as_they_are_to_have(scaled, words, visible, seen):
    measured = scaled("--ranks", "1,2", *words, visible=visible)
    assert measured.ended.returncode == 0, measured.ended.stderr
    assert measured.devices == {seen}


@pytest.mark.parametrize("words, more, sentence", [
    (["--ranks", "1,2", "--gpus", "2"], {"blind": 2}, "queue-fig6-1-ranks-2.json: its ranks see 3 GPUs each; expected is --gpus 2"),
    (["--ranks", "1,2"], {"blind": 2}, "see 5 GPUs each; expected is 4, as of the first job"),
    (["--ranks", "1,2"], {"gpus": 0}, "queue-fig6-1-ranks-1.json does not tell how many GPUs"),
    (["--ranks", "1,3"], {"gpus": 2}, "3 ranks do not divide evenly over 2 GPUs")])
def test_jobs_that_have_other_gpus_are_no_figure(scaled, words, more, sentence):
    measured = scaled(*words, **more)
    assert measured.ended.returncode == 2 and sentence in measured.ended.stderr, measured.ended.stderr
    assert not list(measured.output.glob("*.csv"))


def test_what_was_measured_is_judged(scaled):
    measured = scaled("--ranks", "1,2,4")
    text = (measured.output / "life-scaling.txt").read_text()
    assert "regular sends in queues over hosts' marks at equal ranks" in text and "reached" in text, text
    assert text in measured.ended.stdout


def test_a_run_that_fails_is_named_and_the_others_are_kept(scaled):
    measured = scaled("--ranks", "1,2,4", fails=2)
    assert measured.ended.returncode == 1
    assert "failed: mpirun -n 2 " in measured.ended.stdout and "partita bench queue.fig8" in measured.ended.stdout
    assert {row["case"] for row in measured.rows("queue-fig8")} == {"4 ranks"}
    assert {row["case"] for row in measured.rows("queue-fig6")} == {"1 rank", "2 ranks", "4 ranks"}


@pytest.mark.parametrize("words, sentence", [(["--ranks", "2,4"], "from 1 on"), (["--ranks", "1,2,3", "--gpus", "2"], "do not divide evenly"),
                                             (["--ranks", "1,2", "--mpirun", "mpirun -n 2"], "{ranks}"),
                                             (["--ranks", "1,2", "--gpus", "3"], "CUDA_VISIBLE_DEVICES=0,1 has 2")])
def test_wrong_options_are_refused_before_anything_is_measured(scaled, words, sentence):
    measured = scaled(*words, visible="0,1")
    assert measured.ended.returncode == 2 and sentence in measured.ended.stderr, measured.ended.stderr
    assert not measured.started
