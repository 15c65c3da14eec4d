"""Make the JSON schemas of what `--json` prints, from the types of these documents.

Rules of this file:
1. A schema does not forbid unknown names, because documents may get new names.
2. What each document of a schema has is required.
"""

import ast
import inspect
import re
import textwrap
import types
import typing
from dataclasses import dataclass, is_dataclass
from enum import Enum
from typing import Any

from tierd.console import events_and_history
from tierd.doctor import doctor
from tierd.importing import imported
from tierd.profile import profile
from tierd.record import snapshot
from tierd.views import forecast, history, planned, render, report, whoview

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_SCALARS: dict[object, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    type(None): "null",
}


@dataclass(frozen=True, slots=True)
class Published:
    """A document: the verb that prints it, the value of its field `schema`, and its type."""

    verb: str
    schema: str
    made_of: type

    @property
    def path(self) -> str:
        """The path below the root of the project."""
        return f"schema/{self.verb}.schema.json"


PUBLISHED = (
    Published("doctor", doctor.SCHEMA, doctor.Document),
    Published("events", events_and_history.SCHEMA, events_and_history.EventsDocument),
    Published("history", history.SCHEMA, history.Document),
    Published("import", imported.SCHEMA, imported.Document),
    Published("plan", planned.SCHEMA, planned.Document),
    Published("report", report.SCHEMA, report.Document),
    Published("simulate", forecast.SCHEMA, forecast.Document),
    Published("status", snapshot.SCHEMA, snapshot.Snapshot),
    Published("top", whoview.SCHEMA, whoview.Document),
    Published("tiers", render.TIERS_SCHEMA, render.TiersDocument),
)


def of(published: Published) -> Schema:
    """Return the schema of what `tierd VERB --json` prints."""
    made = _object(published.made_of)
    properties = {"schema": {"const": published.schema}}
    properties |= {k: v for k, v in made["properties"].items() if k != "schema"}
    required = list(properties)
    whole: Schema = {"required": required}
    if published.made_of is snapshot.Snapshot:
        # Before its first reading of the machine a daemon has no other fields.
        starting = {"properties": {"state": {"const": snapshot.State.starting.value}}}
        whole = {
            "required": ["schema", "state"],
            "if": starting,
            "else": {"required": required},
        }
    return {
        "$schema": DIALECT,
        "title": published.schema,
        "description": made["description"],
        "type": "object",
        "properties": properties,
        **whole,
    }


def of_profile() -> Schema:
    """Return the schema of a line of a profile: of the first one, or of any other."""
    head, line = _object(profile.HeaderDocument), _object(profile.LineDocument)
    head["properties"]["schema"] = {"const": profile.SCHEMA}
    return {
        "$schema": DIALECT,
        "title": profile.SCHEMA,
        "description": "A line of the file that `tierd record` writes.",
        "anyOf": [head, line],
    }


def _schema(kind: Any) -> Schema:
    """Return the schema of one type."""
    if kind in _SCALARS:
        return {"type": _SCALARS[kind]}
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return _either([_schema(one) for one in arguments])
    if origin is tuple and arguments[-1] is not Ellipsis:
        each = [_schema(one) for one in arguments]
        return {"type": "array", "prefixItems": each, "minItems": len(each), "maxItems": len(each)}
    if origin in (tuple, list):
        return {"type": "array", "items": _schema(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1])}
    if issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    return _object(kind)


def _either(schemas: list[Schema]) -> Schema:
    """Return the schema of a value that fits any of these; scalar types go into one list."""
    if all(schema.keys() == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    return {"anyOf": schemas}


def _object(kind: type) -> Schema:
    """Return the schema of a dataclass or a TypedDict, with docstrings as descriptions."""
    assert is_dataclass(kind) or typing.is_typeddict(kind), kind
    told = _told(kind)
    properties = {
        name: _schema(hint) | ({"description": told[name]} if name in told else {})
        for name, hint in typing.get_type_hints(kind).items()
    }
    return {
        "type": "object",
        "description": _one_line(inspect.getdoc(kind) or ""),
        "properties": properties,
        "required": list(properties),
    }


def _told(kind: type) -> dict[str, str]:
    """Return the docstring of each field of a class, which Python itself does not keep."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: _one_line(below.value.value)
        for field, below in zip(body.body, body.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def _one_line(text: str) -> str:
    """Return the text on one line, with the word that JSON has for None."""
    return re.sub(r"\bNone\b", "null", " ".join(text.split()))
