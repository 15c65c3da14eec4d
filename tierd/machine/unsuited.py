"""Nodes that tierd leaves alone unless the configuration lists them, whatever their tier. Pure.

The kernel orders tiers by latency times bandwidth. Two kinds of nodes do not fit into that order:

1. A node may be in a faster tier for its bandwidth alone: HBM often has a higher latency than DRAM.
   Each page that is promoted to it would make programs wait longer, unless they use its bandwidth.
2. Memory of a device, such as a GPU, belongs to programs that use the device. What is demoted to it
   takes room from them.

If a user knows better, `tiers` in the configuration lists such a node.
"""

from collections.abc import Mapping, Sequence

from tierd.topology import Node, Tier
from tierd.units import format_ids


def unsuited(nodes: Sequence[Node], tiers: Sequence[Tier]) -> Mapping[int, str]:
    """Return the nodes that tierd leaves alone, each with the reason."""
    with_cpus = frozenset(node.id for node in nodes if node.cpus)
    found = {node.id: why for node in nodes if (why := _of_device(node, with_cpus))}
    for node in nodes:
        why = _waits_longer(node, [one for one in nodes if one.id not in found], tiers)
        if why and node.id not in found:
            found[node.id] = why
    return found


def without(tiers: Sequence[Tier], left_out: Mapping[int, str]) -> tuple[Tier, ...]:
    """Return the tiers without these nodes. A tier that would be empty is not returned."""
    kept = [(tier, tuple(n for n in tier.nodes if n not in left_out)) for tier in tiers]
    kept = [(tier, nodes) for tier, nodes in kept if nodes]
    return tuple(Tier(tier.name, rank, nodes) for rank, (tier, nodes) in enumerate(kept))


def _of_device(node: Node, with_cpus: frozenset[int]) -> str:
    """Return why the node is a device's memory: what reaches it best has no CPUs (class 0)."""
    if not node.initiators or with_cpus & set(node.initiators):
        return ""
    listed = format_ids(node.initiators)
    return f"it is memory of a device: node {listed}, which reaches it best, has no CPUs"


def _waits_longer(node: Node, nodes: Sequence[Node], tiers: Sequence[Tier]) -> str:
    """Return why nothing should be promoted to the node: a node of a slower tier answers sooner."""
    rank, ours = _rank(node.id, tiers), _latency_ns(node)
    if ours is None or rank is None:
        return ""
    for other in nodes:
        theirs, below = _latency_ns(other), _rank(other.id, tiers)
        if theirs is not None and below is not None and below > rank and theirs < ours:
            return (
                f"it is in the faster tier for its bandwidth, but its latency is {ours} ns, and "
                f"that of node {other.id} below it is {theirs} ns"
            )
    return ""


def _rank(node: int, tiers: Sequence[Tier]) -> int | None:
    return next((tier.rank for tier in tiers if node in tier.nodes), None)


def _latency_ns(node: Node) -> int | None:
    told = node.cpu_performance or node.performance
    return told.read_latency_ns if told else None
