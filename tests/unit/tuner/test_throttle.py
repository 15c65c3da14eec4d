"""The input leads to the wanted quota, by the kernel's own formula."""

from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.pages import PAGE_BYTES
from tierd.plans.plan import TARGET
from tierd.sim import kernel_math
from tierd.tuner.throttle import (
    BELIEVED_MAX_BYTES,
    KEEP,
    PARKED_PARTS,
    RESET,
    SHRINK_MAX,
    TOLERANCE,
    Input,
    InputInForce,
    grown,
    throttle,
)

PARKED_BYTES = PAGE_BYTES // PARKED_PARTS

QUOTAS = st.integers(1, 1 << 34)
SOME = st.integers(PAGE_BYTES, 1 << 34)

# No quota here is larger than this limit.
LIMIT = 1 << 34

# An input has four digits. Its rounding error adds up over the windows.
ROUNDING = 0.02


def after(quota_bytes: int, given_: Input, windows: int | None = None) -> int:
    """Return the quota after some windows of the input. The default is its own number."""
    esz_bp = quota_bytes * 10_000
    for _ in range(given_.windows if windows is None else windows):
        esz_bp = kernel_math.consist(esz_bp, kernel_math.goal_score(given_.value, TARGET))
    return esz_bp // 10_000


@given(QUOTAS, SOME)
def test_a_quota_gets_to_where_it_is_wanted(quota_bytes: int, wanted_bytes: int) -> None:
    found = after(quota_bytes, throttle(quota_bytes, wanted_bytes, LIMIT, PAGE_BYTES))
    slack = TOLERANCE + ROUNDING
    assert found * (1 - slack) - 1 <= wanted_bytes <= found * (1 + slack) + wanted_bytes * slack + 1


@given(QUOTAS, st.integers(0, PAGE_BYTES - 1))
def test_what_is_not_wanted_ends_below_a_page(quota_bytes: int, wanted_bytes: int) -> None:
    given_ = throttle(quota_bytes, wanted_bytes, LIMIT, PAGE_BYTES)
    assert after(quota_bytes, given_) < PAGE_BYTES
    # After one window too many the quota is still parked, and it stays there.
    assert after(quota_bytes, given_, given_.windows + 1) < PAGE_BYTES
    assert given_.then == TARGET


@given(QUOTAS, QUOTAS)
def test_growth_is_for_a_counted_time_and_then_it_shrinks(quota: int, wanted: int) -> None:
    given_ = throttle(quota, wanted, LIMIT, PAGE_BYTES)
    grows = given_.value < TARGET
    assert not grows or 0 < given_.windows <= 34
    assert given_.then >= TARGET
    if wanted >= PAGE_BYTES:
        assert given_.then > TARGET
        # If no input follows, even the largest quota here is below a page in less than 2000
        # windows.
        assert after(wanted, Input(given_.then, given_.then), 2_000) < PAGE_BYTES


def test_a_parked_quota_is_left_alone() -> None:
    assert throttle(PARKED_BYTES, 0, LIMIT, PAGE_BYTES) == KEEP
    assert throttle(PAGE_BYTES - 1, 0, LIMIT, PAGE_BYTES) == KEEP


def test_from_rest_to_a_rate_takes_a_doubling_per_window() -> None:
    given_ = throttle(PARKED_BYTES, 2_000_000, LIMIT, PAGE_BYTES)
    assert given_.windows == 11
    assert throttle(1, 2_000_000, LIMIT, PAGE_BYTES).windows == 21


def test_a_window_too_many_while_shrinking_costs_little() -> None:
    given_ = throttle(2_000_000, 0, LIMIT, PAGE_BYTES)
    assert after(2_000_000, given_, given_.windows + 1) >= PARKED_BYTES / 4


@given(st.integers(PAGE_BYTES, 1 << 20), st.integers(0, 2 * TARGET), st.integers(0, 8))
def test_what_a_quota_will_be_is_what_the_kernel_makes_of_it(
    quota_bytes: int, value: int, windows: int
) -> None:
    found = after(quota_bytes, Input(value, value, windows))
    assert abs(grown(quota_bytes, value, windows) - found) <= 1 + found * ROUNDING


@given(st.integers(1, 1 << 20), st.integers(1, BELIEVED_MAX_BYTES), st.integers(0, 1 << 20))
def test_what_is_far_beyond_its_limit_begins_at_a_byte_again(
    limit: int, quota: int, wanted: int
) -> None:
    """A quota that is not so far beyond its limit is never reset."""
    given_ = throttle(quota, wanted, limit, PAGE_BYTES)
    assert (given_ == RESET) is (quota > SHRINK_MAX * limit)
    if given_ == RESET:
        assert after(quota, given_) == 1
        assert given_.then > TARGET


@given(st.integers(1, BELIEVED_MAX_BYTES), st.integers(0, 2 * TARGET), st.floats(0, 1e9))
def test_however_long_nobody_looked_there_is_a_quota(
    quota: int, value: int, windows: float
) -> None:
    assert 1 <= grown(quota, value, windows) <= BELIEVED_MAX_BYTES


def test_half_a_window_is_half_a_doubling() -> None:
    assert abs(grown(grown(1 << 20, 0, 0.5), 0, 0.5) - (1 << 21)) <= 2
    assert grown(1 << 20, TARGET, 7.3) == 1 << 20


def test_a_little_growth_is_not_left_to_a_single_window() -> None:
    """With a single window, one too many would square the growth, and one too few undo it."""
    given_ = throttle(1_000_000, 1_700_000, LIMIT, PAGE_BYTES)
    assert given_.windows == 2
    assert 1_250_000 < after(1_000_000, given_, 1) < 1_350_000
    assert after(1_000_000, given_, 3) < 1.35 * 1_700_000


@given(QUOTAS, SOME)
def test_a_window_too_many_is_at_most_twice_what_was_wanted(quota: int, wanted: int) -> None:
    """With one window too few it is at least half."""
    given_ = throttle(quota, wanted, LIMIT, PAGE_BYTES)
    if given_.value < TARGET:
        assert after(quota, given_, given_.windows + 1) <= 2 * (1 + ROUNDING) * wanted
        assert after(quota, given_, given_.windows - 1) >= wanted // 2 * (1 - ROUNDING) - 1


def test_a_quota_that_reads_as_its_limit_may_be_larger() -> None:
    """Below the limit it is what it reads as. At the limit its input tells, if it is known."""
    grows = InputInForce(0.0, 1 << 20, 0)
    assert grows.read_as(1 << 21, 1 << 22, at_s=0.2, window_s=0.1) == 1 << 21
    assert grows.read_as(1 << 22, 1 << 22, at_s=0.4, window_s=0.1) == 1 << 24
    assert grows.read_as(1 << 22, 1 << 22, at_s=0.1, window_s=0.1) == 1 << 22
    unknown = InputInForce(0.0, 1, None)
    assert unknown.read_as(1 << 22, 1 << 22, at_s=0.1, window_s=0.1) == BELIEVED_MAX_BYTES
