"""The API: HTTP over a unix socket, served from the last snapshot by threads of its own.

Rules of this file: reading never touches the kernel and never waits for the loop; commands are
handed to the loop and answered by it, within a bound; only root may command (peer credentials);
a slow, huge or mad client costs one bounded thread for a bounded time.
"""

import contextlib
import grp
import io
import json
import os
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer
from typing import ClassVar

from tierd import __version__
from tierd.inbox import Answer, Event, Verb
from tierd.rundir import FileError

# A client that sends or takes nothing for this long is gone.
CLIENT_TIMEOUT_S = 5.0

# Answers are built from one snapshot in about a millisecond, so a few threads serve hundreds a
# second; the next client waits in the listen queue.
THREADS_MAX = 4

# A command replans and commits, which on 6.12 takes an aggregation per kdamond; `off` waits for
# a kernel thread. Well inside the unit's 90 s start limit.
COMMAND_TIMEOUT_S = 60.0

# The requests are a line and a few headers, which whoever asks sends at once. All of it counts,
# from the first byte on: one that drips a byte at a time would else hold a thread for ever.
HEAD_BYTES_MAX = 8192
HEAD_S_MAX = 2.0
HEAD_END = b"\r\n\r\n"

# Whose members may read the status; packages create it.
READERS = "tierd"

COMMANDS = {f"/v1/{verb}": verb for verb in (Verb.reload, Verb.pause, Verb.resume)}


@dataclass(frozen=True, slots=True)
class Sources:
    """What the API answers from: the documents by path, and a way to hand over a command."""

    documents: Callable[[str], str | None]
    """The JSON text at a path such as /v1/status; None if there is no such path."""
    post: Callable[[Event], bool]


class Handler(BaseHTTPRequestHandler):
    """One request. HTTP/1.0: each connection is one question and one answer."""

    server_version = f"tierd/{__version__}"
    timeout: ClassVar[float | None] = CLIENT_TIMEOUT_S

    def setup(self) -> None:
        super().setup()
        head = read_head(self.connection, time.monotonic() + HEAD_S_MAX)
        self.connection.settimeout(CLIENT_TIMEOUT_S)
        self.rfile = io.BytesIO(head)

    def do_GET(self) -> None:
        text = self._sources().documents(self.path)
        if text is None:
            known = "/v1/status, /v1/plan, /v1/recent"
            self._refuse(HTTPStatus.NOT_FOUND, f"there is no {self.path}; there are: {known}")
            return
        self._send(HTTPStatus.OK, text)

    def do_POST(self) -> None:
        verb = COMMANDS.get(self.path)
        if verb is None:
            self._refuse(HTTPStatus.NOT_FOUND, f"there are: {', '.join(COMMANDS)}")
        elif not self._may_command():
            self._refuse(HTTPStatus.FORBIDDEN, "commands need root")
        else:
            answer = ask(self._sources().post, verb)
            self._send(
                HTTPStatus.OK, json.dumps({"exit_code": answer.exit_code, "text": answer.text})
            )

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not news; the loop logs what it was asked to do."""

    def address_string(self) -> str:
        return "unix"

    def _sources(self) -> Sources:
        assert isinstance(self.server, Server)
        return self.server.sources

    def _may_command(self) -> bool:
        raw = self.connection.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
        )
        _pid, uid, _gid = struct.unpack("3i", raw)
        return uid in (0, os.geteuid())

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        self._send(status, json.dumps({"error": text}))

    def _send(self, status: HTTPStatus, text: str) -> None:
        body = (text + "\n").encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def read_head(sock: socket.socket, until_s: float) -> bytes:
    """What a client sends, to the end of its headers; TimeoutError if that takes too long."""
    heard = b""
    while HEAD_END not in heard and len(heard) <= HEAD_BYTES_MAX:
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("too slow")
        sock.settimeout(left_s)
        chunk = sock.recv(HEAD_BYTES_MAX)
        if not chunk:
            break
        heard += chunk
    return heard


def ask(post: Callable[[Event], bool], verb: Verb) -> Answer:
    """Hand the verb to the loop and wait for its answer, not for ever."""
    answers: queue.Queue[Answer] = queue.Queue(1)
    if not post(Event(verb, "api", answers.put)):
        return Answer(75, "too many commands wait already: try again")
    try:
        return answers.get(timeout=COMMAND_TIMEOUT_S)
    except queue.Empty:
        return Answer(4, f"no answer within {COMMAND_TIMEOUT_S:.0f} s; see `tierd status`")


class Server(UnixStreamServer):
    """A unix-socket server with a bounded number of threads, each serving one client at a time."""

    request_queue_size = 128

    def __init__(self, path: Path, sources: Sources) -> None:
        self.sources = sources
        self._slots = threading.BoundedSemaphore(THREADS_MAX)
        path.unlink(missing_ok=True)
        try:
            super().__init__(str(path), Handler)
        except OSError as error:
            raise FileError(
                f"cannot listen on {path}: {error.strerror}", "use --run-dir"
            ) from error
        path.chmod(0o660)
        _open_to_readers(path)

    def accept_for_ever(self) -> None:
        """Serve until the socket is shut down. A blocking accept: an idle API costs no wake-up."""
        while True:
            try:
                request, address = self.socket.accept()
            except OSError:
                return
            self.process_request(request, address)

    def stop(self) -> None:
        """Accept no more, and remove the socket."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.server_close()
        Path(str(self.server_address)).unlink(missing_ok=True)

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]  # typeshed has the datagram half too
        self._slots.acquire()
        threading.Thread(
            target=self._serve_one, args=(request, client_address), daemon=True
        ).start()

    def _serve_one(self, request: socket.socket, client_address: object) -> None:
        try:
            # A client that went away mid-answer is its own affair.
            with contextlib.suppress(OSError):
                self.finish_request(request, client_address)
        finally:
            self.shutdown_request(request)
            self._slots.release()


def _open_to_readers(path: Path) -> None:
    """Its group may ask; where there is none, or we may not give it away, only root may."""
    try:
        gid = grp.getgrnam(READERS).gr_gid
        os.chown(path, -1, gid)
    except (KeyError, PermissionError):
        return


def serve(path: Path, sources: Sources) -> Server:
    """Listen at `path` and answer in the background until `stop()`."""
    server = Server(path, sources)
    threading.Thread(target=server.accept_for_ever, name="api", daemon=True).start()
    return server
