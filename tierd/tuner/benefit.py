"""What moving is good for: looked at every few seconds, and ended for a while if it is nothing.

Pure; one `Check` per node that memory is promoted to. Where what came up did not arrive, or does
not make less wait below, promotion is held off, for longer each time.
"""

from dataclasses import dataclass, replace

from tierd.tuner.average import moving
from tierd.units import format_size

# Over so many seconds, and more where little moves: how much came up, and how much less waits.
# Three checks without benefit in a row end it for a while, each time twice as long. A hot set half
# as large again as the fast node, all of it alike, is found out after half a minute (7.2). To try
# again takes five seconds at the rate, both ways: two minutes later that is 8 % of it, and half as
# much each time.
CHECK_S = 5.0
CHECK_S_MAX = 30.0
STRIKES_MAX = 3
BENEFIT_MIN = 1 / 4
ARRIVED_MIN = 0.5
HOLD_OFF_S_MIN = 120.0
HOLD_OFF_S_MAX = 600.0

# Of the node: less than that moved is not worth a check, and so much heat below is not much.
LARGE_SHARE = 0.05
WAITING_SHARE = 0.0125

# What waits has changed by this share, on average over about so many seconds: what was learned may
# be wrong now. A single reading of what all the same waits is off by as much now and then (7.2).
CHANGED_SHARE = 0.5
CHANGED_S = 5.0


@dataclass(frozen=True, slots=True)
class Moves:
    """A node in one round: what happened since the last, and what is there now."""

    seconds: float
    waiting_bytes: int
    """The heat below. The size of hot regions is no measure: a stray page makes 100 MiB of it."""
    used_bytes: int
    total_bytes: int
    promoted_bytes: int
    demoted_bytes: int

    @property
    def large_bytes(self) -> float:
        return self.total_bytes * LARGE_SHARE

    @property
    def much_waits(self) -> bool:
        return self.waiting_bytes > self.total_bytes * WAITING_SHARE


@dataclass(frozen=True, slots=True)
class Check:
    """What is remembered of a node's moves since the last check, and of checks in vain."""

    since_s: float = 0.0
    waiting_bytes: int = 0
    used_bytes: int = 0
    promoted_bytes: int = 0
    demoted_bytes: int = 0
    strikes: int = 0
    hold_off_s: float = 0.0
    """How much longer nothing is promoted."""
    hold_offs: int = 0
    held_waiting_bytes: float = 0.0
    lately_waiting_bytes: float = 0.0
    """On average over CHANGED_S."""
    held_because: str = ""


def begin(moves: Moves) -> Check:
    """Nothing is known yet."""
    return _anew(Check(lately_waiting_bytes=moves.waiting_bytes), moves)


def check(known: Check, moves: Moves) -> Check:
    """One round."""
    lately = moving(known.lately_waiting_bytes, moves.waiting_bytes, moves.seconds, CHANGED_S)
    known = replace(known, lately_waiting_bytes=lately)
    if known.hold_off_s > 0:
        changed = abs(known.lately_waiting_bytes - known.held_waiting_bytes)
        if changed > CHANGED_SHARE * max(known.held_waiting_bytes, 1):
            return begin(moves)
        return replace(_anew(known, moves), hold_off_s=max(0.0, known.hold_off_s - moves.seconds))
    known = replace(
        known,
        since_s=known.since_s + moves.seconds,
        promoted_bytes=known.promoted_bytes + moves.promoted_bytes,
        demoted_bytes=known.demoted_bytes + moves.demoted_bytes,
    )
    much = known.promoted_bytes > moves.large_bytes
    if known.since_s < (CHECK_S if much else CHECK_S_MAX):
        return known
    why = _in_vain(known, moves)
    strikes = known.strikes + 1 if why else 0
    if strikes < STRIKES_MAX:
        hold_offs = known.hold_offs if why or moves.much_waits else 0
        return replace(_anew(known, moves), strikes=strikes, hold_offs=hold_offs)
    return replace(
        _anew(known, moves),
        # One more check without benefit is enough when it is over.
        strikes=STRIKES_MAX - 1,
        hold_off_s=min(HOLD_OFF_S_MAX, HOLD_OFF_S_MIN * 2 ** min(known.hold_offs, 16)),
        hold_offs=known.hold_offs + 1,
        held_waiting_bytes=known.lately_waiting_bytes,
        held_because=why,
    )


def _in_vain(known: Check, moves: Moves) -> str:
    """What is wrong with the moves since the last check; empty if nothing is."""
    promoted = known.promoted_bytes
    if promoted <= moves.large_bytes:
        return ""
    # What came and what went make the difference in use; some kernels copy pages to the node that
    # they are on and count it as moved (6.17 to 7.2).
    arrived = moves.used_bytes - known.used_bytes + known.demoted_bytes
    if arrived < ARRIVED_MIN * promoted:
        return f"of {format_size(promoted)} said to be moved, most did not arrive"
    gone = known.waiting_bytes - moves.waiting_bytes
    if moves.much_waits and gone < BENEFIT_MIN * promoted:
        return f"{format_size(promoted)} came up, and as much waits as before"
    return ""


def _anew(known: Check, moves: Moves) -> Check:
    return replace(
        known,
        since_s=0.0,
        waiting_bytes=moves.waiting_bytes,
        used_bytes=moves.used_bytes,
        promoted_bytes=0,
        demoted_bytes=0,
    )
