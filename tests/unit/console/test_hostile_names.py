"""No verb prints a name with control sequences for the terminal as it is.

Users choose the names of their programs and cgroups, and root reads them.
"""

import json
import os
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import machines
from tests.fixtures.snapshots import FRESH
from tierd import cli
from tierd.console.arguments import VERBS
from tierd.doctor import bundle
from tierd.loop import journal, service
from tierd.record.chronicle import Chronicle
from tierd.record.rundir import RunDir
from tierd.record.snapshot import EventStatus, document, look
from tierd.serving import api
from tierd.serving.api import Sources
from tierd.serving.inbox import Answer, Event
from tierd.views import screen
from tierd.views.plots import ASCII

# Sets the window's title, clears the screen, hides text, changes its direction. Not UTF-8.
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b8m\u202ereversed\u2066\x7f" + b"\xff\xfe".decode(
    "utf-8", "surrogateescape"
)
EVIL_NAME = "evil\x1b[2J\u202e".encode() + b"\xff"
EVIL_GROUP = os.fsdecode(EVIL_NAME)

EVIL_FILTER = {"filter_type": "memcg", "matching": True, "memcg_path": "/a\n\x1b[2J\u202eb"}
EVIL_SCHEME = {"action": "migrate_hot", "target_nid": 0, "filters": [EVIL_FILTER]}
EVIL_POLICY = {"kdamonds": [{"contexts": [{"ops": "paddr", "schemes": [EVIL_SCHEME]}]}]}
EVIL_COMMAND = (
    "damo start --damos_action migrate_hot 0 --damos_filter reject memcg '/\x1b[2J\u202e'\n"
)

CLASSES = "cgroups: {mine: {exclude: /evil}}\nmetrics: {address: off}\n"

WORDS = {
    "run": ["run --simulate --for 100ms --config {tmp}/bad.yaml"],
    "observe": ["observe --simulate --for 100ms --config {tmp}/bad.yaml"],
    "plan": [
        f"plan --root {{tmp}}/root --config {{tmp}}/classes.yaml{how}"
        for how in ("", " --writes", " --diff", " --json", " --format damo")
    ],
    "tiers": ["tiers --root {tmp}/root", "tiers --root {tmp}/root --json"],
    "check": ["check {tmp}/bad.yaml"],
    "import": [
        "import {tmp}/bad.yaml",
        "import {tmp}/evil.json",
        "import {tmp}/evil.json --json",
        "import {tmp}/evil.sh",
    ],
    "doctor": ["doctor --root {tmp}/root", "doctor --root {tmp}/root --json"],
    "status": ["status", "status --json"],
    "events": ["events", "events --json"],
    "history": ["history --since 1d"],
    "top": [
        "top",
        "top --root {tmp}/root --config {tmp}/classes.yaml --processes",
        "top --root {tmp}/root --config {tmp}/classes.yaml --processes --json",
    ],
    "why": ["why 0"],
    "reload": ["reload"],
    "pause": ["pause"],
    "resume": ["resume"],
    "record": ["record {tmp}/evil.json --root {tmp}/root"],
    "simulate": ["simulate {tmp}/evil.json", "simulate {tmp}/profile.jsonl --dram 64G"],
    "report": ["report --for 100ms --before {tmp}/evil.json --root {tmp}/root"],
    "restore": ["restore --print --root {tmp}/root"],
    "print": ["print config"],
}

# These must show the name. If not, the test would test nothing.
SHOWS_IT = {
    "plan --root {tmp}/root --config {tmp}/classes.yaml --writes",
    "check",
    "import {tmp}/bad.yaml",
    "import {tmp}/evil.json",
    "import {tmp}/evil.sh",
    "doctor",
    "status",
    "events",
    "why",
    "reload",
    "pause",
    "resume",
}


def with_evil(value: Any) -> Any:
    """Return the document with EVIL at the end of every text."""
    if isinstance(value, dict):
        return {key: with_evil(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [with_evil(one) for one in value]
    return f"{value}{EVIL}" if isinstance(value, str) else value


def evil_status() -> dict[str, Any]:
    good = document(replace(FRESH, degraded=("why",), conflicts=("who",)))
    # A reader needs these to know what to draw.
    kept = {name: good[name] for name in ("schema", "state")}
    schemes = [
        {**with_evil(one), "action": one["action"], "scheme": one["scheme"]}
        for one in good["schemes"]
    ]
    return {**with_evil(good), **kept, "schemes": schemes}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder with a machine that has such a program and cgroup, and a daemon."""
    machines.unpack(machines.load("two-tier-7.2").sysfs, tmp_path / "root")
    process = tmp_path / "root/proc/4711"
    process.mkdir()
    (process / "comm").write_bytes(EVIL_NAME + b"\n")
    (process / "status").write_bytes(
        b"Name:\t" + EVIL_NAME + b"\nVmRSS:\t  999999 kB\nMems_allowed_list:\t0\n"
    )
    (process / "statm").write_text("999999 249999 1 1 0 1 0\n")
    (process / "numa_maps").write_text("7f00 bind:0 anon=9999 N0=99999 kernelpagesize_kB=4\n")
    cgroups = tmp_path / "root/sys/fs/cgroup"
    for group in (cgroups / "evil", cgroups / "evil" / EVIL_GROUP):
        group.mkdir(parents=True)
        (group / "cgroup.procs").touch()
        (group / "memory.current").write_text("4096\n")
    (cgroups / "cgroup.procs").touch()
    (tmp_path / "classes.yaml").write_text(CLASSES)
    (tmp_path / "bad.yaml").write_text('"\\e[2J\\u202e": 1\n')
    (tmp_path / "evil.json").write_text(json.dumps(EVIL_POLICY))
    (tmp_path / "evil.sh").write_text(EVIL_COMMAND)
    (tmp_path / "profile.jsonl").write_text(json.dumps({"schema": EVIL}) + "\n")
    kept = Chronicle(RunDir(tmp_path, tmp_path))
    kept.happened(EventStatus(1.0, "running", EVIL))
    status = evil_status()
    texts = {
        "/v1/status": json.dumps(status),
        "/v1/recent": json.dumps({"looks": [{**look(FRESH), "schemes": status["schemes"]}]}),
    }

    def post(event: Event) -> bool:
        event.reply(Answer(0, EVIL))
        return True

    server = api.serve(tmp_path / "api.sock", Sources(texts.get, post))
    yield tmp_path
    server.stop()


def unseen(text: str) -> list[str]:
    return [
        one for one in text if unicodedata.category(one) in ("Cc", "Cf", "Cs") and one not in "\n\t"
    ]


def test_every_verb_is_among_them() -> None:
    assert WORDS.keys() == VERBS.keys()


@pytest.mark.parametrize("verb", sorted(WORDS))
def test_no_verb_prints_it(verb: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for words in WORDS[verb]:
        run = folder / "run" if verb in ("run", "observe") else folder
        cli.main([*words.format(tmp=folder).split(), "--run-dir", str(run)])
        said = capfd.readouterr()
        assert not unseen(said.out + said.err), words
        if {verb, words} & SHOWS_IT:
            assert "\\u202e" in said.out + said.err, words
        if "--json" in words.split():
            json.loads(said.out)


def test_the_name_of_a_process_is_shown_escaped(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = WORDS["top"][1].format(tmp=folder)
    cli.main([*words.split(), "--run-dir", str(folder)])
    assert "  4711  evil\\u001b[2J\\u202e\\xff\n" in capfd.readouterr().out


def test_a_report_escapes_hostile_names() -> None:
    """A maintainer reads a report in a terminal too."""
    text = bundle.scrubbed(f"{EVIL} payroll", ("payroll",)).decode()
    assert not unseen(text)
    assert text.endswith(" REDACTED")


def test_top_escapes_hostile_names() -> None:
    status = evil_status()
    view = screen.seen(screen.View(), status)
    told = screen.frame(view, FRESH.at, 200, 60, ASCII)
    lost = screen.frame(screen.lost(view, EVIL), FRESH.at, 200, 60, ASCII)
    never = screen.frame(screen.lost(screen.View(), EVIL), FRESH.at, 200, 60, ASCII)
    for frame in (told, lost, never):
        assert len(frame) == 60
        assert not unseen("".join(frame))
        assert "\\u202e" in "".join(frame)


def test_the_log_escapes_hostile_names(capfd: pytest.CaptureFixture[str]) -> None:
    service._log_to(journal.handler())
    service._log_event(EventStatus(1.0, "degraded", EVIL))
    said = capfd.readouterr().err
    assert "\\u202e" in said
    assert not unseen(said)
