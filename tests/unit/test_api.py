"""The API over a real unix socket: what it answers, refuses and survives."""

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tierd import api, client
from tierd.api import Sources
from tierd.errors import NotRunning
from tierd.inbox import Answer, Event, Verb

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
    monkeypatch.setattr(api, "HEAD_S_MAX", 0.0)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(str(path))
        with contextlib.suppress(ConnectionError):
            sock.sendall(b"GET /v1/status HT")
            assert sock.recv(100) == b""
    monkeypatch.undo()
    assert client.get(path, "/v1/status")["state"] == "active"


def test_a_request_in_pieces_is_one(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(str(path))
        for piece in (b"GET /v1/sta", b"tus HTTP/1.0\r", b"\nHost: x\r\n\r", b"\n"):
            sock.sendall(piece)
        assert sock.makefile("rb").read().startswith(b"HTTP/1.0 200")


def test_many_connections_at_once_are_served_with_few_threads(path: Path) -> None:
    waiting = [socket.socket(socket.AF_UNIX) for _ in range(100)]
    for sock in waiting:
        sock.connect(str(path))
    threads = len(os.listdir("/proc/self/task"))  # noqa: PTH208 - a count
    assert threads <= 3 + api.THREADS_MAX
    for sock in waiting:
        sock.close()
    assert client.get(path, "/v1/status")["state"] == "active"
