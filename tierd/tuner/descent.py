"""Demotion by page: sends pages of a node down that were not touched for a long time. Pure.

One sweep visits the pages in the order of their addresses, in rounds that take at least the idle
time. A page that was not touched since the last round goes down. Where a round takes long, the
sweep follows another one that clears, by the idle time: a page that was not touched in between goes
down.
"""

from dataclasses import dataclass, replace

from tierd.plans.plan import Sweep, Visit
from tierd.tuner.gate import CLOSED, OPEN, Gate, Gates, Seen, until, yield_share
from tierd.units import format_size

# Seconds without a touch after which a page may go down: the least, and the most. Between the two,
# it is this share of the time for which the heat below has not risen: what is idle for long may
# stay so for long. So an exchange slows down, and comes to an end.
IDLE_S_MIN = 8.0
IDLE_S_MAX = 600.0
IDLE_PER_CALM = 0.25

# Where a round is long, the idle time grows only while so much of what is visited goes down. While
# less than half of that does, it shrinks, to a half in SHRINK_S seconds: visits that find little
# use up the budget. If the last round of promotion did not help, it grows in any case. On a small
# node a round is over before it has grown by much.
YIELD_ENOUGH = 0.25
SHRINK_S = 20.0

# A sweep that follows another one stops when the distance is less than this share of the idle time,
# and goes on when it is the whole. The idle time grows, and both sweeps are as quick.
CLOSE_SHARE = 0.75

# The sweep that clears is ahead by this share of the node at most.
AHEAD_SHARE_MAX = 0.4


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
    """Whether the sweep that clears is far enough ahead for the one that demotes to follow."""
    round_s: float = 0.0
    """How long this round has taken, whether the sweep was open or not."""
    visited_bytes: int = 0
    """The memory that was visited in this round."""
    rounds: int = 0
    yield_share: float = 1.0
    """The share of visited memory that went down lately."""


def step(
    before: Descent, seen: Seen, lacks_bytes: float, least_bytes: float, *, held: bool
) -> tuple[Descent, Gate]:
    """Return a descent after a tick, and whether its sweep is open.

    It opens if more than `least_bytes` are lacking, and closes when nothing is.
    """
    now = replace(
        before,
        round_s=before.round_s + seen.seconds,
        visited_bytes=before.visited_bytes + seen.visited_bytes.get(Visit.demote, 0),
        yield_share=yield_share(before.yield_share, seen, Visit.demote),
    )
    if now.visited_bytes >= seen.round_bytes and now.round_s >= now.idle_s:
        now = replace(now, round_s=0.0, visited_bytes=0, rounds=now.rounds + 1)
    wanted = lacks_bytes > (0 if before.is_open else least_bytes)
    if held or not wanted or now.visited_bytes >= seen.round_bytes:
        return replace(now, is_open=False), CLOSED
    return replace(now, is_open=True), until(lacks_bytes, now.yield_share, seen)


def calmed(before: Descent, seconds: float, *, is_long: bool, in_vain: bool) -> Descent:
    """Return a descent after some time in which the heat below has not risen.

    `in_vain` is true if the last round of promotion did not help.
    """
    if not is_long or in_vain or before.yield_share >= YIELD_ENOUGH:
        return replace(before, calm_s=before.calm_s + seconds)
    if before.follows and before.yield_share < YIELD_ENOUGH / 2:
        return replace(before, calm_s=before.calm_s * 0.5 ** (seconds / SHRINK_S))
    return before


def follow(
    before: Descent, seen: Seen, lacks_bytes: float, least_bytes: float, *, held: bool
) -> tuple[Descent, Gates]:
    """Return a descent whose sweep follows one that clears, and which of the two are open."""
    now = replace(
        before,
        visited_bytes=before.visited_bytes + seen.visited_bytes.get(Visit.demote, 0),
        yield_share=yield_share(before.yield_share, seen, Visit.demote),
    )
    if now.visited_bytes >= seen.round_bytes:
        now = replace(now, visited_bytes=0, rounds=now.rounds + 1)
    wanted = lacks_bytes > (0 if before.is_open else least_bytes)
    if held or not wanted:
        return replace(now, is_open=False, follows=False), {
            Visit.demote: CLOSED,
            Visit.clear: CLOSED,
        }
    # Half a round at most: else nobody could tell which of the two is behind.
    ahead = min(now.idle_s * seen.bytes_per_s, seen.round_bytes * AHEAD_SHARE_MAX)
    close = CLOSE_SHARE if before.follows else 1.0
    follows = seen.behind_bytes >= close * ahead
    lasts_s = max(0.0, ahead - seen.behind_bytes) / seen.bytes_per_s
    clear = CLOSED
    if follows or lasts_s >= seen.seconds:
        clear = OPEN
    elif lasts_s > 0:
        clear = Gate(is_open=True, then_open=False, after_s=lasts_s)
    demote = until(lacks_bytes, now.yield_share, seen) if follows else CLOSED
    if follows and seen.behind_bytes >= ahead + seen.seconds * seen.bytes_per_s:
        clear = CLOSED
    return replace(now, is_open=True, follows=follows), {Visit.demote: demote, Visit.clear: clear}


def reason(now: Descent, sweep: Sweep, lacks_bytes: float, gate: Gate) -> str:
    """Return what a descent does now, in words."""
    if gate.is_open:
        return (
            f"visits pages: what was not touched for {now.idle_s:.0f} s goes down, "
            f"{now.yield_share:.1%} of the last ones; "
            f"{format_size(round(lacks_bytes))} of room wanted"
        )
    if now.is_open and not now.follows and not gate.is_open:
        return f"waits: pages are cleared, and visited {now.idle_s:.0f} s later"
    if lacks_bytes <= 0:
        return f"closed: node {sweep.node} has its room"
    if now.visited_bytes >= sweep.round_bytes:
        left_s = max(0.0, now.idle_s - now.round_s)
        return f"waits {left_s:.0f} s: each page is visited again after {now.idle_s:.0f} s"
    return "closed: no room wanted now"
