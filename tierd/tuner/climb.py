"""Promotion by page: brings pages of a node up that were touched within a short time. Pure.

One sweep clears the pages in the order of their addresses, and another visits them a lag later. A
page that was touched in between comes up. All pages of a node are visited in a round.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from tierd.plans.plan import Sweep, Visit
from tierd.tuner.average import moving
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

# Promotion begins when this part of the room ahead is free, and waits when nothing is. Between the
# two, both sweeps run for a while.
RESUME_SHARE = 0.25

# The sweep that promotes is close to the other one if it is behind by so many windows at most. If a
# command takes a tenth of a second, it cannot be closer.
CLOSE_WINDOWS = 4

# The factor by which the lag grows from round to round, until too many pages come up.
GROWTH = 1.5

# The idle time is at least so many times the lag. Pages between these two bars stay where they are.
IDLE_PER_LAG = 16

# The lag does not grow after a round that waited for more than this share of its time.
WAITED_SHARE_MAX = 0.3

# Seconds between two rounds that did not help: at first, doubled each time, and at most.
REST_S_MIN = 2.0
REST_S_MAX = 60.0

# A round helps if it lowers the heat of the slow node by this share of the lowest heat so far. Heat
# is averaged over HEAT_S seconds, because a single measurement varies.
HELPS_SHARE = 0.1
HEAT_S = 8.0

# After a round that did not help, heat is calm. If it rises, the rest is over: by this share of
# what it was and by so many times its usual swing. Both are averaged over CALM_S seconds.
WAKES_SHARE = 0.2
WAKES_SWINGS = 3.0
CALM_S = 60.0


class Stage(StrEnum):
    """Where the round of a climb is."""

    rests = "rests"
    """No round is under way."""
    clears = "clears"
    """The sweep that clears runs. The one that promotes follows after the lag."""
    takes = "takes"
    """Both run."""
    waits = "waits"
    """Both wait where they are, until there is room."""
    ends = "ends"
    """The sweep that clears has finished the round. The other one follows after the lag."""


@dataclass(frozen=True, slots=True)
class Climb:
    """Promotion by page from one node."""

    lag_s: float = 0.0
    """How long before its visit a page is cleared; it comes up if it was touched in this time."""
    stage: Stage = Stage.rests
    stage_s: float = 0.0
    """How long it has been in this stage."""
    stage_ends_s: float = 0.0
    """How long it stays in a stage whose length is known."""
    rest_s: float = 0.0
    """How long it last rested after a round."""
    took_s: float = 0.0
    """How long both sweeps ran in this round."""
    waited_s: float = 0.0
    """How long both waited for room in this round."""
    cleared_bytes: int = 0
    """The memory that was cleared in this round."""
    rounds: int = 0
    yield_share: float = YIELD_FIRST
    """The share of visited memory that came up lately."""
    heat: float | None = None
    """The heat of the node, averaged over HEAT_S."""
    least_heat: float | None = None
    """The lowest heat at the end of a round, since heat last rose."""
    calm_heat: float | None = None
    """The heat since the last round, averaged over CALM_S; None if that round helped."""
    swing: float = 0.0
    """How far the heat usually is from its average."""

    @property
    def calm(self) -> bool:
        """True if the last round did not help, and heat has not risen since."""
        return self.calm_heat is not None

    @property
    def wants_room(self) -> bool:
        """True while a round is under way, or follows soon."""
        return self.stage is not Stage.rests or self.stage_ends_s - self.stage_s <= REST_S_MIN


def step(before: Climb, seen: Seen, room: Room, idle_s: float) -> tuple[Climb, Gates]:
    """Return a climb after a tick, and which of its two sweeps open or close."""
    now = _felt(before, seen)
    now = replace(
        now,
        lag_s=max(seen.window_s, now.lag_s),
        stage_s=now.stage_s + seen.seconds,
        cleared_bytes=now.cleared_bytes + seen.visited_bytes.get(Visit.clear, 0),
        yield_share=yield_share(now.yield_share, seen, Visit.promote),
    )
    begins = not room.stopped and room.spare_bytes > RESUME_SHARE * room.ahead_bytes
    match now.stage:
        case Stage.rests if begins and now.stage_s >= now.stage_ends_s:
            begun = replace(now, took_s=0.0, waited_s=0.0, cleared_bytes=0)
            return _clearing(begun, seen)
        case Stage.clears if now.stage_s >= now.stage_ends_s:
            return _enter(now, Stage.takes), {}
        case Stage.takes:
            return _taking(now, seen, room)
        case Stage.waits:
            if not room.stopped and not room.reserved_bytes:
                now = replace(now, waited_s=now.waited_s + seen.seconds)
            if begins:
                return _resumed(now, seen, room)
            if now.waited_s > max(idle_s, now.took_s):
                return _ended(now, idle_s), {}
        case Stage.ends if now.stage_s >= now.stage_ends_s:
            return _ended(now, idle_s), {}
        case _:
            pass
    return now, {}


def _clearing(now: Climb, seen: Seen) -> tuple[Climb, Gates]:
    """Open the sweep that clears, and later the other one, so that it is behind by the lag."""
    lacks = now.lag_s * seen.bytes_per_s - seen.behind_bytes
    if not _is_close(seen):
        # What it would visit was cleared long ago, so all of it would look young. So the other
        # sweep goes around the node once, and comes up from behind.
        lacks += seen.round_bytes
    after_s = max(0.0, lacks) / seen.bytes_per_s
    promote = Gate(is_open=False, then_open=True, after_s=after_s) if after_s else OPEN
    return _enter(now, Stage.clears, after_s), {Visit.clear: OPEN, Visit.promote: promote}


def _is_close(seen: Seen) -> bool:
    """Return whether the sweep that promotes is behind by no more than a few windows."""
    return seen.behind_bytes <= CLOSE_WINDOWS * seen.window_bytes


def _resumed(now: Climb, seen: Seen, room: Room) -> tuple[Climb, Gates]:
    """Go on with a round after a wait. A short lag hardly matters, a long one is made anew."""
    if _is_close(seen):
        return _taking(_enter(now, Stage.takes), seen, room)
    return _clearing(now, seen)


def _taking(now: Climb, seen: Seen, room: Room) -> tuple[Climb, Gates]:
    now = replace(now, took_s=now.took_s + seen.seconds)
    if room.stopped or room.spare_bytes <= 0:
        if not room.stopped and not room.reserved_bytes:
            # Too many pages came up, so a page must be hotter from now on.
            now = replace(now, lag_s=max(seen.window_s, now.lag_s / 2))
        return _enter(now, Stage.waits), {Visit.promote: CLOSED, Visit.clear: CLOSED}
    if seen.behind_bytes < seen.window_bytes / 2:
        # It has caught up: it would visit pages that were not cleared in this round.
        return _clearing(now, seen)
    if now.cleared_bytes >= seen.round_bytes:
        # The sweep that promotes goes on until it has visited all that was cleared.
        after_s = seen.behind_bytes / seen.bytes_per_s
        later = Gate(is_open=True, then_open=False, after_s=after_s)
        return _enter(now, Stage.ends, after_s), {Visit.clear: CLOSED, Visit.promote: later}
    gate = until(room.spare_bytes, now.yield_share, seen)
    return now, {Visit.promote: gate, Visit.clear: gate}


def _enter(now: Climb, stage: Stage, ends_s: float = 0.0) -> Climb:
    return replace(now, stage=stage, stage_s=0.0, stage_ends_s=ends_s)


def _felt(now: Climb, seen: Seen) -> Climb:
    """Update the averages of the heat. If calm heat has risen, the climb begins anew."""
    lately = seen.heat if now.heat is None else moving(now.heat, seen.heat, seen.seconds, HEAT_S)
    now = replace(now, heat=lately)
    if now.calm_heat is None:
        return now
    rise, usual = lately - now.calm_heat, WAKES_SHARE * now.calm_heat
    if rise > usual + WAKES_SWINGS * now.swing:
        anew = replace(now, rest_s=0.0, lag_s=0.0, calm_heat=None, least_heat=None, swing=0.0)
        return replace(anew, stage_ends_s=0.0) if now.stage is Stage.rests else anew
    return replace(
        now,
        calm_heat=moving(now.calm_heat, lately, seen.seconds, CALM_S),
        # A rise that goes on must not become a usual swing.
        swing=moving(now.swing, min(abs(rise), usual), seen.seconds, CALM_S),
    )


def _ended(now: Climb, idle_s: float) -> Climb:
    """Return a climb after a round, with the next lag, and how long it rests."""
    heat = now.heat or 0.0
    helped = now.least_heat is None or heat < (1 - HELPS_SHARE) * now.least_heat
    waited = now.waited_s > WAITED_SHARE_MAX * (now.waited_s + now.took_s)
    rest_s = 0.0 if helped else min(REST_S_MAX, max(REST_S_MIN, 2 * now.rest_s))
    return replace(
        _enter(now, Stage.rests, rest_s),
        rounds=now.rounds + 1,
        lag_s=now.lag_s if waited else min(now.lag_s * GROWTH, idle_s / IDLE_PER_LAG),
        rest_s=rest_s,
        least_heat=heat if now.least_heat is None else min(heat, now.least_heat),
        calm_heat=None if helped else heat,
    )


def reason(now: Climb, sweep: Sweep, room: Room) -> str:
    """Return what a climb does now, in words."""
    touched = f"what is touched within {now.lag_s:.1f} s"
    match now.stage:
        case Stage.rests if room.stopped:
            return f"closed: {room.stopped}"
        case Stage.rests if now.stage_s < now.stage_ends_s:
            left_s = now.stage_ends_s - now.stage_s
            return f"closed for {left_s:.0f} s: the last round did not cool node {sweep.node}"
        case Stage.rests:
            return f"waits: no room on node {room.node} for {touched}"
        case Stage.waits:
            why = room.stopped or f"no room on node {room.node}"
            return f"waits in the middle of a round: {why}"
        case _:
            done = min(1.0, now.cleared_bytes / sweep.round_bytes)
            return f"visits pages, {done:.0%} of the round: {touched} goes up"
