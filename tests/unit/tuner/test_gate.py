"""What a sweep is told about the time until the next tick."""

from dataclasses import replace

import pytest

from tierd.tuner.gate import OPEN, Room, Seen, until

MIB = 1 << 20
SEEN = Seen(seconds=1.0, window_s=0.1, round_bytes=1000 * MIB, bytes_per_s=100 * MIB)
ROOM = Room(0, total_bytes=500 * MIB, free_bytes=60 * MIB, floor_bytes=40 * MIB, headroom_bytes=0)


def test_a_sweep_closes_when_it_has_moved_what_is_wanted() -> None:
    gate = until(20 * MIB, 0.5, SEEN)
    assert gate.is_open
    assert not gate.then_open
    assert gate.after_s == pytest.approx(0.4)


def test_a_sweep_that_closes_later_than_the_next_tick_stays_open() -> None:
    assert until(50 * MIB, 0.5, SEEN) == OPEN


@pytest.mark.parametrize(
    ("reserved", "spare"), [(0, 20), (5, 15), (10, 10), (50, 10)], ids=lambda mib: f"{mib} MiB"
)
def test_what_comes_up_by_regions_takes_half_of_the_room_at_most(reserved: int, spare: int) -> None:
    assert replace(ROOM, reserved_bytes=reserved * MIB).spare_bytes == spare * MIB


def test_below_the_floor_there_is_no_room_at_all() -> None:
    room = replace(ROOM, free_bytes=30 * MIB, reserved_bytes=50 * MIB)
    assert room.spare_bytes == -10 * MIB
