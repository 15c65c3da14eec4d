"""The API: HTTP over a unix socket, with answers from the last snapshot.

Rules of this file: a GET reads no kernel file and does not wait for the loop. A command (POST) is
handed to the loop, which answers it within a limited time. Only root may give commands; the server
checks the credentials of the client process. `webserver` protects against slow, large or faulty
requests.
"""

import grp
import json
import os
import queue
import select
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

from tierd.frozen import dataclass
from tierd.record.rundir import FileError, socket_address
from tierd.serving import webserver
from tierd.serving.inbox import Answer, Event, Verb
from tierd.serving.webserver import BACKLOG_MAX, Page, Reply, WebServer

# A command makes a new plan and commits it. On Linux 6.12 a commit takes an aggregation for each
# kdamond, and `off` waits for a kernel thread. systemd gives a unit 90 s, which is well above.
COMMAND_TIMEOUT_S = 60.0

# Members of this group may read the status; the packages create it.
READERS = "tierd"

BUSY = Answer(75, "too many commands are waiting: try again")

COMMANDS = {f"/v1/{verb}": verb for verb in (Verb.reload, Verb.pause, Verb.resume)}


@dataclass(frozen=True, slots=True)
class Sources:
    """What the API needs: the documents by path, and a function that gives the loop a command."""

    documents: Callable[[str], str | None]
    """Returns the JSON text at a path such as /v1/status; None if there is no such path."""
    post: Callable[[Event], bool]


def respond(head: bytes, sock: socket.socket, sources: Sources) -> Reply:
    """Return the answer to a request, or a function that gets the answer from the loop."""
    found = webserver.asked(head)
    if found is None:
        return _refused(HTTPStatus.BAD_REQUEST, "this is not an HTTP request")
    method, path = found
    if method == b"GET":
        text = sources.documents(path)
        if text is None:
            known = "/v1/status, /v1/plan, /v1/recent"
            return _refused(HTTPStatus.NOT_FOUND, f"there is no {path}; there are: {known}")
        return _written(HTTPStatus.OK, text)
    verb = COMMANDS.get(path)
    if method != b"POST":
        return _refused(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and POST are allowed")
    if verb is None:
        return _refused(
            HTTPStatus.NOT_FOUND, f"there is no {path}; there are: {', '.join(COMMANDS)}"
        )
    if not _may_command(sock):
        return _refused(HTTPStatus.FORBIDDEN, "commands need root")
    return lambda: _answered(ask(sources.post, verb, lambda: not _hung_up(sock)))


def _may_command(sock: socket.socket) -> bool:
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _pid, uid, _gid = struct.unpack("3i", raw)
    return uid in (0, os.geteuid())


def _hung_up(sock: socket.socket) -> bool:
    """True if the client has closed the connection, and not only its sending half."""
    poll = select.poll()
    try:
        poll.register(sock, 0)
    except (OSError, ValueError):
        # Our end is closed already.
        return True
    return any(found & select.POLLHUP for _, found in poll.poll(0))


def _answered(answer: Answer) -> bytes:
    document = {"exit_code": answer.exit_code, "text": answer.text}
    return _written(HTTPStatus.OK, json.dumps(document))


def _refused(status: HTTPStatus, text: str) -> bytes:
    return _written(status, json.dumps({"error": text}))


def _written(status: HTTPStatus, text: str) -> bytes:
    return webserver.written(Page((text + "\n").encode(), "application/json", status))


def ask(post: Callable[[Event], bool], verb: Verb, waits: Callable[[], bool]) -> Answer:
    """Give the loop a command, and wait for its answer for a limited time.

    The loop skips a command whose client waits no longer: the user may want the opposite by now.
    """
    answers: queue.Queue[Answer] = queue.Queue(1)
    until_s = time.monotonic() + COMMAND_TIMEOUT_S

    def wanted() -> bool:
        return time.monotonic() < until_s and waits()

    if not waits() or not post(Event(verb, "api", answers.put, wanted)):
        return BUSY
    try:
        return answers.get(timeout=COMMAND_TIMEOUT_S)
    except queue.Empty:
        return Answer(4, f"no answer within {COMMAND_TIMEOUT_S:.0f} s; see `tierd status`")


@dataclass(frozen=True, slots=True)
class Server:
    """The running API, and the path of its socket."""

    path: Path
    inner: WebServer

    def stop(self) -> None:
        """Accept no more requests, and remove the socket."""
        self.inner.stop()
        # If the socket stays, nobody listens at it, and the next start replaces it.
        with suppress(OSError):
            self.path.unlink(missing_ok=True)


def listen(path: Path, mode: int = 0o660) -> socket.socket:
    """Return a listening socket at the path; one that a killed tierd has left is replaced."""
    address = socket_address(path)
    listener = socket.socket(socket.AF_UNIX)
    try:
        path.unlink(missing_ok=True)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise FileError(
            f"cannot listen on {path}: {error.strerror}", "name another directory with --run-dir"
        ) from error
    path.chmod(mode)
    _open_to_readers(path)
    listener.listen(BACKLOG_MAX)
    return listener


def _open_to_readers(path: Path) -> None:
    """Let the group READERS use the socket. If there is no such group, only root can use it."""
    try:
        gid = grp.getgrnam(READERS).gr_gid
        os.chown(path, -1, gid)
    except (KeyError, PermissionError):
        return


def serve(path: Path, sources: Sources) -> Server:
    """Listen at `path` and answer requests in a thread until `stop()`."""
    return Server(path, answering(listen(path), sources))


def answering(listener: socket.socket, sources: Sources) -> WebServer:
    """Answer requests to the listener in a thread until `stop()`."""

    def reply(head: bytes, sock: socket.socket) -> Reply:
        return respond(head, sock, sources)

    return webserver.start(WebServer(listener, reply, busy=_answered(BUSY)), "api")
