"""Curves over sizes, with answers worked out by hand."""

from dataclasses import replace

import pytest

from tierd.profile import curve
from tierd.profile.curve import USABLE, Anchor
from tierd.profile.load import Heat, Load, Stretch, Work

GIB = 1 << 30
# 4 GiB have 80 % of the touches, 16 GiB the rest, and 80 GiB none.
LOAD = Load((Heat(4.0, 4 * GIB), Heat(0.25, 16 * GIB), Heat(0.0, 80 * GIB)))
WORK = Work("w", (Stretch(LOAD, 1.0),))


def test_the_best_placement_fills_fast_memory_with_the_hottest() -> None:
    assert LOAD.best(2 * GIB) == pytest.approx(0.4)
    assert LOAD.best(4 * GIB) == pytest.approx(0.8)
    assert LOAD.best(12 * GIB) == pytest.approx(0.9)
    assert LOAD.best(50 * GIB) == pytest.approx(1.0)


@pytest.mark.parametrize(("share", "need"), [(0.4, 2), (0.8, 4), (0.9, 12), (1.0, 20)])
def test_what_a_share_needs(share: float, need: float) -> None:
    assert LOAD.needed_bytes(share) / GIB == pytest.approx(need)


def test_minutes_with_more_touches_count_more() -> None:
    busy = Load((Heat(40.0, 4 * GIB), Heat(0.0, 96 * GIB)))
    work = Work("w", (Stretch(LOAD, 0.5), Stretch(busy, 0.5)))
    # 16 and 20 touches per GiB at 4 GiB, of 20 and 160.
    assert work.best(4 * GIB) == pytest.approx((16 + 160) / (20 + 160))


def test_vcf_s_rule_is_the_special_case_of_two_heats() -> None:
    """A machine whose active memory is half of its fast memory serves all of it from there."""
    half = Work("w", (Stretch(Load((Heat(1.0, 32 * GIB), Heat(0.0, 96 * GIB))), 1.0),))
    assert half.best(64 * GIB) == 1.0
    assert half.best(16 * GIB) == pytest.approx(0.5)


def test_a_trial_is_placed_between_chance_and_the_best() -> None:
    fast = 4 * GIB / USABLE
    assert curve.gain(WORK, Anchor(fast, 0.8)) == pytest.approx(1.0)
    assert curve.gain(WORK, Anchor(fast, 0.04)) == pytest.approx(0.0)
    assert curve.gain(WORK, Anchor(fast, 0.42)) == pytest.approx(0.5)


def test_between_trials_the_gain_is_interpolated() -> None:
    low, high = 2 * GIB / USABLE, 6 * GIB / USABLE
    anchors = [Anchor(low, 0.4), Anchor(high, 0.4406)]
    assert curve.served(WORK, anchors, low) == 0.4
    # At 4 GiB: half way between a gain of 1 and one of 0.5, from 0.04 by chance to 0.8 at best.
    assert curve.gain(WORK, anchors[1]) == pytest.approx(0.5, abs=0.01)
    assert curve.served(WORK, anchors, 4 * GIB / USABLE) == pytest.approx(0.61, abs=0.01)


def test_the_least_size_is_found_between_the_sizes_of_the_curve() -> None:
    anchors = [Anchor(8 * GIB / USABLE, 0.85)]
    sizes = curve.sizes(WORK)
    found = curve.least_size(WORK, anchors, sizes, 0.7)
    assert found is not None
    assert found * USABLE / GIB == pytest.approx(3.5, abs=0.1)
    assert curve.least_size(WORK, [Anchor(8 * GIB, 0.08)], sizes, 0.999) == sizes[-1]


def test_the_knee_is_where_more_memory_stops_to_help() -> None:
    points = [(1.0, 0.1), (2.0, 0.8), (4.0, 0.9), (8.0, 1.0)]
    assert curve.knee(points) == 1
    assert curve.knee([(1.0, 0.5), (2.0, 0.5)]) == 0


def test_the_interval_is_wider_where_fewer_pages_were_seen() -> None:
    few, many = (
        curve.guess(replace(WORK, pages=pages), 0.6, 3 * GIB, (0.6,)) for pages in (500, 50_000)
    )
    assert few.high - few.low > many.high - many.low
    assert few.low <= 0.6 <= few.high


def test_the_interval_holds_what_each_trial_served() -> None:
    alike, differ = (
        curve.guess(replace(WORK, pages=50_000), 0.6, 3 * GIB, trials)
        for trials in ((0.6, 0.6), (0.4, 0.6, 0.62))
    )
    assert 0.5 < alike.low < 0.6
    assert (differ.low, differ.high) == (0.4, max(0.62, alike.high))


def test_the_sampling_error_is_what_the_law_of_large_numbers_says() -> None:
    # Two heats, so the best share varies as the count of hot pages does: 4 % of the pages.
    work = Work("w", (Stretch(Load((Heat(1.0, 4 * GIB), Heat(0.0, 96 * GIB))), 1.0),), pages=1000)
    # Half of the hot memory fits; relative error of 40 pages is 1/sqrt(40), less 4 %.
    error = curve.sampling_error(work, 2 * GIB / USABLE)
    assert error == pytest.approx(0.5 * (0.96 / 40) ** 0.5, rel=0.25)


def test_nothing_that_is_touched_is_served_in_full() -> None:
    idle = Work("w", (Stretch(Load((Heat(0.0, GIB),)), 1.0),))
    assert idle.best(GIB) == 1.0
    assert curve.blind_share(idle, GIB) == 1.0
