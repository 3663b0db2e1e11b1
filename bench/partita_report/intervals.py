"""Medians and how well they are known. Nothing is drawn at random, so the same samples always give the same figures."""
import math
import statistics

CONFIDENCE = 0.95


def outer_rank(count):
    """How many of `count` ordered samples may be left out at each end so that what remains still holds the true median with
    CONFIDENCE; 0 where there are too few for that (below six)."""
    tail, left_out = chance(count, 0), 0
    while 2 * tail <= 1 - CONFIDENCE:
        left_out += 1
        tail += chance(count, left_out)
    return max(left_out - 1, 0)


def chance(count, below):
    """That exactly `below` of `count` samples lie below the true median."""
    return math.exp(math.lgamma(count + 1) - math.lgamma(below + 1) - math.lgamma(count - below + 1) - count * math.log(2))


def median_interval(samples):
    """(lower end, upper end) of the median's interval, by the order of the samples: it assumes no distribution. From fewer than
    six samples it is all of them, which is less sure than CONFIDENCE."""
    ordered = sorted(samples)
    rank = outer_rank(len(ordered))
    return ordered[rank], ordered[-1 - rank]


def over_jobs(values, intervals):
    """The same for the median of jobs, of which each has a value and an interval. Samples of one job do not tell how jobs differ:
    below six jobs the interval reaches from the least lower end to the largest upper one."""
    if len(values) >= 6:
        return median_interval(values)
    return min(low for low, _ in intervals), max(high for _, high in intervals)


def quotient(above, below):
    """(quotient, lower end, upper end) of two positive values, each given so. The distances from the values to their ends are
    added as independent ones are, in the logarithm (Zou and Donner 2008); None where a value is not positive."""
    if min(*above, *below) <= 0:
        return None
    value, low, high = (math.log(each) for each in above)
    other, other_low, other_high = (math.log(each) for each in below)
    found = above[0] / below[0]
    return (found, found * math.exp(-math.hypot(value - low, other_high - other)),
            found * math.exp(math.hypot(high - value, other - other_low)))


def spread_percent(samples):
    """The interquartile range in percent of the median; 0 where the median is."""
    middle = statistics.median(samples)
    if len(samples) < 2 or middle == 0:
        return 0.0
    first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
    return 100 * (third - first) / abs(middle)
