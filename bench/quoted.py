"""What a page may quote of result files: the functions that the expressions of pages.py call. Each gives text, or values for
`span` and `each` to show.

FILE is a summary (docs/measurements/FILE.csv, or one in the page's own folder), or a list of them. `sizes` is "8:1K", both ends
included, "1K" alone, or "16M:"; `at` names partition counts, `case` a case."""
import csv
import functools
import math
import pathlib

from partita_report import summary
from partita_report.charts import short_bytes
from partita_report.failure import Failure
from partita_report.results import read

ROOT = pathlib.Path(__file__).resolve().parents[1]
MEASUREMENTS = ROOT / "docs/measurements"
VERSIONS = {"mpi": "", "kernel": "kernel", "driver": "driver", "cuda_runtime": "CUDA", "ucx": "UCX", "nccl": "NCCL", "nvshmem": "NVSHMEM"}
CLOCKS = {"cores": ("cpu_least_mhz", "cpu_most_mhz"), "GPU": ("gpu_sm_mhz",)}
ORIGIN = {"date": "date", "revision": "revision", "command": "command", "versions": "kernel", "clocks": "cpu_least_mhz",
          "binding": "binding"}  # a key that is there if the word is told
SUBJECTS_WITH_VERSIONS = ("nccl", "nvshmem")
NOT_TOLD = {"unknown", "not told"}  # values that tell nothing
JOBS_THAT_TELL = 5  # of contenders that are equal five jobs agree once in 16
STAGED_BY_HAND = "by-hand"
# What is improved in channel.table1, at which sizes, in the files of which figures, in a node and between nodes.
IMPROVED = (("latency", "", ("channel-fig11", "channel-fig12")), ("latency, to 4 KiB", ":4K", ("channel-fig11", "channel-fig12")),
            ("bandwidth", "", ("channel-fig13", "channel-fig14")))
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@functools.lru_cache(maxsize=None)
def load(path):
    return read(path)


@functools.lru_cache(maxsize=None)
def lines(path):
    """The lines of a CSV file that is no summary, as dictionaries."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith(summary.META)))


def in_bytes(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def takes(sizes, at, case):
    """Whether a point lies where the reader asked."""
    low, colon, high = (sizes or ":").partition(":")
    least = in_bytes(low) if low else 0
    most = in_bytes(high) if high else None if colon else least
    counts = None if at is None else {at} if isinstance(at, int) else set(at)
    return lambda point: (point.size >= least and (most is None or point.size <= most)
                          and (counts is None or point.partitions in counts) and (case is None or point.case == case))


def number(value):
    """Three digits, or as many as stand before the point."""
    return f"{value:.2f}" if abs(value) < 9.995 else f"{value:.1f}" if abs(value) < 99.95 else f"{value:,.0f}"


def span(values, digits=None, between=" to "):
    """From the least to the largest, or one of them where they read alike."""
    shown = [number(value) if digits is None else f"{value:,.{digits}f}" for value in (min(values), max(values))]
    return between.join(dict.fromkeys(shown))


def each(values, digits=None, between=" / "):
    return between.join(number(value) if digits is None else f"{value:,.{digits}f}" for value in values)


def worst(values, digits=None):
    return each([min(values)], digits)


def best(values, digits=None):
    return each([max(values)], digits)


def percent(values):
    """Ratios as what they are above 1, in percent."""
    return [100 * (value - 1) for value in values]


class Quotes:
    """The functions for the pages of one folder."""

    def __init__(self, folder):
        self.folder = folder

    def path(self, file):
        return (MEASUREMENTS if "/" in file else self.folder) / f"{file}.csv"

    def figure(self, file):
        return load(self.path(file))

    def files(self, file):
        return [self.figure(one) for one in ([file] if isinstance(file, str) else file)]

    def points(self, file, subject, sizes="", at=None, case=None):
        """By place, ascending in size."""
        chosen = takes(sizes, at, case)
        found = [point for figure in self.files(file) for point in figure.points if point.subject == subject and chosen(point)]
        if not found:
            raise Failure(f"{file} has no point of {subject} at {sizes or 'any size'}, {at or 'any'} partitions, case {case}")
        return sorted(found, key=lambda point: (point.size, point.partitions))

    def medians(self, file, subject, sizes="", at=None, case=None, scale=1):
        return [scale * point.median for point in self.points(file, subject, sizes, at, case)]

    def over(self, file, subject, reference, sizes="", at=None, case=None):
        """What share of the time, of the rate of `reference` at the same place of the same file: of times the reciprocal of times()."""
        larger = self.files(file)[0].larger_is_better
        return [value if larger else 1 / value for value in self.times(file, subject, reference, sizes, at, case)]

    def times(self, file, subject, reference, sizes="", at=None, case=None):
        """How many times as good as `reference`, by times_as_good(): above 1 is better, of times and of rates."""
        return [times_as_good(*pair) for pair in self.pairs(file, subject, reference, sizes, at, case)]

    def crossing(self, file, subject, reference, sizes="", at=None, case=None):
        """From how many KiB on `subject` stays better than `reference`, as a list of one: between two sizes by the straight line through
        the logarithms of times(). Empty where it is not worse first and better then."""
        found = [(pair[0].size, times_as_good(*pair)) for pair in self.pairs(file, subject, reference, sizes, at, case)]
        worse = [number for number, (_, times) in enumerate(found) if times <= 1]
        if not worse or worse[-1] + 1 == len(found):
            return []
        (size, below), (next_size, above) = found[worse[-1]:worse[-1] + 2]
        share = -math.log(below) / (math.log(above) - math.log(below))
        return [size * (next_size / size) ** share / 1024]

    def bounds_of_jobs(self, file, subject, reference, sizes="", at=None, case=None):
        """Between which the times() of single jobs lie, at each point, by bounds()."""
        return [end for pair in self.pairs(file, subject, reference, sizes, at, case) for end in bounds(*pair)]

    def pairs(self, file, subject, reference, sizes, at, case):
        """What times_as_good() takes, by place, ascending in size."""
        chosen, found = takes(sizes, at, case), []
        for figure in self.files(file):
            theirs = {point.place: point for point in figure.points if point.subject == reference}
            found += [(point, theirs[point.place], figure.larger_is_better) for point in figure.points
                      if point.subject == subject and chosen(point) and point.place in theirs]
        if not found:
            raise Failure(f"{file} has no place with both {subject} and {reference} at {sizes or 'any size'}")
        return sorted(found, key=lambda pair: (pair[0].size, pair[0].partitions))

    def ratios(self, file, subject, sizes="", at=None, case=None):
        """To the row's own yardstick, within each job."""
        return [point.ratio for point in self.points(file, subject, sizes, at, case)]

    def ratios_of_jobs(self, file, subject, sizes="", at=None, case=None):
        """The least and the largest job's ratio to the row's own yardstick, of each point."""
        points = self.points(file, subject, sizes, at, case)
        if any(point.ratio_min is None for point in points):
            raise Failure(f"{file} has no ratio of {subject} to a yardstick")
        return [end for point in points for end in (point.ratio_min, point.ratio_max)]

    def medians_of_jobs(self, file, subject, sizes="", at=None, case=None):
        """The least and the largest job's median, of each point."""
        return [end for point in self.points(file, subject, sizes, at, case) for end in (point.min, point.max)]

    def over_cases(self, file, subject, case, other, sizes=""):
        """The medians in one case over those in another one, by size."""
        known = {point.size: point.median for point in self.points(file, subject, sizes, None, other)}
        return [point.median / known[point.size] for point in self.points(file, subject, sizes, None, case)]

    def us_per_transfer(self, file, subject, few, many, sizes=""):
        """What a transfer more costs an epoch: `few` and `many` are cases named by their number of transfers; the file has GB/s."""
        times = [{point.size: point.size / point.median / 1e3 for point in self.points(file, subject, sizes, None, str(count))}
                 for count in (few, many)]
        return [(time - times[0][size]) / (many - few) for size, time in times[1].items()]

    def balance(self, *rows):
        """A table of wins and losses. A row is (words, file, subject, references, partition count or None): how many times as good
        as each reference, how many sizes are better, alike and worse by its bounds(), and which are worse."""
        written = []
        for words, file, subject, references, at in rows:
            for reference in references:
                found = self.compared(file, subject, reference, at)
                better = [place for place, known in found if known[1] > 1]
                worse = [place for place, known in found if known[2] < 1]
                written.append([words, f"`{subject}`", f"`{reference}`", span([known[0] for _, known in found]),
                                f"{len(better)} / {len(found) - len(better) - len(worse)} / {len(worse)}",
                                runs_of([place for place, _ in found], worse) or "-"])
        return markdown(["figure", "subject", "against", "times as good", "better / alike / worse, sizes", "worse at"], written)

    def compared(self, file, subject, reference, at=None):
        """[(place, (times_as_good(), *bounds()))] wherever there are bounds."""
        pairs = self.pairs(file, subject, reference, "", at, None)
        return [(pair[0].place, (times_as_good(*pair), *ends)) for pair in pairs if (ends := bounds(*pair))]

    # ---- Tables -------------------------------------------------------------------------------------------------------

    def table(self, file):
        """A line for each place, a column for each subject: the median, in parentheses the ratio to its yardstick."""
        figure = self.figure(file)
        subjects = list(dict.fromkeys(point.subject for point in figure.points))
        places = dict.fromkeys(sorted({point.place for point in figure.points}, key=lambda place: (place[0], place[2], place[1])))
        found = {(point.place, point.subject): point for point in figure.points}
        counted = any(place[2] for place in places)
        heading = [figure.meta.get("size", "bytes"), *(["partitions"] if counted else []), *subjects]
        rows = [[short_bytes(place[1]), *([str(place[2])] if counted else []), *(cell(found.get((place, subject))) for subject in subjects)]
                for place in places]
        return markdown(heading, rows, right=True)

    def grid(self, file, columns, sizes="", digits=2, first="bytes", label=short_bytes):
        """A line for each size; `columns` is {heading: (subject, reference or None, case)}: medians or how many times as good."""
        tables = {}
        for heading, (subject, reference, case) in columns.items():
            if reference:
                tables[heading] = {pair[0].size: times_as_good(*pair) for pair in self.pairs(file, subject, reference, sizes, None, case)}
            else:
                tables[heading] = {point.size: point.median for point in self.points(file, subject, sizes, None, case)}
        all_sizes = sorted({size for column in tables.values() for size in column})
        return markdown([first, *columns], [[label(size), *(f"{column[size]:.{digits}f}" if size in column else "" for column in tables.values())]
                                            for size in all_sizes], right=True)

    def gflops(self, file, subject, sizes="", at=None, case=None):
        """What the medians of a figure of fft, of cubes there and back, are as rates: 5 N log2 N operations for each of the two
        transforms of N cells."""
        return [rate_of_fft(point) for point in self.points(file, subject, sizes, at, case)]

    def fft_rates(self, file):
        """These, a line for each size, a column for each exchange."""
        found = {(point.size, point.subject): f"{rate_of_fft(point):.4g}" for point in self.figure(file).points if ":" not in point.subject}
        exchanges = list(dict.fromkeys(subject for _, subject in found))
        return markdown(["cells a side", *exchanges], [[str(size), *(found.get((size, exchange), "") for exchange in exchanges)]
                                                       for size in sorted({size for size, _ in found})], right=True)

    def channel_table1(self, subjects=("device", "mpi-device"), between_nodes=""):
        """channel.table1 (gpu-aware-channels-charm-ampi-charm4py): how many times as good each of `subjects` is as staging by hand, from the
        least to the largest over sizes. The figures between nodes lie in the folder `between_nodes` of measurements, without one in the
        page's. What has no file, or not the rows, is not measured; where that holds of all there is no table."""
        if between_nodes and not (MEASUREMENTS / between_nodes).is_dir():
            raise Failure(f"there is no folder {between_nodes} of measurements, where figures between nodes are to lie")
        folders = ("", f"{between_nodes}/" if between_nodes else "")
        shown = [[words, *(self.improvement(folder + file, subject, sizes) for file, folder in zip(files, folders) for subject in subjects)]
                 for words, sizes, files in IMPROVED]
        if not any(any(cells) for _, *cells in shown):
            raise Failure(f"{self.folder} has no figure of channel.fig11 to .fig14 with rows of {' or '.join(subjects)} and {STAGED_BY_HAND}")
        heading = ["improvement", *(f"{where}, `{subject}`" for where in ("in a node", "between nodes") for subject in subjects)]
        return markdown(heading, [[words, *(cell or "not measured" for cell in cells)] for words, *cells in shown])

    def improvement(self, file, subject, sizes):
        """Empty where it was not measured."""
        chosen = takes(sizes, None, None)
        points = self.figure(file).points if self.path(file).exists() else []
        if not {subject, STAGED_BY_HAND} <= {point.subject for point in points if chosen(point)}:
            return ""
        return f"{span(self.times(file, subject, STAGED_BY_HAND, sizes))} ×"

    def instructions(self, file):
        """Per link and number of partitions, of Partita's own functions and of its links'."""
        found = {}
        for row in lines(self.path(file)):
            found.setdefault((row["link"], row["partitions"]), {}).setdefault(row["part"], []).append(float(row["instructions"]))
        return markdown(["link", "partitions", "Partita's own", "in its links"],
                        [[*counted, *(f"{sum(parts[part]):.0f}" for part in ("own", "links"))] for counted, parts in found.items()], right=True)

    def listing(self, file):
        """A CSV file that is no summary, as a table."""
        rows = lines(self.path(file))
        return markdown(list(rows[0]), [list(row.values()) for row in rows])

    def counted(self, file, column=None, **wanted):
        """The sum of the column, the last one if none is named, over the rows that have what is wanted; of a CSV file that is no summary."""
        rows = [row for row in lines(self.path(file)) if all(row[key] == value for key, value in wanted.items())]
        if not rows:
            raise Failure(f"{file} has no row with {wanted}")
        return sum(float(row[column or list(row)[-1]]) for row in rows)

    def origins(self):
        """From how many jobs, which sources and which day each file of the folder is, on which versions and at which clocks, and what
        it does not tell."""
        named = {}
        for path in sorted(self.folder.glob("*.csv")):
            meta = summary.meta_of(path.read_text(encoding="utf-8"))
            points = load(path).points if meta.keys() >= {"benchmark", "unit"} else []
            jobs = span([point.jobs for point in points], 0) if points else ""
            named.setdefault((jobs, *origin_shown(meta, {point.subject for point in points})), []).append(f"`{path.stem}`")
        return markdown(["files", "jobs", "revision", "date", "versions and clocks", "not told"],
                        [[", ".join(names), *shown] for shown, names in named.items()])


def rate_of_fft(point):
    cells = point.size ** 3
    return 2 * 5 * cells * math.log2(cells) / point.median / 1e6  # ms


def times_as_good(own, other, larger_is_better):
    """The median over the jobs of the ratio within a job, above 1 where `own` is better. Beside another row than the yardstick a file keeps
    none: there the quotient of the two rows' ratios to it, or of their medians, whichever the jobs bound more narrowly. None where a job's
    median is not positive."""
    found = min(bounded(own, other, larger_is_better), key=lambda known: known[2] / known[1], default=None)
    return found and found[0]


def bounds(own, other, larger_is_better):
    """Between which times_as_good() lies in every single job; None where a job's median is not positive. Fewer jobs than
    tell by agreeing have the ends of the interval."""
    if min(own.jobs, other.jobs) < JOBS_THAT_TELL:
        known = summary.goodness(*((each.median, each.low, each.high) for each in (own, other)), larger_is_better)
        return known and known[1:]
    found = bounded(own, other, larger_is_better)
    return (max(least for _, least, _ in found), min(most for _, _, most in found)) if found else None


def bounded(own, other, larger_is_better):
    """[(times as good, the least and the largest that a job may have found)]. A file does not keep which job found what, but bounds it by the
    ratios to the yardstick, which are within jobs, and by the jobs' medians; both bounds hold. None of them where a job's median is not
    positive."""
    if min(own.min, other.min) <= 0:
        return []
    medians = [(each.median, each.min, each.max) for each in (own, other)]
    ratios = [ratio_to(own.reference or own.subject, each) for each in (own, other)]
    return [divided(*(medians if larger_is_better else reversed(medians))), *([] if None in ratios else [divided(*ratios)])]


def ratio_to(yardstick, point):
    """(ratio, the least and the largest of a job) of the point; None where it has another yardstick."""
    if point.subject == yardstick:
        return 1, 1, 1
    return (point.ratio, point.ratio_min, point.ratio_max) if point.reference == yardstick else None


def divided(above, below):
    """The same of a quotient."""
    return above[0] / below[0], above[1] / below[2], above[2] / below[1]


def origin_shown(meta, subjects=()):
    """The command and the places of the ranks stand in the file alone. A library that is a subject must have a version."""
    values = {key: value.split(summary.OR) for key, value in meta.items()}  # one a job, where jobs differ
    untold = {key for key, of_jobs in values.items() if NOT_TOLD.intersection(of_jobs)}
    told = {key: of_jobs for key in values if (of_jobs := [value for value in values[key] if value not in NOT_TOLD])}
    days = dict.fromkeys(date[:10] for date in told.get("date", []))
    ran_on = [f"{name} {' and '.join(told[key])}".strip() for key, name in VERSIONS.items() if key in told]
    for processor, keys in CLOCKS.items():
        rates = [float(rate) for key in keys for rate in told.get(key, [])]
        ran_on += [f"{processor} at {span(rates, 0)} MHz"] if rates else []
    missing = [name for name, key in ORIGIN.items() if key not in told or key in untold]
    due = {key for key in SUBJECTS_WITH_VERSIONS if "kernel" in told and any(subject.startswith(key) for subject in subjects)} - told.keys()
    missing += [name for key, name in VERSIONS.items() if key in untold | due and key not in ORIGIN.values()]
    return " and ".join(told.get("revision", [])), " and ".join(days), ", ".join(ran_on), ", ".join(missing)


def runs_of(places, chosen):
    """The sizes of the chosen places, neighbours among all places as "8 to 4K"."""
    runs = []
    for number, place in enumerate(places):
        if place in chosen and number and places[number - 1] in chosen:
            runs[-1][1:] = [place]
        elif place in chosen:
            runs.append([place])
    return ", ".join(" to ".join(short_bytes(size) for _, size, _ in run) for run in runs)


def cell(point):
    if point is None:
        return ""
    return f"{point.median:.4g}" + ("" if point.ratio is None else f" ({point.ratio:.2f})")


def markdown(heading, rows, right=False):
    first, *written = [f"| {' | '.join(row)} |".replace("|  |", "| |").replace("|  |", "| |") for row in [heading, *rows]]
    return "\n".join([first, "|" + ("---:|" if right else "---|") * len(heading), *written])
