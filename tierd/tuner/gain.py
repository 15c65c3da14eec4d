"""Check whether pages that came up are used more than those that went down for them. Pure.

What comes up is compared in pieces, over one round of promotion or many: in each piece a larger
share of all heat must be on the fast node than in the piece before.
"""

from dataclasses import dataclass, field, replace
from math import hypot

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


def step(before: Gain, seconds: float, came_bytes: int, share: float, node_bytes: int) -> Gain:
    """Return the gain after a tick. `share` of all heat is on the fast node, of `node_bytes`."""
    now = replace(
        before,
        shares=before.shares.plus(share),
        came_bytes=before.came_bytes + came_bytes,
        seconds=before.seconds + seconds,
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
    if gained >= enough or gained < -noise:
        return Gain(before=now.shares)
    rest_s = min(REST_S_MAX, max(REST_TIMES * now.seconds, 2 * now.rest_s))
    return Gain(before=now.shares, in_vain=True, rest_s=rest_s)
