"""The API: HTTP over a unix socket, served from the last snapshot.

Rules of this file: reading never touches the kernel and never waits for the loop; commands are
handed to the loop and answered by it, within a bound; only root may command (peer credentials).
What slow, huge and mad clients cost is the affair of `webserver`.
"""

import grp
import json
import os
import queue
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from tierd.record.rundir import FileError
from tierd.serving import webserver
from tierd.serving.inbox import Answer, Event, Verb
from tierd.serving.webserver import CLIENTS_MAX, Page, Reply, WebServer

# A command replans and commits, which on 6.12 takes an aggregation per kdamond; `off` waits for
# a kernel thread. Well inside the unit's 90 s start limit.
COMMAND_TIMEOUT_S = 60.0

# Whose members may read the status; packages create it.
READERS = "tierd"

BUSY = Answer(75, "too many commands wait already: try again")

COMMANDS = {f"/v1/{verb}": verb for verb in (Verb.reload, Verb.pause, Verb.resume)}


@dataclass(frozen=True, slots=True)
class Sources:
    """What the API answers from: the documents by path, and a way to hand over a command."""

    documents: Callable[[str], str | None]
    """The JSON text at a path such as /v1/status; None if there is no such path."""
    post: Callable[[Event], bool]


def respond(head: bytes, sock: socket.socket, sources: Sources) -> Reply:
    """The answer to a request, or what has the loop make it."""
    found = webserver.asked(head)
    if found is None:
        return _refused(HTTPStatus.BAD_REQUEST, "this is no request")
    method, path = found
    if method == b"GET":
        text = sources.documents(path)
        if text is None:
            known = "/v1/status, /v1/plan, /v1/recent"
            return _refused(HTTPStatus.NOT_FOUND, f"there is no {path}; there are: {known}")
        return _written(HTTPStatus.OK, text)
    verb = COMMANDS.get(path)
    if method != b"POST":
        return _refused(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and POST")
    if verb is None:
        return _refused(HTTPStatus.NOT_FOUND, f"there are: {', '.join(COMMANDS)}")
    if not _may_command(sock):
        return _refused(HTTPStatus.FORBIDDEN, "commands need root")
    return lambda: _answered(ask(sources.post, verb))


def _may_command(sock: socket.socket) -> bool:
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _pid, uid, _gid = struct.unpack("3i", raw)
    return uid in (0, os.geteuid())


def _answered(answer: Answer) -> bytes:
    document = {"exit_code": answer.exit_code, "text": answer.text}
    return _written(HTTPStatus.OK, json.dumps(document))


def _refused(status: HTTPStatus, text: str) -> bytes:
    return _written(status, json.dumps({"error": text}))


def _written(status: HTTPStatus, text: str) -> bytes:
    return webserver.written(Page((text + "\n").encode(), "application/json", status))


def ask(post: Callable[[Event], bool], verb: Verb) -> Answer:
    """Hand the verb to the loop and wait for its answer, not for ever."""
    answers: queue.Queue[Answer] = queue.Queue(1)
    if not post(Event(verb, "api", answers.put)):
        return BUSY
    try:
        return answers.get(timeout=COMMAND_TIMEOUT_S)
    except queue.Empty:
        return Answer(4, f"no answer within {COMMAND_TIMEOUT_S:.0f} s; see `tierd status`")


@dataclass(frozen=True, slots=True)
class Server:
    """The API at work, at a path."""

    path: Path
    inner: WebServer

    def stop(self) -> None:
        """Accept no more, and remove the socket."""
        self.inner.stop()
        self.path.unlink(missing_ok=True)


def listen(path: Path) -> socket.socket:
    """A listening socket at the path, for us and who may read; one left by a dead tierd goes."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise FileError(f"cannot listen on {path}: {error.strerror}", "use --run-dir") from error
    path.chmod(0o660)
    _open_to_readers(path)
    listener.listen(CLIENTS_MAX)
    return listener


def _open_to_readers(path: Path) -> None:
    """Its group may ask; where there is none, or we may not give it away, only root may."""
    try:
        gid = grp.getgrnam(READERS).gr_gid
        os.chown(path, -1, gid)
    except (KeyError, PermissionError):
        return


def serve(path: Path, sources: Sources) -> Server:
    """Listen at `path` and answer in the background until `stop()`."""

    def reply(head: bytes, sock: socket.socket) -> Reply:
        return respond(head, sock, sources)

    inner = WebServer(listen(path), reply, busy=_answered(BUSY))
    return Server(path, webserver.start(inner, "api"))
