"""What the kernel makes of an input is what was wanted: held against the kernel's own law."""

from hypothesis import given
from hypothesis import strategies as st

from tierd.damon import PAGE_BYTES
from tierd.sim import law
from tierd.throttle import KEEP, PARKED_BYTES, TARGET, TOLERANCE, Input, throttle

QUOTAS = st.integers(1, 1 << 34)
SOME = st.integers(PAGE_BYTES, 1 << 34)

# An input has four digits: what it cannot say adds up over the windows.
ROUNDING = 0.02


def after(quota_bytes: int, given_: Input, windows: int | None = None) -> int:
    """The quota after so many windows of the input; by default as many as it is meant for."""
    esz_bp = quota_bytes * 10_000
    for _ in range(given_.windows if windows is None else windows):
        esz_bp = law.consist(esz_bp, law.goal_score(given_.value, TARGET))
    return esz_bp // 10_000


@given(QUOTAS, SOME)
def test_a_quota_gets_to_where_it_is_wanted(quota_bytes: int, wanted_bytes: int) -> None:
    found = after(quota_bytes, throttle(quota_bytes, wanted_bytes))
    slack = TOLERANCE + ROUNDING
    assert found * (1 - slack) - 1 <= wanted_bytes <= found * (1 + slack) + wanted_bytes * slack + 1


@given(QUOTAS, st.integers(0, PAGE_BYTES - 1))
def test_what_is_not_wanted_ends_below_a_page(quota_bytes: int, wanted_bytes: int) -> None:
    given_ = throttle(quota_bytes, wanted_bytes)
    assert after(quota_bytes, given_) < PAGE_BYTES
    # One window too many is none yet, and it rests there.
    assert after(quota_bytes, given_, given_.windows + 1) < PAGE_BYTES
    assert given_.then == TARGET


@given(QUOTAS, QUOTAS)
def test_growth_is_for_a_counted_time_and_then_it_shrinks(quota: int, wanted: int) -> None:
    given_ = throttle(quota, wanted)
    grows = given_.value < TARGET
    assert not grows or 0 < given_.windows <= 34
    assert given_.then >= TARGET
    if wanted >= PAGE_BYTES:
        assert given_.then > TARGET
        # Left alone it ends below a page: of the largest quota here in less than 2000 windows.
        assert after(wanted, Input(given_.then, given_.then), 2_000) < PAGE_BYTES


def test_a_parked_quota_is_left_alone() -> None:
    assert throttle(PARKED_BYTES, 0) == KEEP
    assert throttle(PAGE_BYTES - 1, 0) == KEEP


def test_from_rest_to_a_rate_takes_a_doubling_per_window() -> None:
    given_ = throttle(PARKED_BYTES, 2_000_000)
    assert given_.windows == 11
    assert throttle(1, 2_000_000).windows == 21


def test_a_window_too_many_while_shrinking_costs_little() -> None:
    given_ = throttle(2_000_000, 0)
    assert after(2_000_000, given_, given_.windows + 1) >= PARKED_BYTES / 4
