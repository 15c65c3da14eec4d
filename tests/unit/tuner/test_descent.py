"""A descent visits pages when room is wanted, and no page twice within the idle time."""

from dataclasses import replace

import pytest

from tierd.plans.plan import Visit
from tierd.tuner import descent
from tierd.tuner.descent import IDLE_S_MIN, Descent
from tierd.tuner.gate import CLOSED, OPEN, YIELD_MIN, Seen

MIB = 1 << 20
ROUND = 500 * MIB
SPEED = 100 * MIB
SEEN = Seen(seconds=0.5, window_s=0.1, round_bytes=ROUND, bytes_per_s=SPEED)


def visited(size: int, gone: int = 0) -> Seen:
    return replace(SEEN, visited_bytes={Visit.demote: size}, moved_bytes={Visit.demote: gone})


def test_it_opens_when_enough_is_lacking_and_closes_when_nothing_is() -> None:
    for lacks, opens in ((0, False), (10 * MIB, False), (11 * MIB, True)):
        after, gate = descent.step(Descent(), SEEN, lacks, 10 * MIB, held=False)
        assert gate.is_open is after.is_open is opens
    goes_on = Descent(is_open=True)
    assert descent.step(goes_on, SEEN, MIB, 10 * MIB, held=False)[1].is_open
    assert descent.step(goes_on, SEEN, 0, 10 * MIB, held=False)[1] == CLOSED


def test_it_does_not_open_while_it_is_held() -> None:
    assert descent.step(Descent(), SEEN, ROUND, 0, held=True)[1] == CLOSED


def test_after_a_round_it_waits_for_the_idle_time() -> None:
    early = Descent(is_open=True, round_s=IDLE_S_MIN - 2, visited_bytes=ROUND - MIB)
    after, gate = descent.step(early, visited(MIB), ROUND, 0, held=False)
    assert (after.rounds, gate) == (0, CLOSED)
    late = replace(after, round_s=IDLE_S_MIN - SEEN.seconds)
    after, gate = descent.step(late, SEEN, ROUND, 0, held=False)
    assert (after.rounds, after.visited_bytes, after.round_s) == (1, 0, 0)
    assert gate.is_open


def test_it_closes_before_the_next_tick_if_the_room_will_be_made() -> None:
    known = Descent(yield_share=1.0)
    lacks = 10 * MIB
    _, gate = descent.step(known, SEEN, lacks, 0, held=False)
    assert not gate.then_open
    assert gate.after_s == pytest.approx(lacks / SPEED)
    assert descent.step(known, SEEN, SPEED * SEEN.seconds, 0, held=False)[1] == OPEN


def test_it_learns_how_much_of_what_it_visits_goes_down() -> None:
    now = Descent(yield_share=1.0)
    for _ in range(60):
        now, _ = descent.step(now, visited(50 * MIB, MIB), ROUND, 0, held=False)
    assert now.yield_share == pytest.approx(1 / 50, rel=0.05)
    _, gate = descent.step(Descent(yield_share=0.0), SEEN, 100, 0, held=False)
    assert gate.after_s == pytest.approx(100 / (YIELD_MIN * SPEED))
