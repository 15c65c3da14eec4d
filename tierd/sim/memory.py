"""Physical memory: the content of each block, and allocation, migration and kswapd.

* A block is a folio. It is one page, or a power of two of pages on machines that are too large to
  keep every page. (The kernel's "memory blocks" are something else: see memory_blocks.py.)
* A block is free, belongs to the kernel, or belongs to a page set of the workload. The set says
  how often its pages are accessed. Nothing else is stored about a page.
* `held` has one byte per block, so that C code can count the blocks of a set in a range.
* The accessed bit of a page is drawn at random when it is read.
* The zone watermarks limit allocation (get_page_from_freelist()). There is no direct reclaim: an
  allocation may go down to `min`, and it wakes kswapd below `low`. kswapd demotes until `high`.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import exp
from random import Random

from tierd.sim.context_spec import Range
from tierd.sim.machine_model import MachineModel
from tierd.sim.zones import ZoneSpec, node_ranges, zone_specs

ABSENT = 0  # a hole
RESERVED = 1  # present, but never given to the page allocator
KERNEL = 2  # allocated and not on an LRU list: DAMON sees no folio there
FREE = 3
FIRST_SET = 4

# What an idle kernel has allocated after boot, on its first node and on each other node.
_KERNEL_BYTES_FIRST = 14_500 * 4096
_KERNEL_BYTES_OTHER = 3_000 * 4096
_MAX_SETS = 256 - FIRST_SET
# In one run kswapd looks at each block at most this often: first to clear its accessed bit, then
# to see whether it was accessed again.
_SCAN_ROUNDS = 2
_RECLAIM_PAGES = 32  # SWAP_CLUSTER_MAX
# The assumed time between two looks at a page. A run of kswapd takes no virtual time.
_LRU_ROUND_US = 1_000_000
# The order of an LRU list does not depend on addresses. So the scan goes around the node in
# strides. They visit every block if the number of blocks is not a multiple of this prime.
_HAND_STRIDE = 1_000_003


@dataclass(frozen=True, slots=True)
class PageSet:
    """Pages of equal heat: each page is accessed `rate_hz` times a second.

    The accesses of a page are evenly spaced, as of a program that goes through its pages in turn.
    With `at_random` they are a Poisson process, as of a program that picks pages at random.
    """

    name: str
    rate_hz: float = 0.0
    at_random: bool = False
    cgroup: str = "/"
    anon: bool = True

    def accessed_within(self, us: int) -> float:
        """Return the probability that a page is accessed within `us` microseconds."""
        accesses = self.rate_hz * us / 1e6
        return 1.0 - exp(-accesses) if self.at_random else min(1.0, accesses)


# Marks the index of a set that was forgotten. The next new set takes this index.
_VACANT = PageSet("")


@dataclass(slots=True)
class Zone:
    """The state of a zone; `free` is a stack: the block that was freed last is allocated first."""

    spec: ZoneSpec
    free: list[int]
    spare_pages: int  # managed pages that do not fill a whole block; they always stay free

    def room(self, mark_pages: int, block_pages: int) -> int:
        """Return how many blocks can be allocated while `mark_pages` pages stay free."""
        free_pages = len(self.free) * block_pages
        return max(0, (free_pages - mark_pages - self.spec.reserve_pages) // block_pages)


@dataclass(slots=True)
class NodeCounters:
    """The vmstat counters of a node that tiering changes, in pages."""

    pgpromote_success: int = 0
    pgpromote_candidate: int = 0
    pgdemote_kswapd: int = 0
    pgdemote_direct: int = 0
    pgdemote_khugepaged: int = 0


@dataclass(slots=True)
class Counters:
    """The machine-wide events of /proc/vmstat, in pages."""

    pgmigrate_success: int = 0
    pgmigrate_fail: int = 0
    pgalloc: int = 0
    pgfree: int = 0
    allocstall: int = 0
    pgscan_kswapd: int = 0
    pgsteal_kswapd: int = 0


@dataclass(slots=True)
class Node:
    """A node; its zones are in the order of allocation, the highest first."""

    nid: int
    zones: tuple[Zone, ...]
    counters: NodeCounters = field(default_factory=NodeCounters)
    kswapd_awake: bool = False
    hand: int = 0


class Memory:
    """The memory of a machine. All random numbers come from `rng`."""

    def __init__(
        self,
        machine: MachineModel,
        rng: Random,
        *,
        block_pages: int | None = None,
        min_free_kbytes: int | None = None,
        watermark_scale_factor: int = 10,
        thp: bool = True,
    ) -> None:
        self.machine = machine
        self.block_pages = block_pages or machine.block_pages
        self.page_bytes = machine.page_bytes
        self.block_bytes = self.block_pages * self.page_bytes
        self.ranges = node_ranges(machine)
        self.counters = Counters()
        self.demotion_enabled = False
        self.sets: list[PageSet] = []
        self._rng = rng
        specs = zone_specs(
            machine,
            min_free_kbytes=min_free_kbytes,
            watermark_scale_factor=watermark_scale_factor,
            thp=thp,
        )
        end = max(spec.range.end for spec in specs)
        nr_blocks = -(-end // self.block_bytes)
        self.held = bytearray(nr_blocks)
        # Blocks that were taken off their LRU list and never put back: reclaim and DAMON do not
        # find them.
        self.isolated: set[int] = set()
        self._accessed = bytearray(nr_blocks)
        self._cleared_us = array("Q", bytes(8 * nr_blocks))
        self.nodes = {
            nid: Node(nid, tuple(self._zone(spec) for spec in reversed(specs) if spec.nid == nid))
            for nid in self.ranges
        }
        zones = sorted(
            (zone for node in self.nodes.values() for zone in node.zones),
            key=lambda zone: zone.spec.range.start,
        )
        self._zones = zones
        self._zone_starts = [zone.spec.range.start // self.block_bytes for zone in zones]
        self._boot()

    # Sizes and contents.

    def managed_pages(self, nid: int) -> int:
        """Return MemTotal of the node, in pages."""
        return sum(zone.spec.managed_pages for zone in self.nodes[nid].zones)

    def free_pages(self, nid: int) -> int:
        """Return MemFree of the node, in pages."""
        return sum(self.zone_free_pages(zone) for zone in self.nodes[nid].zones)

    def zone_free_pages(self, zone: Zone) -> int:
        """Return nr_free_pages of the zone."""
        return len(zone.free) * self.block_pages + zone.spare_pages

    def free_permil(self) -> int:
        """Return the free part of all memory, in permil (damos_get_wmark_metric_value())."""
        free = sum(self.free_pages(nid) for nid in self.nodes)
        return free * 1000 // sum(self.managed_pages(nid) for nid in self.nodes)

    def pages_of_set(self, name: str, nid: int) -> int:
        """Return how many pages of a set are on the node."""
        value = self.set_index(name)
        return sum(
            self.held.count(value, *self._blocks_of(part)) * self.block_pages
            for part in self.ranges[nid]
        )

    def cgroup_pages(self, path: str, nid: int) -> int:
        """Return how many pages a cgroup and its children have on a node."""
        below = path.rstrip("/") + "/"
        return sum(
            self.pages_of_set(known.name, nid)
            for known in self.sets
            if known.cgroup == path or known.cgroup.startswith(below)
        )

    def active_bp(self, *, active: bool) -> int:
        """Return the share of LRU memory that is accessed (or not), in basis points."""
        pages = [
            (known.rate_hz > 0, sum(self.pages_of_set(known.name, nid) for nid in self.nodes))
            for known in self.sets
        ]
        total = sum(count for _, count in pages)
        return sum(count for hot, count in pages if hot == active) * 10_000 // max(1, total)

    def lru_pages(self, start: int, end: int) -> dict[int, int]:
        """Return the number of pages on LRU lists in an address range, by node."""
        found: dict[int, int] = {}
        for block in range(
            start // self.block_bytes, min(-(-end // self.block_bytes), len(self.held))
        ):
            if self.held[block] >= FIRST_SET:
                nid = self.nid_of(block)
                found[nid] = found.get(nid, 0) + self.block_pages
        return found

    def set_index(self, name: str) -> int:
        """Return the byte that stands for the set in `held`."""
        return FIRST_SET + [known.name for known in self.sets].index(name)

    def set_of(self, block: int) -> PageSet:
        """Return the set that a block belongs to."""
        return self.sets[self.held[block] - FIRST_SET]

    def nid_of(self, block: int) -> int:
        """Return the node of a block that is present."""
        return self._zone_of(block).spec.nid

    def next_demotion_node(self, nid: int) -> int | None:
        """Return the nearest node of the next lower tier (establish_demotion_targets())."""
        tiers = [set(nodes) for _, nodes in self.machine.tiers]
        at = next(index for index, nodes in enumerate(tiers) if nid in nodes)
        # A tier exists only while one of its nodes has memory.
        below = ({n for n in nodes if self.managed_pages(n)} for nodes in tiers[at + 1 :])
        lower = next((nodes for nodes in below if nodes), set())
        return min(lower, key=lambda other: self.distance(nid, other), default=None)

    def distance(self, nid: int, other: int) -> int:
        """Return the distance between two nodes, as the firmware gives it."""
        order = [node.id for node in self.machine.nodes]
        return self.machine.distances[order.index(nid)][order.index(other)]

    # Changes by the workload.

    def add_set(self, page_set: PageSet) -> None:
        """Add a set; it has no pages yet."""
        if page_set.name in (known.name for known in self.sets):
            raise ValueError(f"there is a set {page_set.name!r}")
        if _VACANT in self.sets:
            self.sets[self.sets.index(_VACANT)] = page_set
        elif len(self.sets) < _MAX_SETS:
            self.sets.append(page_set)
        else:
            raise ValueError(f"more than {_MAX_SETS} sets of pages")

    def forget_set(self, name: str) -> None:
        """Free all pages of a set and remove the set; its name can be used again."""
        self.release(name, len(self.held) * self.block_pages)
        self.sets[self.set_index(name) - FIRST_SET] = _VACANT

    def set_rate(self, name: str, rate_hz: float) -> None:
        """Change the access rate of a set."""
        index = self.set_index(name) - FIRST_SET
        self.sets[index] = replace(self.sets[index], rate_hz=rate_hz)

    def populate(self, name: str, pages: int, nids: Sequence[int], now_us: int = 0) -> int:
        """Fault in pages of a set, on the first node with room. Return how many found room.

        If all nodes are at their min watermarks, the allocation waits until kswapd has made room.
        There is no direct reclaim: kswapd is always fast enough.
        """
        value = self.set_index(name)
        want = -(-pages // self.block_pages)
        placed = 0
        while True:
            got = self.take(nids, want - placed)
            for block in got:
                self.held[block] = value
                self._accessed[block] = 1
            placed += len(got)
            if placed >= want:
                break
            self.counters.allocstall += 1
            free = sum(self.free_pages(nid) for nid in nids)
            self.run_kswapd(now_us)
            if sum(self.free_pages(nid) for nid in nids) == free:
                break
        return placed * self.block_pages

    def release(self, name: str, pages: int, nid: int | None = None) -> int:
        """Free pages of a set, lowest address first, on one node or on all."""
        blocks = self.find(name, -(-pages // self.block_pages), nid)
        for block in blocks:
            self.put(block)
        return len(blocks) * self.block_pages

    def find(self, name: str, most: int, nid: int | None = None, start: int = 0) -> list[int]:
        """Return up to `most` blocks of a set from `start` on, on one node or on all."""
        value = self.set_index(name)
        found: list[int] = []
        nodes = self.ranges.values() if nid is None else [self.ranges[nid]]
        for part in chain.from_iterable(nodes):
            first, end = self._blocks_of(part)
            at = self.held.find(value, max(first, start), end)
            while at >= 0 and len(found) < most:
                found.append(at)
                at = self.held.find(value, at + 1, end)
        return found

    def exchange(self, blocks: Iterable[int], name: str) -> None:
        """Give blocks to another set. The heat of the pages changes, but not their place."""
        value = self.set_index(name)
        for block in blocks:
            self.held[block] = value
            self._accessed[block] = 1  # one of the two sets has accessed it recently

    # Accesses.

    def test_and_clear_young(self, block: int, now_us: int, unsampled: float = 1.0) -> bool:
        """True if the block was accessed since the last call for it, or since its allocation.

        `unsampled` is the probability that access sampling has not cleared the bit since then.
        The simulation does not record which pages were sampled.
        """
        young = bool(self._accessed[block]) and (unsampled >= 1.0 or self._rng.random() < unsampled)
        if not young:
            since_us = max(0, now_us - self._cleared_us[block])
            young = self._rng.random() < self.set_of(block).accessed_within(since_us)
        self._accessed[block] = 0
        self._cleared_us[block] = now_us
        return young

    # The page allocator.

    def take(self, nids: Sequence[int], want: int) -> list[int]:
        """Allocate up to `want` blocks without direct reclaim, from the nodes in this order.

        First each zone is used down to its low watermark. If that is not enough, kswapd is woken
        and the zones are used down to min (the slow path of __alloc_pages()).
        """
        got = self._take_above(nids, want, low=True)
        if len(got) < want:
            for nid in nids:
                self.nodes[nid].kswapd_awake = True
            got += self._take_above(nids, want - len(got), low=False)
        self.counters.pgalloc += len(got) * self.block_pages
        return got

    def _take_above(self, nids: Sequence[int], want: int, *, low: bool) -> list[int]:
        got: list[int] = []
        for nid in nids:
            for zone in self.nodes[nid].zones:
                mark = zone.spec.low_pages if low else zone.spec.min_pages
                count = min(want - len(got), zone.room(mark, self.block_pages))
                if count > 0:
                    got += zone.free[: -count - 1 : -1]
                    del zone.free[-count:]
        return got

    def put(self, block: int) -> None:
        """Free a block."""
        self.held[block] = FREE
        self.isolated.discard(block)
        self._zone_of(block).free.append(block)
        self.counters.pgfree += self.block_pages

    # Migration.

    def migrate(self, blocks: Sequence[int], nids: Sequence[int]) -> int:
        """Move blocks to the first node with room (migrate_pages()). Return how many moved.

        The first block that finds no room counts as a failure and ends the batch, as -ENOMEM does.
        """
        targets = self.take(nids, len(blocks))
        for block, target in zip(blocks, targets, strict=False):
            self.held[target] = self.held[block]
            self._accessed[target] = self._accessed[block]
            self._cleared_us[target] = self._cleared_us[block]
            self.put(block)
        self.counters.pgmigrate_success += len(targets) * self.block_pages
        if len(targets) < len(blocks):
            self.counters.pgmigrate_fail += self.block_pages
        return len(targets)

    def fallback_order(self, nid: int) -> list[int]:
        """Return the node and then all others, nearest first, as in its zonelist."""
        return sorted(self.nodes, key=lambda other: (self.distance(nid, other), other))

    def run_kswapd(self, now_us: int) -> None:
        """Run every kswapd that was woken: it demotes until `high` if demotion is enabled."""
        for node in self.nodes.values():
            if node.kswapd_awake:
                node.kswapd_awake = False
                self._balance(node, now_us)

    def _balanced(self, node: Node) -> bool:
        """True if one zone is above its high watermark (pgdat_balanced())."""
        return any(
            zone.room(zone.spec.high_pages, self.block_pages) > 0
            or self.zone_free_pages(zone) >= zone.spec.high_pages + zone.spec.reserve_pages
            for zone in node.zones
        )

    def _balance(self, node: Node, now_us: int) -> None:
        target = self.next_demotion_node(node.nid)
        if not self.demotion_enabled or target is None:
            return
        steps = iter(range(_SCAN_ROUNDS * self._nr_blocks(node)))
        batch = max(1, _RECLAIM_PAGES // self.block_pages)
        while not self._balanced(node):
            victims = self._victims(node, batch, steps, now_us)
            moved = self.migrate(victims, [target]) * self.block_pages
            node.counters.pgdemote_kswapd += moved
            self.counters.pgsteal_kswapd += moved
            if not moved:
                break

    def _victims(self, node: Node, want: int, steps: Iterator[int], now_us: int) -> list[int]:
        """Return blocks that were not accessed since the scan last visited them."""
        parts = [range(*self._blocks_of(part)) for part in self.ranges[node.nid]]
        nr_blocks = self._nr_blocks(node)
        found: dict[int, None] = {}
        for step in steps:
            node.hand = (node.hand + _HAND_STRIDE) % nr_blocks
            block = _nth(parts, node.hand)
            if self.held[block] < FIRST_SET or block in found or block in self.isolated:
                continue
            self.counters.pgscan_kswapd += self.block_pages
            if not self.test_and_clear_young(block, now_us + step // nr_blocks * _LRU_ROUND_US):
                found[block] = None
                if len(found) == want:
                    break
        return list(found)

    def _nr_blocks(self, node: Node) -> int:
        return sum(len(range(*self._blocks_of(part))) for part in self.ranges[node.nid])

    # Start of the machine.

    def _zone(self, spec: ZoneSpec) -> Zone:
        blocks = range(-(-spec.range.start // self.block_bytes), spec.range.end // self.block_bytes)
        managed = spec.managed_pages // self.block_pages
        reserved = len(blocks) - managed
        self.held[blocks.start : blocks.stop] = bytes(
            [RESERVED] * reserved + [FREE] * (len(blocks) - reserved)
        )
        # The lowest address is on top of the stack.
        free = list(reversed(blocks[reserved:]))
        return Zone(spec, free, spec.managed_pages - len(free) * self.block_pages)

    def _boot(self) -> None:
        for index, nid in enumerate(sorted(self.nodes)):
            size = _KERNEL_BYTES_OTHER if index else _KERNEL_BYTES_FIRST
            for block in self.take([nid], -(-size // self.block_bytes)):
                self.held[block] = KERNEL
        self.counters = Counters()

    def _blocks_of(self, part: Range) -> tuple[int, int]:
        return part.start // self.block_bytes, part.end // self.block_bytes

    def _zone_of(self, block: int) -> Zone:
        return self._zones[bisect_right(self._zone_starts, block) - 1]


def _nth(parts: Sequence[range], index: int) -> int:
    for part in parts:
        if index < len(part):
            return part[index]
        index -= len(part)
    raise IndexError(index)
