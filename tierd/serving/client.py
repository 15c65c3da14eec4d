"""The client of the API: send one request over the unix socket, and wait for the answer."""

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tierd.errors import ExitCode, NotRunning, TierdError
from tierd.record.rundir import socket_address

# A GET is answered from a snapshot, in milliseconds: after 10 s the daemon is stuck. A command
# waits for the loop, for at most 60 s by the daemon's own bound; the client waits a little longer.
READ_TIMEOUT_S = 10.0
COMMAND_TIMEOUT_S = 70.0
ANSWER_BYTES_MAX = 16 << 20

# A command takes 1 s or 2 s. After this time the user is told that the command still waits.
SILENT_S_MAX = 3.0

# Many clients at once fill the queue of a unix socket for some milliseconds. Then the kernel
# refuses the next one at once (EAGAIN), so the client has to try again.
QUEUE_FULL_S_MAX = 5.0
QUEUE_FULL_WAIT_S = 0.05


WAITING = f"waiting for at most {COMMAND_TIMEOUT_S:.0f} s (give up with Ctrl-C)"
GIVEN_UP_READING = "tierd hangs or was stopped: see `journalctl -u tierd`"
GIVEN_UP_COMMANDING = (
    "tierd hangs or was stopped; it will not carry out the command later: see `tierd status` and "
    "`journalctl -u tierd`"
)


class NoAnswer(TierdError):
    """The daemon runs, but gave no answer or an answer that is not valid."""

    exit_code = ExitCode.unknown


def get(path: Path, what: str) -> dict[str, Any]:
    """Return the JSON document at `what`, for example /v1/status."""
    return _ask(path, f"GET {what}", READ_TIMEOUT_S, lambda _text: None, GIVEN_UP_READING)


def post(
    path: Path, what: str, waits: Callable[[str], None] = lambda _text: None
) -> dict[str, Any]:
    """Give a command, for example /v1/reload; `waits` is called once if the answer takes long.

    If the client gives up, the command is not carried out: the daemon checks that somebody waits.
    """
    return _ask(path, f"POST {what}", COMMAND_TIMEOUT_S, waits, GIVEN_UP_COMMANDING)


def _ask(
    path: Path, request: str, timeout_s: float, waits: Callable[[str], None], given_up: str
) -> dict[str, Any]:
    address, until_s = socket_address(path), time.monotonic() + timeout_s
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(timeout_s)
            _connect(sock, address)
            sock.sendall(f"{request} HTTP/1.0\r\n\r\n".encode())
            raw = _read_all(sock, until_s, lambda: waits(f"tierd has not answered yet; {WAITING}"))
    except TimeoutError as error:
        raise NoAnswer(f"no answer at {path} within {timeout_s:.0f} s", given_up) from error
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NotRunning(
            f"the daemon is not running (nothing answers at {path})",
            "start it with `systemctl start tierd`, or in the foreground with `tierd run`",
        ) from error
    except PermissionError as error:
        raise NoAnswer(
            f"no permission to talk to {path}", "run it as root, or join the group `tierd`"
        ) from error
    except OSError as error:
        raise NoAnswer(f"no answer at {path}: {error}", "see `journalctl -u tierd`") from error
    head, _, body = raw.partition(b"\r\n\r\n")
    try:
        document = json.loads(body)
    except ValueError as error:
        raise NoAnswer(f"{path} answered {head[:80]!r}, which is not tierd's API") from error
    if not isinstance(document, dict) or "error" in document:
        raise NoAnswer(f"{request}: {document.get('error', document)}")
    return document


def _connect(sock: socket.socket, address: str) -> None:
    """Return a connection to the socket; try again while the queue of the socket is full."""
    for _ in range(int(QUEUE_FULL_S_MAX / QUEUE_FULL_WAIT_S)):
        try:
            return sock.connect(address)
        except BlockingIOError:
            time.sleep(QUEUE_FULL_WAIT_S)
    return sock.connect(address)


def _read_all(sock: socket.socket, until_s: float, waits: Callable[[], None]) -> bytes:
    """Return the answer. Raise TimeoutError if it is not complete by `until_s`."""
    chunks: list[bytes] = []
    size, told = 0, False
    while size < ANSWER_BYTES_MAX:
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        sock.settimeout(left_s if told else min(left_s, SILENT_S_MAX))
        try:
            chunk = sock.recv(65536)
        except TimeoutError:
            if not told:
                told = True
                waits()
            continue
        if not chunk:
            break
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)
