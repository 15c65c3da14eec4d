"""What is remembered on disk, and read back."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierd.record import chronicle, ring
from tierd.record.chronicle import (
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
    (found,) = chronicle.readings(folder, 0.0)
    assert (found.at, found.state, found.cpu_seconds) == (100.0, "active", 3.75)
    assert found.nodes[1].free_bytes == 3 * GIB + 1
    assert (found.nodes[1].headroom_bytes, found.nodes[1].hot_bytes) == (GIB, 1)
    assert found.applied_bytes["promote-1-0"] == 7 * GIB + 1


def test_one_reading_every_ten_seconds(folder: RunDir) -> None:
    kept = Chronicle(folder)
    for second in range(31):
        kept.saw(snapshot(1000.0 + second))
    assert [one.at for one in chronicle.readings(folder, 0.0)] == [1000, 1010, 1020, 1030]
    assert [one.at for one in chronicle.readings(folder, 1015.0)] == [1020, 1030]


def test_a_clock_that_was_set_back_stops_nothing(folder: RunDir) -> None:
    kept = Chronicle(folder)
    kept.saw(snapshot(5000.0))
    kept.saw(snapshot(100.0))
    assert kept.read_at == 100.0


def test_a_restart_goes_on_in_the_same_file(folder: RunDir) -> None:
    Chronicle(folder).saw(snapshot(0.0))
    Chronicle(folder).saw(snapshot(READING_EVERY_S))
    assert len(chronicle.readings(folder, 0.0)) == 2


def test_a_larger_machine_gets_larger_slots_and_loses_nothing(folder: RunDir) -> None:
    kept = Chronicle(folder)
    kept.saw(snapshot(0.0))
    kept.saw(snapshot(10.0, nodes=32))
    found = ring.read(folder.state / HISTORY)
    assert found is not None
    assert found.slot_bytes > READING_SLOT_BYTES
    assert [len(one.nodes) for one in chronicle.readings(folder, 0.0)] == [2, 32]


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


def test_a_disk_that_fails_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = Chronicle(RunDir(tmp_path / "none", tmp_path / "none"))
    for second in range(3):
        kept.happened(EventStatus(float(second), "running", ""))
    assert [r.message for r in caplog.records if "history is not kept" in r.message].__len__() == 1


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


@pytest.mark.parametrize(
    "text", [b"", b"[]", b'{"t": 1}', b"\xff", b'{"t":1,"s":"","c":0,"n":{"a":0}}']
)
def test_what_another_version_wrote_is_passed_over(folder: RunDir, text: bytes) -> None:
    assert reading_from_bytes(text) is None
    assert event_from_bytes(text) is None
    ring.create(folder.state / HISTORY, 4, 512, [Record(1, text)])
    assert chronicle.readings(folder, 0.0) == ()
