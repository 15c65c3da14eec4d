"""How long the lag of promotion by page may be. Pure.

The lag is the time from when a page is cleared to its visit. With a longer one more pages come up,
and they are less hot.
"""

from tierd.frozen import dataclass
from tierd.tuner.gate import Room, Seen

# The factor by which the lag grows from round to round, until too many pages come up.
GROWTH = 2.0

# The lag is this share of a round at most. With more than half of a round between the two sweeps
# nobody could tell which of them is behind.
LAG_SHARE_MAX = 0.4

# While more than so many times the room ahead is free, nothing has to go down for what comes up. So
# the idle time does not limit the lag.
ROOMY = 2.0


@dataclass(frozen=True, slots=True)
class Limit:
    """How far the lag may grow."""

    longest_s: float
    growth: float = GROWTH
    idle_allows: bool = False
    """Whether the idle time allows the longest lag that a round allows."""


def is_roomy(room: Room) -> bool:
    """Return whether nothing has to go down for what comes up."""
    return _left_bytes(room, room.ahead_bytes) > 0


def leaves_room(room: Room, lag: Limit, expected_bytes: float) -> bool:
    """Return whether more room is free than the next rounds need.

    If much memory is idle for long, room is made as soon as it is needed. Then the next rounds need
    room for what is `expected` to come up. Else all of the room ahead is kept for them.
    """
    return _left_bytes(room, expected_bytes if lag.idle_allows else room.ahead_bytes) > 0


def limit(seen: Seen, room: Room, by_idle_s: float, came_share: float | None) -> Limit:
    """Return how far the lag may grow.

    The idle time allows `by_idle_s`. `came_share` is the share of what was visited in this round
    that came up, if anything was visited.
    """
    longest_s = LAG_SHARE_MAX * seen.round_bytes / seen.bytes_per_s
    idle_allows = longest_s <= by_idle_s
    usable_bytes = _left_bytes(room, room.ahead_bytes)
    if not is_roomy(room):
        longest_s = min(longest_s, by_idle_s)
        usable_bytes = room.spare_bytes
    if came_share is None:
        return Limit(longest_s, idle_allows=idle_allows)
    # In a lag that is so many times as long, so many times as much comes up at most.
    round_bytes = max(1.0, came_share * seen.round_bytes)
    return Limit(longest_s, max(GROWTH, usable_bytes / round_bytes), idle_allows)


def _left_bytes(room: Room, ahead_bytes: float) -> float:
    """Return what may be used before anything has to go down, beside so much room ahead."""
    return room.left_bytes - ROOMY * ahead_bytes
