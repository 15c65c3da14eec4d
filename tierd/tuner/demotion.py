"""Decide how much cold memory should leave a node. Pure.

Demotion makes room: for the headroom, and for what promotion brings. If no memory of the node is
cold, it only keeps the headroom.
"""

from collections.abc import Iterable, Mapping

from tierd.frozen import replace
from tierd.tuner.round import CLEAR_S, FastNode, Flow, Want, dead_bytes
from tierd.units import format_rate, format_size

# Demotion makes room for this many seconds of promotion, at most this share of the node, and at
# most this much per byte of heat.
AHEAD_S = 1.5
AHEAD_SHARE_MAX = 0.04
AHEAD_PER_HEAT = 1.25

# A scheme that has moved more than its rate may go on at this share of the rate. From a parked
# quota it would need a second to start again, and promotion would have no room.
PAYING_SHARE = 1 / 8

# Why nothing moves to a fallback.
NOT_NEEDED = "parked: it is for what nearer nodes have no room for"

# If most tries fail, and then all succeed, demotion makes too much room. Until the next round it
# makes at most this many times the missing room.
OVER_MAX = 2.0


def demote(
    node: FastNode,
    headroom: int,
    coming_bytes_per_s: float,
    fits_bytes: Mapping[int, float],
    paged_bytes: float = 0.0,
) -> dict[str, Want]:
    """Return what each demotion from a node should do, while so much is to come up.

    Each slower node has room for so much of `fits_bytes` until the next second. `paged_bytes` of
    room are needed for single pages: those of hint faults, and of sweeps if none makes room for
    them.
    """
    free = node.now.free_bytes
    if node.goes_by_page(fits_bytes) and not node.must_have_room:
        # Visits to its pages make the room. Whole regions only go if that is not enough: a region
        # that looks cold may have a hot page.
        headroom = node.short_bytes
        coming_bytes_per_s = paged_bytes = 0.0
    elif node.is_visited(fits_bytes) and not node.must_have_room and not coming_bytes_per_s:
        # Nothing comes up by regions, so visits make the room, however long their round takes.
        headroom = node.short_bytes
        paged_bytes = 0.0
    if not node.cold_bytes:
        paged_bytes = 0.0
    lacking = headroom + ahead_bytes(node, coming_bytes_per_s) + paged_bytes - free
    if lacking < node.dead_bytes:
        spare = format_size(max(0, free - headroom))
        reason = f"parked: node {node.id} has its headroom, and {spare} more"
        wants = {
            flow.migration.id: Want(0.0, reason, _ready_bytes(flow, coming_bytes_per_s))
            for flow in node.downs
        }
    elif not any(fits_bytes.values()):
        lacks = f"node {node.id} lacks {format_size(round(lacking))}"
        wants = {flow.migration.id: _without_room(flow, lacks) for flow in node.downs}
    else:
        wants = _with_room(node, lacking, fits_bytes)
    return {one.migration.id: node.with_quota(wants[one.migration.id], one) for one in node.downs}


def _with_room(node: FastNode, lacking: float, fits_bytes: Mapping[int, float]) -> dict[str, Want]:
    """Return what each demotion should do if some slower node has room."""
    what = f"{format_size(round(lacking))} of room wanted on node {node.id}"
    lacks = f"node {node.id} lacks {format_size(round(lacking))}"
    all_fits = sum(fits_bytes.values())
    if all_fits < lacking:
        lacking = all_fits
        what = f"as there is room on the slower node: {what}"
    given, wants = _divided(lacking, node.downs, fits_bytes), dict[str, Want]()
    # What the nearest nodes leave of the rate is for the fallbacks.
    left = sum(flow.rate_max_bytes_per_s for flow in node.downs if not flow.migration.fallback)
    for flow in node.downs:
        name, fits = flow.migration.id, fits_bytes[flow.migration.target_node]
        if not given[name]:
            wants[name] = _without_room(flow, lacks)
            continue
        rate = given[name] / node.clear_s
        if flow.migration.fallback:
            rate = min(rate, max(0.0, left))
        want = Want(rate, what, bytes_max=min(OVER_MAX * lacking, fits))
        wants[name] = _limited(want, flow)
        left -= wants[name].bytes_per_s
    return wants


def _divided(
    lacking: float, downs: Iterable[Flow], fits_bytes: Mapping[int, float]
) -> dict[str, float]:
    """Return how much goes to each target: to the nearest alike, and the rest to the fallbacks.

    What one has no room for goes to those that are as near.
    """
    given: dict[str, float] = {}
    for fallback in (False, True):
        alike = [one.migration for one in downs if one.migration.fallback is fallback]
        alike.sort(key=lambda one: fits_bytes[one.target_node])
        for before, one in enumerate(alike):
            given[one.id] = min(lacking / (len(alike) - before), fits_bytes[one.target_node])
            lacking -= given[one.id]
    return given


def _without_room(flow: Flow, lacks: str) -> Want:
    """Return the want of a demotion to which nothing goes now."""
    if flow.migration.fallback:
        return Want(0.0, NOT_NEEDED)
    return Want(0.0, f"waits: the slower node has no room; {lacks}")


def _ready_bytes(flow: Flow, coming_bytes_per_s: float) -> int:
    """Return the quota of a demotion that waits. A fallback waits for more than heat."""
    return 0 if flow.migration.fallback else flow.ready_bytes(coming_bytes_per_s)


def ahead_bytes(node: FastNode, coming_bytes_per_s: float) -> float:
    """Return the room to make beyond the headroom.

    Until the next round promotion goes on at its present rate, and it needs more room ahead of
    that. Both together are at most what may come up.
    """
    if not node.cold_bytes:
        return 0.0
    came = node.promoted_bytes / node.measurement.seconds if coming_bytes_per_s else 0.0
    ahead = min(coming_bytes_per_s * AHEAD_S, node.now.total_bytes * AHEAD_SHARE_MAX)
    ahead = min(ahead + came * CLEAR_S, _may_come_bytes(node))
    return ahead + (node.huge_room_bytes if coming_bytes_per_s else 0)


def _may_come_bytes(node: FastNode) -> float:
    """Return the bytes that may come up while demotion makes room.

    This is all lasting heat and some more. New and faint heat counts as far as it moves in that
    time.
    """
    lasting = sum(flow.heat.lasting_bytes / flow.sharing for flow in node.ups)
    slow = sum(flow.slow_bytes_per_s / flow.sharing for flow in node.ups)
    return lasting * AHEAD_PER_HEAT + slow * AHEAD_S


def _limited(want: Want, flow: Flow) -> Want:
    """Return the want limited to the rate. A scheme that pays back keeps a small quota.

    With huge pages it keeps none, because a single one may be too much.
    """
    rate = min(flow.rate_max_bytes_per_s, want.bytes_per_s)
    paying = min(want.bytes_per_s, flow.migration.rate_max_bytes_per_s * PAYING_SHARE)
    huge = flow.source.huge_bytes > dead_bytes(flow.source)
    quota_bytes = 0 if huge else _ready_bytes(flow, paying)
    reason = f"up to {format_rate(rate)}: {want.reason}"
    return replace(want, bytes_per_s=rate, reason=reason, quota_bytes=quota_bytes)
