"""Log entries in the format of the journal."""

import logging
import os
import re
import socket
import struct
from pathlib import Path

import pytest

from tierd.loop import journal


def record(text: str, level: int = logging.INFO, **extra: str) -> logging.LogRecord:
    made = logging.LogRecord("tierd", level, "", 0, text, (), None)
    made.__dict__.update(extra)
    return made


def test_an_entry_is_a_line_per_field_and_several_lines_go_with_their_length() -> None:
    assert journal.entry({"MESSAGE": "plain", "PRIORITY": "6"}) == b"MESSAGE=plain\nPRIORITY=6\n"
    text = "one\ntwo"
    assert journal.entry({"MESSAGE": text}) == (
        b"MESSAGE\n" + struct.pack("<Q", len(text)) + b"one\ntwo\n"
    )


def test_a_kind_of_event_keeps_its_id() -> None:
    ids = {journal.message_id(event) for event in ("degraded", "reload", "reload_failed")}
    assert len(ids) == 3
    assert all(re.fullmatch(r"[0-9a-f]{32}", found) for found in ids)
    # Alerts of users may look for this id.
    assert journal.message_id("degraded") == "f800534d2a7052549a6a775cb1c948ba"


def test_an_event_can_be_searched_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(30)
        listening.bind(str(path))
        handler = journal.JournalHandler(path)
        handler.emit(record("degraded: why", logging.WARNING, event="degraded"))
        heard = listening.recv(4096).decode().splitlines()
        handler.close()
    assert "MESSAGE=degraded: why" in heard
    assert "PRIORITY=4" in heard
    assert "TIERD_EVENT=degraded" in heard
    assert f"MESSAGE_ID={journal.message_id('degraded')}" in heard


def test_without_a_journal_nothing_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = journal.JournalHandler(tmp_path / "gone")
    handler.emit(record("reload_failed: why", logging.ERROR))
    handler.close()
    assert capsys.readouterr().err == "<3>tierd: reload_failed: why\n"


def test_the_journal_reads_stderr_if_it_is_the_file_that_systemd_named(tmp_path: Path) -> None:
    with (tmp_path / "err").open("w") as file:
        found = os.fstat(file.fileno())
        stream = f"{found.st_dev}:{found.st_ino}"
        assert journal.reads_stderr({"JOURNAL_STREAM": stream}, file.fileno())
        assert not journal.reads_stderr({"JOURNAL_STREAM": "1:2"}, file.fileno())
        assert not journal.reads_stderr({}, file.fileno())
