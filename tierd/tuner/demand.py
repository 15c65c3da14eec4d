"""Decide how much each scheme should move now, and why.

Rules of this file:
1. Pure. `decide` is one round. Figures are in bytes, or in bytes per second.
2. Promotion moves hot memory up. It may use what is free above the watermark of the kernel.
3. Demotion makes room: for the headroom, and for what promotion brings. If no memory on the fast
   node is cold, nothing is exchanged.
4. The result is checked. If promotion does not reduce the heat below, it stops for a while, and for
   longer each time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from tierd.plans.plan import Direction
from tierd.tuner import benefit, heat
from tierd.tuner.average import moving
from tierd.tuner.benefit import Check, Moves
from tierd.tuner.habit import Habit, learn
from tierd.tuner.heat import Heat
from tierd.tuner.measurement import Limits, Measurement, NodeMeasurement, Way
from tierd.units import BP_MAX, format_rate, format_size

# Seconds in which a scheme pays back what it moved beyond its rate, and in which missing room is
# made.
CLEAR_S = 1.0

# Seconds in which the heat below is moved, if the rate limit allows: heat that lasts, heat that is
# new, and faint heat. New heat may go again, and faint heat is worth little (docs/constants.md).
HEAT_CLEAR_S = 0.25
NEW_CLEAR_S = 4.0
FAINT_CLEAR_S = 12.0

# Promotion may use up the free memory above the watermark in this many seconds. If it is faster, it
# can pass the watermark before demotion has made room. Kernels 6.17 to 7.2 then copy pages in vain.
ROOM_S = 0.5

# Demotion makes room for this many seconds of promotion, at most this share of the node, and at
# most this much per byte of heat.
AHEAD_S = 1.5
AHEAD_SHARE_MAX = 0.04
AHEAD_PER_HEAT = 1.25

# A huge page (2 MiB) needs free memory of its size above the watermark. Up to three may be on their
# way at once. With less room, kernels 6.17 to 7.2 copy it to its own node.
HUGE_ROOM_BYTES = 3 * (2 << 20)

# Hot memory may be huge pages if the huge pages of its node are at least this share of it.
HUGE_SHARE = 0.5

# The quota in bytes of a scheme that waits for room. Three doublings later it is enough for 20
# MB/s, and until then little moves in vain. It is never more than the bytes to move
# (docs/constants.md).
READY_BYTES = 256 << 10

# A scheme that has moved more than its rate may go on at this share of the rate. From a parked
# quota it would need a second to start again, and promotion would have no room.
PAYING_SHARE = 1 / 8

# Share of the fast node. Less than this is noise of sampling.
DEAD_SHARE = 0.002

# Promotion is idle while the heat below is less than this share of all heat, this share of the
# node, or these bytes. It begins again at twice as much, averaged over IDLE_S seconds, because the
# little heat that is counted below is chance (docs/constants.md).
IDLE_S = 5.0
IDLE_HEAT_SHARE = 0.01
IDLE_HEAT_MIN = 0.0005
IDLE_HEAT_MIN_BYTES = 1 << 20

# Headroom for allocations of programs: this many seconds of them, at most this share of the node. A
# burst loses its weight by this factor per second. A larger burst uses the slow tier anyway.
ALLOCATION_S = 2.0
ALLOCATION_SHARE_MAX = 0.05
ALLOCATION_KEPT_PER_S = 0.9

# If most tries fail, and then all succeed, demotion makes too much room. Until the next round it
# makes at most this many times the missing room.
OVER_MAX = 2.0

# Promotion stops if tasks wait for memory for more than this share of the time, averaged over these
# seconds. A kswapd that works for a fifth of a second now and then stays below it.
PRESSURE_MAX = 0.05
PRESSURE_S = 10.0


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


@dataclass(frozen=True, slots=True)
class ControllerState:
    """What is kept from round to round."""

    nodes: Mapping[int, NodeState] = field(default_factory=dict)
    habits: Mapping[str, Habit] = field(default_factory=dict)
    """The habit of each scheme."""
    heats: Mapping[int, Heat] = field(default_factory=dict)
    """The heat of each node."""
    pressure: float = 0.0
    """Share of the time that tasks waited for memory, lately."""


@dataclass(frozen=True, slots=True)
class Want:
    """What a scheme should move per second and per window, and why."""

    bytes_per_s: float
    reason: str
    quota_bytes: int = 0
    bytes_max: float = inf
    """The most that it may move until the next round, if all that is tried moves."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What each scheme should do, and the headroom of each node."""

    wants: Mapping[str, Want]
    headroom_bytes: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class _Round:
    """The input of one round."""

    measurement: Measurement
    limits: Limits
    habits: Mapping[str, Habit]
    heats: Mapping[int, Heat]
    pressure: float

    def rate_max(self, way: Way) -> float:
        """Bytes per second that a scheme may move now."""
        return max(0.0, way.rate_max_bytes_per_s - self.habits[way.id].debt_bytes / CLEAR_S)

    def node(self, node: int) -> NodeMeasurement:
        return self.measurement.nodes[node]

    def fast_nodes(self) -> tuple[int, ...]:
        """Return the nodes that memory is promoted to or demoted from."""
        ups = {way.target for way in self.limits.ways if way.direction is Direction.promote}
        downs = {way.source for way in self.limits.ways if way.direction is Direction.demote}
        return tuple(sorted(ups | downs))

    def into(self, node: int) -> tuple[Way, ...]:
        ways = self.limits.ways
        return tuple(w for w in ways if w.direction is Direction.promote and w.target == node)

    def out_of(self, node: int) -> tuple[Way, ...]:
        ways = self.limits.ways
        return tuple(w for w in ways if w.direction is Direction.demote and w.source == node)

    def moved_bytes(self, ways: Iterable[Way]) -> int:
        """Return the bytes that schemes have moved since the last round."""
        return sum(self.measurement.ways[way.id].applied_bytes for way in ways)

    def freed_bytes_per_s(self, node: int) -> float:
        """Return the room per second that demotion makes."""
        return self.moved_bytes(self.out_of(node)) / self.measurement.seconds

    def dead_bytes(self, node: int) -> float:
        return self.node(node).total_bytes * DEAD_SHARE

    def waiting_on(self, way: Way) -> float:
        """Return the hot bytes on the source of a way that this way should move.

        Ways from one source share them. A region is larger than its hot part. So the bytes are
        multiplied by the share of tried memory that moved lately.
        """
        hot = self.node(way.source).hot_bytes or 0
        return hot * self.habits[way.id].least_moved(way) / self.sharing(way)

    def sharing(self, way: Way) -> int:
        """Return how many ways have the same source and direction."""
        return sum(
            other.direction is way.direction and other.source == way.source
            for other in self.limits.ways
        )

    def pace(self, way: Way) -> float:
        """Bytes per second that should move for the heat of a way's source."""
        waits = self.heats[way.source]
        wanted = waits.lasting_bytes / HEAT_CLEAR_S + _slow_bytes_per_s(waits)
        return min(self.rate_max(way), wanted / self.sharing(way))

    def heat_below(self, node: int) -> float:
        """Return the heat that can come up to a node."""
        ways = self.into(node)
        return sum(self.heats[way.source].all_bytes / self.sharing(way) for way in ways)

    def comes_up(self, node: int) -> float:
        """Return the bytes that may come up while demotion makes room.

        This is all lasting heat and some more. New and faint heat counts as far as it moves in that
        time.
        """
        below = [(self.heats[way.source], self.sharing(way)) for way in self.into(node)]
        lasting = sum(waits.lasting_bytes / share for waits, share in below)
        slow = sum(_slow_bytes_per_s(waits) / share for waits, share in below)
        return lasting * AHEAD_PER_HEAT + slow * AHEAD_S

    def idle_bytes(self, node: int, all_heat_bytes: float) -> float:
        """Return the least heat below that is worth a move."""
        least = max(IDLE_HEAT_MIN_BYTES, IDLE_HEAT_MIN * self.node(node).total_bytes)
        return max(least, IDLE_HEAT_SHARE * all_heat_bytes)

    def may_be_huge(self, way: Way) -> bool:
        """Return whether hot memory may be huge pages. A quota of a page moves a whole one."""
        source = self.node(way.source)
        return source.huge_bytes > max(self.dead_bytes(way.source), HUGE_SHARE * source.heat_bytes)

    def huge_room_bytes(self, node: int) -> int:
        """Return the bytes above the mark that huge pages need to arrive."""
        return HUGE_ROOM_BYTES if any(self.may_be_huge(way) for way in self.into(node)) else 0

    def cold_bytes(self, node: int) -> float:
        """Return the cold memory of a node that is not free, or 0 if it is too little to move."""
        cold = max(0, (self.node(node).cold_bytes or 0) - self.node(node).free_bytes)
        return 0.0 if cold < self.dead_bytes(node) else cold

    @property
    def pressed(self) -> bool:
        return self.measurement.stalls > 0 or self.pressure > PRESSURE_MAX


def _slow_bytes_per_s(waits: Heat) -> float:
    """Return how fast faint and new heat should move."""
    return waits.new_bytes / NEW_CLEAR_S + waits.faint_bytes / FAINT_CLEAR_S


def decide(
    state: ControllerState, measurement: Measurement, limits: Limits
) -> tuple[ControllerState, Decision]:
    """Learn from a measurement, and decide."""
    return again(_learned(state, measurement, limits), measurement, limits)


def again(
    state: ControllerState, measurement: Measurement, limits: Limits
) -> tuple[ControllerState, Decision]:
    """Decide by what is known, without learning."""
    now = _Round(measurement, limits, state.habits, state.heats, state.pressure)
    wants: dict[str, Want] = {}
    headroom: dict[int, int] = {}
    for node in now.fast_nodes():
        known = state.nodes[node]
        headroom[node] = _headroom(known, now.node(node), limits)
        downs = _demotions(node, headroom[node], _wanted(known, node, now), now)
        downs = {way.id: _quota(downs[way.id], way, now) for way in now.out_of(node)}
        ups = _promotions(known, node, headroom[node], _freed(downs, node, now), now)
        wants |= downs | {way.id: _quota(ups[way.id], way, now) for way in now.into(node)}
    habits = {way.id: _told(way, wants[way.id], now) for way in limits.ways}
    return replace(state, habits=habits), Decision(wants, headroom)


# Learning.


def _learned(state: ControllerState, measurement: Measurement, limits: Limits) -> ControllerState:
    now = _Round(
        measurement,
        limits,
        habits={
            way.id: learn(
                state.habits.get(way.id), way, measurement.ways[way.id], measurement.seconds
            )
            for way in limits.ways
        },
        heats={
            node: heat.learn(state.heats.get(node), seen, measurement.seconds)
            for node, seen in measurement.nodes.items()
        },
        pressure=_pressure(state, measurement),
    )
    nodes = {node: _known(state.nodes.get(node), node, now) for node in now.fast_nodes()}
    return ControllerState(nodes, now.habits, now.heats, now.pressure)


def _told(way: Way, want: Want, now: _Round) -> Habit:
    """Return the habit of a scheme with its new quota."""
    limited = want.bytes_per_s >= now.rate_max(way) > 0
    return replace(now.habits[way.id], limited=limited, quota_bytes=want.quota_bytes)


def _pressure(state: ControllerState, measurement: Measurement) -> float:
    return moving(state.pressure, measurement.pressure, measurement.seconds, PRESSURE_S)


def _known(before: NodeState | None, node: int, now: _Round) -> NodeState:
    """Return what is known of a node after this round."""
    moves = _moves(node, now)
    if before is None:
        began = NodeState(
            used_bytes=moves.used_bytes,
            all_heat_bytes=now.heat_below(node) + now.heats[node].all_bytes,
            check=benefit.begin(moves),
        )
        return _with_idle(began, node, now)
    known = replace(_allocation(before, moves), check=benefit.check(before.check, moves))
    return _with_idle(known, node, now)


def _with_idle(before: NodeState, node: int, now: _Round) -> NodeState:
    """Set whether promotion is idle. It begins again at twice the heat, averaged over seconds."""
    seconds, waits = now.measurement.seconds, now.heat_below(node)
    both = waits + now.heats[node].all_bytes
    all_heat = moving(before.all_heat_bytes, both, seconds, IDLE_S)
    lately = moving(before.waiting_bytes, waits, seconds, IDLE_S) if before.is_idle else waits
    least = now.idle_bytes(node, all_heat) * (2 if before.is_idle else 1)
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


def _headroom(known: NodeState, node: NodeMeasurement, limits: Limits) -> int:
    """Return what demotion keeps free: the mark, and the configured share or recent allocations."""
    share = node.total_bytes * limits.headroom_bp / BP_MAX
    lately = known.allocation_bytes_per_s * ALLOCATION_S
    return node.mark_bytes + int(max(share, min(lately, node.total_bytes * ALLOCATION_SHARE_MAX)))


def _moves(node: int, now: _Round) -> Moves:
    seen = now.node(node)
    return Moves(
        seconds=now.measurement.seconds,
        waiting_bytes=int(now.heat_below(node)),
        used_bytes=seen.used_bytes,
        total_bytes=seen.total_bytes,
        promoted_bytes=now.moved_bytes(now.into(node)),
        demoted_bytes=now.moved_bytes(now.out_of(node)),
    )


# Deciding.


def _wanted(known: NodeState, node: int, now: _Round) -> float:
    """Return the bytes per second to promote if there is room."""
    if known.check.hold_off_s > 0 or now.pressed or known.is_idle:
        return 0.0
    return sum(now.pace(way) for way in now.into(node))


def _freed(downs: Mapping[str, Want], node: int, now: _Round) -> float:
    """Return the room per second that demotion makes now, or that its quota already allows."""
    grown = (
        want.bytes_per_s
        * min(1.0, now.measurement.ways[name].quota_bytes / max(1, want.quota_bytes))
        for name, want in downs.items()
    )
    return max(now.freed_bytes_per_s(node), sum(grown) if now.cold_bytes(node) else 0.0)


def _promotions(
    known: NodeState, node: int, headroom: int, freed: float, now: _Round
) -> dict[str, Want]:
    wanted, seen = _wanted(known, node, now), now.node(node)
    # If the node has cold memory, promotion may use the headroom: demotion fills it again.
    floor = seen.mark_bytes if now.cold_bytes(node) else headroom
    spare = seen.free_bytes - floor - now.huge_room_bytes(node)
    # Below the floor, promotion can only use the room that demotion goes on to make.
    room = max(0.0, spare / ROOM_S + (freed if spare > 0 else now.freed_bytes_per_s(node)))
    share = min(1.0, room / wanted) if wanted else 0.0
    return {way.id: _promotion(way, share, known, now) for way in now.into(node)}


def _promotion(way: Way, share: float, known: NodeState, now: _Round) -> Want:
    waiting, target = now.waiting_on(way), now.node(way.target)
    size = format_size(round(waiting)) if waiting >= 1 else "nothing"
    what = f"{size} hot on node {way.source}"
    if now.measurement.stalls:
        return Want(0.0, f"parked: {now.measurement.stalls} allocations had to wait; {what}")
    if now.pressed:
        waits = f"{now.pressure:.1%} of the time"
        return Want(0.0, f"parked: tasks wait for memory {waits}; {what}")
    if known.check.hold_off_s > 0:
        held_s, why = known.check.hold_off_s, known.check.held_because
        return Want(0.0, f"parked for {held_s:.0f} s: {why}; {what}")
    if known.is_idle:
        return Want(0.0, f"parked: {what}, too little to be worth a move")
    rate = now.pace(way) * share
    if rate <= 0:
        huge = now.huge_room_bytes(way.target)
        below = format_size(max(0, target.mark_bytes + huge - target.free_bytes))
        mark = "what a huge page needs" if huge else "the mark"
        reason = f"waits: free memory of node {way.target} is {below} below {mark}; {what}"
        # Even the smallest quota would move a whole huge page in each window, so it is 0.
        return Want(0.0, reason, 0 if huge else _ready(way, now.pace(way), now))
    if share >= 1:
        return Want(rate, f"up to {format_rate(rate)}: {what}")
    limited = f"up to {format_rate(rate)}, as there is room on node {way.target}: {what}"
    return Want(rate, limited, _ready(way, now.pace(way), now))


def _ready(way: Way, coming: float, now: _Round) -> int:
    """Return the quota of a scheme that waits. `coming` is in bytes per second."""
    return int(min(READY_BYTES, coming * now.habits[way.id].window_s))


def _demotions(node: int, headroom: int, coming: float, now: _Round) -> dict[str, Want]:
    free = now.node(node).free_bytes
    # Until the next round promotion goes on at its present rate, and it needs more room ahead of
    # that. Both together are at most what may come up. If nothing is cold, demotion only keeps the
    # headroom.
    came = now.moved_bytes(now.into(node)) / now.measurement.seconds if coming else 0.0
    ahead = min(coming * AHEAD_S, now.node(node).total_bytes * AHEAD_SHARE_MAX) + came * CLEAR_S
    ahead = min(ahead, now.comes_up(node))
    ahead += now.huge_room_bytes(node) if coming else 0
    lacking = headroom + (ahead if now.cold_bytes(node) else 0) - free
    ways = now.out_of(node)
    if lacking < now.dead_bytes(node):
        spare = format_size(max(0, free - headroom))
        reason = f"parked: node {node} has its headroom, and {spare} more"
        return {way.id: Want(0.0, reason, _ready(way, coming, now)) for way in ways}
    rate = lacking / CLEAR_S / max(1, len(ways))
    what = f"{format_size(round(lacking))} of room wanted on node {node}"
    want = Want(rate, what, bytes_max=OVER_MAX * lacking)
    return {way.id: _limited(want, way, now) for way in ways}


def _limited(want: Want, way: Way, now: _Round) -> Want:
    """Return the want limited to the rate. A scheme that pays back keeps a small quota."""
    rate = min(now.rate_max(way), want.bytes_per_s)
    reason = f"up to {format_rate(rate)}: {want.reason}"
    return replace(want, bytes_per_s=rate, reason=reason, quota_bytes=_paying(want, way, now))


def _paying(want: Want, way: Way, now: _Round) -> int:
    """Return the quota of a scheme that pays back. With huge pages it is 0: one may be too much."""
    if now.node(way.source).huge_bytes > now.dead_bytes(way.source):
        return 0
    return _ready(way, min(want.bytes_per_s, way.rate_max_bytes_per_s * PAYING_SHARE), now)


def _quota(want: Want, way: Way, now: _Round) -> Want:
    """Return the want with its quota per window. If failed tries use up quota, add their share."""
    habit = now.habits[way.id]
    bytes_ = want.bytes_per_s * habit.window_s / habit.share_used
    if now.limits.charges_failures:
        bytes_ /= habit.least_moved(way)
        bytes_ = min(bytes_, want.bytes_max * habit.window_s / now.measurement.blind_s)
    quota_bytes = max(want.quota_bytes, int(bytes_))
    return replace(want, quota_bytes=min(way.quota_bytes_max, quota_bytes))
