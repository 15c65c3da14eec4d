"""Demotion by page: sends pages of a node down that were not touched for a long time. Pure.

One sweep visits the pages in the order of their addresses, in rounds that take at least the idle
time. A page that was not touched since the last round goes down. Where a round takes long, the
sweep follows another one that clears, by the idle time: a page that was not touched in between goes
down.
"""

from dataclasses import dataclass, replace

from tierd.plans.plan import Sweep, Visit
from tierd.tuner.average import moving
from tierd.tuner.gate import CLOSED, OPEN, YIELD_MIN, Gate, Gates, Seen, until, yield_share
from tierd.units import format_size

# Seconds without a touch after which a page may go down: the least, and the most. Between the two,
# it is this share of the time for which the heat below has not risen: what is idle for long may
# stay so for long. So an exchange slows down, and comes to an end.
IDLE_S_MIN = 8.0
IDLE_S_MAX = 600.0
IDLE_PER_CALM = 0.25

# After a round that made less room than is still lacking, the least idle time is half as long, down
# to this share of IDLE_S_MIN. It doubles again in IDLE_S_MIN with room.
HURRY_MIN = 1 / 8

# Where a round is long, the idle time grows only while so much of what is visited goes down. While
# less than half of that does, it shrinks, to a half in SHRINK_S seconds: visits that find little
# use up the budget. If the last round of promotion did not help, it grows in any case. On a small
# node a round is over before it has grown by much.
YIELD_ENOUGH = 0.25
SHRINK_S = 20.0

# A sweep that follows another one begins when the memory that it visits next was cleared a whole
# idle time ago. It stops only when that was less than this share of the idle time ago, because the
# idle time may have grown meanwhile.
CLOSE_SHARE = 0.75

# The sweep that clears is ahead by this share of a round at most. From a half on nobody could tell
# which of the two sweeps is behind.
AHEAD_SHARE_MAX = 0.4

# If memory was cleared longer ago than this many idle times, the share of it that goes down is not
# averaged: hardly any of it is still untouched.
OLD = 2.0

# What was cleared within this share of the idle time counts as cleared at once.
PIECE_SHARE = 1 / 16


@dataclass(frozen=True, slots=True)
class Wanted:
    """The room that demotion should make."""

    lacks_bytes: float
    least_bytes: float
    """Below it, demotion does not begin."""
    comes_bytes_per_s: float = 0.0
    """How fast pages come up."""
    beyond_bytes: float = 0.0
    """How much more room may be made."""
    held: str = ""
    """Why nothing may go down now; empty if it may."""
    helps: bool = True
    """Whether what comes up is worth the room, as far as is known."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Memory that was cleared and not visited yet."""

    bytes: float
    at_s: float
    """When the first of it was cleared, on the clock of its descent."""


@dataclass(frozen=True, slots=True)
class Descent:
    """Demotion by page from one node."""

    idle_s: float = IDLE_S_MIN
    """The least length of a round; a page goes down if it was not touched in this time."""
    calm_s: float = 0.0
    """How long the heat below has not risen."""
    is_open: bool = False
    """Whether room is wanted, and visits make it."""
    follows: bool = False
    """Whether the memory that the sweep that demotes visits next was cleared long enough ago."""
    comes_bytes_per_s: float = 0.0
    """How fast pages come up, averaged over the idle time."""
    clock_s: float = 0.0
    cleared: tuple[Piece, ...] = ()
    """What lies between the two sweeps, in their order."""
    round_s: float = 0.0
    """How long this round has taken, whether the sweep was open or not."""
    visited_bytes: int = 0
    """The memory that was visited in this round."""
    rounds: int = 0
    made_bytes: int = 0
    """What went down in this round."""
    hurry: float = 1.0
    """What the least idle time is multiplied by. Less than 1 while rounds do not make the room that
    is wanted."""
    yield_share: float = 1.0
    """The share of visited memory that went down lately."""


def step(before: Descent, seen: Seen, wanted: Wanted) -> tuple[Descent, Gate]:
    """Return a descent after a tick, and whether its sweep is open."""
    now = _visited(before, seen)
    if now.visited_bytes >= seen.round_bytes and now.round_s >= now.idle_s:
        if wanted.helps and wanted.lacks_bytes > max(wanted.least_bytes, now.made_bytes):
            # Too few pages were idle for so long, and what is hot below waits for room.
            now = replace(now, hurry=max(HURRY_MIN, now.hurry / 2), calm_s=now.calm_s / 2)
        now = replace(now, round_s=0.0, visited_bytes=0, made_bytes=0, rounds=now.rounds + 1)
    if wanted.lacks_bytes <= 0 or not wanted.helps:
        now = replace(now, hurry=min(1.0, now.hurry * 2 ** (seen.seconds / IDLE_S_MIN)))
    if not _opens(before, wanted) or now.visited_bytes >= seen.round_bytes:
        return replace(now, is_open=False), CLOSED
    return replace(now, is_open=True), until(wanted.lacks_bytes, now.yield_share, seen)


def _visited(before: Descent, seen: Seen) -> Descent:
    return replace(
        before,
        round_s=before.round_s + seen.seconds,
        visited_bytes=before.visited_bytes + seen.visited_bytes.get(Visit.demote, 0),
        made_bytes=before.made_bytes + seen.moved_bytes.get(Visit.demote, 0),
        yield_share=yield_share(before.yield_share, seen, Visit.demote),
    )


def _opens(before: Descent, wanted: Wanted) -> bool:
    """Return whether room should be made: from the least on, and then until nothing is lacking."""
    least_bytes = 0 if before.is_open else wanted.least_bytes
    return not wanted.held and wanted.lacks_bytes > least_bytes


def calmed(before: Descent, seconds: float, *, is_long: bool, in_vain: bool) -> Descent:
    """Return a descent after some time in which the heat below has not risen.

    `in_vain` is true if the last round of promotion did not help.
    """
    if not is_long or in_vain or before.yield_share >= YIELD_ENOUGH:
        return replace(before, calm_s=before.calm_s + seconds)
    if before.follows and before.yield_share < YIELD_ENOUGH / 2:
        return replace(before, calm_s=before.calm_s * 0.5 ** (seconds / SHRINK_S))
    return before


def follow(before: Descent, seen: Seen, wanted: Wanted) -> tuple[Descent, Gates]:
    """Return a descent whose sweep follows one that clears, and which of the two are open."""
    comes = moving(before.comes_bytes_per_s, wanted.comes_bytes_per_s, seen.seconds, before.idle_s)
    now = _visited(before, seen)
    if _age_s(before) > OLD * before.idle_s:
        now = replace(now, yield_share=before.yield_share)
    now = replace(now, comes_bytes_per_s=comes, clock_s=before.clock_s + seen.seconds)
    now = replace(now, cleared=_cleared(now, seen))
    if now.visited_bytes >= seen.round_bytes:
        now = replace(now, visited_bytes=0, rounds=now.rounds + 1)
    close = CLOSE_SHARE if before.follows else 1.0
    is_time = bool(now.cleared) and _age_s(now) >= close * now.idle_s
    follows = is_time and not wanted.held and wanted.lacks_bytes > -wanted.beyond_bytes
    if not _opens(before, wanted):
        # What is cleared now would be visited too late when room is wanted again.
        drain_s = max(0.0, seen.behind_bytes) / seen.bytes_per_s
        drain = Gate(is_open=True, then_open=False, after_s=drain_s) if follows else CLOSED
        return replace(now, is_open=False, follows=follows), {
            Visit.demote: drain,
            Visit.clear: CLOSED,
        }
    demote = CLOSED
    if follows:
        demote = until(wanted.lacks_bytes + wanted.beyond_bytes, now.yield_share, seen)
    lasts_s = (_ahead_bytes(now, seen, wanted) - seen.behind_bytes) / seen.bytes_per_s
    if follows:
        # The other one comes nearer meanwhile.
        lasts_s += seen.seconds
    clear = OPEN
    if lasts_s < seen.seconds:
        clear = Gate(is_open=True, then_open=False, after_s=lasts_s) if lasts_s > 0 else CLOSED
    return replace(now, is_open=True, follows=follows), {Visit.demote: demote, Visit.clear: clear}


def _age_s(now: Descent) -> float:
    """Return how long ago the memory that the sweep that demotes visits next was cleared."""
    return now.clock_s - now.cleared[0].at_s if now.cleared else 0.0


def _ahead_bytes(now: Descent, seen: Seen, wanted: Wanted) -> float:
    """Return how far ahead the sweep that clears should be.

    It clears only what is needed for the room that is wanted: what is cleared long before its visit
    must be untouched for longer than the idle time. It is less than half a round ahead, because
    else nobody could tell which of the two sweeps is behind.
    """
    room_bytes = wanted.lacks_bytes + min(now.comes_bytes_per_s * now.idle_s, wanted.beyond_bytes)
    return min(
        room_bytes / max(YIELD_MIN, now.yield_share),
        now.idle_s * seen.bytes_per_s,
        seen.round_bytes * AHEAD_SHARE_MAX,
    )


def _cleared(now: Descent, seen: Seen) -> tuple[Piece, ...]:
    """Return what lies between the two sweeps, after what both did in a tick."""
    pieces = list(now.cleared)
    left_bytes = sum(one.bytes for one in pieces) - seen.visited_bytes.get(Visit.demote, 0)
    # The sweeps know how far they are apart. After a restart nothing else is known.
    left_bytes = max(0.0, min(left_bytes, seen.behind_bytes))
    while pieces and sum(one.bytes for one in pieces[1:]) >= left_bytes:
        del pieces[0]
    if pieces:
        rest_bytes = left_bytes - sum(one.bytes for one in pieces[1:])
        pieces[0] = replace(pieces[0], bytes=rest_bytes)
    more_bytes = seen.behind_bytes - left_bytes
    if more_bytes > 0:
        if pieces and now.clock_s - pieces[-1].at_s <= PIECE_SHARE * now.idle_s:
            pieces[-1] = replace(pieces[-1], bytes=pieces[-1].bytes + more_bytes)
        else:
            pieces.append(Piece(more_bytes, now.clock_s))
    return tuple(pieces)


def reason(now: Descent, sweep: Sweep, wanted: Wanted, gate: Gate) -> str:
    """Return what a descent does now, in words."""
    if gate.is_open:
        return (
            f"visits pages: what was not touched for {now.idle_s:.0f} s goes down, "
            f"{now.yield_share:.1%} of those visited lately; "
            f"{format_size(round(max(0.0, wanted.lacks_bytes)))} of room wanted"
        )
    if now.is_open and not now.follows:
        return f"waits: pages are cleared, and visited {now.idle_s:.0f} s later"
    if wanted.lacks_bytes <= 0:
        return f"closed: node {sweep.node} has its room"
    if wanted.held:
        return f"closed: {wanted.held}"
    if now.visited_bytes >= sweep.round_bytes:
        left_s = max(0.0, now.idle_s - now.round_s)
        return f"waits {left_s:.0f} s: each page is visited again after {now.idle_s:.0f} s"
    return "closed: no room wanted now"
