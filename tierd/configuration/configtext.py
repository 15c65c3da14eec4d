"""The configuration as text: in force, as the file that ships, documented, compared, checked."""

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tierd.configuration import configfile
from tierd.configuration.config import Config
from tierd.configuration.configfile import ConfigErrors, Nodes
from tierd.configuration.settings import GROUPS, SETTINGS, Effect, Group, Setting, in_group
from tierd.errors import ExitCode

COLUMNS = 96
DOC_COLUMNS = 100


@dataclass(frozen=True, slots=True)
class Change:
    """A setting whose value differs between two configurations."""

    name: str
    before: str
    after: str
    effect: Effect

    def __str__(self) -> str:
        return f"{self.name}: {self.before} -> {self.after} ({self.effect})"


@dataclass(frozen=True, slots=True)
class Checked:
    """What `tierd check` says, and its exit code."""

    lines: tuple[str, ...]
    exit_code: ExitCode


def diff(before: Config, after: Config) -> tuple[Change, ...]:
    """What changed, and when a reload would bring it into force."""
    return tuple(
        Change(setting.name, old, new, setting.effect)
        for setting in SETTINGS
        if (old := setting.text(before)) != (new := setting.text(after))
    )


def check(
    path: Path, drop_ins: Path | None, *, required: bool = True, nodes: Nodes | None = None
) -> Checked:
    """Judge files as `run` would: what differs from the default, or every error."""
    try:
        parsed = configfile.load(path, drop_ins, required=required, nodes=nodes)
    except ConfigErrors as errors:
        return Checked(errors.lines, errors.exit_code)
    ok = f"ok: {', '.join(parsed.files)}" if parsed.files else f"ok: there is no {path}"
    changes = diff(Config(), parsed.config)
    if not changes:
        return Checked((ok, "every setting has its default"), ExitCode.ok)
    told = (f"  {change.name}: {change.after} (default {change.before})" for change in changes)
    return Checked((ok, "differs from the default:", *told), ExitCode.ok)


def effective(config: Config) -> str:
    """Every setting as YAML that reads back as the same configuration."""
    return "".join(_blocks(lambda setting: (f"{setting.key[-1]}: {setting.text(config)}",)))


def default_file() -> str:
    """The file that ships: every setting with its default, commented out.

    The keys of groups are not: a group without settings says nothing, and so a single line can be
    brought to life by removing its `#`.
    """
    intro = (
        "Settings of tierd. Every key is here with its default, commented out: this file as it is "
        "means the same as an empty one. To change a setting, remove the # before its key and "
        "write your value. `tierd check FILE` tells what is wrong with a file, and where; "
        "`tierd reload` brings it into force. Files in /etc/tierd/tierd.d/ whose names end in "
        ".yaml are read after this one, by name, and win key by key."
    )
    default = Config()

    def commented(setting: Setting) -> tuple[str, ...]:
        kind = setting.kind
        told = kind.only_words and all(word in setting.doc for word in kind.words)
        about = setting.doc if told else f"{setting.doc} Takes {kind.allowed}."
        key = setting.key[-1]
        is_nested = setting.example[0] in "[{"
        example = (f"# Example: {key}: {setting.example}",) if is_nested else ()
        return ("", *_wrapped(about), *example, f"#{key}: {setting.text(default)}")

    return "\n".join(_wrapped(intro)) + "\n" + "".join(_blocks(commented))


def reference() -> str:
    """docs/config.md."""
    default = Config()
    parts = [_REFERENCE_INTRO]
    for group in (None, *GROUPS):
        parts.append(_group_heading(group))
        for setting in in_group(None if group is None else group.key):
            parts.append(
                f"### `{setting.name}`\n\n{_paragraph(setting.doc)}\n\n"
                + _paragraph(
                    f"Default `{setting.text(default)}`. Takes {setting.kind.allowed}. "
                    f"A reload brings a change into force {setting.effect}."
                )
                + "\n\n"
                f"```yaml\n{_snippet(setting)}\n```\n"
            )
    return "\n".join(parts)


_REFERENCE_INTRO = """\
# Configuration

This file is made from the table in `tierd/configuration/settings.py` by
`tools/write_config_docs.py`.

tierd needs no configuration. What it reads, if it is there, is `/etc/tierd/tierd.yaml` and then, by
name, every file of `/etc/tierd/tierd.d/` that ends in `.yaml`. Later files win key by key; a list
is replaced whole, and so is a cgroup class. `tierd run --config FILE` reads that file instead, and
nothing else.

`tierd check` reads the files as `tierd run` would and tells every error at once, as
`file:line:column: message`; it exits with 78 if there is one. `tierd reload` brings changes into
force; if there is an error, all stays as it was.

Quantities are written with their unit: sizes per second `200MB/s` (1000) or `64MiB/s` (1024),
durations `5ms`, `10s`, `2min`, shares of a whole `0.5%`. Values are taken as they stand there, so
that `on` is a word, and `010` is not eight. Aliases, tags and second documents are refused, and so
is a key that stands twice.

`configs/` has this list as a file to edit, and presets: [observe](../configs/observe.yaml) to look
before anything moves, [gentle](../configs/gentle.yaml), [aggressive](../configs/aggressive.yaml),
[three-tier](../configs/three-tier.yaml), [cgroup-classes](../configs/cgroup-classes.yaml).
"""


def _blocks(lines_of: Callable[[Setting], tuple[str, ...]]) -> Iterator[str]:
    """The settings that stand alone, then every group under its key."""
    for setting in in_group(None):
        yield from (f"{line}\n" for line in lines_of(setting))
    for group in GROUPS:
        yield f"\n# {group.doc}\n{group.key}:\n"
        for setting in in_group(group.key):
            for line in lines_of(setting):
                yield f"  {line}\n" if line else ""


def _wrapped(text: str) -> list[str]:
    # Words that belong together must not be torn into something that reads as YAML.
    return [f"# {line}" for line in textwrap.wrap(text, COLUMNS, break_on_hyphens=False)]


def _paragraph(text: str) -> str:
    return "\n".join(textwrap.wrap(text, DOC_COLUMNS, break_on_hyphens=False))


def _group_heading(group: Group | None) -> str:
    if group is None:
        return "## What most people need\n"
    return f"## `{group.key}`\n\n{group.doc}\n"


def _snippet(setting: Setting) -> str:
    line = f"{setting.key[-1]}: {setting.example}"
    return line if len(setting.key) == 1 else f"{setting.key[0]}:\n  {line}"
