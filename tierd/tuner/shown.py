"""What the heat above shows of what came up. Pure.

What comes up and is used there raises the heat above, soon after it came. So each change of that
heat counts, but only as far as what came shortly before explains it. Where heat varies by chance,
such changes add up to nothing. When programs turn to other memory, the heat above falls at a time
when little comes up, and that fall does not count.
"""

from dataclasses import field
from math import exp, hypot

from tierd.frozen import dataclass
from tierd.tuner.series import Series

# What came up explains changes of the heat above for about so many seconds: a kernel needs some of
# its aggregation intervals to see how hot new memory is (docs/constants.md).
SHOWS_S = 3.0

# This share of the heat of what came up must have shown above.
SHOWN_MIN = 0.5


@dataclass(frozen=True, slots=True)
class Shown:
    """What was seen since a check began."""

    heat_above: Series = field(default_factory=Series)
    waited_bytes: int = 0
    """The hot bytes below, summed over all rounds."""
    waited_heat_bytes: int = 0
    """Their heat, summed in the same way."""
    came_bytes: float = 0.0
    """The heat of all that came up, when it waited."""
    lately_bytes: float = 0.0
    """The same, of what came up lately."""
    rose_bytes: float = 0.0
    """By how much the heat above rose, as far as what came up explains it."""

    @property
    def is_used(self) -> bool:
        """Whether what came up is used above. If it is False, nobody knows."""
        chance = self.heat_above.noise_of(1)
        return self.rose_bytes > max(SHOWN_MIN * self.came_bytes, hypot(chance, chance))


def step(
    before: Shown,
    seconds: float,
    came_bytes: int,
    waiting_bytes: int,
    waiting_heat_bytes: int,
    heat_above_bytes: int,
) -> Shown:
    """Return what is seen after one more round, in which so much came up."""
    waited, heat = (
        before.waited_bytes + waiting_bytes,
        before.waited_heat_bytes + waiting_heat_bytes,
    )
    came = came_bytes * heat / waited if waited else 0.0
    lately = before.lately_bytes * exp(-seconds / SHOWS_S) + came
    change = heat_above_bytes - before.heat_above.last if before.heat_above.count else 0.0
    return Shown(
        before.heat_above.plus(heat_above_bytes),
        waited,
        heat,
        before.came_bytes + came,
        lately,
        before.rose_bytes + max(-lately, min(lately, change)),
    )
