"""`tierd top`: single frames, and the whole program in terminals of several sizes."""

import json
import os
import select
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures import machines, proc
from tests.fixtures.snapshots import MB, SNAPSHOT, with_nodes
from tierd.console import top
from tierd.console.top import Asked
from tierd.errors import NotRunning
from tierd.machine import discovery
from tierd.machine.process_memory import Active, LeftOut, Mapped, Processes, ProcessMemory, Why
from tierd.record.snapshot import document
from tierd.serving import api
from tierd.serving.api import Sources
from tierd.views import processview, screen
from tierd.views.plots import ASCII, UNICODE
from tierd.views.screen import View
from tierd.views.whoview import Entry

NOW = 10_001.0


def watched(seconds: int = 5) -> View:
    view = View()
    for second in range(seconds):
        status = document(with_nodes(at=10_000.0 + second))
        view = screen.seen(view, status)
    return view


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("rows", [10, 24, 50])
def test_a_frame_fills_the_terminal_and_no_more(columns: int, rows: int) -> None:
    for view in (View(), watched(), watched(300), screen.lost(watched(), "tierd is not running")):
        drawn = screen.frame(view, NOW, columns, rows, UNICODE)
        assert len(drawn) == rows
        assert max(map(len, drawn)) <= columns
        assert drawn[-1].startswith("q quit")


@given(columns=st.integers(1, 90), rows=st.integers(1, 40), seconds=st.integers(0, 3))
def test_a_frame_fits_the_smallest_terminal(columns: int, rows: int, seconds: int) -> None:
    for view in (watched(seconds), screen.lost(watched(seconds), "tierd is not running")):
        drawn = screen.frame(view, NOW, columns, rows, UNICODE)
        assert len(drawn) == rows
        assert max(map(len, drawn)) <= columns
        assert drawn[-1] == "q quit  space freeze  p processes  +/- speed  every 1 s"[:columns]


def test_a_frame_has_it_all() -> None:
    drawn = "\n".join(screen.frame(watched(), NOW, 80, 40, ASCII))
    for said in ("ACTIVE", "node0", "promoted ", "hot below", "promote-1-0", "running: started"):
        assert said in drawn
    assert "#####" in drawn


def test_the_same_snapshot_is_not_counted_twice() -> None:
    view = watched(1)
    assert screen.seen(view, document(with_nodes(at=10_000.0))).trend == view.trend


def test_a_daemon_that_is_gone_is_said_and_waited_for() -> None:
    def gone() -> dict[str, object]:
        raise NotRunning("tierd is not running")

    view = top.look(watched(), gone)
    assert screen.frame(view, NOW, 80, 24, ASCII)[0] == "!! waiting: tierd is not running"
    back = top.look(view, lambda: document(with_nodes(at=20_000.0)))
    assert back.trouble == ""
    assert len(back.trend.up) == 6


def test_a_daemon_that_starts_is_waited_for() -> None:
    view = screen.seen(View(), {"schema": "tierd.status/1", "state": "starting"})
    assert "is starting" in "\n".join(screen.frame(view, NOW, 80, 24, ASCII))


def test_keys() -> None:
    view = top.key(View(), " ")
    assert view.held
    assert not top.key(view, " ").held
    assert top.key(View(), "+").every_s < View().every_s < top.key(View(), "-").every_s
    slowest = View()
    for _ in range(20):
        slowest = top.key(slowest, "-")
    assert slowest.every_s == top.EVERY_S[-1]
    assert top.key(View(), "x") == View()


def cgroup(path: str, slow_bytes: int) -> Entry:
    return {
        "cgroup": path,
        "slow_bytes": slow_bytes,
        "slow_active_bytes": None,
        "fast_bytes": 0,
        "bytes_by_node": {"1": slow_bytes},
    }


def test_the_cgroups_have_room_on_a_small_screen() -> None:
    who = tuple(
        cgroup(f"/system.slice/{'x' * 90}{number}.service", 9 - number) for number in range(9)
    )
    for view in (View(), watched()):
        drawn = screen.frame(replace(view, who=who), NOW, 80, 24, ASCII)
        shown = [line for line in drawn if line.endswith(".service")]
        assert len(shown) == screen.WHO_MIN
        assert shown[0].startswith("  9 B")
        # The end of a long path says more than its beginning.
        assert shown[4].endswith("x4.service")
    lost = replace(watched(), who_trouble="no unified cgroup tree")
    assert any("no unified" in line for line in screen.frame(lost, NOW, 80, 24, ASCII))


def test_cgroups_that_cannot_be_read_are_a_reason_and_no_end() -> None:
    def refused() -> tuple[Entry, ...]:
        raise NotRunning("gone")

    known = (cgroup("/a", 1),)
    gone, there = Asked(dict, refused, never), Asked(dict, lambda: known, never)
    assert top.counted(View(who=known), gone) == View(who_trouble="gone")
    assert top.counted(View(who_trouble="gone"), there) == View(who=known)


def never() -> processview.Document:
    raise AssertionError("processes are read only if somebody wants to see them")


def read_processes(count: int) -> processview.Document:
    mapped = Mapped({1: 7 * MB}, 0, Active(0, {}))
    found = tuple(ProcessMemory(100 + one, "db", 9 * MB, mapped) for one in range(count))
    left = (LeftOut(Why.unreadable, 3, MB),)
    machine = discovery.survey(machines.load("two-tier-7.2").sysfs, None)
    return processview.as_document(Processes(found, left, knows_active=True), machine)


def test_a_key_shows_processes_in_place_of_cgroups() -> None:
    known, read = (cgroup("/a", 1),), read_processes(1)
    asked = Asked(dict, lambda: known, lambda: read)
    view = top.key(View(who=known, who_trouble="old"), "p")
    assert view == View(who=known, by_process=True)
    assert "by process: not read yet" in "\n".join(screen.frame(view, NOW, 80, 24, ASCII))
    view = top.counted(view, asked)
    assert view == View(by_process=True, processes=read)
    assert any(line.endswith(" db") for line in screen.frame(view, NOW, 80, 24, ASCII))
    view = top.counted(top.key(view, "p"), asked)
    assert view == View(who=known)
    assert any(line.endswith(" /a") for line in screen.frame(view, NOW, 80, 24, ASCII))


def test_processes_that_cannot_be_read_are_a_reason_and_no_end() -> None:
    def refused() -> processview.Document:
        raise NotRunning("gone")

    view = top.counted(View(by_process=True), Asked(dict, lambda: (), refused))
    assert view == View(by_process=True, who_trouble="gone")
    assert "by process: gone" in "\n".join(screen.frame(view, NOW, 80, 24, ASCII))


def test_the_processes_have_room_on_a_small_screen() -> None:
    for view in (View(), watched()):
        shown = replace(view, by_process=True, processes=read_processes(9))
        drawn = screen.frame(shown, NOW, 80, 24, ASCII)
        assert len(drawn) == 24
        assert sum(line.endswith(" db") for line in drawn) == screen.WHO_MIN
        assert "  and 4 more; --json lists all" in drawn
        assert any("left out: 3 processes" in line for line in drawn)


# Bound of a wait for a program, in seconds. On a busy machine it takes seconds to start.
SAYS_S_MAX = 60


def test_a_terminal_that_goes_away_ends_it_with_a_sentence(tmp_path: Path) -> None:
    """A window may be closed, or a connection may break."""
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "tierd", "top", "--run-dir", str(tmp_path)],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TERM": "xterm"},
    ) as started:
        os.close(theirs)
        try:
            # Wait for the first frame.
            drawn = b""
            while b"waiting: " not in drawn:
                ready, _, _ = select.select([ours], [], [], SAYS_S_MAX)
                assert ready, f"drew nothing more after {drawn!r}"
                drawn += os.read(ours, 4096)
            os.close(ours)
            _, said = started.communicate(timeout=SAYS_S_MAX)
        finally:
            # Do not wait for a program that goes on.
            started.kill()
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    # The program may first see that it gets no keys, or that it cannot draw.
    assert started.returncode in (0, 1)
    assert bool(said) is bool(started.returncode)
    assert all(line.startswith("tierd: ") for line in said.splitlines()), said


# The tests below use a real terminal. This is the bound of looks at its screen.
LOOKS_MAX = 60


@dataclass
class Daemon:
    """Answers like a daemon, and counts requests. There is a frame between two requests."""

    folder: Path
    asked: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    promoted: float = 30.0 * MB
    looks: int = 0

    def documents(self, path: str) -> str | None:
        if path != "/v1/status":
            return None
        self.asked.release()
        self.looks += 1
        schemes = tuple(
            replace(scheme, applied_bytes_per_s=self.promoted) for scheme in SNAPSHOT.schemes
        )
        return json.dumps(document(replace(SNAPSHOT, at=10_000.0 + self.looks, schemes=schemes)))

    def start(self) -> api.Server:
        return api.serve(self.folder / "api.sock", Sources(self.documents, lambda _event: False))


@dataclass
class Terminal:
    """A tmux with `tierd top` in it."""

    socket: Path
    daemon: Daemon

    def tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self.socket), "-f", "/dev/null", *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.stdout

    def begin(self, columns: int, rows: int, words: str = "") -> None:
        command = f"{sys.executable} -m tierd top --run-dir {self.daemon.folder} {words}"
        size = ("-x", str(columns), "-y", str(rows))
        self.tmux("new-session", "-d", *size, command)
        # Keys before the first frame are lost.
        self.until("every 1 s")
        self.tmux("send-keys", "+")
        self.until("every 0.5 s")

    def until(self, text: str) -> list[str]:
        """Wait some frames until the screen has a text, and return its lines."""
        drawn = ""
        for _ in range(LOOKS_MAX):
            drawn = self.tmux("capture-pane", "-p")
            if text in drawn:
                return drawn.splitlines()
            self.daemon.asked.acquire(timeout=0.5)
        pytest.fail(f"no {text!r} in\n{drawn}")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.skip("there is no tmux")
    made = Terminal(tmp_path / "tmux.sock", Daemon(tmp_path))
    yield made
    made.tmux("kill-server")


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_in_a_terminal(terminal: Terminal, columns: int) -> None:
    server = terminal.daemon.start()
    try:
        terminal.begin(columns, 30)
        drawn = terminal.until("q quit")
        assert drawn[0].startswith("STUCK: no new reading")
        assert drawn[29].startswith("q quit")
        assert any(line.startswith("  node0") and line.count("[") == 1 for line in drawn)
        assert any("promote-1-0" in line and "30 MB/s" in line for line in drawn)
        assert max(map(len, drawn)) <= columns
        assert "\x1b[31mSTUCK" in terminal.tmux("capture-pane", "-p", "-e")
    finally:
        server.stop()


def test_resize_and_a_daemon_that_starts_again(terminal: Terminal) -> None:
    server = terminal.daemon.start()
    terminal.begin(120, 30)
    wide = terminal.until("memory_tier67")
    terminal.tmux("resize-window", "-x", "60", "-y", "20")
    narrow = terminal.until("node1 [")
    assert max(map(len, narrow)) <= 60 < max(map(len, wide))
    server.stop()
    terminal.until("!! waiting: ")
    terminal.daemon.promoted = 99.0 * MB
    server = terminal.daemon.start()
    try:
        back = terminal.until("99 MB/s")
        assert not any("waiting: " in line for line in back)
        terminal.tmux("send-keys", "q")
        for _ in range(LOOKS_MAX):
            if not terminal.tmux("list-panes"):
                break
            terminal.daemon.asked.acquire(timeout=0.5)
        assert terminal.tmux("list-panes") == ""
    finally:
        server.stop()


def test_processes_in_a_terminal(terminal: Terminal, tmp_path: Path) -> None:
    machines.unpack(proc.machine(), tmp_path / "root")
    (tmp_path / "quiet.yaml").write_text("metrics: {address: off}\n")
    server = terminal.daemon.start()
    try:
        words = f"--processes --root {tmp_path}/root --config {tmp_path}/quiet.yaml"
        terminal.begin(100, 40, words)
        drawn = terminal.until("  30   db")
        assert any(line.endswith("  32   huge") for line in drawn)
        terminal.tmux("send-keys", "p")
        assert not any("  30   db" in line for line in terminal.until("memory by cgroup: "))
        terminal.tmux("send-keys", "p")
        terminal.until("  30   db")
    finally:
        server.stop()
