"""Frames of the live screen, without a terminal."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.snapshots import MIB, SNAPSHOT, parked
from tierd.record.snapshot import EventStatus, Snapshot
from tierd.views import window
from tierd.views.plots import ASCII, UNICODE
from tierd.views.scene import CHAPTERS_MAX, Act, Scene
from tierd.views.window import Watched

ACT = Act("scatter", "its hot pages are mixed at random with cold ones", 30)


def scene(fast_mib: int, slow_mib: int, number: int = 3, rounds: int = 1) -> Scene:
    return Scene(ACT, number, 5, rounds, 9.2, ((0, fast_mib * MIB), (1, slow_mib * MIB)), (0,))


def seen(*scenes: Scene | None, snapshot: Snapshot = SNAPSHOT) -> Watched:
    found = Watched("tierd on a machine.", "http://127.0.0.1:19100/")
    for second, one in enumerate(scenes):
        found = window.watched(found, replace(snapshot, at=10_000.0 + second), one, 3, 5)
    return found


@given(st.integers(1, 200), st.integers(1, 60), st.booleans())
def test_a_frame_fills_any_terminal_and_no_more(columns: int, rows: int, simulated: bool) -> None:
    for found in (seen(), seen(scene(10, 30) if simulated else None), seen(scene(0, 0))):
        drawn = window.frame(found, columns, rows, UNICODE)
        assert len(drawn) == rows
        assert max(map(len, drawn)) <= columns


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40)])
def test_a_usual_terminal_has_room_for_all_reasons(columns: int, rows: int) -> None:
    drawn = "\n".join(window.frame(seen(scene(30, 10)), columns, rows, ASCII))
    for said in (
        "ACTIVE: headroom is kept",
        "the program, 3 of 5: scatter (10 s to go)",
        "75% is in fast memory",
        "> promote-1-0: up to 30 MB/s: 50 MiB hot on node 1",
        "> demote-0-1: up to 40 MB/s",
        "http://127.0.0.1:19100/   Ctrl-C stops it",
    ):
        assert said in drawn, drawn


def test_bars_show_where_the_hot_data_is() -> None:
    drawn = window.frame(seen(scene(500, 0)), 80, 24, ASCII)
    bars = {line.split()[0]: line for line in drawn if line.startswith("  node")}
    assert (
        bars["node0"].count("+") * 2 == bars["node0"].count("[") + bars["node0"].count("+") * 2 - 1
    )
    assert "+" not in bars["node1"]
    nothing_hot = "\n".join(window.frame(seen(scene(0, 0)), 80, 24, ASCII))
    assert "nothing is hot now" in nothing_hot
    assert "- cold" in nothing_hot


def test_a_real_machine_tells_no_truth() -> None:
    drawn = "\n".join(window.frame(seen(None), 80, 40, ASCII))
    assert "the program" not in drawn
    assert "hot, fast" not in drawn
    assert "- cold" in drawn


def test_what_rests_is_not_marked() -> None:
    drawn = "\n".join(window.frame(seen(scene(1, 1), snapshot=parked()), 80, 40, ASCII))
    assert "> " not in drawn
    assert "promote-1-0: parked" in drawn


def test_names_of_others_control_no_terminal() -> None:
    hostile = replace(SNAPSHOT, events=(EventStatus(1.0, "left", "\x1b[2Jx"),))
    drawn = window.frame(seen(None, snapshot=hostile), 120, 40, ASCII)
    assert all(line.isprintable() for line in drawn)


def test_the_summary_counts_from_the_start_and_keeps_the_last_acts() -> None:
    rounds = [scene(0, 8, number=1, rounds=one) for one in range(1, CHAPTERS_MAX + 5)]
    found = seen(*rounds)
    assert len(found.chapters) == CHAPTERS_MAX
    assert found.chapters[-1].round == len(rounds)
    assert "tierd promoted 0 B and demoted 0 B" in window.summary(found)
    assert window.summary(seen()) == "tierd has ended before it saw anything."


def test_when_most_of_the_hot_data_was_there_is_told_once() -> None:
    found = seen(scene(0, 10), scene(5, 5), scene(9, 1), scene(2, 8))
    assert found.chapters[-1].mastered_s == 2.0
    assert "0% -> 20%                2 s" in window.summary(found)
