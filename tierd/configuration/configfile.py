"""Reads, merges and checks the configuration files, and reports every error at once.

Rules of this file:
1. An empty file is the default policy. So is a file that does not exist, unless the user named it.
2. A later file replaces the value of each key that it sets; a list or a cgroup class is replaced as
   a whole. A value that a later file replaces is checked too.
3. Every error is reported, in order, with its file, line and column.
4. Node ids are checked here if the nodes of the machine are given. If not, `check_against` does it
   later.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from tierd.configuration import filetext, yamltext
from tierd.configuration.class_values import SHARES_MAX
from tierd.configuration.config import (
    SAMPLES_PER_AGGREGATION_MIN,
    CgroupClass,
    CgroupMode,
    Config,
    Promoter,
    Tuner,
    used_bp_for,
)
from tierd.configuration.settings import (
    BY_FIELD,
    BY_KEY,
    GROUP_KEYS,
    SETTINGS,
    ReloadEffect,
    Setting,
)
from tierd.configuration.valuetypes import Key
from tierd.configuration.yamltext import (
    FilePlace,
    Problem,
    YamlMapping,
    YamlNode,
    YamlScalar,
    YamlUnusable,
    shown,
)
from tierd.errors import ConfigError, ExitCode
from tierd.frozen import dataclass, replace
from tierd.machine.override import node_error
from tierd.units import BP_MAX

CONFIG = Path("/etc/tierd/tierd.yaml")
DROP_INS = Path("/etc/tierd/tierd.d")
ENDING = ".yaml"

# 10 windows per tick: tierd does not see what a scheme does between two ticks.
WINDOWS_PER_TICK_MAX = 10

# Bytes; a character has 4 at most.
FILE_BYTES_MAX = 4 * yamltext.CHARACTERS_MAX

Source = tuple[str, str]
Places = Mapping[Key, FilePlace]
NodeIds = tuple[tuple[int, ...], tuple[int, ...]]
"""The ids of the nodes with memory, and the ids of all nodes."""


class ConfigErrors(ConfigError):
    """All errors of the configuration, or of another file, each with its place."""

    def __init__(self, problems: Sequence[Problem], what: str = "the configuration") -> None:
        self.problems = tuple(sorted(set(problems)))
        self.lines = tuple(map(str, self.problems))
        how_many = "an error" if len(self.lines) == 1 else f"{len(self.lines)} errors"
        super().__init__("\n".join((f"{what} has {how_many}", *self.lines)))


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A valid configuration, and the place of each value in the files."""

    config: Config
    places: Places
    """By key, such as ("metrics", "address"), ("tiers", 0, 1) for node 1 of tier 0, and
    ("cgroups", "database", "/database.slice")."""
    files: tuple[str, ...] = ()
    """The files that were read, in order."""


@dataclass(frozen=True, slots=True)
class _Found:
    """The value of a setting in a file; `bad` if it could not be read."""

    value: Any
    place: FilePlace
    bad: bool = False


_Values = dict[str, _Found]


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting that has different values in two configurations."""

    name: str
    before: str
    after: str
    effect: ReloadEffect

    def __str__(self) -> str:
        return f"{self.name}: {self.before} -> {self.after} ({self.effect})"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The output of `tierd check`, and its exit code."""

    lines: tuple[str, ...]
    exit_code: ExitCode
    config: Config | None = None
    """None if it has errors."""


def load(
    path: Path, drop_ins: Path | None, *, required: bool = False, nodes: NodeIds | None = None
) -> LoadedConfig:
    """Read a file and its drop-ins; a `required` file has to exist.

    If `nodes` is given, node ids that this machine does not have are errors too.
    """
    sources: list[Source] = []
    problems: list[Problem] = []
    for file in (path, *_drop_ins(drop_ins, problems)):
        text = filetext.read(file, required or file is not path, problems, FILE_BYTES_MAX)
        if text is not None:
            sources.append((str(file), text))
    return _parse(sources, problems, nodes)


def parse(sources: Sequence[Source]) -> LoadedConfig:
    """Return the configuration from pairs of a file's name and its text."""
    return _parse(sources, [], None)


def check_against(parsed: LoadedConfig, nodes: NodeIds) -> None:
    """Raise ConfigErrors if a machine with these nodes cannot have this configuration."""
    problems = tuple(_strangers(parsed.config, parsed.places, nodes))
    if problems:
        raise ConfigErrors(problems)


def diff(before: Config, after: Config) -> tuple[SettingChange, ...]:
    """Return the settings that changed, and when a reload makes each take effect."""
    return tuple(
        SettingChange(setting.name, old, new, setting.effect)
        for setting in SETTINGS
        if (old := setting.text(before)) != (new := setting.text(after))
    )


def check(
    path: Path, drop_ins: Path | None, *, required: bool = True, nodes: NodeIds | None = None
) -> CheckResult:
    """Check the files as `run` does: list what differs from the default, or every error."""
    try:
        parsed = load(path, drop_ins, required=required, nodes=nodes)
    except ConfigErrors as errors:
        return CheckResult(errors.lines, errors.exit_code)
    ok = f"ok: {', '.join(parsed.files)}" if parsed.files else f"ok: there is no {path}"
    changes = diff(Config(), parsed.config)
    if not changes:
        return CheckResult((ok, "every setting has its default"), ExitCode.ok, parsed.config)
    told = (f"  {change.name}: {change.after} (default {change.before})" for change in changes)
    return CheckResult(
        (ok, "these settings differ from the default:", *told), ExitCode.ok, parsed.config
    )


def _drop_ins(folder: Path | None, problems: list[Problem]) -> Iterator[Path]:
    """Yield the drop-ins in the order of their names; a name that ends in .yml is a problem."""
    if folder is None:
        return
    try:
        names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    except FileNotFoundError:
        return
    except OSError as error:
        problems.append(Problem(FilePlace(str(folder)), f"cannot be listed: {error.strerror}"))
        return
    for name in names:
        if name.endswith(ENDING):
            yield folder / name
        elif name.endswith(".yml"):
            wrong = f"is not read: rename it so that it ends in {ENDING}"
            problems.append(Problem(FilePlace(str(folder / name)), wrong))


def _parse(
    sources: Sequence[Source], problems: list[Problem], nodes: NodeIds | None
) -> LoadedConfig:
    values: _Values = {}
    places: dict[Key, FilePlace] = {}
    for file, text in sources:
        root, wrong = yamltext.read(file, text)
        problems += wrong
        for setting, node in _leaves(root, problems):
            _take(setting, node, values, places, problems)
    config = _config(values)
    problems += _conflicts(config, values, places)
    if nodes is not None:
        problems += _strangers(config, places, nodes)
    if problems:
        raise ConfigErrors(problems)
    return LoadedConfig(config, MappingProxyType(places), tuple(file for file, _ in sources))


def _leaves(root: YamlNode | None, problems: list[Problem]) -> Iterator[tuple[Setting, YamlNode]]:
    """Yield every setting that a file sets, with its value."""
    for name, node in _entries(root, (), problems):
        if name.text in GROUP_KEYS:
            for inner, value in _entries(node, (name.text,), problems):
                setting = BY_KEY.get((name.text, inner.text))
                if setting is None:
                    problems.append(Problem(inner.place, _unknown(name.text, inner.text)))
                else:
                    yield setting, value
        elif (setting := BY_KEY.get((name.text,))) is not None:
            yield setting, node
        else:
            problems.append(Problem(name.place, _unknown("", name.text)))


def _entries(
    node: YamlNode | None, group: tuple[str, ...], problems: list[Problem]
) -> tuple[tuple[YamlScalar, YamlNode], ...]:
    """Return the entries of a file or of a group; it may be empty."""
    if (
        node is None
        or isinstance(node, YamlUnusable)
        or (isinstance(node, YamlScalar) and node.is_null)
    ):
        return ()
    if isinstance(node, YamlMapping):
        return node.entries
    if group:
        inside = next(setting for setting in SETTINGS if setting.key[0] == group[0])
        example = f"{group[0]}: {{{inside.key[1]}: {inside.example}}}"
    else:
        example = "headroom: 1%"
    what = shown(node.text) if isinstance(node, YamlScalar) else "a list"
    problems.append(Problem(node.place, f"expected settings such as `{example}`, found {what}"))
    return ()


def _unknown(group: str, key: str) -> str:
    full = f"{group}.{key}" if group else key
    return f"unknown key {shown(full)}{_did_you_mean(group, key)}"


def _did_you_mean(group: str, key: str) -> str:
    """Return a suggestion: a similar key of this group, else a similar key of another group."""
    # Imported here, because only a mistake needs it, and a daemon would keep it in memory.
    import difflib

    here = [s.key[-1] for s in SETTINGS if s.key[:-1] == ((group,) if group else ())]
    here += [] if group else GROUP_KEYS
    word = key.lower().replace("-", "_")[:100]
    close = difflib.get_close_matches(word, here, n=1)
    names = {setting.key[-1]: setting.name for setting in SETTINGS}
    if close and "." not in word and (word in here or word not in names):
        return f", did you mean {f'{group}.' if group else ''}{close[0]}?"
    names |= {setting.name: setting.name for setting in SETTINGS}
    close = difflib.get_close_matches(word, list(names), n=1, cutoff=0.75)
    if not close:
        return ""
    key_path = names[close[0]].split(".")
    if len(key_path) == 1:
        return f", did you mean {key_path[0]}, which is not in a group?"
    return f", did you mean {key_path[1]} in the group {key_path[0]}?"


def _take(
    setting: Setting,
    node: YamlNode,
    values: _Values,
    places: dict[Key, FilePlace],
    problems: list[Problem],
) -> None:
    """Read the value of one setting; it replaces the value from earlier files."""
    given = setting.value_type.read(node)
    problems += (Problem(p.place, f"{setting.name}: {p.message}") for p in given.problems)
    before = values.get(setting.field)
    value = given.value
    bad = bool(given.problems) or isinstance(node, YamlUnusable)
    if before is not None and not before.bad and not bad:
        value = setting.value_type.merge(before.value, value)
    values[setting.field] = _Found(value, node.place, bad)
    places[setting.key] = node.place
    places.update(((*setting.key, *part), place) for part, place in given.places)


def _config(values: _Values) -> Config:
    """Return the settings that could be read, with defaults for the rest, for further checks."""
    good: dict[str, Any] = {field: found.value for field, found in values.items() if not found.bad}
    config = replace(Config(), **{f: v for f, v in good.items() if f != "used_bp"})
    fill = good.get("used_bp")
    return replace(config, used_bp=used_bp_for(config.headroom_bp) if fill is None else fill)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule for several settings, and the message if their values contradict each other."""

    fields: tuple[str, ...]
    broken: Callable[[Config], bool]
    message: str


_RULES = (
    _Rule(
        ("used_bp", "headroom_bp"),
        lambda c: c.used_bp + c.headroom_bp <= BP_MAX,
        "{0} and {1} must together be more than 100%: else promotion stops before demotion "
        "starts, and hot memory stays on the slow node",
    ),
    _Rule(
        ("aggr_us", "sample_us"),
        lambda c: c.aggr_us < SAMPLES_PER_AGGREGATION_MIN * c.sample_us,
        "{0} and {1}: the aggregation must be at least "
        f"{SAMPLES_PER_AGGREGATION_MIN} times the sample, to tell hot from warm memory",
    ),
    _Rule(
        ("sample_us_max", "sample_us"),
        lambda c: c.auto_intervals and c.sample_us_max < c.sample_us,
        "{0} and {1}: the longest time between samples must not be less than the shortest",
    ),
    _Rule(
        ("window_ms", "aggr_us"),
        lambda c: c.window_ms * 1000 < c.aggr_us,
        "{0} and {1}: the window must not be shorter than the aggregation, or there is no "
        "new count to act on",
    ),
    _Rule(
        ("tick_ms", "window_ms"),
        lambda c: c.tick_ms > WINDOWS_PER_TICK_MAX * c.window_ms,
        "{0} and {1}: the tick must be at most "
        f"{WINDOWS_PER_TICK_MAX} windows: tierd does not see what moves between ticks",
    ),
    _Rule(
        ("shares", "cgroups"),
        lambda c: bool(c.shares and c.cgroups),
        "{0} and {1}: only one of the two can be set",
    ),
    _Rule(
        ("shares", "tuner"),
        lambda c: bool(c.shares) and c.tuner not in (Tuner.auto, Tuner.demand),
        "{0} and {1}: only the tuner demand keeps shares",
    ),
    _Rule(
        ("promoter", "tuner"),
        lambda c: (
            c.promoter is Promoter.numa_balancing and c.tuner not in (Tuner.auto, Tuner.demand)
        ),
        "{0} and {1}: only the tuner demand makes room for what NUMA balancing promotes",
    ),
    _Rule(
        ("promoter", "shares"),
        lambda c: c.promoter is Promoter.numa_balancing and bool(c.shares),
        "{0} and {1}: NUMA balancing promotes memory of every cgroup alike",
    ),
    _Rule(
        ("shares",),
        lambda c: len(c.shares) > SHARES_MAX,
        f"{{0}}: there must be at most {SHARES_MAX} classes",
    ),
    _Rule(
        ("shares",),
        lambda c: sum(one.floor_bp or 0 for one in c.shares) > BP_MAX,
        "{0}: the floors together must be at most 100%",
    ),
)


def _conflicts(config: Config, values: _Values, places: Places) -> Iterator[Problem]:
    """Yield a problem for each broken rule, at the place of the rule's first setting in a file."""
    for rule in _RULES:
        if any(values[field].bad for field in rule.fields if field in values):
            continue
        if rule.broken(config):
            settings = [BY_FIELD[field] for field in rule.fields]
            place = next(values[field].place for field in rule.fields if field in values)
            told = (f"{s.name} {s.value_type.write(getattr(config, s.field))}" for s in settings)
            yield Problem(place, rule.message.format(*told))
    yield from _class_conflicts(config.cgroups, places)


def _strangers(config: Config, places: Places, nodes: NodeIds) -> Iterator[Problem]:
    """Yield the nodes of `tiers` that the machine does not have.

    A node of `bandwidths` may come online later; until then its figure is not used.
    """
    for rank, tier in enumerate(config.tiers or ()):
        for node in tier:
            error = node_error(node, *nodes)
            if error:
                yield Problem(places["tiers", rank, node], f"tiers: {error}")


def _class_conflicts(classes: tuple[CgroupClass, ...], places: Places) -> Iterator[Problem]:
    """Yield paths that are given twice, and includes below an exclude."""
    excluded = {path: c.name for c in classes if c.mode is CgroupMode.exclude for path in c.paths}
    first: dict[str, str] = {}
    for found in classes:
        for path in found.paths:
            place = places["cgroups", found.name, path]
            if path in first:
                where = "" if first[path] == found.name else f", first in {first[path]}"
                yield Problem(place, f"cgroups: {found.name}: {path} is given twice{where}")
            first.setdefault(path, found.name)
            above = next((p for p in map(str, PurePosixPath(path).parents) if p in excluded), None)
            if found.mode is CgroupMode.include and above is not None:
                told = f"{path} is below {above}, which class {excluded[above]} excludes"
                yield Problem(place, f"cgroups: {found.name}: {told}: its memory would never move")
