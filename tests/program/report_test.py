"""What `partita report` reads, keeps, compares and draws.

given: program, the program partita; mpiexec and mpiexec_flags, the launcher
"""
import contextlib
import io
import json
import math
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys

import pytest

sys.dont_write_bytecode = True
SOURCES = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCES / "bench"))
from partita_report import charts, command, compare, intervals, results, summary  # noqa: E402
from partita_report.failure import Failure  # noqa: E402

# matplotlib's own business; what it deprecates fails no test of ours.
draws = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def row(size, subject, samples, *, partitions=8, reference="persistent", **more):
    return {"bytes": size, "partitions": partitions, "subject": subject, "reference": reference, "link": "direct", "batch": 4,
            "median": statistics.median(samples), "samples": samples, **more}


def record(rows, unit="us", **more):
    return {"benchmark": "latency", "unit": unit, "metric": "x_persistent", "revision": "abc",
            "machine": {"cpu": "A CPU", "cores": 4, "mpi": "Some MPI 1.0"}, "options": {"iterations": 3}, "rows": rows, **more}


def write(file, found):
    file.write_text(json.dumps(found), encoding="utf-8")
    return file


def report(*arguments):
    """(exit status, what was printed to both)."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            return command.main([str(argument) for argument in arguments]), said.getvalue()
        except SystemExit as end:
            return end.code, said.getvalue()


def fails(call, *words):
    with pytest.raises(Failure) as failure:
        call()
    assert all(word in str(failure.value) for word in words)


def need_matplotlib():
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        pytest.skip("charts need matplotlib, which this Python does not have")


# ---- Intervals --------------------------------------------------------------------------------------------------------


def test_the_interval_leaves_out_as_many_samples_as_the_binomial_distribution_allows():
    for count, left_out in ((5, 0), (6, 0), (8, 0), (9, 1), (20, 5), (100, 39)):  # tables of the sign test
        assert intervals.outer_rank(count) == left_out, count
    assert intervals.median_interval([3, 1, 2]) == (1, 3)
    assert intervals.outer_rank(5000) > 2400


def test_the_interval_holds_the_true_median_in_at_least_95_of_100_tries():
    dice = random.Random(7)
    held = 0
    for _ in range(2000):
        low, high = intervals.median_interval([dice.lognormvariate(0, 1) for _ in range(40)])
        held += low <= 1 <= high
    assert 0.95 <= held / 2000 < 0.985, held


def test_the_interval_of_a_quotient_holds_the_true_one():
    dice = random.Random(8)
    held = 0
    for _ in range(2000):
        known = []
        for scale in (3, 2):
            samples = [scale * dice.lognormvariate(0, 0.5) for _ in range(60)]
            known.append((statistics.median(samples), *intervals.median_interval(samples)))
        ratio, low, high = intervals.quotient(*known)
        assert low <= ratio <= high
        held += low <= 1.5 <= high
    assert 0.94 <= held / 2000 < 0.985, held
    assert intervals.quotient((0, 0, 1), (1, 1, 1)) is None


def test_few_jobs_span_their_intervals_and_many_are_ordered():
    assert intervals.over_jobs([1, 2], [(0.9, 1.1), (1.8, 2.3)]) == (0.9, 2.3)
    values = list(range(1, 10))
    assert intervals.over_jobs(values, [(0, 99)] * 9) == (2, 8)


# ---- Summaries --------------------------------------------------------------------------------------------------------


def test_a_summary_has_medians_jobs_and_ratios_above_1_for_the_better(tmp_path):
    files = [write(tmp_path / f"{number}.json", record([row(8, "persistent", [4.0 * number] * 9), row(8, "partita-c", [2.0] * 9)]))
             for number in (1, 2)]
    point = results.read_figures(files, as_jobs=True)[0].points[1]
    assert (point.jobs, point.samples, point.median, point.reference) == (2, 18, 2, "persistent")
    assert (point.ratio, point.ratio_min, point.ratio_max) == (3, 2, 4)
    rates = write(tmp_path / "rates.json", record([row(8, "persistent", [4.0]), row(8, "partita-c", [2.0])], unit="MB/s"))
    assert results.read_figures([rates])[0].points[1].ratio == 0.5


def test_a_summary_reads_back_as_it_was_written(tmp_path):
    file = write(tmp_path / "a, b.json", record([row(8, "persistent", [1, 2, 3]), row(8, "put, 128x512", [1, 1, 1], gpu_copy="kernel"),
                                                  row(16, "persistent", [0, 0, 0]), row(16, "put, 128x512", [1, 1, 1])]))
    figure = results.read_figures([file])[0]
    target = tmp_path / "out.csv"
    assert report(file, "--csv", target)[0] == 0
    again = results.read_figures([target])[0]
    assert summary.to_csv(again) == summary.to_csv(figure) and again.points[0] == figure.points[0]
    assert again.points[2].ratio is None and again.points[3].ratio is None  # of a yardstick of 0
    assert again.meta["options"] == '{"iterations":3}' and again.meta["mpi"] == "Some MPI 1.0"


def test_several_jobs_may_be_in_one_file_and_unknown_fields_do_no_harm(tmp_path):
    rows = [row(8, "persistent", [1, 2, 3], tomorrow=1)]
    several = ({"jobs": [{"rows": rows, "revision": "a"}, {"rows": rows, "revision": "b"}], "benchmark": "latency", "unit": "us"},
               [record(rows), record(rows, new={"x": 1})],
               record([{**rows[0], "job": 0}, {**rows[0], "job": 1}]))
    for number, found in enumerate(several):
        figure = results.read_figures([write(tmp_path / f"{number}.json", found)])[0]
        assert [(point.jobs, point.samples) for point in figure.points] == [(2, 6)], number
    assert results.read_figures([tmp_path / "0.json"])[0].meta["revision"] == "a | b"


def test_a_summary_says_where_its_jobs_come_from(tmp_path):
    def job(number):
        more = {"date": f"2026-01-0{number}T00:00:00Z", "command": f"mpirun -n 2 partita bench latency --seed {number} --json latency-{number}.json",
                "versions": {"kernel": "6.1", "mpi": "Some MPI 1.0", "nccl": "2.28.9"}, "clocks": {"cpu_least_mhz": 2100.0},
                "binding": [{"rank": 0, "node": 0, "cores": "0-3", "gpu": "0000:00:06.0"}, {"rank": 1, "node": 1, "cores": f"{number}"}]}
        return write(tmp_path / f"{number}.json", record([row(8, "persistent", [1])], **more, options={"seed": number, "iterations": 3}))
    assert report(job(1), job(2), "--csv", tmp_path / "out.csv")[0] == 0
    meta = results.read_figures([tmp_path / "out.csv"])[0].meta
    assert meta["date"] == "2026-01-01T00:00:00Z | 2026-01-02T00:00:00Z" and meta["command"] == "mpirun -n 2 partita bench latency --seed SEED"
    assert (meta["revision"], meta["kernel"], meta["nccl"], meta["cpu_least_mhz"]) == ("abc", "6.1", "2.28.9", "2100.0")
    assert meta["binding"] == ("rank 0 on node 0, cores 0-3, GPU 0000:00:06.0; rank 1 on node 1, cores 1 | "
                               "rank 0 on node 0, cores 0-3, GPU 0000:00:06.0; rank 1 on node 1, cores 2")
    assert (meta["seed"], meta["options"]) == ("1 | 2", '{"iterations":3}')


def test_cases_are_told_apart_and_jobs_of_different_benchmarks_are_refused(tmp_path):
    files = [write(tmp_path / f"{name}.json", record([row(8, "persistent", [1])])) for name in ("sweep-two", "sweep-four")]
    figure = results.read_figures(files, as_cases=True)[0]
    assert [(point.case, point.jobs) for point in figure.points] == [("two", 1), ("four", 1)]
    other = write(tmp_path / "bw.json", record([row(8, "persistent", [1])], unit="MB/s"))
    fails(lambda: results.read_figures([files[0], other], as_jobs=True), "bw.json", "MB/s", "us")


def test_jacobi_records_are_compared_with_the_declared_yardstick(tmp_path):
    runs = {mode: [{"time_s": time_s, "halo_share": 0.5}] * 3
            for mode, time_s in (("traditional", 4.0), ("traditional-device", 2.0), ("kernel", 1.0))}
    found = {"app": "jacobi2d", "job": {"mpi": "Some MPI", "ranks": 2, "cells": [64, 64]}, "runs": runs}
    points = {point.subject: point for point in results.read_figures([write(tmp_path / "j.json", found)])[0].points}
    assert points["kernel"].reference == "traditional-device" and points["kernel"].ratio == 2
    assert points["traditional"].halo_share == 0.5 and points["kernel"].size == 64


def fft_record(size, names, slices=8):
    runs = {name: [{"iteration_s": 0.002, "exchange_share": 0.5, "gflops": 1}] * 2 for name in names}
    problem = {"size": size, "decomposition": "slab", "slices": slices, "iterations": 20}
    return {"app": "fft", "job": {"mpi": "Some MPI", "ranks": 2, "device": "Some GPU"}, "problem": problem, "runs": runs}


def test_transforms_are_compared_with_their_staged_twins_or_the_first_exchange(tmp_path):
    for names, yardstick in ((["alltoallv-staged", "alltoallv"], "alltoallv-staged"), (["alltoall", "alltoallv"], "alltoall")):
        points = {point.subject: point for point in results.read_figures([write(tmp_path / "f.json", fft_record([64, 64, 64], names))])[0].points}
        assert (points["alltoallv"].size, points["alltoallv"].median, points["alltoallv"].reference) == (64, 2, yardstick)
        assert (points["alltoallv:exchange"].median, points["alltoallv:exchange"].reference) == (1, f"{yardstick}:exchange")
    fails(lambda: results.read_figures([write(tmp_path / "f.json", fft_record([64, 64, 8], ["alltoall"]))]), "f.json", "64 x 64 x 8", "cubes")


def test_a_figure_of_transforms_has_the_notes_about_twins_that_cannot_differ(tmp_path):
    file = write(tmp_path / "f.json", fft_record([64, 64, 64], ["alltoall-staged", "alltoall"]) | {"notes": ["One is the other.", "So is this."]})
    assert results.read_figures([file])[0].meta["notes"] == "One is the other. So is this."


def test_transforms_in_other_slices_are_no_jobs_of_one_figure(tmp_path):
    files = [write(tmp_path / f"f-{slices}.json", fft_record([64, 64, 64], ["alltoall"], slices)) for slices in (8, 1)]
    meta = results.read_figures(files[:1])[0].meta
    assert (meta["slices"], meta["iterations"]) == ("8", "20") and "notes" not in meta
    fails(lambda: results.read_figures(files, as_jobs=True), "f-1.json", "slices '1'", "f-8.json", "'8'")


def test_what_is_no_result_file_is_refused_with_its_name(tmp_path):
    bad = tmp_path / "bad.json"
    for text, word in (("{", "is not JSON"), ("{}", "rows"), ('{"rows": [{}]}', "subject"), ("3", "not what partita bench"),
                       ('{"benchmark": "x", "unit": "us", "rows": []}', "has no rows")):
        bad.write_text(text)
        fails(lambda: results.read_figures([bad]), "bad.json", word)
    fails(lambda: results.read_figures([tmp_path / "none.json"]), "none.json", "cannot be read")
    (tmp_path / "bad.csv").write_text("# benchmark: x\nsize,subject\n1,a\n")
    fails(lambda: results.read_figures([tmp_path / "bad.csv"]), "bad.csv", "unit")
    good = summary.to_csv(results.read_figures([write(tmp_path / "good.json", record([row(8, "persistent", [1])]))])[0])
    (tmp_path / "bad.csv").write_text(good.replace("persistent,8,", "persistent,eight,"))
    fails(lambda: results.read_figures([tmp_path / "bad.csv"]), "bad.csv, row 1", "eight")


# ---- Comparison -------------------------------------------------------------------------------------------------------


def two_runs(tmp_path, factor, spread=0.01):
    """Files of a run, and of one that takes `factor` times as long; their yardsticks differ in the other direction."""
    files = []
    for name, own, other in (("a", 1.0, 1.0), ("b", factor, 1 / factor)):
        rows = [row(8, subject, [10 * times * (1 + spread * math.sin(number)) for number in range(40)])
                for subject, times in (("persistent", other), ("partita-c", own))]
        files.append(write(tmp_path / f"{name}.json", record(rows)))
    return files


def verdicts(tmp_path, factor, spread=0.01, relative=False):
    before, after = results.read_figures(two_runs(tmp_path, factor, spread))
    return {verdict.subject: verdict for verdict in compare.judge(before, after, relative)}


def test_a_verdict_is_faster_slower_or_no_difference(tmp_path):
    assert verdicts(tmp_path, 1.2)["partita-c"].said == "slower"
    assert abs(verdicts(tmp_path, 1.25)["partita-c"].ratio - 0.8) < 1e-9
    assert verdicts(tmp_path, 0.9)["partita-c"].said == "faster"
    assert verdicts(tmp_path, 1.001)["partita-c"].said == "no difference"
    assert verdicts(tmp_path, 1.2, spread=0.9)["partita-c"].said == "no difference"
    assert list(verdicts(tmp_path, 1.25, relative=True)) == ["partita-c"]
    assert abs(verdicts(tmp_path, 1.25, relative=True)["partita-c"].ratio - 0.64) < 1e-9


def test_the_limit_decides_the_exit_status(tmp_path):
    a, b = two_runs(tmp_path, 1.2)
    own = ("--subject", "partita*")
    assert report("--compare", a, b)[0] == 0
    assert report("--compare", a, b, "--limit", "3", *own)[0] == 1
    assert report("--compare", b, a, "--limit", "3", *own)[0] == 0
    assert report("--compare", a, b, "--limit", "25", *own)[0] == 0
    code, said = report("--compare", a, b, "--limit", "3")
    assert code == 1 and "1 slower by more than 3 %" in said and "1 faster" in said
    for file in (a, b):
        assert report(file, "--csv", file.with_suffix(".csv"))[0] == 0
    assert report("--compare", a.with_suffix(".csv"), b.with_suffix(".csv"), "--limit", "3", *own)[0] == 1


def test_a_run_that_lacks_points_does_not_keep_a_limit(tmp_path):
    a = write(tmp_path / "a.json", record([row(8, "persistent", [1] * 9), row(16, "persistent", [1] * 9)]))
    b = write(tmp_path / "b.json", record([row(8, "persistent", [1] * 9)]))
    code, said = report("--compare", a, b, "--limit", "3")
    assert code == 1 and "lacks 1 of the points of persistent" in said
    assert report("--compare", b, a, "--limit", "3")[0] == 0


def test_runs_of_other_figures_and_unknown_subjects_are_refused(tmp_path):
    a = write(tmp_path / "a.json", record([row(8, "persistent", [1])]))
    b = write(tmp_path / "b.json", record([row(8, "persistent", [1])], unit="MB/s"))
    code, said = report("--compare", a, b)
    assert code == 1 and "MB/s" in said
    code, said = report("--compare", a, a, "--subject", "nobody")
    assert code == 1 and "nobody" in said and "persistent" in said
    c = write(tmp_path / "c.json", record([row(16, "persistent", [1])]))
    assert report("--compare", a, c)[0] == 1


def test_options_that_do_not_belong_together_end_with_2(tmp_path):
    file = write(tmp_path / "a.json", record([row(8, "persistent", [1])]))
    for arguments in ((), (file,), (file, "-o", tmp_path, "--csv", tmp_path / "x"), ("--csv", tmp_path / "x"), ("-o", tmp_path),
                      ("--compare", file), ("--compare", file, file, file), (file, "-o", tmp_path, "--limit", "3"),
                      (file, "--csv", tmp_path / "x", "--ratio"), ("--compare", file, file, "--cases"), ("--frobnicate",),
                      (file, "-o", tmp_path, "--hardware", "fast"), (file, "-o", tmp_path, "--format", "gif")):
        code, said = report(*arguments)
        assert code == 2 and "error: " in said, (arguments, said)
    code, said = report(file, "-o", tmp_path, "--ratio", "--hardware", "5:NVLink")
    assert code == 2 and "--hardware is a line in the unit of the figure" in said
    assert report("--help")[0] == 0


# ---- Charts -----------------------------------------------------------------------------------------------------------


def chart_names(rows, **more):
    figure = summary.figure_of("f", [results.Job("f.json", {"benchmark": "b", "unit": "us", **more}, [results.bench_row(each) for each in rows])])
    return [(chart.name, chart.x_title) for chart in charts.charts_of(figure)]


def test_there_is_a_chart_for_each_partition_count_or_one_where_the_size_fixes_it():
    both = [row(8, "a", [1], partitions=8), row(16, "a", [1], partitions=8), row(16, "a", [1], partitions=16)]
    assert chart_names(both) == [("f-8-partitions", "bytes"), ("f-16-partitions", "bytes")]
    assert chart_names(both[:2]) == [("f-8-partitions", "bytes")]
    assert chart_names([row(8, "a", [1], partitions=1), row(16, "a", [1], partitions=2)]) == [("f", "bytes")]
    assert chart_names([row(8, "a", [1], partitions=1), row(8, "a", [1], partitions=2)]) == [("f", "partitions")]


def test_140_series_are_told_apart():
    seen = {(style["color"], style["linestyle"], style["marker"]) for style in charts.styles()}
    assert len(seen) == 140
    first = list(charts.styles())[:12]
    assert len({(style["color"], style["linestyle"]) for style in first}) == 12


def test_sizes_are_named_in_powers_of_1024_where_they_are_whole():
    assert [charts.short_bytes(size) for size in (8, 65536, 4 << 20, 1536)] == ["8", "64K", "4M", "1536"]


@draws
def test_a_chart_has_lines_bands_and_the_limit_of_the_hardware(tmp_path):
    need_matplotlib()
    rows = [row(size, subject, [times * size * (1 + number / 20) for number in range(9)])
            for subject, times in (("persistent", 2), ("partita-c", 1)) for size in (8, 16, 32)]
    file = write(tmp_path / "latency.json", record(rows))
    code, said = report(file, "-o", tmp_path / "charts", "--hardware", "5:NVLink")
    drawn = tmp_path / "charts/latency-8-partitions.svg"
    assert code == 0 and str(drawn) in said
    text = drawn.read_text(encoding="utf-8")
    for word in ("persistent", "partita-c", "NVLink", "median in us", "Some MPI 1.0", "95 % interval", "PolyCollection_2"):
        assert word in text, word
    assert report(file, "-o", tmp_path / "charts", "--ratio", "--format", "png")[0] == 0
    assert (tmp_path / "charts/latency-8-partitions-ratio.png").read_bytes().startswith(b"\x89PNG")
    assert report(file, "-o", tmp_path / "again")[0] == 0
    report(file, "-o", tmp_path / "charts")
    assert (tmp_path / "again/latency-8-partitions.svg").read_bytes() == drawn.read_bytes()


@draws
def test_zeros_are_drawn_on_a_plain_axis_and_ratios_of_nothing_are_refused(tmp_path):
    need_matplotlib()
    file = write(tmp_path / "zeros.json", record([row(8, "persistent", [0]), row(16, "persistent", [3])], unit="%"))
    assert report(file, "-o", tmp_path)[0] == 0
    code, said = report(file, "-o", tmp_path, "--ratio")
    assert code == 1 and "nothing to draw" in said


def test_without_matplotlib_it_says_how_to_get_it(tmp_path):
    file = write(tmp_path / "a.json", record([row(8, "persistent", [1])]))
    (tmp_path / "matplotlib.py").write_text("raise ImportError('none here')\n")
    ended = subprocess.run([sys.executable, "-B", SOURCES / "bench/report.py", file, "-o", tmp_path], capture_output=True, text=True,
                           env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert ended.returncode == 1 and "pip install matplotlib" in ended.stderr and "Traceback" not in ended.stderr, ended.stderr


# ---- The program ------------------------------------------------------------------------------------------------------


def test_the_program_hands_on_the_exit_status_and_says_what_it_lacks(given, tmp_path):
    program, folder = given["program"], tmp_path
    file = write(folder / "a.json", record([row(8, "persistent", [1])]))

    def run(*arguments, path=os.environ["PATH"], started=program):
        """By the launcher, since an MPI may need its own programs on PATH to start one without."""
        return subprocess.run([*given.launcher(1), "env", f"PATH={path}", started, "report", *map(str, arguments)], capture_output=True,
                              text=True, timeout=120)
    assert "--compare" in run("--help").stdout
    done = run(file, "--csv", folder / "a.csv")
    assert done.returncode == 0 and (folder / "a.csv").exists(), done
    assert run(folder / "none.json", "-o", folder).returncode == 1
    assert run("--frobnicate").returncode == 2
    empty = folder / "empty"
    empty.mkdir()
    done = run(file, "--csv", folder / "b.csv", path=empty)
    assert done.returncode == 1 and "python3 cannot be started" in done.stderr, done
    (empty / "python3").write_text("#!/bin/sh\nkill -9 $$\n")
    (empty / "python3").chmod(0o755)
    done = run(file, "--csv", folder / "b.csv", path=f"{empty}:{os.environ['PATH']}")
    assert done.returncode == 1 and "ended by signal 9" in done.stderr, done
    alone = folder / "bin"
    alone.mkdir()
    shutil.copy(program, alone)
    done = run("--help", started=alone / "partita")
    assert done.returncode == 1 and "report.py is not there" in done.stderr, done
