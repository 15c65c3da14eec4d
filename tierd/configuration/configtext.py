"""The configuration as YAML, as the default file, as documentation and as a JSON schema."""

import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from tierd.configuration.config import Config, Moves
from tierd.configuration.settings import GROUPS, Group, Setting, in_group

COLUMNS = 96
DOC_COLUMNS = 100


def effective(config: Config) -> str:
    """Return every setting as YAML; reading it gives the same configuration."""
    return "".join(_blocks(lambda setting: (f"{setting.key[-1]}: {setting.text(config)}",)))


def default_file() -> str:
    """Return the file that ships: every setting with its default, commented out.

    The keys of groups are not commented out, because an empty group changes nothing. So a user can
    set one key by removing one `#`.
    """
    intro = (
        "Settings of tierd. Every key is here with its default, and is commented out. So this file "
        "means the same as an empty file. To change a setting, remove the # before its key and "
        "write your value. `tierd check FILE` shows every error with its line. `tierd reload` "
        "makes the daemon read the files again. Then tierd reads the files in /etc/tierd/tierd.d/ "
        "whose names end in .yaml, in the order of their names. They replace the values of the "
        "keys that they set."
    )
    default = Config()

    def commented(setting: Setting) -> tuple[str, ...]:
        value_type = setting.value_type
        told = value_type.only_words and all(word in setting.doc for word in value_type.words)
        about = setting.doc if told else f"{setting.doc} Takes {value_type.allowed}."
        key = setting.key[-1]
        is_nested = setting.example[0] in "[{"
        example = (f"# Example: {key}: {setting.example}",) if is_nested else ()
        return ("", *_wrapped(about), *example, f"#{key}: {setting.text(default)}")

    return "\n".join(_wrapped(intro)) + "\n" + "".join(_blocks(commented))


def reference() -> str:
    """Return the text of docs/config.md."""
    default = Config()
    parts = [_REFERENCE_INTRO]
    for group in (None, *GROUPS):
        parts.append(_group_heading(group))
        for setting in in_group(None if group is None else group.key):
            parts.append(
                f"### `{setting.name}`\n\n{_paragraph(setting.doc)}\n\n"
                + _paragraph(
                    f"Default `{setting.text(default)}`. Takes {setting.value_type.allowed}. "
                    f"After a reload a change takes effect {setting.effect}."
                )
                + "\n\n"
                f"```yaml\n{_snippet(setting)}\n```\n"
            )
    return "\n".join(parts)


_REFERENCE_INTRO = """\
# Configuration

`tools/write_config_docs.py` makes this file from the table in `tierd/configuration/settings.py`.

tierd works without a configuration. It reads `/etc/tierd/tierd.yaml`, and then every file in
`/etc/tierd/tierd.d/` whose name ends in `.yaml`, in the order of their names. A later file replaces
the values of the keys that it sets. A list is replaced as a whole, and so is a cgroup class.
`tierd run --config FILE` reads only that file.

`tierd check` reads the files as `tierd run` does. It shows every error at once, as
`file:line:column: message`, and then exits with 78. It also shows which cgroups each class matches
now, and warns if a class matches none: its path may be misspelt. `tierd reload` makes the daemon
read the files again; if there is an error, nothing changes.

`tierd check` compares node ids with the machine that it runs on. To check a file for another
machine, use `tierd check --machine FILE new.yaml`. FILE is the output of `tierd tiers --json` on
that machine, or the report of `tierd doctor --bundle`. Configuration files must be regular files.

A quantity has a unit: a rate `200MB/s` (powers of 1000) or `64MiB/s` (powers of 1024), a duration
`5ms`, `10s` or `2min`, a share `0.5%`. tierd takes values as you write them: `on` is a word, and
`010` is not eight. Aliases, tags, second documents and keys that are given twice are errors.

`configs/` has this list as a file to edit, and presets: [observe](../configs/observe.yaml), which
moves nothing, [gentle](../configs/gentle.yaml), [aggressive](../configs/aggressive.yaml),
[three-tier](../configs/three-tier.yaml), [cgroup-classes](../configs/cgroup-classes.yaml).
"""


def _blocks(lines_of: Callable[[Setting], tuple[str, ...]]) -> Iterator[str]:
    """Yield the settings that are in no group, then every group under its key."""
    for setting in in_group(None):
        yield from (f"{line}\n" for line in lines_of(setting))
    for group in GROUPS:
        yield f"\n# {group.doc}\n{group.key}:\n"
        for setting in in_group(group.key):
            for line in lines_of(setting):
                yield f"  {line}\n" if line else ""


def _wrapped(text: str) -> list[str]:
    # No break at hyphens: a part of a word could look like YAML.
    return [f"# {line}" for line in textwrap.wrap(text, COLUMNS, break_on_hyphens=False)]


def _paragraph(text: str) -> str:
    return "\n".join(textwrap.wrap(text, DOC_COLUMNS, break_on_hyphens=False))


def _group_heading(group: Group | None) -> str:
    if group is None:
        return "## The settings that most people need\n"
    return f"## `{group.key}`\n\n{group.doc}\n"


def _snippet(setting: Setting) -> str:
    line = f"{setting.key[-1]}: {setting.example}"
    return line if len(setting.key) == 1 else f"{setting.key[0]}:\n  {line}"


# YAML 1.1 reads these words as booleans, so a JSON schema has to allow the booleans.
_BOOLEANS = {"on": True, "yes": True, "true": True, "off": False, "no": False, "false": False}

_PATHS: dict[str, Any] = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]
}
_SHAPES: dict[str, dict[str, Any]] = {
    "shares": {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "properties": {
                "paths": _PATHS,
                "floor": {"type": "string"},
                "ceiling": {"type": "string"},
                "weight": {"type": "integer", "minimum": 1},
                "moves": {"enum": list(Moves)},
            },
            "required": ["paths"],
            "additionalProperties": False,
        },
    },
    "tiers": {
        "type": "array",
        "items": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
    },
    "bandwidths": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "minProperties": 1,
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
    """Return the JSON schema of /etc/tierd/tierd.yaml."""
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
    value_type = setting.value_type
    if setting.field in _SHAPES:
        shape = dict(_SHAPES[setting.field])
        return (
            {"anyOf": [shape, {"enum": list(value_type.words)}], **about}
            if value_type.words
            else shape | about
        )
    if value_type.only_words:
        words = [
            *value_type.words,
            *{_BOOLEANS[word] for word in value_type.words if word in _BOOLEANS},
        ]
        return {"enum": words, **about}
    return {"type": ["string", "number", "boolean"], "examples": [setting.example], **about}
