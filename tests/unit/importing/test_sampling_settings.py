"""Intervals of a policy at their edges, and with parts that the policy does not give."""

import pytest

from tests.unit.importing.policies import changed, down, of, scheme_changed, told, values
from tierd.importing.remarks import Kind


@pytest.mark.parametrize(
    ("intervals", "lines"), [({"sample_us": "10 ms"}, 1), ({"aggr_us": "200 ms"}, 1)]
)
def test_one_interval_is_enough(intervals: dict[str, str], lines: int) -> None:
    document = of(changed(down(), ("intervals",), intervals))
    assert values(document)["monitoring.auto_intervals"] == "off"
    carried = [one for one in document.remarks if one.setting == "monitoring.aggregation"]
    assert [len(one.lines) for one in carried] == [lines]


def test_a_window_is_not_shorter_than_a_tuned_aggregation() -> None:
    goal = {"access_bp": "4 %", "aggrs": "3", "min_sample_us": "100 ms", "max_sample_us": "10 s"}
    document = of(changed(down(), ("intervals",), {"intervals_goal": goal}))
    assert values(document)["loop.window"] == "2s"
    one = told(document, "must not be shorter than an aggregation")
    assert (one.kind, one.given) == (Kind.changed, ("min_sample_us 100 ms",))


@pytest.mark.parametrize(
    ("sample", "aggregation"), [("125.120 ms", "2.502 s"), ("146.832 ms", "2.937 s")]
)
def test_what_is_reported_of_tuned_intervals_is_rounded(sample: str, aggregation: str) -> None:
    made = changed(down(), ("intervals", "sample_us"), sample)
    document = of(changed(made, ("intervals", "aggr_us"), aggregation))
    assert values(document)["monitoring.aggregation"] == "100ms"


def test_an_aggregation_of_no_time_divides_nothing() -> None:
    made = scheme_changed(down(), ("quotas", "reset_interval_ms"), "0 ns")
    made = scheme_changed(made, ("apply_interval_us",), "0 ns")
    document = of(changed(made, ("intervals",), {"sample_us": "0 ns", "aggr_us": "0 ns"}))
    assert told(document, "tierd takes auto, or 1MB/s to 1TB/s").kind is Kind.changed


@pytest.mark.parametrize(("size", "limit"), [("10,000,000", "10MB/s"), ("10,000,001", None)])
def test_a_kdamond_moves_ten_gigabytes_per_second_at_most(size: str, limit: str | None) -> None:
    made = scheme_changed(down(), ("quotas", "time_ms"), "1 ms")
    assert values(of(scheme_changed(made, ("quotas", "sz_bytes"), size))).get("rate_limit") == limit
