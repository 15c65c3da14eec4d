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
from tierd.sim.workload import ChangeRate, Place, Scatter, Shift, WorkloadEvent

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

# The processors of a machine, for its fast memory: 2 x 64 in a machine of 2 x 512 GiB.
GIB_PER_CPU = 8

# Shares of a node that are in use at the start.
FAST_USED = 0.97
SLOW_USED = 0.8

# Sizes of hot sets, as shares of the fast nodes (`scattered`: of the slow node).
CONTIGUOUS_SHARE = 0.64
SCATTERED_SHARE = 0.1
SMALL_SHARE = 0.00045
DRIFTING_SHARE = 0.2
HUGETLB_HOT_SHARE = 0.3
SMALL_BYTES_MIN = 8 * MIB

# Each of these sets is hot once in a period, one after another.
PERIODIC_SETS = 12
PERIOD_S = 12

HOT = "hot"
COLD = "cold"
STORE = "store"


@dataclass(frozen=True, slots=True)
class Size:
    """The sizes of a machine's nodes in GiB. Each fast node has CPUs; the others have none."""

    fast_gib: tuple[int, ...]
    slow_gib: int
    middle_gib: int = 0
    """A node between the two, in a tier of its own; 0 if there is none."""

    @property
    def name(self) -> str:
        first, *others = self.fast_gib
        fast = f"{len(self.fast_gib)}x{first}" if others else str(first)
        return "+".join(
            [fast, *([str(self.middle_gib)] if self.middle_gib else []), str(self.slow_gib)]
        )

    @property
    def fast_nodes(self) -> tuple[int, ...]:
        return tuple(range(len(self.fast_gib)))

    @property
    def middle_nodes(self) -> tuple[int, ...]:
        return (len(self.fast_gib),) if self.middle_gib else ()

    @property
    def slow_node(self) -> int:
        return len(self.fast_gib) + len(self.middle_nodes)

    @property
    def above_gib(self) -> tuple[int, ...]:
        """The sizes of all nodes but the slow one."""
        return (*self.fast_gib, self.middle_gib)[: self.slow_node]

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
    Size((512,), 1024, middle_gib=512),
)


def machine(size: Size) -> MachineModel:
    """Return the machine. The slow node is equally near to all fast nodes, as behind a switch."""
    nodes = []
    first = 0
    for node, gib in enumerate(size.fast_gib):
        cpus = tuple(range(first, first + max(1, gib // GIB_PER_CPU)))
        nodes.append(MachineNode(node, gib * 1024, cpus, node, 100, 200_000))
        first += len(cpus)
    for node in size.middle_nodes:
        nodes.append(MachineNode(node, size.middle_gib * 1024, (), 0, 170, 100_000))
    slow = size.slow_node
    nodes.append(MachineNode(slow, size.slow_gib * 1024, (), 0, 250, 60_000))
    distances = tuple(tuple(10 if one.id == other.id else 20 for other in nodes) for one in nodes)
    middle = (("memory_tier10", size.middle_nodes),) if size.middle_nodes else ()
    tiers = (("memory_tier4", size.fast_nodes), *middle, ("memory_tier22", (slow,)))
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
    huge_share: float = 0.0
    """The share of the cold memory of fast nodes that is hugetlb pages, which no scheme moves."""
    stalls: bool = False
    """True if allocations of a program wait all the time that nothing of this machine is for."""


def cell_pages(size: Size, heat: Heat) -> int:
    """Return the pages of a cell: as many as the smallest node and the chunks allow."""
    least = min(*size.above_gib, size.slow_gib) * GIB // CELLS
    return min(least, heat.chunk_bytes or least) // PAGE_BYTES


def lay(memory: Memory, size: Size, heat: Heat, seed: int) -> None:
    """Scatter the hot set, or take memory as huge pages, if the heat is of that kind."""
    assert isinstance(memory, GroupMemory)
    if heat.huge_share:
        _reserve(memory, size, heat.huge_share)
    if heat.chunk_bytes is None:
        return
    cells = heat.chunk_bytes // memory.cell_bytes
    cold = [cell for cell, _, _ in memory.groups(memory.set_index(COLD), size.slow_node)]
    chunks = [cold[at : at + cells] for at in range(0, len(cold) - cells + 1, cells)]
    count = max(1, round(size.slow_bytes * SCATTERED_SHARE / heat.chunk_bytes))
    memory.add_set(PageSet(HOT, HOT_HZ))
    for chunk in Random(seed).sample(chunks, min(count, len(chunks))):
        memory.exchange(chunk, HOT)


def _reserve(memory: GroupMemory, size: Size, share: float) -> None:
    """Take a share of the cold memory of fast nodes off all lists, as hugetlb pages are."""
    for node in size.fast_nodes:
        groups = memory.groups(memory.set_index(COLD), node)
        for cell, key, pages in groups[: round(len(groups) * share)]:
            memory.remove(cell, key, pages)


def share_on(memory: Memory, nodes: Iterable[int]) -> float:
    """Return the share of all pages of sets that is on these nodes."""
    pages = {
        node: sum(memory.pages_of_set(one.name, node) for one in memory.sets)
        for node in memory.nodes
    }
    return sum(pages[node] for node in nodes) / sum(pages.values())


def _filled(size: Size) -> Iterator[WorkloadEvent]:
    for node, gib in enumerate(size.above_gib):
        yield Place(PageSet(COLD), round(gib * GIB * FAST_USED), (node,))


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


# So much of a drifting set cools down every few seconds, and as much of the slow node heats up.
DRIFT_SHARE = 0.02
DRIFT_S = 10


def _drifting(size: Size) -> Iterator[WorkloadEvent]:
    yield from _in_one_piece(DRIFTING_SHARE)(size)
    every_us = DRIFT_S * 1_000_000
    yield Shift(HOT, COLD, DRIFT_SHARE, every_us, every_us, heats_on=size.slow_node)


def _scattered(size: Size) -> Iterator[WorkloadEvent]:
    yield from _filled(size)
    yield Place(PageSet(COLD), round(size.slow_bytes * SLOW_USED), (size.slow_node,))


def _used_bytes(size: Size) -> float:
    return sum(size.above_gib) * GIB * FAST_USED + size.slow_bytes * SLOW_USED


def _alike(rate_hz: float) -> Callable[[Size], Iterator[WorkloadEvent]]:
    def events(size: Size) -> Iterator[WorkloadEvent]:
        used = _used_bytes(size)
        nodes = tuple(range(size.slow_node + 1))
        yield Place(PageSet(HOT, rate_hz, at_random=True), round(used), nodes)

    return events


def _periodic(size: Size) -> Iterator[WorkloadEvent]:
    used = _used_bytes(size)
    nodes = tuple(range(size.slow_node + 1))
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
    used = round(_used_bytes(size))
    made = zipf.store(STORE, used, skew=ZIPF_SKEW, mean_hz=ZIPF_MEAN_HZ)
    yield Scatter(made.sets, tuple(range(size.slow_node + 1)))


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
    Heat("drifting", _drifting),
    Heat("hugetlb", _in_one_piece(HUGETLB_HOT_SHARE), huge_share=0.5),
    Heat("pressure", _in_one_piece(DRIFTING_SHARE), stalls=True),
)
