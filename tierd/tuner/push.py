"""Push memory of groups that have more than their share down from a fast node. Pure.

One sweep visits the pages of the node in the order of their addresses, and moves those of such
groups, also if they are hot. It runs while there is no room for what another group lacks.
"""

from tierd.frozen import dataclass, replace
from tierd.plans.plan import Visit
from tierd.tuner.gate import CLOSED, YIELD_FIRST, Gate, Room, Seen, until, yield_share
from tierd.units import format_size

# Seconds for which room must lack before hot memory is pushed: cold memory of these groups may make
# the room, and that is found in this time on a small node.
AFTER_S = 3.0

# Less than this share of the node beyond a ceiling is not worth a sweep.
ABOVE_SHARE = 0.002


@dataclass(frozen=True, slots=True)
class Push:
    """The sweep that pushes from one node."""

    lacked_s: float = 0.0
    """How long room has lacked since groups ask for it."""
    is_open: bool = False
    visited_bytes: int = 0
    """The memory that was visited in this round."""
    rounds: int = 0
    yield_share: float = YIELD_FIRST
    """The share of visited memory that went down lately."""


def step(
    before: Push, seen: Seen, room: Room, *, held: bool, passes_cheaply: bool = True
) -> tuple[Push, Gate]:
    """Return a push after a tick, and whether its sweep is open.

    If it `passes_cheaply`, its speed is that of what moves, and else that of what it visits.
    """
    now = replace(
        before,
        visited_bytes=before.visited_bytes + seen.visited_bytes.get(Visit.push, 0),
        yield_share=yield_share(before.yield_share, seen, Visit.push),
    )
    if now.visited_bytes >= seen.round_bytes:
        now = replace(now, visited_bytes=0, rounds=now.rounds + 1)
    wanted, least = lacking_bytes(room), ABOVE_SHARE * room.total_bytes
    if room.owed_bytes:
        # Others may have little more than their shares. To wait until they have more is to wait for
        # ever.
        least = min(room.ahead_bytes, room.owed_bytes, room.giving_bytes) / 2
        waits = now.lacked_s + seen.seconds if wanted > least else now.lacked_s
        # Once hot memory had to make the room, it goes on to do so until nobody asks.
        now = replace(now, lacked_s=waits if before.lacked_s < AFTER_S else before.lacked_s)
    else:
        now = replace(now, lacked_s=0.0)
    early = bool(room.owed_bytes) and now.lacked_s < AFTER_S
    if held or early or wanted <= (0 if before.is_open else least):
        return replace(now, is_open=False), CLOSED
    share = 1.0 if passes_cheaply else now.yield_share
    return replace(now, is_open=True), until(wanted, share, seen)


def lacking_bytes(room: Room) -> float:
    """Return how much should go down: as room for what groups lack, or what is above a ceiling."""
    if not room.owed_bytes:
        return min(room.fits_bytes, room.giving_bytes)
    ahead = min(room.ahead_bytes, room.owed_bytes)
    return min(room.fits_bytes, room.giving_bytes, room.headroom_bytes + ahead - room.free_bytes)


def reason(now: Push, room: Room, gate: Gate) -> str:
    """Return what a push does now, in words."""
    owed = format_size(round(room.owed_bytes))
    if gate.is_open:
        beyond = format_size(round(room.giving_bytes))
        if not room.owed_bytes:
            return f"visits pages: {beyond} of groups above their ceiling go down"
        return (
            f"visits pages: groups lack {owed} of their shares, and others have {beyond} more than "
            "theirs"
        )
    if not room.owed_bytes:
        return "closed: no group asks for more of its share"
    if not room.giving_bytes:
        return f"closed: groups lack {owed} of their shares, and no other has more than its own"
    if lacking_bytes(room) > 0 and now.lacked_s < AFTER_S:
        return f"waits: groups lack {owed} of their shares, and cold memory may make the room"
    return f"closed: there is room for now; groups lack {owed} of their shares"
