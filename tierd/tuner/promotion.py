"""Decide how much hot memory should come up to a node. Pure.

Promotion uses what is free above the kernel's watermark, and what demotion goes on to free.
"""

from collections.abc import Mapping

from tierd.tuner.node_state import NodeState
from tierd.tuner.round import FastNode, Flow, Want
from tierd.units import format_rate, format_size

# Promotion may use up the free memory above the watermark in this many seconds. If it is faster, it
# can pass the watermark before demotion has made room. Kernels 6.17 to 7.2 then copy pages in vain.
ROOM_S = 0.5


def wanted_bytes_per_s(known: NodeState, node: FastNode) -> float:
    """Return how much to promote if there is room."""
    if known.check.hold_off_s > 0 or node.waits or node.busy or known.is_idle:
        return 0.0
    return sum(flow.pace_bytes_per_s for flow in node.ups)


def promote(
    known: NodeState, node: FastNode, headroom: int, downs: Mapping[str, Want]
) -> dict[str, Want]:
    """Return what each promotion to a node should do, after the demotions from it are decided."""
    wanted, now = wanted_bytes_per_s(known, node), node.now
    frees_now = node.left_bytes / node.measurement.seconds
    spare = now.free_bytes - node.floor_bytes(headroom) - node.huge_room_bytes
    # Below the floor, promotion can only use the room that demotion goes on to make.
    freed = max(frees_now, _allowed_bytes_per_s(node, downs)) if spare > 0 else frees_now
    room = max(0.0, spare / ROOM_S + freed) if wanted else 0.0
    wants: dict[str, Want] = {}
    for fallback in (False, True):
        # What comes from nodes to which this one is nearest comes first.
        alike = [flow for flow in node.ups if flow.migration.fallback is fallback]
        theirs = sum(flow.pace_bytes_per_s for flow in alike)
        share = min(1.0, room / theirs) if theirs else 0.0
        room -= share * theirs
        for flow in alike:
            want = _promotion(flow, share, known, node)
            wants[flow.migration.id] = node.with_quota(want, flow)
    return wants


def _allowed_bytes_per_s(node: FastNode, downs: Mapping[str, Want]) -> float:
    """Return the room per second that the quotas of demotion allow now.

    A quota that still grows allows only a part of what is wanted.
    """
    if not node.cold_bytes:
        return 0.0
    wants = [(flow.scheme, downs[flow.migration.id]) for flow in node.downs]
    return sum(
        want.bytes_per_s * min(1.0, scheme.quota_bytes / max(1, want.quota_bytes))
        for scheme, want in wants
    )


def _promotion(flow: Flow, share: float, known: NodeState, node: FastNode) -> Want:
    """Return what a promotion should do if there is room for this share of what is wanted."""
    size = format_size(round(flow.waiting_bytes)) if flow.waiting_bytes >= 1 else "nothing"
    what = f"{size} hot on node {flow.migration.source_node}"
    if node.waits:
        return Want(0.0, f"parked: {node.waits}; {what}")
    if node.busy:
        return Want(0.0, f"parked: {node.busy}, so more there would not help; {what}")
    if known.check.hold_off_s > 0:
        held_s, why = known.check.hold_off_s, known.check.held_because
        return Want(0.0, f"parked for {held_s:.0f} s: {why}; {what}")
    if known.is_idle:
        return Want(0.0, f"parked: {what}, too little to be worth a move")
    pace = flow.pace_bytes_per_s
    if not pace:
        return Want(0.0, f"parked: {what}")
    rate = pace * share
    if rate <= 0:
        huge = node.huge_room_bytes
        below = format_size(max(0, node.now.mark_bytes + huge - node.now.free_bytes))
        mark = "what a huge page needs" if huge else "the mark"
        reason = f"waits: free memory of node {node.id} is {below} below {mark}; {what}"
        # Even the smallest quota would move a whole huge page in each window, so it is 0.
        return Want(0.0, reason, 0 if huge else flow.ready_bytes(pace))
    if share >= 1:
        return Want(rate, f"up to {format_rate(rate)}: {what}")
    limited = f"up to {format_rate(rate)}, as there is room on node {node.id}: {what}"
    return Want(rate, limited, flow.ready_bytes(pace))
