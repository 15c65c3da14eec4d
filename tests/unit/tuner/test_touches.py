"""What the visits of a round tell: how hot the node is, and whether heat has risen."""

from dataclasses import replace
from math import exp

import pytest

from tests.unit.tuner.test_climb import IDLE_S, JUDGED, ROOM, taking, visited
from tierd.plans.plan import Visit
from tierd.tuner import climbing, touches
from tierd.tuner.climb import Stage
from tierd.tuner.touches import COOLS_SHARE, RISES, WHOLE_SHARE, Calm, Touches

MIB = 1 << 20
ROUND = 1000 * MIB
LEAST = 2 * MIB


def is_calm(found: Touches, came_bytes: float, lag_s: float) -> bool:
    """Return whether the calm round brought so much, with this lag."""
    assert found.calm is not None
    return (found.calm.came_bytes, found.calm.lag_s) == pytest.approx((came_bytes, lag_s), rel=0.01)


def round_of(share: float, lag_s: float, before: Touches | None = None) -> Touches:
    """Return what is known after a whole round of which this share came up."""
    begun = (before or Touches()).begun()
    return touches.add(begun, ROUND, int(share * ROUND), lag_s)


def at(hz: float, lag_s: float) -> float:
    """Return the share of pages that are touched within the lag, if all are touched so often."""
    return 1 - exp(-hz * lag_s)


def test_how_often_pages_are_touched_does_not_depend_on_the_lag() -> None:
    for lag_s in (0.1, 0.4):
        assert round_of(at(2.0, lag_s), lag_s).hz == pytest.approx(2.0)
    half = touches.add(round_of(at(2.0, 0.1), 0.1), ROUND, 0, 0.3)
    assert half.hz == pytest.approx(1.0)
    assert half.lag_s == pytest.approx(0.2)


def test_nothing_visited_says_nothing() -> None:
    assert touches.add(Touches(), 0, 0, 0.1) == Touches()
    assert Touches().came_share is None
    assert round_of(0.25, 0.1).came_share == pytest.approx(0.25)


def test_all_of_it_touched_has_a_bound() -> None:
    assert round_of(1.0, 0.1).hz < 100


def test_a_round_cools_if_it_saw_fewer_touches_than_any_before() -> None:
    first = round_of(at(2.0, 0.1), 0.1)
    assert not first.cooled
    later = first.ended(ROUND)
    share = 1 - COOLS_SHARE
    assert round_of(at(2.0 * share * 0.99, 0.1), 0.1, later).cooled
    assert not round_of(at(2.0 * share * 1.01, 0.1), 0.1, later).cooled
    assert round_of(at(5.0, 0.1), 0.1, later).ended(ROUND).least_hz == pytest.approx(2.0)


def test_heat_has_risen_if_much_more_comes_up_than_in_a_calm_round() -> None:
    calm = round_of(0.01, 0.1).ended(ROUND)
    assert is_calm(calm, 10 * MIB, 0.1)
    assert not round_of(0.01 * RISES, 0.1, calm).have_risen(LEAST)
    assert round_of(0.011 * RISES, 0.1, calm).have_risen(LEAST)
    # A part of a round is enough.
    assert touches.add(calm.begun(), 30 * MIB, 25 * MIB, 0.1).have_risen(LEAST)


def test_a_few_pages_are_no_rise() -> None:
    quiet = round_of(0.0, 0.1).ended(ROUND)
    assert not touches.add(quiet.begun(), ROUND, LEAST, 0.1).have_risen(LEAST)
    assert touches.add(quiet.begun(), ROUND, LEAST + 1, 0.1).have_risen(LEAST)


@pytest.mark.parametrize("hz", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("lags_s", [(0.02, 2.0), (2.0, 0.02), (0.5, 0.5)])
def test_the_same_heat_is_no_rise_whatever_the_lag_is(
    hz: float, lags_s: tuple[float, float]
) -> None:
    before_s, now_s = lags_s
    calm = round_of(at(hz, before_s), before_s).ended(ROUND)
    assert not round_of(at(hz, now_s), now_s, calm).have_risen(LEAST)


def test_the_calmest_round_counts() -> None:
    calm = round_of(0.01, 0.1).ended(ROUND)
    assert round_of(0.05, 0.1, calm).ended(ROUND).calm == calm.calm
    calmer = round_of(0.005, 0.1, calm).ended(ROUND)
    assert is_calm(calmer, 5 * MIB, 0.1)
    # With a lag ten times as long, ten times as much might have come up.
    longer = round_of(0.05, 1.0, calm).ended(ROUND)
    assert is_calm(longer, 50 * MIB, 1.0)


def test_a_part_of_a_round_is_no_calm_round() -> None:
    part = touches.add(Touches(), int(0.99 * WHOLE_SHARE * ROUND), MIB, 0.1)
    assert part.ended(ROUND).calm is None
    most = touches.add(Touches(), int(0.95 * ROUND), 19 * MIB, 0.1).ended(ROUND)
    assert is_calm(most, 20 * MIB, 0.1)


def test_without_a_calm_round_nothing_has_risen() -> None:
    calm = round_of(0.01, 0.1).ended(ROUND)
    anew = calm.anew()
    assert (anew.calm, anew.least_hz) == (None, None)
    assert not round_of(1.0, 0.1, anew).have_risen(LEAST)


def test_if_much_more_comes_up_than_in_a_calm_round_the_climb_begins_anew() -> None:
    """Programs have turned to other memory, whether the heat of regions shows it or not."""
    quiet = Touches(calm=Calm(came_bytes=0.0, lag_s=0.1), least_hz=0.0)
    before = replace(taking(heat=JUDGED.ended(), touches=quiet), rest_s=8.0, rounds_since_rise=4)
    seen = visited(cleared=10 * MIB, moved=5 * MIB, heat=100.0)
    after, _ = climbing.step(before, seen, ROOM, IDLE_S)
    assert not after.calm
    assert not after.in_vain
    assert after.rounds_since_rise == 0
    assert (after.touches.calm, after.touches.least_hz) == (None, None)
    # The round goes on.
    assert after.stage is Stage.takes
    assert after.touches.came_bytes == 5 * MIB
    few = replace(seen, moved_bytes={Visit.promote: MIB})
    assert climbing.step(before, few, ROOM, IDLE_S)[0].calm
    # Where a round takes long, only the check for gain says whether it is worth it.
    assert climbing.step(before, replace(seen, is_long=True), ROOM, IDLE_S)[0].calm
