"""Check every few seconds whether promotion helps, and stop it for a while if it does not.

Pure. There is one `Check` per node that memory is promoted to. Promotion stops if pages did not
arrive, or if as much heat is below as before. It stops for longer each time.
"""

from dataclasses import dataclass, replace

from tierd.tuner.average import moving
from tierd.units import format_size

# Seconds of a check if much moves, and if little moves. After STRIKES_MAX checks without benefit
# promotion stops for the first wait. The wait doubles each time, up to the second wait
# (docs/constants.md).
CHECK_S = 5.0
CHECK_S_MAX = 30.0
STRIKES_MAX = 3
BENEFIT_MIN = 1 / 4
ARRIVED_MIN = 0.5
HOLD_OFF_S_MIN = 120.0
HOLD_OFF_S_MAX = 600.0

# Shares of the node. If less than the first has moved, nothing is checked. Heat below is small if
# it is less than the second.
LARGE_SHARE = 0.05
WAITING_SHARE = 0.0125

# If the heat below has changed by this share, averaged over these seconds, the workload has changed
# and promotion may begin again. A single measurement varies as much, so it is averaged.
CHANGED_SHARE = 0.5
CHANGED_S = 5.0


@dataclass(frozen=True, slots=True)
class Moves:
    """What moved to and from a node since the last round, and what is there now."""

    seconds: float
    waiting_bytes: int
    """The heat below. The size of hot regions is not used: one page can make 100 MiB hot."""
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
    """What was seen of a node since the last check, and the number of checks without benefit."""

    since_s: float = 0.0
    waiting_bytes: int = 0
    used_bytes: int = 0
    promoted_bytes: int = 0
    demoted_bytes: int = 0
    strikes: int = 0
    hold_off_s: float = 0.0
    """How much longer promotion is stopped."""
    hold_offs: int = 0
    held_waiting_bytes: float = 0.0
    lately_waiting_bytes: float = 0.0
    """The heat below, averaged over CHANGED_S."""
    held_because: str = ""


def begin(moves: Moves) -> Check:
    """Return the state before the first check."""
    return _anew(Check(lately_waiting_bytes=moves.waiting_bytes), moves)


def check(known: Check, moves: Moves) -> Check:
    """Return the state after one more round. Do a check if it is due."""
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
        # After the wait, one more check without benefit is enough.
        strikes=STRIKES_MAX - 1,
        hold_off_s=min(HOLD_OFF_S_MAX, HOLD_OFF_S_MIN * 2 ** min(known.hold_offs, 16)),
        hold_offs=known.hold_offs + 1,
        held_waiting_bytes=known.lately_waiting_bytes,
        held_because=why,
    )


def _in_vain(known: Check, moves: Moves) -> str:
    """Return what is wrong with the moves since the last check, or an empty text."""
    promoted = known.promoted_bytes
    if promoted <= moves.large_bytes:
        return ""
    # Used memory changes by the pages that arrived and those that left. Kernels 6.17 to 7.2 may
    # copy pages to the node that they are on, and count them as moved.
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
