"""The types of the settings `cgroups` and `shares`: classes of cgroups by name."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from tierd.configuration.config import (
    BOUND,
    REST,
    WEIGHT,
    CgroupClass,
    CgroupMode,
    Moves,
    ShareClass,
)
from tierd.configuration.valuetypes import (
    PATH_CHARACTERS_MAX,
    Key,
    ParsedValue,
    ValueType,
    count,
    percent,
    quoted,
    what,
    words,
)
from tierd.configuration.yamltext import (
    FilePlace,
    Problem,
    YamlList,
    YamlMapping,
    YamlNode,
    YamlScalar,
    YamlUnusable,
    shown,
)
from tierd.units import BP_MAX, format_percent

# A hundred times the usual weight: a class that needs more wants a floor.
WEIGHT_MAX = 100 * WEIGHT

# Each class has three schemes for each pair of nodes, and each tick reads their statistics.
SHARES_MAX = 16

_NUMBERS = {
    "floor": percent(0, BP_MAX),
    "ceiling": percent(0, BP_MAX),
    "weight": count(1, WEIGHT_MAX),
}
_VALUES = {**_NUMBERS, "moves": words(Moves)}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_PATTERN_SIGNS = "*?["


class _Named(Protocol):
    @property
    def name(self) -> str: ...


@dataclass(slots=True)
class _Found:
    """What is collected while the classes are read."""

    problems: list[Problem] = field(default_factory=list)
    places: list[tuple[Key, FilePlace]] = field(default_factory=list)

    def wrong(self, node: YamlNode, message: str) -> None:
        self.problems.append(Problem(node.place, message))


def cgroups() -> ValueType:
    """Return the type for cgroup classes by name; a later file replaces one of the same name."""
    allowed = "classes by name, each with paths to include or to exclude"
    read = partial(_classes, "database: {include: /database.slice}", _cgroup_class)
    return ValueType(allowed, read, _write_cgroups, merge=_merge)


def shares() -> ValueType:
    """Return the type for shares by name; a later file replaces a class of the same name."""
    allowed = (
        f"at most {SHARES_MAX} classes by name, each with paths, and floor, ceiling, weight, moves"
    )
    read = partial(_classes, "web: {paths: [/web.slice], floor: 20%}", _share_class)
    return ValueType(allowed, read, _write_shares, merge=_merge)


def cgroup_path_error(path: str, *, patterns: bool = False) -> str:
    """Return what is wrong with a path in the cgroup tree; empty if it is correct."""
    found = f"found {shown(path)}"
    if path.startswith("/sys/fs/cgroup"):
        return f"expected a path from the root of the cgroup tree, without /sys/fs/cgroup, {found}"
    if path == "/":
        return "/ is the whole machine, which needs no class; to move nothing, use `mode: observe`"
    if not path.startswith("/"):
        return f"expected a path that begins with /, such as /database.slice, {found}"
    if not path.isprintable() or len(path) > PATH_CHARACTERS_MAX:
        return f"expected a path of printable characters, at most {PATH_CHARACTERS_MAX}, {found}"
    if not patterns and ("*" in path or "?" in path):
        return f"patterns are not allowed: a path includes its whole subtree, {found}"
    if any(part in ("", ".", "..") for part in path[1:].split("/")):
        return f"expected a path without empty parts, '.' or '..', {found}"
    if patterns and any(sign in path.split("/")[1] for sign in _PATTERN_SIGNS):
        return f"expected a first part without a pattern, {found}"
    return ""


def _classes(
    example: str,
    read: Callable[[YamlScalar, YamlMapping, _Found], _Named | None],
    node: YamlNode,
) -> ParsedValue:
    """Return the classes of a setting. `read` returns one of them, or None if it is wrong."""
    if isinstance(node, YamlScalar) and node.is_null:
        return ParsedValue(())
    found = _Found()
    if not isinstance(node, YamlMapping):
        found.wrong(node, f"expected classes by name, such as {example}, found {what(node)}")
        return ParsedValue(problems=tuple(found.problems))
    classes = []
    for name, body in node.entries:
        if _NAME.fullmatch(name.text) is None:
            said = f"expected a name of letters, digits, - and _, found {shown(name.text)}"
            found.wrong(name, said)
        elif isinstance(body, YamlMapping) and body.entries:
            one = read(name, body, found)
            if one is not None:
                found.places.append(((name.text,), name.place))
                classes.append(one)
        elif not isinstance(body, YamlUnusable):
            _, _, one_body = example.partition(": ")
            said = f"expected a class, such as {one_body}, found {what(body)}"
            found.wrong(body, f"{name.text}: {said}")
    return ParsedValue(tuple(classes), tuple(found.problems), tuple(found.places))


def _cgroup_class(name: YamlScalar, body: YamlMapping, found: _Found) -> CgroupClass | None:
    modes = " or ".join(CgroupMode)
    unknown = [key for key, _ in body.entries if key.text not in set(CgroupMode)]
    for key in unknown:
        expected = f"expected {modes} with paths, such as {{include: /database.slice}}"
        found.wrong(key, f"{name.text}: {expected}, found {shown(key.text)}")
    if unknown:
        return None
    if len(body.entries) > 1:
        found.wrong(body.entries[1][0], f"{name.text}: a class has either {modes}, not both")
        return None
    mode, node = body.entries[0]
    paths = _paths(name.text, node, found, patterns=False)
    return CgroupClass(name.text, CgroupMode(mode.text), paths)


def _share_class(name: YamlScalar, body: YamlMapping, found: _Found) -> ShareClass | None:
    taken = {REST: "all other memory", BOUND: "all memory that a cpuset binds"}
    if name.text in taken:
        found.wrong(name, f"expected another name: {name.text} is {taken[name.text]}")
        return None
    paths: tuple[str, ...] = ()
    values: dict[str, Any] = {}
    for key, node in body.entries:
        if key.text == "paths":
            paths = _paths(name.text, node, found, patterns=True)
        elif key.text in _VALUES:
            parsed = _VALUES[key.text].read(node)
            for one in parsed.problems:
                said = f"{name.text}: {key.text}: {one.message}"
                found.problems.append(Problem(one.place, said))
            values[key.text] = parsed.value
        else:
            keys = ", ".join(("paths", *_VALUES))
            found.wrong(key, f"{name.text}: expected {keys}, found {shown(key.text)}")
    if all(key.text != "paths" for key, _ in body.entries):
        found.wrong(name, f"{name.text}: expected paths, such as {{paths: [/web.slice]}}")
    floor, ceiling = values.get("floor"), values.get("ceiling")
    moves = values.get("moves") or Moves.both
    if floor is not None and ceiling is not None and floor > ceiling:
        found.wrong(name, f"{name.text}: its floor is above its ceiling")
    vain = [key for key, _ in body.entries if moves is Moves.none and key.text in _NUMBERS]
    for key in vain:
        found.wrong(key, f"{name.text}: with `moves: none` there is no {key.text}: nothing moves")
    return ShareClass(name.text, paths, floor, ceiling, values.get("weight", WEIGHT), moves)


def _paths(name: str, node: YamlNode, found: _Found, *, patterns: bool) -> tuple[str, ...]:
    """Return the paths of a class; one path needs no brackets."""
    entries = node.nodes if isinstance(node, YamlList) else (node,)
    paths = []
    for entry in entries:
        if isinstance(entry, YamlUnusable):
            continue
        if not isinstance(entry, YamlScalar) or entry.is_null:
            found.wrong(entry, f"{name}: expected a path, found {what(entry)}")
        elif wrong := cgroup_path_error(entry.text, patterns=patterns):
            found.wrong(entry, f"{name}: {wrong}")
        else:
            paths.append(entry.text)
            found.places.append(((name, entry.text), entry.place))
    if not entries:
        found.wrong(node, f"{name}: expected paths, found an empty list")
    return tuple(paths)


def _write_cgroups(classes: tuple[CgroupClass, ...]) -> str:
    return _written((one.name, [f"{one.mode}: {_listed(one.paths)}"]) for one in classes)


def _write_shares(classes: tuple[ShareClass, ...]) -> str:
    return _written((one.name, _share_parts(one)) for one in classes)


def _share_parts(one: ShareClass) -> list[str]:
    parts = [f"paths: {_listed(one.paths)}"]
    if one.floor_bp is not None:
        parts.append(f"floor: {format_percent(one.floor_bp)}")
    if one.ceiling_bp is not None:
        parts.append(f"ceiling: {format_percent(one.ceiling_bp)}")
    if one.weight != WEIGHT:
        parts.append(f"weight: {one.weight}")
    if one.moves is not Moves.both:
        parts.append(f"moves: {one.moves}")
    return parts


def _written(classes: Iterable[tuple[str, list[str]]]) -> str:
    bodies = (f"{quoted(name)}: {{{', '.join(parts)}}}" for name, parts in classes)
    return "{" + ", ".join(bodies) + "}"


def _listed(paths: tuple[str, ...]) -> str:
    return f"[{', '.join(map(quoted, paths))}]"


def _merge(earlier: tuple[_Named, ...], later: tuple[_Named, ...]) -> tuple[_Named, ...]:
    by_name = {one.name: one for one in (*earlier, *later)}
    return tuple(by_name.values())
