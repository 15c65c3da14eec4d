"""When the loop tries again, and when it refreshes statistics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierd.loop.supervise import (
    HEALTHY_S,
    LOOP_SHARE_MAX,
    REFRESH_SHARE_MAX,
    RETRY_S_MAX,
    RETRY_S_MIN,
    SAVED_S,
    SLOWER_GROWTH,
    SLOWER_MAX,
    Debounce,
    Pace,
    Refresh,
    Retry,
    failed,
    started,
)


def waits(count: int, *, starts: bool, now_s: float = 100.0) -> list[float]:
    retry, found = Retry(), []
    for _ in range(count):
        retry = failed(retry, now_s)
        found.append(retry.not_before_s - now_s)
        now_s = retry.not_before_s
        if starts:
            retry = started(retry, now_s)
    return found


@pytest.mark.parametrize("starts", [True, False])
@pytest.mark.parametrize("now_s", [100.0, 10 * HEALTHY_S])
def test_waits_double_up_to_a_bound(now_s: float, starts: bool) -> None:
    expected = [RETRY_S_MIN, 2 * RETRY_S_MIN, 4 * RETRY_S_MIN, 8 * RETRY_S_MIN]
    assert waits(4, starts=starts, now_s=now_s) == expected
    assert waits(5000, starts=starts, now_s=now_s)[-1] == RETRY_S_MAX


def test_a_long_healthy_run_forgives() -> None:
    retry = started(failed(failed(Retry(), 0.0), 1.0), 3.0)
    assert failed(retry, 3.0 + HEALTHY_S).not_before_s == 3.0 + HEALTHY_S + RETRY_S_MIN
    assert failed(retry, 3.0 + HEALTHY_S - 1).failures == 3


def test_the_first_failure_waits_the_least_however_long_it_ran() -> None:
    assert failed(started(Retry(), 0.0), 9 * HEALTHY_S).failures == 1


@given(st.floats(0, 1e9), st.floats(0, 100))
def test_refreshes_take_a_bounded_share_of_the_time(at_s: float, cost_s: float) -> None:
    refresh = Refresh(at_s, cost_s)
    again_s = at_s + cost_s / REFRESH_SHARE_MAX
    # The next one ends when the cost is its share of the time between the two ends.
    assert refresh.due(again_s - cost_s + 0.01)
    assert not refresh.due(again_s - cost_s - 0.01)


def test_the_first_refresh_is_due_at_once() -> None:
    assert Refresh().due(0.0)


def test_a_burst_is_one_event() -> None:
    heard = Debounce().heard(10.0).heard(10.5).heard(10.9)
    assert heard.due_s(quiet_s=1.0, late_s=3.0) == 11.9


def test_a_burst_without_end_is_acted_on_all_the_same() -> None:
    heard = Debounce()
    for tick in range(100):
        heard = heard.heard(10.0 + tick / 10)
    assert heard.due_s(quiet_s=1.0, late_s=3.0) == 13.0


def test_silence_is_never_due() -> None:
    assert Debounce().due_s(1.0, 3.0) is None


def paced(tick_s: float, cost_s: float, ticks: int, saved: float = 0.0) -> list[float]:
    """Return the seconds between ticks that each use so much processor time."""
    pace, now_s, used_s, found = Pace(saved=saved).ticked(0.0, 0.0, 0.0), 0.0, 0.0, []
    for _ in range(ticks):
        found.append(tick_s * pace.slower)
        now_s += found[-1]
        used_s += cost_s
        pace = pace.ticked(now_s, now_s, used_s)
    return found


def test_cheap_ticks_come_as_often_as_they_should() -> None:
    assert paced(0.5, 0.003, 5) == [0.5] * 5


def test_costly_ticks_are_further_apart() -> None:
    assert paced(0.5, 0.2, 5)[2:] == pytest.approx([0.2 / LOOP_SHARE_MAX] * 3)


def test_what_was_not_used_may_be_used_soon() -> None:
    between_s = paced(0.5, 0.2, 60, saved=1.0)
    assert max(between_s[:5]) < 0.2 / LOOP_SHARE_MAX * 0.55
    assert between_s[-1] == pytest.approx(0.2 / LOOP_SHARE_MAX, rel=0.02)
    used_s, seconds = 0.2 * len(between_s), sum(between_s)
    assert used_s <= LOOP_SHARE_MAX * (seconds + SAVED_S) + 0.2
    quiet = Pace(at_s=0.0, saved=0.0).ticked(SAVED_S, SAVED_S, 0.0)
    assert quiet.saved == Pace().saved == 1.0


def test_one_costly_tick_does_not_make_the_next_one_late() -> None:
    """The first tick takes longest. Quotas grow until the next one."""
    assert paced(0.5, 2.0, 3) == [0.5, 0.5 * SLOWER_GROWTH, 0.5 * SLOWER_GROWTH**2]


def test_ticks_are_never_too_far_apart() -> None:
    assert paced(0.5, 60.0, 6)[-1] == pytest.approx(0.5 * SLOWER_MAX)


def test_ticks_that_get_cheap_are_close_again() -> None:
    slow = Pace(8.0, 10.0, 4.0, saved=0.0)
    assert slow.ticked(14.0, 14.0, 4.01).slower == 1.0


def test_two_ticks_at_one_moment_change_nothing() -> None:
    assert Pace(2.0, 10.0, 4.0).ticked(9.5, 10.0, 9.0).slower == 2.0


def test_the_pace_knows_how_long_the_last_tick_took() -> None:
    assert Pace().ticked(3.0, 3.5, 0.1).tick_s == 0.5
    assert Pace(at_s=3.5).ticked(5.0, 5.25, 0.1).tick_s == 0.25
