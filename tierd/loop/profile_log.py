"""The profile that the daemon keeps as a by-product: what its sensors count in each minute.

It asks the kernel for nothing that the loop has not asked for, but /proc/vmstat, once a minute.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tierd.errors import TierdError
from tierd.kdamonds.applied import Applied
from tierd.loop.kept_profile import KeptProfile
from tierd.loop.running import Running
from tierd.machine.sample import Sample, VmEvents
from tierd.plans.plan import Plan
from tierd.profile import minute, sensors
from tierd.profile.minute import MINUTE_S, Moment, tier_bytes
from tierd.profile.profile import Header, Source
from tierd.topology import Topology

# A minute that took so much longer was interrupted: a suspend, or a kernel that answers late.
LATE_S = 30.0


@dataclass(slots=True)
class ProfileLog:
    """Looks at each tick, and adds a minute to the profile when one has passed."""

    kept: KeptProfile
    events: Callable[[], VmEvents]
    caches: Callable[[Topology], int]
    """Returns the bytes of the caches before memory."""
    _since: Moment | None = None
    _cache_bytes: int | None = None
    _plan: Plan | None = None
    """The plan that was in force at the last tick."""

    def saw(self, at: float, running: Running) -> None:
        """Take note of a tick that ended at `at`, in seconds since the epoch."""
        sample, applied = running.sample, running.applied
        if not running.config.profile or running.paused or sample is None or applied is None:
            self._since = None
            return
        before = self._since if _counts_on(self._plan, applied.plan) else None
        self._plan = applied.plan
        passed_s = 0.0 if before is None else sample.monotonic_s - before.sample.monotonic_s
        if before is not None and passed_s < MINUTE_S:
            return
        now = self._since = self._moment(sample)
        if before is not None and now is not None and passed_s <= MINUTE_S + LATE_S:
            self._add(at, running, applied, before, now)

    def _moment(self, sample: Sample) -> Moment | None:
        try:
            return Moment(sample, self.events())
        except TierdError as error:
            self.kept.books.failed(self.kept.path, str(error))
            return None

    def _held_by_caches(self, topology: Topology) -> int:
        if self._cache_bytes is None:
            try:
                self._cache_bytes = self.caches(topology)
            except TierdError as error:
                self.kept.books.failed(self.kept.path, str(error))
                self._cache_bytes = 0
        return self._cache_bytes

    def _add(
        self, at: float, running: Running, applied: Applied, before: Moment, now: Moment
    ) -> None:
        topology = running.topology
        heat = sensors.heat_bytes(applied.plan, topology, before.sample, now.sample)
        if heat is None:
            return
        sizes = tuple(tier_bytes(topology).values())
        began = at // MINUTE_S * MINUTE_S
        held = self._held_by_caches(topology)
        header = Header(Source.sensors, began, sizes, 0, held, topology.page_bytes)
        self.kept.add(header, minute.line(topology, before, now, heat, 0))


def _counts_on(before: Plan | None, plan: Plan) -> bool:
    """Return whether the sensors of a plan go on with the counts of another one.

    A rescan makes a new plan with the same schemes.
    """
    return before is not None and (before is plan or before.kdamonds == plan.kdamonds)
