"""Everything that the loop acts through: kernel files, time, events, our own files, readers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tierd.clock import Clock
from tierd.configuration.config import Config
from tierd.kdamonds.saved import SavedState
from tierd.loop.running import Identity, Running
from tierd.record.counters import Counters
from tierd.record.snapshot import EventStatus, Snapshot
from tierd.serving.inbox import Inbox
from tierd.sysfs import Sysfs


class Store(Protocol):
    """Our own files, as far as the loop needs them."""

    def record(self, saved: SavedState) -> None: ...
    def saved(self) -> SavedState | None: ...
    def forget(self) -> None: ...
    def handed_over(self) -> bool: ...
    def save_counters(self, counters: Counters) -> None: ...
    def counters(self) -> Counters: ...


@dataclass(frozen=True, slots=True)
class Outside:
    """Everything that the loop acts through."""

    sysfs: Sysfs
    clock: Clock
    inbox: Inbox
    store: Store
    who: Identity
    wall_s: Callable[[], float]
    read_config: Callable[[], Config]
    publish: Callable[[Snapshot, Running], None]
    log: Callable[[EventStatus], None]
    ticks_per_s: int = 100
    """Of the processor times in /proc (USER_HZ)."""
