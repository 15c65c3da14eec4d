"""How much should move, and why: what is hot below and what is cold above, and no more.

Rules of this file:
1. Pure; `decide` is one round. Everything is in bytes, and per second of the machine's time.
2. Promotion is for what waits below, and may use what is free above the kernel's own mark.
3. Demotion is for room: for the headroom, and for what promotion is about to bring. Without cold
   memory above there is no exchange, however much waits below.
4. What schemes claim is checked against what comes of it: where moving does not lower what waits,
   it stops, and tries again later and later.
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
from tierd.tuner.reading import Limits, NodeReading, Reading, Way
from tierd.units import BP_MAX, format_rate, format_size

# What a scheme moved beyond its rate is paid back within this time, and room that is missing is
# made.
CLEAR_S = 1.0

# What waits is moved within this time, if the rate limit allows: heat counts memory that is hot now
# and then by its share of the time, and the rest of a set comes ever slower. Where it is new there
# is time to find out what it is, and where it is faint there is little to gain: of a set that is so
# all over, on both nodes, half as much is moved for nothing as in four seconds (6.12).
HEAT_CLEAR_S = 0.25
NEW_CLEAR_S = 4.0
FAINT_CLEAR_S = 12.0

# Promotion may use what is free above the kernel's mark at the pace that would use it up in this
# time. Demotion fills it meanwhile; what both are late by must not take the node below the mark,
# where some kernels copy pages to the node that they are on (6.17 to 7.2).
ROOM_S = 0.5

# How much room demotion makes ahead of what comes up, in time of that and as a share of the node.
AHEAD_S = 1.5
AHEAD_SHARE_MAX = 0.04
AHEAD_PER_HEAT = 1.25

# A huge page needs a piece of free memory of its size above the mark, and so does each that is on
# its way in the same window: with less, some kernels copy it to the node that it is on (6.17 to
# 7.2).
HUGE_ROOM_BYTES = 3 * (2 << 20)

# What waits may be huge pages where those of its node are at least this share of it.
HUGE_SHARE = 0.5

# The quota of a scheme that will move as soon as it can: three doublings from 20 MB/s in windows of
# 100 ms, and little if it moves in vain meanwhile. Never more than what it is to move by then: of
# a scan that touches each page once, 36 MiB came up by this alone in 12 s (7.2).
READY_BYTES = 256 << 10

# Less than this share of the fast node is noise of sampling, not demand.
DEAD_SHARE = 0.002

# As much of all heat as may stay on slow memory: what moves for less of it gains next to nothing.
# It must be twice as much before moving begins again, also on average over so many seconds: what
# is counted of the little that stays is chance, and moved up to 40 MiB a minute (7.2). Where all
# else is idle, what a few programs keep touching is most of the heat that there is: of those of a
# guest of 500 MiB 1 to 2 MiB came up in 20 s (6.16).
RESTS_S = 5.0
REST_HEAT_SHARE = 0.01
REST_HEAT_MIN = 0.0005
REST_HEAT_MIN_BYTES = 1 << 20

# Room for what programs allocated lately: this many seconds of it, and at most this share of the
# node, because a burst that large takes from the slow tier anyway. A burst is remembered this
# much from second to second. What schemes say that they moved is a little older than what nodes say
# that they hold, so that both are compared over about as many seconds.
ALLOCATION_S = 2.0
ALLOCATION_SHARE_MAX = 0.05
ALLOCATION_KEPT_PER_S = 0.9

# Where most of what is tried does not move, and then all of it, demotion makes at most this much
# more room than was missing until somebody looks again.
OVER_MAX = 2.0

# Tasks that wait for memory this share of their time, over about so many seconds: promotion makes
# it worse. kswapd counts as a task that waits while it works, and a fifth of a second of that, now
# and then, is none of it.
PRESSURE_MAX = 0.05
PRESSURE_S = 10.0


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """What is remembered of a node that memory is promoted to."""

    used_bytes: int = 0
    rests: bool = False
    """Whether too little waits for it to be worth a move."""
    all_heat_bytes: float = 0.0
    """What is hot on it, and what waits, on average over RESTS_S."""
    waiting_bytes: float = 0.0
    """What waits, on average over RESTS_S of a rest."""
    filled_bytes_per_s: float = 0.0
    """How fast it filled lately, by what nothing was moved for; less than 0 if it emptied."""
    allocation_bytes_per_s: float = 0.0
    check: Check = field(default_factory=Check)
    """Whether moving does any good."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Everything remembered from round to round."""

    nodes: Mapping[int, NodeMemory] = field(default_factory=dict)
    habits: Mapping[str, Habit] = field(default_factory=dict)
    """Of each scheme."""
    heats: Mapping[int, Heat] = field(default_factory=dict)
    """Of each node."""
    pressure: float = 0.0
    """Share of the time that tasks waited for memory, lately."""


@dataclass(frozen=True, slots=True)
class Want:
    """What a scheme should move per second and per window, and why."""

    bytes_per_s: float
    reason: str
    quota_bytes: int = 0
    bytes_max: float = inf
    """What it may move until the next round, should all of it move that is tried."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What every scheme should do, and the headroom that it is for."""

    wants: Mapping[str, Want]
    headroom_bytes: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class _Round:
    """Everything that one round goes by."""

    reading: Reading
    limits: Limits
    habits: Mapping[str, Habit]
    heats: Mapping[int, Heat]
    pressure: float

    def rate_max(self, way: Way) -> float:
        """Bytes per second that a scheme may move now."""
        return max(0.0, way.rate_max_bytes_per_s - self.habits[way.id].debt_bytes / CLEAR_S)

    def node(self, node: int) -> NodeReading:
        return self.reading.nodes[node]

    def fast_nodes(self) -> tuple[int, ...]:
        """Every node that something is promoted to or demoted from."""
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
        """What schemes say that they moved since the last round."""
        return sum(self.reading.ways[way.id].applied_bytes for way in ways)

    def freed_bytes_per_s(self, node: int) -> float:
        """How fast demotion makes room."""
        return self.moved_bytes(self.out_of(node)) / self.reading.seconds

    def dead_bytes(self, node: int) -> float:
        return self.node(node).total_bytes * DEAD_SHARE

    def waiting_on(self, way: Way) -> float:
        """The hot bytes of a way's source that are its to move.

        Ways from one source share them. Regions are larger than what is hot in them, so what
        counts is the share that could be moved lately.
        """
        hot = self.node(way.source).hot_bytes or 0
        return hot * self.habits[way.id].least_moved(way) / self.sharing(way)

    def sharing(self, way: Way) -> int:
        """How many ways go from the same source in the same direction."""
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
        """The heat that could come up to a node."""
        ways = self.into(node)
        return sum(self.heats[way.source].all_bytes / self.sharing(way) for way in ways)

    def comes_up(self, node: int) -> float:
        """What may come up while room for it is looked for: all that lasts, and some more; of the
        rest as much as moves meanwhile."""
        below = [(self.heats[way.source], self.sharing(way)) for way in self.into(node)]
        lasting = sum(waits.lasting_bytes / share for waits, share in below)
        slow = sum(_slow_bytes_per_s(waits) / share for waits, share in below)
        return lasting * AHEAD_PER_HEAT + slow * AHEAD_S

    def rest_bytes(self, node: int, all_heat_bytes: float) -> float:
        """So much heat below is not worth a move."""
        least = max(REST_HEAT_MIN_BYTES, REST_HEAT_MIN * self.node(node).total_bytes)
        return max(least, REST_HEAT_SHARE * all_heat_bytes)

    def may_be_huge(self, way: Way) -> bool:
        """Whether what waits may be huge pages: any quota of a page or more moves a whole one."""
        source = self.node(way.source)
        return source.huge_bytes > max(self.dead_bytes(way.source), HUGE_SHARE * source.heat_bytes)

    def huge_room_bytes(self, node: int) -> int:
        """What has to be free above the mark for what comes up to arrive."""
        return HUGE_ROOM_BYTES if any(self.may_be_huge(way) for way in self.into(node)) else 0

    def cold_bytes(self, node: int) -> float:
        """Cold memory of a node that is not just free; 0 if it is too little to begin with."""
        cold = max(0, (self.node(node).cold_bytes or 0) - self.node(node).free_bytes)
        return 0.0 if cold < self.dead_bytes(node) else cold

    @property
    def pressed(self) -> bool:
        return self.reading.stalls > 0 or self.pressure > PRESSURE_MAX


def _slow_bytes_per_s(waits: Heat) -> float:
    """How fast what may be chance or gone in a moment should move."""
    return waits.new_bytes / NEW_CLEAR_S + waits.faint_bytes / FAINT_CLEAR_S


def decide(memory: Memory, reading: Reading, limits: Limits) -> tuple[Memory, Decision]:
    """One round."""
    return again(_learned(memory, reading, limits), reading, limits)


def again(memory: Memory, reading: Reading, limits: Limits) -> tuple[Memory, Decision]:
    """The same with nothing new to learn: what is wanted by what is known."""
    now = _Round(reading, limits, memory.habits, memory.heats, memory.pressure)
    wants: dict[str, Want] = {}
    headroom: dict[int, int] = {}
    for node in now.fast_nodes():
        known = memory.nodes[node]
        headroom[node] = _headroom(known, now.node(node), limits)
        downs = _demotions(node, headroom[node], _wanted(known, node, now), now)
        downs = {way.id: _quota(downs[way.id], way, now) for way in now.out_of(node)}
        ups = _promotions(known, node, headroom[node], _freed(downs, node, now), now)
        wants |= downs | {way.id: _quota(ups[way.id], way, now) for way in now.into(node)}
    habits = {way.id: _told(way, wants[way.id], now) for way in limits.ways}
    return replace(memory, habits=habits), Decision(wants, headroom)


# What was learned.


def _learned(memory: Memory, reading: Reading, limits: Limits) -> Memory:
    now = _Round(
        reading,
        limits,
        habits={
            way.id: learn(memory.habits.get(way.id), way, reading.ways[way.id], reading.seconds)
            for way in limits.ways
        },
        heats={
            node: heat.learn(memory.heats.get(node), seen, reading.seconds)
            for node, seen in reading.nodes.items()
        },
        pressure=_pressure(memory, reading),
    )
    nodes = {node: _known(memory.nodes.get(node), node, now) for node in now.fast_nodes()}
    return Memory(nodes, now.habits, now.heats, now.pressure)


def _told(way: Way, want: Want, now: _Round) -> Habit:
    """A scheme's habit with what is wanted of it now."""
    limited = want.bytes_per_s >= now.rate_max(way) > 0
    return replace(now.habits[way.id], limited=limited, quota_bytes=want.quota_bytes)


def _pressure(memory: Memory, reading: Reading) -> float:
    return moving(memory.pressure, reading.pressure, reading.seconds, PRESSURE_S)


def _known(before: NodeMemory | None, node: int, now: _Round) -> NodeMemory:
    """What is known of a node after this round."""
    moves = _moves(node, now)
    if before is None:
        began = NodeMemory(
            used_bytes=moves.used_bytes,
            all_heat_bytes=now.heat_below(node) + now.heats[node].all_bytes,
            check=benefit.begin(moves),
        )
        return _rested(began, node, now)
    known = replace(_allocation(before, moves), check=benefit.check(before.check, moves))
    return _rested(known, node, now)


def _rested(before: NodeMemory, node: int, now: _Round) -> NodeMemory:
    """Whether it rests: to begin again takes twice as much as to go on, and some seconds of it."""
    seconds, waits = now.reading.seconds, now.heat_below(node)
    both = waits + now.heats[node].all_bytes
    all_heat = moving(before.all_heat_bytes, both, seconds, RESTS_S)
    lately = moving(before.waiting_bytes, waits, seconds, RESTS_S) if before.rests else waits
    least = now.rest_bytes(node, all_heat) * (2 if before.rests else 1)
    rests = min(waits, lately) < least
    return replace(before, rests=rests, all_heat_bytes=all_heat, waiting_bytes=lately)


def _allocation(before: NodeMemory, moves: Moves) -> NodeMemory:
    """How fast programs take memory of a node: what it filled by, less what was moved there."""
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


def _headroom(known: NodeMemory, node: NodeReading, limits: Limits) -> int:
    """What demotion keeps free: the kernel's mark, and the larger of the share and the demand."""
    share = node.total_bytes * limits.headroom_bp / BP_MAX
    lately = known.allocation_bytes_per_s * ALLOCATION_S
    return node.mark_bytes + int(max(share, min(lately, node.total_bytes * ALLOCATION_SHARE_MAX)))


def _moves(node: int, now: _Round) -> Moves:
    seen = now.node(node)
    return Moves(
        seconds=now.reading.seconds,
        waiting_bytes=int(now.heat_below(node)),
        used_bytes=seen.used_bytes,
        total_bytes=seen.total_bytes,
        promoted_bytes=now.moved_bytes(now.into(node)),
        demoted_bytes=now.moved_bytes(now.out_of(node)),
    )


# What is wanted.


def _wanted(known: NodeMemory, node: int, now: _Round) -> float:
    """Bytes per second that should come up, if there were room."""
    if known.check.hold_off_s > 0 or now.pressed or known.rests:
        return 0.0
    return sum(now.pace(way) for way in now.into(node))


def _freed(downs: Mapping[str, Want], node: int, now: _Round) -> float:
    """Bytes per second of room that demotion makes: as it did, or as its quota lets it already."""
    grown = (
        want.bytes_per_s * min(1.0, now.reading.ways[name].quota_bytes / max(1, want.quota_bytes))
        for name, want in downs.items()
    )
    return max(now.freed_bytes_per_s(node), sum(grown) if now.cold_bytes(node) else 0.0)


def _promotions(
    known: NodeMemory, node: int, headroom: int, freed: float, now: _Round
) -> dict[str, Want]:
    wanted, seen = _wanted(known, node, now), now.node(node)
    # With cold memory to take its place, promotion may dip into the headroom: demotion fills it.
    floor = seen.mark_bytes if now.cold_bytes(node) else headroom
    spare = seen.free_bytes - floor - now.huge_room_bytes(node)
    # Below it, what is to come up arrives when what has gone down lately has gone on to do so.
    room = max(0.0, spare / ROOM_S + (freed if spare > 0 else now.freed_bytes_per_s(node)))
    share = min(1.0, room / wanted) if wanted else 0.0
    return {way.id: _promotion(way, share, known, now) for way in now.into(node)}


def _promotion(way: Way, share: float, known: NodeMemory, now: _Round) -> Want:
    waiting, target = now.waiting_on(way), now.node(way.target)
    size = format_size(round(waiting)) if waiting >= 1 else "nothing"
    what = f"{size} hot on node {way.source}"
    if now.reading.stalls:
        return Want(0.0, f"parked: {now.reading.stalls} allocations had to wait; {what}")
    if now.pressed:
        waits = f"{now.pressure:.1%} of the time"
        return Want(0.0, f"parked: tasks wait for memory {waits}; {what}")
    if known.check.hold_off_s > 0:
        held_s, why = known.check.hold_off_s, known.check.held_because
        return Want(0.0, f"parked for {held_s:.0f} s: {why}; {what}")
    if known.rests:
        return Want(0.0, f"parked: {what}, too little to be worth a move")
    rate = now.pace(way) * share
    if rate <= 0:
        huge = now.huge_room_bytes(way.target)
        below = format_size(max(0, target.mark_bytes + huge - target.free_bytes))
        mark = "what a huge page needs" if huge else "the mark"
        reason = f"waits: free memory of node {way.target} is {below} below {mark}; {what}"
        # Ready with a quota, however small, is ready to move a huge page in each window.
        return Want(0.0, reason, 0 if huge else _ready(way, now.pace(way), now))
    if share >= 1:
        return Want(rate, f"up to {format_rate(rate)}: {what}")
    limited = f"up to {format_rate(rate)}, as there is room on node {way.target}: {what}"
    return Want(rate, limited, _ready(way, now.pace(way), now))


def _ready(way: Way, coming: float, now: _Round) -> int:
    """The quota to wait with for what is coming, in bytes per second."""
    return int(min(READY_BYTES, coming * now.habits[way.id].window_s))


def _demotions(node: int, headroom: int, coming: float, now: _Round) -> dict[str, Want]:
    free = now.node(node).free_bytes
    # What came lately comes on until this is looked at again, and promotion needs room in front of
    # it; no more of both than there is to come. Where nothing is cold there is no exchange, and
    # only the headroom is kept.
    came = now.moved_bytes(now.into(node)) / now.reading.seconds if coming else 0.0
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
    return {way.id: _limited(want, now.rate_max(way)) for way in ways}


def _limited(want: Want, rate_max: float) -> Want:
    rate = min(rate_max, want.bytes_per_s)
    return replace(want, bytes_per_s=rate, reason=f"up to {format_rate(rate)}: {want.reason}")


def _quota(want: Want, way: Way, now: _Round) -> Want:
    """The quota of one window; where failures are charged, as much more as fails."""
    habit = now.habits[way.id]
    bytes_ = want.bytes_per_s * habit.window_s / habit.share_used
    if now.limits.charges_failures:
        bytes_ /= habit.least_moved(way)
        bytes_ = min(bytes_, want.bytes_max * habit.window_s / now.reading.blind_s)
    quota_bytes = max(want.quota_bytes, int(bytes_))
    return replace(want, quota_bytes=min(way.quota_bytes_max, quota_bytes))
