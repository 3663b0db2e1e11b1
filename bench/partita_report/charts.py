"""Charts over message sizes: a line through the medians, a band for their interval, one chart for each partition count."""
import collections
import itertools

from partita_report.failure import Failure

# The numbers of colours, dashes and markers have no common divisor, so that many series differ in at least one of them; the colours
# are those of Okabe and Ito, which most eyes tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v")

HOW_TO_GET = "pip install matplotlib"

Chart = collections.namedtuple("Chart", "name title x_title x_is_bytes points")


def pyplot():
    try:
        import matplotlib
    except ImportError:
        raise Failure(f"charts need matplotlib, which this python3 does not have; install it with: {HOW_TO_GET}") from None
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "partita", "svg.fonttype": "none", "font.size": 9, "axes.grid": True,
                                "grid.alpha": 0.3, "figure.constrained_layout.use": True})
    from matplotlib import pyplot as found
    return found


def short_bytes(size):
    """8, 64K, 4M: in powers of 1024 where they are whole ones."""
    for unit in ("", "K", "M", "G"):
        if size < 1024 or size % 1024:
            return f"{size:g}{unit}"
        size //= 1024
    return f"{size:g}T"


def charts_of(figure):
    """What to draw: over the sizes, a chart for each partition count, or a single one where the size fixes the count; over the
    partition counts where there is one size."""
    cases = collections.defaultdict(list)
    for point in figure.points:
        cases[point.case].append(point)
    return [chart for case, points in cases.items() for chart in charts_of_case(figure, case, points)]


def charts_of_case(figure, case, points):
    name = f"{figure.name}-{case}" if case else figure.name
    what = f"{figure.meta['benchmark']}, {case}" if case else figure.meta["benchmark"]
    sizes = {point.size for point in points}
    counts = sorted({point.partitions for point in points})
    size_title = figure.meta.get("size", "bytes")
    if len(sizes) == 1 and len(counts) > 1:
        title = f"{what}, {short_bytes(sizes.pop())} {size_title}"
        return [Chart(name, title, "partitions", False, points)]
    by_size = collections.defaultdict(set)
    for point in points:
        by_size[point.size].add(point.partitions)
    if len(counts) == 1 or all(len(found) == 1 for found in by_size.values()):
        said = "" if counts == [0] else f", {counts[0]} {'partition' if counts == [1] else 'partitions'}" if len(counts) == 1 else \
            f", {counts[0]} to {counts[-1]} partitions by size"
        ending = "" if len(counts) > 1 or counts == [0] else f"-{counts[0]}-partitions"
        return [Chart(name + ending, what + said, size_title, size_title == "bytes", points)]
    return [Chart(f"{name}-{count}-partitions", f"{what}, {count} partitions", size_title, size_title == "bytes",
                  [point for point in points if point.partitions == count]) for count in counts]


def series_of(chart, as_ratio):
    """{subject: [(x, value, low, high)]}, ascending in x."""
    found = collections.defaultdict(list)
    for point in chart.points:
        x = point.size if chart.x_title != "partitions" else point.partitions
        known = (point.ratio, point.ratio_low, point.ratio_high) if as_ratio else (point.median, point.low, point.high)
        if None not in known:
            found[point.subject].append((x, *known))
    return {subject: sorted(values) for subject, values in found.items()}


def styles():
    """The style of one series after the other; they come again only after all combinations."""
    for colour, dash, marker, _ in zip(itertools.cycle(COLOURS), itertools.cycle(DASHES), itertools.cycle(MARKERS),
                                       range(len(COLOURS) * len(DASHES) * len(MARKERS))):
        yield {"color": colour, "linestyle": dash, "marker": marker, "markersize": 4, "linewidth": 1.4}


def draw(figure, chart, file, as_ratio, hardware):
    """Writes the chart to `file`, whose ending says how. `hardware` is None or, where no ratios are drawn, (value, name) of a line for a limit
    in the figure's unit."""
    plot = pyplot()
    series = series_of(chart, as_ratio)
    if not series:
        raise Failure(f"{figure.name} has nothing to draw: none of the subjects has a ratio to a yardstick")
    drawn, axes = plot.subplots(figsize=(8, 4.8))
    for (subject, values), style in zip(series.items(), styles()):
        x, middle, low, high = zip(*values)
        axes.plot(x, middle, label=subject, **style)
        axes.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)
    shape(plot, figure, chart, axes, series, as_ratio)
    if hardware:
        axes.axhline(hardware[0], color="black", linewidth=1, linestyle=(0, (1, 1)), label=hardware[1])
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=8)
    drawn.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None, dpi=120)
    plot.close(drawn)


def shape(plot, figure, chart, axes, series, as_ratio):
    xs = sorted({x for values in series.values() for x, *_ in values})
    axes.set_xscale("log", base=2)
    every = -(-len(xs) // 12)
    axes.set_xticks(xs[::every], [short_bytes(x) if chart.x_is_bytes else f"{x:g}" for x in xs[::every]])
    axes.minorticks_off()
    axes.set_xlabel(chart.x_title)
    if as_ratio:
        reference = ", ".join(sorted({point.reference for point in chart.points if point.reference}))
        axes.axhline(1, color="black", linewidth=1)
        axes.set_ylabel(f"times as good as {reference} (above 1: better)")
    else:
        axes.set_ylabel(f"median in {figure.unit}")
        values = [value for points in series.values() for _, *known in points for value in known]
        if min(values) > 0:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(plot.FuncFormatter(lambda value, _: f"{value:g}"))
    machine = ", ".join(figure.meta[key] for key in ("mpi", "gpus", "cpu") if key in figure.meta)
    jobs = max(point.jobs for point in chart.points)
    axes.set_title(f"{chart.title}\n{machine}; {'1 job' if jobs == 1 else f'{jobs} jobs'}, band: 95 % interval of the median",
                   fontsize=9, loc="left")
