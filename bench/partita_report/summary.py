"""What is kept of the samples of one or several jobs: a Figure, and its form as a small CSV file."""
import csv
import dataclasses
import json
import statistics

from partita_report import intervals
from partita_report.failure import Failure

META = "# "  # begins a line of what holds for all rows: "# key: value"
OR = " | "  # between values of such a line, of jobs that differ


@dataclasses.dataclass
class Point:
    """One subject in one case. `median` is that of the jobs' medians, `min` and `max` the least and largest of them; `low` and
    `high` are the ends of the interval (intervals.py). The ratio says how many times as good as `reference` in the same job it
    was: above 1 is better, whether small or large values are good; None where there is none. `ranks` is where points were measured on
    different numbers of them."""
    subject: str
    case: str = ""
    size: int = 0
    partitions: int = 0
    link: str = ""
    gpu_copy: str = ""
    transport_partitions: int = 0
    batch: int = 1
    jobs: int = 1
    samples: int = 0
    median: float = 0.0
    low: float = 0.0
    high: float = 0.0
    min: float = 0.0
    max: float = 0.0
    spread_percent: float = 0.0
    reference: str = ""
    ratio: float = None
    ratio_low: float = None
    ratio_high: float = None
    ratio_min: float = None
    ratio_max: float = None
    halo_share: float = None
    ranks: int = 0

    @property
    def place(self):
        return self.case, self.size, self.partitions


@dataclasses.dataclass
class Figure:
    """`meta` holds at least "benchmark" and "unit"; "size" says what sizes are, bytes if nothing else."""
    name: str
    meta: dict
    points: list

    @property
    def unit(self):
        return self.meta["unit"]

    @property
    def larger_is_better(self):
        return not is_time(self.unit)


def is_time(unit):
    return unit in ("s", "ms", "us", "ns")


def goodness(own, other, larger_is_better):
    """How many times as good `own` is; both are (value, low, high). None where one is not positive."""
    return intervals.quotient(own, other) if larger_is_better else intervals.quotient(other, own)


# ---- From jobs --------------------------------------------------------------------------------------------------------


def figure_of(name, jobs):
    """The Figure of jobs (results.py) that measured the same. Rows of one case and subject in several jobs become one Point."""
    meta = joined([job.meta for job in jobs])
    for job in jobs[1:]:
        for key in ("benchmark", "unit", "decomposition", "slices"):
            if job.meta.get(key) != jobs[0].meta.get(key):
                raise Failure(f"{job.source} has the {key} '{job.meta.get(key, '')}', {jobs[0].source} '{jobs[0].meta.get(key, '')}'; jobs of "
                              "one figure have the same")
    found = {}
    for job in jobs:
        own = {(*row.place, row.subject): row for row in job.rows}
        for key, row in own.items():
            found.setdefault(key, []).append((row, own.get((*row.place, row.reference))))
    larger = not is_time(meta["unit"])
    return Figure(name, meta, [point_of(rows, larger) for rows in found.values()])


def joined(metas):
    """What all of them say, and where they differ each value once."""
    values = {}
    for meta in metas:
        for key, value in meta.items():
            values.setdefault(key, {}).update(dict.fromkeys(str(value).split(OR)))
    return {key: OR.join(found) for key, found in values.items()}


def point_of(rows, larger_is_better):
    """The point of `rows`: (row, the row it is compared with or None), one pair a job."""
    first = rows[0][0]
    medians = [row.median for row, _ in rows]
    ends = [row.interval for row, _ in rows]
    low, high = intervals.over_jobs(medians, ends)
    point = Point(first.subject, first.case, first.size, first.partitions, first.link, first.gpu_copy, first.transport_partitions,
                  first.batch, len(rows), sum(len(row.samples) for row, _ in rows), statistics.median(medians), low, high,
                  min(medians), max(medians), statistics.median(row.spread_percent for row, _ in rows),
                  halo_share=first.halo_share, ranks=first.ranks)
    ratios = [goodness(row.known, other.known, larger_is_better) for row, other in rows if other is not None]
    if first.reference != first.subject and ratios and None not in ratios:
        values = [ratio[0] for ratio in ratios]
        point.reference = first.reference
        point.ratio, point.ratio_min, point.ratio_max = statistics.median(values), min(values), max(values)
        point.ratio_low, point.ratio_high = intervals.over_jobs(values, [ratio[1:] for ratio in ratios])
    return point


# ---- CSV --------------------------------------------------------------------------------------------------------------


FIELDS = dataclasses.fields(Point)
ALWAYS = ("size", "partitions", "subject", "jobs", "samples", "median", "low", "high")
OVER_JOBS = {"min": "median", "max": "median", "ratio_min": "ratio", "ratio_max": "ratio"}  # and what they are of a single job


def to_csv(figure):
    """Lines of what holds for all rows, then a table; columns that no row needs are left out."""
    lines = [f"{META}{key}: {value}\n" for key, value in figure.meta.items()]
    one_job = all(point.jobs == 1 for point in figure.points)
    columns = [field for field in FIELDS if field.name in ALWAYS or not (one_job and field.name in OVER_JOBS)
               and any(getattr(point, field.name) != field.default for point in figure.points)]
    rows = [[column.name for column in columns],
            *([shown(getattr(point, column.name)) for column in columns] for point in figure.points)]
    return "".join(lines) + "".join(",".join(row) + "\n" for row in map(quoted, rows))


def shown(value):
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)


def quoted(row):
    return [f'"{cell}"' if "," in cell else cell for cell in row]


def from_csv(name, text, source):
    lines = text.splitlines()
    meta = meta_of(text)
    table = csv.DictReader(line for line in lines if not line.startswith(META))
    missing = {"benchmark", "unit"} - meta.keys() or set(ALWAYS) - set(table.fieldnames or ())
    if missing:
        raise Failure(f"{source} is no CSV of partita report: it lacks {', '.join(sorted(missing))}")
    points = []
    for number, row in enumerate(table, 1):
        try:
            values = {field.name: field.type(row[field.name]) for field in FIELDS if row.get(field.name)}
            alone = {name: values[value] for name, value in OVER_JOBS.items() if value in values}
            points.append(Point(**{**alone, **values}))
        except (TypeError, ValueError) as error:
            raise Failure(f"{source}, row {number} below the heading: {error}") from None
    return Figure(name, meta, points)


def meta_of(text):
    """What the lines of a CSV file say that hold for all its rows."""
    return dict(line[len(META):].split(": ", 1) for line in text.splitlines() if line.startswith(META) and ": " in line)


def meta_text(value):
    """A value of JSON as it stands in a line of a CSV file."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
