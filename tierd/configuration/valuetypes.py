"""The types of values: how each is read from the user's text, and written back exactly.

`read(write(value))` is the same value. For a wrong value `read` does not raise: it returns a
problem, with line and column, that says what was expected.
"""

import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from tierd import units
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
from tierd.frozen import dataclass

Key = tuple[str | int, ...]
PartPlaces = tuple[tuple[Key, FilePlace], ...]

# 60 characters: a longer text is not a quantity, and would make the message too long.
QUANTITY_CHARACTERS_MAX = 60
# 4000 characters: a write to sysfs is cut at a page, and a path at PATH_MAX (both 4096).
PATH_CHARACTERS_MAX = 4000
TIERS_MAX = 64
PORT_MAX = 65535

# From what an emulated processor reads to ten times the bandwidth of a GPU's memory.
BANDWIDTH_MIN = 1000**2
BANDWIDTH_MAX = 100 * 1000**4

_PLAIN = re.compile(r"[A-Za-z0-9/_][A-Za-z0-9/_.@+%-]*")
_SPAN = re.compile(r"([1-9][0-9]{0,9}) ?- ?([1-9][0-9]{0,9})")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9.-]*):([1-9][0-9]{0,4})")


@dataclass(frozen=True, slots=True)
class ParsedValue:
    """A value or its problems, and the places of its parts in the file."""

    value: object = None
    problems: tuple[Problem, ...] = ()
    places: PartPlaces = ()


@dataclass(frozen=True, slots=True)
class ValueType:
    """One type of value. `allowed` follows "expected" in messages, and is in the documentation."""

    allowed: str
    read: Callable[[YamlNode], ParsedValue]
    write: Callable[[Any], str]
    words: tuple[str, ...] = ()
    """The words that this type accepts."""
    only_words: bool = False
    """True if this type accepts only these words."""
    merge: Callable[[Any, Any], Any] = lambda _, later: later


def words(enum: type[StrEnum]) -> ValueType:
    """Return the type for one member of the enum."""
    return choice({member.value: member for member in enum})


def choice(values: Mapping[str, object]) -> ValueType:
    """Return the type for one of these words; each word stands for a value."""
    allowed = " or ".join(values) if len(values) == 2 else "one of " + ", ".join(values)
    word_of = {value: word for word, value in values.items()}

    def parse(text: str) -> object:
        if text not in values:
            raise ValueError(f"expected {allowed}, found {shown(text)}")
        return values[text]

    return ValueType(
        allowed, _scalar(allowed, parse), lambda value: word_of[value], tuple(values), True
    )


def switch() -> ValueType:
    """Return the type for on or off, in any spelling that YAML has for them."""
    known = {"on": True, "yes": True, "true": True, "off": False, "no": False, "false": False}

    def parse(text: str) -> object:
        if text.lower() not in known:
            raise ValueError(f"expected on or off, found {shown(text)}")
        return known[text.lower()]

    read = _scalar("on or off", parse)
    return ValueType("on or off", read, lambda value: "on" if value else "off", ("on", "off"), True)


def percent(least_bp: int, most_bp: int, why: str = "") -> ValueType:
    return _quantity(units.parse_percent, units.format_percent, least_bp, most_bp, why)


def rate(least: int, most: int, why: str = "") -> ValueType:
    return _quantity(units.parse_rate, write_rate, least, most, why)


def duration_ms(least: int, most: int, why: str = "") -> ValueType:
    return _quantity(
        units.parse_duration_ms, lambda ms: write_duration(ms * 1000), least, most, why
    )


def duration_us(least: int, most: int, why: str = "") -> ValueType:
    return _quantity(units.parse_duration_us, write_duration, least, most, why)


def count(least: int, most: int) -> ValueType:
    """Return the type for a whole number."""

    def parse(text: str) -> int:
        if not text.isdecimal():
            raise ValueError(f"expected {least} to {most}, found {shown(text)}")
        return int(text)

    return _quantity(parse, str, least, most, "")


def span(least: int, most: int) -> ValueType:
    """Return the type for two counts, the smaller first: `10-1000`."""
    allowed = f"two counts from {least} to {most}, such as 10-1000"

    def parse(text: str) -> object:
        match = _SPAN.fullmatch(text.strip())
        if match is None or not least <= int(match[1]) <= int(match[2]) <= most:
            raise ValueError(f"expected {allowed}, the smaller first, found {shown(text)}")
        return int(match[1]), int(match[2])

    return ValueType(allowed, _scalar(allowed, parse), lambda pair: f"{pair[0]}-{pair[1]}")


def address() -> ValueType:
    """Return the type for an address to listen on: a host and a port."""
    allowed = 'an address such as 127.0.0.1:19100 or "[::1]:19100"'

    def parse(text: str) -> object:
        match = _ADDRESS.fullmatch(text)
        if match is None or int(match[2]) > PORT_MAX or not _is_host(match[1]):
            raise ValueError(f"expected {allowed}, found {shown(text)}")
        return text

    # Without quotes the bracket would begin a list.
    write = lambda text: quoted(text) if text.startswith("[") else text  # noqa: E731
    return ValueType(allowed, _scalar(allowed, parse), write)


def file_path(ending: str = "", why: str = "") -> ValueType:
    """Return the type for the absolute path of a file."""
    allowed = f"an absolute path that ends in {ending}" if ending else "an absolute path"

    def parse(text: str) -> object:
        path = PurePosixPath(text)
        if not path.is_absolute() or not text.isprintable() or len(text) > PATH_CHARACTERS_MAX:
            raise ValueError(f"expected {allowed}, found {shown(text)}")
        if (ending and path.suffix != ending) or text.endswith("/"):
            because = f" ({why})" if why else ""
            raise ValueError(f"expected {allowed}{because}, found {shown(text)}")
        return text

    return ValueType(allowed, _scalar(allowed, parse), quoted)


def or_word(kind: ValueType, word: str) -> ValueType:
    """Return the type for a value of another type, or a word that stands for None."""
    allowed = f"{word}, or {kind.allowed}"

    def read(node: YamlNode) -> ParsedValue:
        if isinstance(node, YamlScalar) and node.text == word:
            return ParsedValue(None)
        parsed = kind.read(node)
        return ParsedValue(
            parsed.value,
            tuple(
                Problem(p.place, p.message.replace("expected ", f"expected {word}, or ", 1))
                for p in parsed.problems
            ),
            parsed.places,
        )

    def write(value: object) -> str:
        return word if value is None else kind.write(value)

    return ValueType(allowed, read, write, (word, *kind.words), merge=kind.merge)


def tiers() -> ValueType:
    """Return the type for lists of node ids, fastest tier first."""
    allowed = "lists of node ids, fastest tier first"
    return ValueType(allowed, _tiers, lambda value: str([list(tier) for tier in value]))


def bandwidths() -> ValueType:
    """Return the type for rates by node id."""
    allowed = "rates by node id, such as {0: 205GB/s, 1: 38GB/s}"
    return ValueType(allowed, partial(_bandwidths, allowed), _write_bandwidths)


def quoted(text: str) -> str:
    """Return the text as a YAML value, in double quotes if it needs them."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def what(node: YamlNode) -> str:
    """Return what stands there, for the end of a message."""
    if isinstance(node, YamlScalar):
        return "nothing" if node.is_null else shown(node.text)
    return "a list" if isinstance(node, YamlList) else "a mapping"


def write_rate(bytes_per_s: int) -> str:
    return f"{_largest_unit(bytes_per_s, _SIZE_UNITS)}/s"


def write_duration(us: int) -> str:
    return _largest_unit(us, _DURATION_UNITS)


_SIZE_UNITS = {"B": 1, "kB": 1000, "KiB": 1024, "MB": 1000**2, "MiB": 1024**2}
_SIZE_UNITS |= {"GB": 1000**3, "GiB": 1024**3, "TB": 1000**4, "TiB": 1024**4}
_DURATION_UNITS = {"us": 1, "ms": 1000, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6}


def _largest_unit(value: int, units_known: Mapping[str, int]) -> str:
    """Return the value in the largest unit in which it is a whole number, without rounding."""
    if value == 0:
        return "0s" if units_known is _DURATION_UNITS else "0B"
    unit = max((u for u, size in units_known.items() if value % size == 0), key=units_known.get)  # type: ignore[arg-type]
    return f"{value // units_known[unit]}{unit}"


def _scalar(allowed: str, parse: Callable[[str], object]) -> Callable[[YamlNode], ParsedValue]:
    """Return a reader of single values from a parser that raises ValueError."""

    def read(node: YamlNode) -> ParsedValue:
        if isinstance(node, YamlUnusable):
            return ParsedValue()
        if not isinstance(node, YamlScalar):
            return _wrong(node.place, f"expected {allowed}, found {what(node)}")
        if node.is_null:
            return _wrong(
                node.place, f"has no value: expected {allowed}; to use the default, remove the line"
            )
        try:
            return ParsedValue(parse(node.text))
        except ValueError as error:
            return _wrong(node.place, str(error))

    return read


def _quantity(
    parse_text: Callable[[str], int],
    write: Callable[[int], str],
    least: int,
    most: int,
    why: str,
) -> ValueType:
    allowed = f"{write(least)} to {write(most)}"
    because = f": {why}" if why else ""

    def parse(text: str) -> object:
        if len(text) > QUANTITY_CHARACTERS_MAX:
            raise ValueError(f"expected {allowed}, found {shown(text)}")
        value = parse_text(text)
        if not least <= value <= most:
            raise ValueError(f"expected {allowed}, found {shown(text)}{because}")
        return value

    return ValueType(allowed, _scalar(allowed, parse), write)


def _is_host(host: str) -> bool:
    bare = host.strip("[]")
    if host.startswith("[") or set(host) <= set("0123456789."):
        try:
            return (ipaddress.ip_address(bare).version == 6) is host.startswith("[")
        except ValueError:
            return False
    return True


def _wrong(place: FilePlace, message: str) -> ParsedValue:
    return ParsedValue(problems=(Problem(place, message),))


def _tiers(node: YamlNode) -> ParsedValue:
    expected = "expected lists of node ids, fastest tier first, such as [[0], [1]]"
    if not isinstance(node, YamlList):
        return _wrong(node.place, f"{expected}, found {what(node)}")
    problems: list[Problem] = []
    places: dict[int, tuple[Key, FilePlace]] = {}
    tiers_read = []
    for rank, tier in enumerate(node.nodes):
        ids = _node_ids(tier, problems)
        for number, place in ids:
            if number in places:
                line = places[number][1].line
                said = f"node {number} is given twice, first in line {line}: a node is in one tier"
                problems.append(Problem(place, said))
            places.setdefault(number, ((rank, number), place))
        tiers_read.append(tuple(number for number, _ in ids))
    if not problems and not 2 <= len(tiers_read) <= TIERS_MAX:
        problems.append(Problem(node.place, f"expected 2 to {TIERS_MAX} tiers, as in [[0], [1]]"))
    return ParsedValue(tuple(tiers_read), tuple(problems), tuple(places.values()))


def _node_ids(tier: YamlNode, problems: list[Problem]) -> list[tuple[int, FilePlace]]:
    """Return the node ids of a tier with their places; one entry needs no brackets."""
    entries = tier.nodes if isinstance(tier, YamlList) else (tier,)
    found: list[tuple[int, FilePlace]] = []
    for entry in entries:
        if isinstance(entry, YamlUnusable):
            continue
        text = entry.text if isinstance(entry, YamlScalar) else ""
        try:
            ids = units.parse_ids(text) if len(text) <= QUANTITY_CHARACTERS_MAX else ()
        except ValueError:
            ids = ()
        if not ids:
            found_text = what(entry)
            problems.append(
                Problem(entry.place, f"expected node ids such as 0 or 2-3, found {found_text}")
            )
        found += ((number, entry.place) for number in ids)
    if not entries:
        problems.append(Problem(tier.place, "expected the node ids of a tier, found an empty list"))
    return found


def _bandwidths(allowed: str, node: YamlNode) -> ParsedValue:
    if not isinstance(node, YamlMapping) or not node.entries:
        return _wrong(node.place, f"expected {allowed}, found {what(node)}")
    problems: list[Problem] = []
    found: dict[int, object] = {}
    one = rate(BANDWIDTH_MIN, BANDWIDTH_MAX)
    for name, value in node.entries:
        ids = _node_ids(name, problems)
        parsed = one.read(value)
        problems += (Problem(p.place, f"{name.text}: {p.message}") for p in parsed.problems)
        for number, place in ids:
            if number in found:
                problems.append(Problem(place, f"node {number} is given twice"))
            found[number] = parsed.value
    return ParsedValue(tuple(sorted(found.items())), tuple(problems))


def _write_bandwidths(pairs: tuple[tuple[int, int], ...]) -> str:
    return "{" + ", ".join(f"{node}: {write_rate(one)}" for node, one in pairs) + "}"
