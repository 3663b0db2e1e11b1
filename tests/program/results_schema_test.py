"""What the benchmarks write as JSON, and what the apps' records say of where they come from, against the description of both,
bench/results.schema.json."""

import copy
import json
import subprocess

import pytest

fastjsonschema = pytest.importorskip("fastjsonschema", reason="no fastjsonschema for this Python; ./dev setup brings it")

BENCHMARKS = {
    "latency": ["-m", "64:128", "--partitions", "1,8", "--peer", "isend", "--batch", "3", "-x", "1"],
    "late-neighbours": ["-m", "8K:8K", "--link", "auto,mpi", "-x", "1"],
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
    "cg": ["--size", "16", "16", "--iterations", "4", "--batch", "2", "--no-verify"],
    "fft": ["--size", "8", "8", "8", "--iterations", "1"],
}
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


@pytest.mark.parametrize("name", ["schema", "date", "command", "versions", "clocks", "binding"])
def test_a_file_without_what_the_schema_asks_for_is_refused(validate, results, name):
    lacking = copy.deepcopy(results)
    del lacking[name]
    with pytest.raises(fastjsonschema.JsonSchemaException, match=name):
        validate(lacking)


def test_a_field_that_the_schema_does_not_know_is_refused(validate, results):
    more = copy.deepcopy(results)
    more["rows"][0]["surprise"] = 1
    with pytest.raises(fastjsonschema.JsonSchemaException, match="surprise"):
        validate(more)


@pytest.mark.parametrize("app", APPS)
def test_a_record_of_an_app_tells_where_it_comes_from_as_the_schema_describes_that(schema, given, tmp_path, app):
    command = [*given.launcher(), given["program"], "run", app, *APPS[app], "--json", "--output", str(tmp_path / "record")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if ended.returncode == 2 and "FFTW" in ended.stderr:
        pytest.skip("built without FFTW")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    record = json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))
    origin = ("revision", "date", "command", "versions", "machine", "clocks", "binding")
    properties = {name: schema["properties"][name] for name in origin}
    properties["command"] = {"const": f"partita run {app} {' '.join(APPS[app])} --json --output record"}
    fastjsonschema.compile({"type": "object", "required": list(origin), "properties": properties})(record)
    assert [place["rank"] for place in record["binding"]] == [0, 1]
