"""The pages say what the result files say, and a page that does not is found."""
import argparse
import csv
import json
import pathlib
import re
import subprocess
import sys

import pytest

sys.dont_write_bytecode = True
SOURCES = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCES / "bench"))
import comparison  # noqa: E402
import goals  # noqa: E402
import measure  # noqa: E402
import pages  # noqa: E402
import quoted  # noqa: E402
from partita_report.failure import Failure  # noqa: E402
from partita_report.results import bench_row, Job, app_job, read_figures  # noqa: E402
from partita_report.summary import figure_of, to_csv  # noqa: E402

MEASURED = SOURCES / "docs/measurements/h200-2-gpus"


def page(text, folder=MEASURED):
    """What is wrong with a page of this text in the folder."""
    place = folder / "page.md"
    return [*pages.differences(place, text), *pages.untied(place, text)]


def figure(rows, unit="us"):
    rows = [{"bytes": size, "partitions": 1, "subject": subject, "reference": subject, "median": median, "samples": [median],
             "gpu_copy": "packets"} for size, subject, median in rows]
    return figure_of("latency", [Job("latency.json", {"benchmark": "b", "unit": unit}, [bench_row(row) for row in rows])])


def test_every_page_says_what_its_result_files_say():
    found = [complaint for each in pages.pages() for complaint in pages.differences(each, each.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


def test_no_figure_is_without_a_result_file():
    found = [complaint for each in pages.pages() for complaint in pages.untied(each, each.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


def test_a_figure_behind_a_block_of_code_is_found_too():
    found = list(pages.untied(MEASURED / "page.md", "    mpirun -n 2 x --delay 3 us\n\nIt takes 1.2 us.\n\n    y\n\nOr 2.5 ms."))
    assert [complaint.split(":", 1)[1] for complaint in found] == ['3: "1.2 us" is tied to no result file', '7: "2.5 ms" is tied to no result file']


def test_a_figure_whose_unit_begins_the_next_line_is_found_too():
    found = list(pages.untied(MEASURED / "page.md", "It takes 1.2\nus."))
    assert [complaint.split(":", 1)[1] for complaint in found] == ['1: "1.2 us" is tied to no result file']


def test_a_figure_behind_a_place_at_the_begin_of_its_line_is_found_too():
    found = list(pages.untied(MEASURED / "page.md", "Here\n<!--= span([1]) -->1.00<!--/--> was, and 2.5 ms."))
    assert [complaint.split(":", 1)[1] for complaint in found] == ['2: "2.5 ms" is tied to no result file']


def test_a_sum_over_rows_is_of_the_column_that_is_named(tmp_path):
    (tmp_path / "registers.csv").write_text("# date: today\nkernel,registers,spilled\na,64,8\nb,32,4\n")
    quotes = quoted.Quotes(tmp_path)
    assert (quotes.counted("registers", "registers", kernel="a"), quotes.counted("registers", kernel="a"), quotes.counted("registers")) == (64, 8, 12)


def test_limits_and_settings_that_pages_no_longer_name_are_not_listed():
    with open(pages.NOMINAL, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            assert row["figure"] in pages.unwrapped(pages.blanked((SOURCES / row["page"]).read_text(encoding="utf-8"))), row


def test_the_page_of_a_measurement_quotes_its_summaries(tmp_path):
    origin = {"date": "2026-01-31T23:59:00Z", "command": "partita_plain_ping_pong 8"}
    measure.write_ping_pongs(tmp_path / "preload.csv", "preload", {"plain": {8: [2.0] * 9}, "preloaded": {8: [1.0] * 9}}, origin)
    measure.write_table(tmp_path / "instructions.csv", ("link", "partitions", "part", "function", "instructions"),
                        [("auto", 8, "own", "f(int, int)", 800.0), ("auto", 8, "own", "g", 93.0), ("auto", 8, "links", "h", 84.0),
                         ("auto", 1, "own", "g", 93.0), ("auto", 1, "links", "h", 21.0)], origin)
    run = measure.Run("latency", ["latency", "-m", "8:8"])
    rows = [{"bytes": 8, "partitions": 8, "subject": subject, "reference": "persistent", "link": "", "median": median, "samples": [median]}
            for subject, median in (("persistent", 3.0), ("partita-c", 2.0))]
    machine = {"cpu": "A CPU", "cores": 2, "mpi": "Some MPI", "thread_level": "multiple"}
    binding = [{"rank": 0, "node": 0, "cores": "0"}]
    found = {"benchmark": "latency", "unit": "us", "machine": machine, "binding": binding, "notes": [], "rows": rows}
    (tmp_path / "latency-1.json").write_text(json.dumps(found))
    options = argparse.Namespace(program="partita", output=tmp_path, mpirun="mpirun -n 2", bind="none", jobs=1)
    options.comparison = comparison.Comparison(argparse.ArgumentParser(), options, cores=1, limit_s=1)
    options.comparison.write_summaries([run])
    text = measure.page(options, [run], [], {("auto", 8): {}}, {8: ()}, {})
    for line in ("| 8 | 2 | 1 (2.00) |", "| auto | 8 | 893 | 84 |", "| auto | 1 | 93 | 21 |", "| 8 | 8 | 3 | 2 (1.50) |",
                 "| `instructions` | | | 2026-01-31 | | revision, versions, clocks, binding |",
                 "| `preload` | 9 | | 2026-01-31 | | revision, versions, clocks, binding |"):
        assert line in text, text
    assert not list(pages.differences(tmp_path / "README.md", text))


def test_the_repository_keeps_summaries_and_no_samples():
    kept = subprocess.run(["git", "-C", SOURCES, "ls-files", "docs/measurements"], capture_output=True, text=True).stdout.split()
    assert not [file for file in kept if not file.endswith((".csv", ".md"))]
    for file in quoted.MEASUREMENTS.rglob("*.csv"):
        assert file.stat().st_size < 64 * 1024, f"{file} is no small summary"


def test_every_folder_says_of_which_sources_and_versions_its_files_are():
    for file in quoted.MEASUREMENTS.glob("*/README.md"):
        assert "<!--= origins() -->" in file.read_text(encoding="utf-8"), file


def first_paragraph(page):
    return page.read_text(encoding="utf-8").split("\n\n")[1]


def test_figures_of_fewer_than_five_jobs_are_called_so_in_the_first_paragraph_of_their_page():
    counted = 0
    for page in sorted(quoted.MEASUREMENTS.glob("*/README.md")):
        told, files = first_paragraph(page), [(file, quoted.lines(file)) for file in sorted(page.parent.glob("*.csv"))]
        few = [file.stem for file, rows in files if any(int(row.get("jobs", quoted.JOBS_THAT_TELL)) < quoted.JOBS_THAT_TELL for row in rows)]
        counted += sum("jobs" in rows[0] for _, rows in files)
        if not told.startswith("**Old figures: "):
            named = told.partition("**Fewer than five jobs: ")[2].partition("**")[0]
            assert set(re.findall("`([^`]+)`", named)) == set(few), f"{page}: of fewer than five jobs are {', '.join(few) or 'none'}"
    assert counted > 90


NOT_IN_HISTORY = {  # published revisions, and why
    "0bce752f56af": "a state between 973e8817 and afb8e688 that was not published",
    "f2c7fe9c4e10": "a state before f7d3f03f that was not published",
    "e1e262d65": "what fig5-transports was measured with, of which nothing else tells",
}
OF_OTHERS = {"037e033": "MPIPCL's"}


def revisions_named(text):
    """Abbreviated hashes; one of digits alone is taken for one behind that word."""
    words = re.findall(r"(?<![\w/.-])(?:(?<=revision )\d{7,40}|(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{7,40})(?![\w/])", pages.unwrapped(text))
    return set(words) - OF_OTHERS.keys()


def test_revisions_are_found_in_pages_and_files():
    text = "of revision\n5456790, (286f35c) and `07b8d5a7cff9 | 44f3e7cef763`, 8388608 bytes, MPIPCL 037e033, defaced, x1234abc, 1234567.8"
    assert revisions_named(text) == {"5456790", "286f35c", "07b8d5a7cff9", "44f3e7cef763"}


def test_published_revisions_are_in_the_history():
    def git(*arguments):
        return subprocess.run(["git", "-C", SOURCES, *arguments], capture_output=True, text=True)
    try:
        shallow = git("rev-parse", "--is-shallow-repository")
    except OSError as error:
        pytest.skip(f"no git: {error}")
    if shallow.stdout.strip() != "false":
        pytest.skip("a shallow clone has no history" if shallow.returncode == 0 else f"no clone: {shallow.stderr.strip()}")
    texts = [*pages.pages(), *quoted.MEASUREMENTS.rglob("*.csv")]
    named = set().union(*(revisions_named(file.read_text(encoding="utf-8")) for file in texts))
    missing = {revision for revision in named if git("merge-base", "--is-ancestor", revision, "HEAD").returncode != 0}
    assert len(named) > 10 and missing == NOT_IN_HISTORY.keys()


def test_a_page_says_of_a_revision_that_it_is_not_in_the_history():
    for page in quoted.MEASUREMENTS.glob("*/README.md"):
        text = page.read_text(encoding="utf-8")
        said = {revision for paragraph in text.split("\n\n") if "not in the history" in pages.unwrapped(paragraph) for revision in revisions_named(paragraph)}
        assert not (revisions_named(text) & NOT_IN_HISTORY.keys()) - said, page


def test_what_a_file_does_not_tell_of_where_it_comes_from_is_named(tmp_path):
    told = "".join(f"# {line}\n" for line in ("benchmark: b", "unit: us", "date: 2026-01-31T23:59:00Z | 2026-02-01T00:01:00Z", "revision: abc",
                                              "command: partita bench b", "kernel: 6.1", "nccl: 2.28.9", "cpu_least_mhz: 2100.0",
                                              "cpu_most_mhz: 3000.0", "binding: rank 0 on node 0, cores 0-3"))
    (tmp_path / "told.csv").write_text(told + "subject,size,partitions,jobs,samples,median,low,high\na,8,1,4,8,1,1,1\nb,8,1,5,8,1,1,1\n")
    (tmp_path / "in-part.csv").write_text("# revision: unknown\n# date: 2026-01-31T23:59:00Z\n# nccl: not told\n# nvshmem: 3.4.5\na,b\n")
    (tmp_path / "peer.csv").write_text(told.replace("# nccl: 2.28.9\n", "") + "subject,size,partitions,jobs,samples,median,low,high\nnccl-send,8,1,5,8,1,1,1\n")
    (tmp_path / "some-jobs.csv").write_text("# revision: abc | unknown | def\na,b\n")
    (tmp_path / "untold.csv").write_text("call,instructions\n")
    lines = quoted.Quotes(tmp_path).origins().splitlines()
    assert lines[2:] == ["| `in-part` | | | 2026-01-31 | NVSHMEM 3.4.5 | revision, command, versions, clocks, binding, NCCL |",
                         "| `peer` | 5 | abc | 2026-01-31 and 2026-02-01 | kernel 6.1, cores at 2,100 to 3,000 MHz | NCCL |",
                         "| `some-jobs` | | abc and def | | | date, revision, command, versions, clocks, binding |",
                         "| `told` | 4 to 5 | abc | 2026-01-31 and 2026-02-01 | kernel 6.1, NCCL 2.28.9, cores at 2,100 to 3,000 MHz | |",
                         "| `untold` | | | | | date, revision, command, versions, clocks, binding |"]


def test_a_digit_that_was_changed_is_found_wherever_it_stands():
    """The last digit of the first places of every page."""
    changed = 0
    for each in pages.pages():
        text = each.read_text(encoding="utf-8")
        for place in pages.places(text)[:12]:  # more of a page would take long
            digits = list(re.finditer(r"\d", place["text"]))
            if digits:
                at = place.start("text") + digits[-1].start()
                wrong = text[:place.start()] + place[0][:at - place.start()] + str((int(text[at]) + 1) % 10) + place[0][at - place.start() + 1:]
                assert list(pages.differences(each, wrong[place.start():])), f"{each}: {place['expression']}"
                changed += 1
    assert changed > 60


def test_a_figure_in_a_cell_of_a_table_is_compared():
    text = pages.filled(MEASURED / "page.md", "<!--= table('table1') --><!--/-->")
    assert not page(text)
    at = text.index("(", text.index("\n"))
    assert page(text[:at] + "(9" + text[at + 1:])


def test_a_verdict_by_prose_is_found():
    text = pages.filled(MEASURED / "page.md", "a block: <!--= verdict('host-block') --><!--/-->")
    assert "missed: 3 of 8 sizes reach it" in text and not page(text)
    assert page(text.replace("missed: 3 of 8 sizes reach it", "reached"))


def test_a_figure_that_is_tied_to_nothing_is_found():
    for figures in ("it takes 1.2 µs", "1.2 to 1.3 µs", "moves 370 GB/s", "1.41 ×", "2.1 times as fast", "| 4 % |", "893 instructions",
                    "spilled 40 bytes of registers", "1 byte a tag", "8 B |", "takes 68 registers", "14 to 21 bytes"):
        assert page(figures), figures
    for nominal in ("`1.2 µs`", "    mpirun -n 2 # 1.2 us", "8 KiB in 16 partitions", "MPICH 5.0.2", "2 × 2 GPUs", "500 iterations",
                    "2⁶³ − 1 bytes", "2^32 bytes", "a 16-byte packet", "8 blocks"):
        assert not page(nominal), nominal


def test_expressions_that_give_nothing_are_refused_with_page_and_expression():
    for expression in ("span(medians('latency', 'nobody'))", "medians('latency', 'nccl')", "table('none')", "nothing()"):
        try:
            page(f"<!--= {expression} --><!--/-->")
        except Failure as failure:
            assert "page.md" in str(failure) and expression in str(failure)
        else:
            raise AssertionError(expression)


def test_the_range_over_jobs_is_that_of_single_jobs_within_which_ratios_are_taken(tmp_path):
    def job(number, plain, other):
        rows = [{"bytes": 8, "partitions": 1, "subject": subject, "reference": "plain", "samples": [value]} for subject, value in (("plain", plain), ("other", other))]
        return Job(str(number), {"benchmark": "b", "unit": "us"}, [bench_row(row) for row in rows])
    (tmp_path / "b.csv").write_text(to_csv(figure_of("b", [job(1, 8, 4), job(2, 3, 3), job(3, 6, 2)])))
    quotes = quoted.Quotes(tmp_path)
    assert quotes.ratios_of_jobs("b", "other") == [1, 3] and quotes.medians_of_jobs("b", "other") == [2, 4]
    with pytest.raises(Failure, match="b has no ratio of plain to a yardstick"):
        quotes.ratios_of_jobs("b", "plain")


def figure_of_jobs(folder, jobs, unit="us", size=8):
    """Quotes of the file b.csv of jobs, each of which tells {subject: (value, its yardstick)}."""
    def job(number, values):
        rows = [{"bytes": size, "partitions": 1, "subject": name, "reference": yardstick, "samples": [value]} for name, (value, yardstick) in values.items()]
        return Job(str(number), {"benchmark": "b", "unit": unit}, [bench_row(row) for row in rows])
    (folder / "b.csv").write_text(to_csv(figure_of("b", [job(number, values) for number, values in enumerate(jobs)])))
    quotes = quoted.Quotes(folder)
    quotes.figure = lambda file: quoted.read(quotes.path(file))  # a test writes several files of this name
    return quotes


HOURS = (1, 2, 5, 9, 10)  # by which all of a job is slower than in another one


def test_a_ratio_on_a_page_is_the_median_of_those_within_jobs(tmp_path):
    jobs = [(1, 1.8), (2, 3.6), (3, 4.5), (4, 7.2), (5, 4)]  # the quotient of the medians is 1.33
    quotes = figure_of_jobs(tmp_path, [{"plain": (plain, "plain"), "own": (own, "plain")} for plain, own in jobs], "GB/s")
    assert quotes.times("b", "own", "plain") == quotes.over("b", "own", "plain") == quotes.ratios("b", "own") == [1.8]
    assert "| 1.80 |" in quotes.grid("b", {"own": ("own", "plain", None)})
    quotes = figure_of_jobs(tmp_path, [{"plain": (own, "plain"), "own": (plain, "plain")} for plain, own in jobs])
    assert quotes.times("b", "own", "plain") == [1.8] and quotes.over("b", "own", "plain") == [1 / 1.8]


def channel_figure(file, unit, values):
    """`values`: {subject: {size: value}}."""
    rows = [{"bytes": size, "partitions": 1, "subject": subject, "reference": "by-hand", "samples": [value]}
            for subject, by_size in values.items() for size, value in by_size.items()]
    file.write_text(to_csv(figure_of(file.stem, [Job(file.stem, {"benchmark": file.stem, "unit": unit}, [bench_row(row) for row in rows])])))


def test_the_improvements_of_channel_table1_are_ranges_over_sizes_in_a_node_and_between_nodes(tmp_path):
    page = tmp_path / "page.md"
    with pytest.raises(Failure, match="no figure of channel.fig11 to .fig14"):
        pages.value(page, "channel_table1()")
    channel_figure(tmp_path / "channel-fig11.csv", "us", {"by-hand": {8: 20, 4096: 24, 1 << 22: 500}, "device": {8: 8, 4096: 8, 1 << 22: 50},
                                                          "mpi-device": {8: 2, 4096: 3, 1 << 22: 50}})
    channel_figure(tmp_path / "channel-fig12.csv", "us", {"by-hand": {8: 20, 1 << 22: 500}, "device": {8: 20, 1 << 22: 250}})
    channel_figure(tmp_path / "channel-fig13.csv", "MB/s", {"by-hand": {8: 1, 1 << 22: 2000}, "device": {8: 1.5, 1 << 22: 22000}})
    told = pages.value(page, "channel_table1()").splitlines()
    assert told[0] == "| improvement | in a node, `device` | in a node, `mpi-device` | between nodes, `device` | between nodes, `mpi-device` |"
    assert told[2:] == ["| latency | 2.50 to 10.0 × | 8.00 to 10.0 × | 1.00 to 2.00 × | not measured |",
                        "| latency, to 4 KiB | 2.50 to 3.00 × | 8.00 to 10.0 × | 1.00 × | not measured |",
                        "| bandwidth | 1.50 to 11.0 × | not measured | not measured | not measured |"]
    assert pages.value(page, "channel_table1(('device',))").splitlines()[2] == "| latency | 2.50 to 10.0 × | 1.00 to 2.00 × |"


def test_the_figures_between_nodes_may_lie_in_another_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(quoted, "MEASUREMENTS", tmp_path)
    for folder, figures in (("one-node", ("channel-fig11", "channel-fig13")), ("two-nodes", ("channel-fig12", "channel-fig14"))):
        (tmp_path / folder).mkdir()
        for name in figures:
            unit, better = ("us", 4) if name in ("channel-fig11", "channel-fig12") else ("MB/s", 16)
            channel_figure(tmp_path / folder / f"{name}.csv", unit, {"by-hand": {8: 8}, "device": {8: better}})
    told = quoted.Quotes(tmp_path / "one-node").channel_table1(("device",), between_nodes="two-nodes").splitlines()
    assert told[2:] == [f"| {words} | 2.00 × | 2.00 × |" for words in ("latency", "latency, to 4 KiB", "bandwidth")]
    with pytest.raises(Failure, match="no folder tow-nodes"):
        quoted.Quotes(tmp_path / "one-node").channel_table1(("device",), between_nodes="tow-nodes")


def test_two_rows_cross_where_the_line_between_two_sizes_says(tmp_path):
    def quotes_of(times):
        (tmp_path / "b.csv").write_text(to_csv(figure([(size, name, us) for size, plain, own in times for name, us in (("plain", plain), ("own", own))])))
        quoted.load.cache_clear()
        return quoted.Quotes(tmp_path)
    assert quotes_of([(1024, 1, 2), (4096, 2, 1), (8192, 9, 1)]).crossing("b", "own", "plain") == [pytest.approx(2)]  # half-way of the logarithms
    assert quotes_of([(1024, 1, 4), (4096, 2, 1), (8192, 9, 1)]).crossing("b", "own", "plain") == [pytest.approx(4 ** (2 / 3))]
    assert quotes_of([(1024, 2, 1), (2048, 1, 2), (4096, 2, 1)]).crossing("b", "own", "plain") == [pytest.approx(2 * 2 ** 0.5)]  # for good
    assert quotes_of([(1024, 2, 1), (2048, 2, 1)]).crossing("b", "own", "plain") == []
    assert quotes_of([(1024, 2, 1), (2048, 1, 2)]).crossing("b", "own", "plain") == []


def test_a_ratio_beside_another_row_is_by_what_the_jobs_bound_more_narrowly(tmp_path):
    apart = [{"plain": (hour, "plain"), "own": (2 * hour, "plain"), "other": (near * hour, "plain")} for hour, near in zip(HOURS, (3, 3, 3, 3, 3.3))]
    quotes = figure_of_jobs(tmp_path, apart)
    assert quotes.times("b", "own", "other") == pytest.approx([1.5], rel=1e-4)  # by the ratios to the yardstick
    assert quotes.bounds_of_jobs("b", "own", "other") == pytest.approx([1.5, 1.65], rel=1e-4)
    restless = [{"plain": (hour, "plain"), "own": (10, "plain"), "other": (near, "plain")} for hour, near in zip(HOURS, (15, 16, 17, 17, 17))]
    quotes = figure_of_jobs(tmp_path, restless)
    assert quotes.times("b", "own", "other") == [1.7]  # by the medians
    assert quotes.bounds_of_jobs("b", "own", "other") == [1.5, 1.7]


def balance_of(folder, jobs, subject, reference, unit="us"):
    """Times as good, and better / alike / worse at the one size that the jobs have."""
    table = figure_of_jobs(folder, jobs, unit).balance(("words", "b", subject, (reference,), None))
    *_, times, counts, where, _ = table.splitlines()[2].split("|")
    return times.strip(), counts.strip(), where.strip()


def test_what_all_jobs_lose_is_a_loss_however_far_jobs_lie_apart(tmp_path):
    slower = [{"plain": (hour, "plain"), "own": (1.1 * hour, "plain")} for hour in HOURS]
    assert balance_of(tmp_path, slower, "own", "plain") == ("0.91", "0 / 0 / 1", "8")
    assert balance_of(tmp_path, slower, "plain", "own") == ("1.10", "1 / 0 / 0", "-")
    rates = [{"plain": (1 / hour, "plain"), "own": (0.9 / hour, "plain")} for hour in HOURS]
    assert balance_of(tmp_path, rates, "own", "plain", "GB/s") == ("0.90", "0 / 0 / 1", "8")
    once_faster = [*slower[:4], {"plain": (10, "plain"), "own": (9, "plain")}]
    assert balance_of(tmp_path, once_faster, "own", "plain") == ("0.91", "0 / 1 / 0", "-")


def test_a_loss_beside_another_subject_goes_by_the_ratios_to_the_yardstick_of_both(tmp_path):
    apart = [{"plain": (hour, "plain"), "own": (1.3 * hour, "plain"), "other": (1.2 * hour, "plain")} for hour in HOURS]
    assert balance_of(tmp_path, apart, "own", "other") == ("0.92", "0 / 0 / 1", "8")
    assert balance_of(tmp_path, apart, "other", "own") == ("1.08", "1 / 0 / 0", "-")
    overlap = [*apart[:4], {"plain": (10, "plain"), "own": (11, "plain"), "other": (10, "plain")}]
    assert balance_of(tmp_path, overlap, "own", "other") == ("0.92", "0 / 1 / 0", "-")


def test_what_the_medians_of_all_jobs_lose_is_a_loss_with_no_yardstick_and_with_one_that_varies(tmp_path):
    for yardstick in ("plain", "own"):
        apart = [{"plain": (hour, "plain"), "own": (30 + hour, yardstick), "other": (hour, "plain")} for hour in HOURS]
        assert balance_of(tmp_path, apart, "own", "other")[1] == "0 / 0 / 1"
    near = [{"own": (1.1 * hour, "own"), "other": (hour, "other")} for hour in HOURS]
    assert balance_of(tmp_path, near, "own", "other")[1] == "0 / 1 / 0"


def test_fewer_jobs_than_five_are_judged_by_the_interval_of_their_samples(tmp_path):
    slower = [{"plain": (hour, "plain"), "own": (1.1 * hour, "plain")} for hour in HOURS]
    assert balance_of(tmp_path, slower[:4], "own", "plain") == ("0.91", "0 / 1 / 0", "-")
    assert balance_of(tmp_path, slower[:1], "own", "plain") == ("0.91", "0 / 0 / 1", "8")


def test_sizes_and_numbers_are_read_and_shown_as_told():
    assert (quoted.in_bytes("8"), quoted.in_bytes("64K"), quoted.in_bytes("4M")) == (8, 65536, 4 << 20)
    assert [quoted.number(value) for value in (0.123, 9.996, 99.96, 1234.5)] == ["0.12", "10.0", "100", "1,234"]
    assert quoted.span([2, 1]) == "1.00 to 2.00" and quoted.span([1.001, 1.002]) == "1.00"
    places = [("", size, 8) for size in (1, 2, 4, 8, 16)]
    assert quoted.runs_of(places, [places[0], places[1], places[2], places[4]]) == "1 to 4, 16"


def test_a_goal_is_reached_where_all_its_sizes_reach_it():
    goal = goals.read_goals()["packets"]
    assert goals.judge(goal, figure([(8, "device-packets", 1.3), (16, "device-packets", 1.2)])).said == "reached"
    assert goals.judge(goal, figure([(8, "device-packets", 1.3), (16, "device-packets", 1.31)])).said == "missed: 1 of 2 sizes reach it"
    assert goals.judge(goal, figure([(8, "device-packets", 2.0), (2048, "device-packets", 1.0)])).said == "missed"
    assert goals.judge(goal, figure([(8, "nccl", 1.0)])).said == goals.judge(goal, None).said == "not measured"
    other_way = figure([(8, "device-packets", 1.0)])
    other_way.points[0].gpu_copy = "kernel"
    assert goals.judge(goal, other_way).said == "not measured"


def test_goals_of_ratios_differences_and_the_best_of_several():
    known = goals.read_goals()
    rates = figure([(1 << 20, "put-8x512", 100), (1 << 20, "put-128x512", 220)], "GB/s")
    assert goals.judge(known["bandwidth-1M"], rates).values == [220]
    rates = figure([(8, "kernel", 6), (8, "traditional", 2), (16, "kernel", 1), (16, "traditional", 2)], "GB/s")
    assert goals.judge(known["kernel-smallest"], rates).values == [3] and goals.judge(known["kernel-largest"], rates).values == [0.5]
    seconds = figure([(64, "kernel", 1), (64, "traditional", 2)], "s")
    assert goals.judge(known["jacobi-kernel"], seconds).said == "reached"
    asleep = figure([(8, "asleep-idle", 900), (8, "asleep-bare", 800)])
    assert goals.judge(known["asleep"], asleep).values == [100] and goals.judge(known["asleep"], asleep).said == "missed"
    shares = figure([(1 << 16, "partita-c", 1), (1 << 16, "persistent", 1)], "MB/s")
    assert goals.judge(known["perceived-bandwidth"], shares).said == "not measured"  # of another number of partitions
    shares.points[0].partitions = shares.points[1].partitions = 4
    assert goals.judge(known["perceived-bandwidth"], shares).said == "missed"
    both = figure([(size, f"partita-c {when}", us) for size, us in ((8, 1.01), (64, 1.1)) for when, us in (("before", 1), ("now", us))])
    assert goals.judge(known["latency-before"], both).said == "not measured"
    for point, best in zip(both.points[1::2], (0.99, 0.96)):
        point.reference, point.ratio_high = "partita-c before", best
    assert goals.judge(known["latency-before"], both).values == [0.99, 0.96]
    assert goals.judge(known["latency-before"], both).said == "missed: 1 of 2 sizes reach it"
    times = figure([(size, name, us) for size, us in ((1, 3), (1 << 16, 4.5), (1 << 19, 5), (8 << 20, 10.3), (1 << 30, 10))
                    for name, us in (("regular-graph", us), ("traditional", 10))])
    assert goals.judge(known["queue-small"], times).values == pytest.approx([0.3, 0.45])
    assert goals.judge(known["queue-small"], times).said == "missed: 1 of 2 sizes reach it"
    assert goals.judge(known["queue-medium"], times).said == "reached"
    assert goals.judge(known["queue-large"], times).said == "missed: 1 of 2 sizes reach it"
    assert goals.judge(known["queue-small-engine"], times).said == "not measured"
    rates = figure([(32, "copy", 100), (32, "pack", 10), (64, "copy", 100), (64, "pack", 80), (4096, "copy", 100), (4096, "pack", 79)], "GB/s")
    assert goals.judge(known["pack"], rates).said == "missed: 1 of 2 sizes reach it" and goals.judge(known["unpack"], rates).said == "not measured"
    best = figure([(512, "traditional", 4), (512, "queue-regular", 4.4), (512, "graph-regular", 5.2), (512, "queue-ready", 5)], "times the speed of one rank")
    assert goals.judge(known["life-best-regular"], best).values == [1.3] and goals.judge(known["life-best-ready"], best).said == "missed"
    calls = figure([(8, "launch", 2), (8, "start", 2.25), (8, "startall", 9)])
    assert goals.judge(known["enqueue-start"], calls).said == "reached" and goals.judge(known["enqueue-startall"], calls).values == [4]
    assert goals.judge(known["prequest_create-allreduce"], figure([(8, "prequest_create", 20)])).said == "not measured"  # of a send
    calls = figure([(8, "prequest_create", 20), (8, "prequest_create allreduce", 40)])
    assert goals.judge(known["prequest_create"], calls).values == [20] and goals.judge(known["prequest_create-allreduce"], calls).values == [40]
    by_algorithm = figure([(1024, "graph-allreduce:packets", 3.4), (1024, "graph-allreduce:buffers", 9), (1024, "graph-bcast:packets", 3)])
    assert goals.judge(known["graph-allreduce-1K"], by_algorithm).values == [3.4]
    marks = figure([(size, "partita-c", us) for size, us in ((1, 1.0), (2, 1.32), (3, 1.72))])
    for point, partitions in zip(marks.points, (1, 64, 128)):
        point.size, point.partitions = 1 << 16, partitions
    assert [round(value, 6) for value in goals.judge(known["mark"], marks).values] == [6.25] and goals.judge(known["mark"], marks).said == "missed"
    marks.points[2].transport_partitions = 16
    assert goals.judge(known["mark"], marks).said == "not measured"  # other flags, too, and not only marks on top
    marks.points[1].transport_partitions = 16
    assert len(goals.judge(known["mark"], marks).values) == 1
    del marks.points[1]
    assert goals.judge(known["mark"], marks).said == "not measured"
    untold = {"traditional": [{"time_s": 4}], "traditional-device": [{"time_s": 2}], "kernel": [{"time_s": 1}]}
    plates = figure_of("jacobi", [app_job("jacobi.json", {"app": "jacobi2d", "job": {"mpi": "Some MPI", "ranks": 2, "cells": [64, 64]}, "runs": untold})])
    assert goals.judge(known["jacobi-kernel-halo"], plates).said == "not measured"  # nothing tells what the halo was
    plates = figure([(64, "kernel", 3), (64, "engine", 1), (64, "traditional", 2), (64, "sweeps-alone", 4)], "GFLOP/s")
    assert goals.judge(known["fig8-halo"], plates).values == [1.5] and goals.judge(known["fig8-sweep"], plates).said == "not measured"
    runs = {"traditional": [{"time_s": 4, "halo_share": 0.2}], "traditional-device": [{"time_s": 2}], "kernel": [{"time_s": 1}]}
    plates = figure_of("jacobi", [app_job("jacobi.json", {"app": "jacobi2d", "job": {"mpi": "Some MPI", "ranks": 2, "cells": [64, 64]}, "runs": runs})])
    assert goals.judge(known["jacobi-kernel-halo"], plates).values == [2]


def test_a_goal_may_ask_for_a_difference_to_a_sum_of_the_best_of_patterns():
    goal = goals.read_goals()["graph-allreduce-less-empty"]
    assert goal.value == "less graph-empty + allreduce:*"
    points = [(1024, "graph-empty", 2), (1024, "allreduce:packets", 1.5), (1024, "allreduce:buffers", 4), (1024, "graph-allreduce:packets", 3.75),
              (1024, "graph-allreduce:buffers", 6)]
    assert goals.judge(goal, figure(points)).values == [0.25] and goals.judge(goal, figure(points)).said == "reached"
    later = [(4096, "graph-empty", 2), (4096, "allreduce:two-shot", 2.5), (4096, "graph-allreduce:two-shot", 5.25)]
    assert goals.judge(goal, figure(points + later)).values == [0.25, 0.75]
    assert goals.judge(goal, figure(points + later)).said == "missed: 1 of 2 sizes reach it"
    assert goals.judge(goal, figure(points[1:])).said == goals.judge(goal, figure([points[0], *points[3:]])).said == "not measured"
    assert goals.judge(goal, figure(points[:2] + later[2:])).said == "not measured"  # nothing of the sum at that size


def test_a_page_tells_every_goal_of_the_figures_that_its_folder_has():
    told = 0
    for file in quoted.MEASUREMENTS.glob("*/README.md"):
        quotes, text = quoted.Quotes(file.parent), file.read_text(encoding="utf-8")
        judged = [goal for goal in goals.read_goals().values() if quotes.path(goal.figure).exists() and goals.is_about(goal, quotes.figure(goal.figure))]
        assert not judged or "<!--= judgements(" in text, f"{file}: {', '.join(goal.name for goal in judged)}"
        for goal in judged:
            assert f"| `{goal.figure}` | {goal.what} |" in text, f"{file}: {goal.name}"
        told += len(judged)
    assert told > 100


def test_a_goal_beside_the_yardstick_has_the_ratio_of_the_page(tmp_path):
    known = goals.read_goals()
    jobs = [(1, 1.8), (2, 3.6), (3, 4.5), (4, 7.2), (5, 4)]  # the quotient of the medians is 1.33
    quotes = figure_of_jobs(tmp_path, [{"traditional": (plain, "traditional"), "kernel": (own, "traditional")} for plain, own in jobs], "GB/s")
    judged = goals.judge(known["kernel-smallest"], quotes.figure("b"))
    assert judged.values == quotes.ratios("b", "kernel") == [1.8] and judged.said == "reached" and judged.in_jobs == [(0.8, 1.8)]
    assert goals.worst_cells(judged) == ("1.80", "0.80 to 1.80")
    quotes = figure_of_jobs(tmp_path, [{"traditional": (own, "traditional"), "regular-graph": (plain, "traditional")} for plain, own in jobs])
    judged = goals.judge(known["queue-small"], quotes.figure("b"))
    assert judged.values == quotes.over("b", "regular-graph", "traditional") == [1 / 1.8] and judged.in_jobs == [pytest.approx((1 / 1.8, 1 / 0.8))]
    rates = figure_of_jobs(tmp_path, [{"put-8x512": (rate, "put-8x512")} for rate in (210, 216, 220)], "GB/s", 1 << 20)
    assert goals.judge(known["bandwidth-1M"], rates.figure("b")).in_jobs == [(210, 220)]


def test_a_table_of_goals_takes_figures_that_are_called_otherwise(tmp_path):
    made = figure([(64, "queue-regular", 1), (64, "traditional", 2)])
    (tmp_path / "life-4-ranks.csv").write_text(to_csv(made))
    judgements = goals.functions(quoted.Quotes(tmp_path))["judgements"]
    assert len(judgements().splitlines()) == 2
    rows = judgements(life="life-4-ranks").splitlines()[2:]
    assert "| `life-4-ranks` | Life, regular sends in queues over hosts' marks, every board | ≥ 1 × | 2.00 | | reached |" in rows
    assert "| `life-4-ranks` | Life, ready sends in queues over hosts' marks, every board | ≥ 1 × | | | not measured |" in rows
    assert len(rows) == sum(goal.figure == "life" for goal in goals.read_goals().values())
    (tmp_path / "latency.csv").write_text(to_csv(figure([(8, "persistent", 1)])))
    assert len(judgements().splitlines()) == 2  # the goals are those of another benchmark whose figure is called so


def test_a_value_has_as_many_digits_as_its_verdict_takes_to_be_seen():
    goal = goals.read_goals()["engine-smallest"]  # at least 1
    shown = [goals.worst_shown(goals.Judged(goal, [value], 0, "")) for value in (0.9977, 0.99996, 1.0, 1.002, 0.98)]
    assert shown == ["0.998", "0.99996", "1.00", "1.00", "0.98"]
    most = goals.read_goals()["late-neighbours"]  # at most 1,000
    assert [goals.worst_shown(goals.Judged(most, [value], 0, "")) for value in (1000.2, 999.8)] == ["1,000.200", "1,000"]


def test_the_measuring_program_judges_a_folder(tmp_path):
    def judged(folder):
        ended = subprocess.run([sys.executable, "-B", SOURCES / "bench/gpu_measure.py", "--from", folder], capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout
    text = judged(MEASURED)
    assert re.search(r"host-driven, one block.*<= 2\.5 us +2\.53  missed: 3 of 8 sizes reach it", text), text
    (tmp_path / "table1.json").write_text('{"benchmark": "t", "unit": "us", "rows": [{"bytes": 8, "partitions": 1, "subject": "psend_init", '
                                          '"reference": "psend_init", "median": 4, "samples": [9, 4, 1]}]}')
    (tmp_path / "table1.csv").write_text(to_csv(read_figures([tmp_path / "table1.json"])[0]))
    assert re.search(r"Psend_init +<= 5 us +4\.00  reached", judged(tmp_path))
