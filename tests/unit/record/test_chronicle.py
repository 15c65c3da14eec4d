"""History on disk: it is written and read back."""

import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierd.record import chronicle, ring
from tierd.record.bookkeeping import FAILED, RECOVERED
from tierd.record.chronicle import (
    LATELY_MAX,
    READING_EVERY_S,
    READING_SLOT_BYTES,
    Chronicle,
    event_from_bytes,
    event_to_bytes,
    reading_from_bytes,
)
from tierd.record.ring import Record
from tierd.record.rundir import EVENTS, HISTORY, RunDir
from tierd.record.snapshot import (
    EventStatus,
    KdamondStatus,
    NodeStatus,
    SchemeStatus,
    Snapshot,
    State,
)

GIB = 1 << 30

# A time after all records here.
END = 1e9


def snapshot(at: float, nodes: int = 2) -> Snapshot:
    return Snapshot(
        at=at,
        version="1",
        pid=1,
        started_at=0.0,
        state=State.active,
        reason="",
        mode="manage",
        tuner="kernel",
        tuner_reason="",
        machine="",
        nodes=tuple(NodeStatus(n, "t", 64 * GIB, 3 * GIB + n, GIB, n, None) for n in range(nodes)),
        schemes=tuple(
            SchemeStatus(f"promote-{n}-0", "promote", n, 0, 10, 7 * GIB + n, 0, None, 100, 0.0)
            for n in range(nodes)
        ),
        kdamonds=(KdamondStatus(0, True, 7, 0, 1.5), KdamondStatus(1, True, 8, 0, 2.25)),
    )


@pytest.fixture
def folder(tmp_path: Path) -> RunDir:
    return RunDir(tmp_path, tmp_path)


def test_a_reading_comes_back(folder: RunDir) -> None:
    Chronicle(folder).saw(snapshot(100.0))
    (found,) = chronicle.readings(folder, 0.0, END)
    assert (found.at, found.state, found.cpu_seconds) == (100.0, "active", 3.75)
    assert found.nodes[1].free_bytes == 3 * GIB + 1
    assert (found.nodes[1].headroom_bytes, found.nodes[1].hot_bytes) == (GIB, 1)
    assert found.applied_bytes["promote-1-0"] == 7 * GIB + 1


def test_one_reading_every_ten_seconds(folder: RunDir) -> None:
    kept = Chronicle(folder)
    for second in range(31):
        kept.saw(snapshot(1000.0 + second))
    assert [one.at for one in chronicle.readings(folder, 0.0, END)] == [1000, 1010, 1020, 1030]
    assert [one.at for one in chronicle.readings(folder, 1015.0, END)] == [1020, 1030]


def test_a_clock_that_was_set_back_stops_nothing(folder: RunDir) -> None:
    """Older records then have later times, but they hide nothing."""
    kept = Chronicle(folder)
    for at in (50.0, 5000.0, 100.0, 110.0):
        kept.saw(snapshot(at))
    assert [one.at for one in chronicle.readings(folder, 0.0, 120.0)] == [50, 100, 110]
    assert [one.at for one in chronicle.readings(folder, 60.0, 120.0)] == [100, 110]
    assert [one.at for one in chronicle.readings(folder, 60.0, 120.0, 1)] == [110]


def test_a_restart_goes_on_in_the_same_file(folder: RunDir) -> None:
    Chronicle(folder).saw(snapshot(0.0))
    Chronicle(folder).saw(snapshot(READING_EVERY_S))
    assert len(chronicle.readings(folder, 0.0, END)) == 2


def test_a_larger_machine_gets_larger_slots_and_loses_nothing(folder: RunDir) -> None:
    kept = Chronicle(folder)
    kept.saw(snapshot(0.0))
    kept.saw(snapshot(10.0, nodes=32))
    found = ring.read(folder.state / HISTORY)
    assert found is not None
    assert found.slot_bytes > READING_SLOT_BYTES
    assert [len(one.nodes) for one in chronicle.readings(folder, 0.0, END)] == [2, 32]


def test_a_damaged_file_begins_anew(folder: RunDir) -> None:
    (folder.state / EVENTS).write_text("nonsense")
    Chronicle(folder).happened(EventStatus(1.0, "running", ""))
    assert [one.event.event for one in chronicle.events(folder)] == ["running"]


def test_a_file_that_was_removed_begins_anew(folder: RunDir) -> None:
    kept = Chronicle(folder)
    kept.happened(EventStatus(1.0, "one", ""))
    (folder.state / EVENTS).unlink()
    kept.happened(EventStatus(2.0, "two", ""))
    assert [one.event.event for one in chronicle.events(folder)] == ["two"]


def test_a_disk_that_fails_is_said_once_and_when_it_is_over(tmp_path: Path) -> None:
    folder = RunDir(tmp_path / "none", tmp_path / "none")
    kept = Chronicle(folder)
    for second in range(3):
        kept.happened(EventStatus(float(second), "running", ""))
    (failed,) = kept.books.news()
    assert (failed.event, kept.books.failures()) == (FAILED, (EVENTS,) * 3)
    assert "No such file" in failed.text
    folder.make_state()
    kept.happened(EventStatus(3.0, "running", ""))
    kept.happened(EventStatus(4.0, "running", ""))
    assert [one.event for one in kept.books.news()] == [RECOVERED]
    assert not kept.books.failures()


def test_a_damaged_file_is_told(folder: RunDir) -> None:
    (folder.state / EVENTS).write_text("nonsense")
    kept = Chronicle(folder)
    kept.happened(EventStatus(1.0, "running", ""))
    assert [one.event for one in kept.books.news()] == [FAILED, RECOVERED]


def test_another_file_in_its_place_is_replaced(folder: RunDir) -> None:
    kept = Chronicle(folder)
    kept.happened(EventStatus(1.0, "one", ""))
    (folder.state / EVENTS).write_bytes(b"noise" * 1000)
    kept.happened(EventStatus(2.0, "two", ""))
    (found,) = chronicle.events(folder)
    # A follower takes a lower number for another file.
    assert (found.event.event, found.number) == ("two", 2)


@given(st.floats(0, 2e9), st.text(max_size=20), st.text(max_size=2000))
def test_an_event_fits_its_slot_and_begins_as_it_was(at: float, name: str, text: str) -> None:
    event = EventStatus(round(at, 3), name, text)
    packed = event_to_bytes(event)
    assert len(packed) <= ring.room(chronicle.EVENT_SLOT_BYTES)
    found = event_from_bytes(packed)
    assert found is not None
    if found.text == text:
        assert found == event
    else:
        assert replace(found, text="") == replace(event, text="")
        assert found.text.endswith("...")
        assert text.startswith(found.text.removesuffix("..."))


def test_an_event_about_a_name_that_is_no_utf8_is_read_again() -> None:
    text = b"cgroup /evil\xff is gone".decode("utf-8", "surrogateescape")
    found = event_from_bytes(event_to_bytes(EventStatus(1.0, "degraded", text)))
    assert found == EventStatus(1.0, "degraded", "cgroup /evil\\udcff is gone")


@pytest.mark.parametrize(
    "text", [b"", b"[]", b'{"t": 1}', b"\xff", b'{"t":1,"s":"","c":0,"n":{"a":0}}']
)
def test_what_another_version_wrote_is_passed_over(folder: RunDir, text: bytes) -> None:
    assert reading_from_bytes(text) is None
    assert event_from_bytes(text) is None
    ring.create(folder.state / HISTORY, 4, 512, [Record(1, text)])
    assert chronicle.readings(folder, 0.0, END) == ()


def test_who_only_writes_holds_no_history_in_memory(folder: RunDir) -> None:
    """A day of history has 6 MiB, and the whole daemon may use 32 MiB."""
    day = [Record(number, b"x" * 400) for number in range(1, chronicle.READINGS_MAX + 1)]
    ring.create(folder.state / HISTORY, chronicle.READINGS_MAX, 512, day)
    size_bytes = sum(len(record.text) for record in day)
    del day
    writer = Chronicle(folder)
    tracemalloc.start()
    try:
        writer.saw(snapshot(at=1.0))
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not writer.books.failures()
    assert held_bytes < size_bytes / 10


def test_the_newest_readings_are_in_memory_too(folder: RunDir) -> None:
    kept = Chronicle(folder)
    for at in range(0, 100, 10):
        kept.saw(snapshot(float(at)))
    assert kept.lately(20.0, 60.0, 99) == chronicle.readings(folder, 20.0, 60.0)
    assert [one.at for one in kept.lately(20.0, 60.0, 3)] == [20.0, 40.0, 60.0]
    assert kept.lately(1000.0, 2000.0, 99) == ()


def test_after_a_restart_those_before_it_are_in_memory(folder: RunDir) -> None:
    before = Chronicle(folder)
    for at in range(0, 50, 10):
        before.saw(snapshot(float(at)))
    after = Chronicle(folder)
    assert after.lately(0.0, END, 99) == ()
    after.saw(snapshot(100.0))
    assert [one.at for one in after.lately(0.0, END, 99)] == [0.0, 10.0, 20.0, 30.0, 40.0, 100.0]


def test_an_hour_is_in_memory_and_no_more(folder: RunDir) -> None:
    for kept in (Chronicle(folder), Chronicle(folder)):
        for number in range(LATELY_MAX + 5):
            kept.saw(snapshot(number * READING_EVERY_S))
        assert len(kept.lately(0.0, END, LATELY_MAX * 2)) == LATELY_MAX


def test_a_disk_that_fails_takes_nothing_from_memory(tmp_path: Path) -> None:
    kept = Chronicle(RunDir(tmp_path, tmp_path / "no"))
    kept.saw(snapshot(1.0))
    kept.saw(snapshot(11.0))
    assert [one.at for one in kept.lately(0.0, END, 99)] == [1.0, 11.0]


def test_a_file_that_is_begun_anew_puts_nothing_into_memory_twice(folder: RunDir) -> None:
    kept = Chronicle(folder)
    kept.saw(snapshot(1.0))
    (folder.state / HISTORY).unlink()
    kept.saw(snapshot(11.0))
    assert [one.at for one in kept.lately(0.0, END, 99)] == [1.0, 11.0]
