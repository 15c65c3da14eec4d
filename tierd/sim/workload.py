"""What uses the memory: sets of pages that are placed, shift, drift, grow and go.

A workload is a list of dated events over `Memory`'s sets; the same seed gives the same history.
Heat moves between pages of two sets, as a program turns from some of its data to others: the
pages stay where they are, and it is for the kernel to move them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tierd.sim.memory import Memory, PageSet
from tierd.sim.spec import PAGE_BYTES


@dataclass(frozen=True, slots=True)
class Place:
    """Make a set known if it is new, and fault in so many bytes of it: first node with room."""

    page_set: PageSet
    bytes: int
    nodes: tuple[int, ...]
    at_us: int = 0


@dataclass(frozen=True, slots=True)
class Release:
    """Free so many bytes of a set."""

    name: str
    bytes: int
    at_us: int


@dataclass(frozen=True, slots=True)
class Shift:
    """A share of one set cools down, and as much of another heats up in its place.

    With `every_us` it comes again. A share of 1 is a jump to other data, a small one is drift.
    """

    hot: str
    cold: str
    share: float
    at_us: int
    every_us: int = 0


@dataclass(frozen=True, slots=True)
class Heat:
    """A set is accessed at another rate from now on."""

    name: str
    rate_hz: float
    at_us: int


Event = Place | Release | Shift | Heat


class Workload:
    """The events that are still to come."""

    def __init__(self, events: Sequence[Event], seed: int) -> None:
        self._rng = Random(seed)
        self._pending: list[tuple[int, Event]] = sorted(
            ((event.at_us, event) for event in events), key=lambda item: item[0]
        )

    @property
    def due_us(self) -> int | None:
        """When the next event is due; None when there is none left."""
        return self._pending[0][0] if self._pending else None

    def add(self, event: Event, now_us: int) -> None:
        """One more, at its time or at once if that has gone by."""
        self._insert(max(event.at_us, now_us), event)

    def run(self, memory: Memory, now_us: int) -> None:
        """Do all that is due."""
        while self._pending and self._pending[0][0] <= now_us:
            due_us, event = self._pending.pop(0)
            self._do(memory, event, due_us)
            if isinstance(event, Shift) and event.every_us:
                self._insert(due_us + event.every_us, event)

    def _insert(self, due_us: int, event: Event) -> None:
        self._pending.append((due_us, event))
        # The sort is stable: events of one moment keep their order.
        self._pending.sort(key=lambda item: item[0])

    def _do(self, memory: Memory, event: Event, now_us: int) -> None:
        match event:
            case Place():
                if event.page_set not in memory.sets:
                    memory.add_set(event.page_set)
                pages = event.bytes // PAGE_BYTES
                memory.populate(event.page_set.name, pages, event.nodes, now_us)
            case Release():
                memory.release(event.name, event.bytes // PAGE_BYTES)
            case Heat():
                memory.set_rate(event.name, event.rate_hz)
            case Shift():
                self._shift(memory, event)

    def _shift(self, memory: Memory, event: Shift) -> None:
        """Swap the heat of a run of pages: data that is used together lies together."""
        hot = memory.find(event.hot, len(memory.held))
        cold = memory.find(event.cold, len(memory.held))
        count = min(round(len(hot) * event.share), len(cold))
        cools = _run(hot, count, self._rng)
        heats = _run(cold, count, self._rng)
        memory.exchange(cools, event.cold)
        memory.exchange(heats, event.hot)


def _run(blocks: list[int], count: int, rng: Random) -> list[int]:
    """So many blocks from a random place on, around the end."""
    if not count:
        return []
    start = rng.randrange(len(blocks))
    return (blocks[start:] + blocks[:start])[:count]
