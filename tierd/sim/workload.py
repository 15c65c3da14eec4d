"""The programs that use memory: sets of pages that are placed, change their heat, and are freed.

A workload is a list of events with times. With `every_us` an event repeats. Equal seeds give equal
histories. When a program turns
to other data, heat moves between the pages of two sets. The pages stay where they are until the
kernel moves them.
"""

from collections.abc import Sequence
from random import Random

from tierd.frozen import dataclass
from tierd.sim.memory import Memory, PageSet


@dataclass(frozen=True, slots=True)
class Place:
    """Add a set if it is new, and fault in `bytes` of it on the first node with room."""

    page_set: PageSet
    bytes: int
    nodes: tuple[int, ...]
    at_us: int = 0
    every_us: int = 0


@dataclass(frozen=True, slots=True)
class Scatter:
    """Fault in several sets at once, with their pages mixed at random, as in a hash table."""

    sets: tuple[tuple[PageSet, int], ...]
    """Each set, and its bytes."""
    nodes: tuple[int, ...]
    at_us: int = 0


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Mix the pages of some sets at random: what was hot may be cold now, and the reverse."""

    names: tuple[str, ...]
    at_us: int
    every_us: int = 0


@dataclass(frozen=True, slots=True)
class Release:
    """Free `bytes` of a set."""

    name: str
    bytes: int
    at_us: int
    every_us: int = 0


@dataclass(frozen=True, slots=True)
class Shift:
    """A share of the hot set cools down, and as many pages of the cold set heat up.

    With a share of 1 the program jumps to other data; with a small share it drifts. With
    `heats_on` the pages that heat up are on that node.
    """

    hot: str
    cold: str
    share: float
    at_us: int
    every_us: int = 0
    heats_on: int | None = None


@dataclass(frozen=True, slots=True)
class ChangeRate:
    """Change the access rate of a set."""

    name: str
    rate_hz: float
    at_us: int
    every_us: int = 0


WorkloadEvent = Place | Scatter | Shuffle | Release | Shift | ChangeRate


class Workload:
    """The events that are still to come."""

    def __init__(self, events: Sequence[WorkloadEvent], seed: int) -> None:
        self._rng = Random(seed)
        self._pending: list[tuple[int, WorkloadEvent]] = sorted(
            ((event.at_us, event) for event in events), key=lambda item: item[0]
        )

    @property
    def due_us(self) -> int | None:
        """The time of the next event; None if there is none left."""
        return self._pending[0][0] if self._pending else None

    def add(self, event: WorkloadEvent, now_us: int) -> None:
        """Add an event at its time, or at once if that time has passed."""
        self._insert(max(event.at_us, now_us), event)

    def run(self, memory: Memory, now_us: int) -> None:
        """Carry out all events that are due."""
        while self._pending and self._pending[0][0] <= now_us:
            due_us, event = self._pending.pop(0)
            self._do(memory, event, due_us)
            if not isinstance(event, Scatter) and event.every_us:
                self._insert(due_us + event.every_us, event)

    def _insert(self, due_us: int, event: WorkloadEvent) -> None:
        self._pending.append((due_us, event))
        # The sort is stable: events of one moment keep their order.
        self._pending.sort(key=lambda item: item[0])

    def _do(self, memory: Memory, event: WorkloadEvent, now_us: int) -> None:
        match event:
            case Place():
                if event.page_set not in memory.sets:
                    memory.add_set(event.page_set)
                pages = event.bytes // memory.page_bytes
                memory.populate(event.page_set.name, pages, event.nodes, now_us)
            case Scatter():
                self._scatter(memory, event, now_us)
            case Shuffle():
                memory.mix(event.names, self._rng)
            case Release():
                memory.release(event.name, event.bytes // memory.page_bytes)
            case ChangeRate():
                memory.set_rate(event.name, event.rate_hz)
            case Shift():
                memory.shift(event.hot, event.cold, event.share, self._rng, event.heats_on)

    def _scatter(self, memory: Memory, event: Scatter, now_us: int) -> None:
        for page_set, size in event.sets:
            memory.add_set(page_set)
            memory.populate(page_set.name, size // memory.page_bytes, event.nodes, now_us)
        memory.mix(tuple(page_set.name for page_set, _ in event.sets), self._rng)
