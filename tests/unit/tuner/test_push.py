"""When hot memory of groups above their share is pushed down."""

from dataclasses import replace

import pytest

from tierd.plans.plan import Visit
from tierd.tuner import push
from tierd.tuner.gate import CLOSED, Room, Seen
from tierd.tuner.push import AFTER_S, Push

MIB = 1 << 20
ROOM = Room(
    node=0,
    total_bytes=1000 * MIB,
    free_bytes=20 * MIB,
    floor_bytes=20 * MIB,
    headroom_bytes=25 * MIB,
    owed_bytes=300 * MIB,
    giving_bytes=300 * MIB,
)
SEEN = Seen(seconds=1.0, window_s=0.1, round_bytes=1000 * MIB, bytes_per_s=100 * MIB)
OPEN = Push(lacked_s=AFTER_S, is_open=True)


def test_cold_memory_has_the_first_turn() -> None:
    now, opened = Push(), 0
    for _ in range(10):
        now, gate = push.step(now, SEEN, ROOM, held=False)
        opened += gate.is_open
    assert opened == 10 - AFTER_S + 1


def test_it_closes_when_there_is_room() -> None:
    full = replace(ROOM, free_bytes=ROOM.headroom_bytes + round(ROOM.ahead_bytes))
    assert push.step(OPEN, SEEN, full, held=False)[1] == CLOSED
    _, gate = push.step(OPEN, SEEN, ROOM, held=False)
    # 45 MiB are lacking, at 100 MiB/s.
    assert gate.after_s == pytest.approx(0.45)


def test_where_what_it_passes_is_charged_it_lasts_as_long_as_its_yield_says() -> None:
    passed = replace(SEEN, visited_bytes={Visit.push: 100 * MIB}, moved_bytes={Visit.push: 0})
    now, _ = push.step(OPEN, passed, ROOM, held=False, passes_cheaply=False)
    assert now.yield_share < OPEN.yield_share
    half = replace(OPEN, yield_share=0.5)
    _, gate = push.step(half, SEEN, ROOM, held=False, passes_cheaply=False)
    # 45 MiB are lacking, and 50 MiB/s move.
    assert gate.after_s == pytest.approx(0.9)


def test_it_lasts_no_longer_than_the_least_group_can_give() -> None:
    _, gate = push.step(OPEN, SEEN, replace(ROOM, giving_bytes=20 * MIB), held=False)
    assert gate.after_s == pytest.approx(0.2)


def test_groups_that_are_little_above_their_shares_give_too() -> None:
    """A group lacked 8 MiB, another one had 3 MiB too much, and both stayed so for minutes."""
    little = replace(ROOM, owed_bytes=8.0 * MIB, giving_bytes=3.0 * MIB)
    waiting = replace(OPEN, is_open=False)
    _, gate = push.step(waiting, SEEN, little, held=False)
    assert gate.is_open
    assert gate.after_s == pytest.approx(0.03)
    # Where there is room already, they keep it.
    roomy = replace(little, free_bytes=little.headroom_bytes + 8 * MIB)
    assert push.step(waiting, SEEN, roomy, held=False)[1] == CLOSED


def test_it_waits_if_nothing_can_go_down() -> None:
    for room in (replace(ROOM, giving_bytes=0.0), replace(ROOM, fits_bytes=0.0)):
        assert push.step(OPEN, SEEN, room, held=False)[1] == CLOSED
    assert push.step(OPEN, SEEN, ROOM, held=True)[1] == CLOSED


def test_what_is_above_a_ceiling_goes_down_at_once_and_small_amounts_stay() -> None:
    above = replace(ROOM, owed_bytes=0.0, giving_bytes=50.0 * MIB)
    assert push.step(Push(), SEEN, above, held=False)[1].after_s == pytest.approx(0.5)
    assert push.step(Push(), SEEN, replace(above, giving_bytes=1.0 * MIB), held=False)[1] == CLOSED
    none = replace(above, giving_bytes=0.0)
    now, gate = push.step(Push(), SEEN, none, held=False)
    assert "no group asks" in push.reason(now, none, gate)


def test_a_round_is_over_when_all_pages_were_passed_and_the_next_one_begins_at_none() -> None:
    passed = replace(SEEN, visited_bytes={Visit.push: 600 * MIB})
    first, _ = push.step(OPEN, passed, ROOM, held=False)
    assert (first.rounds, first.visited_bytes) == (0, 600 * MIB)
    second, _ = push.step(first, passed, ROOM, held=False)
    assert (second.rounds, second.visited_bytes) == (1, 0)


def test_it_says_why_it_is_closed() -> None:
    now, gate = push.step(Push(), SEEN, ROOM, held=False)
    assert "cold memory may make the room" in push.reason(now, ROOM, gate)
    late = replace(now, lacked_s=AFTER_S)
    assert "there is room for now" in push.reason(late, ROOM, CLOSED)
    full = replace(ROOM, free_bytes=ROOM.total_bytes)
    assert "there is room for now" in push.reason(now, full, CLOSED)
    assert "no other has more" in push.reason(now, replace(ROOM, giving_bytes=0.0), CLOSED)
