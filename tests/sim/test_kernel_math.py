"""The integer arithmetic of quotas, compared with real kernels, and its properties."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierd.sim import kernel_math
from tierd.sim.context_spec import ULONG_MAX, Goal, Metric, Quota, Tuner

PAGE = 4096
MIB = 2**20

BPS = st.integers(0, 30_000)
INPUTS = st.integers(0, ULONG_MAX)


def windows_up(score: int, least: int) -> int:
    """Return how many charge windows the default tuner needs from its lowest quota."""
    esz_bp = count = 0
    while esz_bp // 10_000 < least:
        esz_bp = kernel_math.consist(esz_bp, score)
        count += 1
    return count


def windows_down(esz_bp: int, score: int, below: int) -> int:
    count = 0
    while esz_bp // 10_000 > below:
        esz_bp = kernel_math.consist(esz_bp, score)
        count += 1
    return count


@pytest.mark.parametrize(
    ("current", "target", "windows"),
    [
        (0, 50, (12, 21, 28)),
        (45, 50, (88, 153, 202)),
        (9_000, 9_970, (90, 157, 207)),
        (9_900, 9_970, (1_177, 2_059, 2_710)),
        (9_960, 9_970, (7_608, 13_282, 17_471)),
    ],
)
def test_a_cold_start_takes_this_many_windows(
    current: int, target: int, windows: tuple[int, int, int]
) -> None:
    score = kernel_math.goal_score(current, target)
    assert tuple(windows_up(score, least) for least in (PAGE, 2 * MIB, 200 * MIB)) == windows


@pytest.mark.parametrize(
    ("current", "target", "windows"),
    [(55, 50, 103), (75, 50, 16), (100, 50, 1), (9_990, 9_970, 5_417), (10_000, 9_970, 3_609)],
)
def test_backing_off_takes_this_many_windows(current: int, target: int, windows: int) -> None:
    score = kernel_math.goal_score(current, target)
    assert windows_down(200 * MIB * 10_000, score, PAGE) == windows


def test_starved_windows_wind_up_to_the_limit_of_an_unsigned_long() -> None:
    esz_bp = count = 0
    while esz_bp < ULONG_MAX:
        esz_bp = kernel_math.consist(esz_bp, 0)
        count += 1
    assert count == 51
    assert windows_down(ULONG_MAX, 11_000, 200 * MIB) == 152
    assert windows_down(ULONG_MAX, 10_030, 200 * MIB) == 5_322


@given(INPUTS, BPS)
def test_the_tuner_stays_in_an_unsigned_long_and_above_one_byte(last: int, score: int) -> None:
    assert 10_000 <= kernel_math.consist(last, score) <= ULONG_MAX


@given(st.integers(10_000, 2**50), st.integers(1, 9_999))
def test_below_the_goal_it_grows_at_most_twofold(last: int, score: int) -> None:
    grown = kernel_math.feed_loop_next_input(last, score)
    assert last < grown <= 2 * last


@given(st.integers(10_000, ULONG_MAX))
def test_a_met_goal_holds(last: int) -> None:
    assert kernel_math.feed_loop_next_input(last, 10_000) == last


@given(st.lists(st.integers(0, 20_000), min_size=1, max_size=5))
def test_the_least_aggressive_goal_wins(currents: list[int]) -> None:
    goals = [Goal(Metric.user_input, 10_000, current) for current in currents]
    assert kernel_math.quota_score(goals) == max(currents)


@given(BPS, st.integers(1, 2**50))
def test_temporal_is_all_or_nothing(score: int, quota_bytes: int) -> None:
    esz_bp = kernel_math.temporal(quota_bytes, score)
    assert esz_bp == (0 if score >= 10_000 else quota_bytes * 10_000)


def test_temporal_without_bytes_is_without_limit() -> None:
    assert kernel_math.temporal(0, 0) == ULONG_MAX


GOAL = (Goal(Metric.user_input, 10_000, 0),)


def effective(quota: Quota, esz_bp: int = 0, *, charged: int = 0, ns: int = 0) -> int:
    return kernel_math.effective_bytes(
        quota, esz_bp, charged, ns, PAGE, page_bytes=PAGE, floor_last=False
    )


def test_the_effective_quota_is_the_least_of_what_limits_it() -> None:
    assert effective(Quota(bytes=123)) == 123
    assert effective(Quota(goals=GOAL), 70_000_000) == 7_000
    assert effective(Quota(goals=GOAL, bytes=5_000), 70_000_000) == 5_000
    assert effective(Quota(ms=1)) == PAGE * 1024
    assert effective(Quota(ms=2), charged=8 * MIB, ns=4_000_000) == 4 * MIB
    assert effective(Quota(ms=1, goals=GOAL), 70_000_000) == 7_000


def test_the_order_of_the_floor_differs() -> None:
    quota = Quota(ms=1, goals=GOAL)
    assert (
        kernel_math.effective_bytes(quota, 10_000, 0, 0, PAGE, page_bytes=PAGE, floor_last=True)
        == PAGE
    )
    assert (
        kernel_math.effective_bytes(quota, 10_000, 0, 0, PAGE, page_bytes=PAGE, floor_last=False)
        == 1
    )


@given(st.integers(0, 2**40), st.integers(0, 2**40), st.integers(0, 10), st.integers(1, 10))
def test_a_charge_is_between_what_was_applied_and_what_was_tried(
    size: int, applied: int, numerator: int, denominator: int
) -> None:
    quota = Quota(fail_charge_num=min(numerator, denominator), fail_charge_denom=denominator)
    cost = kernel_math.charge(quota, size, applied)
    assert min(size, applied) <= cost <= size
    assert kernel_math.charge(replace(quota, fail_charge_denom=0), size, applied) == size


WEIGHTED = Quota(weight_nr_accesses=100, weight_age=100)


def test_hot_and_cold_scores() -> None:
    # 20 of 20 samples, new: frequency 100, age half; 99 * 75 / 100.
    assert kernel_math.hot_score(20, 0, 20, 100_000, WEIGHTED) == 74
    assert kernel_math.hot_score(0, 0, 20, 100_000, WEIGHTED) == 24
    # 10 s without access is four bits of age, downwards.
    assert kernel_math.hot_score(0, 100, 20, 100_000, WEIGHTED) == 20
    assert kernel_math.cold_score(0, 100, 20, 100_000, WEIGHTED) == 79
    assert kernel_math.hot_score(20, 100, 20, 100_000, Quota()) == 0


@given(
    st.integers(0, 20),
    st.integers(0, 2**32 - 1),
    st.integers(1, 10**9),
    st.integers(0, 1000),
    st.integers(0, 1000),
)
def test_scores_are_within_bounds_and_mirror_each_other(
    nr_accesses: int, age: int, aggr_us: int, weight_accesses: int, weight_age: int
) -> None:
    quota = Quota(weight_nr_accesses=weight_accesses, weight_age=weight_age)
    hot = kernel_math.hot_score(nr_accesses, age, 20, aggr_us, quota)
    assert 0 <= hot <= kernel_math.MAX_SCORE
    assert (
        kernel_math.cold_score(nr_accesses, age, 20, aggr_us, quota) == kernel_math.MAX_SCORE - hot
    )


@given(st.lists(st.integers(0, 2**40), min_size=100, max_size=100), st.integers(0, 2**44))
def test_the_cut_keeps_enough_and_not_a_score_more(histogram: list[int], esz: int) -> None:
    cut = kernel_math.min_score(histogram, esz)
    assert cut == 0 or sum(histogram[cut:]) >= esz
    highest = max((score for score, size in enumerate(histogram) if size), default=0)
    assert cut >= highest or sum(histogram[cut + 1 :]) < esz


def test_tuning_of_intervals_at_most_halves_or_doubles() -> None:
    assert kernel_math.adaptation_bp(0, 1_000_000, 400) == 20_000
    assert kernel_math.adaptation_bp(40_000, 1_000_000, 400) == 10_000
    assert kernel_math.adaptation_bp(1_000_000, 1_000_000, 400) == 5_000


def test_rescaling_loses_one_where_the_window_does_not_divide() -> None:
    assert kernel_math.rescaled_accesses(20, 20, 20) == 20
    assert kernel_math.rescaled_accesses(1, 7, 7) == 0


def test_the_tuner_follows_the_quota() -> None:
    assert kernel_math.next_esz_bp(Quota(bytes=7), 0, 0) == 20_000
    assert kernel_math.next_esz_bp(Quota(bytes=7, goal_tuner=Tuner.temporal), 0, 0) == 70_000
