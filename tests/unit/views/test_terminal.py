"""The width of a terminal, and when colour is used."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures import machines
from tests.fixtures.snapshots import SNAPSHOT
from tierd.doctor.findings import Verdict
from tierd.record.snapshot import State, document
from tierd.serving import api
from tierd.serving.api import Sources
from tierd.views import statusview, terminal

GREEN_OK = "\x1b[32mok\x1b[0m"


class Tty(io.StringIO):
    """A text stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("said", "columns"), [("80", 80), ("10", 60), ("999", 200), ("wide", 80), ("0", 80), ("", 80)]
)
def test_width(said: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", said)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert terminal.columns() == columns


@pytest.mark.parametrize(
    ("environment", "refused", "stdout", "colour"),
    [
        ({"TERM": "xterm"}, False, Tty(), True),
        ({"TERM": "xterm", "NO_COLOR": ""}, False, Tty(), True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False, Tty(), False),
        ({"TERM": "xterm"}, True, Tty(), False),
        ({"TERM": "dumb"}, False, Tty(), False),
        ({}, False, Tty(), False),
        ({"TERM": "xterm"}, False, io.StringIO(), False),
    ],
)
def test_who_gets_colour(
    environment: dict[str, str],
    refused: bool,
    stdout: io.StringIO,
    colour: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("TERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", stdout)
    assert terminal.has_colour(refused) is colour


def test_a_verdict_is_painted_where_a_line_begins_with_it() -> None:
    plain = "ok    TD001 is ok\nokay\n  ok\nACTIVE: all is well\n!! waiting"
    assert terminal.painted(plain) == (
        f"{GREEN_OK}    TD001 is ok\nokay\n  ok\n\x1b[32mACTIVE\x1b[0m: all is well\n"
        "\x1b[33m!!\x1b[0m waiting"
    )


def test_every_verdict_has_its_colour() -> None:
    assert {state.value.upper() for state in State} <= terminal.VERDICTS.keys()
    assert {verdict.value for verdict in Verdict} <= terminal.VERDICTS.keys()
    assert statusview.text(document(SNAPSHOT), 0.0, 80).partition(":")[0] in terminal.VERDICTS


def in_a_terminal(words: str, folder: Path) -> str:
    """Return what a command writes to a terminal."""
    ours, theirs = os.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "tierd", *words.split(), "--run-dir", str(folder)],
        stdout=theirs,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": ""},
        check=False,
        timeout=60,
    )
    os.close(theirs)
    assert done.returncode in (0, 4, 69)
    written = os.read(ours, 65_536).decode()
    os.close(ours)
    return written


def test_the_commands_ask_for_it(tmp_path: Path) -> None:
    machines.unpack(machines.load("two-tier-7.2").sysfs, tmp_path / "root")
    answer = json.dumps(document(SNAPSHOT))
    server = api.serve(
        tmp_path / "api.sock", Sources({"/v1/status": answer}.get, lambda _event: False)
    )
    try:
        assert in_a_terminal("status", tmp_path).startswith("\x1b[31mSTUCK\x1b[0m:")
        assert in_a_terminal("status --no-color", tmp_path).startswith("STUCK:")
    finally:
        server.stop()
    doctor = f"doctor --root {tmp_path}/root"
    assert GREEN_OK in in_a_terminal(doctor, tmp_path)
    assert "\x1b" not in in_a_terminal(f"{doctor} --no-color", tmp_path)
