"""How often the pages of a slow node are touched, as the visits of a round tell it. Pure.

Heat that is scattered, or that touches each page seldom, hardly shows in the heat of regions. The
visits of a round see it: they tell what part of the node was touched within the lag.
"""

from math import log1p

from tierd.frozen import dataclass, replace

# A round cools the node if its pages were touched less often than in any round before, by this
# share.
COOLS_SHARE = 0.1

# A larger share of what is visited cannot be told from all of it.
YOUNG_SHARE_MAX = 0.99

# Programs have turned to other memory if so many times as much comes up as in a calm round. What
# comes up in two rounds of the same heat differs by far less.
RISES = 2.0

# A round tells what comes up in a whole one if it has visited this share of the node. Its last
# pages may be left to the next round.
WHOLE_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Calm:
    """A round in which little came up."""

    came_bytes: float
    """What came up, or what would have come up in a whole round."""
    lag_s: float

    def expects_bytes(self, lag_s: float) -> float:
        """Return what comes up in a round with this lag at most, if heat stays the same.

        In a lag k times as long, at most k times as much is touched.
        """
        return self.came_bytes * max(1.0, lag_s / self.lag_s)


@dataclass(frozen=True, slots=True)
class Touches:
    """What the visits of a round saw, and of the rounds before it since heat last rose."""

    visited_bytes: int = 0
    """The memory that was visited in this round."""
    came_bytes: int = 0
    """What came up in this round."""
    times_hz: float = 0.0
    """The bytes that were visited, each times how often a second it was touched."""
    times_s: float = 0.0
    """The bytes that were visited, each times its lag."""
    least_hz: float | None = None
    """How often a second a page was touched on average, in the round in which it was the least."""
    calm: Calm | None = None
    """The calmest round."""

    @property
    def hz(self) -> float:
        """How often a second a page was touched on average."""
        return self.times_hz / max(1, self.visited_bytes)

    @property
    def lag_s(self) -> float:
        """The average lag."""
        return self.times_s / max(1, self.visited_bytes)

    @property
    def came_share(self) -> float | None:
        """The share of what was visited in this round that came up; None if nothing was visited."""
        return self.came_bytes / self.visited_bytes if self.visited_bytes else None

    @property
    def cooled(self) -> bool:
        """Whether this round saw fewer touches than any round before."""
        return self.least_hz is not None and self.hz < (1 - COOLS_SHARE) * self.least_hz

    def begun(self) -> "Touches":
        """Return what is known at the beginning of a round."""
        return replace(self, visited_bytes=0, came_bytes=0, times_hz=0.0, times_s=0.0)

    def ended(self, round_bytes: int) -> "Touches":
        """Return what is known after a round."""
        least_hz = self.hz if self.least_hz is None else min(self.hz, self.least_hz)
        now = replace(self, least_hz=least_hz)
        if self.visited_bytes < round_bytes * WHOLE_SHARE:
            return now
        calm = Calm(self.came_bytes / self.visited_bytes * round_bytes, self.lag_s)
        if self.calm and self.calm.expects_bytes(self.lag_s) < calm.came_bytes:
            return now
        return replace(now, calm=calm)

    def anew(self) -> "Touches":
        """Return the same after programs have turned to other memory."""
        return replace(self, least_hz=None, calm=None)

    def have_risen(self, least_bytes: float) -> bool:
        """Return whether clearly more came up than in a calm round, and so much at least."""
        if self.calm is None:
            return False
        expects_bytes = self.calm.expects_bytes(self.lag_s)
        return self.came_bytes > max(RISES * expects_bytes, expects_bytes + least_bytes)


def add(before: Touches, visited_bytes: int, came_bytes: int, lag_s: float) -> Touches:
    """Return what is known after so much was visited, and so much of it came up."""
    now = replace(before, came_bytes=before.came_bytes + came_bytes)
    if not visited_bytes:
        return now
    hz = -log1p(-min(YOUNG_SHARE_MAX, came_bytes / visited_bytes)) / lag_s
    return replace(
        now,
        visited_bytes=before.visited_bytes + visited_bytes,
        times_hz=before.times_hz + visited_bytes * hz,
        times_s=before.times_s + visited_bytes * lag_s,
    )
