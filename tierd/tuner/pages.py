"""Decide which sweeps are open now, and why. Pure; docs/control.md explains the method.

Each slow node has a `Climb` and each fast node a `Descent`. The lag of a climb is far shorter than
the idle time of a descent. So a page that came up does not go down again, and the exchange ends
when no page of the fast node is idle for so long.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field

from tierd.frozen import dataclass, replace
from tierd.plans.plan import Sweep, Visit
from tierd.tuner import budget, climb_words, climbing, descent, fallbacks, push, relief
from tierd.tuner.budget import Budget
from tierd.tuner.climb import IDLE_PER_LAG, NO_CLIMB, Climb, Stage
from tierd.tuner.descent import IDLE_S_FIRST, IDLE_S_LONG, NO_DESCENT, Descent, Wanted
from tierd.tuner.fallbacks import Climbs, Moved
from tierd.tuner.gate import AHEAD_S, AHEAD_SHARE, CLOSED, Bar, Gate, Room, Seen, fitting_bytes
from tierd.tuner.push import Push
from tierd.tuner.relief import Relief
from tierd.tuner.trade import Trade

# Why a sweep is closed.
MOSTLY_HUGE = "most pages are huge, and regions see those better"
OVER_RATE = "it has moved more than its rate allows"
USED_UP = "its processor time is used up (`cost`)"
ELSEWHERE = "its pages come up to another node now"
DOWN_FIRST = "idle pages of this node go down first"
NEARER = "nearer nodes come first, and do not lack room for long enough"

# The next round of promotion from a node in the middle waits so long at most, until idle pages of
# the node have gone down. Programs may have turned to other memory meanwhile.
YIELDS_S_MAX = 30.0


@dataclass(frozen=True, slots=True)
class PagesState:
    """What is kept from tick to tick, by node."""

    climbs: Mapping[int, Climb] = field(default_factory=dict)
    descents: Mapping[int, Descent] = field(default_factory=dict)
    pushes: Mapping[int, Push] = field(default_factory=dict)
    reliefs: Mapping[int, Relief] = field(default_factory=dict)
    debts_bytes: Mapping[str, float] = field(default_factory=dict)
    """What each sweep moved beyond its rate, by its id."""
    budgets: Mapping[int, Budget] = field(default_factory=dict)

    further_climbs: Mapping[int, Climb] = field(default_factory=dict)
    """The climbs to fallbacks."""
    refused_s: Mapping[int, float] = field(default_factory=dict)
    """For how long the nearest nodes have taken no pages, or in vain, by the node of the pages."""
    refused: frozenset[int] = frozenset()
    """The nodes for which that is long enough that their pages may come up elsewhere."""

    def climb(self, node: int) -> Climb:
        """Return the climb from a node to the nearest ones, which may not have begun."""
        return self.climbs.get(node, NO_CLIMB)

    def further_climb(self, node: int) -> Climb:
        """Return the climb from a node to its fallbacks."""
        return self.further_climbs.get(node, NO_CLIMB)

    def clears_pages(self, node: int) -> bool:
        """Return whether pages of a node were cleared lately for a climb, or will be soon."""
        return self.climb(node).clears_pages or self.further_climb(node).clears_pages

    def climbs_to(self, node: int, sweeps: Iterable[Sweep]) -> Climbs:
        """Return the climbs whose pages come up to a node now, or may."""
        mine = [one for one in sweeps if one.visit is Visit.promote and one.target_node == node]
        further = {one.node: self.further_climb(one.node) for one in mine if one.fallback}
        return Climbs(
            {one.node: self.climb(one.node) for one in mine if not one.fallback},
            {
                source: one
                for source, one in further.items()
                if one.clears_pages or source in self.refused
            },
        )


@dataclass(frozen=True, slots=True)
class Tick:
    """All that one tick knows."""

    sweeps: tuple[Sweep, ...]
    rooms: Mapping[int, Room]
    """The room of each fast node."""
    seen: Mapping[int, Seen]
    over_bytes: Mapping[str, float]
    """How much more than its rate allows each sweep that moves pages has moved since the last tick,
    together with the scheme that goes by regions. Negative if it was less."""
    allowed_bytes: Mapping[str, float]
    """What each of them may move until the next tick beside what goes by regions."""
    idle_s_min: float
    """The least idle time that is configured."""
    cost_bp: int
    """The share of a processor that the sweeps of each kdamond may use."""
    cpu_s: Mapping[int, float]
    """The processor time of the kdamond of each node, as far as it is known."""
    tried_bytes: Mapping[str, int]
    """The memory that each sweep has visited since its kdamond began, which is its place."""
    further: Mapping[int, Moved] = field(default_factory=dict)
    """What the sweeps did that bring pages of a node up to fallbacks, where it has some."""

    def turn(self, node: int, visit: Visit, rounds: int) -> Sweep:
        """Return the sweep whose turn it is: a node has one for each target."""
        return self.turns(node, visit, rounds)[0]

    def turns(
        self, node: int, visit: Visit, rounds: int, *, fallback: bool = False
    ) -> tuple[Sweep, ...]:
        """Return the sweeps to the nearest nodes, or to fallbacks, in the order of their turns."""
        mine = [
            one
            for one in self.sweeps
            if one.node == node and one.visit is visit and one.fallback is fallback
        ]
        at = rounds % len(mine) if mine else 0
        return (*mine[at:], *mine[:at])

    def behind_bytes(self, follows: Sweep, leads: Sweep, most: float = 0.5) -> float:
        """Return how far one sweep is behind another on its way around the node.

        It is negative, and so ahead, if it would be behind by more than this share of a round.
        """
        whole = leads.round_bytes
        behind = (self.tried_bytes[leads.id] - self.tried_bytes[follows.id]) % whole
        return behind if behind <= most * whole else behind - whole

    def joined_bytes(self, node: int) -> int:
        """Return what came up to a node by page."""
        below = {
            one.node
            for one in self.sweeps
            if one.visit is Visit.promote and one.target_node == node
        }
        return sum(self.seen[one].moved_bytes.get(Visit.promote, 0) for one in below)

    def nodes(self, visit: Visit) -> tuple[int, ...]:
        return tuple(dict.fromkeys(one.node for one in self.sweeps if one.visit is visit))


@dataclass(frozen=True, slots=True)
class Decided:
    """A gate for each sweep that changes, and a sentence for each sweep that moves pages."""

    gates: Mapping[str, Gate] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    busy: frozenset[str] = frozenset()
    """The sweeps that move pages, or will when there is room."""
    bars: Mapping[str, Bar] = field(default_factory=dict)
    """The bar of each sweep that moves pages by it."""

    def plus(self, other: "Decided") -> "Decided":
        return Decided(
            {**self.gates, **other.gates},
            {**self.reasons, **other.reasons},
            self.busy | other.busy,
            {**self.bars, **other.bars},
        )


def decide(before: PagesState, now: Tick) -> tuple[PagesState, Decided]:
    """Return the state after a tick, and what opens and closes."""
    debts = {
        name: max(0.0, before.debts_bytes.get(name, 0.0) + over)
        for name, over in now.over_bytes.items()
    }
    budgets = {
        node: budget.spend(
            before.budgets.get(node) or budget.begin(now.cost_bp),
            now.cost_bp,
            seen.seconds,
            now.cpu_s.get(node),
            visits=any(seen.visited_bytes.values()),
        )
        for node, seen in now.seen.items()
    }
    state, decided = replace(before, debts_bytes=debts, budgets=budgets), Decided()
    for node in now.nodes(Visit.promote):
        state, one = _climb(state, now, node)
        decided = decided.plus(one)
    for node in now.nodes(Visit.demote):
        state, one = _descend(state, now, node)
        decided = decided.plus(one)
    for node in now.nodes(Visit.push):
        state, one = _push(state, now, node)
        decided = decided.plus(one)
    for node in now.nodes(Visit.relieve):
        state, one = _relieve(state, now, node)
        decided = decided.plus(one)
    return state, decided


def soon_bytes(climbs: Iterable[Climb], most_bytes: float) -> float:
    """Return the room that is wanted now by the climb that wants the most: so much at most."""
    wanted = (one.ahead_bytes(most_bytes) for one in climbs if one.wants_room)
    return max(wanted, default=0.0)


def _climb(state: PagesState, now: Tick, node: int) -> tuple[PagesState, Decided]:
    """Bring pages up to the nearest nodes, or else to fallbacks. One of both at a time."""
    further = state.further_climb(node)
    before = _with_target(state.climb(node), state, now, node)
    sweep = now.turn(node, Visit.promote, before.rounds)
    held = ELSEWHERE if further.clears_pages else ""
    if not held and _yields(before, state, now, node):
        held = DOWN_FIRST
    seen = fallbacks.seen(now.seen[node], now.further.get(node), further, fallback=False)
    after, above, decided = _climbed(state, now, before, sweep, seen, held)
    descents = {**state.descents, sweep.target_node: above}
    state = replace(state, climbs={**state.climbs, node: after}, descents=descents)
    state = _refusing(state, now, node)
    if node not in now.further:
        return state, decided
    state, told = _climb_further(state, now, node)
    return state, decided.plus(told)


def _yields(climb: Climb, state: PagesState, now: Tick, node: int) -> bool:
    """Return whether the next round waits because pages of the node should go down first.

    A round clears pages, so none of them can be told to be idle meanwhile. Without this a node in
    the middle would bring a few pages up for ever, and what waits below would find no room.
    """
    below = state.descents.get(node, NO_DESCENT)
    if climb.stage is not Stage.rests or not climb.rounds or not below.lacks:
        return False
    return climb.stage_s < min(YIELDS_S_MAX, below.idle_s + now.seen[node].round_s)


def _climb_further(state: PagesState, now: Tick, node: int) -> tuple[PagesState, Decided]:
    before, nearer = state.further_climb(node), state.climb(node)
    may_begin = node in state.refused and not nearer.clears_pages
    may_begin = may_begin and not _yields(before, state, now, node)
    if before.stage is Stage.waits and not may_begin:
        # The nearest nodes have room again, so this round ends.
        before = replace(before, stage=Stage.rests, stage_s=0.0, stage_ends_s=0.0)
    before = _with_target(before, state, now, node, fallback=True)
    sweep = now.turns(node, Visit.promote, before.rounds, fallback=True)[0]
    held = "" if before.clears_pages or may_begin else NEARER
    seen = fallbacks.seen(now.seen[node], now.further[node], nearer, fallback=True)
    after, above, decided = _climbed(state, now, before, sweep, seen, held)
    climbs = {**state.further_climbs, node: after}
    if not after.clears_pages:
        # The bar of the nearest nodes is in force.
        decided = replace(decided, bars={})
    if held:
        return replace(state, further_climbs=climbs), decided
    descents = {**state.descents, sweep.target_node: above}
    return replace(state, further_climbs=climbs, descents=descents), decided


def _refusing(state: PagesState, now: Tick, node: int) -> PagesState:
    """Return a state that knows whether pages of a node find no place on the nearest nodes."""
    climb, turns = state.climb(node), now.turns(node, Visit.promote, 0)
    seen, refused = now.seen[node], state.refused - {node}
    seconds = state.refused_s.get(node, 0.0)
    takes = any(climb.may_begin(_room(climb, state, now, one)) for one in turns)
    if climb.in_vain or not (climb.clears_pages or takes):
        seconds += 0.0 if climb.clears_pages else seen.seconds
    else:
        seconds = 0.0
    rounds_s = (now.seen[one.target_node].round_s for one in turns if one.target_node in now.seen)
    if seconds >= max(fallbacks.REFUSED_S, *rounds_s):
        refused |= {node}
    return replace(state, refused=refused, refused_s={**state.refused_s, node: seconds})


def _climbed(
    state: PagesState, now: Tick, before: Climb, sweep: Sweep, seen: Seen, held: str
) -> tuple[Climb, Descent, Decided]:
    """Return a climb after a tick, the descent from the node that it goes to, and what is told.

    If it is `held`, no page may come up.
    """
    clear = now.turn(sweep.node, Visit.clear, 0)
    room = _room(before, state, now, sweep)
    if held:
        room = replace(room, stopped=held, over_rate=False, used_up=False)
    above = state.descents.get(sweep.target_node, NO_DESCENT)
    if room.owed_bytes and before.in_vain:
        # The heat of a node does not fall while groups exchange hot memory for hot memory.
        before = replace(before, rest_s=0.0, stage_ends_s=0.0)
    seen = replace(
        seen,
        behind_bytes=now.behind_bytes(sweep, clear),
        allowed_bytes=now.allowed_bytes[sweep.id],
        joined_bytes=now.joined_bytes(sweep.node),
    )
    if sweep.target_node in now.seen:
        did = now.seen[sweep.target_node]
        seen = replace(
            seen,
            heat_above=did.heat,
            trade=Trade(
                did.visited_bytes.get(Visit.demote, 0),
                did.moved_bytes.get(Visit.demote, 0),
                above.idle_s,
            ),
        )
    # Where a round takes long, it would be known too late whether a longer lag helps.
    idle_s = above.learned_s if seen.is_long else descent.may_be_s(above)
    after, told = climbing.step(before, seen, room, idle_s)
    # A lag that is longer because there is room asks for no other idle time.
    above = descent.at_least(above, min(IDLE_PER_LAG * after.lag_s, idle_s))
    if after.rounds_since_rise:
        above = descent.at_least(above, after.idle_per_lag * after.least_lag_s(seen))
    if before.calm and not after.calm:
        above = descent.woken(above)
    ids = {Visit.promote: sweep.id, Visit.clear: clear.id}
    turns = now.turns(sweep.node, Visit.promote, before.rounds, fallback=sweep.fallback)
    decided = Decided(
        {**_closed_beside(sweep, turns), **{ids[visit]: gate for visit, gate in told.items()}},
        {sweep.id: climb_words.reason(after, sweep, room)},
        frozenset({sweep.id}) if after.is_busy(room) else frozenset(),
        {} if held else {sweep.id: Bar(after.bar_s(seen), after.yield_share)},
    )
    return after, above, decided


def _closed_beside(sweep: Sweep, turns: Iterable[Sweep]) -> Mapping[str, Gate]:
    """Return gates that close all of these sweeps but the one whose turn it is."""
    return {one.id: CLOSED for one in turns if one.id != sweep.id}


def _with_target(
    before: Climb, state: PagesState, now: Tick, node: int, *, fallback: bool = False
) -> Climb:
    """Return a climb whose next round goes to the next target, or to the first after it with room.

    While a round is under way it has one target: the sweeps to the others are elsewhere.
    """
    if before.stage is Stage.rests:
        turns = now.turns(node, Visit.promote, before.rounds, fallback=fallback)
        for more, sweep in enumerate(turns):
            if before.may_begin(_room(before, state, now, sweep)):
                return replace(before, rounds=before.rounds + more)
    return before


def _room(before: Climb, state: PagesState, now: Tick, sweep: Sweep) -> Room:
    """Return the room that a sweep may fill, or why it may not."""
    room = replace(now.rooms[sweep.target_node], opens_at_once=not sweep.gated)
    if not now.seen[sweep.node].can_tell:
        return replace(room, stopped=MOSTLY_HUGE)
    if state.debts_bytes[sweep.id] > 0:
        return replace(room, stopped=OVER_RATE, over_rate=True)
    if _is_used_up(state.budgets[sweep.node], runs=before.is_running):
        # If nothing may come up for another reason too, what was cleared has to wait as well.
        return replace(room, stopped=USED_UP, used_up=not room.stopped)
    return room


def _descend(state: PagesState, now: Tick, node: int) -> tuple[PagesState, Decided]:
    room = now.rooms[node]
    before = state.descents.get(node, NO_DESCENT)
    found = state.climbs_to(node, now.sweeps)
    climbs = [(one, now.seen[source]) for source, one in found.all]
    # Memory that regions show to be hot and that waits for room is worth room, whatever single
    # pages have shown.
    in_vain = room.hinted_in_vain or (not room.wanted_bytes and found.in_vain)
    if room.hinted_woke:
        before = descent.woken(before)
    seen = now.seen[node]
    least_s = max(now.idle_s_min, room.idle_s_min, IDLE_PER_LAG * seen.window_s)
    if any(one.is_long for _, one in climbs):
        least_s = max(least_s, IDLE_S_LONG)
    if not seen.can_tell:
        # Regions make the room, and tell how much is idle.
        before = replace(before, found=room.cold_share)
    before = descent.learned(before, seen.seconds, least_s, in_vain=in_vain)
    # Room for what programs allocate is needed soon, whatever is idle the longest.
    most_s = max(least_s, IDLE_S_FIRST) if room.is_short else before.learned_s
    before = replace(before, idle_s=min(before.learned_s, most_s))
    nearest, further = (
        now.turns(node, Visit.demote, before.rounds, fallback=fallback)
        for fallback in (False, True)
    )
    full = not any(fallbacks.fits(one, room) for one in nearest)
    before = replace(before, full_s=before.full_s + seen.seconds if full else 0.0)
    sweep = fallbacks.down((*nearest, *further), room, before)
    ages = now.turn(node, Visit.age, 0)
    before = replace(before, target=sweep.target_node)
    room = replace(room, fits_bytes=room.fits_on(sweep.target_node))
    # A climb from this node clears its pages, so that all of them would look idle soon after. A
    # climb that waits for room must not stop this descent: the node above may have no room because
    # this one has none.
    cleared = state.clears_pages(node)
    if cleared:
        before = replace(before, cleared=(), visited_bytes=0)
    runs = before.is_open or bool(before.cleared)
    held = _held(state, now, sweep, runs=runs, cleared=cleared)
    wanted = replace(_wanted(room, climbs), held=held, waits=_waits(state, room, sweep))
    seen = replace(
        seen,
        behind_bytes=now.behind_bytes(sweep, ages, descent.BEHIND_SHARE_MAX),
        allowed_bytes=now.allowed_bytes[sweep.id],
    )
    after, told = descent.follow(before, seen, wanted)
    gate = told[Visit.demote]
    others = _closed_beside(sweep, (*nearest, *further))
    return replace(state, descents={**state.descents, node: after}), Decided(
        {**others, ages.id: told[Visit.age], sweep.id: gate},
        {sweep.id: descent.reason(after, sweep, wanted, gate)},
        frozenset({sweep.id}) if gate.is_open else frozenset(),
        {sweep.id: Bar(after.idle_s, after.yield_share)},
    )


def _push(state: PagesState, now: Tick, node: int) -> tuple[PagesState, Decided]:
    room, before = now.rooms[node], state.pushes.get(node, Push())
    few = _Few(state, now, now.turn(node, Visit.push, before.rounds), runs=before.is_open)
    cheaply = few.sweep.passes_cheaply
    after, gate = push.step(before, few.seen, room, held=few.held, passes_cheaply=cheaply)
    told = few.told(gate, push.reason(after, room, gate), busy=gate.is_open)
    return replace(state, pushes={**state.pushes, node: after}), told


def _relieve(state: PagesState, now: Tick, node: int) -> tuple[PagesState, Decided]:
    room, before = now.rooms[node], state.reliefs.get(node, Relief())
    few = _Few(state, now, now.turn(node, Visit.relieve, before.rounds), runs=before.is_open)
    cheaply = few.sweep.passes_cheaply
    after, gate = relief.step(before, few.seen, room, held=few.held, passes_cheaply=cheaply)
    # Readings are as frequent as ticks, and the next part waits for some.
    busy = room.answers.excess > 0
    told = few.told(gate, relief.reason(after, room, gate), busy=busy)
    return replace(state, reliefs={**state.reliefs, node: after}), told


@dataclass(frozen=True, slots=True)
class _Few:
    """The turn of a sweep that takes few pages of those that it passes, and hot ones."""

    state: PagesState
    now: Tick
    sweep: Sweep
    runs: bool
    """Whether it has been open."""

    @property
    def seen(self) -> Seen:
        mine, seen = self.sweep, self.now.seen[self.sweep.node]
        speed = mine.quota_bytes / seen.window_s
        return replace(seen, bytes_per_s=speed, allowed_bytes=self.now.allowed_bytes[mine.id])

    @property
    def held(self) -> bool:
        """Whether it may not run."""
        fits = self.now.rooms[self.sweep.node].fits_bytes >= fitting_bytes(self.sweep)
        used_up = _is_used_up(self.state.budgets[self.sweep.node], runs=self.runs)
        return self.state.debts_bytes[self.sweep.id] > 0 or not fits or used_up

    def told(self, gate: Gate, reason: str, *, busy: bool) -> Decided:
        mine = self.sweep
        turns = [one for one in self.now.sweeps if (one.node, one.visit) == (mine.node, mine.visit)]
        return Decided(
            {**_closed_beside(mine, turns), mine.id: gate},
            {mine.id: reason},
            frozenset({mine.id}) if busy else frozenset(),
        )


def _wanted(room: Room, climbs: Iterable[tuple[Climb, Seen]]) -> Wanted:
    """Return the room that is wanted for what comes up by regions and by these climbs."""
    ahead = room.wanted_bytes
    comes = room.hinted_bytes_per_s + sum(one.comes_bytes_per_s(seen) for one, seen in climbs)
    soon = soon_bytes((one for one, _ in climbs), room.ahead_bytes)
    if soon:
        # What is used until there is more room again comes on top.
        ahead = max(ahead, soon + min(comes * AHEAD_S, room.ahead_bytes))
    lacks = min(room.fits_bytes, room.kept_bytes + ahead - room.free_bytes)
    return Wanted(
        lacks_bytes=lacks,
        least_bytes=min(room.fits_bytes, ahead, room.ahead_bytes) / 2,
        comes_bytes_per_s=comes,
        beyond_bytes=min(room.fits_bytes - max(0.0, lacks), AHEAD_SHARE * room.total_bytes),
        owed_bytes=room.owed_bytes,
    )


def _held(state: PagesState, now: Tick, sweep: Sweep, *, runs: bool, cleared: bool) -> str:
    """Return why the two sweeps of a descent may not run; empty if they may."""
    if cleared:
        return f"pages of node {sweep.node} come up, and were cleared for that"
    if not now.seen[sweep.node].can_tell:
        return MOSTLY_HUGE
    return USED_UP if _is_used_up(state.budgets[sweep.node], runs=runs) else ""


def _waits(state: PagesState, room: Room, sweep: Sweep) -> str:
    """Return why nothing may go down now; empty if it may."""
    if state.debts_bytes[sweep.id] > 0:
        return OVER_RATE
    return f"no room on node {sweep.target_node}" if room.fits_bytes < fitting_bytes(sweep) else ""


def _is_used_up(left: Budget, *, runs: bool) -> bool:
    """Return whether sweeps must stop, or must not begin."""
    return left.is_used_up if runs else left.is_low
