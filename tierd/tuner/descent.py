"""Demotion by page: sends pages of a node down that were not touched for a long time. Pure.

One sweep makes the pages old in the order of their addresses, and another visits them when the idle
time is over. A page that was not touched in between goes down.
"""

from math import exp, exp2, inf, log

from tierd.frozen import dataclass, replace
from tierd.plans.plan import Sweep, Visit
from tierd.tuner.average import moving
from tierd.tuner.gate import CLOSED, OPEN, YIELD_MIN, Gate, Gates, Seen, until, yield_share
from tierd.units import format_size

# Seconds without a touch after which a page may go down: at first, and at most.
IDLE_S_FIRST = 1.0
IDLE_S_MAX = 600.0

# The least idle time where a round of promotion takes long. Whether it helps is known only when it
# is over. With a shorter idle time pages that are all alike would be exchanged for minutes.
IDLE_S_LONG = 8.0

# The idle time grows by this share of the time in which so much of what is visited goes down. While
# less than half of that does, the idle time halves each time that it has passed. If the last round
# of promotion did not help, it grows by CALM_GROWTH of the time in any case: what is idle for long
# may stay so for long. So an exchange slows down, and comes to an end.
YIELD_ENOUGH = 0.25
GROWTH = 0.5
CALM_GROWTH = 0.25

# By what factor the idle time may become longer at once, for the sake of the lag, at most: the lag
# doubles.
LONGER = 2.0

# A sweep that follows another one begins when the memory that it visits next was cleared this share
# of the idle time ago. If it waited for all of it, it would often wait for a whole tick more, and a
# tick may be as long as the idle time. It stops only when the memory was cleared less than
# CLOSE_SHARE of the idle time ago, because the idle time may have grown.
BEGIN_SHARE = 0.9
CLOSE_SHARE = 0.75

# The sweep that clears should be ahead by this share of a round at most. Either may be closed late.
# If it is ahead by more than BEHIND_SHARE_MAX, it counts as overtaken by the other one.
AHEAD_SHARE_MAX = 0.4
BEHIND_SHARE_MAX = 0.8

# The largest share that went down is forgotten within about this part of a round. A commit closes a
# sweep late, so more may go down than is wanted. There it is a whole round.
FORGET_ROUNDS = 0.25
FORGET_ROUNDS_GATED = 1.0

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
    owed_bytes: float = 0.0
    """What groups of cgroups lack of their shares. They would use more room at once."""
    held: str = ""
    """Why no page may be visited now; empty if it may."""
    waits: str = ""
    """Why nothing may go down now, although pages may be made old for it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Memory that was cleared and not visited yet."""

    bytes: float
    at_s: float
    """When the first of it was cleared, on the clock of its descent."""


@dataclass(frozen=True, slots=True)
class Descent:
    """Demotion by page from one node."""

    idle_s: float = IDLE_S_FIRST
    """The idle time in force."""
    learned_s: float = IDLE_S_FIRST
    """The idle time that visits suggest."""
    lacks: bool = False
    """Whether room is wanted that this node can make."""
    is_open: bool = False
    """Whether visits make it now."""
    follows: bool = False
    """Whether the memory that the sweep that demotes visits next was cleared long enough ago."""
    comes_bytes_per_s: float = 0.0
    """How fast pages come up, averaged over the idle time."""
    clock_s: float = 0.0
    cleared: tuple[Piece, ...] = ()
    """What lies between the two sweeps, in their order."""
    visited_bytes: int = 0
    """The memory that was visited in this round."""
    target: int | None = None
    """The node that its pages go to in this round."""
    full_s: float = 0.0
    """For how long none of the nearest slower nodes has had room."""
    rounds: int = 0
    yield_share: float = 1.0
    """The share of visited memory that went down lately."""
    found: float | None = None
    """The same since the last tick. None if nothing was visited, or what was visited was cleared
    too long ago to tell something of the idle time."""
    yield_age_s: float = 0.0
    """How long what was visited lately had been untouched, if it went down."""
    yield_most: float = 1.0
    """The highest such share lately. Memory of the kernel, of which nothing goes down, may be
    followed by memory that is all idle."""


NO_DESCENT = Descent()
"""A descent that has not begun."""


def _visited(before: Descent, seen: Seen) -> Descent:
    visited = seen.visited_bytes.get(Visit.demote, 0)
    moved = seen.moved_bytes.get(Visit.demote, 0)
    lately = yield_share(before.yield_share, seen, Visit.demote)
    forgets = FORGET_ROUNDS_GATED if seen.gated else FORGET_ROUNDS
    return replace(
        before,
        visited_bytes=before.visited_bytes + visited,
        yield_share=lately,
        yield_age_s=_age_s(before, seen) if visited else before.yield_age_s,
        found=moved / visited if visited else None,
        yield_most=max(lately, before.yield_most * exp(-visited / forgets / seen.round_bytes)),
    )


def _opens(before: Descent, wanted: Wanted) -> bool:
    """Return whether room should be made: from the least on, and then until nothing is lacking."""
    least_bytes = 0 if before.is_open else wanted.least_bytes
    return not wanted.held and wanted.lacks_bytes > least_bytes


def learned(before: Descent, seconds: float, least_s: float, *, in_vain: bool) -> Descent:
    """Return a descent with the idle time that its visits suggest.

    `in_vain` is true if the last round of promotion did not help.
    """
    idle_s = before.learned_s
    if in_vain:
        idle_s += CALM_GROWTH * seconds
    elif before.found is not None:
        idle_s = _fitting_s(idle_s, before.found, seconds)
    return replace(before, learned_s=min(IDLE_S_MAX, max(least_s, idle_s)))


def _fitting_s(idle_s: float, found: float, seconds: float) -> float:
    """Return the idle time after visits of which this share went down."""
    if found >= YIELD_ENOUGH:
        return idle_s + GROWTH * seconds
    if found < YIELD_ENOUGH / 2:
        return idle_s * exp2(-seconds / idle_s)
    return idle_s


def may_be_s(now: Descent) -> float:
    """Return how long the idle time may become if a longer lag needs it.

    While much of what is visited goes down, still more pages are idle than room is wanted.
    """
    # The share that is idle for twice as long is about the square of the share.
    if now.yield_share**LONGER >= YIELD_ENOUGH:
        longer = LONGER
    else:
        longer = max(1.0, log(YIELD_ENOUGH) / log(max(YIELD_MIN, now.yield_share)))
    return min(IDLE_S_MAX, longer * now.learned_s)


def at_least(before: Descent, idle_s: float) -> Descent:
    return replace(before, learned_s=max(before.learned_s, idle_s))


def woken(before: Descent) -> Descent:
    """Return a descent after heat below has risen."""
    return replace(before, learned_s=min(before.learned_s, IDLE_S_FIRST))


def follow(before: Descent, seen: Seen, wanted: Wanted) -> tuple[Descent, Gates]:
    """Return a descent after a tick, and when each of its two sweeps is open."""
    comes = moving(before.comes_bytes_per_s, wanted.comes_bytes_per_s, seen.seconds, before.idle_s)
    now = _visited(before, seen)
    if _age_s(before, seen) > OLD * before.idle_s:
        now = replace(now, found=None)
    now = replace(now, comes_bytes_per_s=comes, clock_s=before.clock_s + seen.seconds)
    now = replace(now, cleared=_cleared(now, seen))
    if now.visited_bytes >= seen.round_bytes:
        now = replace(now, visited_bytes=0, rounds=now.rounds + 1)
    close = CLOSE_SHARE if before.follows else BEGIN_SHARE
    left_s = close * now.idle_s - _age_s(now, seen)
    opens = _opens(before, wanted)
    follows = bool(now.cleared) and left_s <= 0 and opens and not wanted.waits
    lacks = wanted.lacks_bytes > wanted.least_bytes and not wanted.waits
    now = replace(now, lacks=lacks, is_open=opens, follows=follows)
    demote = _demote_gate(now, seen, wanted, left_s)
    return now, {Visit.demote: demote, Visit.age: _age_gate(now, seen, wanted, demote)}


def _demote_gate(now: Descent, seen: Seen, wanted: Wanted, left_s: float) -> Gate:
    """Return when the sweep that demotes runs. What it visits next is old enough in `left_s`."""
    if now.follows:
        most_bytes = wanted.lacks_bytes + _unwanted_bytes(seen, wanted)
        return min(
            until(wanted.lacks_bytes, now.yield_most, seen),
            until(most_bytes, _soon_share(now, seen), seen),
            key=lambda gate: inf if gate.then_open else gate.after_s,
        )
    if not now.is_open or not now.cleared or wanted.waits:
        return CLOSED
    may_bytes = min(wanted.lacks_bytes, seen.allowed_bytes)
    if 0 < seen.seconds - left_s <= may_bytes / seen.bytes_per_s:
        return Gate(is_open=False, then_open=True, after_s=left_s)
    return CLOSED


def _unwanted_bytes(seen: Seen, wanted: Wanted) -> float:
    """Return how much more than what is wanted may go down, if more is idle than expected.

    It is wanted soon. A sweep that a commit closes is closed late, so more goes down anyway.
    """
    return wanted.owed_bytes if seen.gated else max(0.0, wanted.beyond_bytes)


def _soon_share(now: Descent, seen: Seen) -> float:
    """Return which share of what is visited until the next tick may go down.

    Memory that was cleared a shorter time ago than what was visited lately is idle more often: of
    the pages that are idle for some time, the square root of their share is idle for half of it.
    """
    reached_s, age_s = 0.0, now.yield_age_s
    for one in now.cleared:
        age_s = min(age_s, now.clock_s + reached_s - one.at_s)
        reached_s += one.bytes / seen.bytes_per_s
        if reached_s > seen.seconds:
            break
    return now.yield_share ** (age_s / now.yield_age_s) if age_s > 0 else now.yield_share


def _age_gate(now: Descent, seen: Seen, wanted: Wanted, demote: Gate) -> Gate:
    """Return for how long the sweep that makes pages old runs: until it is far enough ahead."""
    if wanted.held or (seen.is_long and not now.is_open):
        return CLOSED
    lacks_bytes = _ahead_bytes(now, seen, wanted) - seen.behind_bytes
    visits_s = 0.0
    if now.follows:
        # The other sweep comes nearer meanwhile.
        visits_s = seen.seconds if demote is OPEN else demote.after_s
    lasts_s = lacks_bytes / seen.bytes_per_s + visits_s
    if lasts_s >= seen.seconds:
        return OPEN
    return Gate(is_open=True, then_open=False, after_s=lasts_s) if lasts_s > 0 else CLOSED


def _age_s(now: Descent, seen: Seen) -> float:
    """Return how long ago the memory that the sweep that demotes visits next was cleared.

    The other sweep has taken at least the time of the way between them.
    """
    if not now.cleared:
        return 0.0
    return max(now.clock_s - now.cleared[0].at_s, seen.behind_bytes / seen.bytes_per_s)


def _ahead_bytes(now: Descent, seen: Seen, wanted: Wanted) -> float:
    """Return how far ahead the sweep that clears should be.

    On a small node it is as far ahead as it can be, so that pages are found at once when room is
    wanted. Where a round is long it clears only what is needed for that room: what is cleared long
    before its visit must be untouched for longer than the idle time. It is never a whole round
    ahead, because then nobody could tell which of the two sweeps is behind.
    """
    most_bytes = min(now.idle_s * seen.bytes_per_s, seen.round_bytes * AHEAD_SHARE_MAX)
    if not seen.is_long:
        return most_bytes
    room_bytes = wanted.lacks_bytes + min(now.comes_bytes_per_s * now.idle_s, wanted.beyond_bytes)
    return min(room_bytes / max(YIELD_MIN, now.yield_share), most_bytes)


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
            f"visits pages: what was not touched for {now.idle_s:.1f} s goes down, "
            f"{now.yield_share:.1%} of those visited lately; "
            f"{format_size(round(max(0.0, wanted.lacks_bytes)))} of room wanted"
        )
    if now.is_open and not now.follows and not wanted.waits:
        return f"waits: pages are cleared, and visited {now.idle_s:.1f} s later"
    if wanted.lacks_bytes <= 0:
        return f"closed: node {sweep.node} has its room"
    if wanted.held or wanted.waits:
        return f"closed: {wanted.held or wanted.waits}"
    return "closed: no room wanted now"
