"""Decide what room hint faults need, and how much they may promote. Pure.

The kernel promotes what a program touches soon after the kernel has made it fault. It needs free
memory for that: without it, it wakes reclaim, which sends down what it finds first. So demotion
makes the room, and the rate limit of the kernel is never more than there is room for.
"""

from collections.abc import Iterable

from tierd.frozen import dataclass, replace
from tierd.plans.knobs import rate_units
from tierd.plans.plan import HintFaults
from tierd.topology import huge_page_bytes
from tierd.tuner.average import moving
from tierd.tuner.climb_heat import HEAT_S, HELPS_SHARE, WAKES_SHARE
from tierd.tuner.demotion import AHEAD_SHARE_MAX
from tierd.tuner.gate import AHEAD_S
from tierd.tuner.round import HUGE_ROOM_PAGES, FastNode, Want, dead_bytes
from tierd.units import format_rate, format_size

# Seconds over which it is averaged what comes up, and what would come up. The kernel allows so much
# in each second, so both come in bursts.
ASKS_S = 4.0

# Promotion may use up the free memory above the mark in this time: the second for which a limit of
# the kernel holds.
ROOM_S = 1.0

# Seconds after which it is judged whether the heat below has fallen, and what must have come up in
# them, as a share of the node. An average of the heat is right after HEAT_S.
CHECK_S = 20.0
CHECK_SHARE = 0.01

# The least idle time of demotion by page while hint faults promote. They take what is touched
# within a second or two (numa_balancing hot_threshold_ms is 1000 at first, and 2000 at most). A
# page that is touched once a second is idle for so long with a chance of 2 %.
IDLE_S = 4.0

# The limit is written again if it changes by more than this share, or to nothing, or from nothing.
STEP_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Hinted:
    """What is known of the hint faults that bring pages up to a node."""

    came_bytes_per_s: float = 0.0
    """What came up lately."""
    asks_bytes_per_s: float = 0.0
    """What came up, or would have come up if the limit and the room had allowed it."""
    heat: float | None = None
    """The heat of the nodes that pages come from, averaged over HEAT_S."""
    heat_above: float = 0.0
    """The heat of the node that they come up to, averaged in the same way."""
    least_heat: float = 0.0
    """The lowest heat below at the end of a check."""
    check_s: float = 0.0
    """How long this check has lasted."""
    check_bytes: int = 0
    """What came up in this check."""
    in_vain: bool = False
    """True if what came up in the last check did not cool the nodes below."""
    woke: bool = False
    """True if heat below has just risen."""


def learn(before: Hinted, node: FastNode) -> Hinted:
    """Return what is known after a tick."""
    source = _of(node)
    if source is None:
        return before
    seconds, now = node.measurement.seconds, node.now
    came = now.hinted_bytes / seconds
    asks = max(now.hinted_bytes, now.hint_asked_bytes) / seconds
    below = float(sum(node.measurement.nodes[one].heat_bytes for one in source.sources))
    known = replace(
        before,
        came_bytes_per_s=moving(before.came_bytes_per_s, came, seconds, ASKS_S),
        asks_bytes_per_s=moving(before.asks_bytes_per_s, asks, seconds, ASKS_S),
        heat=below if before.heat is None else moving(before.heat, below, seconds, HEAT_S),
        heat_above=moving(before.heat_above, now.heat_bytes, seconds, HEAT_S),
        check_s=before.check_s + seconds,
        check_bytes=before.check_bytes + now.hinted_bytes,
        woke=False,
    )
    if before.heat is None:
        return replace(known, least_heat=below, heat_above=float(now.heat_bytes))
    return _judged(known, node)


def _judged(now: Hinted, node: FastNode) -> Hinted:
    """Return a state after the check whether what comes up helps."""
    heat = now.heat or 0.0
    both = heat + now.heat_above
    if heat > now.least_heat + WAKES_SHARE * both:
        woke = now.in_vain
        return _checks(replace(now, least_heat=heat, in_vain=False, woke=woke))
    if now.check_s < CHECK_S:
        return now
    if now.check_bytes < CHECK_SHARE * node.now.total_bytes:
        return _checks(now)
    helped = heat < now.least_heat - HELPS_SHARE * both
    return _checks(replace(now, in_vain=not helped, least_heat=min(heat, now.least_heat)))


def _checks(now: Hinted) -> Hinted:
    return replace(now, check_s=0.0, check_bytes=0)


def _of(node: FastNode) -> HintFaults | None:
    return next((one for one in node.limits.hint_faults if one.node == node.id), None)


def rate_max_bytes_per_s(node: FastNode) -> float:
    """Return the most that hint faults may bring up to a node per second; 0 if they do not."""
    source = _of(node)
    return source.rate_max_bytes_per_s if source else 0.0


def ahead_bytes(known: Hinted, node: FastNode) -> float:
    """Return the room beyond the headroom for what comes up next.

    What came up in vain is worth no more room than it takes.
    """
    asks = known.came_bytes_per_s if known.in_vain else known.asks_bytes_per_s
    speed = min(rate_max_bytes_per_s(node), asks)
    return min(AHEAD_S * speed, AHEAD_SHARE_MAX * node.now.total_bytes)


def want(known: Hinted, node: FastNode) -> dict[str, Want]:
    """Return how much hint faults may bring up to a node, and why; nothing if they do not."""
    source = _of(node)
    if source is None:
        return {}
    asks = format_rate(known.asks_bytes_per_s)
    what = f"programs touch {asks} on slower nodes soon after it was made to fault"
    if node.waits:
        return {source.id: Want(0.0, f"parked: {node.waits}; {what}")}
    if node.busy:
        return {source.id: Want(0.0, f"parked: {node.busy}, so more there would not help; {what}")}
    floor = node.now.mark_bytes + _huge_room_bytes(source, node)
    spare = node.now.free_bytes - floor
    if spare <= 0:
        below = format_size(-spare)
        reason = f"waits: free memory of node {node.id} is {below} below the mark; {what}"
        return {source.id: Want(0.0, reason)}
    room = spare / ROOM_S + node.left_bytes / node.measurement.seconds
    rate = min(source.rate_max_bytes_per_s, room)
    limit = f", as there is room on node {node.id}" if room < source.rate_max_bytes_per_s else ""
    vain = "; what came up lately did not cool the slower nodes" if known.in_vain else ""
    reason = f"up to {format_rate(rate)}{limit}: {what}{vain}"
    return {source.id: Want(rate, reason, int(known.came_bytes_per_s))}


def _huge_room_bytes(source: HintFaults, node: FastNode) -> int:
    """Return the free memory above the mark that huge pages need to arrive."""
    nodes = node.measurement.nodes
    if not any(nodes[one].huge_bytes > dead_bytes(nodes[one]) for one in source.sources):
        return 0
    return HUGE_ROOM_PAGES * huge_page_bytes(node.limits.page_bytes)


def next_units(in_force: int | None, wants: Iterable[Want]) -> int | None:
    """Return the limit to write, in the unit of the kernel; None if it may stay as it is.

    The kernel has one number for all nodes. With the least, a node without room would stop the
    others. A node without room takes nothing, whatever the number is.
    """
    units = [rate_units(one.bytes_per_s) for one in wants]
    if not units:
        return None
    wanted = max(units)
    if in_force is None:
        return wanted
    changed = abs(wanted - in_force) > STEP_SHARE * in_force
    return wanted if changed else None
