"""Counts of the daemon, and their text on disk."""

import pytest

from tierd.record import daemon_counts
from tierd.record.daemon_counts import DaemonCounts


def test_events_and_refusals_are_counted_by_name() -> None:
    counted = daemon_counts.happened(DaemonCounts(), "degraded", 5.0)
    counted = daemon_counts.happened(counted, "degraded", 6.0)
    counted = daemon_counts.refused(counted, "EBUSY")
    assert (counted.events, counted.write_errors) == ({"degraded": 2}, {"EBUSY": 1})


def test_a_refused_reload_leaves_the_time_of_the_good_one() -> None:
    counted = daemon_counts.happened(DaemonCounts(), "running", 1.0)
    counted = daemon_counts.happened(counted, "reload", 5.0)
    counted = daemon_counts.happened(counted, "reload_failed", 9.0)
    assert (counted.reload_ok, counted.reloaded_at) == (False, 5.0)
    again = daemon_counts.happened(counted, "reload", 10.0)
    assert (again.reload_ok, again.reloaded_at) == (True, 10.0)


def test_a_start_is_a_good_reload() -> None:
    """A running daemon has read its configuration, even if the last reload failed."""
    before = daemon_counts.happened(DaemonCounts(), "reload_failed", 1.0)
    assert daemon_counts.happened(before, "running", 2.0).reload_ok


def test_what_is_on_disk_comes_back() -> None:
    counted = daemon_counts.succeeded(
        daemon_counts.refused(daemon_counts.happened(DaemonCounts(), "reload", 3.5), "EIO"), 4.25
    )
    assert daemon_counts.from_text(daemon_counts.to_text(counted)) == counted


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
    assert daemon_counts.from_text(text) is None
