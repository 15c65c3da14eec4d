"""Decide how much room a node below must have, and how much cold memory goes to swap for it. Pure.

A node that memory is demoted to needs free memory above the mark. At the mark the kernel begins to
reclaim, and then pages go to swap that nobody has chosen. So demotion takes no more room than there
is, and the slowest node makes room by eviction. Without swap nothing of this is needed: there the
kernel only drops page cache.
"""

from collections.abc import Iterator, Mapping
from math import inf

from tierd.plans.plan import Direction
from tierd.tuner.demotion import AHEAD_S, AHEAD_SHARE_MAX
from tierd.tuner.habit import Habit
from tierd.tuner.heat import Heat
from tierd.tuner.measurement import Limits, Measurement
from tierd.tuner.round import CLEAR_S, FastNode, Flow, Want
from tierd.units import BP_MAX, format_rate, format_size

# Demotion relies on so much of what left the slower node lately to leave it again. Promotion may
# stop at any moment, and then what came down too much would have to be swapped out.
LEAVES_SHARE = 0.5

# If nothing of what is tried can be swapped out, eviction tries this share of its wanted rate.
TRY_SHARE_MIN = 1 / 32


def fits_bytes(node: FastNode, headroom: Mapping[int, int] | None = None) -> float:
    """Return how much the slower nodes can take in the next second before they are at the mark.

    With `headroom`, before they lack some of it, so that nothing is evicted for what comes.
    Without swap there is no limit.
    """
    if not node.limits.swaps:
        return inf
    targets = {flow.migration.target_node for flow in node.downs}
    return sum(_fits_bytes(node, target, headroom or {}) for target in targets)


def _fits_bytes(node: FastNode, target: int, headroom: Mapping[int, int]) -> float:
    seen, now = node.measurement, node.measurement.nodes[target]
    leaves = node.limits.moved_bytes(seen, source=target) / seen.seconds * CLEAR_S
    room = now.free_bytes - headroom.get(target, now.mark_bytes)
    return max(0.0, room + LEAVES_SHARE * leaves)


def headroom_bytes(node: FastNode) -> int:
    """Return what eviction keeps free on a node: as much as faster nodes make room ahead.

    An exchange takes as much room here as it leaves, so it needs no more than this.
    """
    now, nodes = node.now, node.measurement.nodes
    ahead = sum(
        min(
            one.rate_max_bytes_per_s * AHEAD_S,
            nodes[one.source_node].total_bytes * AHEAD_SHARE_MAX,
        )
        for one in node.limits.migrations
        if one.direction is Direction.demote and one.target_node == node.id
    )
    return now.mark_bytes + int(max(now.total_bytes * node.limits.headroom_bp / BP_MAX, ahead))


def evict(node: FastNode, headroom: Mapping[int, int]) -> Want:
    """Return what the eviction of a node should do, by the headroom of each node.

    What is free beyond the headroom of other nodes counts as room, as long as this node is above
    the mark: what comes up uses it, and leaves room here. So a short exchange swaps nothing out.
    """
    (flow,), now = node.downs, node.now
    spare = sum(
        max(0, node.measurement.nodes[other].free_bytes - least)
        for other, least in headroom.items()
        if other != node.id
    )
    lacks = headroom[node.id] - now.free_bytes
    lacks = max(lacks - spare, now.mark_bytes - now.free_bytes)
    if lacks < node.dead_bytes:
        return Want(0.0, f"parked: node {node.id} has room for what is demoted to it")
    # Memory that cannot be swapped out would be tried again and again.
    wanted = lacks / node.clear_s * max(TRY_SHARE_MIN, min(1.0, flow.habit.share_moved))
    rate = min(flow.rate_max_bytes_per_s, wanted)
    what = f"{format_size(lacks)} of room wanted on node {node.id}, which has no slower node"
    return node.with_quota(Want(rate, f"up to {format_rate(rate)}: {what}"), flow)


def slowest_nodes(
    measurement: Measurement,
    limits: Limits,
    habits: Mapping[str, Habit],
    heats: Mapping[int, Heat],
) -> Iterator[FastNode]:
    """Yield each node that evicts. Its eviction is its only flow."""
    for one in limits.migrations:
        if one.direction is Direction.evict:
            at = one.source_node
            now = measurement.nodes[at]
            flow = Flow(one, measurement.schemes[one.id], habits[one.id], now, now, heats[at], 1)
            yield FastNode(at, now, (), (flow,), measurement, limits, pressure=0.0)
