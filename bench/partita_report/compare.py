"""Judges two runs of the same figure, point by point."""
import collections

from partita_report.failure import Failure
from partita_report.summary import goodness

Verdict = collections.namedtuple("Verdict", "case size partitions subject ratio low high said")
FASTER, SLOWER, SAME, NOT_COMPARED = "faster", "slower", "no difference", "not compared"


def judge(before, after, relative):
    """A Verdict for every point that both figures have: how many times as fast `after` is (of rates: as much it moves), and whether
    its interval leaves 1 out. With `relative` each side's ratio to its own yardstick is compared, which machines and hours change
    less; yardsticks themselves are left out."""
    for key in ("benchmark", "unit"):
        if before.meta[key] != after.meta[key]:
            raise Failure(f"the first file has the {key} '{before.meta[key]}', the second '{after.meta[key]}'; runs that are compared "
                          "have the same")
    theirs = {(point.place, point.subject): point for point in after.points}
    return [verdict_of(point, theirs[point.place, point.subject], before.larger_is_better, relative) for point in before.points
            if (point.place, point.subject) in theirs and not (relative and point.ratio is None)]


def verdict_of(point, other, larger_is_better, relative):
    if relative:
        known = [(each.ratio, each.ratio_low, each.ratio_high) for each in (other, point)]
        ratio = None if None in known[0] else goodness(*known, True)
    else:
        ratio = goodness(*((each.median, each.low, each.high) for each in (other, point)), larger_is_better)
    return verdict(point, ratio)


def verdict(point, ratio):
    """`ratio` is (how many times as fast, lower end, upper end), or None."""
    if ratio is None:
        return Verdict(*point.place, point.subject, None, None, None, NOT_COMPARED)
    said = FASTER if ratio[1] > 1 else SLOWER if ratio[2] < 1 else SAME
    return Verdict(*point.place, point.subject, *ratio, said)


def missing(before, after):
    """The points of the first figure that the second lacks."""
    theirs = {(point.place, point.subject) for point in after.points}
    return [point for point in before.points if (point.place, point.subject) not in theirs]


def beyond(verdicts, limit_percent):
    """Those that are slower by more than the limit even at the better end of their interval."""
    return [verdict for verdict in verdicts if verdict.high is not None and verdict.high < 1 - limit_percent / 100]


def table(verdicts):
    widths = max([len(verdict.subject) for verdict in verdicts] + [7])
    cases = max([len(verdict.case) for verdict in verdicts] + [0])
    lines = [f"{'Case':<{cases}} " if cases else "",
             f"{'Size':>11}{'Partitions':>12}  {'Subject':<{widths}}{'Ratio':>9}   {'Interval':<17}Verdict\n"]
    for each in verdicts:
        between = "" if each.ratio is None else f"{each.low:.3f} to {each.high:.3f}"
        lines.append((f"{each.case:<{cases}} " if cases else "") + f"{each.size:>11}{each.partitions:>12}  {each.subject:<{widths}}"
                     f"{'-' if each.ratio is None else format(each.ratio, '.3f'):>9}   {between:<17}{each.said}\n")
    return "".join(lines)
