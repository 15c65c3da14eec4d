"""Decide how much each scheme should move now, and why.

Rules of this file:
1. Pure. `decide` is one round. Figures are in bytes, or in bytes per second.
2. Demotion is decided before promotion, because promotion uses the room that demotion makes.
3. The result is checked. If promotion does not reduce the heat below, it stops for a while, and for
   longer each time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field

from tierd.frozen import dataclass, replace
from tierd.plans.plan import Direction, Visit
from tierd.plans.visits import is_long
from tierd.tuner import (
    demotion,
    evictions,
    fallbacks,
    gate,
    heat,
    hint_faults,
    latencies,
    node_state,
    pages,
    promotion,
    shares,
)
from tierd.tuner.average import moving
from tierd.tuner.climb import RESUME_SHARE
from tierd.tuner.fallbacks import Moved
from tierd.tuner.gate import Room, Seen
from tierd.tuner.habit import Habit, learn
from tierd.tuner.heat import Heat
from tierd.tuner.latencies import Answers
from tierd.tuner.measurement import Limits, Measurement, NodeMeasurement
from tierd.tuner.node_state import NodeState
from tierd.tuner.pages import Decided, PagesState, Tick
from tierd.tuner.round import CLEAR_S, FastNode, Want, can_be_visited, fast_nodes
from tierd.tuner.shares import Shared, SharesState

# Seconds over which memory pressure is averaged. A kswapd that works for a fifth of a second now
# and then does not stop promotion.
PRESSURE_S = 10.0


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
    answers: Mapping[int, Answers] = field(default_factory=dict)
    """How late each fast node answers."""
    pages: PagesState = field(default_factory=PagesState)
    shares: SharesState = field(default_factory=SharesState)
    needed: frozenset[str] = frozenset()
    """The promotions by regions to fallbacks that are needed now."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What each scheme should do, and the headroom of each node."""

    wants: Mapping[str, Want]
    headroom_bytes: Mapping[int, int]
    sweeps: Decided = field(default_factory=Decided)
    """What the sweeps do. It is empty between two rounds."""
    shared: Shared | None = None
    """The groups of cgroups that share the fast memory. It is None between two rounds."""


def decide(
    state: ControllerState, measurement: Measurement, limits: Limits
) -> tuple[ControllerState, Decision]:
    """Learn from a measurement, and decide: first by regions, then by pages."""
    measurement = _by_certainty(measurement, limits)
    state = _learned(state, measurement, limits)
    fast = _fast_nodes(state, measurement, limits)
    state, shared = _shared(state, fast, measurement, limits)
    state, decision = _by_region(state, fast, measurement, limits)
    decision = replace(decision, shared=shared)
    if not limits.sweeps:
        return state, decision
    rooms = {node.id: _room(node, state.nodes[node.id], decision) for node in fast}
    by_page, decided = pages.decide(state.pages, _tick(measurement, limits, rooms))
    return replace(state, pages=by_page), replace(decision, sweeps=decided)


def again(
    state: ControllerState, measurement: Measurement, limits: Limits
) -> tuple[ControllerState, Decision]:
    """Decide by what is known, without learning, and by regions only."""
    measurement = _by_certainty(measurement, limits)
    return _by_region(state, _fast_nodes(state, measurement, limits), measurement, limits)


def _by_certainty(measurement: Measurement, limits: Limits) -> Measurement:
    """Return a measurement in which hot memory is what regions bring up.

    Where pages are visited, regions with one or two hits are left to the visits. So are regions
    that would have more hits by chance, if all of the node was used as the nodes above are.
    """
    if not limits.sweeps:
        return measurement
    nodes = {
        number: node
        if node.sure_hot_bytes is None
        else _surely_hot(number, node, measurement, limits)
        for number, node in measurement.nodes.items()
    }
    return replace(measurement, nodes=nodes)


def _surely_hot(
    number: int, node: NodeMeasurement, measurement: Measurement, limits: Limits
) -> NodeMeasurement:
    ups = {
        one.target_node
        for one in limits.migrations
        if (one.source_node, one.direction) == (number, Direction.promote)
    }
    shares = [measurement.nodes[one].hit_share for one in (number, *ups)]
    known = [one for one in shares if one is not None]
    # Hint faults see single pages themselves. And visits that commits open are slow, so there
    # regions bring up some of what is scattered too.
    visits_slowly = any(one.gated for one in limits.sweeps)
    if visits_slowly or not ups or len(known) < len(shares):
        return replace(node, hot_bytes=node.sure_hot_bytes)
    return node.beyond_chance(min(known))


def _by_region(
    state: ControllerState,
    fast: Iterable[FastNode],
    measurement: Measurement,
    limits: Limits,
) -> tuple[ControllerState, Decision]:
    wants: dict[str, Want] = {}
    headroom: dict[int, int] = {}
    habits = dict(state.habits)
    for node in fast:
        known = state.nodes[node.id]
        headroom[node.id] = node_state.headroom_bytes(known, node)
        coming = promotion.wanted_bytes_per_s(known, node)
        fits = evictions.fits_bytes(node)
        paged = hint_faults.ahead_bytes(known.hinted, node)
        if not node.is_visited(fits):
            paged += _climbing_bytes(state, node)
        downs = demotion.demote(node, headroom[node.id], coming, fits, paged)
        wants |= downs | promotion.promote(known, node, headroom[node.id], downs)
        wants |= hint_faults.want(known.hinted, node)
        for flow in (*node.downs, *node.ups):
            name, rate_max = flow.migration.id, flow.rate_max_bytes_per_s
            limited = wants[name].bytes_per_s >= rate_max > 0
            habits[name] = replace(flow.habit, limited=limited, quota_bytes=wants[name].quota_bytes)
    for one in limits.migrations:
        if one.id not in wants and one.direction is not Direction.evict:
            wants[one.id] = Want(0.0, demotion.NOT_NEEDED)
            habits[one.id] = replace(habits[one.id], limited=False, quota_bytes=0)
    slowest = tuple(evictions.slowest_nodes(measurement, limits, habits, state.heats))
    kept = {node.id: evictions.headroom_bytes(node) for node in slowest}
    # What is free on one of them needs no eviction on another, if demotion falls back.
    counts = headroom | kept if limits.falls_back else headroom
    for node in slowest:
        name = node.downs[0].migration.id
        wants[name] = evictions.evict(node, {**counts, node.id: kept[node.id]})
        habits[name] = replace(habits[name], quota_bytes=wants[name].quota_bytes)
    return replace(state, habits=habits), Decision(wants, headroom | kept)


def _fast_nodes(
    state: ControllerState, measurement: Measurement, limits: Limits
) -> tuple[FastNode, ...]:
    known = state.habits, state.heats, state.pressure, state.answers, state.needed
    return tuple(fast_nodes(measurement, limits, *known))


def _shared(
    state: ControllerState,
    nodes: Iterable[FastNode],
    measurement: Measurement,
    limits: Limits,
) -> tuple[ControllerState, Shared]:
    """Return what is known of the groups that share the fast memory, and what follows from it.

    While one of them asks for its share, promotion goes on. Hot memory of one group changes places
    with that of another, so nothing cools below: neither the check for benefit nor the limit for
    little heat can judge that.
    """
    if not limits.groups or not measurement.groups:
        return state, Shared()
    fast = [one for one in nodes if one.id in limits.fast_nodes]
    headroom = {one.id: node_state.headroom_bytes(state.nodes[one.id], one) for one in fast}
    has_room = any(_has_room(one, headroom[one.id]) for one in fast)
    known, shared = shares.step(state.shares, measurement, limits, headroom, has_room=has_room)
    learned = dict(state.nodes)
    for one in fast if shared.asked else ():
        before = learned[one.id]
        check = replace(before.check, hold_off_s=0.0)
        learned[one.id] = replace(before, is_idle=False, check=check)
    return replace(state, nodes=learned, shares=known), shared


def _has_room(node: FastNode, headroom: int) -> bool:
    """Return whether there is room enough for promotion by page to begin."""
    return node.now.free_bytes > headroom + RESUME_SHARE * _most_ahead_bytes(node)


def _climbing_bytes(state: ControllerState, node: FastNode) -> float:
    """Return the room that regions should make for what comes up by page."""
    climbs = state.pages.climbs_to(node.id, node.limits.sweeps).all
    return pages.soon_bytes((one for _, one in climbs), _most_ahead_bytes(node))


def _most_ahead_bytes(node: FastNode) -> float:
    return gate.ahead_bytes(node.now.total_bytes, node.sweep_bytes_per_s)


def _room(node: FastNode, known: NodeState, decision: Decision) -> Room:
    coming, hinted = promotion.wanted_bytes_per_s(known, node), known.hinted
    reserved = coming * node.measurement.seconds
    shared = decision.shared if node.id in node.limits.fast_nodes else None
    if shared is not None and shared.asked:
        # Most of the heat below may be of groups that wait. So what came lately counts.
        reserved = min(reserved, 2.0 * node.promoted_bytes)
    fits = _left_bytes(node, decision)
    nearest = {one.migration.target_node for one in node.downs if not one.migration.fallback}
    return Room(
        node=node.id,
        total_bytes=node.now.total_bytes,
        free_bytes=node.now.free_bytes,
        floor_bytes=node.now.mark_bytes + node.huge_room_bytes,
        headroom_bytes=decision.headroom_bytes[node.id],
        wanted_bytes=demotion.ahead_bytes(node, coming) + hint_faults.ahead_bytes(hinted, node),
        sweep_bytes_per_s=node.sweep_bytes_per_s + hint_faults.rate_max_bytes_per_s(node),
        reserved_bytes=reserved,
        fits_bytes=sum(fits[one] for one in nearest),
        fits_by_target=fits,
        cold_share=node.cold_share,
        is_short=node.now.free_bytes < node.short_bytes,
        stopped=node.waits or node.busy,
        answers=node.answers,
        owed_bytes=shared.owed_bytes if shared else 0.0,
        giving_bytes=shared.giving_bytes if shared else 0.0,
        hinted_bytes_per_s=hinted.came_bytes_per_s,
        hinted_in_vain=hinted.in_vain,
        hinted_woke=hinted.woke,
        idle_s_min=hint_faults.IDLE_S if hint_faults.rate_max_bytes_per_s(node) else 0.0,
    )


def _left_bytes(node: FastNode, decision: Decision) -> dict[int, float]:
    """Return how much each slower node has room for, beside what goes down there by regions."""
    fits = evictions.fits_bytes(node, decision.headroom_bytes)
    for flow in node.downs:
        by_region = decision.wants[flow.migration.id].bytes_per_s * CLEAR_S
        fits[flow.migration.target_node] = max(0.0, fits[flow.migration.target_node] - by_region)
    return fits


def _tick(measurement: Measurement, limits: Limits, rooms: Mapping[int, Room]) -> Tick:
    """Return what one tick knows for the decisions by page."""
    seen: dict[int, Seen] = {}
    further: dict[int, Moved] = {}
    over: dict[str, float] = {}
    allowed: dict[str, float] = {}
    rated = {one.id: one for one in limits.migrations}
    for sweep in limits.sweeps:
        did = measurement.sweeps[sweep.id]
        known = seen.get(sweep.node) or Seen(
            seconds=measurement.seconds,
            window_s=did.window_s,
            first_lag_s=did.window_s * sweep.first_lag_us / sweep.window_us,
            round_bytes=sweep.round_bytes,
            bytes_per_s=sweep.quota_bytes / did.window_s,
            gated=sweep.gated,
            is_long=is_long(sweep),
            heat=measurement.nodes[sweep.node].heat_bytes,
            can_tell=can_be_visited(measurement.nodes[sweep.node], sweep),
        )
        visit = sweep.visit
        seen[sweep.node] = replace(
            known,
            visited_bytes=_with(known.visited_bytes, visit, did.tried_bytes),
            moved_bytes=_with(known.moved_bytes, visit, did.applied_bytes),
        )
        if sweep.fallback and visit is Visit.promote:
            before = further.get(sweep.node, Moved())
            further[sweep.node] = before.plus(did.tried_bytes, did.applied_bytes)
        if sweep.moves:
            beside = rated[sweep.beside]
            rate_bytes = beside.rate_max_bytes_per_s * measurement.seconds
            left_bytes = rate_bytes - limits.rated_bytes(measurement, beside)
            allowed[sweep.id] = max(0.0, left_bytes)
            over[sweep.id] = limits.rated_bytes(measurement, sweep) - left_bytes
    tried = {one.id: measurement.sweeps[one.id].total_tried_bytes for one in limits.sweeps}
    return Tick(
        sweeps=limits.sweeps,
        rooms=rooms,
        seen=seen,
        further=further,
        over_bytes=over,
        allowed_bytes=allowed,
        idle_s_min=limits.cold_s_min,
        cost_bp=limits.cost_bp,
        cpu_s=measurement.cpu_s,
        tried_bytes=tried,
    )


def _with(counts: Mapping[Visit, int], visit: Visit, more: int) -> Mapping[Visit, int]:
    return {**counts, visit: counts.get(visit, 0) + more}


def _comes(measurement: Measurement, limits: Limits) -> dict[int, bool]:
    """Return of each node that memory is promoted to whether much comes up there."""
    rates: dict[int, float] = {}
    for one in fallbacks.judging(limits.migrations):
        node = one.target_node
        rates[node] = rates.get(node, 0.0) + one.rate_max_bytes_per_s
    least = latencies.COMES_SHARE * measurement.seconds
    return {
        node: limits.moved_bytes(measurement, to=node) > least * rate
        for node, rate in rates.items()
    }


def _learned(state: ControllerState, measurement: Measurement, limits: Limits) -> ControllerState:
    seconds = measurement.seconds
    habits = {
        one.id: learn(
            state.habits.get(one.id),
            one,
            measurement.schemes[one.id],
            seconds,
            limits.rated_bytes(measurement, one),
        )
        for one in limits.migrations
    }
    heats = {
        node: heat.learn(state.heats.get(node), now, seconds)
        for node, now in measurement.nodes.items()
    }
    if limits.sweeps:
        # Regions that are only a little warm are the business of the sweeps.
        heats = {node: replace(one, faint_bytes=0.0) for node, one in heats.items()}
    pressure = moving(state.pressure, measurement.pressure, seconds, PRESSURE_S)
    comes = _comes(measurement, limits)
    relieved = {
        one.node
        for one in limits.sweeps
        if one.visit is Visit.relieve and measurement.sweeps[one.id].applied_bytes
    }
    answers = latencies.learn(state.answers, measurement.latencies, comes, seconds, relieved)
    nodes = {
        node.id: node_state.learn(state.nodes.get(node.id), node, heats[node.id].all_bytes)
        for node in fast_nodes(measurement, limits, habits, heats, pressure, answers, state.needed)
    }
    full_s = {number: one.full_s for number, one in nodes.items()}
    return replace(
        state,
        nodes=nodes,
        habits=habits,
        heats=heats,
        pressure=pressure,
        answers=answers,
        needed=fallbacks.needed(limits, full_s, state.pages.refused),
    )
