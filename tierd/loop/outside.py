"""What the loop needs from outside: kernel files, time, events, our own files, and publishing.

It is passed in, so that tests and the simulation can replace it.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Protocol

from tierd.clock import Clock
from tierd.configuration.config import Config
from tierd.frozen import dataclass
from tierd.kdamonds.kernel import Kernel
from tierd.kdamonds.saved import SavedState
from tierd.loop.running import Identity, Running
from tierd.machine.sample import Latency
from tierd.record.bookkeeping import Bookkeeping
from tierd.record.scheme_totals import Totals
from tierd.record.snapshot import EventStatus, Snapshot
from tierd.serving.inbox import Inbox
from tierd.sysfs import Sysfs
from tierd.topology import Topology


class Store(Protocol):
    """Saves and loads our own files for the loop: the state to restore, and the totals."""

    def record(self, saved: SavedState) -> None: ...
    def saved(self) -> SavedState | None: ...
    def forget(self) -> None: ...
    def handed_over(self) -> bool: ...
    def save_counters(self, counters: Totals, *, lasting: bool) -> None: ...
    def counters(self) -> Totals: ...


ReadsLatencies = Callable[[Topology, Mapping[int, tuple[int, ...]]], tuple[Latency, ...]]
"""Reads how late some fast nodes, and the slower nodes of each, answer now."""


def no_latencies(_topology: Topology, _asked: Mapping[int, tuple[int, ...]]) -> tuple[Latency, ...]:
    """Return nothing: a simulated machine has no memory that waits."""
    return ()


@dataclass(frozen=True, slots=True)
class Outside:
    """The objects and functions by which the loop reads, waits, writes and publishes."""

    kernel: Kernel
    inbox: Inbox
    store: Store
    who: Identity
    wall_s: Callable[[], float]
    read_config: Callable[[], Config]
    publish: Callable[[Snapshot, Running], None]
    log: Callable[[EventStatus], None]
    ticks_per_s: int = 100
    """Clock ticks per second in the processor times of /proc (USER_HZ)."""
    processor_s: Callable[[], float] = lambda: 0.0
    """The processor time that this thread has used. Zero in virtual time."""
    latencies: ReadsLatencies = no_latencies
    books: Bookkeeping = field(default_factory=Bookkeeping)
    """Counts and reports files that could not be saved."""

    @property
    def sysfs(self) -> Sysfs:
        """The kernel's files. Each access is tried again while DAMON is busy."""
        return self.kernel.sysfs

    @property
    def clock(self) -> Clock:
        """The clock that the loop uses."""
        return self.kernel.clock
