"""What is learned of a node that memory is promoted to, from round to round. Pure."""

from dataclasses import field

from tierd.frozen import dataclass, replace
from tierd.tuner import benefit, hint_faults
from tierd.tuner.average import moving
from tierd.tuner.benefit import Check, Moves
from tierd.tuner.hint_faults import Hinted
from tierd.tuner.round import FastNode
from tierd.units import BP_MAX

# Promotion is idle while the heat below is less than this share of all heat, or less than these
# bytes. It begins again at twice as much, averaged over IDLE_S seconds, because the little heat
# that is counted below is chance (docs/constants.md).
IDLE_S = 5.0
IDLE_HEAT_SHARE = 0.01
IDLE_HEAT_MIN_BYTES = 1 << 20

# Headroom for allocations of programs: this many seconds of them, at most this share of the node. A
# burst loses its weight by this factor per second. A larger burst uses the slow tier anyway.
ALLOCATION_S = 2.0
ALLOCATION_SHARE_MAX = 0.05
ALLOCATION_KEPT_PER_S = 0.9

# A node without room that takes less than this share of its rate takes next to nothing.
FULL_SHARE = 1 / 16


@dataclass(frozen=True, slots=True)
class NodeState:
    """What is known of a node that memory is promoted to."""

    used_bytes: int = 0
    is_idle: bool = False
    """True if too little heat is below to be worth a move."""
    all_heat_bytes: float = 0.0
    """The heat of this node and of the nodes below it, averaged over IDLE_S."""
    waiting_bytes: float = 0.0
    """The heat of the nodes below, averaged over IDLE_S while promotion is idle."""
    filled_bytes_per_s: float = 0.0
    """How fast it was filled lately, other than by moves. Negative if it emptied."""
    allocation_bytes_per_s: float = 0.0
    check: Check = field(default_factory=Check)
    """The check whether promotion helps."""
    hinted: Hinted = field(default_factory=Hinted)
    """The hint faults that bring pages up to it."""
    full_s: float = 0.0
    """For how long it has taken next to nothing by regions, because it has no room or is busy."""


def learn(before: NodeState | None, node: FastNode, heat_bytes: float) -> NodeState:
    """Return what is known after this round. `heat_bytes` is the heat of the node itself."""
    moves = Moves(
        seconds=node.measurement.seconds,
        waiting_bytes=sum((flow.source.hot_bytes or 0) // flow.sharing for flow in node.ups),
        used_bytes=node.now.used_bytes,
        total_bytes=node.now.total_bytes,
        promoted_bytes=node.promoted_bytes,
        # Only what comes up by regions is checked. What comes otherwise counts as so much less that
        # left.
        demoted_bytes=node.left_bytes - node.came_otherwise_bytes,
        rate_max_bytes_per_s=sum(flow.migration.rate_max_bytes_per_s for flow in node.ups),
        joined_bytes=node.joined_bytes,
        waiting_heat_bytes=sum(flow.source.sure_bytes // flow.sharing for flow in node.ups),
        heat_above_bytes=node.heat_above_bytes,
    )
    if before is None:
        known = NodeState(
            used_bytes=moves.used_bytes,
            all_heat_bytes=node.heat_below_bytes + heat_bytes,
            check=benefit.begin(moves),
        )
    else:
        known = replace(_allocation(before, moves), check=benefit.check(before.check, moves))
    known = replace(known, hinted=hint_faults.learn(known.hinted, node))
    known = replace(known, full_s=known.full_s + moves.seconds if _is_full(known, node) else 0.0)
    return _with_idle(known, node, heat_bytes)


def _is_full(known: NodeState, node: FastNode) -> bool:
    """Return whether a node takes next to nothing now, because it has no room or is busy."""
    if node.busy:
        return True
    spare = (
        node.now.free_bytes - node.floor_bytes(headroom_bytes(known, node)) - node.huge_room_bytes
    )
    rate = sum(flow.migration.rate_max_bytes_per_s for flow in node.ups)
    little = FULL_SHARE * rate * node.measurement.seconds
    return spare <= node.dead_bytes and node.promoted_bytes <= little


def headroom_bytes(known: NodeState, node: FastNode) -> int:
    """Return what demotion keeps free: the mark, and the configured share or recent allocations."""
    total = node.now.total_bytes
    share = total * node.limits.headroom_bp / BP_MAX
    lately = known.allocation_bytes_per_s * ALLOCATION_S
    return node.now.mark_bytes + int(max(share, min(lately, total * ALLOCATION_SHARE_MAX)))


def _with_idle(before: NodeState, node: FastNode, heat_bytes: float) -> NodeState:
    """Set whether promotion is idle. It begins again at twice the heat, averaged over seconds."""
    seconds, waits = node.measurement.seconds, node.heat_below_bytes
    all_heat = moving(before.all_heat_bytes, waits + heat_bytes, seconds, IDLE_S)
    lately = moving(before.waiting_bytes, waits, seconds, IDLE_S) if before.is_idle else waits
    least = max(IDLE_HEAT_MIN_BYTES, IDLE_HEAT_SHARE * all_heat) * (2 if before.is_idle else 1)
    is_idle = min(waits, lately) < least
    return replace(before, is_idle=is_idle, all_heat_bytes=all_heat, waiting_bytes=lately)


def _allocation(before: NodeState, moves: Moves) -> NodeState:
    """Update how fast programs allocate: the growth of used memory without the moves."""
    came = moves.promoted_bytes - moves.demoted_bytes
    rate = (moves.used_bytes - before.used_bytes - came) / moves.seconds
    filled = moving(before.filled_bytes_per_s, rate, moves.seconds, ALLOCATION_S)
    kept = before.allocation_bytes_per_s * ALLOCATION_KEPT_PER_S**moves.seconds
    return replace(
        before,
        used_bytes=moves.used_bytes,
        filled_bytes_per_s=filled,
        allocation_bytes_per_s=max(0.0, filled, kept),
    )
