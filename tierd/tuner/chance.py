"""How much memory looks hot by chance, if all of it is used alike. Pure.

A sample looks at one page of a region. If each page of a node is touched about as often as any
other, a few regions are hit far more often than the rest, and the next time it is other ones. To
move them gains nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

# So many times what chance makes hot on average still counts as chance. If all memory is used
# alike, a node of any size has 50 to 100 regions. So what one or two of them look like swings by
# half and more from reading to reading.
TIMES = 2.0


@dataclass(frozen=True, slots=True)
class Level:
    """The memory in regions with so many hits or more."""

    bound: int
    bytes: int
    weight: float
    """What it weighs beyond the level before."""


def hit_share(levels: Sequence[Level], used_bytes: int) -> float | None:
    """Return the share of the memory in use that samples hit; None if no sensor counts that."""
    if not levels or levels[0].bound != 1:
        return None
    return min(1.0, levels[0].bytes / max(1, used_bytes))


def beyond(level: Level, alike: float, samples: int, used_bytes: int) -> int:
    """Return what is on a level beyond chance, if this share of the memory would be hit anyway."""
    page = 1 - (1 - alike) ** (1 / samples)
    fewer = (
        comb(samples, hits) * page**hits * (1 - page) ** (samples - hits)
        for hits in range(level.bound)
    )
    by_chance: float = TIMES * (1 - sum(fewer)) * used_bytes
    return max(0, level.bytes - round(by_chance))
