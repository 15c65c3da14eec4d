"""A foreign policy as the text of a configuration, with everything that is to be said about it."""

import re
import textwrap
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from tierd.configuration import configfile, yamltext
from tierd.configuration.configfile import ConfigErrors
from tierd.configuration.settings import GROUPS, Setting, in_group
from tierd.configuration.yamltext import FilePlace, Problem
from tierd.errors import Unsupported
from tierd.frozen import dataclass
from tierd.importing import damo_command, policy_file, shell_text
from tierd.importing.foreign import ForeignPolicy
from tierd.importing.remarks import ABOUT, Kind, Remark
from tierd.importing.translation import translate

SCHEMA = "tierd.import/1"

# 1 Mi characters: damo writes 4 Ki for each kdamond, and HMSDK's generator makes a kdamond for each
# piece of memory. Parsing this many takes seconds.
CHARACTERS_MAX = 1024 * 1024
# Bytes; a character has 4 at most.
FILE_BYTES_MAX = 4 * CHARACTERS_MAX
# A goal of a quota is ten levels deep, and what damo reports is a little deeper.
DEPTH_MAX = 16

COLUMNS = 96
# Places of one remark that are listed; all are in the document.
LISTED_MAX = 6

_NAMES = ("tierd", "damo")

_FILE = re.compile(r"""^[\s{]*["']?kdamonds["']?\s*:""", re.MULTILINE)


class Format(StrEnum):
    """What a policy is written in."""

    file = "file"
    command = "command"


_FORMATS = {
    Format.file: "a file of damo or HMSDK",
    Format.command: "a command of damo",
}


@dataclass(frozen=True, slots=True)
class Document:
    """What `tierd import --json` prints."""

    schema: str
    file: str
    """The file that was read."""
    format: Format
    """Whether the file is one of damo or HMSDK, in JSON or YAML, or has a command of damo."""
    config: str
    """The configuration for tierd, in YAML, without comments."""
    remarks: tuple[Remark, ...]
    """What became of each part of the policy."""


def read(file: str, text: str) -> Document:
    """Return the configuration for a policy; raise ConfigErrors with every error in it."""
    # A CR before each LF is no part of a line.
    text = text.replace("\r\n", "\n")
    is_command = _FILE.search(text) is None and shell_text.has_command(text)
    policy, problems = (damo_command.policy if is_command else _of_file)(file, text)
    if problems:
        raise ConfigErrors(problems, what="the policy")
    found = translate(policy)
    config = "".join(_settings(found.values))
    if len(config) > yamltext.CHARACTERS_MAX:
        raise Unsupported(
            "the policy has more cgroups than a configuration can have",
            "name cgroups that contain them: a class of tierd has the whole subtree",
        )
    # A configuration that tierd itself refuses would be our mistake.
    configfile.parse([("imported", config)])
    return Document(
        SCHEMA, file, Format.command if is_command else Format.file, config, found.remarks
    )


def _of_file(file: str, text: str) -> tuple[ForeignPolicy, tuple[Problem, ...]]:
    # Between the parts of JSON a tab is a space. YAML takes it for an error.
    spaced = text.replace("\t", " ") if text.lstrip().startswith("{") else text
    root, problems = yamltext.read(file, spaced, CHARACTERS_MAX, DEPTH_MAX)
    if not problems:
        return policy_file.policy(root, file)
    if _FILE.search(text) is None:
        said = (
            "expected a file of damo or HMSDK, with the key kdamonds, or a text with a command "
            "`damo start`"
        )
        problems = (Problem(FilePlace(file), said),)
    return ForeignPolicy(()), problems


def as_text(document: Document) -> str:
    """Return the configuration with the remarks as comments."""
    lines = [
        f"# Made by `tierd import` from {yamltext.shown(document.file, 200)}: "
        f"{_FORMATS[document.format]}.",
        "# `tierd check FILE` checks it, and `tierd plan --config FILE` shows what tierd would do.",
    ]
    for kind in Kind:
        remarks = [one for one in document.remarks if one.kind is kind]
        if remarks:
            lines += ["#", f"# {ABOUT[kind]}:"]
            lines += [line for one in remarks for line in _commented(one)]
    config = document.config.rstrip("\n") or "# Every setting has its default."
    return "\n".join((*lines, "", config))


def _commented(one: Remark) -> Iterator[str]:
    given = _few(one.given)
    where = f"line {one.lines[0]}" if len(one.lines) == 1 else f"lines {_few(one.lines)}"
    setting = "" if one.setting is None else one.setting
    if one.value is not None:
        setting += f": {one.value}"
    said = f"{where}: {given}" + (f" -> {setting}" if setting else "")
    # Names keep their small letter.
    first = one.text[:1] if one.text.startswith(_NAMES) else one.text[:1].upper()
    text = f"{said}. {first}{one.text[1:]}." if one.text else said
    for number, line in enumerate(textwrap.wrap(text, COLUMNS - 6, break_on_hyphens=False)):
        yield f"#   {'  ' if number else ''}{line}"


def _few(listed: tuple[Any, ...]) -> str:
    more = f" and {len(listed) - LISTED_MAX} more" if len(listed) > LISTED_MAX else ""
    return ", ".join(map(str, listed[:LISTED_MAX])) + more


def _settings(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the settings that have a value, in the order of the documentation."""

    def lines(settings: tuple[Setting, ...], indent: str) -> Iterator[str]:
        for setting in settings:
            if setting.field in values:
                text = setting.value_type.write(values[setting.field])
                yield f"{indent}{setting.key[-1]}: {text}\n"

    yield from lines(in_group(None), "")
    for group in GROUPS:
        inside = tuple(lines(in_group(group.key), "  "))
        if inside:
            yield from (f"{group.key}:\n", *inside)
