"""refresh_ms: kdamonds that update their own files at an interval.

damon_sysfs_repeat_call_fn() sets its next time and then gives up if the lock is taken. So a refresh
that is due during a command is skipped.

On some series all kdamonds share one timer (`refresh_shared`). The first kdamond that sees it
expired refreshes its own files and sets the timer again, so that the same kdamond is first every
time. Here that is the kdamond that was turned on last.
"""

from tierd.sim.scheduler import Scheduler
from tierd.sim.state_commands import KdamondDirectory, KdamondsDirectory


class Refresher:
    """Lets time pass, and does each refresh when it is due."""

    def __init__(self, scheduler: Scheduler, kdamonds: KdamondsDirectory) -> None:
        self._scheduler = scheduler
        self._kdamonds = kdamonds

    def advance(self, until_us: int) -> None:
        """Let time pass until `until_us`, with each refresh at its time."""
        while (due := self._next()) is not None and due.next_refresh_us <= until_us:
            self._scheduler.advance(due.next_refresh_us)
            if due.refresh_us:
                due.refresh()
                due.next_refresh_us += due.refresh_us
        self._scheduler.advance(until_us)

    def skip(self) -> None:
        """Skip the refreshes that were due during a command that has just ended."""
        now_us = self._scheduler.now_us
        for known in self._kdamonds.running:
            if known.refresh_us and known.next_refresh_us < now_us:
                late = now_us - known.next_refresh_us
                known.next_refresh_us += -(-late // known.refresh_us) * known.refresh_us

    def _next(self) -> KdamondDirectory | None:
        wanted = [known for known in self._kdamonds.running if known.refresh_us]
        if wanted and self._scheduler.quirks.refresh_shared:
            return max(wanted, key=lambda known: known.started_us)
        return min(wanted, key=lambda known: known.next_refresh_us, default=None)
