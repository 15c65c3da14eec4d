"""The processor time that the sweeps of a kdamond may use. Pure.

A kdamond uses processor time for its samples too. So what its sweeps use is what it uses beyond
the usual, and the usual is what it uses while all of its sweeps are closed.
"""

from tierd.frozen import dataclass, replace
from tierd.tuner.average import moving
from tierd.units import BP_MAX

# The budget holds on average over these seconds. What was not used in them can be used at once, so
# that heat that has just appeared is found soon.
SAVED_S = 3600.0

# A sweep that was stopped in the middle of a round goes on when this share of the most is left. It
# then runs for some seconds at least: to stop and to begin again costs a lag each time.
RESUME_SHARE = 0.05

# Seconds over which the usual use is averaged. Processor time is counted in steps of 10 ms.
USUAL_S = 10.0


@dataclass(frozen=True, slots=True)
class Budget:
    """The processor time that is left, in seconds, and the usual use per second."""

    left_s: float
    usual: float = 0.0
    total_s: float | None = None
    """The processor time of the kdamond at the last tick; None if it was not known."""

    saved_s: float = 0.0
    """The most that can be left."""

    @property
    def is_used_up(self) -> bool:
        return self.left_s <= 0

    @property
    def is_low(self) -> bool:
        """True if so little is left that a sweep that was stopped should not go on yet."""
        return self.left_s <= RESUME_SHARE * self.saved_s


def begin(cost_bp: int) -> Budget:
    saved_s = SAVED_S * cost_bp / BP_MAX
    return Budget(left_s=saved_s, saved_s=saved_s)


def spend(
    before: Budget, cost_bp: int, seconds: float, total_s: float | None, *, visits: bool
) -> Budget:
    """Return the budget after a tick in which some sweep was open (`visits`), or none.

    `total_s` is the processor time of the kdamond. If it is not known, nothing counts as used.
    """
    cost = cost_bp / BP_MAX
    left_s = min(SAVED_S * cost, before.left_s + cost * seconds)
    if total_s is None or before.total_s is None or total_s < before.total_s:
        return replace(before, left_s=left_s, total_s=total_s)
    used_s = total_s - before.total_s
    if not visits:
        usual = moving(before.usual, used_s / seconds, seconds, USUAL_S)
        return replace(before, left_s=left_s, total_s=total_s, usual=usual)
    left_s -= max(0.0, used_s - before.usual * seconds)
    return replace(before, left_s=left_s, total_s=total_s)
