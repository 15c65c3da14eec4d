"""Whether an exchange is worth it, by what goes down in a round and by what is below. Pure.

The visits of promotion tell how often a page below is touched. The visits of demotion tell how many
pages above were not touched for the idle time. If both nodes were used alike, few pages would be
idle for so long. If far more are, memory that nobody uses makes room for memory that is used.
"""

from dataclasses import dataclass
from math import exp, inf

# A round is worth it if so much of what demotion visited was idle, beyond what chance explains. The
# idle time of demotion is made so long that about a quarter is idle (YIELD_ENOUGH), whatever
# programs do. So a quarter says nothing.
WORTH_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Trade:
    """What demotion visited and moved while a round of promotion was under way."""

    visited_bytes: int = 0
    moved_bytes: int = 0
    idle_s: float = inf
    """The shortest idle time in force meanwhile."""

    def is_worth_it(self, hz: float) -> bool:
        """Return whether enough is idle above that chance does not explain.

        Chance explains what would be idle if pages above were touched `hz` times a second too.
        """
        if not self.visited_bytes:
            return False
        by_chance = exp(-hz * self.idle_s)
        return self.moved_bytes / self.visited_bytes - by_chance >= WORTH_SHARE


def add(before: Trade, visited_bytes: int, moved_bytes: int, idle_s: float) -> Trade:
    """Return the trade after a tick in which demotion visited so much, with this idle time."""
    if not visited_bytes:
        return before
    return Trade(
        before.visited_bytes + visited_bytes,
        before.moved_bytes + moved_bytes,
        min(before.idle_s, idle_s),
    )
