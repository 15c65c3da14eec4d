"""Parses YAML text into a small tree in which every part has its place in the file.

Values stay text as the user wrote it: YAML would turn `on`, `010`, `12:30:45` and `1e3` into other
values. The tree is built from the parser's events, which limits its size and depth. Aliases, tags,
second documents and keys that are given twice are problems, each with its place.
"""

from collections.abc import Callable
from dataclasses import field
from typing import Protocol

import yaml

from tierd.frozen import dataclass

# 64 Ki characters: a configuration has a few thousand. Parsing this many takes about a second.
CHARACTERS_MAX = 64 * 1024
# 8 levels: settings use three, and a hostile file could exhaust the stack.
DEPTH_MAX = 8
# 4096 characters: the longest value is a path (PATH_MAX).
SCALAR_CHARACTERS_MAX = 4096

# For "\UFFFFFFFF", and for a number of 5000 digits in a directive, the library raises another error
# than YAMLError.
BEYOND = "is not YAML: an escape is larger than \\U0010FFFF, or a number is too long"


@dataclass(frozen=True, slots=True, order=True)
class FilePlace:
    """A place in a file; lines and columns count from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """An error, and its place in the file."""

    place: FilePlace
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


@dataclass(frozen=True, slots=True)
class YamlScalar:
    """A single value as the user wrote it; `plain` if it has no quotes."""

    place: FilePlace
    text: str
    plain: bool = True

    @property
    def is_null(self) -> bool:
        """True if there is no value, or a word that means none."""
        return self.plain and self.text in ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class YamlList:
    """A list."""

    place: FilePlace
    nodes: tuple["YamlNode", ...]


@dataclass(frozen=True, slots=True)
class YamlMapping:
    """A mapping; no key is given twice."""

    place: FilePlace
    entries: tuple[tuple[YamlScalar, "YamlNode"], ...]


@dataclass(frozen=True, slots=True)
class YamlUnusable:
    """A part that has a problem, which is already reported."""

    place: FilePlace


YamlNode = YamlScalar | YamlList | YamlMapping | YamlUnusable


def shown(text: str, limit: int = 60) -> str:
    """Return the text in quotes, in ASCII, on one line, and cut at `limit` characters."""
    return ascii(text) if len(text) <= limit else ascii(text[:limit]) + "..."


def read(
    file: str, text: str, characters_max: int = CHARACTERS_MAX, depth_max: int = DEPTH_MAX
) -> tuple[YamlNode | None, tuple[Problem, ...]]:
    """Return the tree of a text (None if it is empty) and every problem with its YAML."""
    if len(text) > characters_max:
        largest = f"{characters_max // 1024} KiB"
        return None, (Problem(FilePlace(file), f"is too large: expected at most {largest}"),)
    reader = _Reader(file, depth_max)
    try:
        for event in yaml.parse(text):
            reader.take(event)
    except _Stop:
        return None, tuple(reader.problems)
    except yaml.reader.ReaderError as error:
        code = ord(text[error.position])
        reader.problem(
            _place(file, text, error.position), f"character U+{code:04X} is not allowed in YAML"
        )
        return None, tuple(reader.problems)
    except yaml.MarkedYAMLError as error:
        reader.problem(reader.place(error.problem_mark or error.context_mark), _syntax(error))
        return None, tuple(reader.problems)
    except (ValueError, OverflowError):
        # The message of Python differs between its versions.
        reader.problem(reader.last, BEYOND)
        return None, tuple(reader.problems)
    return reader.root, tuple(reader.problems)


class _At(Protocol):
    """A place as the YAML parser gives it, in C or in Python; lines and columns count from 0."""

    line: int
    column: int


class _Stop(Exception):
    """Raised to stop reading: the rest of the text cannot be read."""


@dataclass(slots=True)
class _Frame:
    """A list or a mapping that is still open."""

    place: FilePlace
    is_table: bool
    nodes: list[YamlNode] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    """The line of each key."""

    def close(self) -> YamlNode:
        if not self.is_table:
            return YamlList(self.place, tuple(self.nodes))
        pairs = zip(self.nodes[::2], self.nodes[1::2], strict=True)
        return YamlMapping(self.place, tuple((k, v) for k, v in pairs if isinstance(k, YamlScalar)))

    @property
    def awaits_key(self) -> bool:
        return self.is_table and len(self.nodes) % 2 == 0


class _Reader:
    """Builds the tree from the parser's events; keeps the lists and mappings that are open."""

    def __init__(self, file: str, depth_max: int) -> None:
        self.file = file
        self._depth_max = depth_max
        self.root: YamlNode | None = None
        self.problems: list[Problem] = []
        self.last = FilePlace(file)
        self._open: list[_Frame] = []
        self._documents = 0
        self._take: dict[type[yaml.Event], Callable[[yaml.Event, FilePlace], None]] = {
            yaml.DocumentStartEvent: self._document,
            yaml.ScalarEvent: self._scalar,
            yaml.AliasEvent: self._alias,
            yaml.MappingStartEvent: self._start,
            yaml.SequenceStartEvent: self._start,
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
        }

    def place(self, place: _At | None) -> FilePlace:
        return (
            self.last if place is None else FilePlace(self.file, place.line + 1, place.column + 1)
        )

    def problem(self, place: FilePlace, message: str) -> None:
        self.problems.append(Problem(place, message))

    def take(self, event: yaml.Event) -> None:
        self.last = self.place(event.start_mark)
        if (taker := self._take.get(type(event))) is not None:
            taker(event, self.last)

    def _document(self, _: yaml.Event, place: FilePlace) -> None:
        self._documents += 1
        if self._documents > 1:
            self.problem(place, "a second document begins here: expected one document")
            raise _Stop

    def _scalar(self, event: yaml.Event, place: FilePlace) -> None:
        assert isinstance(event, yaml.ScalarEvent)
        if event.tag is not None:
            self._tagged(event.tag, place)
        if len(event.value) > SCALAR_CHARACTERS_MAX:
            self.problem(place, f"a value is longer than {SCALAR_CHARACTERS_MAX} characters")
            self._add(YamlUnusable(place))
            return
        self._add(YamlScalar(place, event.value, plain=event.style is None))

    def _alias(self, event: yaml.Event, place: FilePlace) -> None:
        assert isinstance(event, yaml.AliasEvent)
        name = shown(f"*{event.anchor}")
        self.problem(place, f"aliases such as {name} are not allowed: write the value itself")
        self._add(YamlUnusable(place))

    def _start(self, event: yaml.Event, place: FilePlace) -> None:
        assert isinstance(event, yaml.CollectionStartEvent)
        if event.tag is not None:
            self._tagged(event.tag, place)
        if len(self._open) == self._depth_max:
            self.problem(place, f"is nested too deeply: expected at most {self._depth_max} levels")
            raise _Stop
        self._open.append(_Frame(place, isinstance(event, yaml.MappingStartEvent)))

    def _end(self, _: yaml.Event, __: FilePlace) -> None:
        self._add(self._open.pop().close())

    def _tagged(self, tag: str, place: FilePlace) -> None:
        # The tag `!` says that a value is text, and all values here are.
        if tag != "!":
            self.problem(place, f"tags such as {shown(tag)} are not allowed: remove the tag")

    def _add(self, node: YamlNode) -> None:
        if not self._open:
            self.root = node
            return
        frame = self._open[-1]
        frame.nodes.append(self._key(frame, node) if frame.awaits_key else node)

    def _key(self, frame: _Frame, node: YamlNode) -> YamlNode:
        """Return the key, or YamlUnusable to skip the key with its value."""
        if isinstance(node, YamlUnusable):
            return node
        if not isinstance(node, YamlScalar):
            self.problem(node.place, "a key must be a word, not a list or a mapping")
            return YamlUnusable(node.place)
        first = frame.lines.get(node.text)
        if first is not None:
            self.problem(node.place, f"{shown(node.text)} is given twice, first in line {first}")
            return YamlUnusable(node.place)
        frame.lines[node.text] = node.place.line
        return node


def _place(file: str, text: str, position: int) -> FilePlace:
    before = text[:position]
    return FilePlace(file, before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1)


def _syntax(error: yaml.MarkedYAMLError) -> str:
    said = " ".join(part for part in (error.context, error.problem) if part) or "not YAML"
    if "'\\t'" in said:
        said += ": indent with spaces, not tabs"
    return f"is not YAML: {said}"
