"""Learn from round to round how each scheme uses its quota. Pure; there is one `Habit` per scheme.

A quota limits the bytes that are tried in a window. Three things differ between kernels and over
time: the share that moves, the share that is used, and how long a window is.
"""

from tierd.frozen import dataclass
from tierd.plans.plan import Direction, Migration
from tierd.tuner.average import moving
from tierd.tuner.measurement import SchemeMeasurement

# Weight of one round in the share of tried bytes that moved. One window may have only free memory,
# so this is a moving average, and each direction has a lower bound.
YIELD_WEIGHT = 0.3
YIELD_MIN = {Direction.promote: 0.5, Direction.demote: 0.125, Direction.evict: 0.125}

# Share of its quota that a scheme uses. It is averaged over USE_S seconds and is at least USE_MIN.
# Until it is known it counts as USE_FIRST (docs/constants.md), but no quota is above the rate for
# its sake.
USE_S = 3.0
USE_MIN = 0.6
USE_FIRST = 0.8

# Seconds over which the length of a window is averaged. A tick may hold two windows, so a single
# count can be wrong by one.
WINDOWS_S = 3.0

# Seconds of its rate that a scheme may catch up on after its quota was too small
# (docs/constants.md).
CREDIT_S = 0.1


@dataclass(frozen=True, slots=True)
class Habit:
    """What is known of a scheme, and what it was last told."""

    window_s: float
    share_moved: float = 1.0
    """The share of tried bytes that moves."""
    share_used: float | None = None
    """The share of its quotas that it uses. None until it was told to move at its rate."""
    debt_bytes: float = 0.0
    """What it moved beyond its rate. It pays this back by moving less."""
    limited: bool = False
    """True if it was told to move as much as its rate allows."""
    quota_bytes: int = 0
    """The quota that it was last told, for one window."""

    def quota_for(self, bytes_per_s: float, rate_max_bytes_per_s: float) -> float:
        """Return the quota of a window with which so much is tried per second."""
        if self.share_used is not None:
            return bytes_per_s * self.window_s / self.share_used
        return min(bytes_per_s / USE_FIRST, rate_max_bytes_per_s) * self.window_s

    def least_moved(self, migration: Migration) -> float:
        return max(YIELD_MIN[migration.direction], self.share_moved)


def learn(
    before: Habit | None,
    migration: Migration,
    seen: SchemeMeasurement,
    seconds: float,
    rated_bytes: float,
) -> Habit:
    """Return what is known after this round. The caller adds the new quota.

    So many bytes moved by the rate of the scheme, which others may share.
    """
    if before is None:
        before = Habit(window_s=seen.window_s)
    return Habit(
        window_s=_window_s(before, seen, seconds),
        share_moved=_share_moved(before, seen),
        share_used=_share_used(before, seen, seconds),
        debt_bytes=_debt_bytes(before, migration, rated_bytes, seconds),
    )


def _window_s(before: Habit, seen: SchemeMeasurement, seconds: float) -> float:
    """Average the windows per second. The mean of their lengths would be too long."""
    return 1 / moving(1 / before.window_s, 1 / seen.window_s, seconds, WINDOWS_S)


def _share_moved(before: Habit, seen: SchemeMeasurement) -> float:
    if not seen.tried_bytes:
        return before.share_moved
    share = min(1.0, seen.applied_bytes / seen.tried_bytes)
    return before.share_moved + YIELD_WEIGHT * (share - before.share_moved)


def _share_used(before: Habit, seen: SchemeMeasurement, seconds: float) -> float | None:
    """Update the share used, if the quota had grown and the scheme was to use all of it."""
    grown = 0 < before.quota_bytes / 2 <= seen.quota_bytes
    if not before.limited or not grown:
        return before.share_used
    allowed = before.quota_bytes * seconds / before.window_s
    known = USE_FIRST if before.share_used is None else before.share_used
    used = moving(known, seen.tried_bytes / allowed, seconds, USE_S)
    return min(1.0, max(USE_MIN, used))


def _debt_bytes(before: Habit, migration: Migration, rated_bytes: float, seconds: float) -> float:
    """Add what moved beyond the rate. That happens if more of the tried bytes move than lately."""
    rate = migration.rate_max_bytes_per_s
    least = -rate * CREDIT_S if before.limited else 0.0
    return max(least, before.debt_bytes + rated_bytes - rate * seconds)
