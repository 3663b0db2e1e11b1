"""Judges result files by what is to be reached (goals.csv), so that no page says "reached" by itself.

A goal names a figure, its benchmark where figures of several are called so, subjects (A|B, or a pattern: the best at each size counts), the
mechanism `by` which they must have gone, sizes, a number of partitions where not all count, and a value: "median", "over X", the share of
X's time or rate, "times X", how many times as good as X, both of which are ratios within jobs as far as the file keeps these
(quoted.times_as_good), "highest X", the better end of the interval of "times X", where X is the row's yardstick, "less X", the difference
of the medians, where X may be a sum "Y + Z" and each of its terms a pattern, of which the best at the size counts, or "each beyond N", what
each partition takes that comes on top of N of them, of sizes where both numbers of partitions are as many transport partitions. It is
reached where every one of its sizes reaches it."""
import collections
import csv
import fnmatch
import pathlib

from quoted import bounds, markdown, number, span, takes, times_as_good

FILE = pathlib.Path(__file__).with_name("goals.csv")
Goal = collections.namedtuple("Goal", "name figure subject by sizes value reach unit what partitions benchmark")
Judged = collections.namedtuple("Judged", "goal values reached said in_jobs", defaults=((),))
Best = collections.namedtuple("Best", "value point other", defaults=(None, None))  # of what is measured; what it is compared with
NOT_MEASURED = "not measured"
EACH_BEYOND = "each beyond "
NANOSECONDS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def read_goals():
    with open(FILE, encoding="utf-8", newline="") as file:
        goals = [Goal(**row) for row in csv.DictReader(file, restval="")]
    assert len({goal.name for goal in goals}) == len(goals), f"{FILE}: a name stands twice"
    return {goal.name: goal for goal in goals}


def reaches(goal, value):
    bound = float(goal.reach[2:])
    return value >= bound if goal.reach.startswith(">=") else value <= bound


def places_of(goal, figure):
    """The places of the figure that the goal is about."""
    own = points_of(goal, figure.points)
    places = sorted({point.place for point in own}, key=lambda place: (place[1], place[2]))
    if goal.partitions:
        own = [point for point in own if point.partitions == int(goal.partitions)]
        places = [place for place in places if place[2] == int(goal.partitions)]
    if goal.sizes == "smallest":
        return places[:1]
    if goal.sizes == "largest":
        return places[-1:]
    if goal.sizes == "not smallest":
        return places[1:]
    if goal.sizes == "most partitions":
        return sorted(places, key=lambda place: place[2])[-1:]
    if goal.sizes.startswith("halo "):
        _, sign, bound = goal.sizes.split()
        shares = {place: halo_share(figure, place) for place in places}
        return [place for place, share in shares.items() if share is not None and (share >= float(bound)) == (sign == ">=")]
    chosen = takes(goal.sizes, None, None)
    if goal.value.startswith(EACH_BEYOND):
        own = [point for point in own if adds_marks_alone(goal, figure, point)]
    return list(dict.fromkeys(point.place for point in sorted(own, key=lambda point: point.size) if chosen(point)))


def points_of(goal, points):
    return [point for point in points if any(fnmatch.fnmatchcase(point.subject, each) for each in goal.subject.split("|"))]


def halo_share(figure, place):
    """What a step of mode traditional takes beyond computing, as a part of it: as its row tells, or from the row that only computes.
    None where neither is there."""
    here = {point.subject: point for point in figure.points if point.place == place}
    if "traditional" not in here:
        return None
    told = here["traditional"].halo_share
    if told is None and "sweeps-alone" in here:
        return 1 - here["traditional"].median / here["sweeps-alone"].median
    return told


def best_at(goal, figure, place):
    """The Best of the goal's subjects at `place`; None where one did not go as meant, or nothing is there to compare with."""
    here = {point.subject: point for point in figure.points if point.place == place}
    own = points_of(goal, here.values())
    if goal.by and any(point.gpu_copy != goal.by for point in own):
        return None
    if goal.value.startswith(EACH_BEYOND):
        value = each_beyond(goal, figure, own)
        return None if value is None else Best(value)
    way, _, other = goal.value.partition(" ")
    if way == "less":
        known = sum_of(other, here, figure.larger_is_better)
        values = [None if known is None else point.median - known for point in own]
    elif other and other not in here:
        return None
    else:
        values = [valued(way, point, here.get(other), figure.larger_is_better) for point in own]
    if None in values:
        return None
    best = max(values) if goal.reach.startswith(">=") else min(values)
    return Best(best, own[values.index(best)], here.get(other))


def sum_of(others, here, larger_is_better):
    """The sum of the medians of "Y + Z", of a pattern that of the best; None where the place has nothing of one."""
    found = [[point.median for point in here.values() if fnmatch.fnmatchcase(point.subject, each)] for each in others.split(" + ")]
    return sum((max if larger_is_better else min)(medians) for medians in found) if all(found) else None


def each_beyond(goal, figure, own):
    """In the goal's unit of time; None where the figure has not both numbers of partitions."""
    scale = NANOSECONDS[figure.unit] / NANOSECONDS[goal.unit]
    found = [(point, of_fewer(goal, figure, point)) for point in own]
    return min((scale * (point.median - fewer.median) / (point.partitions - fewer.partitions) for point, fewer in found if fewer), default=None)


def adds_marks_alone(goal, figure, point):
    """Whether the partitions on top bring no flags; so told, too, where there is nothing to compare with."""
    fewer = of_fewer(goal, figure, point)
    return not fewer or fewer.transport_partitions == point.transport_partitions


def of_fewer(goal, figure, point):
    """The point of the number of partitions on top of which those of `point` come; None where it was not measured."""
    place = (point.case, point.size, int(goal.value.removeprefix(EACH_BEYOND)))
    return next((other for other in figure.points if (other.place, other.subject) == (place, point.subject)), None)


def valued(way, point, other, larger_is_better):
    """None where there is no ratio."""
    if way == "median":
        return point.median
    if way == "highest":
        return point.ratio_high if point.reference == other.subject else None
    found = times_as_good(point, other, larger_is_better)
    return 1 / found if found and way == "over" and not larger_is_better else found


def in_jobs(goal, figure, best):
    """Between which a Best lies in single jobs; None where the file does not tell, or there is only one."""
    way = goal.value.partition(" ")[0]
    if way not in ("median", "over", "times") or best.point.jobs < 2:
        return None
    if way == "median":
        return best.point.min, best.point.max
    ends = bounds(best.point, best.other, figure.larger_is_better)
    return tuple(1 / end for end in reversed(ends)) if ends and way == "over" and not figure.larger_is_better else ends


def is_about(goal, figure):
    return goal.benchmark in ("", figure.meta["benchmark"])


def judge(goal, figure):
    """`figure` is None where there is no file."""
    found = [best_at(goal, figure, place) for place in places_of(goal, figure)] if figure else []
    if not found or None in found:
        return Judged(goal, [], 0, NOT_MEASURED)
    values = [best.value for best in found]
    reached = sum(reaches(goal, value) for value in values)
    said = "reached" if reached == len(values) else "missed" if not reached else f"missed: {reached} of {len(values)} sizes reach it"
    return Judged(goal, values, reached, said, [in_jobs(goal, figure, best) for best in found])


def functions(quotes):
    """For the pages of one folder: what a goal asks for, what was measured, the verdict."""
    goals = read_goals()

    def judged(name, file=None):
        return judge(goals[name], quotes.figure(file or goals[name].figure))

    def asked(*names):
        signs = {"<=": "≤", ">=": "≥"}
        shown = [f"{signs[goals[name].reach[:2]]} {goals[name].reach[2:]}" for name in names]
        unit = {"us": "µs", "": "×"}.get(goals[names[0]].unit, goals[names[0]].unit)
        return f"{' / '.join(dict.fromkeys(shown))} {unit}"

    def judgements(**other_files):
        """A table of all goals of the figures that the folder has, also of those that these cannot judge. `other_files` tells the files of
        figures that are called otherwise."""
        rows = []
        for name, goal in goals.items():
            file = other_files.get(goal.figure.replace("-", "_"), goal.figure)
            if quotes.path(file).exists() and is_about(goal, quotes.figure(file)):
                judged_here = judged(name, file)
                rows.append([f"`{file}`", goal.what, asked(name), *worst_cells(judged_here), judged_here.said])
        return markdown(["figure", "measure", "to reach", "measured, the worst size", "there, in single jobs", "verdict"], rows)

    return {"judgements": judgements, "verdict": lambda *names, file=None: " / ".join(judged(name, file).said for name in names), "asked": asked,
            "reach": lambda name, file=None: span(judged(name, file).values),
            "worst_of": lambda *names, file=None: " / ".join(worst_shown(judged(name, file)) for name in names)}


def worst_value(judged):
    return (min if judged.goal.reach.startswith(">=") else max)(judged.values)


def worst_cells(judged):
    """What the judge saw where the measured is worst, by which the verdict is, and what single jobs had there."""
    if not judged.values:
        return "", ""
    ends = judged.in_jobs[judged.values.index(worst_value(judged))]
    return worst_shown(judged), span(ends) if ends else ""


def worst_shown(judged):
    """With as many digits as its verdict takes to be seen: 0.998, and not 1.00, does not reach 1."""
    value = worst_value(judged)
    shown = [number(value), *(f"{value:,.{digits}f}" for digits in range(3, 9))]
    return next((text for text in shown if reaches(judged.goal, float(text.replace(",", ""))) == reaches(judged.goal, value)), repr(value))
