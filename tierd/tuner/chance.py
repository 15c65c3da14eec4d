"""How much memory looks hot by chance, if all of it is used alike. Pure.

A sample looks at one page of a region. If each page of a node is touched about as often as any
other, a few regions are hit far more often than the rest, and the next time it is other ones. To
move them gains nothing.
"""

from collections.abc import Sequence
from math import comb, exp, sqrt

from tierd.frozen import dataclass, replace

# So many times what chance makes hot on average still counts as chance: regions have different
# sizes, and what many of them look like swings by half and more from reading to reading.
TIMES = 2.0

# If all memory is used alike, as many regions as chance explains look hot, with this certainty. A
# node of any size has 50 to 100 regions then. So one or two may be many times the average.
SURE = 0.999

# Where more regions than this look hot on average, a normal distribution is near enough. With that
# certainty it is below its average and so many standard deviations.
MANY = 100.0
SURE_DEVIATIONS = 3.1

# If less than this share of the memory should have a hit or two, nearly all of it has more. Then
# those that have only these say nothing.
FEW_MIN = 0.01


@dataclass(frozen=True, slots=True)
class Level:
    """The memory in regions with so many hits or more."""

    bound: int
    bytes: float
    weight: float
    """What it weighs beyond the level before."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the levels of a node are from."""

    samples: int
    """How many samples a hit count is of."""
    regions: int
    """How many hit counts there were."""
    used_bytes: int
    """The memory in use."""


def hit_share(levels: Sequence[Level], used_bytes: int) -> float | None:
    """Return the share of the memory in use that samples hit; None if no sensor counts that."""
    if not levels or levels[0].bound != 1:
        return None
    return min(1.0, levels[0].bytes / max(1, used_bytes))


def heat_bytes(levels: Sequence[Level]) -> float:
    """Return the heat of memory on these levels."""
    return sum(one.weight * one.bytes for one in levels)


def sure(levels: Sequence[Level]) -> tuple[Level, ...]:
    """Return what is on each level of regions with more than a hit or two."""
    return (replace(levels[0], bytes=levels[1].bytes), *levels[1:])


def beyond(levels: Sequence[Level], alike: float, look: Look) -> tuple[Level, ...]:
    """Return what of that is there beyond chance.

    `alike` is the share of the memory that would be hit anyway, if all of it is used alike. Then
    much of it has a hit or two. If less has, only a part is used alike: the rest is hot or cold.
    """
    first, *others = levels
    page = 1 - (1 - alike) ** (1 / look.samples)
    shares = [_at_least(one.bound, page, look.samples) for one in others]
    few, found = alike - shares[0], (first.bytes - others[0].bytes) / max(1, look.used_bytes)
    part = min(1.0, found / few) if few > FEW_MIN else 1.0
    chances = [round(part * _most(share, look.regions) * look.used_bytes) for share in shares]
    left = [
        replace(one, bytes=max(0.0, one.bytes - chance))
        for one, chance in zip(others, chances, strict=True)
    ]
    return sure([first, *left])


def _at_least(bound: int, share: float, samples: int) -> float:
    """Return how likely so many hits or more are, if this share of all samples hits."""
    fewer = (
        comb(samples, hits) * share**hits * (1 - share) ** (samples - hits) for hits in range(bound)
    )
    return max(0.0, 1 - sum(fewer))


def _most(likely: float, regions: int) -> float:
    """Return the largest share of the memory that chance makes hot, if all of it is used alike.

    It is in so many regions. Each of them looks hot with this likelihood.
    """
    few = most_events(likely * regions) / regions if regions else 0.0
    return min(1.0, max(TIMES * likely, few))


def most_events(average: float) -> float:
    """Return how many events there are at most, if there are so many on average (Poisson)."""
    if average > MANY:
        return average + SURE_DEVIATIONS * sqrt(average)
    most, likely = 0, exp(-average)
    so_many_or_less = likely
    while so_many_or_less < SURE:
        most += 1
        likely *= average / most
        so_many_or_less += likely
    return most
