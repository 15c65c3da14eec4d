"""The daemon's own loop on a simulated kernel, in virtual time, for `tierd simulate`."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tierd.configuration.config import Config
from tierd.kdamonds.kernel import Kernel
from tierd.kdamonds.saved import SavedState
from tierd.loop import daemon
from tierd.loop.outside import Outside
from tierd.loop.running import Identity, Running
from tierd.record.scheme_totals import Totals
from tierd.record.snapshot import EventStatus, Snapshot
from tierd.serving.inbox import Event
from tierd.sim.sim_kernel import SimClock, SimKernel

Moment = tuple[float, Callable[[], Event | None]]
"""Seconds, and what is to be done then: it may give the loop an event."""


@dataclass(slots=True)
class VirtualInbox:
    """An inbox in virtual time: a wait lets time pass, and does what is due in it."""

    kernel: SimKernel
    moments: list[Moment] = field(default_factory=list)
    """Seconds and functions, the next one last."""

    def at(self, moments: list[Moment]) -> None:
        self.moments = sorted(moments, key=lambda one: -one[0])

    def wait(self, seconds: float) -> tuple[Event, ...]:
        until_s = self.kernel.now_us / 1e6 + max(0.0, seconds)
        while self.moments and self.moments[-1][0] <= until_s:
            at_s, call = self.moments.pop()
            self.kernel.advance(max(0.0, at_s - self.kernel.now_us / 1e6))
            event = call()
            if event is not None:
                return (event,)
        self.kernel.advance(max(0.0, until_s - self.kernel.now_us / 1e6))
        return ()


@dataclass(slots=True)
class VirtualStore:
    """tierd's files, in memory."""

    state: SavedState | None = None
    totals: Totals = field(default_factory=Totals)

    def record(self, saved: SavedState) -> None:
        self.state = saved

    def saved(self) -> SavedState | None:
        return self.state

    def forget(self) -> None:
        self.state = None

    def handed_over(self) -> bool:
        return False

    def save_counters(self, counters: Totals, *, lasting: bool) -> None:  # noqa: ARG002
        self.totals = counters

    def counters(self) -> Totals:
        return self.totals


def run(
    kernel: SimKernel,
    config: Config,
    reloaded: Config,
    for_s: float,
    moments: list[Moment],
    publish: Callable[[Snapshot, Running], None],
) -> tuple[EventStatus, ...]:
    """Run the loop for so many virtual seconds; a reload reads `reloaded`. Return its events."""
    clock, inbox, events = SimClock(kernel), VirtualInbox(kernel), list[EventStatus]()
    inbox.at(moments)
    outside = Outside(
        kernel=Kernel.patient(kernel, clock),
        inbox=inbox,
        store=VirtualStore(),
        who=Identity(1, 0.0, kernel.machine.name),
        wall_s=clock.monotonic,
        read_config=lambda: reloaded,
        publish=publish,
        log=events.append,
    )
    daemon.run(outside, config, for_s)
    return tuple(events)
