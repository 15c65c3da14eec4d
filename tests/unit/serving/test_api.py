"""The API over a real unix socket: what it answers, refuses and survives."""

import contextlib
import grp
import json
import os
import queue
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from tierd.errors import NotRunning
from tierd.record.rundir import FileError
from tierd.serving import api, client, webserver
from tierd.serving.api import Sources
from tierd.serving.inbox import Answer, Event, Verb
from tierd.serving.webserver import WAITING_MAX

STATUS = '{"schema": "tierd.status/1", "state": "active"}'


@dataclass
class Loop:
    """Answers every command at once, as the loop does. With `full` it refuses."""

    asked: list[Verb] = field(default_factory=list)
    full: bool = False

    def post(self, event: Event) -> bool:
        if self.full:
            return False
        self.asked.append(event.verb)
        event.reply(Answer(0, f"{event.verb} done"))
        return True


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def path(tmp_path: Path, loop: Loop) -> Iterator[Path]:
    where = tmp_path / "api.sock"
    server = api.serve(where, Sources({"/v1/status": STATUS}.get, loop.post))
    yield where
    server.stop()


def test_status_is_the_document(path: Path) -> None:
    assert client.get(path, "/v1/status") == json.loads(STATUS)


def test_an_unknown_path_says_what_there_is(path: Path) -> None:
    with pytest.raises(client.NoAnswer, match="/v1/status"):
        client.get(path, "/v1/nope")


@pytest.mark.parametrize("verb", [Verb.reload, Verb.pause, Verb.resume])
def test_commands_reach_the_loop_and_its_answer_comes_back(
    path: Path, loop: Loop, verb: Verb
) -> None:
    assert client.post(path, f"/v1/{verb}") == {"exit_code": 0, "text": f"{verb} done"}
    assert loop.asked == [verb]


@pytest.mark.parametrize("verb", [Verb.stop, Verb.hotplug])
def test_not_every_verb_is_a_command(path: Path, loop: Loop, verb: Verb) -> None:
    with pytest.raises(client.NoAnswer):
        client.post(path, f"/v1/{verb}")
    assert loop.asked == []


def test_a_full_queue_is_said(path: Path, loop: Loop) -> None:
    loop.full = True
    assert client.post(path, "/v1/pause")["exit_code"] == 75


@dataclass
class Peer:
    """A socket that reports the credentials of its peer: struct ucred, unix(7)."""

    uid: int
    gid: int
    inner: socket.socket

    def fileno(self) -> int:
        return self.inner.fileno()

    def getsockopt(self, _level: int, option: int, size: int) -> bytes:
        assert (option, size) == (socket.SO_PEERCRED, 12)
        return struct.pack("iII", 4711, self.uid, self.gid)


@pytest.mark.parametrize(
    ("uid", "gid", "may"),
    [
        (0, 0, True),
        (0, 1234567, True),
        (os.geteuid(), 1234567, True),
        (1234567, 0, False),
        (1234567, os.geteuid(), False),
        (1234567, 1234567, False),
    ],
)
def test_root_may_command_and_not_who_is_only_in_its_group(uid: int, gid: int, may: bool) -> None:
    loop = Loop()
    sources = Sources(lambda _: None, loop.post)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        peer = cast("socket.socket", Peer(uid, gid, ours))
        reply = api.respond(b"POST /v1/pause HTTP/1.1\r\n\r\n", peer, sources)
        answer = reply() if callable(reply) else reply
    assert answer.startswith(b"HTTP/1.1 200 " if may else b"HTTP/1.1 403 ")
    assert loop.asked == [Verb.pause] * may


def test_others_may_not_even_read(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o660


def test_a_stale_socket_is_replaced(tmp_path: Path, loop: Loop) -> None:
    where = tmp_path / "api.sock"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(where))
    stale.close()
    with pytest.raises(NotRunning, match="not running"):
        client.get(where, "/v1/status")
    server = api.serve(where, Sources({"/v1/status": STATUS}.get, loop.post))
    assert client.get(where, "/v1/status")["state"] == "active"
    server.stop()


def test_a_path_too_long_for_a_socket_is_said_by_both_ends(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100) / "api.sock"
    for use in (lambda: api.listen(long), lambda: client.get(long, "/v1/status")):
        with pytest.raises(FileError, match=r"may have 107") as caught:
            use()
        assert "--run-dir" in caught.value.hint


def test_nothing_there_is_not_running(tmp_path: Path) -> None:
    with pytest.raises(NotRunning, match=r"nope\.sock"):
        client.get(tmp_path / "nope.sock", "/v1/status")


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\0\xff" * 100,
        b"GET\r\n\r\n",
        b"GET /v1/status HTTP/9.9\r\n\r\n",
        b"GET " + b"/" * 100_000 + b" HTTP/1.0\r\n\r\n",
        b"POST /v1/pause HTTP/1.0\r\nContent-Length: 99999999999\r\n\r\n",
    ],
    ids=["nothing", "binary", "half", "version", "huge", "length"],
)
def test_garbage_does_not_stop_it(path: Path, garbage: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(str(path))
        # The server may close before it has read all.
        with contextlib.suppress(ConnectionError):
            sock.sendall(garbage)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass
    assert client.get(path, "/v1/status")["state"] == "active"


def test_one_that_asks_too_slowly_is_hung_up_on(
    monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    monkeypatch.setattr(webserver, "CLIENT_S_MAX", 0.0)
    with connected(path) as sock, contextlib.suppress(ConnectionError):
        sock.sendall(b"GET /v1/status HT")
        assert sock.recv(100) == b""
    monkeypatch.undo()
    assert client.get(path, "/v1/status")["state"] == "active"


def connected(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(30)
    sock.connect(str(path))
    return sock


def test_a_request_in_pieces_is_one(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(str(path))
        for piece in (b"GET /v1/sta", b"tus HTTP/1.0\r", b"\nHost: x\r\n\r", b"\n"):
            sock.sendall(piece)
        assert sock.makefile("rb").read().startswith(b"HTTP/1.1 200 OK")


@dataclass
class Frozen:
    """A loop that has stopped: commands wait for it."""

    events: "queue.Queue[Event]" = field(default_factory=queue.Queue)

    def post(self, event: Event) -> bool:
        self.events.put(event)
        return True


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[tuple[Path, Frozen]]:
    where, stopped = tmp_path / "api.sock", Frozen()
    server = api.serve(where, Sources({"/v1/status": STATUS}.get, stopped.post))
    yield where, stopped
    server.stop()


def test_a_command_is_wanted_for_as_long_as_its_client_waits(frozen: tuple[Path, Frozen]) -> None:
    where, stopped = frozen
    with connected(where) as sock:
        sock.sendall(b"POST /v1/pause HTTP/1.0\r\n\r\n")
        event = stopped.events.get(timeout=30)
        # A client that has ended its request may still read.
        sock.shutdown(socket.SHUT_WR)
        assert event.wanted()
    assert not event.wanted(), "nobody hears the answer any more"
    event.reply(Answer(0, ""))
    assert client.get(where, "/v1/status")["state"] == "active"


def test_a_command_is_not_wanted_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch, frozen: tuple[Path, Frozen]
) -> None:
    where, stopped = frozen
    monkeypatch.setattr(api, "COMMAND_TIMEOUT_S", 0.01)
    answer = client.post(where, "/v1/pause")
    assert (answer["exit_code"], "no answer" in answer["text"]) == (4, True)
    assert not stopped.events.get(timeout=30).wanted()


def test_who_gives_a_command_hears_that_it_waits_and_then_that_it_is_given_up(
    monkeypatch: pytest.MonkeyPatch, frozen: tuple[Path, Frozen]
) -> None:
    where, stopped = frozen
    told: list[str] = []
    monkeypatch.setattr(client, "SILENT_S_MAX", 0.01)
    monkeypatch.setattr(client, "COMMAND_TIMEOUT_S", 0.1)
    with pytest.raises(client.NoAnswer, match="no answer at") as given_up:
        client.post(where, "/v1/pause", told.append)
    assert len(told) == 1
    assert "not answered yet" in told[0]
    assert "will not carry out the command later" in given_up.value.hint
    assert not stopped.events.get(timeout=30).wanted()


def test_a_queue_that_is_full_for_a_moment_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, loop: Loop
) -> None:
    """The kernel does not let a client wait. It returns EAGAIN."""
    where, waits = tmp_path / "api.sock", []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(where))
    listener.listen(0)
    with contextlib.ExitStack() as held:
        first = held.enter_context(socket.socket(socket.AF_UNIX))
        first.connect(str(where))
        last = held.enter_context(socket.socket(socket.AF_UNIX))
        last.setblocking(False)
        with pytest.raises(BlockingIOError):
            last.connect(str(where))

        def serve(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                sources = Sources({"/v1/status": STATUS}.get, loop.post)
                held.callback(api.answering(listener, sources).stop)
            # Lets the server's thread run.
            time.sleep(seconds)

        monkeypatch.setattr(client, "time", Slept(serve))
        assert client.get(where, "/v1/status")["state"] == "active"
    assert len(waits) >= 3


@dataclass
class Slept:
    """The clock of the client, with another sleep."""

    sleep: Callable[[float], None]

    def monotonic(self) -> float:
        return time.monotonic()


def test_half_a_command_is_none(path: Path, loop: Loop) -> None:
    """A client that closes within a request has asked for nothing."""
    with connected(path) as sock:
        sock.sendall(b"POST /v1/pause HTTP/1.1\r\nX-Slow: ")
        sock.shutdown(socket.SHUT_WR)
        assert b"400 Bad Request" in sock.makefile("rb").read()
    assert loop.asked == []


def test_two_hundred_silent_clients_hold_up_nobody_and_take_no_thread(path: Path) -> None:
    threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208 - a count
    with contextlib.ExitStack() as held:
        for number in range(200):
            sock = held.enter_context(connected(path))
            # Half of them begin a request and never end it.
            if number % 2:
                sock.sendall(b"POST /v1/reload HTTP/1.1\r\nX-Slow: ")
        assert client.get(path, "/v1/status")["state"] == "active"
        assert len(os.listdir("/proc/self/task")) <= threads  # noqa: PTH208
        assert client.post(path, "/v1/pause")["exit_code"] == 0


def test_those_who_take_no_answer_hold_up_nobody(tmp_path: Path, loop: Loop) -> None:
    where = tmp_path / "api.sock"
    documents = {"/v1/status": STATUS, "/v1/recent": json.dumps("x" * 500_000)}
    server = api.serve(where, Sources(documents.get, loop.post))
    with contextlib.ExitStack() as held:
        # Twice the buffer of a socket (212,992 bytes), so that no client gets all of it.
        for _ in range(200):
            held.enter_context(connected(where)).sendall(b"GET /v1/recent HTTP/1.1\r\n\r\n")
        assert client.get(where, "/v1/status")["state"] == "active"
    server.stop()


def test_commands_that_wait_for_the_loop_are_few_and_hold_up_no_reader(tmp_path: Path) -> None:
    """The loop is busy, but its late answers still arrive."""
    waiting: list[Event] = []

    def post(event: Event) -> bool:
        waiting.append(event)
        return True

    where = tmp_path / "api.sock"
    server = api.serve(where, Sources({"/v1/status": STATUS}.get, post))
    with contextlib.ExitStack() as held:
        asking = [held.enter_context(connected(where)) for _ in range(WAITING_MAX)]
        for sock in asking:
            sock.sendall(b"POST /v1/pause HTTP/1.1\r\n\r\n")
        # A later command is refused at once, when the first ones have been taken.
        assert client.post(where, "/v1/pause")["exit_code"] == 75
        assert client.get(where, "/v1/status")["state"] == "active"
        while len(waiting) < WAITING_MAX:
            threading.Event().wait(0.01)
        for event in waiting:
            event.reply(Answer(0, "done at last"))
        for sock in asking:
            assert b"done at last" in sock.makefile("rb").read()
    server.stop()


# A group that exists on every machine.
A_GROUP = "daemon"

ASK = """
import os, sys
from pathlib import Path
from tierd.serving import client
# The interpreter itself may be root's alone, so that rights are given up here.
os.setgroups([int(gid) for gid in sys.argv[2:]])
os.setgid(65534)
os.setuid(65534)
print(client.get(Path(sys.argv[1]), "/v1/status")["state"])
print(client.post(Path(sys.argv[1]), "/v1/pause"))
"""


def asks_as(path: Path, *groups: int) -> "subprocess.CompletedProcess[str]":
    """Ask as the user nobody with these groups, and return the output."""
    argv = [sys.executable, "-c", ASK, str(path), *map(str, groups)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as somebody else")
def test_the_group_may_read_root_may_command_and_others_neither(
    monkeypatch: pytest.MonkeyPatch, loop: Loop
) -> None:
    monkeypatch.setattr(api, "READERS", A_GROUP)
    with tempfile.TemporaryDirectory(prefix="tierd-api.") as folder:
        Path(folder).chmod(0o755)
        where = Path(folder) / "api.sock"
        server = api.serve(where, Sources({"/v1/status": STATUS}.get, loop.post))
        member = asks_as(where, grp.getgrnam(A_GROUP).gr_gid)
        assert member.stdout == "active\n"
        assert "commands need root" in member.stderr
        other = asks_as(where)
        assert other.stdout == ""
        assert "no permission to talk to" in other.stderr
        assert loop.asked == []
        assert client.post(where, "/v1/pause")["exit_code"] == 0
        server.stop()


@pytest.mark.parametrize("method", [b"PUT", b"DELETE", b"HEAD"])
def test_only_a_post_is_a_command(path: Path, loop: Loop, method: bytes) -> None:
    with connected(path) as sock:
        sock.sendall(method + b" /v1/pause HTTP/1.1\r\n\r\n")
        assert b" 405 " in sock.makefile("rb").readline()
    assert loop.asked == []


def test_root_may_command_whoever_the_daemon_is(
    monkeypatch: pytest.MonkeyPatch, path: Path, loop: Loop
) -> None:
    """Root may command the daemon of another user. Other users may not."""
    as_other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: as_other)
    if os.getuid() == 0:
        assert client.post(path, "/v1/pause")["exit_code"] == 0
    else:
        with pytest.raises(client.NoAnswer):
            client.post(path, "/v1/pause")
    assert loop.asked == ([Verb.pause] if os.getuid() == 0 else [])


def test_where_nothing_can_be_made_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="No such file") as caught:
        api.listen(tmp_path / "nope" / "api.sock")
    assert "--run-dir" in caught.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_socket_stays_ours_and_is_its_groups_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(api, "READERS", A_GROUP)
    where = tmp_path / "api.sock"
    api.listen(where).close()
    found = where.stat()
    assert (found.st_uid, found.st_gid) == (0, grp.getgrnam(A_GROUP).gr_gid)


def test_what_has_stopped_leaves_neither_a_socket_nor_a_thread(tmp_path: Path, loop: Loop) -> None:
    where, before = tmp_path / "api.sock", set(threading.enumerate())
    server = api.serve(where, Sources({"/v1/status": STATUS}.get, loop.post))
    assert client.get(where, "/v1/status")["state"] == "active"
    started = set(threading.enumerate()) - before
    server.stop()
    assert not where.exists()
    for thread in started:
        thread.join(30)
    assert started
    assert not any(thread.is_alive() for thread in started)
    # Somebody may have removed the socket.
    gone = api.serve(where, Sources({"/v1/status": STATUS}.get, loop.post))
    where.unlink()
    gone.stop()
