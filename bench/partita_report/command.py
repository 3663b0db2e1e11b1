"""The command line of `partita report`."""
import argparse
import collections
import fnmatch
import pathlib
import sys

from partita_report import charts, compare, summary
from partita_report.failure import Failure
from partita_report.results import read_figures

DESCRIPTION = """Charts, summaries and comparisons of what `partita bench --json` wrote, and `partita run jacobi2d --json` or `life`.

  partita report latency.json --output charts
  partita report job-1.json job-2.json --csv latency.csv
  partita report --compare before.csv after.json --limit 3

Files are JSON, or the CSV that --csv wrote. The interval of a median has 95 %; from several jobs it spans those of the jobs."""


def parser():
    options = argparse.ArgumentParser("partita report", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("files", nargs="*", metavar="FILE", help="result files: a figure each, but for --csv, --jobs and --cases")
    options.add_argument("--subject", action="append", metavar="NAME", help="only this subject; may have * and ?; may be repeated")
    draws = options.add_argument_group("charts")
    draws.add_argument("-o", "--output", type=pathlib.Path, metavar="DIR", help="the folder for the charts, which is made")
    draws.add_argument("--ratio", action="store_true", help="times as good as the yardstick of the same job, instead of medians")
    draws.add_argument("--hardware", type=hardware_line, metavar="VALUE[:NAME]", help="a line for the hardware's limit, in the unit of the figure")
    draws.add_argument("--format", choices=("svg", "png", "pdf"), default="svg")
    draws.add_argument("--jobs", action="store_true", help="the files are jobs of one figure")
    keeps = options.add_argument_group("summary")
    keeps.add_argument("--csv", type=pathlib.Path, metavar="FILE", help="of all files as jobs of one figure: jobs, samples, median, interval, "
                       "least and largest job, ratio to the yardstick")
    keeps.add_argument("--cases", action="store_true", help="the files are cases of one figure, not jobs, each named by what its file's name does not share")
    judges = options.add_argument_group("comparison")
    judges.add_argument("--compare", nargs=2, metavar=("A", "B"), help="how many times as fast B is, point by point")
    judges.add_argument("--relative", action="store_true", help="compare the ratios to the yardstick of each run, not the values")
    judges.add_argument("--limit", type=float, metavar="PERCENT", help="exit status 1 where B lacks a point, or is slower by more than "
                        "this even at the better end of the interval")
    return options


def hardware_line(text):
    value, _, name = text.partition(":")
    try:
        return float(value), name or f"limit: {value}"
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{value}' is no number") from None


def check(options, refuse):
    """What belongs together; `refuse` ends the program with a sentence."""
    ways = [name for name, given in (("--output", options.output), ("--csv", options.csv), ("--compare", options.compare)) if given]
    if len(ways) != 1:
        refuse(f"one of --output, --csv and --compare is needed{', not ' + ' and '.join(ways) if ways else ''}")
    way = ways[0]
    if bool(options.files) == (way == "--compare"):
        refuse("--compare takes its two files and no others" if options.files else "result files are needed")
    belongs = {"--ratio": "--output", "--hardware": "--output", "--jobs": "--output", "--cases": "--csv", "--relative": "--compare",
               "--limit": "--compare"}
    for name, owner in belongs.items():
        if getattr(options, name[2:]) not in (None, False) and owner != way:
            refuse(f"{name} belongs to {owner}")
    if options.ratio and options.hardware:
        refuse("--hardware is a line in the unit of the figure, and the axis of --ratio has none; leave one of them out")


def chosen(figure, subjects):
    if not subjects:
        return figure
    points = [point for point in figure.points if any(fnmatch.fnmatchcase(point.subject, each) for each in subjects)]
    if not points:
        known = ", ".join(dict.fromkeys(point.subject for point in figure.points))
        raise Failure(f"{figure.name} has no subject {' or '.join(subjects)}; it has {known}")
    return summary.Figure(figure.name, figure.meta, points)


def draw_all(options):
    options.output.mkdir(parents=True, exist_ok=True)
    for whole in read_figures(options.files, as_jobs=options.jobs):
        figure = chosen(whole, options.subject)
        for chart in charts.charts_of(figure):
            file = options.output / f"{chart.name}{'-ratio' if options.ratio else ''}.{options.format}"
            charts.draw(figure, chart, file, options.ratio, options.hardware)
            print(file)
    return 0


def summarize(options):
    figure = chosen(read_figures(options.files, as_jobs=not options.cases, as_cases=options.cases)[0], options.subject)
    options.csv.write_text(summary.to_csv(figure), encoding="utf-8")
    print(options.csv)
    return 0


def compare_two(options):
    before, after = (chosen(figure, options.subject) for figure in read_figures(options.compare))
    verdicts = compare.judge(before, after, options.relative)
    if not verdicts:
        raise Failure(f"{options.compare[0]} and {options.compare[1]} have no point in common")
    print(compare.table(verdicts), end="")
    lacking = compare.missing(before, after)
    for subject, count in collections.Counter(point.subject for point in lacking).items():
        print(f"{options.compare[1]} lacks {count} of the points of {subject}")
    said = [verdict.said for verdict in verdicts]
    print(", ".join(f"{said.count(each)} {each}" for each in dict.fromkeys(said)))
    if options.limit is None:
        return 0
    slower = compare.beyond(verdicts, options.limit)
    print(f"{len(slower)} slower by more than {options.limit:g} % beyond the interval")
    return 1 if slower or lacking else 0


def main(arguments=None):
    """The exit status: 0; 1 where a file cannot be read or written, or --limit is passed; 2 for wrong options."""
    read = parser()
    options = read.parse_args(arguments)
    check(options, read.error)
    try:
        return compare_two(options) if options.compare else summarize(options) if options.csv else draw_all(options)
    except Failure as failure:
        print(f"partita report: {failure}", file=sys.stderr)
    except OSError as error:
        print(f"partita report: {error.filename}: {error.strerror}", file=sys.stderr)
    return 1
