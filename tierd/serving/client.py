"""The other end of the API: one question over the unix socket, one answer, within a bound."""

import json
import socket
from pathlib import Path
from typing import Any

from tierd.errors import ExitCode, NotRunning, TierdError

# `status` answers from a snapshot; ten seconds mean that the daemon is stuck, which is worth
# saying. Commands wait for the loop, and the daemon bounds that itself.
READ_TIMEOUT_S = 10.0
COMMAND_TIMEOUT_S = 70.0
ANSWER_BYTES_MAX = 16 << 20


class NoAnswer(TierdError):
    """The daemon is there but did not answer as it should."""

    exit_code = ExitCode.unknown


def get(path: Path, what: str) -> dict[str, Any]:
    """The JSON document at `what`, for example /v1/status."""
    return _ask(path, f"GET {what}", READ_TIMEOUT_S)


def post(path: Path, what: str) -> dict[str, Any]:
    """Give a command, for example /v1/reload."""
    return _ask(path, f"POST {what}", COMMAND_TIMEOUT_S)


def _ask(path: Path, request: str, timeout_s: float) -> dict[str, Any]:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(timeout_s)
            sock.connect(str(path))
            sock.sendall(f"{request} HTTP/1.0\r\n\r\n".encode())
            raw = _read_all(sock)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NotRunning(
            f"tierd is not running (nothing answers at {path})",
            "start it with `systemctl start tierd`, or in the foreground with `tierd run`",
        ) from error
    except PermissionError as error:
        raise NoAnswer(f"no permission to talk to {path}", "ask as root or in its group") from error
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


def _read_all(sock: socket.socket) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while size < ANSWER_BYTES_MAX and (chunk := sock.recv(65536)):
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)
