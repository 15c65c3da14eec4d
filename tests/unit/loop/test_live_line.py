"""The lines of `tierd run`: one for each change, and one now and then without a change."""

from dataclasses import replace

import pytest

from tests.fixtures.snapshots import MIB, SNAPSHOT
from tierd.loop.service import SILENT_S_MAX, LiveLine
from tierd.record.snapshot import Snapshot, State


def at(second: float, state: State = State.active) -> Snapshot:
    return replace(SNAPSHOT, at=10_000.0 + second, state=state)


@pytest.mark.parametrize("state", [State.active, State.paused, State.observing])
def test_what_has_not_changed_is_not_said_again_before_a_minute_is_over(state: State) -> None:
    said: list[str] = []
    line = LiveLine(None, said.append)
    for second in range(int(2 * SILENT_S_MAX) + 1):
        line.show(at(second, state), 7 * MIB, 0)
    assert [one.partition(" |")[0].strip() for one in said] == ["0 s", "60 s", "120 s"]


def test_what_has_changed_is_said_at_once() -> None:
    said: list[str] = []
    line = LiveLine(None, said.append)
    for second, (up, down) in enumerate([(7, 0), (7, 0), (9, 0), (9, 0), (9, 0), (9, 5)]):
        line.show(at(second), up * MIB, down * MIB)
    line.show(at(6, State.paused), 9 * MIB, 5 * MIB)
    # Bytes that earlier daemons moved are not shown.
    assert [one.split(" | ")[2].partition(", down")[0] for one in said[:3]] == [
        "up 0 B (+0 B)",
        "up 2 MiB (+2 MiB)",
        "up 2 MiB (+0 B)",
    ]
    assert [one.partition(" |")[0].strip() for one in said] == ["0 s", "2 s", "3 s", "5 s", "6 s"]
    assert said[-1].split(" | ")[1] == "paused"
