"""Configuration files into one Config: read, merged and checked, with every error at once.

Rules of this file:
1. An empty file is the default policy, and so is no file, unless somebody named it.
2. Files come in order and a later one wins per key; a list is replaced whole, and so is a cgroup
   class. A value that a later file overrides is checked all the same.
3. What is wrong is told with file, line and column, sorted, all of it. What takes the machine to
   judge is told with the rest if its nodes are given, and by `check_against` later.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from tierd.configuration import yamltext
from tierd.configuration.config import CgroupClass, CgroupMode, Config, used_bp_for
from tierd.configuration.kinds import Key
from tierd.configuration.settings import BY_FIELD, BY_KEY, GROUP_KEYS, SETTINGS, Setting
from tierd.configuration.yamltext import Mark, Node, Problem, Scalar, Table, Unread, shown
from tierd.errors import ConfigError
from tierd.machine.override import node_error
from tierd.units import BP_MAX

CONFIG = Path("/etc/tierd/tierd.yaml")
DROP_INS = Path("/etc/tierd/tierd.d")
ENDING = ".yaml"

# What a scheme does between two looks goes unseen, and tierd has to see what it caused.
WINDOWS_PER_TICK_MAX = 10
# Fewer looks per count cannot tell hot from warm.
SAMPLES_PER_AGGREGATION_MIN = 5

Source = tuple[str, str]
Marks = Mapping[Key, Mark]
Nodes = tuple[tuple[int, ...], tuple[int, ...]]
"""The ids of the nodes with memory, and of all nodes there are."""


class ConfigErrors(ConfigError):
    """Everything that is wrong with the configuration, each with its place."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        self.lines = tuple(map(str, self.problems))
        how_many = "an error" if len(self.lines) == 1 else f"{len(self.lines)} errors"
        super().__init__("\n".join((f"the configuration has {how_many}", *self.lines)))


@dataclass(frozen=True, slots=True)
class Parsed:
    """A valid configuration, and where each of its values was written."""

    config: Config
    marks: Marks
    """By key, such as ("metrics", "address"), ("tiers", 0, 1) for node 1 of tier 0, and
    ("cgroups", "database", "/database.slice")."""
    files: tuple[str, ...] = ()
    """What was read, in order."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A value that a file gives to a setting; `bad` if it could not be read."""

    value: Any
    mark: Mark
    bad: bool = False


_Values = dict[str, _Found]


def load(
    path: Path, drop_ins: Path | None, *, required: bool = False, nodes: Nodes | None = None
) -> Parsed:
    """Read a file and the drop-ins beside it; `required` for a file that somebody named.

    With the nodes of a machine, what this machine cannot have is told with the rest.
    """
    sources: list[Source] = []
    problems: list[Problem] = []
    for file in (path, *_drop_ins(drop_ins, problems)):
        text = _text(file, required or file is not path, problems)
        if text is not None:
            sources.append((str(file), text))
    return _parse(sources, problems, nodes)


def parse(sources: Sequence[Source]) -> Parsed:
    """The configuration that these texts, each with its name, amount to."""
    return _parse(sources, [], None)


def check_against(parsed: Parsed, nodes: Nodes) -> None:
    """Refuse what a machine with these nodes cannot have."""
    problems = tuple(_strangers(parsed.config, parsed.marks, nodes))
    if problems:
        raise ConfigErrors(problems)


def _drop_ins(folder: Path | None, problems: list[Problem]) -> Iterator[Path]:
    """The files that count, by name. A name that looks as if it should count is a problem."""
    if folder is None:
        return
    try:
        names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    except FileNotFoundError:
        return
    except OSError as error:
        problems.append(Problem(Mark(str(folder)), f"cannot be listed: {error.strerror}"))
        return
    for name in names:
        if name.endswith(ENDING):
            yield folder / name
        elif name.endswith(".yml"):
            wrong = f"is not read: only names that end in {ENDING} are"
            problems.append(Problem(Mark(str(folder / name)), wrong))


def _text(path: Path, required: bool, problems: list[Problem]) -> str | None:
    file = Mark(str(path))
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        if required:
            problems.append(Problem(file, "does not exist"))
        return None
    except OSError as error:
        problems.append(Problem(file, f"cannot be read: {error.strerror}"))
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8")
        line = before.count("\n") + 1
        column = len(before) - (before.rfind("\n") + 1) + 1
        byte = content[error.start]
        place = Mark(str(path), line, column)
        problems.append(Problem(place, f"byte 0x{byte:02x} is not UTF-8: save the file as UTF-8"))
        return None


def _parse(sources: Sequence[Source], problems: list[Problem], nodes: Nodes | None) -> Parsed:
    values: _Values = {}
    marks: dict[Key, Mark] = {}
    for file, text in sources:
        root, wrong = yamltext.read(file, text)
        problems += wrong
        for setting, node in _leaves(root, problems):
            _take(setting, node, values, marks, problems)
    config = _config(values)
    problems += _conflicts(config, values, marks)
    if nodes is not None:
        problems += _strangers(config, marks, nodes)
    if problems:
        raise ConfigErrors(problems)
    return Parsed(config, MappingProxyType(marks), tuple(file for file, _ in sources))


def _leaves(root: Node | None, problems: list[Problem]) -> Iterator[tuple[Setting, Node]]:
    """Every setting that a file names, with its value."""
    for name, node in _entries(root, (), problems):
        if name.text in GROUP_KEYS:
            for inner, value in _entries(node, (name.text,), problems):
                setting = BY_KEY.get((name.text, inner.text))
                if setting is None:
                    problems.append(Problem(inner.mark, _unknown(name.text, inner.text)))
                else:
                    yield setting, value
        elif (setting := BY_KEY.get((name.text,))) is not None:
            yield setting, node
        else:
            problems.append(Problem(name.mark, _unknown("", name.text)))


def _entries(
    node: Node | None, group: tuple[str, ...], problems: list[Problem]
) -> tuple[tuple[Scalar, Node], ...]:
    """The entries of the file or of a group; one without any entry is fine."""
    if node is None or isinstance(node, Unread) or (isinstance(node, Scalar) and node.is_null):
        return ()
    if isinstance(node, Table):
        return node.entries
    if group:
        inside = next(setting for setting in SETTINGS if setting.key[0] == group[0])
        example = f"{group[0]}: {{{inside.key[1]}: {inside.example}}}"
    else:
        example = "headroom: 1%"
    what = shown(node.text) if isinstance(node, Scalar) else "a list"
    problems.append(Problem(node.mark, f"expected settings such as `{example}`, found {what}"))
    return ()


def _unknown(group: str, key: str) -> str:
    full = f"{group}.{key}" if group else key
    return f"unknown key {shown(full)}{_did_you_mean(group, key)}"


def _did_you_mean(group: str, key: str) -> str:
    """A name that is close, here or in another group."""
    here = [s.key[-1] for s in SETTINGS if s.key[:-1] == ((group,) if group else ())]
    here += [] if group else GROUP_KEYS
    word = key.lower().replace("-", "_")[:100]
    close = difflib.get_close_matches(word, here, n=1)
    if close and "." not in word:
        return f", did you mean {f'{group}.' if group else ''}{close[0]}?"
    names = {setting.key[-1]: setting.name for setting in SETTINGS}
    names |= {setting.name: setting.name for setting in SETTINGS}
    close = difflib.get_close_matches(word, list(names), n=1, cutoff=0.75)
    if not close:
        return ""
    key_path = names[close[0]].split(".")
    if len(key_path) == 1:
        return f", did you mean {key_path[0]}, which stands in no group?"
    return f", did you mean {key_path[1]} in the group {key_path[0]}?"


def _take(
    setting: Setting,
    node: Node,
    values: _Values,
    marks: dict[Key, Mark],
    problems: list[Problem],
) -> None:
    """Read one value over what earlier files said."""
    reading = setting.kind.read(node)
    problems += (Problem(p.mark, f"{setting.name}: {p.message}") for p in reading.problems)
    before = values.get(setting.field)
    value = reading.value
    bad = bool(reading.problems) or isinstance(node, Unread)
    if before is not None and not before.bad and not bad:
        value = setting.kind.merge(before.value, value)
    values[setting.field] = _Found(value, node.mark, bad)
    marks[setting.key] = node.mark
    marks.update(((*setting.key, *place), mark) for place, mark in reading.places)


def _config(values: _Values) -> Config:
    """The settings that could be read; the rest are defaults, for further checks."""
    good: dict[str, Any] = {field: found.value for field, found in values.items() if not found.bad}
    config = replace(Config(), **{f: v for f, v in good.items() if f != "used_bp"})
    fill = good.get("used_bp")
    return replace(config, used_bp=used_bp_for(config.headroom_bp) if fill is None else fill)


@dataclass(frozen=True, slots=True)
class _Rule:
    """Settings that only together are wrong; the message tells their values already."""

    fields: tuple[str, ...]
    broken: Callable[[Config], bool]
    message: str


_RULES = (
    _Rule(
        ("used_bp", "headroom_bp"),
        lambda c: c.used_bp + c.headroom_bp <= BP_MAX,
        "{0} and {1} exclude each other: together they must exceed 100%, or hot memory stops coming"
        " before cold memory starts to leave",
    ),
    _Rule(
        ("aggr_us", "sample_us"),
        lambda c: c.aggr_us < SAMPLES_PER_AGGREGATION_MIN * c.sample_us,
        "{0} and {1}: an aggregation takes at least "
        f"{SAMPLES_PER_AGGREGATION_MIN} samples to tell hot from warm",
    ),
    _Rule(
        ("sample_us_max", "sample_us"),
        lambda c: c.auto_intervals and c.sample_us_max < c.sample_us,
        "{0} and {1}: the longest time between looks cannot be less than the shortest",
    ),
    _Rule(
        ("window_ms", "aggr_us"),
        lambda c: c.window_ms * 1000 < c.aggr_us,
        "{0} and {1}: a window cannot be shorter than an aggregation, or there is no new count to "
        "act on",
    ),
    _Rule(
        ("tick_ms", "window_ms"),
        lambda c: c.tick_ms > WINDOWS_PER_TICK_MAX * c.window_ms,
        "{0} and {1}: a tick is at most "
        f"{WINDOWS_PER_TICK_MAX} windows, or too much moves unseen",
    ),
)


def _conflicts(config: Config, values: _Values, marks: Marks) -> Iterator[Problem]:
    """Values that exclude each other. The place is the first of them that somebody wrote."""
    for rule in _RULES:
        if any(values[field].bad for field in rule.fields if field in values):
            continue
        if rule.broken(config):
            settings = [BY_FIELD[field] for field in rule.fields]
            mark = next(values[field].mark for field in rule.fields if field in values)
            told = (f"{s.name} {s.kind.write(getattr(config, s.field))}" for s in settings)
            yield Problem(mark, rule.message.format(*told))
    yield from _class_conflicts(config.cgroups, marks)


def _strangers(config: Config, marks: Marks, nodes: Nodes) -> Iterator[Problem]:
    """Nodes of the override that the machine does not have."""
    for rank, tier in enumerate(config.tiers or ()):
        for node in tier:
            error = node_error(node, *nodes)
            if error:
                yield Problem(marks["tiers", rank, node], f"tiers: {error}")


def _class_conflicts(classes: tuple[CgroupClass, ...], marks: Marks) -> Iterator[Problem]:
    """Paths that stand twice, and includes that an exclude makes void."""
    excluded = {path: c.name for c in classes if c.mode is CgroupMode.exclude for path in c.paths}
    first: dict[str, str] = {}
    for found in classes:
        for path in found.paths:
            mark = marks["cgroups", found.name, path]
            if path in first:
                where = "" if first[path] == found.name else f", first in {first[path]}"
                yield Problem(mark, f"cgroups: {found.name}: {path} stands there twice{where}")
            first.setdefault(path, found.name)
            above = next((p for p in map(str, PurePosixPath(path).parents) if p in excluded), None)
            if found.mode is CgroupMode.include and above is not None:
                told = f"{path} lies in {above}, which {excluded[above]} excludes"
                yield Problem(mark, f"cgroups: {found.name}: {told}: nothing of it would move")
