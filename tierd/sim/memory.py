"""Physical memory: nodes, zones, watermarks, and which part of it a set of pages has.

* A part of memory is free, belongs to the kernel, or belongs to a page set of the workload. The set
  says how often its pages are accessed.
* There are two ways to keep it: block_memory.py has one entry for each folio, and page_groups.py
  has groups of pages that are alike, for large machines.
* The zone watermarks limit allocation (get_page_from_freelist()). There is no direct reclaim: an
  allocation may go down to `min`, and it wakes kswapd below `low`. kswapd demotes until `high`. If
  it cannot, it swaps out, as far as there is swap.
* A page that was swapped out is gone: it is not read back, and its set has a page less.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from math import exp
from random import Random

from tierd.frozen import dataclass, replace
from tierd.sim.context_spec import Filter, FilterType
from tierd.sim.machine_model import MachineModel
from tierd.sim.zones import ZoneSpec, node_ranges, zone_specs

# What an idle kernel has allocated after boot, on its first node and on each other node.
_KERNEL_BYTES_FIRST = 14_500 * 4096
_KERNEL_BYTES_OTHER = 3_000 * 4096

# A look at a page of one process that is in the caches. A cold one takes up to a microsecond.
LOOK_NS = 100

# A set is known by a number of one byte. The first numbers stand for memory without a set.
FIRST_SET = 4
_MAX_SETS = 256 - FIRST_SET


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
    mapped: bool = True
    """Whether a program has it in its page tables. Page cache that is read and written is not."""

    def accessed_within(self, us: int) -> float:
        """Return the probability that a page is accessed within `us` microseconds."""
        accesses = self.rate_hz * us / 1e6
        return 1.0 - exp(-accesses) if self.at_random else min(1.0, accesses)


# Marks the index of a set that was forgotten. The next new set takes this index.
_VACANT = PageSet("")


@dataclass(slots=True)
class Zone(ABC):
    """The state of a zone; what was freed last is allocated first."""

    spec: ZoneSpec
    spare_pages: int
    """Managed pages that do not fill a whole block; they always stay free."""

    @property
    @abstractmethod
    def nr_free(self) -> int:
        """The free memory, in blocks."""

    def room(self, mark_pages: int, block_pages: int) -> int:
        """Return how many blocks can be allocated while `mark_pages` pages stay free."""
        free_pages = self.nr_free * block_pages
        return max(0, (free_pages - mark_pages - self.spec.reserve_pages) // block_pages)


@dataclass(slots=True)
class NodeCounters:
    """The vmstat counters of a node that tiering changes, in pages."""

    pgpromote_success: int = 0
    pgpromote_candidate: int = 0
    pgdemote_kswapd: int = 0
    pgdemote_direct: int = 0
    pgdemote_khugepaged: int = 0
    nr_vmscan_write: int = 0


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
    pswpout: int = 0


@dataclass(slots=True)
class Node:
    """A node; its zones are in the order of allocation, the highest first."""

    nid: int
    zones: tuple[Zone, ...]
    counters: NodeCounters = field(default_factory=NodeCounters)
    kswapd_awake: bool = False
    hand: int = 0


class Picked(ABC):
    """Pages that a scheme has come to, and that its filters let pass."""

    pages: int
    looked_at: int
    """How many pages on LRU lists the scheme looked at to find these."""

    @abstractmethod
    def away_from(self, nid: int) -> "Picked":
        """Return those that are on another node."""

    @abstractmethod
    def migrate(self, nids: Sequence[int]) -> tuple[int, "Picked"]:
        """Move them to the first node with room. Return how many pages moved, and the others."""

    @abstractmethod
    def free_files(self) -> int:
        """Free the pages that have a file behind them. Return how many these are."""

    @abstractmethod
    def swap_out(self) -> int:
        """Free the other pages, as far as there is room in swap. Return how many these are."""

    @abstractmethod
    def isolate(self) -> None:
        """Take them off their LRU list for good."""


# Returns the share of an address range that is accessed in one sample.
Accessed = Callable[[int, int], float]


class Memory(ABC):
    """The memory of a machine. All random numbers come from `rng`."""

    def __init__(
        self,
        machine: MachineModel,
        rng: Random,
        *,
        block_pages: int,
        min_free_kbytes: int | None = None,
        watermark_scale_factor: int = 10,
        thp: bool = True,
    ) -> None:
        self.machine = machine
        self.block_pages = block_pages
        self.page_bytes = machine.page_bytes
        self.block_bytes = self.block_pages * self.page_bytes
        self.ranges = node_ranges(machine)
        self.end_bytes = max(one.end for parts in self.ranges.values() for one in parts)
        self.counters = Counters()
        self.demotion_enabled = False
        self.look_ns = LOOK_NS
        """The time that a kdamond needs to look at one page."""
        self.swap_pages = 0
        self.sets: list[PageSet] = []
        self._rng = rng
        self._specs = zone_specs(
            machine,
            min_free_kbytes=min_free_kbytes,
            watermark_scale_factor=watermark_scale_factor,
            thp=thp,
        )
        self.nodes: dict[int, Node] = {}

    def _boot(self, zone: Callable[[ZoneSpec], Zone]) -> None:
        """Make the zones, and allocate what an idle kernel has."""
        self.nodes = {
            nid: Node(nid, tuple(zone(spec) for spec in reversed(self._specs) if spec.nid == nid))
            for nid in self.ranges
        }
        for index, nid in enumerate(sorted(self.nodes)):
            size = _KERNEL_BYTES_OTHER if index else _KERNEL_BYTES_FIRST
            self._take_for_kernel(nid, -(-size // self.block_bytes))
        self.counters = Counters()

    @abstractmethod
    def _take_for_kernel(self, nid: int, blocks: int) -> None:
        """Allocate memory on a node for the kernel."""

    # Sizes and contents.

    def managed_pages(self, nid: int) -> int:
        """Return MemTotal of the node, in pages."""
        return sum(zone.spec.managed_pages for zone in self.nodes[nid].zones)

    def free_pages(self, nid: int) -> int:
        """Return MemFree of the node, in pages."""
        return sum(self.zone_free_pages(zone) for zone in self.nodes[nid].zones)

    def zone_free_pages(self, zone: Zone) -> int:
        """Return nr_free_pages of the zone."""
        return zone.nr_free * self.block_pages + zone.spare_pages

    def free_permil(self) -> int:
        """Return the free part of all memory, in permil (damos_get_wmark_metric_value())."""
        free = sum(self.free_pages(nid) for nid in self.nodes)
        return free * 1000 // sum(self.managed_pages(nid) for nid in self.nodes)

    @abstractmethod
    def pages_of_set(self, name: str, nid: int) -> int:
        """Return how many pages of a set are on the node."""

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

    @abstractmethod
    def lru_pages(self, start: int, end: int) -> dict[int, int]:
        """Return the number of pages on LRU lists in an address range, by node."""

    def set_index(self, name: str) -> int:
        """Return the number of a set."""
        return FIRST_SET + [known.name for known in self.sets].index(name)

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
        for nid in self.nodes:
            self.release(name, self.pages_of_set(name, nid), nid)
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
        want = -(-pages // self.block_pages)
        placed = 0
        while True:
            placed += self._fault_in(name, want - placed, nids)
            if placed >= want:
                break
            self.counters.allocstall += 1
            free = sum(self.free_pages(nid) for nid in nids)
            self.run_kswapd(now_us)
            if sum(self.free_pages(nid) for nid in nids) == free:
                break
        return placed * self.block_pages

    @abstractmethod
    def _fault_in(self, name: str, blocks: int, nids: Sequence[int]) -> int:
        """Allocate blocks for a set. Return how many found room."""

    @abstractmethod
    def release(self, name: str, pages: int, nid: int | None = None) -> int:
        """Free pages of a set, lowest address first, on one node or on all."""

    @abstractmethod
    def mix(self, names: Sequence[str], rng: Random) -> None:
        """Give each set as many of the pages of these sets as it had, but others."""

    @abstractmethod
    def shift(
        self, hot: str, cold: str, share: float, rng: Random, heats_on: int | None = None
    ) -> None:
        """Swap the heat of a run of pages: data that is used together is stored together.

        The pages that heat up are on the node `heats_on`, or on any.
        """

    # Accesses.

    @abstractmethod
    def accessed(self, sample_us: int) -> Accessed:
        """Return what tells the share of a range that is accessed within a sample."""

    @abstractmethod
    def pick(
        self,
        start: int,
        end: int,
        filters: Sequence[Filter],
        now_us: int,
        unsampled: float,
        *,
        follows: bool = False,
    ) -> Picked:
        """Return the pages of an address range that are on LRU lists and that filters let pass.

        A `young` filter makes pages old. `unsampled` is the probability that access sampling has
        not made a page old since it was filled. If the visit `follows` one that ended at `start`, a
        block around this address was picked then.
        """

    # The page allocator.

    def grants(self, nids: Sequence[int], want: int) -> Iterator[tuple[Zone, int]]:
        """Yield zones, and how many blocks to allocate from each, without direct reclaim.

        First each zone is used down to its low watermark. If that is not enough, kswapd is woken
        and the zones are used down to min (the slow path of __alloc_pages()).
        """
        for low in (True, False):
            if not low and want:
                for nid in nids:
                    self.nodes[nid].kswapd_awake = True
            for zone in (zone for nid in nids for zone in self.nodes[nid].zones):
                mark = zone.spec.low_pages if low else zone.spec.min_pages
                count = min(want, zone.room(mark, self.block_pages))
                if count > 0:
                    want -= count
                    self.counters.pgalloc += count * self.block_pages
                    yield zone, count

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

    def swaps(self, nid: int, pages: int) -> int:
        """Count pages of a node that are written to swap. Return how many there is room for."""
        out = max(0, min(pages, self.swap_pages - self.counters.pswpout))
        out -= out % self.block_pages
        self.nodes[nid].counters.nr_vmscan_write += out
        self.counters.pswpout += out
        return out

    def _balance(self, node: Node, now_us: int) -> None:
        target = self.next_demotion_node(node.nid) if self.demotion_enabled else None
        if target is None and not self.swap_pages:
            return
        found = self._victims(node, now_us)
        while not self._balanced(node):
            moved = gone = 0
            for victims in found:
                left = victims
                if target is not None:
                    moved, left = victims.migrate([target])
                    node.counters.pgdemote_kswapd += moved
                # shrink_folio_list() reclaims what could not be demoted.
                gone = left.swap_out()
                break
            self.counters.pgsteal_kswapd += moved + gone
            if not moved + gone:
                break

    @abstractmethod
    def _victims(self, node: Node, now_us: int) -> Iterator[Picked]:
        """Yield pages that were not accessed since the scan last visited them, in batches."""


def matches(known: Filter, page_set: PageSet, folio_bytes: int) -> bool:
    """True if a filter other than `young` matches a page."""
    match known.type:
        case FilterType.anon:
            return page_set.anon
        case FilterType.memcg:
            # Only this cgroup, not its children.
            return page_set.cgroup == known.path
        case FilterType.active:
            return page_set.rate_hz > 0
        case FilterType.unmapped:
            return not page_set.mapped
        case FilterType.hugepage_size:
            return known.min <= folio_bytes <= known.max
        case _:
            return False
