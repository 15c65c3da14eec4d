"""How long the lag of promotion by page may be, by the idle time, the round and the room."""

from dataclasses import replace

import pytest

from tests.unit.tuner.test_climb import IDLE_S, ROOM, ROUND, SPEED, USED, taking, visited
from tierd.tuner import climbing, lag
from tierd.tuner.climb import IDLE_PER_LAG, Climb, Stage
from tierd.tuner.climb_heat import ClimbHeat
from tierd.tuner.climbing import LAP_LAGS
from tierd.tuner.gate import AHEAD_SHARE, Room, Seen
from tierd.tuner.lag import GROWTH, LAG_SHARE_MAX, ROOMY, Limit
from tierd.tuner.touches import Touches

MIB = 1 << 20
TOTAL = 1000 * MIB
SEEN = Seen(seconds=0.5, window_s=0.1, round_bytes=600 * MIB, bytes_per_s=100 * MIB)
LONGEST_S = LAG_SHARE_MAX * SEEN.round_bytes / SEEN.bytes_per_s
AHEAD = AHEAD_SHARE * TOTAL
KEPT = 50 * MIB


def room(left_bytes: float) -> Room:
    """Return the room of a node with so much that can be used before anything goes down."""
    free = int(KEPT + ROOMY * AHEAD + left_bytes)
    return Room(0, TOTAL, free, floor_bytes=20 * MIB, headroom_bytes=KEPT)


def test_the_idle_time_allows_a_lag_and_half_a_round_bounds_it() -> None:
    assert lag.limit(SEEN, room(-MIB), 0.5, None) == Limit(0.5, GROWTH)
    long = lag.limit(SEEN, room(-MIB), 60.0, 0.5)
    assert long == Limit(LONGEST_S, GROWTH, idle_allows=True)


def test_with_room_the_lag_may_be_as_long_as_a_round_allows() -> None:
    assert not lag.is_roomy(room(-1))
    assert lag.is_roomy(room(MIB))
    assert lag.limit(SEEN, room(MIB), 0.5, None) == Limit(LONGEST_S, GROWTH)


@pytest.mark.parametrize(
    ("came_share", "growth"), [(0.0, 300 * MIB), (0.01, 50.0), (0.125, 4.0), (0.5, GROWTH)]
)
def test_it_grows_by_as_much_as_there_is_room_for(came_share: float, growth: float) -> None:
    """A round of 600 MiB brings this share up, and there is room for 300 MiB."""
    found = lag.limit(SEEN, room(300 * MIB), 0.5, came_share)
    assert found.growth == pytest.approx(growth, rel=0.001)


def test_little_room_lets_it_grow_faster_if_far_less_comes_up() -> None:
    """A round of 600 MiB brings 1 MiB up, and there is room for 22 MiB and half of the headroom."""
    little = replace(room(-AHEAD), headroom_bytes=KEPT)
    found = lag.limit(SEEN, little, 0.5, 1 / 600)
    assert found.longest_s == 0.5
    assert found.growth == pytest.approx(little.spare_bytes / MIB, rel=0.001)
    assert found.growth > GROWTH


def test_the_headroom_is_not_room() -> None:
    kept = replace(room(MIB), headroom_bytes=KEPT + 2 * MIB)
    assert not lag.is_roomy(kept)


ROOMY_ROOM = replace(ROOM, free_bytes=300 * MIB)


def test_while_nothing_has_to_go_down_the_idle_time_is_no_limit() -> None:
    lapped = taking(lag_s=1.0, lap_s=LAP_LAGS * 1.0, touches=Touches(100 * MIB, MIB))
    little, _ = climbing.step(lapped, visited(), ROOM, IDLE_S)
    assert little.lag_s == IDLE_S / IDLE_PER_LAG
    roomy, _ = climbing.step(lapped, visited(), ROOMY_ROOM, IDLE_S)
    assert roomy.lag_s == LAG_SHARE_MAX * ROUND / SPEED


def test_a_round_that_used_free_room_was_worth_it_and_moves_no_bar() -> None:
    last = Climb(
        lag_s=0.1, stage=Stage.drains, heat=ClimbHeat(100.0, least=100.0, calm=100.0),
        touches=Touches(ROUND, 20 * MIB, times_hz=float(ROUND), least_hz=0.0),
        cleared_bytes=ROUND,
    )  # fmt: skip
    full, _ = climbing.step(last, visited(heat=100.0), USED, IDLE_S)
    assert full.in_vain
    assert full.rounds_since_rise == 1
    roomy, _ = climbing.step(last, visited(heat=100.0), ROOMY_ROOM, IDLE_S)
    assert not roomy.in_vain
    assert roomy.rounds_since_rise == 0
    # If hardly anything came up, the room is not the reason.
    nothing = replace(last, touches=replace(last.touches, came_bytes=0))
    few, _ = climbing.step(nothing, visited(heat=100.0), ROOMY_ROOM, IDLE_S)
    assert few.in_vain or few.fills
