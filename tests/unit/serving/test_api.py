"""The API over a real unix socket: what it answers, refuses and survives."""

import contextlib
import grp
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tierd.errors import NotRunning
from tierd.serving import api, client, webserver
from tierd.serving.api import Sources
from tierd.serving.inbox import Answer, Event, Verb
from tierd.serving.webserver import WAITING_MAX

STATUS = '{"schema": "tierd.status/1", "state": "active"}'


@dataclass
class Loop:
    """Answers every command at once, as the loop would; `full` makes it refuse."""

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
        # It may well hang up before it has heard all.
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


def test_half_a_command_is_none(path: Path, loop: Loop) -> None:
    """Who hangs up amid a request has asked for nothing."""
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
            # Half of them have begun to ask, and never end.
            if number % 2:
                sock.sendall(b"POST /v1/reload HTTP/1.1\r\nX-Slow: ")
        assert client.get(path, "/v1/status")["state"] == "active"
        assert len(os.listdir("/proc/self/task")) <= threads  # noqa: PTH208
        assert client.post(path, "/v1/pause")["exit_code"] == 0


def test_those_who_take_no_answer_hold_up_nobody(tmp_path: Path, loop: Loop) -> None:
    where = tmp_path / "api.sock"
    documents = {"/v1/status": STATUS, "/v1/recent": json.dumps("x" * 4_000_000)}
    server = api.serve(where, Sources(documents.get, loop.post))
    with contextlib.ExitStack() as held:
        for _ in range(200):
            held.enter_context(connected(where)).sendall(b"GET /v1/recent HTTP/1.1\r\n\r\n")
        assert client.get(where, "/v1/status")["state"] == "active"
    server.stop()


def test_commands_that_wait_for_the_loop_are_few_and_hold_up_no_reader(tmp_path: Path) -> None:
    """The loop is busy; what it answers in the end still arrives."""
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
        # One that came later is answered at once, when those before it have been taken in.
        assert client.post(where, "/v1/pause")["exit_code"] == 75
        assert client.get(where, "/v1/status")["state"] == "active"
        while len(waiting) < WAITING_MAX:
            threading.Event().wait(0.01)
        for event in waiting:
            event.reply(Answer(0, "done at last"))
        for sock in asking:
            assert b"done at last" in sock.makefile("rb").read()
    server.stop()


# One that every machine has.
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
    """What nobody hears, with the rights of these groups."""
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
