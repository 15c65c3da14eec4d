"""Memory that is kept block by block.

* A block is a folio. It is one page, or a power of two of pages on machines that are too large to
  keep every page. (The kernel's "memory blocks" are something else: see memory_blocks.py.)
* `held` has one byte per block, so that C code can count the blocks of a set in a range.
* The accessed bit of a block is drawn at random when it is read.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random

from tierd.sim.context_spec import Filter, FilterType, Range
from tierd.sim.machine_model import MachineModel
from tierd.sim.memory import FIRST_SET, Accessed, Memory, Node, PageSet, Picked, Zone, matches
from tierd.sim.zones import ZoneSpec

# What a block is, if it belongs to no set.
ABSENT = 0  # a hole
RESERVED = 1  # present, but never given to the page allocator
KERNEL = 2  # allocated and not on an LRU list: DAMON sees no folio there
FREE = 3

# to see whether it was accessed again.
_SCAN_ROUNDS = 2
_RECLAIM_PAGES = 32  # SWAP_CLUSTER_MAX
# The assumed time between two looks at a page. A run of kswapd takes no virtual time.
_LRU_ROUND_US = 1_000_000
# The order of an LRU list does not depend on addresses. So the scan goes around the node in
# strides. They visit every block if the number of blocks is not a multiple of this prime.
_HAND_STRIDE = 1_000_003


@dataclass(slots=True)
class BlockZone(Zone):
    """A zone; `free` is a stack."""

    free: list[int]

    @property
    def nr_free(self) -> int:
        """The free memory, in blocks."""
        return len(self.free)


class BlockMemory(Memory):
    """The memory of a machine, block by block."""

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
        super().__init__(
            machine,
            rng,
            block_pages=block_pages or machine.block_pages,
            min_free_kbytes=min_free_kbytes,
            watermark_scale_factor=watermark_scale_factor,
            thp=thp,
        )
        end = max(spec.range.end for spec in self._specs)
        nr_blocks = -(-end // self.block_bytes)
        self.held = bytearray(nr_blocks)
        # Blocks that were taken off their LRU list and never put back: reclaim and DAMON do not
        # find them.
        self.isolated: set[int] = set()
        self._accessed = bytearray(nr_blocks)
        self._cleared_us = array("Q", bytes(8 * nr_blocks))
        self.zones: list[BlockZone] = []
        self._zone_starts: list[int] = []
        self._boot(self._zone)

    def _zone(self, spec: ZoneSpec) -> BlockZone:
        blocks = range(-(-spec.range.start // self.block_bytes), spec.range.end // self.block_bytes)
        managed = spec.managed_pages // self.block_pages
        reserved = len(blocks) - managed
        self.held[blocks.start : blocks.stop] = bytes(
            [RESERVED] * reserved + [FREE] * (len(blocks) - reserved)
        )
        # The lowest address is on top of the stack.
        free = list(reversed(blocks[reserved:]))
        zone = BlockZone(spec, spec.managed_pages - len(free) * self.block_pages, free)
        self.zones.append(zone)
        self.zones.sort(key=lambda known: known.spec.range.start)
        self._zone_starts = [known.spec.range.start // self.block_bytes for known in self.zones]
        return zone

    def _take_for_kernel(self, nid: int, blocks: int) -> None:
        for block in self.take([nid], blocks):
            self.held[block] = KERNEL

    # Sizes and contents.

    def pages_of_set(self, name: str, nid: int) -> int:
        """Return how many pages of a set are on the node."""
        value = self.set_index(name)
        return sum(
            self.held.count(value, *self._blocks_of(part)) * self.block_pages
            for part in self.ranges[nid]
        )

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

    def set_of(self, block: int) -> PageSet:
        """Return the set that a block belongs to."""
        return self.sets[self.held[block] - FIRST_SET]

    def nid_of(self, block: int) -> int:
        """Return the node of a block that is present."""
        return self._zone_of(block).spec.nid

    # Changes by the workload.

    def _fault_in(self, name: str, blocks: int, nids: Sequence[int]) -> int:
        value = self.set_index(name)
        got = self.take(nids, blocks)
        for block in got:
            self.held[block] = value
            self._accessed[block] = 1
        return len(got)

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

    def mix(self, names: Sequence[str], rng: Random) -> None:
        """Give each set as many of the pages of these sets as it had, but others."""
        found = [self.find(name, len(self.held)) for name in names]
        blocks = [block for known in found for block in known]
        rng.shuffle(blocks)
        for name, known in zip(names, found, strict=True):
            self.exchange(blocks[: len(known)], name)
            del blocks[: len(known)]

    def shift(
        self, hot: str, cold: str, share: float, rng: Random, heats_on: int | None = None
    ) -> None:
        """Swap the heat of a run of pages: data that is used together is stored together."""
        heated = self.find(hot, len(self.held))
        cooled = self.find(cold, len(self.held), heats_on)
        count = min(round(len(heated) * share), len(cooled))
        cools, heats = _run(heated, count, rng), _run(cooled, count, rng)
        self.exchange(cools, cold)
        self.exchange(heats, hot)

    # Accesses.

    def accessed(self, sample_us: int) -> Accessed:
        """Return what tells the share of a range that is accessed within a sample."""
        count, size = self.held.count, self.block_bytes
        heats = [
            (FIRST_SET + index, known.accessed_within(sample_us))
            for index, known in enumerate(self.sets)
            if known.rate_hz > 0
        ]

        def share(start: int, end: int) -> float:
            first, last = start // size, -(-end // size)
            found = 0.0
            for value, chance in heats:
                held = count(value, first, last)
                if held:
                    found += held * chance
            return found / (last - first)

        return share

    def pick(
        self,
        start: int,
        end: int,
        filters: Sequence[Filter],
        now_us: int,
        unsampled: float,
        *,
        follows: bool = False,
    ) -> "PickedBlocks":
        """Return the blocks of a range that are on LRU lists and that filters let pass."""
        held, size = self.held, self.block_bytes
        # pfn_to_online_page(): there is nothing beyond the last page.
        first = -(-start // size) if follows else start // size
        blocks = range(first, min(-(-end // size), len(held)))
        folios = [block for block in blocks if held[block] >= FIRST_SET]
        if self.isolated:
            folios = [block for block in folios if block not in self.isolated]
        looked_at = len(folios)
        if filters:
            folios = [block for block in folios if self._allowed(filters, block, now_us, unsampled)]
        return PickedBlocks(self, folios, looked_at)

    def _allowed(
        self, filters: Sequence[Filter], block: int, now_us: int, unsampled: float
    ) -> bool:
        for known in filters:
            if known.type is FilterType.young:
                matched = self.test_and_clear_young(block, now_us, unsampled)
            else:
                matched = matches(known, self.set_of(block), self.block_bytes)
            if matched == known.matching:
                return known.allow
        # damos_filters_default_reject(): if the last filter allows pages, all others are rejected.
        return not filters[-1].allow

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
        """Allocate up to `want` blocks, from the nodes in this order."""
        got: list[int] = []
        for zone, count in self.grants(nids, want):
            assert isinstance(zone, BlockZone)
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

    def _victims(self, node: Node, now_us: int) -> Iterator["PickedBlocks"]:
        """Yield batches of blocks that were not accessed since the scan last visited them."""
        parts = [range(*self._blocks_of(part)) for part in self.ranges[node.nid]]
        nr_blocks = sum(map(len, parts))
        want = max(1, _RECLAIM_PAGES // self.block_pages)
        found: dict[int, None] = {}
        for step in range(_SCAN_ROUNDS * nr_blocks):
            node.hand = (node.hand + _HAND_STRIDE) % nr_blocks
            block = _nth(parts, node.hand)
            if self.held[block] < FIRST_SET or block in found or block in self.isolated:
                continue
            self.counters.pgscan_kswapd += self.block_pages
            if not self.test_and_clear_young(block, now_us + step // nr_blocks * _LRU_ROUND_US):
                found[block] = None
                if len(found) == want:
                    yield PickedBlocks(self, list(found))
                    found = {}
        yield PickedBlocks(self, list(found))

    def _blocks_of(self, part: Range) -> tuple[int, int]:
        return part.start // self.block_bytes, part.end // self.block_bytes

    def _zone_of(self, block: int) -> BlockZone:
        return self.zones[bisect_right(self._zone_starts, block) - 1]


class PickedBlocks(Picked):
    """Blocks that a scheme has come to."""

    def __init__(self, memory: BlockMemory, blocks: list[int], looked_at: int = 0) -> None:
        self.pages = len(blocks) * memory.block_pages
        self.looked_at = looked_at * memory.block_pages
        self.blocks = blocks
        self._memory = memory

    def away_from(self, nid: int) -> "PickedBlocks":
        """Return those that are on another node."""
        memory = self._memory
        return PickedBlocks(memory, [one for one in self.blocks if memory.nid_of(one) != nid])

    def migrate(self, nids: Sequence[int]) -> tuple[int, "PickedBlocks"]:
        """Move them to the first node with room. Return how many pages moved, and the others."""
        memory = self._memory
        moved = memory.migrate(self.blocks, nids)
        return moved * memory.block_pages, PickedBlocks(memory, self.blocks[moved:])

    def free_files(self) -> int:
        """Free the pages that have a file behind them. Return how many these are."""
        memory = self._memory
        gone = [block for block in self.blocks if not memory.set_of(block).anon]
        for block in gone:
            memory.put(block)
        return len(gone) * memory.block_pages

    def swap_out(self) -> int:
        """Free the other pages, as far as there is room in swap. Return how many these are."""
        memory, size = self._memory, self._memory.block_pages
        anon = [block for block in self.blocks if memory.set_of(block).anon]
        gone = [block for block in anon if memory.swaps(memory.nid_of(block), size)]
        for block in gone:
            memory.put(block)
        return len(gone) * size

    def isolate(self) -> None:
        """Take them off their LRU list for good."""
        self._memory.isolated.update(self.blocks)


def _nth(parts: Sequence[range], index: int) -> int:
    for part in parts:
        if index < len(part):
            return part[index]
        index -= len(part)
    raise IndexError(index)


def _run(blocks: list[int], count: int, rng: Random) -> list[int]:
    """Return `count` blocks in a row from a random start; after the end comes the beginning."""
    if not count:
        return []
    start = rng.randrange(len(blocks))
    return (blocks[start:] + blocks[:start])[:count]
