"""Physical memory: what each block holds, and what allocation, migration and kswapd do to it.

* A block is a folio: one page, or a power of two of them for machines too large to keep page by
  page. It is free, the kernel's, or belongs to a set of the workload; the set says how often its
  pages are accessed, so that a page has no other identity.
* `held` is a byte per block, so that counting what a range holds runs at the speed of C.
* Whether a page was accessed since its bit was last cleared is drawn when it is asked for.
* Room is what the zone watermarks leave (get_page_from_freelist()): without direct reclaim an
  allocation may go down to `min` and wakes kswapd on its way; kswapd demotes from `low` to `high`.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import exp
from random import Random

from tierd.sim.machine import Machine
from tierd.sim.spec import PAGE_BYTES, Range
from tierd.sim.zones import ZoneSpec, node_ranges, zone_specs

ABSENT = 0  # a hole
RESERVED = 1  # present, but never given to the page allocator
KERNEL = 2  # allocated and not on an LRU list: DAMON sees no folio there
FREE = 3
FIRST_SET = 4

# What a booted, idle kernel has allocated on its first node and on each other, in pages.
_KERNEL_PAGES_FIRST = 14_500
_KERNEL_PAGES_OTHER = 3_000
_MAX_SETS = 256 - FIRST_SET
# kswapd looks at each block at most this often in one run: once to clear its bit, once to judge.
_SCAN_ROUNDS = 2
_RECLAIM_PAGES = 32  # SWAP_CLUSTER_MAX
# Between two looks at a page it had about this long to be accessed again: a run takes no time here.
_LRU_ROUND_US = 1_000_000
# LRU order has nothing to do with addresses: the hand goes around in strides, which visit every
# block as long as their number is no multiple of this prime.
_HAND_STRIDE = 1_000_003


@dataclass(frozen=True, slots=True)
class PageSet:
    """Pages of one heat: each is accessed `rate_hz` times a second.

    A program that goes through its pages in turn comes by evenly; one that picks them at random
    makes of each a Poisson process.
    """

    name: str
    rate_hz: float = 0.0
    at_random: bool = False
    cgroup: str = "/"
    anon: bool = True

    def accessed_within(self, us: int) -> float:
        """How likely one of its pages is accessed in so many microseconds."""
        accesses = self.rate_hz * us / 1e6
        return 1.0 - exp(-accesses) if self.at_random else min(1.0, accesses)


# The place of a set that was forgotten, until another takes it.
_VACANT = PageSet("")


@dataclass(slots=True)
class Zone:
    """A zone's state; `free` is a stack of blocks, so that what was freed last goes first."""

    spec: ZoneSpec
    free: list[int]
    spare_pages: int  # managed pages that make no whole block; they are free and stay so

    def room(self, mark_pages: int, block_pages: int) -> int:
        """How many blocks an allocation may take that must leave so many pages."""
        free_pages = len(self.free) * block_pages
        return max(0, (free_pages - mark_pages - self.spec.reserve_pages) // block_pages)


@dataclass(slots=True)
class NodeCounters:
    """The node's own vmstat counters that tiering moves, in pages."""

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
    """A node's zones, highest first, as allocation tries them."""

    nid: int
    zones: tuple[Zone, ...]
    counters: NodeCounters = field(default_factory=NodeCounters)
    kswapd_awake: bool = False
    hand: int = 0


class Memory:
    """The memory of a machine. Everything random comes from `rng`."""

    def __init__(
        self,
        machine: Machine,
        rng: Random,
        *,
        block_pages: int | None = None,
        min_free_kbytes: int | None = None,
        watermark_scale_factor: int = 10,
        thp: bool = True,
    ) -> None:
        self.machine = machine
        self.block_pages = block_pages or machine.block_pages
        self.block_bytes = self.block_pages * PAGE_BYTES
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
        # Blocks that were taken off their LRU list and not put back: nobody finds them there.
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

    # What it is.

    def managed_pages(self, nid: int) -> int:
        """MemTotal of the node, in pages."""
        return sum(zone.spec.managed_pages for zone in self.nodes[nid].zones)

    def free_pages(self, nid: int) -> int:
        """MemFree of the node, in pages."""
        return sum(self.zone_free_pages(zone) for zone in self.nodes[nid].zones)

    def zone_free_pages(self, zone: Zone) -> int:
        """nr_free_pages of the zone."""
        return len(zone.free) * self.block_pages + zone.spare_pages

    def free_permil(self) -> int:
        """damos_get_wmark_metric_value(): the free part of the whole machine."""
        free = sum(self.free_pages(nid) for nid in self.nodes)
        return free * 1000 // sum(self.managed_pages(nid) for nid in self.nodes)

    def set_pages(self, name: str, nid: int) -> int:
        """How many pages of a set the node holds."""
        value = self.set_index(name)
        return sum(
            self.held.count(value, *self._blocks_of(part)) * self.block_pages
            for part in self.ranges[nid]
        )

    def cgroup_pages(self, path: str, nid: int) -> int:
        """What a cgroup and all below it have on a node."""
        below = path.rstrip("/") + "/"
        return sum(
            self.set_pages(known.name, nid)
            for known in self.sets
            if known.cgroup == path or known.cgroup.startswith(below)
        )

    def active_bp(self, *, active: bool) -> int:
        """The share of LRU memory that is accessed at all, or that is not."""
        pages = [
            (known.rate_hz > 0, sum(self.set_pages(known.name, nid) for nid in self.nodes))
            for known in self.sets
        ]
        total = sum(count for _, count in pages)
        return sum(count for hot, count in pages if hot == active) * 10_000 // max(1, total)

    def lru_pages(self, start: int, end: int) -> dict[int, int]:
        """Pages on LRU lists in a range of addresses, by node."""
        found: dict[int, int] = {}
        for block in range(
            start // self.block_bytes, min(-(-end // self.block_bytes), len(self.held))
        ):
            if self.held[block] >= FIRST_SET:
                nid = self.nid_of(block)
                found[nid] = found.get(nid, 0) + self.block_pages
        return found

    def set_index(self, name: str) -> int:
        """The byte that stands for the set in `held`."""
        return FIRST_SET + [known.name for known in self.sets].index(name)

    def set_of(self, block: int) -> PageSet:
        """The set that a block belongs to."""
        return self.sets[self.held[block] - FIRST_SET]

    def nid_of(self, block: int) -> int:
        """The node of a block that is present."""
        return self._zone_of(block).spec.nid

    def next_demotion_node(self, nid: int) -> int | None:
        """The nearest node of the next lower tier (establish_demotion_targets())."""
        tiers = [set(nodes) for _, nodes in self.machine.tiers]
        at = next(index for index, nodes in enumerate(tiers) if nid in nodes)
        # A tier is there for as long as one of its nodes has memory.
        below = ({n for n in nodes if self.managed_pages(n)} for nodes in tiers[at + 1 :])
        lower = next((nodes for nodes in below if nodes), set())
        return min(lower, key=lambda other: self.distance(nid, other), default=None)

    def distance(self, nid: int, other: int) -> int:
        """The firmware's distance between two nodes."""
        order = [node.id for node in self.machine.nodes]
        return self.machine.distances[order.index(nid)][order.index(other)]

    # The workload's side.

    def add_set(self, page_set: PageSet) -> None:
        """Make a set known; it has no pages yet."""
        if page_set.name in (known.name for known in self.sets):
            raise ValueError(f"there is a set {page_set.name!r}")
        if _VACANT in self.sets:
            self.sets[self.sets.index(_VACANT)] = page_set
        elif len(self.sets) < _MAX_SETS:
            self.sets.append(page_set)
        else:
            raise ValueError(f"more than {_MAX_SETS} sets of pages")

    def forget_set(self, name: str) -> None:
        """Free all pages of a set; its name may be used anew."""
        self.release(name, len(self.held) * self.block_pages)
        self.sets[self.set_index(name) - FIRST_SET] = _VACANT

    def set_rate(self, name: str, rate_hz: float) -> None:
        """Access a set at another rate from now on."""
        index = self.set_index(name) - FIRST_SET
        self.sets[index] = replace(self.sets[index], rate_hz=rate_hz)

    def populate(self, name: str, pages: int, nids: Sequence[int], now_us: int = 0) -> int:
        """Fault in pages of a set, from the first node with room; how many there was room for.

        Whoever finds all nodes at their min watermarks stalls until kswapd has made room. Direct
        reclaim is not modelled: here kswapd is always as fast.
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
        """Free pages of a set, lowest address first, from one node or from all."""
        blocks = self.find(name, -(-pages // self.block_pages), nid)
        for block in blocks:
            self.put(block)
        return len(blocks) * self.block_pages

    def find(self, name: str, most: int, nid: int | None = None, start: int = 0) -> list[int]:
        """Up to so many blocks of a set from `start` on, on one node or on all."""
        value = self.set_index(name)
        found: list[int] = []
        for part in self._parts(nid):
            first, end = self._blocks_of(part)
            at = self.held.find(value, max(first, start), end)
            while at >= 0 and len(found) < most:
                found.append(at)
                at = self.held.find(value, at + 1, end)
        return found

    def exchange(self, blocks: Iterable[int], name: str) -> None:
        """Give blocks to another set: the pages' heat changes, their place does not."""
        value = self.set_index(name)
        for block in blocks:
            self.held[block] = value
            self._accessed[block] = 1  # by whom it was hot, or by whom it is now

    # Accesses.

    def test_and_clear_young(self, block: int, now_us: int, unsampled: float = 1.0) -> bool:
        """Whether the block was accessed since it was last asked, or since it was allocated.

        `unsampled` is how likely its bit still is as the last such question left it: access
        sampling clears bits too, of pages that nobody keeps account of.
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
        """Allocate up to so many blocks without direct reclaim, trying nodes in that order.

        First down to each zone's low watermark; if that is not enough, kswapd is woken and the
        rest may go down to min (the slow path of __alloc_pages()).
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
        """migrate_pages(): move blocks to the first of the nodes with room; how many moved.

        The first that finds no room is a failure and ends the batch, as -ENOMEM does.
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
        """The node and then all others, nearest first: its zonelist."""
        return sorted(self.nodes, key=lambda other: (self.distance(nid, other), other))

    def run_kswapd(self, now_us: int) -> None:
        """Let every kswapd that was woken do its work: demote until `high`, where it may."""
        for node in self.nodes.values():
            if node.kswapd_awake:
                node.kswapd_awake = False
                self._balance(node, now_us)

    def _balanced(self, node: Node) -> bool:
        """pgdat_balanced(): one zone above its high watermark is enough."""
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
        """Blocks that were not accessed since the hand last came by."""
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

    # How it begins.

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
            pages = _KERNEL_PAGES_OTHER if index else _KERNEL_PAGES_FIRST
            for block in self.take([nid], -(-pages // self.block_pages)):
                self.held[block] = KERNEL
        self.counters = Counters()

    def _blocks_of(self, part: Range) -> tuple[int, int]:
        return part.start // self.block_bytes, part.end // self.block_bytes

    def _parts(self, nid: int | None) -> list[Range]:
        if nid is not None:
            return list(self.ranges[nid])
        return [part for parts in self.ranges.values() for part in parts]

    def _zone_of(self, block: int) -> Zone:
        return self._zones[bisect_right(self._zone_starts, block) - 1]


def _nth(parts: Sequence[range], index: int) -> int:
    for part in parts:
        if index < len(part):
            return part[index]
        index -= len(part)
    raise IndexError(index)
