"""Commands that change nothing, on a real kernel."""

import json
import re
from typing import Any

import jsonschema
import pytest

from tests.e2e.boots import told
from tests.e2e.looks import ASKED, CALM_BYTES, GROUP, HOT_BYTES, TOP_COLUMNS
from tierd.console import shipped
from tierd.sim import machine_model

pytestmark = pytest.mark.vm

PAGE = 4096


@pytest.mark.rare
def test_every_look_answers_and_changes_nothing() -> None:
    facts = told("7.2", machine_model.load("two-tier"), "looks")
    status, doctor = facts["not_running"]
    assert (status[1], "systemctl start tierd" in status[3]) == (3, True)
    assert (doctor[1], "tierd can run here" in doctor[2]) == (0, True), doctor
    _who(facts)
    _observing(facts)
    answers = {words: rest for words, *rest in facts["asked"]}
    assert [code for words, (code, *_) in answers.items() if words != "why 7"] == [0] * (
        len(set(ASKED)) - 1
    ), answers
    _running(answers)
    assert facts["picture"].startswith("<svg")
    _live(*facts["top"])
    assert facts["exit"] == 0
    events, history, gone = facts["after"]
    assert (events[1], "running: started" in events[2]) == (0, True)
    assert (history[1], "node1 used" in history[2]) == (0, True)
    assert gone[1] == 3
    foreign = facts["foreign"]
    assert (foreign[1], "first: TD009" in foreign[2]) == (75, True), foreign


def _who(facts: Any) -> None:
    """Assert that the program is found on both nodes, and in use where the kernel can tell."""
    schema = jsonschema.Draft202012Validator(json.loads(shipped.text("schema-top")))
    for looked in facts["processes"]:
        _, code, said, complained = looked["said"]
        assert code == 0, complained
        document = json.loads(said)
        assert list(schema.iter_errors(document)) == []
        read = document["processes"]
        (ours,) = [one for one in read["found"] if one["pid"] == facts["pid"]]
        memory = ours["memory"]
        assert memory["slow_bytes"] >= HOT_BYTES
        assert memory["fast_bytes"] >= CALM_BYTES
        assert memory["slow_bytes"] + memory["fast_bytes"] == sum(memory["bytes_by_node"].values())
        # No other program has as much on the slow node.
        assert read["found"][0] is ours or memory["active"] is not None
        assert read["knows_active"] is (int(looked["lru_gen"], 16) % 2 == 0)
        _in_use(memory, known=read["knows_active"])
    assert [looked["lru_gen"] for looked in facts["processes"]][1] == "0x0000"
    _, code, said, _ = facts["cgroup"]
    assert code == 0
    row = next(line.split() for line in said.splitlines() if f" {facts['pid']} " in line)
    assert (row[1], row[-2]) == ("MiB", str(facts["pid"])), row
    assert float(row[0]) >= HOT_BYTES >> 20
    assert f"/{GROUP}: " in said


def _in_use(memory: Any, *, known: bool) -> None:
    active = memory["active"]
    assert (active is not None) is known
    if active is not None:
        assert active["slow_bytes_least"] <= active["slow_bytes"] <= active["slow_bytes_most"]
        assert active["slow_bytes_most"] <= memory["slow_bytes"]
        assert active["size_bytes"] <= memory["slow_bytes"] + memory["fast_bytes"]


def _observing(facts: Any) -> None:
    _, code, said, _ = facts["observed"]
    assert code == 0
    before, after = facts["left_by_observing"]
    assert before == after
    assert facts["where"] == {"1": HOT_BYTES // PAGE}
    assert re.search(r"hot on the slow tier \(node1\), .* cold on the fast tier", said), said


def _running(answers: Any) -> None:
    assert answers["status"][1].startswith("ACTIVE: ")
    assert "next: tierd" in answers["status"][1]
    assert json.loads(answers["status --json"][1])["state"] == "paused"
    assert "promote-1-0: promotion from node1 to node0" in answers["why node1"][1]
    assert "paused by `tierd pause`" in answers["why 1"][1]
    assert "PROCESS" in answers["top --processes"][1]
    assert "PROCESS" in answers[f"why /{GROUP}"][1]
    assert (answers["why 7"][0], "there are: 0, 1" in answers["why 7"][2]) == (2, True)
    assert "kdamonds are tierd's" in answers["doctor"][1]
    assert json.loads(answers["doctor --json"][1])["can_run"]
    assert json.loads(answers["events --json"][1])["events"]
    assert json.loads(answers["history --json"][1])["readings"]
    # The documents for programs fit the schemas that tierd ships.
    for verb in ("status", "tiers", "plan", "doctor", "events", "history"):
        schema = jsonschema.Draft202012Validator(json.loads(shipped.text(f"schema-{verb}")))
        document = json.loads(answers[f"{verb} --json"][1])
        assert list(schema.iter_errors(document)) == [], verb
    # Each command prints to stdout, and to stderr only if it fails.
    for words, (code, said, complained) in answers.items():
        assert not complained or code, (words, complained)
        assert said or words in ("plan --diff", "why 7"), words
    assert "echo off > " in answers["restore --print"][1]
    assert answers["print unit"][1].startswith("[Unit]") or "\n[Unit]" in answers["print unit"][1]


def _live(code: int, drawn: str) -> None:
    """Assert that `top` drew colours, bars, schemes and keys, and restored the terminal."""
    assert code == 0
    assert "\x1b[32mACTIVE\x1b[0m: " in drawn
    for shown in ("node0 memory_tier", "promote-1-0", "q quit", "PROCESS"):
        assert shown in drawn
    frames = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", one) for one in drawn.split("\x1b[H")]
    assert max(len(line) for frame in frames for line in re.split(r"\r*\n", frame)) <= TOP_COLUMNS
    assert drawn.endswith("\x1b[?1049l")
