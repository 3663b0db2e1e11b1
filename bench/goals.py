"""Judges result files by what is to be reached (goals.csv), so that no page says "reached" by itself.

A goal names a figure, subjects (of several, or of a pattern, the best at each size counts), the mechanism `by` which they must have
gone, sizes, a number of partitions where not all count, and a value: "median", "over X" or "times X" (quoted.py), or "less X", the
difference. It is reached where every one of its sizes reaches it."""
import collections
import csv
import fnmatch
import pathlib

from quoted import each, span, takes

FILE = pathlib.Path(__file__).with_name("goals.csv")
Goal = collections.namedtuple("Goal", "name figure subject by sizes value reach unit what partitions")
Judged = collections.namedtuple("Judged", "goal values reached said")
NOT_MEASURED = "not measured"


def read_goals():
    with open(FILE, encoding="utf-8", newline="") as file:
        goals = [Goal(**row) for row in csv.DictReader(file)]
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
        return [place for place in places if (halo_share(figure, place) >= float(bound)) == (sign == ">=")]
    chosen = takes(goal.sizes, None, None)
    return list(dict.fromkeys(point.place for point in sorted(own, key=lambda point: point.size) if chosen(point)))


def points_of(goal, points):
    """Those of the subject that bears the goal's words as its name, or else of those that one of the words is or matches."""
    named = [point for point in points if point.subject == goal.subject]
    return named or [point for point in points if any(fnmatch.fnmatchcase(point.subject, each) for each in goal.subject.split())]


def halo_share(figure, place):
    """Of a step of mode traditional, what it takes beyond computing: as its row tells, or from the row that only computes."""
    here = {point.subject: point for point in figure.points if point.place == place}
    told = here["traditional"].halo_share
    return told if told is not None else 1 - here["traditional"].median / here["sweeps-alone"].median


def value_at(goal, figure, place):
    """The best of the goal's subjects at `place`; None where one did not go as meant, or nothing is there to compare with."""
    here = {point.subject: point for point in figure.points if point.place == place}
    own = points_of(goal, here.values())
    if goal.by and any(point.gpu_copy != goal.by for point in own):
        return None
    way, _, other = goal.value.partition(" ")
    if other and other not in here:
        return None
    values = [valued(way, point.median, other and here[other].median, figure.larger_is_better) for point in own]
    return max(values) if goal.reach.startswith(">=") else min(values)


def valued(way, median, other, larger_is_better):
    if way == "median":
        return median
    if way == "less":
        return median - other
    return median / other if way == "over" or larger_is_better else other / median


def judge(goal, figure):
    """`figure` is None where there is no file."""
    values = [value_at(goal, figure, place) for place in places_of(goal, figure)] if figure else []
    if not values or None in values:
        return Judged(goal, [], 0, NOT_MEASURED)
    reached = sum(reaches(goal, value) for value in values)
    said = "reached" if reached == len(values) else "missed" if not reached else f"missed: {reached} of {len(values)} sizes reach it"
    return Judged(goal, values, reached, said)


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

    return {"verdict": lambda *names, file=None: " / ".join(judged(name, file).said for name in names), "asked": asked,
            "reach": lambda name, file=None: span(judged(name, file).values),
            "worst_of": lambda *names, file=None: each([worst_value(judged(name, file)) for name in names])}


def worst_value(judged):
    return (min if judged.goal.reach.startswith(">=") else max)(judged.values)
