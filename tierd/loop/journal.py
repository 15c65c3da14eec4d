"""Log lines for the journal, with fields to search by: journald's native protocol, by hand.

`journalctl -u tierd TIERD_EVENT=degraded` finds what the loop said under that name; every kind of
event has a MESSAGE_ID of its own. Where stderr is no journal, lines go there as they are.
"""

import logging
import os
import socket
import struct
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path

STDERR = 2
SOCKET = Path("/run/systemd/journal/socket")

# The ids of our kinds of events are made of their names; this is what makes them ours.
EVENTS = uuid.UUID("5f0a3c1e-6a0b-4c43-9d8e-7b1d2f6a9c55")

# syslog(3), by the levels of `logging`.
PRIORITIES = {
    logging.DEBUG: 7,
    logging.INFO: 6,
    logging.WARNING: 4,
    logging.ERROR: 3,
    logging.CRITICAL: 2,
}


def message_id(event: str) -> str:
    """The id of a kind of event: 32 hexadecimal digits, the same for ever."""
    return uuid.uuid5(EVENTS, event).hex


def entry(fields: Mapping[str, str]) -> bytes:
    """One entry: a line per field; a value of several lines goes with its length."""
    parts = []
    for name, value in fields.items():
        raw = value.encode("utf-8", "replace")
        if b"\n" in raw:
            parts.append(name.encode() + b"\n" + struct.pack("<Q", len(raw)) + raw + b"\n")
        else:
            parts.append(name.encode() + b"=" + raw + b"\n")
    return b"".join(parts)


def reads_stderr(environ: Mapping[str, str], stderr: int) -> bool:
    """Whether the journal is at the other end of stderr (systemd.exec(5), $JOURNAL_STREAM)."""
    found = os.fstat(stderr)
    return environ.get("JOURNAL_STREAM", "") == f"{found.st_dev}:{found.st_ino}"


class JournalHandler(logging.Handler):
    """Sends records to the journal; to stderr those that it will not take."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)

    def emit(self, record: logging.LogRecord) -> None:
        fields = {
            "MESSAGE": record.getMessage(),
            "PRIORITY": str(PRIORITIES.get(record.levelno, 6)),
            "SYSLOG_IDENTIFIER": "tierd",
        }
        event = getattr(record, "event", None)
        if event is not None:
            fields |= {"TIERD_EVENT": event, "MESSAGE_ID": message_id(event)}
        try:
            self._socket.sendto(entry(fields), self._path)
        except OSError:
            sys.stderr.write(f"<{fields['PRIORITY']}>tierd: {record.getMessage()}\n")

    def close(self) -> None:
        self._socket.close()
        super().close()


def handler() -> logging.Handler:
    """Where this process's log goes."""
    if reads_stderr(os.environ, STDERR) and SOCKET.exists():
        return JournalHandler(SOCKET)
    made = logging.StreamHandler(sys.stderr)
    made.setFormatter(logging.Formatter("tierd: %(message)s"))
    return made
