"""Machines of any size, and where their heat lies: the cells of `bench.scale`. Pure but for `lay`.

A heat is a way to spread accesses over the memory of a machine. The fast nodes are full of cold
memory at the start, unless all memory is alike.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random

from tierd.sim import zipf
from tierd.sim.machine_model import PAGE_BYTES, MachineModel, MachineNode
from tierd.sim.memory import Memory, PageSet
from tierd.sim.page_groups import GroupMemory
from tierd.sim.workload import ChangeRate, Place, Scatter, WorkloadEvent

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

# A fast node has this many cells of alike pages. A run takes as long as there are cells, and a
# scheme comes to the pages of a cell all at once: so many that a window at the least default rate
# (20 MB) has several cells.
CELLS = 16_384

# Accesses per second to each page of a hot set: half of the samples of 5 ms find one.
HOT_HZ = 100.0
# A page that is used once a second: one sample in two hundred finds it.
WARM_HZ = 1.0

# Shares of a node that are in use at the start.
FAST_USED = 0.97
SLOW_USED = 0.8

# Sizes of hot sets, as shares of the fast nodes (`scattered`: of the slow node).
CONTIGUOUS_SHARE = 0.64
SCATTERED_SHARE = 0.1
SMALL_SHARE = 0.00045
SMALL_BYTES_MIN = 8 * MIB

# Each of these sets is hot once in a period, one after another.
PERIODIC_SETS = 12
PERIOD_S = 12

HOT = "hot"
COLD = "cold"
STORE = "store"


@dataclass(frozen=True, slots=True)
class Size:
    """The sizes of a machine's nodes in GiB. Each fast node has CPUs; the slow node has none."""

    fast_gib: tuple[int, ...]
    slow_gib: int

    @property
    def name(self) -> str:
        first, *others = self.fast_gib
        return f"{len(self.fast_gib)}x{first}+{self.slow_gib}" if others else self._plain()

    def _plain(self) -> str:
        return f"{self.fast_gib[0]}+{self.slow_gib}"

    @property
    def fast_nodes(self) -> tuple[int, ...]:
        return tuple(range(len(self.fast_gib)))

    @property
    def slow_node(self) -> int:
        return len(self.fast_gib)

    @property
    def fast_bytes(self) -> int:
        return sum(self.fast_gib) * GIB

    @property
    def slow_bytes(self) -> int:
        return self.slow_gib * GIB


SIZES = (
    Size((4,), 12),
    Size((16,), 16),
    Size((32,), 96),
    Size((64,), 512),
    Size((512,), 1024),
    Size((512, 512), 1024),
)


def machine(size: Size) -> MachineModel:
    """Return the machine. The slow node is equally near to all fast nodes, as behind a switch."""
    nodes = [
        MachineNode(node, gib * 1024, (node,), node, 100, 200_000)
        for node, gib in enumerate(size.fast_gib)
    ]
    slow = size.slow_node
    nodes.append(MachineNode(slow, size.slow_gib * 1024, (), 0, 250, 60_000))
    distances = tuple(tuple(10 if one.id == other.id else 20 for other in nodes) for one in nodes)
    tiers = (("memory_tier4", size.fast_nodes), ("memory_tier22", (slow,)))
    return MachineModel(size.name, f"{size.name} GiB", tuple(nodes), distances, tiers, vm=False)


@dataclass(frozen=True, slots=True)
class Heat:
    """What uses the memory: events of the workload, and what is done after they are placed."""

    name: str
    events: Callable[[Size], Iterator[WorkloadEvent]]
    chunk_bytes: int | None = None
    """The size of the pieces in which a hot set lies scattered over the slow node."""
    moves_in_vain: bool = False
    """True if on average all pages are used alike, so that no placement is better than another."""


def cell_pages(size: Size, heat: Heat) -> int:
    """Return the pages of a cell: as many as the smallest node and the chunks allow."""
    least = min(*size.fast_gib, size.slow_gib) * GIB // CELLS
    return min(least, heat.chunk_bytes or least) // PAGE_BYTES


def lay(memory: Memory, size: Size, heat: Heat, seed: int) -> None:
    """Scatter the hot set, if the heat is of that kind."""
    if heat.chunk_bytes is None:
        return
    assert isinstance(memory, GroupMemory)
    cells = heat.chunk_bytes // memory.cell_bytes
    cold = [cell for cell, _, _ in memory.groups(memory.set_index(COLD), size.slow_node)]
    chunks = [cold[at : at + cells] for at in range(0, len(cold) - cells + 1, cells)]
    count = max(1, round(size.slow_bytes * SCATTERED_SHARE / heat.chunk_bytes))
    memory.add_set(PageSet(HOT, HOT_HZ))
    for chunk in Random(seed).sample(chunks, min(count, len(chunks))):
        memory.exchange(chunk, HOT)


def share_on(memory: Memory, nodes: Iterable[int]) -> float:
    """Return the share of all pages of sets that is on these nodes."""
    pages = {
        node: sum(memory.pages_of_set(one.name, node) for one in memory.sets)
        for node in memory.nodes
    }
    return sum(pages[node] for node in nodes) / sum(pages.values())


def _filled(size: Size) -> Iterator[WorkloadEvent]:
    for node in size.fast_nodes:
        yield Place(PageSet(COLD), round(size.fast_gib[node] * GIB * FAST_USED), (node,))


def _in_one_piece(share: float, least: int = 0) -> Callable[[Size], Iterator[WorkloadEvent]]:
    def events(size: Size) -> Iterator[WorkloadEvent]:
        slow = (size.slow_node,)
        hot_bytes = max(round(size.fast_bytes * share), least)
        hot_bytes = min(hot_bytes, round(size.slow_bytes * SLOW_USED / 2))
        yield from _filled(size)
        # The hot set begins somewhere in the node, not at its first address.
        yield Place(PageSet(COLD), size.slow_bytes // 10, slow)
        yield Place(PageSet(HOT, HOT_HZ), hot_bytes, slow)
        yield Place(PageSet(COLD), round(size.slow_bytes * (SLOW_USED - 0.1)) - hot_bytes, slow)

    return events


def _scattered(size: Size) -> Iterator[WorkloadEvent]:
    yield from _filled(size)
    yield Place(PageSet(COLD), round(size.slow_bytes * SLOW_USED), (size.slow_node,))


def _alike(rate_hz: float) -> Callable[[Size], Iterator[WorkloadEvent]]:
    def events(size: Size) -> Iterator[WorkloadEvent]:
        used = size.fast_bytes * FAST_USED + size.slow_bytes * SLOW_USED
        nodes = (*size.fast_nodes, size.slow_node)
        yield Place(PageSet(HOT, rate_hz, at_random=True), round(used), nodes)

    return events


def _periodic(size: Size) -> Iterator[WorkloadEvent]:
    used = size.fast_bytes * FAST_USED + size.slow_bytes * SLOW_USED
    nodes = (*size.fast_nodes, size.slow_node)
    turn_us = PERIOD_S * 1_000_000 // PERIODIC_SETS
    for number in range(PERIODIC_SETS):
        yield Place(PageSet(f"{HOT}{number}"), round(used / PERIODIC_SETS), nodes)
    # Hours of turns: longer than any run.
    for turn in range(PERIODIC_SETS * 100):
        now, before = turn % PERIODIC_SETS, (turn - 1) % PERIODIC_SETS
        if turn:
            yield ChangeRate(f"{HOT}{before}", 0.0, turn * turn_us)
        yield ChangeRate(f"{HOT}{now}", HOT_HZ, turn * turn_us)


# A store whose values have the heat of Zipf's law, on all pages of the machine. A page is accessed
# this often on average: 20 million accesses per second in 1.3 TiB.
ZIPF_SKEW = 0.99
ZIPF_MEAN_HZ = 0.057


def _zipf(size: Size) -> Iterator[WorkloadEvent]:
    used = round(size.fast_bytes * FAST_USED + size.slow_bytes * SLOW_USED)
    made = zipf.store(STORE, used, skew=ZIPF_SKEW, mean_hz=ZIPF_MEAN_HZ)
    yield Scatter(made.sets, (*size.fast_nodes, size.slow_node))


HEATS = (
    Heat("contiguous", _in_one_piece(CONTIGUOUS_SHARE)),
    Heat("small", _in_one_piece(SMALL_SHARE, SMALL_BYTES_MIN)),
    Heat("chunks-64M", _scattered, 64 * MIB),
    Heat("chunks-8M", _scattered, 8 * MIB),
    Heat("chunks-1M", _scattered, 1 * MIB),
    Heat("uniform", _alike(WARM_HZ), moves_in_vain=True),
    Heat("uniform-hot", _alike(HOT_HZ), moves_in_vain=True),
    Heat("periodic", _periodic, moves_in_vain=True),
    Heat("zipf", _zipf),
)
