"""Promotion by page: brings pages of a node up that were touched within a short time. Pure.

One sweep clears the pages in the order of their addresses, and another visits them a lag later. A
page that was touched in between comes up. All pages of a node are visited in a round.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf

from tierd.plans.plan import Visit
from tierd.tuner import climb_heat, gain, touches
from tierd.tuner.climb_heat import HEAT_S, ClimbHeat
from tierd.tuner.gain import REST_S_MAX, Gain, Reading
from tierd.tuner.gate import (
    CLOSED,
    OPEN,
    YIELD_FIRST,
    Gate,
    Gates,
    Room,
    Seen,
    until,
    yield_share,
)
from tierd.tuner.lag import GROWTH, Limit, is_roomy, limit
from tierd.tuner.touches import Touches

# Promotion begins when this part of the room ahead is free, and waits when nothing is. Between the
# two, both sweeps run for a while.
RESUME_SHARE = 0.5

# The room ahead is what the next round is expected to bring up: NEXT_ROUND times what the last one
# brought up, because its lag is longer. More room would lie unused. It is at least AHEAD_SHARE_MIN
# of the room for a first round.
NEXT_ROUND = 2.0
AHEAD_SHARE_MIN = 1 / 8

# The sweep that promotes is close to the other one if it is behind by so many seconds at most. If a
# command takes a tenth of a second, it cannot be closer.
CLOSE_S = 0.4

# A drain ends so many windows before the place where the other sweep has stopped, because it may be
# closed late. Pages beyond that place were not cleared in this round, so all of them would look
# young. The pages that a drain leaves out look young when it goes on, if they were touched since
# they were cleared.
SHORT_WINDOWS = 1

# A drain that has left more windows than this goes on.
LEFT_WINDOWS = 5

# If the sweep that promotes is behind by more than so many times the lag, it comes closer first.
FAR = 2.0

# The idle time is at least so many times the lag in the first round after heat has risen. Pages
# between these two bars stay where they are.
IDLE_PER_LAG = 8

# The factor by which the two bars move apart from round to round. The first round brings most of
# what can be gained. Each later one exchanges pages that differ less, many of them by chance. So it
# asks for a larger difference, and the exchange ends. Where a round takes long there are few of
# them, and the heat of so much memory lasts: there the bars stay where they are.
APART = 1.5

# Rounds after which the bars move apart no more: the idle time has its longest value by then, also
# with windows of 10 ms.
APART_ROUNDS_MAX = 23

# The lag grows after each lap: so many seconds in which both sweeps ran, and so many times the lag.
LAP_S = 1.0
LAP_LAGS = 4.0

# The lag does not grow after a lap or a round that waited for more than this share of its time.
WAITED_SHARE_MAX = 0.3

# Seconds between two rounds that did not help, at first. They double each time.
REST_S_MIN = 2.0


class Stage(StrEnum):
    """Where the round of a climb is."""

    rests = "rests"
    """No round is under way."""
    clears = "clears"
    """The sweep that clears runs. The one that promotes follows after the lag."""
    takes = "takes"
    """Both run."""
    drains = "drains"
    """The sweep that clears has stopped. The one that promotes goes on to the same place."""
    goes_round = "goes round"
    """Only the sweep that promotes runs. It clears pages too, so a page is cleared a round before
    its visit."""
    waits = "waits"
    """Both wait at the same place, until there is room."""


@dataclass(frozen=True, slots=True)
class Climb:
    """Promotion by page from one node."""

    lag_s: float = 0.0
    """How long before its visit a page is cleared, if that is more than a window. The page comes up
    if it was touched in this time."""
    stage: Stage = Stage.rests
    stage_s: float = 0.0
    """How long it has been in this stage."""
    stage_ends_s: float = 0.0
    """How long it stays in a stage whose length is known."""
    rest_s: float = 0.0
    """How long it last rested after a round."""
    fills: bool = False
    """Whether this round only uses the room that is left. Nothing goes down for it."""
    took_s: float = 0.0
    """How long both sweeps ran in this round."""
    waited_s: float = 0.0
    """How long both waited for room in this round."""
    lap_s: float = 0.0
    """How long both sweeps ran in this lap."""
    lap_waited_s: float = 0.0
    """How long both waited for room in this lap."""
    cleared_bytes: int = 0
    """The memory that was cleared in this round."""
    brought: bool = False
    """Whether the last round has brought much up."""
    expects_bytes: float = inf
    """What is expected to come up in the next round, if the last one says that."""
    touches: Touches = field(default_factory=Touches)
    """What the visits of this round saw, and those of the rounds since heat last rose."""
    rounds: int = 0
    rounds_since_rise: int = 0
    """The rounds that needed room and were not long, since heat last rose."""
    yield_share: float = YIELD_FIRST
    """The share of visited memory that came up lately."""
    heat: ClimbHeat = field(default_factory=ClimbHeat)
    """The heat of the node and of the one above, since heat last rose."""
    gain: Gain = field(default_factory=Gain)
    """What was gained since heat last rose, if rounds are long."""

    @property
    def idle_per_lag(self) -> float:
        """How many times the lag the idle time must be at least."""
        return IDLE_PER_LAG * APART ** min(self.rounds_since_rise, APART_ROUNDS_MAX)

    @property
    def calm(self) -> bool:
        """True if a round is over, and heat has not risen since."""
        return self.heat.calm is not None

    @property
    def in_vain(self) -> bool:
        """True if the last round did not help, and heat has not risen since."""
        return self.rest_s > 0

    @property
    def is_running(self) -> bool:
        """True if pages come up now, or within the lag."""
        return self.stage in (Stage.clears, Stage.takes, Stage.goes_round)

    @property
    def wants_room(self) -> bool:
        """True while a round that needs room is under way, or follows soon."""
        if self.fills:
            return False
        return self.stage is not Stage.rests or self.stage_ends_s - self.stage_s <= REST_S_MIN

    def is_over(self, round_bytes: int) -> bool:
        """Return whether nothing more is cleared in this round."""
        return self.cleared_bytes >= round_bytes or self.gain.in_vain

    def lag_now_s(self, seen: Seen) -> float:
        """Return how long before its visit a page was cleared, by where the sweeps are."""
        if self.stage is Stage.goes_round:
            return seen.round_s
        return max(seen.window_s, seen.behind_bytes / seen.bytes_per_s)

    def bar_s(self, seen: Seen) -> float:
        """Return within which time a page must have been touched to come up."""
        if self.stage is Stage.goes_round:
            return seen.round_s
        return max(seen.window_s, self.lag_s)

    def ahead_bytes(self, most_bytes: float) -> float:
        """Return the room that should be there for the next pages: so much at most."""
        return min(most_bytes, max(AHEAD_SHARE_MIN * most_bytes, self.expects_bytes))

    def may_begin(self, room: Room) -> bool:
        """Return whether there is room for the next pages."""
        ahead_bytes = self.ahead_bytes(room.ahead_bytes)
        return not room.stopped and room.spare_bytes > RESUME_SHARE * ahead_bytes

    def is_busy(self, room: Room) -> bool:
        """Return whether a round is under way, or free room waits for the next one."""
        if self.stage is not Stage.rests:
            return True
        return self.stage_s >= self.stage_ends_s and not room.stopped and is_roomy(room)

    def comes_bytes_per_s(self, seen: Seen) -> float:
        """Return how much comes up per second while sweeps run."""
        return self.yield_share * seen.bytes_per_s if self.is_running else 0.0


def step(before: Climb, seen: Seen, room: Room, idle_s: float) -> tuple[Climb, Gates]:
    """Return a climb after a tick, and which of its two sweeps open or close."""
    room = _usable(before, room)
    lag = limit(seen, room, idle_s / before.idle_per_lag, before.touches.came_share)
    now = replace(before, lag_s=min(before.lag_s, lag.longest_s))
    now = _gained(_touched(_felt(now, seen), seen, room), seen, room)
    now = replace(
        now,
        stage_s=now.stage_s + seen.seconds,
        cleared_bytes=now.cleared_bytes + seen.visited_bytes.get(Visit.clear, 0),
        yield_share=yield_share(now.yield_share, seen, Visit.promote),
    )
    begins = now.may_begin(room)
    match now.stage:
        case Stage.rests if begins and now.stage_s >= now.stage_ends_s:
            return _beginning(now, seen, room, lag)
        case Stage.goes_round:
            return _going_round(now, seen, room, lag)
        case Stage.clears if now.stage_s >= now.stage_ends_s:
            return _enter(now, Stage.takes), {}
        case Stage.takes:
            return _taking(now, seen, room, lag)
        case Stage.drains if now.stage_s >= now.stage_ends_s:
            if seen.behind_bytes > LEFT_WINDOWS * seen.window_bytes:
                # It took longer than was thought.
                return _draining(now, _drain_s(seen))
            done = now.fills or now.is_over(seen.round_bytes)
            return _ended(now, seen, room, lag) if done else (_enter(now, Stage.waits), {})
        case Stage.waits:
            now = _waited(now, seen, room)
            if begins and not now.gain.in_vain:
                return _clearing(now, seen)
            if now.gain.in_vain or now.waited_s > max(idle_s, now.took_s):
                return _ended(now, seen, room, lag)
        case _:
            pass
    return now, {}


def _much_bytes(room: Room) -> float:
    """Return what counts as much. Less may come up in a round by chance."""
    return AHEAD_SHARE_MIN * room.ahead_bytes


def _waited(now: Climb, seen: Seen, room: Room) -> Climb:
    """Return a climb after a tick in which it waited for room, or for something else."""
    if room.stopped or room.reserved_bytes:
        return now
    waited_s, lap_waited_s = now.waited_s + seen.seconds, now.lap_waited_s + seen.seconds
    return replace(now, waited_s=waited_s, lap_waited_s=lap_waited_s)


def _usable(now: Climb, room: Room) -> Room:
    """Return the room as this round may use it: if nothing goes down for it, not the headroom."""
    return replace(room, floor_bytes=room.kept_bytes) if now.fills else room


def _begun(now: Climb) -> Climb:
    return replace(
        now,
        took_s=0.0,
        waited_s=0.0,
        lap_s=0.0,
        lap_waited_s=0.0,
        cleared_bytes=0,
        touches=now.touches.begun(),
        gain=replace(now.gain, in_vain=False),
    )


def _clearing(now: Climb, seen: Seen) -> tuple[Climb, Gates]:
    """Open the sweep that clears, and later the other one, so that it is behind by the lag."""
    lag_s = max(seen.window_s, now.lag_s)
    lacks = lag_s * seen.bytes_per_s - seen.behind_bytes
    if not _is_close(seen):
        # What it would visit was cleared long ago, so all of it would look young. So the other
        # sweep goes around the node once, and comes up from behind.
        lacks += seen.round_bytes
    if lacks <= 0:
        far_s = seen.behind_bytes / seen.bytes_per_s - FAR * lag_s
        clear = Gate(is_open=False, then_open=True, after_s=far_s) if far_s > 0 else OPEN
        return _enter(now, Stage.takes), {Visit.clear: clear, Visit.promote: OPEN}
    # Either may begin up to a window late. Where the other one has not been yet, all looks young.
    after_s = lacks / seen.bytes_per_s + seen.window_s
    promote = Gate(is_open=False, then_open=True, after_s=after_s)
    return _enter(now, Stage.clears, after_s), {Visit.clear: OPEN, Visit.promote: promote}


def _beginning(now: Climb, seen: Seen, room: Room, lag: Limit) -> tuple[Climb, Gates]:
    begun = _begun(now)
    if not _may_go_round(now, seen, room, lag):
        return _clearing(begun, seen)
    begun = _enter(begun, Stage.goes_round)
    return begun, _round_gates(begun, seen, room)


def _may_go_round(now: Climb, seen: Seen, room: Room, lag: Limit) -> bool:
    """Return whether room is left that the longest lag between two sweeps does not fill.

    The last round must have gone over all pages, and not long ago. So each page was cleared one or
    two rounds before its visit.
    """
    if now.in_vain or not is_roomy(room) or now.lag_s * GROWTH < lag.longest_s:
        return False
    whole = max(now.cleared_bytes, now.touches.visited_bytes) >= seen.round_bytes
    return whole and now.stage_s <= seen.round_s


def _going_round(now: Climb, seen: Seen, room: Room, lag: Limit) -> tuple[Climb, Gates]:
    now = replace(now, took_s=now.took_s + seen.seconds)
    if room.stopped:
        # Both sweeps go on when it is over: what was cleared is too long ago by then.
        return _enter(now, Stage.waits), {Visit.promote: CLOSED}
    if not is_roomy(room) or now.touches.visited_bytes >= seen.round_bytes:
        after, gates = _ended(now, seen, room, lag)
        return after, {Visit.promote: CLOSED, **gates}
    return now, _round_gates(now, seen, room)


def _round_gates(now: Climb, seen: Seen, room: Room) -> Gates:
    promote = until(room.spare_bytes, now.yield_share, seen)
    return {Visit.clear: CLOSED, Visit.promote: promote}


def _is_close(seen: Seen) -> bool:
    """Return whether the sweep that promotes is behind by no more than a few windows."""
    return seen.behind_bytes <= CLOSE_S * seen.bytes_per_s


def _taking(now: Climb, seen: Seen, room: Room, lag: Limit) -> tuple[Climb, Gates]:
    now = replace(now, took_s=now.took_s + seen.seconds, lap_s=now.lap_s + seen.seconds)
    # What was cleared and not visited yet. If both sweeps stopped now, all of it would look young
    # when they go on. So the sweep that promotes visits it first, and there must be room for that.
    drain_s = _drain_s(seen)
    spare_bytes = room.spare_bytes - now.yield_share * max(0.0, seen.behind_bytes)
    full = room.stopped or spare_bytes <= 0
    if full or now.is_over(seen.round_bytes):
        if full and not room.stopped and not room.reserved_bytes:
            # Too many pages came up, so a page must be hotter from now on.
            now = replace(now, lag_s=max(seen.window_s, now.lag_s / 2))
        return _draining(now, drain_s)
    if seen.behind_bytes < seen.window_bytes / 2:
        # It has caught up: it would visit pages that were not cleared in this round.
        return _clearing(now, seen)
    if now.lap_s >= max(LAP_S, LAP_LAGS * now.lag_s):
        now, longer_s = _lapped(now, seen, lag)
        if longer_s > 0:
            # The sweep that clears goes on, and the other one waits for as long.
            later = Gate(is_open=False, then_open=True, after_s=longer_s)
            return _enter(now, Stage.clears, longer_s), {Visit.clear: OPEN, Visit.promote: later}
    gate = until(spare_bytes, now.yield_share, seen)
    if gate.then_open:
        return now, {Visit.promote: OPEN, Visit.clear: OPEN}
    later = replace(gate, after_s=gate.after_s + drain_s)
    return now, {Visit.promote: later, Visit.clear: gate}


def _lapped(now: Climb, seen: Seen, lag: Limit) -> tuple[Climb, float]:
    """Return a climb after a lap, and how much longer its lag is."""
    before_s = max(seen.window_s, now.lag_s)
    lag_s = max(before_s, _next_lag_s(now, seen, lag, now.lap_waited_s, now.lap_s))
    return replace(now, lag_s=lag_s, lap_s=0.0, lap_waited_s=0.0), lag_s - before_s


def _next_lag_s(now: Climb, seen: Seen, lag: Limit, waited_s: float, ran_s: float) -> float:
    """Return the lag after a lap or a round: longer, if there was room for what came up."""
    if (now.in_vain and now.brought) or _lacked_room(waited_s, ran_s):
        return now.lag_s
    return min(max(seen.window_s, now.lag_s) * lag.growth, lag.longest_s)


def _lacked_room(waited_s: float, ran_s: float) -> bool:
    return waited_s > WAITED_SHARE_MAX * (waited_s + ran_s)


def _drain_s(seen: Seen) -> float:
    """Return for how long the sweep that promotes may go on after the other one has stopped."""
    return max(0.0, seen.behind_bytes / seen.bytes_per_s - SHORT_WINDOWS * seen.window_s)


def _draining(now: Climb, drain_s: float) -> tuple[Climb, Gates]:
    promote = Gate(is_open=True, then_open=False, after_s=drain_s) if drain_s else CLOSED
    return _enter(now, Stage.drains, drain_s), {Visit.clear: CLOSED, Visit.promote: promote}


def _enter(now: Climb, stage: Stage, ends_s: float = 0.0) -> Climb:
    return replace(now, stage=stage, stage_s=0.0, stage_ends_s=ends_s)


def _touched(now: Climb, seen: Seen, room: Room) -> Climb:
    """Add what was visited. If clearly more came up than before, the climb begins anew."""
    visited_bytes = seen.visited_bytes.get(Visit.promote, 0)
    came_bytes = seen.moved_bytes.get(Visit.promote, 0)
    seen_now = touches.add(now.touches, visited_bytes, came_bytes, now.lag_now_s(seen))
    now = replace(now, touches=seen_now)
    # Where a round takes long, the check for gain says whether it is worth it.
    if seen.is_long or not visited_bytes or not seen_now.have_risen(_much_bytes(room)):
        return now
    return _anew(now)


def _gained(now: Climb, seen: Seen, room: Room) -> Climb:
    """Check in the middle of a long round whether what came up was worth it."""
    heat = seen.heat + seen.heat_above
    if heat <= 0 or not seen.is_long:
        return now
    reading = Reading(seen.seconds, seen.heat_above / heat, now.heat.above_share, HEAT_S)
    if now.stage is Stage.rests:
        if not now.gain.in_vain:
            return now
        rested = gain.rest(now.gain, reading)
        return replace(now, gain=rested) if rested.in_vain else _anew(now)
    came_bytes = seen.moved_bytes.get(Visit.promote, 0)
    return replace(now, gain=gain.step(now.gain, reading, came_bytes, room.total_bytes))


def _felt(now: Climb, seen: Seen) -> Climb:
    """Update the averages of the heat. If calm heat has risen, the climb begins anew."""
    heat, has_risen = climb_heat.feel(now.heat, seen.heat, seen.heat_above, seen.seconds)
    now = replace(now, heat=heat)
    return _anew(now) if has_risen else now


def _anew(now: Climb) -> Climb:
    """Return a climb after programs have turned to other memory."""
    anew = replace(
        now,
        rest_s=0.0,
        fills=False,
        expects_bytes=inf,
        heat=now.heat.anew(),
        touches=now.touches.anew(),
        rounds_since_rise=0,
        gain=Gain(),
    )
    return replace(anew, stage_ends_s=0.0) if now.stage is Stage.rests else anew


def _ended(now: Climb, seen: Seen, room: Room, lag: Limit) -> tuple[Climb, Gates]:
    """Return a climb after a round: it rests, or uses the room that is left.

    A round that has brought little says little. With a longer lag the next one may bring more.
    """
    brought = now.touches.came_bytes > _much_bytes(room)
    if now.fills:
        # It says nothing about the next round.
        now = replace(now, fills=False, rounds=now.rounds + 1)
    else:
        # Room that was free is used better by what came up, whatever heat says.
        roomy = is_roomy(room)
        now = _judged(now, seen, lag, fills=roomy and brought)
        apart = brought and not roomy and not seen.is_long
        now = replace(now, rounds_since_rise=now.rounds_since_rise + apart)
        left = not room.stopped and room.left_bytes > _much_bytes(room)
        if now.in_vain and left:
            return _clearing(_begun(replace(now, fills=True)), seen)
    lag_s = now.lag_s / 2 if now.in_vain and brought else now.lag_s
    return _enter(replace(now, lag_s=lag_s, brought=brought), Stage.rests, now.rest_s), {}


def _judged(now: Climb, seen: Seen, lag: Limit, *, fills: bool) -> Climb:
    """Return a climb after a round that `fills` free room or not: the next lag, and its rest."""
    helped = (
        now.heat.least is None or now.touches.cooled or now.heat.has_fallen or fills
    ) and not now.gain.in_vain
    lacked_room = _lacked_room(now.waited_s, now.took_s)
    took_s = now.took_s + now.waited_s
    longest_s = max(took_s, REST_S_MAX)
    least_s = max(REST_S_MIN, now.gain.rest_s if now.gain.in_vain else took_s)
    rest_s = 0.0 if helped else min(longest_s, max(least_s, 2 * now.rest_s))
    lag_s = now.lag_s
    if helped:
        lag_s = _next_lag_s(replace(now, rest_s=0.0), seen, lag, now.waited_s, now.took_s)
    return replace(
        now,
        rounds=now.rounds + 1,
        lag_s=lag_s,
        rest_s=rest_s,
        expects_bytes=inf if lacked_room else NEXT_ROUND * now.touches.came_bytes,
        touches=now.touches.ended(seen.round_bytes),
        heat=now.heat.ended(),
    )
