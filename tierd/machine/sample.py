"""The counters of nodes, schemes and memory pressure at one moment, as values.

`sample_reader.py` reads them.
"""

from collections.abc import Mapping
from dataclasses import field

from tierd.frozen import dataclass

# The kernel's name for the pages of a node that reclaim wrote out. All of them go to swap, because
# reclaim writes no pages of files.
SWAPPED = "nr_vmscan_write"

# The kernel's names for the pages that hint faults brought up to a node, and for those that they
# would have brought up with no limit and with room for all (should_numa_migrate_memory()).
PROMOTED = "pgpromote_success"
PROMOTION_ASKED = "pgpromote_candidate"


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The sum of a node's zone watermarks, without the temporary boost.

    Below `low` kswapd starts. It stops at `high`, or at `promo` in NUMA balancing's tiering mode.
    Below `min` an allocation has to wait.
    """

    node: int
    min_bytes: int
    low_bytes: int
    high_bytes: int
    promo_bytes: int
    reserve_bytes: int
    """The memory in the lower zones that the kernel always keeps free; programs never get it."""

    @property
    def floor_bytes(self) -> int:
        """The bytes that the kernel keeps free by itself: a smaller goal cannot be reached."""
        return self.high_bytes + self.reserve_bytes


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the processors of a node exchanged with its memory, and how much they can at most."""

    total_bytes: int
    most_bytes_per_s: int


@dataclass(frozen=True, slots=True)
class Latency:
    """How long a processor near a fast node waits for memory of a node, now."""

    near: int
    """The fast node."""
    node: int
    ns: float


@dataclass(frozen=True, slots=True)
class NodeSample:
    """A node's size and free memory in bytes, and its counters since boot in pages."""

    node: int
    total_bytes: int
    free_bytes: int
    counters: tuple[tuple[str, int], ...]
    """pgpromote_*, pgdemote_* and nr_vmscan_write. The kernel's names differ between kernels."""
    huge_bytes: int = 0
    """The bytes in transparent huge pages of programs; 0 if the kernel has none."""
    traffic: Traffic | None = None
    """None if the machine does not count it, or firmware does not tell the bandwidth."""

    @property
    def used_bytes(self) -> int:
        return self.total_bytes - self.free_bytes

    @property
    def swapped_pages(self) -> int:
        """The pages that reclaim has written to swap from this node since boot."""
        return dict(self.counters).get(SWAPPED, 0)

    @property
    def promoted_pages(self) -> int:
        """The pages that hint faults have brought up to this node since boot."""
        return dict(self.counters).get(PROMOTED, 0)


@dataclass(frozen=True, slots=True)
class SchemeSample:
    """A scheme's statistics since its kdamond was turned on, and its current quota."""

    index: int
    sz_tried: int
    sz_applied: int
    qt_exceeds: int
    effective_bytes: int


@dataclass(frozen=True, slots=True)
class KdamondSample:
    """One of tierd's kdamonds."""

    index: int
    state: str
    pid: int
    schemes: tuple[SchemeSample, ...]
    sensed: Mapping[int, int] = field(default_factory=dict)
    """The sz_tried of the schemes that only count memory, by their index."""
    counted_regions: int = 0
    """The nr_tried of the first of them, which counts all memory."""


@dataclass(frozen=True, slots=True)
class Pressure:
    """The time that some task has waited for memory since boot."""

    some_us: int


@dataclass(frozen=True, slots=True)
class VmEvents:
    """What the kernel has counted on the whole machine since boot."""

    allocated_pages: int
    major_faults: int


@dataclass(frozen=True, slots=True)
class GroupSample:
    """The memory of a group of cgroups on each node, in bytes."""

    name: str
    node_bytes: Mapping[int, int]
    low_bytes: int = 0
    """What memory.min or memory.low protects."""
    high_bytes: int | None = None
    """What memory.high or memory.max allows; None if that has no limit."""


@dataclass(frozen=True, slots=True)
class Sample:
    """All counters at one moment; the caller computes rates from two samples."""

    monotonic_s: float
    nodes: tuple[NodeSample, ...]
    watermarks: tuple[Watermarks, ...]
    kdamonds: tuple[KdamondSample, ...]
    pressure: Pressure | None
    """None if the kernel does not measure pressure (PSI)."""
    pgmigrate_success: int
    pgmigrate_fail: int
    allocstall: int
    """The allocations that had to reclaim memory themselves, in all zones."""
    groups: tuple[GroupSample, ...] = ()
    latencies: tuple[Latency, ...] = ()
    """Those that were read now; most samples have none."""

    def node(self, node_id: int) -> NodeSample:
        return next(node for node in self.nodes if node.node == node_id)
