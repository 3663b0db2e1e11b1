"""The figure ipc.fig12 from the program to the table of a page, of small cubes in host memory, where nothing is staged: its goals are
judged, not reached."""

import argparse
import json
import pathlib
import statistics
import sys

import pytest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import comparison  # noqa: E402
import goals  # noqa: E402
import gpu_measure  # noqa: E402
import quoted  # noqa: E402

EXCHANGES = ("alltoall", "alltoallv", "partitioned")
CUBES = (6, 8)
LIMIT_S = 30


@pytest.fixture(scope="module")
def quotes(given, tmp_path_factory):
    if b"fftw_execute" not in pathlib.Path(given["program"]).read_bytes():
        pytest.skip("built without FFTW")
    folder = tmp_path_factory.mktemp("figure")
    launcher = " ".join(given.launcher())
    parser = argparse.ArgumentParser()
    comparison.add_options(parser, jobs=1)
    options = parser.parse_args(["--mpirun", launcher, "--bind", "none"])
    options.program, options.output = given["program"], folder
    jobs = comparison.Comparison(parser, options, cores=1, limit_s=LIMIT_S)
    done, failed = jobs.measure_all([gpu_measure.fft_run(cells, 2, 3, ["--device", "cpu"]) for cells in CUBES])
    assert not failed
    jobs.write_summaries(done)
    return quoted.Quotes(folder)


def test_each_exchange_stands_beside_its_twin_through_host_memory(quotes):
    figure = quotes.figure("ipc-fig12")
    assert figure.meta["benchmark"] == "fft" and figure.meta["unit"] == "ms" and figure.meta["decomposition"] == "slab"
    assert "partita run fft --device cpu --staged --size 8 8 8 --iterations 2 --repeat 3 --order-seed SEED" in figure.meta["command"]
    for exchange in EXCHANGES:
        whole, part = (quotes.points("ipc-fig12", exchange + name) for name in ("", ":exchange"))
        assert [point.size for point in whole] == [point.size for point in part] == list(CUBES)
        assert all((point.jobs, point.samples, point.reference) == (1, 3, f"{exchange}-staged") for point in whole)
        assert all(0 < inner.median <= outer.median for inner, outer in zip(part, whole)) and part[0].reference == f"{exchange}-staged:exchange"


def test_rates_are_those_that_the_program_tells(quotes):
    for cells in CUBES:
        runs = json.loads((quotes.folder / f"ipc-fig12-{cells}-1.json").read_text())["runs"]
        for exchange, each in runs.items():
            assert quotes.gflops("ipc-fig12", exchange, str(cells)) == [pytest.approx(statistics.median(run["gflops"] for run in each), rel=1e-3)]


def test_the_goals_of_the_figure_are_judged(quotes):
    for name in ("fft-alltoall", "fft-alltoallv"):
        assert len(goals.judge(goals.read_goals()[name], quotes.figure("ipc-fig12")).values) == len(CUBES)


def test_a_page_has_its_rates(quotes):
    heading, _, *rows = quotes.fft_rates("ipc-fig12").splitlines()
    assert all(f" {exchange} " in heading and f" {exchange}-staged " in heading for exchange in EXCHANGES) and len(rows) == len(CUBES)
