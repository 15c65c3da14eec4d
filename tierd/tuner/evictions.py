"""Decide how much room a node below must have, and how much cold memory is evicted for it. Pure.

A node that memory is demoted to needs free memory above the mark. At the mark the kernel begins to
reclaim, and then pages go to swap that nobody has chosen. Where page cache fills the node, it has
no room at all: DAMON's migration does not wait for reclaim, and some kernels copy the pages to the
node that they are on. So demotion takes no more room than there is, and the slowest node makes
room by eviction.
"""

from collections.abc import Iterator, Mapping
from math import inf

from tierd.plans.plan import Direction, Migration
from tierd.tuner.demotion import AHEAD_S, AHEAD_SHARE_MAX
from tierd.tuner.habit import Habit
from tierd.tuner.heat import Heat
from tierd.tuner.measurement import Limits, Measurement
from tierd.tuner.round import CLEAR_S, FastNode, Flow, Want
from tierd.units import BP_MAX, format_rate, format_size

# Demotion relies on so much of what left the slower node lately to leave it again. Promotion may
# stop at any moment, and then what came down too much would have to be evicted.
LEAVES_SHARE = 0.5

# If nothing of what is tried can be evicted, eviction tries this share of its wanted rate.
TRY_SHARE_MIN = 1 / 32


def fits_bytes(node: FastNode, headroom: Mapping[int, int] | None = None) -> dict[int, float]:
    """Return how much each slower node can take in the next second before it is at the mark.

    With `headroom`, before it lacks some of it, so that nothing is swapped out for what comes.
    To drop cold page cache for it is all right.
    """
    if not node.limits.evicts:
        return {
            one.migration.target_node: 0.0 if one.migration.fallback else inf for one in node.downs
        }
    kept = headroom if headroom and node.limits.swaps else {}
    return {
        flow.migration.target_node: _fits_bytes(node, flow.migration, kept) for flow in node.downs
    }


def _fits_bytes(node: FastNode, down: Migration, headroom: Mapping[int, int]) -> float:
    target, seen = down.target_node, node.measurement
    now = seen.nodes[target]
    kept = float(headroom.get(target, now.mark_bytes))
    if down.fallback:
        # What is kept there, and what leaves it, is for the nodes that it is nearest to.
        return max(0.0, now.free_bytes - max(kept, now.mark_bytes + _ahead_bytes(node, target)))
    leaves = node.limits.moved_bytes(seen, source=target) / seen.seconds * CLEAR_S
    return max(0.0, now.free_bytes - kept + LEAVES_SHARE * leaves)


def headroom_bytes(node: FastNode) -> int:
    """Return what eviction keeps free on a node: as much as faster nodes make room ahead.

    An exchange takes as much room here as it leaves, so it needs no more than this. With swap it
    also keeps the headroom, because programs may need room here when nothing can be dropped.
    """
    now, (flow,) = node.now, node.downs
    kept = 0.0 if flow.migration.files_only else node.limits.headroom_bp / BP_MAX
    return now.mark_bytes + int(max(now.total_bytes * kept, _ahead_bytes(node, node.id)))


def _ahead_bytes(node: FastNode, target: int) -> float:
    """Return how much room the nodes that a target is nearest to make ahead."""
    nodes = node.measurement.nodes
    return sum(
        min(
            one.rate_max_bytes_per_s * AHEAD_S,
            nodes[one.source_node].total_bytes * AHEAD_SHARE_MAX,
        )
        for one in node.limits.migrations
        if one.direction is Direction.demote and one.target_node == target and not one.fallback
    )


def evict(node: FastNode, headroom: Mapping[int, int]) -> Want:
    """Return what the eviction of a node should do, by the headroom of each node.

    What is free beyond the headroom of other nodes counts as room, as long as this node is above
    the mark: what comes up uses it, and leaves room here. So a short exchange evicts nothing.
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
    # Memory that cannot be evicted would be tried again and again.
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
