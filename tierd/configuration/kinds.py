"""Kinds of settings: how a value is read from what the user wrote, and written back exactly.

What `write` gives, `read` takes for the same value. A wrong value is a problem with its place, and
says what was expected; reading never raises.
"""

import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

from tierd import units
from tierd.configuration.config import CgroupClass, CgroupMode
from tierd.configuration.yamltext import (
    Items,
    Mark,
    Node,
    Problem,
    Scalar,
    Table,
    Unread,
    shown,
)

Key = tuple[str | int, ...]
Places = tuple[tuple[Key, Mark], ...]

# A longer text is no quantity, and would only flood the message.
QUANTITY_CHARACTERS_MAX = 60
# Writes to sysfs are cut at a page, and the kernel's paths end at PATH_MAX.
PATH_CHARACTERS_MAX = 4000
TIERS_MAX = 64
PORT_MAX = 65535

_PLAIN = re.compile(r"[A-Za-z0-9/_][A-Za-z0-9/_.@+%-]*")
_CLASS_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_SPAN = re.compile(r"([1-9][0-9]{0,9}) ?- ?([1-9][0-9]{0,9})")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9.-]*):([1-9][0-9]{0,4})")


@dataclass(frozen=True, slots=True)
class Reading:
    """A value, or what is wrong with it; `places` are those of its parts."""

    value: object = None
    problems: tuple[Problem, ...] = ()
    places: Places = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value. `allowed` completes "expected …" and stands in the documentation."""

    allowed: str
    read: Callable[[Node], Reading]
    write: Callable[[Any], str]
    words: tuple[str, ...] = ()
    """The words among its values."""
    only_words: bool = False
    """Whether there is nothing beside the words."""
    merge: Callable[[Any, Any], Any] = lambda _, later: later


def words(enum: type[StrEnum]) -> Kind:
    """One of the members."""
    return choice({member.value: member for member in enum})


def choice(values: Mapping[str, object]) -> Kind:
    """One of some words, each of which stands for a value."""
    allowed = " or ".join(values) if len(values) == 2 else "one of " + ", ".join(values)
    word_of = {value: word for word, value in values.items()}

    def parse(text: str) -> object:
        if text not in values:
            raise ValueError(f"expected {allowed}, found {shown(text)}")
        return values[text]

    return Kind(allowed, _scalar(allowed, parse), lambda value: word_of[value], tuple(values), True)


def switch() -> Kind:
    """On or off, in any of the words that YAML knows for it."""
    known = {"on": True, "yes": True, "true": True, "off": False, "no": False, "false": False}

    def parse(text: str) -> object:
        if text.lower() not in known:
            raise ValueError(f"expected on or off, found {shown(text)}")
        return known[text.lower()]

    read = _scalar("on or off", parse)
    return Kind("on or off", read, lambda value: "on" if value else "off", ("on", "off"), True)


def percent(least_bp: int, most_bp: int, why: str = "") -> Kind:
    return _quantity(units.parse_percent, units.format_percent, least_bp, most_bp, why)


def rate(least: int, most: int, why: str = "") -> Kind:
    return _quantity(units.parse_rate, write_rate, least, most, why)


def duration_ms(least: int, most: int, why: str = "") -> Kind:
    return _quantity(
        units.parse_duration_ms, lambda ms: write_duration(ms * 1000), least, most, why
    )


def duration_us(least: int, most: int, why: str = "") -> Kind:
    return _quantity(units.parse_duration_us, write_duration, least, most, why)


def span(least: int, most: int) -> Kind:
    """Two counts, the lesser first: `10-1000`."""
    allowed = f"two counts from {least} to {most}, such as 10-1000"

    def parse(text: str) -> object:
        match = _SPAN.fullmatch(text.strip())
        if match is None or not least <= int(match[1]) <= int(match[2]) <= most:
            raise ValueError(f"expected {allowed}, the lesser first, found {shown(text)}")
        return int(match[1]), int(match[2])

    return Kind(allowed, _scalar(allowed, parse), lambda pair: f"{pair[0]}-{pair[1]}")


def address() -> Kind:
    """Where to listen: a host and a port."""
    allowed = 'an address such as 127.0.0.1:19100 or "[::1]:19100"'

    def parse(text: str) -> object:
        match = _ADDRESS.fullmatch(text)
        if match is None or int(match[2]) > PORT_MAX or not _is_host(match[1]):
            raise ValueError(f"expected {allowed}, found {shown(text)}")
        return text

    # In brackets it would begin a list.
    write = lambda text: quoted(text) if text.startswith("[") else text  # noqa: E731
    return Kind(allowed, _scalar(allowed, parse), write)


def file_path(ending: str = "", why: str = "") -> Kind:
    """A file by its whole path."""
    allowed = f"a path from / on that ends in {ending}" if ending else "a path from / on"

    def parse(text: str) -> object:
        path = PurePosixPath(text)
        if not path.is_absolute() or not text.isprintable() or len(text) > PATH_CHARACTERS_MAX:
            raise ValueError(f"expected {allowed}, found {shown(text)}")
        if (ending and path.suffix != ending) or text.endswith("/"):
            because = f" ({why})" if why else ""
            raise ValueError(f"expected {allowed}{because}, found {shown(text)}")
        return text

    return Kind(allowed, _scalar(allowed, parse), quoted)


def or_word(kind: Kind, word: str) -> Kind:
    """Another kind, or a word that stands for None."""
    allowed = f"{word}, or {kind.allowed}"

    def read(node: Node) -> Reading:
        if isinstance(node, Scalar) and node.text == word:
            return Reading(None)
        reading = kind.read(node)
        return Reading(
            reading.value,
            tuple(
                Problem(p.mark, p.message.replace("expected ", f"expected {word}, or ", 1))
                for p in reading.problems
            ),
            reading.places,
        )

    def write(value: object) -> str:
        return word if value is None else kind.write(value)

    return Kind(allowed, read, write, (word, *kind.words), merge=kind.merge)


def tiers() -> Kind:
    """Lists of node ids, fastest tier first."""
    return Kind("lists of node ids, fastest tier first", _tiers, _write_tiers)


def cgroups() -> Kind:
    """Named classes of subtrees; a later file replaces a class of the same name."""
    allowed = "classes by name, each of which includes or excludes paths"
    return Kind(allowed, _cgroups, _write_cgroups, merge=_merge_classes)


def quoted(text: str) -> str:
    """The text as a YAML value: as it is where that is safe, else in double quotes."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def write_rate(bytes_per_s: int) -> str:
    return f"{_largest_unit(bytes_per_s, _SIZE_UNITS)}/s"


def write_duration(us: int) -> str:
    return _largest_unit(us, _DURATION_UNITS)


_SIZE_UNITS = {"B": 1, "kB": 1000, "KiB": 1024, "MB": 1000**2, "MiB": 1024**2}
_SIZE_UNITS |= {"GB": 1000**3, "GiB": 1024**3, "TB": 1000**4, "TiB": 1024**4}
_DURATION_UNITS = {"us": 1, "ms": 1000, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6}


def _largest_unit(value: int, units_known: Mapping[str, int]) -> str:
    """The largest unit that the value is a whole number of: exact, where formatting rounds."""
    if value == 0:
        return "0s" if units_known is _DURATION_UNITS else "0B"
    unit = max((u for u, size in units_known.items() if value % size == 0), key=units_known.get)  # type: ignore[arg-type]
    return f"{value // units_known[unit]}{unit}"


def _scalar(allowed: str, parse: Callable[[str], object]) -> Callable[[Node], Reading]:
    """Read a single value with a parser that raises ValueError."""

    def read(node: Node) -> Reading:
        if isinstance(node, Unread):
            return Reading()
        if not isinstance(node, Scalar):
            return _wrong(node.mark, f"expected {allowed}, found {_what(node)}")
        if node.is_null:
            return _wrong(node.mark, f"has no value: expected {allowed}, or no such line")
        try:
            return Reading(parse(node.text))
        except ValueError as error:
            return _wrong(node.mark, str(error))

    return read


def _quantity(
    parse_text: Callable[[str], int],
    write: Callable[[int], str],
    least: int,
    most: int,
    why: str,
) -> Kind:
    allowed = f"{write(least)} to {write(most)}"
    because = f": {why}" if why else ""

    def parse(text: str) -> object:
        if len(text) > QUANTITY_CHARACTERS_MAX:
            raise ValueError(f"expected {allowed}, found {shown(text)}")
        value = parse_text(text)
        if not least <= value <= most:
            raise ValueError(f"expected {allowed}, found {shown(text)}{because}")
        return value

    return Kind(allowed, _scalar(allowed, parse), write)


def _is_host(host: str) -> bool:
    bare = host.strip("[]")
    if host.startswith("[") or set(host) <= set("0123456789."):
        try:
            return (ipaddress.ip_address(bare).version == 6) is host.startswith("[")
        except ValueError:
            return False
    return True


def _what(node: Node) -> str:
    if isinstance(node, Scalar):
        return "nothing" if node.is_null else shown(node.text)
    return "a list" if isinstance(node, Items) else "a mapping"


def _wrong(mark: Mark, message: str) -> Reading:
    return Reading(problems=(Problem(mark, message),))


def _tiers(node: Node) -> Reading:
    expected = "expected lists of node ids, fastest tier first, such as [[0], [1]]"
    if not isinstance(node, Items):
        return _wrong(node.mark, f"{expected}, found {_what(node)}")
    problems: list[Problem] = []
    places: dict[int, tuple[Key, Mark]] = {}
    tiers_read = []
    for rank, tier in enumerate(node.nodes):
        ids = _node_ids(tier, problems)
        for number, mark in ids:
            if number in places:
                line = places[number][1].line
                said = f"node {number} stands here twice, first in line {line}: a node is in one"
                problems.append(Problem(mark, f"{said} tier"))
            places.setdefault(number, ((rank, number), mark))
        tiers_read.append(tuple(number for number, _ in ids))
    if not problems and not 2 <= len(tiers_read) <= TIERS_MAX:
        problems.append(Problem(node.mark, f"expected 2 to {TIERS_MAX} tiers, as in [[0], [1]]"))
    return Reading(tuple(tiers_read), tuple(problems), tuple(places.values()))


def _node_ids(tier: Node, problems: list[Problem]) -> list[tuple[int, Mark]]:
    """The ids of a tier, each with its place: `[0, 2-3]`, or without brackets for one entry."""
    entries = tier.nodes if isinstance(tier, Items) else (tier,)
    found: list[tuple[int, Mark]] = []
    for entry in entries:
        if isinstance(entry, Unread):
            continue
        text = entry.text if isinstance(entry, Scalar) else ""
        try:
            ids = units.parse_ids(text) if len(text) <= QUANTITY_CHARACTERS_MAX else ()
        except ValueError:
            ids = ()
        if not ids:
            found_text = _what(entry)
            problems.append(
                Problem(entry.mark, f"expected node ids such as 0 or 2-3, found {found_text}")
            )
        found += ((number, entry.mark) for number in ids)
    if not entries:
        problems.append(Problem(tier.mark, "expected the node ids of a tier, found an empty list"))
    return found


def _write_tiers(value: tuple[tuple[int, ...], ...]) -> str:
    return str([list(tier) for tier in value])


def _cgroups(node: Node) -> Reading:
    if isinstance(node, Scalar) and node.is_null:
        return Reading(())
    if not isinstance(node, Table):
        example = "such as database: {include: /database.slice}"
        return _wrong(node.mark, f"expected classes by name, {example}, found {_what(node)}")
    problems: list[Problem] = []
    places: list[tuple[Key, Mark]] = []
    classes = []
    for name, body in node.entries:
        if _CLASS_NAME.fullmatch(name.text) is None:
            said = f"expected a name of letters, digits, - and _, found {shown(name.text)}"
            problems.append(Problem(name.mark, said))
            continue
        found = _cgroup_class(name, body, problems, places)
        if found is not None:
            places.append(((name.text,), name.mark))
            classes.append(found)
    return Reading(tuple(classes), tuple(problems), tuple(places))


def _cgroup_class(
    name: Scalar, body: Node, problems: list[Problem], places: list[tuple[Key, Mark]]
) -> CgroupClass | None:
    modes = " or ".join(CgroupMode)
    expected = f"{name.text}: expected {modes} with paths, such as {{include: /database.slice}}"
    if isinstance(body, Unread):
        return None
    if not isinstance(body, Table) or not body.entries:
        problems.append(Problem(body.mark, f"{expected}, found {_what(body)}"))
        return None
    unknown = [key for key, _ in body.entries if key.text not in set(CgroupMode)]
    for key in unknown:
        problems.append(Problem(key.mark, f"{expected}, found {shown(key.text)}"))
    if unknown:
        return None
    if len(body.entries) > 1:
        mark = body.entries[1][0].mark
        problems.append(Problem(mark, f"{name.text}: a class has one of {modes}, not both"))
        return None
    mode, node = body.entries[0]
    entries = node.nodes if isinstance(node, Items) else (node,)
    paths = []
    for entry in entries:
        path = _cgroup_path(name.text, entry, problems)
        if path is not None:
            paths.append(path)
            places.append(((name.text, path), entry.mark))
    if not entries:
        problems.append(Problem(node.mark, f"{name.text}: expected paths, found an empty list"))
    return CgroupClass(name.text, CgroupMode(mode.text), tuple(paths))


def _cgroup_path(name: str, node: Node, problems: list[Problem]) -> str | None:
    if isinstance(node, Unread):
        return None
    text = node.text if isinstance(node, Scalar) and not node.is_null else None
    wrong = f"expected a path, found {_what(node)}" if text is None else cgroup_path_error(text)
    if wrong:
        problems.append(Problem(node.mark, f"{name}: {wrong}"))
    return None if wrong else text


def cgroup_path_error(path: str) -> str:
    """What is wrong with a path in the cgroup tree; empty if nothing is."""
    found = f"found {shown(path)}"
    if path.startswith("/sys/fs/cgroup"):
        return f"a path begins at the root of the cgroup tree, without /sys/fs/cgroup, {found}"
    if path == "/":
        return "/ is the whole machine, which needs no class; `mode: observe` moves nothing"
    if not path.startswith("/"):
        return f"expected a path from / on, such as /database.slice, {found}"
    if not path.isprintable() or len(path) > PATH_CHARACTERS_MAX:
        return f"expected a path of printable characters, at most {PATH_CHARACTERS_MAX}, {found}"
    if "*" in path or "?" in path:
        return f"patterns are not known here: a path stands for its whole subtree, {found}"
    if any(part in ("", ".", "..") for part in path[1:].split("/")):
        return f"expected a path without empty parts, '.' or '..', {found}"
    return ""


def _write_cgroups(classes: tuple[CgroupClass, ...]) -> str:
    bodies = (
        f"{quoted(c.name)}: {{{c.mode}: [{', '.join(map(quoted, c.paths))}]}}" for c in classes
    )
    return "{" + ", ".join(bodies) + "}"


def _merge_classes(
    earlier: tuple[CgroupClass, ...], later: tuple[CgroupClass, ...]
) -> tuple[CgroupClass, ...]:
    by_name = {found.name: found for found in earlier} | {found.name: found for found in later}
    return tuple(by_name.values())
