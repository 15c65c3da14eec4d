"""The machine's memory: its nodes and tiers, and the nodes to which each node's pages move.

This file reads nothing: `tierd.machine.discovery` reads a topology from a machine.
"""

from itertools import takewhile

from tierd.errors import TierdError, Unsupported
from tierd.frozen import dataclass
from tierd.ranges import Range as Range
from tierd.ranges import Ranges, merge

# The size of an entry in a page table.
ENTRY_BYTES = 8

# A node falls back to so many nodes at most, in each direction, and they are equally near. Each is
# one scheme and one sweep more. So a plan for many sockets does not grow with their square.
FALLBACKS_MAX = 2

# Memory of another socket answers about so many times as late as its own. A node that is faster by
# less than that is no fallback for promotion: HBM of another socket may be slower than near DRAM.
OTHER_SOCKET_TIMES = 1.7


def huge_page_bytes(page_bytes: int) -> int:
    """Return the size of a transparent huge page: a table of pages, and a table fills a page."""
    return page_bytes // ENTRY_BYTES * page_bytes


@dataclass(frozen=True, slots=True)
class Performance:
    """Latency and bandwidth of a node from the firmware (HMAT); None if it does not say.

    The figures hold for the initiator (processor or device) that reaches the node fastest.
    """

    read_latency_ns: int | None
    write_latency_ns: int | None
    read_bandwidth_mbps: int | None
    write_bandwidth_mbps: int | None


@dataclass(frozen=True, slots=True)
class Node:
    """A NUMA node that has memory."""

    id: int
    size_bytes: int
    cpus: tuple[int, ...]
    ranges: tuple[Range, ...]
    distances: tuple[tuple[int, int], ...]
    """Pairs of (node id, distance), in node order."""
    performance: Performance | None
    """The figures for the best initiator of any kind (access class 0)."""
    cpu_performance: Performance | None = None
    """The figures for the best initiator with CPUs (access class 1)."""
    initiators: tuple[int, ...] = ()
    """The nodes that are initiators of access class 0."""
    tier_origin: str = ""
    """A text that says how the node got its tier."""
    caches: tuple[int, ...] = ()
    """The ids of the L3 caches of its processors, if their traffic is counted."""

    def distance(self, other: int) -> int:
        for node, distance in self.distances:
            if node == other:
                return distance
        raise TierdError(f"node {self.id} has no distance to node {other}")

    def addresses(self) -> Ranges:
        """Return its physical addresses, in few ranges. Raise Unsupported if they are not known."""
        ranges = merge(self.ranges)
        if not ranges:
            raise Unsupported(
                f"node {self.id}: its physical addresses are not known",
                "tierd reads them from /sys/devices/system/memory",
            )
        return ranges


@dataclass(frozen=True, slots=True)
class Tier:
    """Nodes of one speed; `name` is from the kernel (memory_tier4) or the override (override0)."""

    name: str
    rank: int
    """The place of the tier in the order of speed. 0 is the fastest."""
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EmptyNode:
    """A node without online memory: it has only CPUs, or all of its memory is offline."""

    id: int
    cpus: tuple[int, ...]
    offline_bytes: int


@dataclass(frozen=True, slots=True)
class Topology:
    """All nodes with memory, and their tiers, fastest first.

    tierd does not manage a node that is in no tier; the override or the kernel left it out.
    """

    nodes: tuple[Node, ...]
    tiers: tuple[Tier, ...]
    page_bytes: int
    empty_nodes: tuple[EmptyNode, ...] = ()

    @property
    def cpus(self) -> tuple[int, ...]:
        """Return the processors of all nodes."""
        nodes: tuple[Node | EmptyNode, ...] = (*self.nodes, *self.empty_nodes)
        return tuple(sorted(cpu for node in nodes for cpu in node.cpus))

    def node(self, node_id: int) -> Node:
        for node in self.nodes:
            if node.id == node_id:
                return node
        raise TierdError(f"node {node_id} has no memory, or does not exist")

    def tier_of(self, node_id: int) -> Tier | None:
        """Return the tier of a node; None if tierd does not manage it."""
        return next((tier for tier in self.tiers if node_id in tier.nodes), None)

    def slow_nodes(self) -> frozenset[int]:
        """Return the nodes of all tiers but the fastest."""
        return frozenset(node for tier in self.tiers[1:] for node in tier.nodes)

    def rank_of(self, node_id: int) -> int:
        """Return the rank of the tier of a node. Nodes that tierd does not manage count as fast."""
        tier = self.tier_of(node_id)
        return tier.rank if tier else 0

    def demotion_targets(self, node_id: int) -> tuple[int, ...]:
        """Return the nodes to which the kernel would demote: the nearest of the next slower tier.

        establish_demotion_targets() takes nodes from find_next_best_node() as long as their
        distance is that of the first.
        """
        tier = self.tier_of(node_id)
        if tier is None or tier is self.tiers[-1]:
            return ()
        ordered = self._best_first(node_id, self.tiers[tier.rank + 1].nodes)
        distance = self.node(node_id).distance
        best = distance(ordered[0])
        return tuple(takewhile(lambda target: distance(target) == best, ordered))

    def promotion_targets(self, node_id: int) -> tuple[int, ...]:
        """Return the nearest nodes of the next faster tier."""
        tier = self.tier_of(node_id)
        if tier is None or tier.rank == 0:
            return ()
        distance = self.node(node_id).distance
        faster = self.tiers[tier.rank - 1].nodes
        best = min(distance(target) for target in faster)
        return tuple(target for target in faster if distance(target) == best)

    def demotion_fallbacks(self, node_id: int) -> tuple[int, ...]:
        """Return where memory goes down to if the nearest nodes are full: the next nearest.

        The kernel's own demotion falls back to all slower nodes.
        """
        targets = self.demotion_targets(node_id)
        if not targets:
            return ()
        return self._next_nearest(node_id, targets, self.tiers[self.rank_of(node_id) + 1].nodes)

    def promotion_fallbacks(self, node_id: int) -> tuple[int, ...]:
        """Return where hot memory comes up to if the nearest nodes have no room for it."""
        targets = self.promotion_targets(node_id)
        if not targets:
            return ()
        faster = self.tiers[self.rank_of(node_id) - 1].nodes
        found = self._next_nearest(node_id, targets, faster)
        return tuple(one for one in found if self._is_faster_from_afar(one, node_id))

    def _next_nearest(
        self, node_id: int, targets: tuple[int, ...], tier: tuple[int, ...]
    ) -> tuple[int, ...]:
        """Return the nearest nodes of a tier that are no targets.

        If there are many, they are those that follow the targets in the order of their ids. So not
        all sockets fall back to the same ones.
        """
        distance = self.node(node_id).distance
        others = sorted(set(tier) - set(targets), key=lambda one: (one < max(targets), one))
        least = min(map(distance, others), default=0)
        return tuple(one for one in others if distance(one) == least)[:FALLBACKS_MAX]

    def _is_faster_from_afar(self, fast: int, slow: int) -> bool:
        """Return whether a fast node is faster than a slow one for processors near the slow one.

        Firmware tells latencies only for the nearest processors. Without them the tiers decide.
        """
        told = [self.node(one).performance for one in (fast, slow)]
        fast_ns, slow_ns = (one.read_latency_ns if one else None for one in told)
        return not (fast_ns and slow_ns) or slow_ns > OTHER_SOCKET_TIMES * fast_ns

    def nearest_cpus(self, node: Node, allowed: frozenset[int]) -> tuple[int, ...]:
        """Return the allowed processors of the nearest node that has some."""
        nodes: list[Node | EmptyNode] = [*self.nodes, *self.empty_nodes]
        mine = {one.id: tuple(sorted(allowed & set(one.cpus))) for one in nodes}
        near = [number for number, _ in sorted(node.distances, key=lambda pair: pair[1])]
        # What firmware calls the best initiator comes before what is near by the distances.
        return next((mine[one] for one in (*node.initiators, *near) if mine.get(one)), ())

    def _best_first(self, source: int, targets: tuple[int, ...]) -> tuple[int, ...]:
        """Sort as find_next_best_node() does in mm/page_alloc.c.

        A node with a lower id than the source counts as one further away, and so does a node with
        CPUs. For equal nodes the kernel uses state that it does not show; here the lower id is
        first.
        """
        origin = self.node(source)

        def key(target: int) -> tuple[int, int]:
            return (
                origin.distance(target) + (target < source) + bool(self.node(target).cpus),
                target,
            )

        return tuple(sorted(targets, key=key))
