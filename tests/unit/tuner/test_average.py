"""A moving average lies between the old average and the new value."""

from hypothesis import given
from hypothesis import strategies as st

from tierd.tuner.average import moving

SOME = st.floats(0, 1e12)


@given(SOME, SOME, st.floats(0.01, 1000), st.floats(0.1, 60))
def test_it_goes_towards_what_is_seen_and_never_beyond(
    before: float, seen: float, seconds: float, over_s: float
) -> None:
    found = moving(before, seen, seconds, over_s)
    slack = 1e-9 * max(before, seen)
    assert min(before, seen) - slack <= found <= max(before, seen) + slack


def test_what_lasted_for_the_whole_time_is_all_that_counts() -> None:
    assert moving(10.0, 20.0, 5.0, 5.0) == moving(10.0, 20.0, 500.0, 5.0) == 20.0
    assert moving(10.0, 20.0, 1.0, 5.0) == 12.0
