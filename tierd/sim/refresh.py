"""refresh_ms: kdamonds that update their own files every so often, while time passes.

damon_sysfs_repeat_call_fn() gives up where the lock is taken, having set its next time already: a
refresh that falls into somebody's command is left out. Where all kdamonds share one timer
(Quirks.refresh_shared), whoever looks first when it is due refreshes, sets it anew and will look
first again; that is taken to be the kdamond that was turned on last, whose ticks began with it.
"""

from tierd.sim.commands import Kdamond, Kdamonds
from tierd.sim.engine import Engine


class Refresher:
    """Lets time pass from one refresh to the next."""

    def __init__(self, engine: Engine, kdamonds: Kdamonds) -> None:
        self._engine = engine
        self._kdamonds = kdamonds

    def advance(self, until_us: int) -> None:
        """Let time pass, with every refresh at its moment."""
        while (due := self._next()) is not None and due.next_refresh_us <= until_us:
            self._engine.advance(due.next_refresh_us)
            if due.refresh_us:
                due.refresh()
                due.next_refresh_us += due.refresh_us
        self._engine.advance(until_us)

    def skip(self) -> None:
        """Leave out what fell into a command that has just ended."""
        now_us = self._engine.now_us
        for known in self._kdamonds.running:
            if known.refresh_us and known.next_refresh_us < now_us:
                late = now_us - known.next_refresh_us
                known.next_refresh_us += -(-late // known.refresh_us) * known.refresh_us

    def _next(self) -> Kdamond | None:
        wanted = [known for known in self._kdamonds.running if known.refresh_us]
        if wanted and self._engine.quirks.refresh_shared:
            return max(wanted, key=lambda known: known.started_us)
        return min(wanted, key=lambda known: known.next_refresh_us, default=None)
