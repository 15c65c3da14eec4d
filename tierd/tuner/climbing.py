"""Promotion by page: brings pages of a node up that were touched within a short time. Pure.

One sweep clears the pages in the order of their addresses, and another visits them a lag later. A
page that was touched in between comes up. All pages of a node are visited in a round.
"""

from math import inf

from tierd.frozen import replace
from tierd.plans.plan import Visit
from tierd.plans.visits import VISITED_PER_RATE_MAX
from tierd.tuner import climb_heat, distance, gain, touches
from tierd.tuner.climb import AHEAD_SHARE_MIN, NEXT_ROUND, REST_S_MIN, Climb, Stage
from tierd.tuner.climb_heat import HEAT_S
from tierd.tuner.distance import CLOSE_S, FAR
from tierd.tuner.gain import PIECE_S_MIN, REST_S_MAX, Gain, Reading
from tierd.tuner.gate import CLOSED, OPEN, Gate, Gates, Room, Seen, until, yield_share
from tierd.tuner.lag import GROWTH, Limit, is_roomy, leaves_room, limit
from tierd.tuner.trade import Trade

# A drain that has left more windows than this goes on.
LEFT_WINDOWS = 5

# A drain that takes longer than CLOSE_S may pass the rate limit. Then both sweeps are held where
# they are, for so many lags, or for a round if that is longer. When they go on, the pages between
# them were cleared longer ago than the lag. To go around the node takes a round.
HELD_LAGS = 4

# They go on if these pages are at most this share of a round. If they are more, the hold must be
# shorter than the time that a sweep needs for them. Else too many of them look young, and come up.
FEW_SHARE = 1 / 16

# The lag grows after each lap: so many seconds in which both sweeps ran, and so many times the lag.
LAP_S = 1.0
LAP_LAGS = 4.0

# A sweep that should run counts as at least this share as fast as planned.
SLOWEST_SHARE = 0.5

# A round that waits for room for too long ends, if it has visited this share of its pages. Before
# that it says nothing: heat cannot have fallen by much. If it counted as in vain, demotion would
# slow down, there would be still less room, and no round would ever be whole.
TELLS_SHARE = 0.5

# If a round takes so long, it is asked in its middle whether moves are worth it. Of shorter rounds
# two are over before this can be told.
CHECKED_ROUND_S = PIECE_S_MIN / 2

# The lag does not grow after a lap or a round that waited for more than this share of its time.
WAITED_SHARE_MAX = 0.3


def step(before: Climb, seen: Seen, room: Room, idle_s: float) -> tuple[Climb, Gates]:
    """Return a climb after a tick, and which of its two sweeps open or close."""
    room = _usable(before, room)
    # Nothing goes down for a round that uses the room that is left.
    by_idle_s = inf if before.fills else idle_s / before.idle_per_lag
    lag = limit(seen, room, by_idle_s, before.touches.came_share)
    now = replace(before, lag_s=min(before.lag_s, lag.longest_s))
    now = _gained(_touched(_felt(now, seen), seen, room), seen, room)
    now = _stopped(replace(now, stage_s=now.stage_s + seen.seconds), seen)
    now = replace(
        now,
        lasted_s=now.lasted_s + seen.seconds,
        cleared_bytes=now.cleared_bytes + seen.visited_bytes.get(Visit.clear, 0),
        trade=now.trade.plus(seen.trade),
        joined_bytes=now.joined_bytes + seen.joined_bytes,
        yield_share=yield_share(now.yield_share, seen, Visit.promote),
    )
    match now.stage:
        case Stage.rests if now.may_begin(room) and now.is_rested(room):
            return _beginning(now, seen, room, lag)
        case Stage.goes_round:
            return _going_round(now, seen, room, lag)
        case Stage.clears if now.stage_s >= now.stage_ends_s:
            return _enter(now, Stage.takes), {}
        case Stage.clears if now.stage_ends_s == inf:
            ran = seen.visited_bytes.get(Visit.clear, 0) / seen.seconds
            return _opening(now, seen, max(ran, seen.bytes_per_s * SLOWEST_SHARE))
        case Stage.takes:
            return _taking(now, seen, room, lag)
        case Stage.drains:
            return _drained(now, seen, room, lag)
        case Stage.holds:
            return _holding(_waited(now, seen, room), seen, room)
        case Stage.waits:
            return _waiting(_waited(now, seen, room), seen, room, lag, idle_s)
        case _:
            pass
    return now, {}


def _waiting(now: Climb, seen: Seen, room: Room, lag: Limit, idle_s: float) -> tuple[Climb, Gates]:
    """Go on when there is room, or end a round that waits in vain."""
    begins = now.may_begin(room)
    if now.fills and not begins and not room.stopped:
        # It has used the room that was left. Nothing goes down for it, so none will come.
        return _ended(now, seen, room, lag)
    lacks_room = not begins and now.waited_s > max(idle_s, now.took_s)
    if now.gain.in_vain or (lacks_room and _tells(now, seen)):
        return _ended(now, seen, room, lag)
    return _clearing(now, seen) if begins else (now, {})


def _stopped(now: Climb, seen: Seen) -> Climb:
    """Return a climb that knows what lies between both sweeps, if both wait at the same place."""
    if now.stage not in (Stage.rests, Stage.waits):
        return now
    # If they are not close, one of them first goes around the node, and clears all of it anew.
    return replace(now, left_bytes=max(0.0, seen.behind_bytes) if distance.is_close(seen) else 0.0)


def _much_bytes(room: Room) -> float:
    """Return what counts as much. Less may come up in a round by chance."""
    return AHEAD_SHARE_MIN * room.ahead_bytes


def _waited(now: Climb, seen: Seen, room: Room) -> Climb:
    """Return a climb after a tick in which it waited for room, or for something else."""
    if room.stopped or room.reserved_bytes:
        return now
    waited_s, lap_waited_s = now.waited_s + seen.seconds, now.lap_waited_s + seen.seconds
    return replace(now, waited_s=waited_s, lap_waited_s=lap_waited_s)


def _tells(now: Climb, seen: Seen) -> bool:
    """Return whether enough pages were visited to say if the round helps."""
    return now.cleared_bytes >= TELLS_SHARE * seen.round_bytes


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
        trade=Trade(),
        joined_bytes=0,
        gain=replace(now.gain, in_vain=False),
    )


def _clearing(now: Climb, seen: Seen) -> tuple[Climb, Gates]:
    """Open the sweep that clears, and later the other one, so that it is behind by the lag."""
    if distance.start_together(now.wants_lag_s(seen), seen):
        return _opened(now, seen)
    lacks = distance.lag_bytes(now.wants_lag_s(seen), seen) - seen.behind_bytes
    if not distance.is_close(seen):
        # What it would visit was cleared long ago, so all of it would look young. So the other
        # sweep goes around the node once, and comes up from behind.
        lacks += seen.round_bytes
    if lacks <= 0:
        return _opened(now, seen)
    # Either may begin up to a window late. Where the other one has not been yet, all looks young.
    return _leading(now, seen, lacks + seen.window_bytes)


def _leading(now: Climb, seen: Seen, bytes_: float) -> tuple[Climb, Gates]:
    """Let the sweep that clears go on by so much before the other one follows.

    Less, if the lag becomes shorter meanwhile.
    """
    lag_bytes = distance.lag_bytes(now.wants_lag_s(seen), seen)
    led = replace(now, follows_at_bytes=now.cleared_bytes + bytes_ - lag_bytes)
    after, gates = _opening(_enter(led, Stage.clears, inf), seen, seen.bytes_per_s)
    return after, {**gates, Visit.clear: OPEN}


def _opening(now: Climb, seen: Seen, bytes_per_s: float) -> tuple[Climb, Gates]:
    """Open the sweep that promotes as soon as the other one is far enough ahead.

    That is decided by where it is, and not by when it should be there: it may be slow. What it has
    not cleared yet would all look young.
    """
    lag_bytes = distance.lag_bytes(now.wants_lag_s(seen), seen)
    left_bytes = now.follows_at_bytes + lag_bytes - now.cleared_bytes
    if left_bytes <= 0:
        return _enter(now, Stage.takes), {Visit.promote: OPEN}
    after_s = left_bytes / min(seen.bytes_per_s, bytes_per_s)
    if after_s > seen.seconds:
        # At the next tick it is known better where the other one is.
        return now, {Visit.promote: CLOSED}
    promote = Gate(is_open=False, then_open=True, after_s=after_s)
    return replace(now, stage_ends_s=now.stage_s + after_s), {Visit.promote: promote}


def _opened(now: Climb, seen: Seen, gate: Gate = OPEN) -> tuple[Climb, Gates]:
    return _enter(now, Stage.takes), distance.opened(now.wants_lag_s(seen), seen, gate)


def _holding(now: Climb, seen: Seen, room: Room) -> tuple[Climb, Gates]:
    if _are_old(now, seen):
        return _enter(now, Stage.waits), {}
    if not room.stopped and room.spare_bytes > 0:
        return _opened(now, seen, until(room.spare_bytes, now.yield_share, seen))
    # When it has taken too long, the sweeps go around the node before they go on.
    return (_enter(now, Stage.waits), {}) if now.stage_s >= now.stage_ends_s else (now, {})


def _are_old(now: Climb, seen: Seen) -> bool:
    """Return whether many pages between two sweeps that are held were cleared long ago."""
    many = seen.behind_bytes > FEW_SHARE * seen.round_bytes
    return many and now.stage_s > seen.behind_bytes / seen.bytes_per_s


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
    if now.in_vain or not _leaves_room(now, room, lag) or now.lag_s * GROWTH < lag.longest_s:
        return False
    whole = max(now.cleared_bytes, now.touches.visited_bytes) >= seen.round_bytes
    return whole and now.stage_s <= seen.round_s


def _leaves_room(now: Climb, room: Room, lag: Limit) -> bool:
    return leaves_room(room, lag, now.ahead_bytes(room.ahead_bytes))


def _going_round(now: Climb, seen: Seen, room: Room, lag: Limit) -> tuple[Climb, Gates]:
    now = replace(now, took_s=now.took_s + seen.seconds)
    if room.stopped:
        # Both sweeps go on when it is over: what was cleared is too long ago by then.
        return _enter(now, Stage.waits), {Visit.promote: CLOSED}
    if not _leaves_room(now, room, lag) or now.touches.visited_bytes >= seen.round_bytes:
        after, gates = _ended(now, seen, room, lag)
        return after, {Visit.promote: CLOSED, **gates}
    return now, _round_gates(now, seen, room)


def _round_gates(now: Climb, seen: Seen, room: Room) -> Gates:
    promote = until(room.spare_bytes, now.yield_share, seen)
    return {Visit.clear: CLOSED, Visit.promote: promote}


def _taking(now: Climb, seen: Seen, room: Room, lag: Limit) -> tuple[Climb, Gates]:
    now = replace(now, took_s=now.took_s + seen.seconds, lap_s=now.lap_s + seen.seconds)
    # What was cleared and not visited yet. If both sweeps stopped now, all of it would look young
    # when they go on. So the sweep that promotes visits it first, and there must be room for that.
    drain_s = distance.drain_s(seen)
    together = distance.stop_together(seen)
    drains = not together and _may_drain(now, seen, room)
    drained_bytes = now.yield_share * max(0.0, seen.behind_bytes) if drains else 0.0
    spare_bytes = room.spare_bytes - drained_bytes
    full = room.stopped or spare_bytes <= 0
    if full or now.is_over(seen.round_bytes):
        if full and _came_too_much(now, room):
            # A page must be hotter from now on.
            now = now.shorter(seen)
        if together:
            return _stopping(now, seen, room, lag)
        return _held(now, seen) if full and not drains else _draining(now, seen)
    if seen.behind_bytes < seen.window_bytes / 2:
        # It has caught up: it would visit pages that were not cleared in this round.
        return _clearing(now, seen)
    if now.lap_s >= max(LAP_S, LAP_LAGS * now.lag_s):
        now, longer_s = _lapped(now, seen, lag)
        if longer_s > 0 and not distance.steers(longer_s, seen):
            return _leading(now, seen, longer_s * seen.bytes_per_s)
    gate = until(spare_bytes, now.yield_share, seen)
    later = replace(gate, after_s=gate.after_s + drain_s) if drains and gate != OPEN else gate
    return now, distance.kept(now.wants_lag_s(seen), seen, promote=later, clear=gate)


def _stopping(now: Climb, seen: Seen, room: Room, lag: Limit) -> tuple[Climb, Gates]:
    """Stop both sweeps with one commit. They keep the distance of the lag."""
    closed: Gates = {Visit.clear: CLOSED, Visit.promote: CLOSED}
    if now.fills or now.is_over(seen.round_bytes):
        after, gates = _ended(now, seen, room, lag)
        return after, {**closed, **gates}
    return _enter(now, Stage.waits), closed


def _came_too_much(now: Climb, room: Room) -> bool:
    """Return whether pages are why nothing more fits now, into the room or into the rate."""
    if room.reserved_bytes:
        return False
    return not room.stopped or (room.over_rate and not _keeps_to_rate(now))


def _keeps_to_rate(now: Climb) -> bool:
    """Return whether a sweep moves no more than the rate limit, though it is at its fastest."""
    return now.yield_share <= 1 / VISITED_PER_RATE_MAX


def _lapped(now: Climb, seen: Seen, lag: Limit) -> tuple[Climb, float]:
    """Return a climb after a lap, and how much longer its lag is."""
    before_s = now.wants_lag_s(seen)
    lag_s = max(before_s, _next_lag_s(now, seen, lag, now.lap_waited_s, now.lap_s))
    return replace(now, lag_s=lag_s, lap_s=0.0, lap_waited_s=0.0), lag_s - before_s


def _next_lag_s(now: Climb, seen: Seen, lag: Limit, waited_s: float, ran_s: float) -> float:
    """Return the lag after a lap or a round: longer, if there was room for what came up."""
    if (now.in_vain and now.brought) or _lacked_room(waited_s, ran_s):
        return now.lag_s
    return min(now.wants_lag_s(seen) * lag.growth, lag.longest_s)


def _lacked_room(waited_s: float, ran_s: float) -> bool:
    return waited_s > WAITED_SHARE_MAX * (waited_s + ran_s)


def _may_drain(now: Climb, seen: Seen, room: Room) -> bool:
    """Return whether a drain is short, or both sweeps would wait for long without it.

    They wait for long if there is no room, or if the processor time is used up. What was beyond the
    rate limit is paid back soon.
    """
    if distance.drain_s(seen) <= CLOSE_S:
        return True
    if room.stopped and not room.used_up:
        return False
    if not seen.is_long:
        # Few pages are between the sweeps, so a hold costs little.
        return _keeps_to_rate(now)
    moves_bytes = now.yield_share * seen.bytes_per_s * seen.seconds
    return moves_bytes <= FAR * seen.allowed_bytes


def _drained(now: Climb, seen: Seen, room: Room, lag: Limit) -> tuple[Climb, Gates]:
    if not _may_drain(now, seen, room):
        return _held(now, seen)
    if now.stage_s < now.stage_ends_s:
        return now, _drain_gates(now, seen, now.stage_ends_s - now.stage_s)
    if seen.behind_bytes > LEFT_WINDOWS * seen.window_bytes:
        # It took longer than was thought.
        return _draining(now, seen)
    done = now.fills or now.is_over(seen.round_bytes)
    return _ended(now, seen, room, lag) if done else (_enter(now, Stage.waits), {})


def _held(now: Climb, seen: Seen) -> tuple[Climb, Gates]:
    """Stop both sweeps where they are. To go around the node would take a round."""
    longest_s = max(HELD_LAGS * distance.drain_s(seen), seen.round_s)
    return _enter(now, Stage.holds, longest_s), {Visit.clear: CLOSED, Visit.promote: CLOSED}


def _draining(now: Climb, seen: Seen) -> tuple[Climb, Gates]:
    drain_s = distance.drain_s(seen)
    return _enter(now, Stage.drains, drain_s), _drain_gates(now, seen, drain_s)


def _drain_gates(now: Climb, seen: Seen, left_s: float) -> Gates:
    """Visit what was cleared, for so long at most, and no faster than the rate limit allows."""
    within_rate = until(inf, now.yield_share, seen)
    if not within_rate.then_open:
        left_s = min(left_s, within_rate.after_s)
    promote = Gate(is_open=True, then_open=False, after_s=left_s) if left_s else CLOSED
    return {Visit.clear: CLOSED, Visit.promote: promote}


def _enter(now: Climb, stage: Stage, ends_s: float = 0.0) -> Climb:
    return replace(now, stage=stage, stage_s=0.0, stage_ends_s=ends_s)


def _touched(now: Climb, seen: Seen, room: Room) -> Climb:
    """Add what was visited. If clearly more came up than before, the climb begins anew."""
    visited_bytes = seen.visited_bytes.get(Visit.promote, 0)
    came_bytes = seen.moved_bytes.get(Visit.promote, 0)
    # What lay between two sweeps that had stopped is visited first. It was cleared long before, so
    # nearly all of it may have come up. That says nothing about the lag.
    left = round(min(now.left_bytes, visited_bytes))
    counted = touches.add(
        now.touches, visited_bytes - left, max(0, came_bytes - left), now.lag_now_s(seen)
    )
    now = replace(now, touches=counted, left_bytes=now.left_bytes - left)
    # Where a round takes long, the check for gain says whether it is worth it. A round that uses
    # the room that is left makes its lag much longer, so what comes up says nothing about heat.
    if now.fills or seen.is_long or not visited_bytes or not counted.have_risen(_much_bytes(room)):
        return now
    return _anew(now)


def _gained(now: Climb, seen: Seen, room: Room) -> Climb:
    """Check in the middle of a round whether what came up was worth it."""
    heat = seen.heat + seen.heat_above
    if heat <= 0 or seen.round_s < CHECKED_ROUND_S:
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
        least_s=inf,
        fills=False,
        expects_bytes=inf,
        heat=now.heat.anew(),
        touches=now.touches.anew(),
        rounds_since_rise=0,
        vain_rounds=0,
        lasted_s=0.0,
        gain=Gain(),
    )
    return replace(anew, stage_ends_s=0.0) if now.stage is Stage.rests else anew


def _ended(now: Climb, seen: Seen, room: Room, lag: Limit) -> tuple[Climb, Gates]:
    """Return a climb after a round: it rests, or uses the room that is left.

    A round that has brought little says little. With a longer lag the next one may bring more.
    """
    brought = now.touches.came_bytes > _much_bytes(room)
    if now.fills:
        # It says nothing about the next round, but it has moved pages too.
        vain_bytes = now.vain_bytes + now.touches.came_bytes
        now = replace(now, fills=False, vain_bytes=vain_bytes)
    else:
        # Room that was free is used better by what came up, whatever heat says.
        roomy = is_roomy(room)
        now = _judged(now, seen, lag, fills=roomy and brought)
        apart = brought and not roomy and not seen.is_long
        now = replace(now, rounds_since_rise=now.rounds_since_rise + apart)
        left = not room.stopped and room.left_bytes > _much_bytes(room)
        if now.in_vain and left:
            # To the same target, because the room is there.
            return _clearing(_begun(replace(now, fills=True)), seen)
    lag_s = now.lag_s / 2 if now.in_vain and brought else now.lag_s
    now = replace(now, lag_s=lag_s, brought=brought, rounds=now.rounds + 1)
    return _enter(now, Stage.rests, max(now.rest_s, now.pays_s(room))), {}


def _judged(now: Climb, seen: Seen, lag: Limit, *, fills: bool) -> Climb:
    """Return a climb after a round that `fills` free room or not: the next lag, and its rest."""
    helped = (
        now.heat.least is None
        or now.touches.cooled
        or now.heat.has_fallen
        or now.trade.is_worth_it(now.touches.hz)
        # Hot pages from below have taken the places of those that left.
        or now.joined_bytes >= max(1, now.touches.came_bytes)
        or fills
    ) and not now.gain.in_vain
    lacked_room = _lacked_room(now.waited_s, now.took_s)
    took_s = now.took_s + now.waited_s
    # Where rounds take long, the check for gain says how long to rest.
    now = replace(now, vain_rounds=now.vain_rounds + (not helped and not seen.is_long))
    longest_s = max(took_s, REST_S_MAX)
    least_s = max(REST_S_MIN, now.gain.rest_s if now.gain.in_vain else took_s)
    rest_s = 0.0 if helped else min(longest_s, max(least_s, 2 * now.rest_s))
    lag_s = now.lag_s
    if helped:
        lag_s = _next_lag_s(replace(now, rest_s=0.0), seen, lag, now.waited_s, now.took_s)
    return replace(
        now,
        lag_s=lag_s,
        rest_s=rest_s,
        vain_bytes=now.touches.came_bytes,
        expects_bytes=inf if lacked_room else NEXT_ROUND * now.touches.came_bytes,
        touches=now.touches.ended(seen.round_bytes),
        heat=now.heat.ended(),
    )
