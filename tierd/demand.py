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

from tierd.plan import Aim, Direction, Loop
from tierd.units import BP_MAX, format_rate, format_size

# What waits is moved within this time, if the rate limit allows.
CLEAR_S = 1.0

# Promotion may use what is free above the kernel's mark at the pace that would use it up in this
# time. Demotion fills it meanwhile; what both are late by must not take the node below the mark,
# where some kernels copy pages to the node that they are on (6.17 to 7.2).
ROOM_S = 0.7

ROOM_SHARE_MAX = 0.02

# The quota of a scheme that will move as soon as it can: five doublings from 20 MB/s in windows of
# 100 ms, and next to nothing if it moves in vain meanwhile.
READY_BYTES = 64 << 10

# Less than this share of the fast node is noise of sampling, not demand.
DEAD_SHARE = 0.002

# Room for what programs allocated lately: this many seconds of it, and at most this share of the
# node, because a burst that large takes from the slow tier anyway. A burst is remembered this
# much from second to second.
ALLOCATION_S = 2.0
ALLOCATION_SHARE_MAX = 0.05
ALLOCATION_KEPT_PER_S = 0.9

# How much of what a scheme tried it could move: a moving average, because one window may be all
# free memory. What it is corrected by is bounded, since one window may also be none.
YIELD_WEIGHT = 0.3
YIELD_MIN = 0.25

# Tasks that wait for memory this share of their time: promotion makes it worse.
PRESSURE_MAX = 0.01

# The check of what moving is good for: over so many seconds, how much came up, and how much less
# waits. Three checks without benefit in a row end it for a while, each time twice as long.
CHECK_S = 5.0
STRIKES_MAX = 3
BENEFIT_MIN = 1 / 3
LARGE_SHARE = 0.05
ARRIVED_MIN = 0.5
HOLD_OFF_S_MIN = 20.0
HOLD_OFF_S_MAX = 600.0
# What waits has changed by this share: what was learned may be wrong now.
CHANGED_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Way:
    """One scheme: from where to where, and its limits."""

    id: str
    direction: Direction
    source: int
    target: int
    rate_max_bytes_per_s: float
    quota_bytes_max: int
    aim: Aim


@dataclass(frozen=True, slots=True)
class Limits:
    """What does not change from round to round."""

    loop: Loop
    ways: tuple[Way, ...]
    headroom_bp: int
    charges_failures: bool
    """Whether a byte that was tried and not moved uses up quota (before fail_charge, 7.2)."""


@dataclass(frozen=True, slots=True)
class NodeReading:
    """A node now. `hot_bytes` and `cold_bytes` are None where no scheme senses them."""

    total_bytes: int
    free_bytes: int
    mark_bytes: int
    """Below this the kernel reclaims by itself."""
    hot_bytes: int | None = None
    cold_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class WayReading:
    """A scheme since the last round; `quota_bytes` is its quota in force."""

    tried_bytes: int
    applied_bytes: int
    quota_bytes: int
    window_s: float
    """How long its windows really were."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was seen since the last round."""

    seconds: float
    nodes: Mapping[int, NodeReading]
    ways: Mapping[str, WayReading]
    pressure: float = 0.0
    """Share of the time that some task waited for memory."""
    stalls: int = 0
    """Allocations that had to reclaim, or demote, for themselves."""


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """What is remembered of a node that memory is promoted to."""

    used_bytes: int = 0
    allocation_bytes_per_s: float = 0.0
    check_s: float = 0.0
    check_waiting_bytes: int = 0
    check_promoted_bytes: int = 0
    check_demoted_bytes: int = 0
    check_used_bytes: int = 0
    strikes: int = 0
    hold_off_s: float = 0.0
    """How much longer nothing is promoted here."""
    hold_offs: int = 0
    held_waiting_bytes: int = 0
    held_because: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """Everything remembered from round to round."""

    nodes: Mapping[int, NodeMemory] = field(default_factory=dict)
    yields: Mapping[str, float] = field(default_factory=dict)
    debts: Mapping[str, float] = field(default_factory=dict)
    """What a scheme moved beyond its rate, in bytes; it is paid back by moving less."""


@dataclass(frozen=True, slots=True)
class Want:
    """What a scheme should move per second and per window, and why."""

    bytes_per_s: float
    reason: str
    quota_bytes: int = 0


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
    yields: Mapping[str, float]
    debts: Mapping[str, float]

    def rate_max(self, way: Way) -> float:
        """Bytes per second that a scheme may move now."""
        return max(0.0, way.rate_max_bytes_per_s - self.debts[way.id] / CLEAR_S)

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

    def dead_bytes(self, node: int) -> float:
        return self.node(node).total_bytes * DEAD_SHARE

    def large_bytes(self, node: int) -> float:
        return self.node(node).total_bytes * LARGE_SHARE

    def waiting_on(self, way: Way) -> float:
        """The hot bytes of a way's source that are its to move.

        Ways from one source share them. Regions are larger than what is hot in them, so what
        counts is the share that could be moved lately.
        """
        hot = self.node(way.source).hot_bytes or 0
        sharing = sum(
            other.direction is way.direction and other.source == way.source
            for other in self.limits.ways
        )
        return hot * max(YIELD_MIN, self.yields[way.id]) / sharing

    def waiting(self, node: int) -> float:
        """The hot bytes below that could come up to a node."""
        return sum(self.waiting_on(way) for way in self.into(node))

    def cold_bytes(self, node: int) -> float:
        """Cold memory of a node that is not just free; 0 if it is too little to begin with."""
        cold = max(0, (self.node(node).cold_bytes or 0) - self.node(node).free_bytes)
        return 0.0 if cold < self.dead_bytes(node) else cold

    @property
    def pressed(self) -> bool:
        return self.reading.stalls > 0 or self.reading.pressure > PRESSURE_MAX


def decide(memory: Memory, reading: Reading, limits: Limits) -> tuple[Memory, Decision]:
    """One round."""
    yields = {way.id: _yield(memory, reading, way) for way in limits.ways}
    debts = {way.id: _debt(memory, reading, way) for way in limits.ways}
    now = _Round(reading, limits, yields, debts)
    wants: dict[str, Want] = {}
    nodes: dict[int, NodeMemory] = {}
    headroom: dict[int, int] = {}
    for node in now.fast_nodes():
        known = _checked(_allocation(memory.nodes.get(node), node, now), node, now)
        headroom[node] = _headroom(known, now.node(node), limits)
        wants |= _promotions(known, node, headroom[node], now)
        wants |= _demotions(node, headroom[node], _wanted(known, node, now), now)
        nodes[node] = known
    wants = {way.id: _quota(wants[way.id], way, now) for way in limits.ways}
    return Memory(nodes, yields, debts), Decision(wants, headroom)


# What was learned.


def _yield(memory: Memory, reading: Reading, way: Way) -> float:
    """The share of what is tried that moves."""
    before = memory.yields.get(way.id, 1.0)
    seen = reading.ways[way.id]
    if not seen.tried_bytes:
        return before
    share = min(1.0, seen.applied_bytes / seen.tried_bytes)
    return before + YIELD_WEIGHT * (share - before)


def _debt(memory: Memory, reading: Reading, way: Way) -> float:
    """A quota is of what is tried: when more of it moves than did lately, the rate is exceeded."""
    allowed = way.rate_max_bytes_per_s * reading.seconds
    return max(0.0, memory.debts.get(way.id, 0.0) + reading.ways[way.id].applied_bytes - allowed)


def _allocation(before: NodeMemory | None, node: int, now: _Round) -> NodeMemory:
    """How fast programs take memory of a node: what it filled by, less what was moved there."""
    used = now.node(node).total_bytes - now.node(node).free_bytes
    if before is None:
        return _fresh(NodeMemory(used_bytes=used), int(now.waiting(node)))
    moved = now.moved_bytes(now.into(node)) - now.moved_bytes(now.out_of(node))
    rate = max(0.0, used - before.used_bytes - moved) / now.reading.seconds
    kept = before.allocation_bytes_per_s * ALLOCATION_KEPT_PER_S**now.reading.seconds
    return replace(before, used_bytes=used, allocation_bytes_per_s=max(rate, kept))


def _headroom(known: NodeMemory, node: NodeReading, limits: Limits) -> int:
    """What demotion keeps free: the kernel's mark, and the larger of the share and the demand."""
    share = node.total_bytes * limits.headroom_bp / BP_MAX
    lately = known.allocation_bytes_per_s * ALLOCATION_S
    return node.mark_bytes + int(max(share, min(lately, node.total_bytes * ALLOCATION_SHARE_MAX)))


def _checked(known: NodeMemory, node: int, now: _Round) -> NodeMemory:
    """Whether moving does any good, looked at every few seconds."""
    waiting, seconds = int(now.waiting(node)), now.reading.seconds
    if known.hold_off_s > 0:
        changed = abs(waiting - known.held_waiting_bytes)
        if changed > CHANGED_SHARE * max(known.held_waiting_bytes, 1):
            return replace(_fresh(known, waiting), strikes=0, hold_off_s=0.0, hold_offs=0)
        return replace(_fresh(known, waiting), hold_off_s=max(0.0, known.hold_off_s - seconds))
    known = replace(
        known,
        check_s=known.check_s + seconds,
        check_promoted_bytes=known.check_promoted_bytes + now.moved_bytes(now.into(node)),
        check_demoted_bytes=known.check_demoted_bytes + now.moved_bytes(now.out_of(node)),
    )
    if known.check_s < CHECK_S:
        return known
    why = _in_vain(known, node, now)
    strikes = known.strikes + 1 if why else 0
    if strikes < STRIKES_MAX:
        large = waiting > now.large_bytes(node)
        hold_offs = known.hold_offs if why or large else 0
        return replace(_fresh(known, waiting), strikes=strikes, hold_offs=hold_offs)
    return replace(
        _fresh(known, waiting),
        # One more check without benefit is enough when it is over.
        strikes=STRIKES_MAX - 1,
        hold_off_s=min(HOLD_OFF_S_MAX, HOLD_OFF_S_MIN * 2 ** min(known.hold_offs, 16)),
        hold_offs=known.hold_offs + 1,
        held_waiting_bytes=waiting,
        held_because=why,
    )


def _in_vain(known: NodeMemory, node: int, now: _Round) -> str:
    """What is wrong with the moves since the last check; empty if nothing is."""
    promoted, large = known.check_promoted_bytes, now.large_bytes(node)
    if promoted <= large:
        return ""
    # What came and what went make the difference in use; some kernels copy pages to the node that
    # they are on and count it as moved (6.17 to 7.2).
    arrived = known.used_bytes - known.check_used_bytes + known.check_demoted_bytes
    if arrived < ARRIVED_MIN * promoted:
        return f"of {format_size(promoted)} said to be moved, most did not arrive"
    waiting = now.waiting(node)
    gone = known.check_waiting_bytes - waiting
    if waiting > large and gone < BENEFIT_MIN * promoted:
        return f"{format_size(promoted)} came up, and as much waits as before"
    return ""


def _fresh(known: NodeMemory, waiting: int) -> NodeMemory:
    return replace(
        known,
        check_s=0.0,
        check_waiting_bytes=waiting,
        check_promoted_bytes=0,
        check_demoted_bytes=0,
        check_used_bytes=known.used_bytes,
    )


# What is wanted.


def _wanted(known: NodeMemory, node: int, now: _Round) -> float:
    """Bytes per second that should come up, if there were room."""
    if known.hold_off_s > 0 or now.pressed or now.waiting(node) < now.dead_bytes(node):
        return 0.0
    return sum(min(now.rate_max(way), now.waiting_on(way) / CLEAR_S) for way in now.into(node))


def _promotions(known: NodeMemory, node: int, headroom: int, now: _Round) -> dict[str, Want]:
    wanted, seen = _wanted(known, node, now), now.node(node)
    # With cold memory to take its place, promotion may dip into the headroom: demotion fills it.
    floor = seen.mark_bytes if now.cold_bytes(node) else headroom
    room = max(0, seen.free_bytes - floor) / ROOM_S
    share = min(1.0, room / wanted) if wanted else 0.0
    return {way.id: _promotion(way, share, known, now) for way in now.into(node)}


def _promotion(way: Way, share: float, known: NodeMemory, now: _Round) -> Want:
    waiting, target = now.waiting_on(way), now.node(way.target)
    what = f"{format_size(round(waiting))} hot on node {way.source}"
    if now.reading.stalls:
        return Want(0.0, f"parked: {now.reading.stalls} allocations had to wait; {what}")
    if now.pressed:
        waits = f"{now.reading.pressure:.1%} of the time"
        return Want(0.0, f"parked: tasks wait for memory {waits}; {what}")
    if known.hold_off_s > 0:
        return Want(0.0, f"parked for {known.hold_off_s:.0f} s: {known.held_because}; {what}")
    if now.waiting(way.target) < now.dead_bytes(way.target):
        return Want(0.0, f"parked: nearly nothing is hot on node {way.source} ({what})")
    rate = min(now.rate_max(way), waiting / CLEAR_S) * share
    if rate <= 0:
        below = format_size(max(0, target.mark_bytes - target.free_bytes))
        reason = f"waits: free memory of node {way.target} is {below} below the mark; {what}"
        return Want(0.0, reason, READY_BYTES)
    limited = "" if share >= 1 else f", as there is room on node {way.target}"
    return Want(rate, f"up to {format_rate(rate)}{limited}: {what}")


def _demotions(node: int, headroom: int, coming: float, now: _Round) -> dict[str, Want]:
    free = now.node(node).free_bytes
    # As much as comes leaves, and beyond that what promotion needs in front of it.
    ahead = min(coming * ROOM_S, now.node(node).total_bytes * ROOM_SHARE_MAX)
    lacking = headroom + ahead + coming * CLEAR_S - free
    ways = now.out_of(node)
    if lacking < now.dead_bytes(node):
        spare = format_size(max(0, free - headroom))
        want = Want(0.0, f"parked: node {node} has its headroom, and {spare} more")
    elif not now.cold_bytes(node):
        want = Want(0.0, f"parked: nothing is cold on node {node}")
    else:
        rate = lacking / CLEAR_S / max(1, len(ways))
        what = f"{format_size(round(lacking))} of room wanted on node {node}"
        want = Want(rate, what)
    return {way.id: _limited(want, now.rate_max(way)) for way in ways}


def _limited(want: Want, rate_max: float) -> Want:
    if not want.bytes_per_s:
        return want
    rate = min(rate_max, want.bytes_per_s)
    return Want(rate, f"up to {format_rate(rate)}: {want.reason}")


def _quota(want: Want, way: Way, now: _Round) -> Want:
    """The quota of one window; where failures are charged, as much more as fails."""
    bytes_ = want.bytes_per_s * now.reading.ways[way.id].window_s
    if now.limits.charges_failures:
        bytes_ /= max(YIELD_MIN, now.yields[way.id])
    quota_bytes = max(want.quota_bytes, int(bytes_))
    return replace(want, quota_bytes=min(way.quota_bytes_max, quota_bytes))
