"""A descent visits pages when room is wanted, and no page twice within the idle time."""

from dataclasses import replace

import pytest

from tierd.plans.plan import Visit
from tierd.tuner import descent
from tierd.tuner.descent import (
    AHEAD_SHARE_MAX,
    CLOSE_SHARE,
    IDLE_S_MIN,
    SHRINK_S,
    YIELD_ENOUGH,
    Descent,
)
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
    lacks = 30 * MIB
    _, gate = descent.step(known, SEEN, lacks, 0, held=False)
    assert not gate.then_open
    assert gate.after_s == pytest.approx(lacks / SPEED)
    assert descent.step(known, SEEN, SPEED * SEEN.seconds, 0, held=False)[1] == OPEN


def test_it_learns_how_much_of_what_it_visits_goes_down() -> None:
    now = Descent(yield_share=1.0)
    for _ in range(60):
        now, _ = descent.step(now, visited(50 * MIB, MIB), ROUND, 0, held=False)
    assert now.yield_share == pytest.approx(1 / 50, rel=0.05)
    _, gate = descent.step(Descent(yield_share=0.0), SEEN, MIB / 2, 0, held=False)
    assert gate.after_s == pytest.approx(MIB / 2 / (YIELD_MIN * SPEED))


LONG = replace(SEEN, round_bytes=1000 * ROUND)
AHEAD = IDLE_S_MIN * SPEED


def ahead(size: float) -> Seen:
    """Return what is seen where the sweep that clears is ahead by so much."""
    return replace(LONG, behind_bytes=size)


def test_on_a_large_node_it_follows_a_sweep_that_clears_by_the_idle_time() -> None:
    first, gates = descent.follow(Descent(), ahead(0), ROUND, 0, held=False)
    assert gates == {Visit.clear: OPEN, Visit.demote: CLOSED}
    near, gates = descent.follow(first, ahead(AHEAD - SPEED / 10), ROUND, 0, held=False)
    assert gates[Visit.demote] == CLOSED
    assert gates[Visit.clear].after_s == pytest.approx(0.1)
    there, gates = descent.follow(near, ahead(AHEAD), ROUND, 0, held=False)
    assert there.follows
    assert gates == {Visit.clear: OPEN, Visit.demote: OPEN}


def test_it_waits_again_when_the_idle_time_has_grown() -> None:
    follows = Descent(is_open=True, follows=True, idle_s=2 * IDLE_S_MIN)
    _, gates = descent.follow(follows, ahead(2 * CLOSE_SHARE * AHEAD), ROUND, 0, held=False)
    assert gates[Visit.demote].is_open
    after, gates = descent.follow(follows, ahead(AHEAD), ROUND, 0, held=False)
    assert gates == {Visit.clear: OPEN, Visit.demote: CLOSED}
    _, gates = descent.follow(after, ahead(1.9 * AHEAD), ROUND, 0, held=False)
    assert gates[Visit.demote] == CLOSED, "until it is the whole idle time behind"


def test_the_sweep_that_clears_waits_where_it_is_too_far_ahead() -> None:
    follows = Descent(is_open=True, follows=True)
    _, gates = descent.follow(follows, ahead(2 * AHEAD), ROUND, 0, held=False)
    assert gates == {Visit.clear: CLOSED, Visit.demote: OPEN}
    slow = Descent(is_open=True, idle_s=1e6)
    _, gates = descent.follow(slow, ahead(AHEAD_SHARE_MAX * 1000 * ROUND), ROUND, 0, held=False)
    assert gates[Visit.demote].is_open, "however long the idle time is"


@pytest.mark.parametrize(("lacks", "held"), [(0, False), (ROUND, True)])
def test_both_sweeps_are_closed_when_no_room_is_wanted_or_it_is_held(
    lacks: int, held: bool
) -> None:
    follows = Descent(is_open=True, follows=True)
    after, gates = descent.follow(follows, ahead(AHEAD), lacks, 0, held=held)
    assert gates == {Visit.clear: CLOSED, Visit.demote: CLOSED}
    assert not after.is_open


def test_rounds_are_counted_where_it_follows_too() -> None:
    last = Descent(is_open=True, follows=True, visited_bytes=LONG.round_bytes - MIB)
    seen = replace(ahead(AHEAD), visited_bytes={Visit.demote: MIB})
    after, _ = descent.follow(last, seen, ROUND, 0, held=False)
    assert (after.rounds, after.visited_bytes) == (1, 0)


@pytest.mark.parametrize(
    ("found", "is_long", "in_vain", "calm_s"),
    [
        (2 * YIELD_ENOUGH, True, False, 120.0),
        (0.8 * YIELD_ENOUGH, True, False, 100.0),
        (0.2 * YIELD_ENOUGH, True, False, 50.0),
        (0.0, True, True, 120.0),
        (0.0, False, False, 120.0),
    ],
)
def test_in_a_long_round_the_idle_time_grows_while_enough_goes_down(
    found: float, is_long: bool, in_vain: bool, calm_s: float
) -> None:
    before = Descent(calm_s=100.0, follows=True, yield_share=found)
    after = descent.calmed(before, SHRINK_S, is_long=is_long, in_vain=in_vain)
    assert after.calm_s == calm_s


def test_the_idle_time_does_not_shrink_while_nothing_is_visited() -> None:
    before = Descent(calm_s=100.0, yield_share=0.0)
    assert descent.calmed(before, 5.0, is_long=True, in_vain=False).calm_s == 100.0
