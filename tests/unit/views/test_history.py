"""The history as charts, as a picture and as a document, and events as they happen."""

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tierd.console import events_and_history
from tierd.record import chronicle, ring
from tierd.record.chronicle import Chronicle, HistoryNode, HistoryReading, reading_to_bytes
from tierd.record.ring import Record
from tierd.record.rundir import EVENTS, HISTORY, RunDir
from tierd.record.snapshot import EventStatus
from tierd.views import history, picture, plots
from tierd.views.plots import ASCII, UNICODE

MIB = 1 << 20
MB = 1000**2


def reading(at: float, promoted: int, free: int, hot: int | None = None) -> HistoryReading:
    nodes = {
        0: HistoryNode(1000 * MIB, free, 100 * MIB, None, None),
        1: HistoryNode(2000 * MIB, 500 * MIB, None, hot, None),
    }
    return HistoryReading(at, "active", at / 100, nodes, {"promote-1-0": promoted, "demote-0-1": 0})


HOUR = tuple(
    reading(float(second), second * 2 * MB, (50 if second < 1800 else 200) * MIB, hot=second * MIB)
    for second in range(0, 3600, 10)
)


# Drawing
def test_points_fall_into_columns() -> None:
    points = ((0.0, 1.0), (0.5, 3.0), (9.9, 7.0), (10.0, 9.0), (11.0, 100.0))
    assert plots.columns_of(points, 0.0, 10.0, 5) == (2.0, None, None, None, 8.0)


def test_a_value_holds_for_a_while() -> None:
    held = plots.columns_of(((0.0, 1.0), (6.0, 2.0)), 0.0, 10.0, 10, holds=2.0)
    assert held == (1.0, 1.0, 1.0, None, None, None, 2.0, 2.0, 2.0, None)


def test_a_sparkline_shows_how_high_and_what_is_not_known() -> None:
    assert plots.sparkline([0.0, 1.0, None, 4.0, 8.0, 99.0], 8.0, UNICODE) == " ▁ ▄██"
    assert plots.sparkline([0.0, 8.0], 8.0, ASCII) == " #"


def test_a_little_is_not_nothing() -> None:
    assert plots.sparkline([0.001], 8.0, UNICODE) == "▁"


def test_a_chart_has_rows_labels_and_its_mark() -> None:
    lines = plots.chart([0.0, 4.0, 8.0], 2, 8.0, lambda v: f"{v:g} B", UNICODE, mark=2.0)
    assert lines == ["8 B │  █", "0 B │┈██"]


@pytest.mark.parametrize(
    ("encoding", "ink"), [("utf-8", UNICODE), ("UTF8", UNICODE), ("ascii", ASCII), (None, ASCII)]
)
def test_what_a_terminal_can_show(encoding: str | None, ink: plots.Ink) -> None:
    assert plots.ink_for(encoding) is ink


# History
def test_the_text_says_what_happened() -> None:
    text = history.as_text(HOUR, 0.0, 3600.0, 120, UNICODE)
    assert "360 readings" in text
    assert "promoted: 6.69 GiB in total, at most 2 MB/s" in text
    assert "demoted: 0 B in total" in text
    assert (
        "at least 50 MiB; headroom 100 MiB, short by more than a tenth in 50% of readings" in text
    )
    # Hot memory is at most the used memory.
    assert "node1 hot, could be promoted: now 1.46 GiB" in text
    assert "kdamonds used 1% of a CPU" in text


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("ink", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_the_text_fits_the_terminal(columns: int, ink: plots.Ink) -> None:
    text = history.as_text(HOUR, 0.0, 3600.0, columns, ink)
    assert max(map(len, text.splitlines())) <= columns


def test_a_gap_is_no_rate_and_a_total_that_went_back_is_no_movement() -> None:
    readings = (
        reading(0.0, 10 * MB, MIB),
        reading(10.0, 30 * MB, MIB),
        reading(1000.0, 9000 * MB, MIB),
        reading(1010.0, 5 * MB, MIB),
    )
    promoted = history.panels(readings)[0]
    assert [value for _, value in promoted.points] == [2 * MB, 0.0]


def test_nothing_is_said_of_no_time() -> None:
    assert "there are no readings" in history.as_text((), 0.0, 10.0, 80, UNICODE)
    assert "no readings" in picture.svg((), 0.0, 10.0)


def test_a_single_reading_is_no_error() -> None:
    assert "1 reading\n" in history.as_text(HOUR[:1], 0.0, 0.0, 80, UNICODE)


def test_the_picture_is_a_picture() -> None:
    root = ElementTree.fromstring(picture.svg(HOUR, 0.0, 3600.0))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    words = "".join(root.itertext())
    assert words.count("1 h up to 1970-01-01 01:00:00Z: 360 readings") == 1
    assert "promoted:" in words
    assert "node0 free:" in words
    assert "target" in words
    # There is a line with the time every ten minutes.
    assert [f"00:{minute}Z" in words for minute in (10, 20, 30, 40, 50)] == [True] * 5
    assert "00:05Z" not in words


def test_a_time_without_tierd_is_grey() -> None:
    panels = len(history.panels(HOUR))
    assert picture.svg(HOUR[:100] + HOUR[300:], 0.0, 3600.0).count('class="n"') == panels
    assert 'class="n"' not in picture.svg(HOUR, 0.0, 3600.0)


def test_the_document_has_every_reading() -> None:
    document = json.loads(history.as_json(HOUR, 0.0, 3600.0))
    assert document["schema"] == "tierd.history/1"
    assert len(document["readings"]) == len(HOUR)
    assert document["readings"][-1]["nodes"][1]["hot_bytes"] == 3590 * MIB


# On disk
@pytest.fixture
def folder(tmp_path: Path) -> RunDir:
    return RunDir(tmp_path, tmp_path)


def test_a_day_is_kept_and_looked_back_on(folder: RunDir) -> None:
    day = [
        Record(n + 1, reading_to_bytes(reading(n * 10.0, n * MB, MIB)))
        for n in range(chronicle.READINGS_MAX)
    ]
    ring.create(folder.state / HISTORY, chronicle.READINGS_MAX, 512, day)
    now = chronicle.READINGS_MAX * 10.0
    assert "1440 readings" in events_and_history.history_text(
        folder, now - 86_400, now, 80, UNICODE
    )
    assert (
        len(json.loads(events_and_history.history_json(folder, now - 100, now))["readings"]) == 10
    )
    events_and_history.write_svg(folder, 0.0, now, folder.state / "h.svg")
    assert (folder.state / "h.svg").read_text().startswith("<svg")


def test_where_it_looked_is_said_if_there_is_nothing(folder: RunDir) -> None:
    assert str(folder.state / HISTORY) in events_and_history.history_text(
        folder, 0.0, 1.0, 80, UNICODE
    )
    assert str(folder.state / EVENTS) in events_and_history.events_text((), folder)


class Enough(Exception):
    """Ends a follower, which has no end itself."""


def test_a_follower_sees_what_comes_and_survives_another_file(folder: RunDir) -> None:
    kept = Chronicle(folder)
    kept.happened(EventStatus(1.0, "first", ""))

    def remove() -> None:
        (folder.state / EVENTS).unlink()
        kept.happened(EventStatus(3.0, "after", ""))

    steps: list[Callable[[], None]] = [
        lambda: None,
        lambda: kept.happened(EventStatus(2.0, "second", "")),
        remove,
    ]

    def wait(_seconds: float) -> None:
        if not steps:
            raise Enough
        steps.pop(0)()

    seen: list[str] = []
    following = events_and_history.follow(
        folder, events_and_history.kept_events(folder, None), wait
    )
    with pytest.raises(Enough):
        seen.extend(events_and_history.one_line(one, as_json=False)[21:] for one in following)
    assert seen == ["first", "second", "after"]
