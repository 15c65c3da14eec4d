"""Check whether pages that came up are used more than those that went down for them. Pure.

Used where a round of promotion takes long. What comes up is compared in pieces, over one round or
many: in each piece a larger share of all heat must be on the fast node than in the piece before.
"""

from dataclasses import field
from math import hypot

from tierd.frozen import dataclass, replace
from tierd.tuner.series import Series

# A piece is complete when this share of the fast node has come up, but not before so many seconds:
# heat may have a period, and a single reading says little.
PIECE_SHARE = 1 / 8
PIECE_S_MIN = 30.0

# So much more of all heat must be on the fast node for each PIECE_SHARE of it that came up.
GAIN_MIN = 0.005

# After a piece in vain nothing comes up for so many times its time: doubled each time, and at most.
REST_TIMES = 4.0
REST_S_MAX = 600.0

# Programs have turned to other memory if in PIECE_S_MIN of a rest less is served than before, by so
# many times what chance may do. It is asked up to twenty times in a rest.
TURNED = 2.0


@dataclass(frozen=True, slots=True)
class Gain:
    """What was seen in the pieces of a round."""

    shares: Series = field(default_factory=Series)
    """The share of all heat that is on the fast node, in this piece."""
    before: Series | None = None
    """The same in the piece before; None in the first piece."""
    came_bytes: int = 0
    """What came up in this piece."""
    seconds: float = 0.0
    in_vain: bool = False
    """True if the last piece has gained too little, and nothing came up since."""
    rest_s: float = 0.0
    """How long nothing comes up after the last piece, if it was in vain."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The share of all heat that is on the fast node."""

    seconds: float
    share: float
    lately: float
    """The same, averaged over `lately_s`."""
    lately_s: float


def step(before: Gain, seen: Reading, came_bytes: int, node_bytes: int) -> Gain:
    """Return the gain after a tick in which so much came up to the fast node."""
    now = replace(
        before,
        shares=before.shares.plus(seen.share),
        came_bytes=before.came_bytes + came_bytes,
        seconds=before.seconds + seen.seconds,
    )
    if now.came_bytes < PIECE_SHARE * node_bytes or now.seconds < PIECE_S_MIN:
        return now
    if now.before is None:
        return Gain(before=now.shares)
    gained = now.shares.average - now.before.average
    enough = GAIN_MIN * now.came_bytes / (PIECE_SHARE * node_bytes)
    noise = hypot(now.shares.noise, now.before.noise)
    if enough <= gained < noise:
        return now
    # If less is served than before, programs have turned to other memory, and moves are wanted.
    # That may have been a moment ago.
    chance = hypot(now.shares.noise_of(seen.lately_s / seen.seconds), now.before.noise)
    turned = gained < -noise or seen.lately < now.before.average - chance
    if gained >= enough or turned:
        return Gain(before=now.shares)
    rest_s = min(REST_S_MAX, max(REST_TIMES * now.seconds, 2 * now.rest_s))
    return Gain(before=now.shares, in_vain=True, rest_s=rest_s)


def rest(before: Gain, seen: Reading) -> Gain:
    """Return the gain after a tick of a rest. It is a new one if programs have turned."""
    shares, seconds = before.shares.plus(seen.share), before.seconds + seen.seconds
    now = replace(before, shares=shares, seconds=seconds)
    if now.before is None or now.seconds < PIECE_S_MIN:
        return now
    noise = hypot(now.shares.noise, now.before.noise)
    if now.shares.average < now.before.average - TURNED * noise:
        return Gain()
    return replace(now, shares=Series(), seconds=0.0)
