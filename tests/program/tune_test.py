"""partita tune from outside: it measures, and Partita takes what it writes."""

import csv
import os
import subprocess

import pytest

LIMIT_S = 100
HEAD = "# partita tuning 1"
COLUMNS = ["collective", "driver", "ranks", "from_bytes", "algorithm", "medians_us"]
# How many algorithms serve each on three ranks, of which recursive doubling serves no allgather.
ALGORITHMS = {"bcast": 4, "gather": 2, "scatter": 2, "allgather": 3, "allgatherv": 3, "alltoall": 3, "reduce": 3,
              "allreduce": 3, "reduce_scatter": 3, "reduce_scatter_block": 3, "scan": 2, "exscan": 2}
SHORT = ["-i", "3", "-x", "1"]
WRONG = {"--frobnicate": "frobnicate", "--collective=barrier": "barrier", "--device=tpu": "tpu", "-m=8:4": "-m 8:4",
         "-m=6:64": "-m begins with 6 bytes", "-i=0": "0", "leftover": "leftover"}


@pytest.fixture(scope="module")
def run(given):
    """Runs the program with these arguments on so many ranks, in an environment with these variables."""
    def started(*arguments, ranks=None, **environment):
        return subprocess.run([*given.launcher(ranks), given["program"], *arguments], capture_output=True, text=True,
                              timeout=LIMIT_S, env={**os.environ, **environment})
    return started


def rules_of(text):
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines[0].split(",") == COLUMNS
    return list(csv.DictReader(lines))


def medians_of(rule):
    return {name: float(median) for name, median in (entry.split("=") for entry in rule["medians_us"].split(" "))}


@pytest.fixture(scope="module")
def file(run, tmp_path_factory):
    """A tuning file for two collectives at two sizes."""
    path = tmp_path_factory.mktemp("tune") / "tuning.csv"
    result = run("tune", "-m", "64:256", "--collective", "allreduce,scan", "-o", str(path), *SHORT)
    assert result.returncode == 0, result
    assert f"{path} has 4 rules" in result.stdout and f"PARTITA_TUNING={path}" in result.stdout, result
    return path


def test_every_algorithm_of_every_collective_is_measured(run, given):
    result = run("tune", "-m", "64:64", *SHORT)
    assert result.returncode == 0, result
    assert result.stdout.startswith(HEAD + "\n"), result.stdout
    rules = rules_of(result.stdout)
    assert {rule["collective"]: len(medians_of(rule)) for rule in rules} == ALGORITHMS
    for rule in rules:
        assert rule["driver"] == "host" and rule["ranks"] == given["ranks"] and rule["from_bytes"] == "0", rule
        assert rule["algorithm"] in medians_of(rule), rule
        assert all(median > 0 for median in medians_of(rule).values()), rule


def test_a_collective_has_a_rule_a_size_and_the_first_holds_from_0_on(file):
    rules = rules_of(file.read_text(encoding="utf-8"))
    assert [(rule["collective"], rule["from_bytes"]) for rule in rules] == [
        ("allreduce", "0"), ("allreduce", "256"), ("scan", "0"), ("scan", "256")]


def test_the_rule_is_the_fastest_or_close_to_it(file):
    for rule in rules_of(file.read_text(encoding="utf-8")):
        medians = medians_of(rule)
        # Where the built-in choice is close, it stays; the file has two digits.
        assert medians[rule["algorithm"]] * 0.95 <= min(medians.values()) + 0.01, rule


def test_the_file_says_when_and_where_it_was_measured(file):
    text = file.read_text(encoding="utf-8")
    for note in ("date: 20", "revision: ", "machine: ", "mpi: ", "memory: host", "link: ",
                 "command: partita tune -m 64:256"):
        assert f"\n# {note}" in text, text
    assert str(file.parent) not in text, "where its files lie is nobody else's matter"


def test_partita_takes_what_tune_writes(run, file):
    result = run("info", PARTITA_TUNING=str(file))
    assert result.returncode == 0, result


def test_a_file_with_a_wrong_line_ends_the_job_with_it(run, file):
    wrong = file.with_name("wrong.csv")
    lines = file.read_text(encoding="utf-8").splitlines()
    lines[-1] = lines[-1].replace("scan", "scam")
    wrong.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = run("info", PARTITA_TUNING=str(wrong))
    assert result.returncode != 0
    assert f"line {len(lines)}" in result.stderr and '"scam"' in result.stderr, result


def test_a_file_that_cannot_be_written_ends_it_before_the_measuring(run, tmp_path):
    result = run("tune", "-m", "64:64", "-i", "100000000", "-o", str(tmp_path / "no" / "tuning.csv"))
    assert result.returncode != 0 and "cannot be written" in result.stderr, result


@pytest.mark.parametrize("word", WRONG)
def test_a_wrong_option_is_named(run, word):
    result = run("tune", *word.split("=", 1))
    assert result.returncode == 2 and WRONG[word] in result.stderr, result
    assert "partita tune: " in result.stderr and result.stdout == "", result


def test_help_lists_the_options_and_the_collectives(run):
    result = run("tune", "--help")
    assert result.returncode == 0 and "--device" in result.stdout and "reduce_scatter_block" in result.stdout, result


def test_one_rank_has_nothing_to_choose(run):
    result = run("tune", ranks=1)
    assert result.returncode == 1 and "mpirun -n" in result.stderr, result
