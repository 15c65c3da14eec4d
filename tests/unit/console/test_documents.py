"""What `--json` prints: whole documents, and the schemas that ship with them.

If a document changes, the files in `documents/` differ: read the difference, then renew them with
`TIERD_RENEW_GOLDEN=1 pytest tests/unit/console/test_documents.py`.
"""

import contextlib
import copy
import dataclasses
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.fixtures import machines, proc
from tests.fixtures.answers import ANSWER, REPORT
from tests.fixtures.snapshots import SNAPSHOT, UNKNOWN, parked
from tierd.clock import SystemClock
from tierd.configuration.config import Config
from tierd.console import arguments, commands, events_and_history, shipped, who
from tierd.doctor import doctor, facts
from tierd.importing import imported
from tierd.kdamonds.kernel import Kernel
from tierd.record import chronicle
from tierd.record import snapshot as snapshots
from tierd.record.chronicle import Chronicle
from tierd.record.rundir import RunDir
from tierd.record.snapshot import EventStatus, Snapshot
from tierd.sim import demo
from tierd.views import forecast, history
from tierd.views import report as reports
from tools import document_schemas
from tools.document_schemas import PUBLISHED, Published

GOLDEN = Path(__file__).parent / "documents"
POLICIES = Path(__file__).parent.parent / "importing" / "policies"
NOW = 4e9

Document = Any


def of_snapshot(snapshot: Snapshot) -> Document:
    return snapshots.document(snapshot)


def of_doctor(machine: str) -> Document:
    kernel = Kernel.patient(machines.load(machine).sysfs, SystemClock())
    known = facts.read(kernel, Config, lambda: None, is_root=True)
    return doctor.as_document(doctor.examine(known))


def of_import(name: str) -> Document:
    text = (POLICIES / name).read_text()
    return json.loads(json.dumps(dataclasses.asdict(imported.read(name, text))))


def of_cgroups() -> Document:
    kernel = demo.demo("two-tier").kernel
    return who.Source(kernel, Config(), dict, SystemClock()).document(with_processes=False)


def of_processes(*, generations: bool) -> Document:
    sysfs = proc.machine(generations=generations)
    return who.Source(sysfs, Config(), dict, SystemClock()).document(with_processes=True)


def of_command(words: str, machine: str, folder: Path) -> Document:
    """Return the document of a command for a machine. It runs in the process of the test."""
    machines.unpack(machines.load(machine).sysfs, folder / "root")
    said: list[str] = []
    asked = arguments.parse([*words.split(), "--root", str(folder / "root")])

    def say(text: str, *, painted: bool = False) -> None:
        assert not painted
        said.append(text)

    commands.COMMANDS[asked.verb](asked, say)
    return json.loads("\n".join(said))


def kept(folder: Path) -> RunDir:
    """Write two readings and two events to disk."""
    there = RunDir(folder, folder)
    writes = Chronicle(there)
    writes.happened(EventStatus(NOW, "running", "started"))
    writes.happened(EventStatus(NOW + 10, "degraded", "node 1 has no memory"))
    for at, one in enumerate((SNAPSHOT, UNKNOWN)):
        writes.saw(replace(one, at=NOW + 10 * at))
    return there


DOCUMENTS: dict[str, Callable[[Path], Document]] = {
    "status-active": lambda _: of_snapshot(SNAPSHOT),
    "status-parked": lambda _: of_snapshot(parked()),
    "status-unknown": lambda _: of_snapshot(UNKNOWN),
    "status-starting": lambda _: {"schema": snapshots.SCHEMA, "state": snapshots.State.starting},
    "doctor-two-tier-7.2": lambda _: of_doctor("two-tier-7.2"),
    "doctor-one-tier-6.12": lambda _: of_doctor("one-tier-6.12"),
    "import-hmsdk": lambda _: of_import("hmsdk.yaml"),
    "import-damo": lambda _: of_import("damo.json"),
    "import-cover-letter": lambda _: of_import("cover-letter.txt"),
    "plan-three-tier-7.2": lambda folder: of_command("plan --json", "three-tier-7.2", folder),
    "plan-two-tier-6.12": lambda folder: of_command("plan --json", "two-tier-6.12", folder),
    "tiers-two-socket-7.2": lambda folder: of_command("tiers --json", "two-socket-7.2", folder),
    "tiers-slow-offline-7.2": lambda folder: of_command("tiers --json", "slow-offline-7.2", folder),
    "top-two": lambda _: of_cgroups(),
    "top-processes": lambda _: of_processes(generations=False),
    "top-generations": lambda _: of_processes(generations=True),
    "top-none": lambda folder: of_command("top --json", "two-tier-7.2", folder),
    "events-two": lambda folder: json.loads(
        events_and_history.events_json(events_and_history.kept_events(kept(folder), None))
    ),
    "events-none": lambda _: json.loads(events_and_history.events_json(())),
    "history-two": lambda folder: json.loads(
        history.as_json(chronicle.readings(kept(folder), NOW - 60, NOW + 60), NOW - 60, NOW + 60)
    ),
    "report-turns": lambda _: json.loads(json.dumps(reports.as_document(REPORT))),
    "simulate-sizes": lambda _: json.loads(json.dumps(forecast.as_document(ANSWER))),
    "history-none": lambda _: json.loads(history.as_json((), NOW - 60, NOW)),
}


def published(name: str) -> Published:
    return next(one for one in PUBLISHED if one.verb == name.partition("-")[0])


# test_golden_plans.py tests plans, word for word.
@pytest.mark.parametrize("name", [name for name in DOCUMENTS if not name.startswith("plan-")])
def test_a_document_is_as_it_was(name: str, tmp_path: Path) -> None:
    text = json.dumps(DOCUMENTS[name](tmp_path), indent=1) + "\n"
    golden = GOLDEN / f"{name}.json"
    if os.environ.get("TIERD_RENEW_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert golden.read_text() == text


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_as_its_schema_says(name: str, tmp_path: Path) -> None:
    document = json.loads(json.dumps(DOCUMENTS[name](tmp_path)))
    schema = json.loads(shipped.text(f"schema-{published(name).verb}"))
    assert document["schema"] == published(name).schema
    assert errors(schema, document) == []
    # The document has no name that the schema does not have.
    assert errors(closed(schema), document) == []


def errors(schema: Document, document: Document) -> list[str]:
    checker = jsonschema.Draft202012Validator(schema)
    return [f"{error.json_path}: {error.message}" for error in checker.iter_errors(document)]


def closed(schema: Document) -> Document:
    """Return the schema, but without additional names."""
    made = copy.deepcopy(schema)
    _close(made)
    return made


def _close(schema: Document) -> None:
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            schema["additionalProperties"] = False
        for inner in schema.values():
            _close(inner)
    elif isinstance(schema, list):
        for inner in schema:
            _close(inner)


@pytest.mark.parametrize("one", PUBLISHED, ids=lambda one: one.verb)
def test_a_schema_is_one(one: Published) -> None:
    jsonschema.Draft202012Validator.check_schema(document_schemas.of(one))


def test_every_verb_that_speaks_json_has_a_schema() -> None:
    assert {verb for verb in arguments.VERBS if speaks_json(verb)} == {
        one.verb for one in PUBLISHED
    }


def speaks_json(verb: str) -> bool:
    for needed in ([], ["FILE"]):
        with contextlib.suppress(SystemExit):
            arguments.parse([verb, *needed, "--json"])
            return True
    return False


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda it: it.pop("nodes"), "'nodes' is a required property"),
        (lambda it: it["nodes"][0].update(size_bytes="1 GiB"), "$.nodes[0].size_bytes"),
        (lambda it: it.update(state="well"), "$.state"),
        (lambda it: it.update(schema="tierd.status/2"), "$.schema"),
    ],
)
def test_what_breaks_the_promise_is_seen(spoil: Callable[[Document], None], said: str) -> None:
    document = json.loads(json.dumps(of_snapshot(SNAPSHOT)))
    spoil(document)
    schema = json.loads(shipped.text("schema-status"))
    assert any(said in error for error in errors(schema, document))


def test_a_reader_of_today_takes_a_document_of_tomorrow() -> None:
    document = json.loads(json.dumps(of_snapshot(SNAPSHOT)))
    document["new"] = document["nodes"][0]["new"] = 1
    assert errors(json.loads(shipped.text("schema-status")), document) == []
