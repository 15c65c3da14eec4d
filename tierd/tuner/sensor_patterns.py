"""The access patterns that sensors count on a node: everything, hot memory, and cold memory.

Pure. A sensor is a scheme that moves nothing. The patterns of hot and cold memory are those of the
schemes that move pages.
"""

from collections.abc import Iterator
from math import ceil

from tierd.frozen import dataclass, replace
from tierd.plans.damon import UINT_MAX, ULONG_MAX, AccessPattern, Span
from tierd.plans.plan import Sense

# Bounds between the steps of hot memory, as shares of the samples. With four steps, a set of which
# a tenth is hot looks different from a set that is all hot. The first step is above chance hits of
# single pages.
HEAT_SHARES = (0.15, 0.4, 0.7)

EVERYTHING = AccessPattern(Span(0, ULONG_MAX), Span(0, UINT_MAX), Span(0, UINT_MAX))


@dataclass(frozen=True, slots=True)
class SensorPattern:
    """What one sensor is to count."""

    sense: Sense
    pattern: AccessPattern
    weight: float = 0.0


def sensor_patterns(
    hot: AccessPattern, cold: AccessPattern | None, samples: int
) -> Iterator[SensorPattern]:
    """Yield patterns in the order of the schemes. Without a slower neighbour nothing is cold."""
    yield SensorPattern(Sense.all, EVERYTHING)
    yield from _hot_patterns(hot, samples)
    if cold is not None:
        yield SensorPattern(Sense.cold, cold)


def sure_accesses(samples: int) -> int:
    """Return the least access count of a region that is hot by more than chance."""
    return ceil(samples * HEAT_SHARES[0])


def _hot_patterns(hot: AccessPattern, samples: int) -> Iterator[SensorPattern]:
    """Yield the pattern of all hot memory, then those of its hotter parts.

    The weights of the steps that a byte is in add up to its share of hits.

    Regions are larger than their hot part. A sample looks at one page of a region, so the share of
    samples that hit is also the share of the region that is hot. A region of which a tenth is
    always in use has the same heat as one that is in use for a tenth of the time.
    """
    least = hot.nr_accesses.min
    steps = {least, *(ceil(samples * share) for share in HEAT_SHARES)}
    bounds = sorted(bound for bound in steps if bound >= least)
    counted = 0.0
    for bound, after in zip(bounds, (*bounds[1:], None), strict=True):
        share = 1.0 if after is None else (bound + after - 1) / 2 / samples
        sense = Sense.hot if bound == least else Sense.heat
        pattern = replace(hot, nr_accesses=Span(bound, UINT_MAX))
        yield SensorPattern(sense, pattern, share - counted)
        counted = share
