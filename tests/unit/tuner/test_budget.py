"""Sweeps use no more processor time than `cost` allows, on average over an hour."""

import pytest

from tierd.tuner import budget
from tierd.tuner.budget import RESUME_SHARE, SAVED_S, Budget

COST_BP = 200
COST = 0.02


def run(before: Budget, seconds: float, used: float, *, visits: bool) -> Budget:
    """Return the budget after some seconds of this use, in ticks of half a second."""
    total_s = before.total_s or 0.0
    for _ in range(int(2 * seconds)):
        total_s += used / 2
        before = budget.spend(before, COST_BP, 0.5, total_s, visits=visits)
    return before


def test_what_samples_use_is_not_counted() -> None:
    known = run(budget.begin(COST_BP), 60, 0.3, visits=False)
    assert known.usual == pytest.approx(0.3, rel=0.01)
    assert known.left_s == SAVED_S * COST
    after = run(known, 60, 0.5, visits=True)
    assert known.left_s - after.left_s == pytest.approx(60 * (0.2 - COST), rel=0.05)


def test_it_is_used_up_by_an_hours_share_and_comes_back_at_the_cost() -> None:
    known = run(budget.begin(COST_BP), 10, 0.0, visits=False)
    assert not run(known, 0.9 * SAVED_S * COST, 1.0, visits=True).is_used_up
    used_up = run(known, 1.1 * SAVED_S * COST, 1.0, visits=True)
    assert used_up.is_used_up
    lacks_s = -used_up.left_s / COST
    assert run(used_up, lacks_s - 10, 0.0, visits=False).is_used_up
    assert not run(used_up, lacks_s + 10, 0.0, visits=False).is_used_up


def test_what_is_not_used_is_saved_for_an_hour_at_most() -> None:
    known = run(budget.begin(COST_BP), 7200, 0.0, visits=False)
    assert known.left_s == SAVED_S * COST


@pytest.mark.parametrize("total_s", [None, 1.0])
def test_time_that_is_not_known_counts_as_not_used(total_s: float | None) -> None:
    """In a container it is not known, and a new kdamond begins at zero."""
    known = Budget(left_s=5.0, total_s=9.0)
    after = budget.spend(known, COST_BP, 1.0, total_s, visits=True)
    assert after.left_s == pytest.approx(5.0 + COST)
    assert after.total_s == total_s


def test_what_was_stopped_goes_on_when_a_part_is_saved_again() -> None:
    known = run(budget.begin(COST_BP), 10, 0.0, visits=False)
    assert not known.is_low
    used_up = run(known, 1.01 * SAVED_S * COST, 1.0, visits=True)
    again_s = RESUME_SHARE * SAVED_S - used_up.left_s / COST
    assert run(used_up, again_s - 10, 0.0, visits=False).is_low
    assert not run(used_up, again_s + 10, 0.0, visits=False).is_low
