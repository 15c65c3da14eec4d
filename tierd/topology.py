"""The machine's memory: nodes, tiers, and where hot and cold pages of a node should go.

Values and decisions only: `tierd.machine.discovery` reads them from a machine.
"""

from dataclasses import dataclass
from itertools import takewhile

from tierd.errors import TierdError
from tierd.ranges import Range as Range


@dataclass(frozen=True, slots=True)
class Performance:
    """What HMAT says of a node, seen from its best initiator; None where firmware is silent."""

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
    """Seen from the best initiator of any kind (access class 0)."""
    cpu_performance: Performance | None = None
    """Seen from the best initiator with CPUs (access class 1)."""
    initiators: tuple[int, ...] = ()
    """The nodes from which access class 0 holds."""
    tier_origin: str = ""
    """How the node got its tier, in words."""

    def distance(self, other: int) -> int:
        for node, distance in self.distances:
            if node == other:
                return distance
        raise TierdError(f"node {self.id} has no distance to node {other}")


@dataclass(frozen=True, slots=True)
class Tier:
    """Nodes of one speed. `name` is the kernel's (memory_tier4) or the override's (override0)."""

    name: str
    rank: int
    """0 is the fastest."""
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EmptyNode:
    """A node without memory now: CPUs only, or all of its memory is offline."""

    id: int
    cpus: tuple[int, ...]
    offline_bytes: int


@dataclass(frozen=True, slots=True)
class Topology:
    """All nodes with memory, and the tiers they stand in, fastest first.

    A node that stands in no tier is not managed: an override left it out, or the kernel did.
    """

    nodes: tuple[Node, ...]
    tiers: tuple[Tier, ...]
    empty_nodes: tuple[EmptyNode, ...] = ()
    page_bytes: int = 4096

    def node(self, node_id: int) -> Node:
        for node in self.nodes:
            if node.id == node_id:
                return node
        raise TierdError(f"node {node_id} has no memory, or does not exist")

    def tier_of(self, node_id: int) -> Tier | None:
        """The tier of a node; None for one that is not managed."""
        return next((tier for tier in self.tiers if node_id in tier.nodes), None)

    def demotion_targets(self, node_id: int) -> tuple[int, ...]:
        """Where the kernel would demote to: the nearest nodes of the next slower tier.

        establish_demotion_targets() asks find_next_best_node() again and again, and takes nodes
        for as long as their distance equals that of the first.
        """
        tier = self.tier_of(node_id)
        if tier is None or tier is self.tiers[-1]:
            return ()
        ordered = self._best_first(node_id, self.tiers[tier.rank + 1].nodes)
        distance = self.node(node_id).distance
        best = distance(ordered[0])
        return tuple(takewhile(lambda target: distance(target) == best, ordered))

    def demotion_fallback(self, node_id: int) -> tuple[int, ...]:
        """Every node of every slower tier, in the order in which the kernel would fall back."""
        tier = self.tier_of(node_id)
        if tier is None:
            return ()
        slower = (target for lower in self.tiers[tier.rank + 1 :] for target in lower.nodes)
        return self._best_first(node_id, tuple(slower))

    def promotion_targets(self, node_id: int) -> tuple[int, ...]:
        """The nearest nodes of the next faster tier."""
        tier = self.tier_of(node_id)
        if tier is None or tier.rank == 0:
            return ()
        distance = self.node(node_id).distance
        faster = self.tiers[tier.rank - 1].nodes
        best = min(distance(target) for target in faster)
        return tuple(target for target in faster if distance(target) == best)

    def _best_first(self, source: int, targets: tuple[int, ...]) -> tuple[int, ...]:
        """The order of find_next_best_node(), from mm/page_alloc.c.

        A node below the source counts one further away, and so does one with CPUs. The kernel
        settles ties by how often a node already leads an allocation order, which it does not
        show; here the lower id wins.
        """
        origin = self.node(source)

        def key(target: int) -> tuple[int, int]:
            return (
                origin.distance(target) + (target < source) + bool(self.node(target).cpus),
                target,
            )

        return tuple(sorted(targets, key=key))
