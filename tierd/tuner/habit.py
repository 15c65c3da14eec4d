"""What a scheme does with its quotas, as learned from round to round. Pure; one `Habit` each.

A quota is of what is tried in a window. How much of it moves, how much of it is used up, and how
long windows are differs between kernels and from second to second.
"""

from dataclasses import dataclass

from tierd.plans.plan import Direction
from tierd.tuner.average import moving
from tierd.tuner.reading import Way, WayReading

# How much of what a scheme tried it could move: a moving average, because one window may be all
# free memory. What it is corrected by is bounded, since one window may also be none.
YIELD_WEIGHT = 0.3
YIELD_MIN = {Direction.promote: 0.5, Direction.demote: 0.125}

# How much of its quotas a scheme used up while it was to move all that it may: a window that begins
# behind the hottest regions ends with less, one in three of promotion (7.2), and windows get longer
# as they move more. What it is corrected by is bounded, as there may be no more to move. At first
# it is taken for what it was in the first seconds of moving on 6.12 and 7.2: 0.6 to 0.9.
USE_S = 3.0
USE_MIN = 0.6
USE_FIRST = 0.8

# How long windows are is counted in whole ones, of which there may be two to a tick: over about so
# many seconds an error of one is no more than a few percent.
WINDOWS_S = 3.0

# A scheme that could not use up its rate, because its quota was still growing, may catch up on so
# much of it: with a quarter of a second both ways together moved 2.3 times the cap in one (6.16).
CREDIT_S = 0.1


@dataclass(frozen=True, slots=True)
class Habit:
    """What is known of a scheme, and what was wanted of it."""

    window_s: float
    share_moved: float = 1.0
    """Of what it tries."""
    share_used: float = USE_FIRST
    """Of its quotas."""
    debt_bytes: float = 0.0
    """What it moved beyond its rate; it is paid back by moving less."""
    limited: bool = False
    """Whether it was to move as much as it may."""
    quota_bytes: int = 0
    """What was wanted of it in a window."""

    def least_moved(self, way: Way) -> float:
        return max(YIELD_MIN[way.direction], self.share_moved)


def learn(before: Habit | None, way: Way, seen: WayReading, seconds: float) -> Habit:
    """What is known after this round; what is wanted then is the caller's to add."""
    if before is None:
        before = Habit(window_s=seen.window_s)
    return Habit(
        window_s=_window_s(before, seen, seconds),
        share_moved=_share_moved(before, seen),
        share_used=_share_used(before, seen, seconds),
        debt_bytes=_debt_bytes(before, way, seen, seconds),
    )


def _window_s(before: Habit, seen: WayReading, seconds: float) -> float:
    """By how many there were to a second: a mean of their lengths would be too long."""
    return 1 / moving(1 / before.window_s, 1 / seen.window_s, seconds, WINDOWS_S)


def _share_moved(before: Habit, seen: WayReading) -> float:
    if not seen.tried_bytes:
        return before.share_moved
    share = min(1.0, seen.applied_bytes / seen.tried_bytes)
    return before.share_moved + YIELD_WEIGHT * (share - before.share_moved)


def _share_used(before: Habit, seen: WayReading, seconds: float) -> float:
    """Known only of a quota that had grown, and was to be used up; of one of 0 there is nothing."""
    grown = 0 < before.quota_bytes / 2 <= seen.quota_bytes
    if not before.limited or not grown:
        return before.share_used
    allowed = before.quota_bytes * seconds / before.window_s
    used = moving(before.share_used, seen.tried_bytes / allowed, seconds, USE_S)
    return min(1.0, max(USE_MIN, used))


def _debt_bytes(before: Habit, way: Way, seen: WayReading, seconds: float) -> float:
    """A quota is of what is tried: when more of it moves than did lately, the rate is exceeded."""
    rate = way.rate_max_bytes_per_s
    least = -rate * CREDIT_S if before.limited else 0.0
    return max(least, before.debt_bytes + seen.applied_bytes - rate * seconds)
