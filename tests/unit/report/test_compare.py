"""Differences with intervals, with answers worked out by hand."""

import pytest

from tierd.report import compare
from tierd.report.compare import Arm, Better, Measure, Slice

RATE = Measure("rate", "rate", "/s", Better.more)


def turns(*values: float | None) -> list[Slice]:
    """Return slices in the order of the turns, with these values."""
    arms = compare.order(-(-len(values) // 2))
    return [
        Slice(arm, 60.0, {} if value is None else {"rate": value})
        for arm, value in zip(arms, values, strict=False)
    ]


def test_turns_alternate_so_that_a_trend_cancels_out() -> None:
    assert compare.order(3) == (Arm.off, Arm.on, Arm.on, Arm.off, Arm.off, Arm.on)
    # Each turn is one more than the turn before it, whatever tierd does.
    found = compare.paired(RATE, turns(101, 102, 103, 104, 105, 106, 107, 108))
    assert found.mean == 0
    assert found.verdict == "no difference"


def test_a_difference_in_pairs_is_seen_through_what_varies_between_them() -> None:
    found = compare.paired(RATE, turns(10, 12, 103, 101, 50, 52))
    assert (found.mean, found.half, found.count) == (2.0, 0.0, 3)
    assert found.verdict == "better"


def test_the_interval_is_student_s() -> None:
    # Differences 1, 2, 3: mean 2, standard error 1/sqrt(3), t of two degrees of freedom 4.30.
    found = compare.paired(RATE, turns(0, 1, 2, 0, 0, 3))
    assert found.mean == pytest.approx(2.0)
    assert found.half == pytest.approx(4.30 / 3**0.5)
    assert found.verdict == "cannot tell: the values vary too much"


def test_a_wide_interval_that_holds_zero_is_not_the_same_as_no_difference() -> None:
    wide = compare.paired(RATE, turns(100, 110, 110, 100, 100, 80))
    assert abs(wide.mean or 0) < (wide.half or 0)
    assert wide.verdict == "cannot tell: the values vary too much"
    narrow = compare.paired(RATE, turns(100, 101, 101, 100, 100, 99))
    assert (narrow.mean or 0) + (narrow.half or 0) < 5
    assert narrow.verdict == "no difference"


def test_a_difference_may_be_too_small_for_anybody() -> None:
    """A fault a second is nothing, and none to compare it with says nothing."""
    rare = Measure("rate", "rate", "/s", Better.less, small=1.0)
    values = (0.0, 0.2, 0.0, 0.1, 0.1, 0.0)
    assert compare.paired(rare, turns(*values)).verdict == "no difference"
    assert compare.paired(RATE, turns(*values)).verdict.startswith("cannot tell")


@pytest.mark.parametrize(("better", "verdict"), [(Better.more, "worse"), (Better.less, "better")])
def test_whether_less_is_good_depends_on_the_measure(better: Better, verdict: str) -> None:
    measure = Measure("rate", "rate", "", better)
    assert compare.paired(measure, turns(5, 1, 1, 5, 5, 1.1)).verdict == verdict


def test_two_pairs_are_too_few() -> None:
    found = compare.paired(RATE, turns(1, 9, 9, 1))
    assert (found.mean, found.half) == (8.0, None)
    assert found.verdict == "cannot tell: 2 of 3 values"


def test_a_pair_without_a_value_does_not_count() -> None:
    found = compare.paired(RATE, turns(1, 3, 3, None, 1, 3, 3, 1))
    assert (found.mean, found.count) == (2.0, 3)
    assert compare.paired(RATE, turns(None, 1)).verdict == "not measured"


def test_before_and_after_are_compared_by_welch() -> None:
    before = [Slice(Arm.off, 60.0, {"rate": value}) for value in (1.0, 2.0, 3.0)]
    after = [Slice(Arm.on, 60.0, {"rate": value}) for value in (11.0, 12.0, 13.0)]
    found = compare.apart(RATE, [*before, *after])
    # Both variances are 1: the error is sqrt(2/3), with four degrees of freedom.
    assert found.mean == 10.0
    assert found.half == pytest.approx(2.78 * (2 / 3) ** 0.5)
    assert found.verdict == "better"


def test_on_an_idle_machine_nothing_differs() -> None:
    same = [Slice(arm, 60.0, {"rate": 0.0}) for arm in (Arm.off, Arm.on) for _ in range(10)]
    assert compare.apart(RATE, same).verdict == "no difference"
