"""How often pages are touched, as classes. Pure.

A page is asked every SAMPLE_US if it was touched since the last time. From the share of samples in
which it was, its rate follows, if its touches come at random. A page that is touched more often
than once per sample cannot be told from one that is touched without end.
"""

from bisect import bisect_right
from math import inf, log1p

# Microseconds between two samples of a page. A thousand pages then cost 20,000 samples a second,
# which is 0.2 to 2 % of a processor.
SAMPLE_US = 50_000
# Microseconds over which samples are counted: a minute is what a person thinks in.
AGGR_US = 60_000_000
SAMPLES = AGGR_US // SAMPLE_US

# The classes of pages, by touches per second: class 0 was not touched in the minute, class 1 up to
# the first bound, and so on. Two in each decade are as fine as a thousand pages allow. The last
# bound is where nearly all samples hit.
BOUNDS_HZ = (0.05, 0.16, 0.5, 1.6, 5.0, 16.0, 50.0)
CLASSES = len(BOUNDS_HZ) + 2

# What one page of each class counts as, in touches per second: the middle of its bounds on a
# logarithmic scale. A page without a touch in a minute has less than one, and one that saturates
# has at least the last bound.
TOUCHES_HZ = (0.0, 0.03, 0.09, 0.28, 0.9, 2.8, 9.0, 28.0, 80.0)

HOTTEST = CLASSES - 1

# A closer look at some pages of the hottest class. It samples ten times as often, so that it can
# tell rates up to 500 a second, and for so long that a count is right within a few percent.
CLOSE_SAMPLE_US = 5_000
CLOSE_AGGR_US = 10_000_000
CLOSE_SAMPLES = CLOSE_AGGR_US // CLOSE_SAMPLE_US

# Four classes in each decade: these pages have most of the touches. A page that is touched once in
# each sample of a minute, as by a program that goes through its memory in turn, has LEAST_HOT_HZ.
LEAST_HOT_HZ = 1e6 / SAMPLE_US
CLOSE_BOUNDS_HZ = (28.0, 50.0, 90.0, 160.0, 280.0, 500.0)
CLOSE_CLASSES = len(CLOSE_BOUNDS_HZ) + 1
CLOSE_TOUCHES_HZ = (24.0, 37.0, 67.0, 120.0, 212.0, 374.0, 800.0)


def rate_hz(hits: float, samples: int, sample_us: int = SAMPLE_US) -> float:
    """Return the touches per second of a page that was touched in `hits` of the samples."""
    if hits >= samples:
        return inf
    return -log1p(-hits / samples) * 1e6 / sample_us


def close_class_of(hits: float) -> int:
    """Return the class of a page that a closer look found touched in `hits` of its samples."""
    return bisect_right(CLOSE_BOUNDS_HZ, rate_hz(hits, CLOSE_SAMPLES, CLOSE_SAMPLE_US))


def class_of(rate: float) -> int:
    """Return the class of a rate."""
    return 0 if rate <= 0 else 1 + bisect_right(BOUNDS_HZ, rate)
