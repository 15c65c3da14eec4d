"""The configuration as a JSON schema, so that editors complete and check it while it is written."""

from typing import Any

from tierd.configuration.config import Config
from tierd.configuration.settings import GROUPS, Setting, in_group

# YAML 1.1 takes these words for booleans, and JSON schema sees what YAML made of them.
_BOOLEANS = {"on": True, "yes": True, "true": True, "off": False, "no": False, "false": False}

_PATHS: dict[str, Any] = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]
}
_SHAPES: dict[str, dict[str, Any]] = {
    "tiers": {
        "type": "array",
        "items": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
    },
    "cgroups": {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "properties": {"include": _PATHS, "exclude": _PATHS},
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": False,
        },
    },
}


def schema() -> dict[str, Any]:
    """The schema of /etc/tierd/tierd.yaml."""
    properties = {setting.key[-1]: _property(setting) for setting in in_group(None)}
    for group in GROUPS:
        properties[group.key] = {
            "type": ["object", "null"],
            "description": group.doc,
            "properties": {one.key[-1]: _property(one) for one in in_group(group.key)},
            "additionalProperties": False,
        }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tierd.yaml",
        "description": "Configuration of tierd. `tierd check` has the last word: it knows units.",
        "type": ["object", "null"],
        "properties": properties,
        "additionalProperties": False,
    }


def _property(setting: Setting) -> dict[str, Any]:
    about = {"description": f"{setting.doc} Default: {setting.text(Config())}."}
    kind = setting.kind
    if setting.field in _SHAPES:
        shape = dict(_SHAPES[setting.field])
        return (
            {"anyOf": [shape, {"enum": list(kind.words)}], **about} if kind.words else shape | about
        )
    if kind.only_words:
        words = [*kind.words, *{_BOOLEANS[word] for word in kind.words if word in _BOOLEANS}]
        return {"enum": words, **about}
    return {"type": ["string", "number", "boolean"], "examples": [setting.example], **about}
