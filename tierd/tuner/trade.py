"""Whether an exchange is worth it, by what goes down in a round and by what is below. Pure.

The visits of promotion tell how often a page below is touched. The visits of demotion tell how many
pages above were not touched for the idle time. If both nodes were used alike, few pages would be
idle for so long. If far more are, memory that nobody uses makes room for memory that is used.
"""

from math import exp, inf

from tierd.frozen import dataclass

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
        """Return whether far more pages above are idle than would be by chance.

        By chance a page is idle if it is touched `hz` times a second, as the pages below are.
        """
        if not self.visited_bytes:
            return False
        by_chance = exp(-hz * self.idle_s)
        return self.moved_bytes / self.visited_bytes - by_chance >= WORTH_SHARE

    def plus(self, more: "Trade") -> "Trade":
        """Return both together. Where nothing was visited, no idle time counts."""
        if not more.visited_bytes:
            return self
        return Trade(
            self.visited_bytes + more.visited_bytes,
            self.moved_bytes + more.moved_bytes,
            min(self.idle_s, more.idle_s),
        )
