"""What the benchmarks write as JSON, and the apps' records, against the description of both, bench/results.schema.json."""

import copy
import json
import subprocess

import pytest

fastjsonschema = pytest.importorskip("fastjsonschema", reason="no fastjsonschema for this Python; ./dev setup brings it")

BENCHMARKS = {
    "latency": ["-m", "64:128", "--partitions", "1,8", "--peer", "isend", "--batch", "3", "-x", "1"],
    "allreduce": ["-m", "1K:1K", "--partitions", "2", "-x", "1"],
    "late-neighbours": ["-m", "8K:8K", "--link", "auto,mpi", "--close-epochs", "3", "-x", "1"],
    "first-contact": [],
    "progress": ["--partitions", "1", "--batch", "10"],
    "foreign": ["-m", "8:8", "--batch", "3", "-x", "1"],
    "two-sided": ["-m", "8:8", "--split", "--batch", "3", "-x", "1"],
    "channel.fig13": ["-m", "1K:2K", "--window", "4", "--batch", "2", "-x", "1"],
}
APPS = {
    "jacobi2d": ["--size", "32", "32", "--max-iterations", "4", "--check-every", "2", "--no-picture"],
    "life": ["--size", "32", "32", "--generations", "3", "--no-picture"],
    "bce": ["--samples", "64", "--features", "64", "--steps", "3"],
    "cg": ["--size", "16", "16", "--batch", "20"],
    "fft": ["--size", "8", "8", "8", "--iterations", "1"],
}
OF_AN_APP = {"jacobi2d": "limits", "life": "game", "bce": "problem", "cg": "iteration", "fft": "problem"}  # beside what all have
UNCHECKED = ["--no-verify", "--repeat", "2"]
LIMIT_S = 100


@pytest.fixture(scope="module")
def schema(sources):
    return json.loads((sources / "bench/results.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def validate(schema):
    return fastjsonschema.compile(schema)


@pytest.fixture(scope="module", params=BENCHMARKS)
def results(request, given, tmp_path_factory):
    file = tmp_path_factory.mktemp(request.param) / "results.json"
    command = [*given.launcher(), given["program"], "bench", request.param, *BENCHMARKS[request.param], "-i", "3",
               "--json", str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(file.read_text(encoding="utf-8"))


def test_results_are_as_the_schema_describes_them(validate, results):
    validate(results)


def test_every_rank_has_a_place(results):
    assert [place["rank"] for place in results["binding"]] == list(range(results["ranks"]))
    assert all(place["node"] == 0 and place["cores"] for place in results["binding"])


def test_the_command_is_told_without_folders(results):
    assert results["command"].startswith(f"partita bench {results['benchmark']}")
    assert results["command"].endswith("--json results.json")


def expect_needed(validate, file, name):
    lacking = copy.deepcopy(file)
    del lacking[name]
    with pytest.raises(fastjsonschema.JsonSchemaException, match=name):
        validate(lacking)


@pytest.mark.parametrize("name", ["schema", "date", "command", "versions", "clocks", "binding"])
def test_a_file_without_what_the_schema_asks_for_is_refused(validate, results, name):
    expect_needed(validate, results, name)


def test_a_field_that_the_schema_does_not_know_is_refused(validate, results):
    more = copy.deepcopy(results)
    more["rows"][0]["surprise"] = 1
    with pytest.raises(fastjsonschema.JsonSchemaException, match="surprise"):
        validate(more)


def record_of(given, folder, app, *options, ranks=None):
    file = folder / "record.json"
    command = [*given.launcher(ranks), given["program"], "run", app, *APPS[app], *options, "--json", "--output", str(file.with_suffix(""))]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if ended.returncode == 2 and "FFTW" in ended.stderr:
        pytest.skip("built without FFTW")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(file.read_text(encoding="utf-8"))


@pytest.fixture(scope="module", params=APPS)
def record(request, given, tmp_path_factory):
    return record_of(given, tmp_path_factory.mktemp(request.param), request.param)


def test_records_of_apps_are_as_the_schema_describes_them(validate, record):
    validate(record)
    app = record["app"]
    assert record["command"] == f"partita run {app} {' '.join(APPS[app])} --json --output record"
    assert [place["rank"] for place in record["binding"]] == [0, 1]


@pytest.mark.parametrize("app", APPS)
def test_records_of_runs_that_were_repeated_and_not_checked_are_so_too(validate, given, tmp_path, app):
    record = record_of(given, tmp_path, app, *UNCHECKED)
    validate(record)
    assert all(len(runs) == 2 for runs in record["runs"].values())


@pytest.mark.parametrize("app", ["jacobi2d", "life"])
def test_records_of_one_rank_are_so_too(validate, given, tmp_path, app):
    validate(record_of(given, tmp_path, app, ranks=1))


@pytest.mark.parametrize("name", ["schema", "revision", "date", "binding", "order_seed", "job", "runs"])
def test_a_record_without_what_all_have_is_refused(validate, record, name):
    expect_needed(validate, record, name)


def test_a_record_without_what_its_app_tells_is_refused(validate, record):
    expect_needed(validate, record, OF_AN_APP[record["app"]])


def test_a_field_of_a_record_that_the_schema_does_not_know_is_refused(validate, record):
    for place in (lambda more: more, lambda more: more["job"], lambda more: next(iter(more["runs"].values()))[0]):
        more = copy.deepcopy(record)
        place(more)["surprise"] = 1
        with pytest.raises(fastjsonschema.JsonSchemaException):
            validate(more)


def test_a_record_of_an_app_that_the_schema_does_not_know_is_refused(validate, record):
    with pytest.raises(fastjsonschema.JsonSchemaException, match="app"):
        validate({**record, "app": "surprise"})
