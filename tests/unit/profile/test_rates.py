"""Classes of heat, with answers worked out by hand."""

from math import exp, inf

import pytest

from tierd.profile import rates


@pytest.mark.parametrize("rate", [0.02, 0.3, 2.0, 20.0])
def test_the_rate_follows_from_the_share_of_samples(rate: float) -> None:
    # Touches at random: a sample misses a page with this probability.
    missed = exp(-rate * rates.SAMPLE_US / 1e6)
    hits = (1 - missed) * 1_000_000
    assert rates.rate_hz(round(hits), 1_000_000) == pytest.approx(rate, rel=0.01)


def test_a_page_that_is_always_touched_has_no_bound() -> None:
    assert rates.rate_hz(rates.SAMPLES, rates.SAMPLES) == inf
    assert rates.class_of(inf) == rates.HOTTEST


@pytest.mark.parametrize(
    ("rate", "kind"), [(0.0, 0), (0.01, 1), (0.05, 2), (0.4, 3), (1.0, 4), (30.0, 7), (60.0, 8)]
)
def test_classes_have_bounds(rate: float, kind: int) -> None:
    assert rates.class_of(rate) == kind


def test_each_class_counts_as_a_rate_within_it() -> None:
    assert [rates.class_of(rate) for rate in rates.TOUCHES_HZ] == list(range(rates.CLASSES))


def test_one_touch_in_a_minute_is_more_than_none() -> None:
    assert rates.class_of(rates.rate_hz(1, rates.SAMPLES)) == 1
