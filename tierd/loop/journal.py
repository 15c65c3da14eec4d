"""Send log lines to the journal, with fields to search by (the native protocol of journald).

`journalctl -u tierd TIERD_EVENT=degraded` finds the events of that name. Every kind of event has a
MESSAGE_ID. If stderr is not the journal, lines go to stderr as they are.
"""

import logging
import os
import socket
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

from tierd.digest import sha1
from tierd.views.visible import visible

STDERR = 2
SOCKET = Path("/run/systemd/journal/socket")

# The namespace of the ids of our events. An id is made from it and the name of the event.
EVENTS = bytes.fromhex("5f0a3c1e6a0b4c439d8e7b1d2f6a9c55")

# syslog(3), by the levels of `logging`.
PRIORITIES = {
    logging.DEBUG: 7,
    logging.INFO: 6,
    logging.WARNING: 4,
    logging.ERROR: 3,
    logging.CRITICAL: 2,
}


def message_id(event: str) -> str:
    """Return the id of a kind of event: 32 hexadecimal digits that never change.

    It is a UUID of version 5. The module `uuid` would load OpenSSL for it.
    """
    digest = bytearray(sha1(EVENTS + event.encode())[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    return digest.hex()


def entry(fields: Mapping[str, str]) -> bytes:
    """Return one entry: a line per field. A value of several lines is sent with its length."""
    parts = []
    for name, value in fields.items():
        raw = value.encode("utf-8", "replace")
        if b"\n" in raw:
            parts.append(name.encode() + b"\n" + struct.pack("<Q", len(raw)) + raw + b"\n")
        else:
            parts.append(name.encode() + b"=" + raw + b"\n")
    return b"".join(parts)


def reads_stderr(environ: Mapping[str, str], stderr: int) -> bool:
    """True if stderr is connected to the journal (systemd.exec(5), $JOURNAL_STREAM)."""
    found = os.fstat(stderr)
    return environ.get("JOURNAL_STREAM", "") == f"{found.st_dev}:{found.st_ino}"


class JournalHandler(logging.Handler):
    """Sends records to the journal, or to stderr if the journal refuses them."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)

    def emit(self, record: logging.LogRecord) -> None:
        message = visible(record.getMessage())
        fields = {
            "MESSAGE": message,
            "PRIORITY": str(PRIORITIES.get(record.levelno, 6)),
            "SYSLOG_IDENTIFIER": "tierd",
        }
        event = getattr(record, "event", None)
        if event is not None:
            fields |= {"TIERD_EVENT": event, "MESSAGE_ID": message_id(event)}
        try:
            self._socket.sendto(entry(fields), self._path)
        except OSError:
            sys.stderr.write(f"<{fields['PRIORITY']}>tierd: {message}\n")

    def close(self) -> None:
        self._socket.close()
        super().close()


class _Visible(logging.Formatter):
    """Formats log lines for a terminal: characters that are not printable are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def handler() -> logging.Handler:
    """Return the log handler of this process."""
    if reads_stderr(os.environ, STDERR) and SOCKET.exists():
        return JournalHandler(SOCKET)
    made = logging.StreamHandler(sys.stderr)
    made.setFormatter(_Visible("tierd: %(message)s"))
    return made
