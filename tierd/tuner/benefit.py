"""Check whether promotion helps, and stop it for a while if it does not.

Pure. There is one `Check` per node that memory is promoted to. Promotion stops if pages did not
arrive, or if as much hot memory is below as before.

Rules of this file:
1. Bytes are compared with bytes: what came up, with how much less waits. Heat shows a gain more
   clearly, because few samples hit on a node where nothing hot is. But heat never shows that moves
   were in vain: regions come up when they were hit more often than usual, and a kernel that tunes
   its sampling keeps the heat of a node the same.
2. A single reading of what waits may be wrong by a fifth, and on a large node by many times: whole
   regions look hot for a moment. So a check has two halves, and compares their averages. If there
   are enough readings, these are averages of medians.
3. How long a check takes follows from what waits and from the rate, whatever the size of the node.
"""

from dataclasses import field
from math import hypot

from tierd.frozen import dataclass, replace
from tierd.tuner import shown
from tierd.tuner.average import moving
from tierd.tuner.series import Series
from tierd.tuner.shown import Shown
from tierd.units import format_size

# A check takes at least these seconds, and until this share has come up of what waits below and
# would fit (docs/constants.md).
CHECK_S = 15.0
CHECK_SHARE = 1 / 4

# The share of what came up that must have arrived. Besides, this share of it must wait no more, or
# enough of its heat must show above (tuner/shown.py). Else the moves were in vain.
BENEFIT_MIN = 0.5

# Moves in vain may cost this share of the rate. Slower moves are not checked. A stop is so much
# longer than its check, at most an hour.
COST_SHARE = 0.01
HOLD_OFF_S_MAX = 3600.0

# The same share for a check that failed after one that passed, or after none, if it took no longer
# than this. A short check has few readings, and may be wrong where heat is partly scattered. So the
# next one decides.
FIRST_COST_SHARE = 1 / 4
FIRST_S_MAX = 1.1 * CHECK_S

# A check goes on until so many times the noise came up, but no longer than UNSURE_S_MAX. At twice
# the noise, both all of it and nothing of it are a whole noise away from the half that decides.
# Moves that do not show by then are not worth their cost.
SURE = 2.0
UNSURE_S_MAX = 150.0

# So many readings make a batch, of which the median counts: a few of them may be of any size. With
# fewer batches than BATCHES_MIN in half a check, their noise is not known, and the average of all
# readings counts.
BATCH = 7
BATCHES_MIN = 4

# If less than this share of the node waits below, nothing is checked: a little always waits.
WAITING_SHARE = 0.025

# If what waits, averaged over these seconds, has changed by this share and its noise together, the
# workload has changed and promotion may begin again. So it has if the heat above fell by as much.
CHANGED_SHARE = 0.5
CHANGED_S = 5.0


@dataclass(frozen=True, slots=True)
class Moves:
    """What moved to and from a node since the last round, and what is there now."""

    seconds: float
    waiting_bytes: int
    """The hot memory below."""
    used_bytes: int
    total_bytes: int
    promoted_bytes: int
    demoted_bytes: int
    rate_max_bytes_per_s: float
    """How fast memory may be promoted to the node."""
    joined_bytes: int = 0
    """What came up from slower nodes to those whose hot memory waits."""
    waiting_heat_bytes: int = 0
    """The heat of what waits."""
    heat_above_bytes: int = 0
    """The heat of the node, and of those that its memory goes up to."""


@dataclass(frozen=True, slots=True)
class Half:
    """The averages of half a check."""

    seconds: float = 0.0
    promoted_bytes: float = 0.0
    """What had come up since the check began."""
    joined_bytes: float = 0.0
    """What had joined since then."""
    readings: Series = field(default_factory=Series)
    """What waited."""
    batches: Series = field(default_factory=Series)
    """The medians of BATCH readings each."""
    batch: tuple[int, ...] = ()
    """The readings that make no whole batch yet."""

    @property
    def waiting_bytes(self) -> float:
        return self.waiting.average

    @property
    def noise_bytes(self) -> float:
        """How far `waiting_bytes` may be from the truth, by chance."""
        return self.waiting.noise

    @property
    def waiting(self) -> Series:
        """What waited: the medians, if there are enough of them."""
        return self.readings if self.per_value == 1 else self.batches

    @property
    def per_value(self) -> int:
        """How many readings a value of `waiting` is the median of."""
        return BATCH if self.batches.count >= BATCHES_MIN else 1

    def with_round(self, moves: Moves, promoted_bytes: int, joined_bytes: int) -> "Half":
        seconds, total_s = moves.seconds, self.seconds + moves.seconds
        batch, batches = (*self.batch, moves.waiting_bytes), self.batches
        if len(batch) == BATCH:
            batch, batches = (), batches.plus(_median(batch))
        return Half(
            total_s,
            moving(self.promoted_bytes, promoted_bytes, seconds, total_s),
            moving(self.joined_bytes, joined_bytes, seconds, total_s),
            self.readings.plus(moves.waiting_bytes),
            batches,
            batch,
        )


@dataclass(frozen=True, slots=True)
class Check:
    """What was seen of a node since its check began, and how long promotion is stopped."""

    first: Half = field(default_factory=Half)
    second: Half = field(default_factory=Half)
    shown: Shown = field(default_factory=Shown)
    used_bytes: int = 0
    """The used memory of the node when the check began."""
    promoted_bytes: int = 0
    demoted_bytes: int = 0
    joined_bytes: int = 0
    lately: tuple[int, ...] = ()
    """What waited in the last rounds, as many as `held.per_value`."""
    lately_waiting_bytes: float = 0.0
    """What waits, averaged over CHANGED_S, or longer during a stop after a long check: there it
    takes long to see something in readings that vary. It is the average of medians of `lately`."""
    lately_heat_above_bytes: float = 0.0
    """The heat above during a stop, averaged over as long as the check took: heat may have a
    period."""
    hold_off_s: float = 0.0
    """How much longer promotion is stopped."""
    held_after_s: float = 0.0
    """How long the check took that failed."""
    held: Half = field(default_factory=Half)
    """The second half of the check that failed."""
    held_heat_above: Series = field(default_factory=Series)
    """The heat above during the check that failed."""
    held_because: str = ""
    gained_bytes: float = 0.0
    """How much less waits by the checks that passed since one failed."""
    in_vain: bool = False
    """True if the last check failed."""
    ended_by_change: bool = False
    """True if a change ended the last stop, and no check has passed since. The next stop is not
    ended by one, or memory that is hot now and then would end each."""

    @property
    def since_s(self) -> float:
        return self.first.seconds + self.second.seconds


def begin(moves: Moves) -> Check:
    """Return the state before the first check."""
    return _anew(Check(lately_waiting_bytes=moves.waiting_bytes), moves)


def check(known: Check, moves: Moves) -> Check:
    """Return the state after one more round. Judge if the check is complete."""
    per_value = known.held.per_value
    lately = (*known.lately, moves.waiting_bytes)[-per_value:]
    waits = known.lately_waiting_bytes
    if len(lately) == per_value:
        waits = moving(waits, _median(lately), moves.seconds, _lately_s(known))
    known = replace(known, lately=lately, lately_waiting_bytes=waits)
    if known.hold_off_s > 0:
        return _held(known, moves)
    known = _with_round(known, moves)
    slow = known.promoted_bytes < COST_SHARE * moves.rate_max_bytes_per_s * known.since_s
    if not known.promoted_bytes or (slow and known.since_s > CHECK_S):
        return _anew(known, moves)
    if known.second.seconds < CHECK_S / 2 or known.promoted_bytes < _enough_bytes(known, moves):
        return known
    if not _can_tell(known) and known.since_s < UNSURE_S_MAX:
        return known
    return _judged(known, moves)


def _median(readings: tuple[int, ...]) -> int:
    """Return the reading in the middle. The module `statistics` would take long to load."""
    return sorted(readings)[len(readings) // 2]


def _lately_s(known: Check) -> float:
    return max(CHANGED_S, known.held_after_s * CHANGED_S / CHECK_S)


def _with_round(known: Check, moves: Moves) -> Check:
    promoted = known.promoted_bytes + moves.promoted_bytes
    joined = known.joined_bytes + moves.joined_bytes
    demoted = known.demoted_bytes + moves.demoted_bytes
    known = replace(
        known,
        promoted_bytes=promoted,
        demoted_bytes=demoted,
        joined_bytes=joined,
        shown=shown.step(
            known.shown,
            moves.seconds,
            moves.promoted_bytes,
            moves.waiting_bytes,
            moves.waiting_heat_bytes,
            moves.heat_above_bytes,
        ),
    )
    early = known.first.seconds < CHECK_S / 2 or promoted < _enough_bytes(known, moves) / 2
    if early and not known.second.seconds:
        return replace(known, first=known.first.with_round(moves, promoted, joined))
    return replace(known, second=known.second.with_round(moves, promoted, joined))


def _enough_bytes(known: Check, moves: Moves) -> float:
    """Return how much has to come up in a check."""
    return CHECK_SHARE * min(known.first.waiting_bytes, moves.total_bytes)


def _can_tell(known: Check) -> bool:
    """Return whether enough came up to tell it from the noise of the readings.

    What came up grows as the check goes on, and the noise becomes less. When a check ends does not
    depend on what it would say: else chance would choose the moment.
    """
    _, came = _gone_and_came(known)
    return came > SURE * _noise_bytes(known)


def _noise_bytes(known: Check) -> float:
    return hypot(known.first.noise_bytes, known.second.noise_bytes)


def _held(known: Check, moves: Moves) -> Check:
    """Return the state after one more round of a stop."""
    above = moving(
        known.lately_heat_above_bytes, moves.heat_above_bytes, moves.seconds, known.held_after_s
    )
    known = replace(
        _anew(known, moves),
        hold_off_s=max(0.0, known.hold_off_s - moves.seconds),
        lately_heat_above_bytes=above,
    )
    if _has_changed(known, moves) and not known.ended_by_change:
        return replace(begin(moves), ended_by_change=True)
    return known if known.hold_off_s else replace(known, ended_by_change=False, held_after_s=0.0)


def _has_changed(known: Check, moves: Moves) -> bool:
    """Return whether programs have turned to other memory since the check that failed."""
    held, above = known.held, known.held_heat_above
    # Medians that follow one another have most of their readings in common.
    medians = _lately_s(known) / moves.seconds / held.per_value
    waits = abs(known.lately_waiting_bytes - held.waiting_bytes)
    if waits > CHANGED_SHARE * max(held.waiting_bytes, 1) + held.waiting.noise_of(medians):
        return True
    # Heat above that rises does not say that more should come up.
    chance = above.noise_of(known.held_after_s / moves.seconds)
    fell = above.average - known.lately_heat_above_bytes
    return fell > CHANGED_SHARE * above.average + chance


def _judged(known: Check, moves: Moves) -> Check:
    """Return the state after a check."""
    why = _in_vain(known, moves)
    gone, came = _gone_and_came(known)
    if not why:
        gained = known.gained_bytes + gone if gone >= BENEFIT_MIN * came else 0.0
        return replace(
            _anew(known, moves), gained_bytes=gained, in_vain=False, ended_by_change=False
        )
    unsure = not known.in_vain and known.since_s <= FIRST_S_MAX
    share = FIRST_COST_SHARE if unsure else COST_SHARE
    return replace(
        _anew(known, moves),
        gained_bytes=0.0,
        in_vain=True,
        hold_off_s=min(HOLD_OFF_S_MAX, known.since_s / share),
        held_after_s=known.since_s,
        held=known.second,
        held_heat_above=known.shown.heat_above,
        lately=(),
        lately_waiting_bytes=known.second.waiting_bytes,
        lately_heat_above_bytes=known.shown.heat_above.average,
        held_because=why,
    )


def _in_vain(known: Check, moves: Moves) -> str:
    """Return what is wrong with the moves of a check, or an empty text."""
    promoted = known.promoted_bytes
    # Used memory changes by the pages that arrived and those that left. Kernels 6.17 to 7.2 may
    # copy pages to the node that they are on, and count them as moved.
    arrived = moves.used_bytes - known.used_bytes + known.demoted_bytes
    if arrived < BENEFIT_MIN * promoted:
        return f"of {format_size(promoted)} said to be moved, most did not arrive"
    if known.first.readings.average < WAITING_SHARE * moves.total_bytes:
        return ""
    if known.shown.is_used:
        return ""
    # If more has begun to wait than came up, programs have turned to other memory in the meantime.
    # At the end of a useful promotion only regions are left that are hot in part. So one check may
    # be in vain if it cost less than the checks before it have gained.
    gone, came = _gone_and_came(known)
    # If a check ends without more than its noise, a change within the noise is no gain.
    noise = _noise_bytes(known)
    least, most = (-came, BENEFIT_MIN * came) if _can_tell(known) else (-noise, noise)
    if least < gone < most and came > known.gained_bytes:
        return f"{format_size(promoted)} came up, and as much waits as before"
    return ""


def _gone_and_came(known: Check) -> tuple[float, float]:
    """Return how much less waited in the second half than in the first, and what came up.

    What joined meanwhile waits too, and does not say that moves were in vain.
    """
    first, second = known.first, known.second
    joined_bytes = second.joined_bytes - first.joined_bytes
    return (
        first.waiting_bytes - second.waiting_bytes + joined_bytes,
        second.promoted_bytes - first.promoted_bytes,
    )


def _anew(known: Check, moves: Moves) -> Check:
    return replace(
        known,
        first=Half(),
        second=Half(),
        shown=Shown(),
        used_bytes=moves.used_bytes,
        promoted_bytes=0,
        demoted_bytes=0,
        joined_bytes=0,
    )
