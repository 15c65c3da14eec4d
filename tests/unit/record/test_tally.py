"""What is counted at the edge, and its text on disk."""

import pytest

from tierd.record import tally
from tierd.record.tally import Tally


def test_events_and_refusals_are_counted_by_name() -> None:
    counted = tally.happened(Tally(), "degraded", 5.0)
    counted = tally.happened(counted, "degraded", 6.0)
    counted = tally.refused(counted, "EBUSY")
    assert (counted.events, counted.write_errors) == ({"degraded": 2}, {"EBUSY": 1})


def test_a_refused_reload_leaves_the_time_of_the_good_one() -> None:
    counted = tally.happened(Tally(), "running", 1.0)
    counted = tally.happened(counted, "reload", 5.0)
    counted = tally.happened(counted, "reload_failed", 9.0)
    assert (counted.reload_ok, counted.reloaded_at) == (False, 5.0)
    again = tally.happened(counted, "reload", 10.0)
    assert (again.reload_ok, again.reloaded_at) == (True, 10.0)


def test_a_start_is_a_good_reload() -> None:
    """A daemon that runs has read its configuration, whatever the last one was told."""
    before = tally.happened(Tally(), "reload_failed", 1.0)
    assert tally.happened(before, "running", 2.0).reload_ok


def test_what_is_on_disk_comes_back() -> None:
    counted = tally.succeeded(tally.refused(tally.happened(Tally(), "reload", 3.5), "EIO"), 4.25)
    assert tally.from_text(tally.to_text(counted)) == counted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"format": "tierd.tally/9"}',
        '{"format": "tierd.tally/1", "surprise": 1}',
        '{"format": "tierd.tally/1", "events": {"degraded": "many"}}',
        '{"format": "tierd.tally/1", "events": 3}',
        '{"format": "tierd.tally/1", "succeeded_at": "now"}',
    ],
)
def test_a_damaged_file_is_no_tally(text: str) -> None:
    assert tally.from_text(text) is None
