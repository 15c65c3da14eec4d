"""The names and types in every JSON document are promises: names are only ever added.

The promises are in `shapes.json`. The test fails if a name goes or changes its type. Add new names
with `TIERD_RENEW_GOLDEN=1 pytest tests/unit/console/test_json_shapes.py`.
"""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import machines
from tests.fixtures.answers import ANSWER, REPORT
from tests.fixtures.snapshots import SNAPSHOT, UNKNOWN
from tierd import cli
from tierd.record.chronicle import Chronicle
from tierd.record.rundir import RunDir
from tierd.record.snapshot import EventStatus, Snapshot, document, look
from tierd.views import forecast
from tierd.views import report as reports

GOLDEN = Path(__file__).parent / "shapes.json"
POLICY = Path(__file__).parent.parent / "importing" / "policies" / "hmsdk.yaml"

Shape = Any
"""A dict of names and shapes, a list with the shape of its members, or types with bars."""


def shape_of(value: object) -> Shape:
    match value:
        case dict():
            return {name: shape_of(inner) for name, inner in value.items()}
        case list():
            merged: Shape = None
            for inner in value:
                merged = shape_of(inner) if merged is None else both(merged, shape_of(inner))
            return [] if merged is None else [merged]
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case None:
            return "null"
        case _:
            return "string"


def both(one: Shape, other: Shape) -> Shape:
    """Return a shape for values of either shape."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = [*one, *(name for name in other if name not in one)]
        return {
            name: both(one[name], other[name])
            if name in one and name in other
            else one.get(name, other.get(name))
            for name in names
        }
    if isinstance(one, list) and isinstance(other, list):
        return [both(one[0], other[0])] if one and other else one or other
    if isinstance(one, str) and isinstance(other, str):
        return "|".join(sorted({*one.split("|"), *other.split("|")}))
    # An object that may be null.
    return next(shape for shape in (one, other) if not isinstance(shape, str))


def missing(promised: Shape, found: Shape, where: str = "") -> list[str]:
    """Return the promises that are not kept: a name is gone, or its type has changed."""
    if isinstance(promised, dict) and isinstance(found, dict):
        return [
            problem
            for name, inner in promised.items()
            for problem in (
                missing(inner, found[name], f"{where}.{name}")
                if name in found
                else [f"{where}.{name} is gone"]
            )
        ]
    if isinstance(promised, list) and isinstance(found, list):
        return missing(promised[0], found[0], f"{where}[]") if promised and found else []
    if isinstance(promised, str) and isinstance(found, str):
        new = set(found.split("|")) - set(promised.split("|"))
        return [f"{where} was {promised}, and is {found}"] if new else []
    return [f"{where} was {promised!r}, and is {found!r}"] if found != "null" else []


def from_snapshots(made: Callable[[Snapshot], dict[str, Any]]) -> Shape:
    return both(*(shape_of(json.loads(json.dumps(made(one)))) for one in (SNAPSHOT, UNKNOWN)))


def from_command(argv: str, capsys: pytest.CaptureFixture[str]) -> Shape:
    cli.main(argv.split())
    return shape_of(json.loads(capsys.readouterr().out))


@pytest.fixture
def shapes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Shape]:
    """Return the present shape of each document, by its schema."""
    root, kept = tmp_path / "root", RunDir(tmp_path, tmp_path)
    machines.unpack(machines.load("three-tier-7.2").sysfs, root)
    chronicle = Chronicle(kept)
    chronicle.happened(EventStatus(1.0, "running", "started"))
    for at, one in enumerate((SNAPSHOT, UNKNOWN)):
        chronicle.saw(replace(one, at=4e9 + 10 * at))
    return {
        "tierd.status/1": from_snapshots(document),
        "tierd.recent/1": from_snapshots(look),
        "tierd.tiers/1": from_command(f"tiers --json --root {root}", capsys),
        "tierd.import/1": from_command(f"import {POLICY} --json", capsys),
        "tierd.plan/1": from_command(f"plan --json --root {root}", capsys),
        "tierd.doctor/1": from_command(f"doctor --json --root {root}", capsys),
        "tierd.events/1": from_command(f"events --json --state-dir {tmp_path}", capsys),
        "tierd.report/1": shape_of(json.loads(json.dumps(reports.as_document(REPORT)))),
        "tierd.simulate/1": shape_of(json.loads(json.dumps(forecast.as_document(ANSWER)))),
        "tierd.history/1": from_command(f"history --json --state-dir {tmp_path}", capsys),
    }


def test_what_was_promised_is_there(shapes: dict[str, Shape]) -> None:
    if os.environ.get("TIERD_RENEW_GOLDEN"):
        old = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
        merged = {
            name: both(old[name], new) if name in old else new for name, new in shapes.items()
        }
        GOLDEN.write_text(json.dumps(merged, indent=1) + "\n")
    promised = json.loads(GOLDEN.read_text())
    assert promised.keys() == shapes.keys()
    for schema, shape in promised.items():
        assert missing(shape, shapes[schema]) == [], schema


def test_the_comparison_sees_what_is_gone_and_what_has_turned() -> None:
    promised = {"a": "number", "b": [{"c": "string"}], "d": "null|number"}
    assert missing(promised, {**promised, "new": "string", "d": "number"}) == []
    assert missing(promised, {"b": [{"c": "number"}], "d": "boolean"}) == [
        ".a is gone",
        ".b[].c was string, and is number",
        ".d was null|number, and is boolean",
    ]
