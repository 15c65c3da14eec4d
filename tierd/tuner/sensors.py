"""What is counted on a node so that the tuner sees: all of it, its heat, and what is cold.

Pure. Each is a scheme that moves nothing; the patterns of what is hot and what is cold are those of
the schemes that move.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from tierd.plans.damon import UINT_MAX, ULONG_MAX, AccessPattern, Span
from tierd.plans.plan import Sense

# How often a region is accessed is counted by these shares of the samples. Four steps are enough to
# tell a set of which a tenth is hot from one that is hot all over; the first ends below what chance
# makes of one page in a hundred.
HEAT_SHARES = (0.15, 0.4, 0.7)

EVERYTHING = AccessPattern(Span(0, ULONG_MAX), Span(0, UINT_MAX), Span(0, UINT_MAX))


@dataclass(frozen=True, slots=True)
class Sensed:
    """What one sensor is to count."""

    sense: Sense
    pattern: AccessPattern
    weight: float = 0.0


def sensors(hot: AccessPattern, cold: AccessPattern | None, samples: int) -> Iterator[Sensed]:
    """In the order of the schemes; nothing is cold on a node that has no slower neighbour."""
    yield Sensed(Sense.all, EVERYTHING)
    yield from _heat(hot, samples)
    if cold is not None:
        yield Sensed(Sense.cold, cold)


def _heat(hot: AccessPattern, samples: int) -> Iterator[Sensed]:
    """All that is hot, then the hotter parts of it; a byte's weights add up to its share of hits.

    Regions are larger than what is hot in them. A sample looks at one page of a region, so the
    share of samples that hit says how much of it is hot: a tenth of it accessed all the time
    counts like all of it accessed a tenth of the time, which is what it is worth to move.
    """
    least = hot.nr_accesses.min
    steps = {least, *(ceil(samples * share) for share in HEAT_SHARES)}
    bounds = sorted(bound for bound in steps if bound >= least)
    counted = 0.0
    for bound, after in zip(bounds, (*bounds[1:], None), strict=True):
        share = 1.0 if after is None else (bound + after - 1) / 2 / samples
        sense = Sense.hot if bound == least else Sense.heat
        pattern = replace(hot, nr_accesses=Span(bound, UINT_MAX))
        yield Sensed(sense, pattern, share - counted)
        counted = share
