"""What a person sees of a run: lines that say something new, and the live screen in a terminal."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fixtures.snapshots import MIB, SNAPSHOT
from tierd.loop.show import NEWS_SHARE, REST_SHARE, REST_TICKS, Lines
from tierd.record.snapshot import Snapshot, State
from tierd.sim import demo
from tierd.views.scene import Scene

# The fast node of the snapshots.
FAST_MIB = 1000
NEWS_MIB = int(FAST_MIB * NEWS_SHARE)
LITTLE_MIB = int(FAST_MIB * REST_SHARE)


def at(second: float, state: State = State.active) -> Snapshot:
    return replace(SNAPSHOT, at=10_000.0 + second, state=state)


def lines(moved_mib: list[tuple[int, int]], state: State = State.active) -> list[str]:
    """Return the lines of a run in which so much was moved up and down until each second."""
    said: list[str] = []
    shown = Lines(None, None, said.append)
    for second, (up, down) in enumerate(moved_mib):
        shown.show(at(second, state), up * MIB, down * MIB)
    return said


def seconds(said: list[str]) -> list[int]:
    return [int(one.partition(" s |")[0]) for one in said]


@pytest.mark.parametrize("state", [State.active, State.paused, State.observing])
def test_nothing_new_is_not_said(state: State) -> None:
    assert seconds(lines([(7, 0)] * 600, state)) == [0]


def test_much_that_moved_is_said_at_once_and_little_when_it_rests() -> None:
    up = [7, 7 + NEWS_MIB, 7 + NEWS_MIB + LITTLE_MIB, *[7 + NEWS_MIB + LITTLE_MIB] * 20]
    said = lines([(one, 0) for one in up])
    assert seconds(said) == [0, 1, 2 + REST_TICKS]
    # Bytes that earlier daemons moved are not shown.
    assert re.findall(r"up (\S+ \S+) \(\+(\S+ \S+)\)", " ".join(said)) == [
        ("0 B", "0 B"),
        (f"{NEWS_MIB} MiB", f"{NEWS_MIB} MiB"),
        (f"{NEWS_MIB + LITTLE_MIB} MiB", f"{LITTLE_MIB} MiB"),
    ]


def test_less_than_a_hundredth_of_the_fast_tier_is_never_said() -> None:
    up = [min(second, LITTLE_MIB - 1) for second in range(100)]
    assert seconds(lines([(one, 0) for one in up])) == [0]


def test_another_state_is_said() -> None:
    said: list[str] = []
    shown = Lines(None, None, said.append)
    for second, state in enumerate([State.active, State.paused, State.paused, State.active]):
        shown.show(at(second, state), 0, 0)
    assert seconds(said) == [0, 1, 3]


def test_another_act_is_said_and_the_end_sums_up() -> None:
    said: list[str] = []
    acts = iter([(0, 0), (0, 64), (1, 0)])

    def scene() -> Scene:
        number, fast = next(acts)
        hot = ((0, fast * MIB), (1, (64 - fast) * MIB))
        return Scene(demo.ACTS[number], number + 1, 5, 1, 9.0, hot, (0,))

    shown = Lines(scene, "http://x/", said.append)
    for second in range(3):
        shown.show(at(second), 0, 0)
    shown.end()
    assert said[0] == "Or in a browser: http://x/"
    assert seconds(said[1:-1]) == [0, 2]
    assert said[-1].splitlines()[2:] == [
        "  one piece    0% -> 100%               1 s",
        "  jump         0% -> 0%                 not in this time",
    ]
    shown.end()
    assert len(said) == 4


# How often the terminal is looked at before a test fails. One look takes some milliseconds, and
# half a second passes between two.
LOOKS_MAX = 120


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[list[str]]:
    if shutil.which("tmux") is None:
        pytest.skip("there is no tmux")
    words = ["tmux", "-S", str(tmp_path / "tmux.sock"), "-f", "/dev/null"]
    yield words
    subprocess.run([*words, "kill-server"], check=False, capture_output=True, timeout=60)


def until(tmux: list[str], text: str) -> list[str]:
    """Return the lines of the terminal as soon as the text is in it."""
    drawn = ""
    for _ in range(LOOKS_MAX):
        drawn = subprocess.run(
            [*tmux, "capture-pane", "-p"], check=True, capture_output=True, text=True, timeout=60
        ).stdout
        if text in drawn:
            return drawn.splitlines()
        subprocess.run(["sleep", "0.5"], check=True)
    pytest.fail(f"no {text!r} in\n{drawn}")


def test_in_a_terminal_it_is_a_screen(tmux: list[str], tmp_path: Path) -> None:
    columns, rows = 80, 24
    (tmp_path / "quiet.yaml").write_text("metrics: {address: off}\n")
    tierd = f"{sys.executable} -m tierd run --simulate --config {tmp_path}/quiet.yaml"
    command = f"{tierd} --run-dir {tmp_path}; echo ended with $?; stty -a; read wait"
    size = ("-x", str(columns), "-y", str(rows))
    subprocess.run([*tmux, "new-session", "-d", *size, command], check=True, timeout=60)
    drawn = until(tmux, "what moves, and why")
    assert len(drawn) == rows
    assert drawn[0].startswith("tierd on the SIMULATED machine two-tier")
    assert drawn[-1] == "Ctrl-C stops it and puts everything back"
    for said in ("one piece", "hot data [", "node0", "node1", "promoted", "promote-1-0: "):
        assert any(said in line for line in drawn), drawn
    subprocess.run([*tmux, "send-keys", "C-c"], check=True, timeout=60)
    after = "\n".join(until(tmux, "ended with 0"))
    # The screen is gone; what was restored and the summary are left, and the terminal echoes again.
    assert "what moves" not in after
    assert "tierd: restored: " in after
    assert "THE PROGRAM" in after
    assert " echo " in "\n".join(until(tmux, " echo "))
