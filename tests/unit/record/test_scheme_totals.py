"""Totals only grow, whatever the kernel's own counters do."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierd.machine import cputime
from tierd.machine.cputime import CpuTotal
from tierd.record.scheme_totals import (
    Passed,
    Series,
    Statistics,
    Totals,
    advance,
    from_text,
    further,
    passed,
    to_text,
    used,
)

BOOT = "b00t"
sizes = st.integers(0, 2**63)
statistics = st.builds(Statistics, sizes, sizes, sizes)


def applied(size: int) -> Statistics:
    return Statistics(sz_applied=size)


@pytest.mark.parametrize(
    ("readings", "total"),
    [
        pytest.param([(7, 10), (7, 25)], 25, id="growth"),
        pytest.param([(7, 10), (7, 10)], 10, id="nothing new"),
        pytest.param([(7, 10), (8, 4)], 14, id="another kdamond"),
        pytest.param([(7, 10), (8, 40)], 50, id="another kdamond that has done more"),
        pytest.param([(7, 10), (7, 4)], 14, id="went back: begun again"),
        pytest.param([(7, 10), (8, 4), (7, 10)], 24, id="a pid comes back"),
    ],
)
def test_total_of_applied_bytes(readings: list[tuple[int, int]], total: int) -> None:
    counters = Totals()
    for pid, size in readings:
        counters = advance(counters, "promote:1-0", pid, applied(size))
    assert counters.total("promote:1-0").sz_applied == total


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 3), statistics)))
def test_no_total_ever_goes_back(readings: list[tuple[str, int, Statistics]]) -> None:
    counters = Totals()
    history: dict[str, list[Statistics]] = {"a": [], "b": []}
    for scheme, pid, now in readings:
        counters = advance(counters, scheme, pid, now)
        history[scheme].append(counters.total(scheme))
    for totals in history.values():
        assert all(later.since(earlier) is not None for earlier, later in pairwise(totals))


@given(st.dictionaries(st.text(), st.builds(Series, statistics, statistics, st.integers(1, 9))))
def test_a_file_brings_them_back(series: dict[str, Series]) -> None:
    assert from_text(to_text(Totals(series), BOOT), BOOT) == Totals(series)


def test_after_a_reboot_totals_stay_and_pids_are_forgotten() -> None:
    before = advance(Totals(), "a", 7, applied(10))
    after = from_text(to_text(before, BOOT), "another")
    assert after is not None
    assert after.total("a") == applied(10)
    assert advance(after, "a", 7, applied(12)).total("a") == applied(22)


def test_processor_time_goes_on_after_a_restart_and_after_a_reboot() -> None:
    before = used(Totals(), 1, CpuTotal(total_s=9.5, pid=7, seen_s=4.5))
    again = from_text(to_text(before, BOOT), BOOT)
    assert again == before
    rebooted = from_text(to_text(before, BOOT), "another")
    assert rebooted is not None
    # After a reboot the same pid is another kdamond.
    assert cputime.advance(rebooted.cpu[1], 7, 5.0).total_s == 14.5


def test_what_passed_adds_up_and_a_group_that_is_not_configured_is_forgotten() -> None:
    first = passed(Totals(), {"web": (5, 0), "batch": (0, 7)})
    again = from_text(to_text(first, BOOT), "another")
    assert again == first
    assert passed(again, {"web": (1, 2)}).groups == {"web": Passed(6, 2)}
    # Of two versions of a file, the later one counts, though no scheme did anything.
    later = passed(first, {"web": (1, 0), "batch": (0, 0)})
    assert further(first, later) == further(later, first) == later


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"format": "x"}', '{"format": "tierd.counters/1"}', "\0"],
)
def test_what_is_not_a_counters_file_is_none(text: str) -> None:
    assert from_text(text, BOOT) is None


def test_totals_of_an_earlier_version_have_more_counts() -> None:
    series = {"promote-1-0": Series(Statistics(3, 2, 1), Statistics(3, 2, 1), 7)}
    raw = json.loads(to_text(Totals(series), BOOT))
    for part in ("total", "seen"):
        raw["series"]["promote-1-0"][part] |= {"nr_tried": 9, "nr_applied": 8}
    assert from_text(json.dumps(raw), BOOT) == Totals(series)
