"""YAML text as a small tree in which every piece knows where it stands.

Values are read from the text that the user wrote, so that none of YAML's own readings (`on`, `010`,
`12:30:45`, `1e3`) gets between. The tree is built from the parser's events, which bounds size and
depth, and leaves out what could surprise: aliases, tags and second documents are problems with a
place, and so is a key that stands twice.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import yaml

# A configuration has a few kilobytes; reading a file of this size takes about a second.
CHARACTERS_MAX = 64 * 1024
# Three levels are in use; the bound keeps a hostile file from exhausting the stack.
DEPTH_MAX = 8
# The longest value anybody needs is a path.
SCALAR_CHARACTERS_MAX = 4096


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in a file; lines and columns count from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """Something wrong, and where."""

    mark: Mark
    message: str

    def __str__(self) -> str:
        return f"{self.mark}: {self.message}"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value as it was written; `plain` is without quotes."""

    mark: Mark
    text: str
    plain: bool = True

    @property
    def is_null(self) -> bool:
        """Nothing was written, or the word for it."""
        return self.plain and self.text in ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    mark: Mark
    nodes: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping; each key stands once."""

    mark: Mark
    entries: tuple[tuple[Scalar, "Node"], ...]


@dataclass(frozen=True, slots=True)
class Unread:
    """A place whose problem has been reported already."""

    mark: Mark


Node = Scalar | Items | Table | Unread


def shown(text: str, limit: int = 60) -> str:
    """The text in quotes, on one line, printable anywhere, and not too long."""
    return ascii(text) if len(text) <= limit else ascii(text[:limit]) + "..."


def read(file: str, text: str) -> tuple[Node | None, tuple[Problem, ...]]:
    """The tree of a text, None if there is nothing in it; and everything wrong with its YAML."""
    if len(text) > CHARACTERS_MAX:
        largest = f"{CHARACTERS_MAX // 1024} KiB"
        return None, (Problem(Mark(file), f"is larger than {largest}, which no settings are"),)
    reader = _Reader(file)
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
        reader.problem(reader.mark(error.problem_mark or error.context_mark), _syntax(error))
        return None, tuple(reader.problems)
    except (ValueError, OverflowError) as error:
        # An escape beyond Unicode, as in "\UFFFFFFFF", or a number of 5000 digits in a directive.
        reader.problem(reader.last, f"is not YAML: {error}")
        return None, tuple(reader.problems)
    return reader.root, tuple(reader.problems)


class _At(Protocol):
    """The parser's mark, from whichever of its two implementations; it counts from 0."""

    line: int
    column: int


class _Stop(Exception):
    """There is no sense in reading on."""


@dataclass(slots=True)
class _Frame:
    """A list or a mapping that is still open."""

    mark: Mark
    is_table: bool
    nodes: list[Node] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    """Where each key stands."""

    def close(self) -> Node:
        if not self.is_table:
            return Items(self.mark, tuple(self.nodes))
        pairs = zip(self.nodes[::2], self.nodes[1::2], strict=True)
        return Table(self.mark, tuple((k, v) for k, v in pairs if isinstance(k, Scalar)))

    @property
    def awaits_key(self) -> bool:
        return self.is_table and len(self.nodes) % 2 == 0


class _Reader:
    """Takes the parser's events one by one; state is the open lists and mappings."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.root: Node | None = None
        self.problems: list[Problem] = []
        self.last = Mark(file)
        self._open: list[_Frame] = []
        self._documents = 0
        self._take: dict[type[yaml.Event], Callable[[yaml.Event, Mark], None]] = {
            yaml.DocumentStartEvent: self._document,
            yaml.ScalarEvent: self._scalar,
            yaml.AliasEvent: self._alias,
            yaml.MappingStartEvent: self._start,
            yaml.SequenceStartEvent: self._start,
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
        }

    def mark(self, mark: _At | None) -> Mark:
        return self.last if mark is None else Mark(self.file, mark.line + 1, mark.column + 1)

    def problem(self, mark: Mark, message: str) -> None:
        self.problems.append(Problem(mark, message))

    def take(self, event: yaml.Event) -> None:
        self.last = self.mark(event.start_mark)
        if (taker := self._take.get(type(event))) is not None:
            taker(event, self.last)

    def _document(self, _: yaml.Event, mark: Mark) -> None:
        self._documents += 1
        if self._documents > 1:
            self.problem(mark, "a second document begins here: settings are one document")
            raise _Stop

    def _scalar(self, event: yaml.Event, mark: Mark) -> None:
        assert isinstance(event, yaml.ScalarEvent)
        if event.tag is not None:
            self._tagged(event.tag, mark)
        if len(event.value) > SCALAR_CHARACTERS_MAX:
            self.problem(mark, f"a value is longer than {SCALAR_CHARACTERS_MAX} characters")
            self._add(Unread(mark))
            return
        self._add(Scalar(mark, event.value, plain=event.style is None))

    def _alias(self, event: yaml.Event, mark: Mark) -> None:
        assert isinstance(event, yaml.AliasEvent)
        name = shown(f"*{event.anchor}")
        self.problem(mark, f"aliases such as {name} are not known here: write the value out")
        self._add(Unread(mark))

    def _start(self, event: yaml.Event, mark: Mark) -> None:
        assert isinstance(event, yaml.CollectionStartEvent)
        if event.tag is not None:
            self._tagged(event.tag, mark)
        if len(self._open) == DEPTH_MAX:
            self.problem(mark, f"is nested deeper than {DEPTH_MAX} levels, which no setting is")
            raise _Stop
        self._open.append(_Frame(mark, isinstance(event, yaml.MappingStartEvent)))

    def _end(self, _: yaml.Event, __: Mark) -> None:
        self._add(self._open.pop().close())

    def _tagged(self, tag: str, mark: Mark) -> None:
        # A lone `!` says that a value is text, as all values here are.
        if tag != "!":
            self.problem(mark, f"tags such as {shown(tag)} are not known here")

    def _add(self, node: Node) -> None:
        if not self._open:
            self.root = node
            return
        frame = self._open[-1]
        frame.nodes.append(self._key(frame, node) if frame.awaits_key else node)

    def _key(self, frame: _Frame, node: Node) -> Node:
        """The key itself, or Unread where its value is to be skipped with it."""
        if isinstance(node, Unread):
            return node
        if not isinstance(node, Scalar):
            self.problem(node.mark, "a key is a word, not a list or a mapping")
            return Unread(node.mark)
        first = frame.lines.get(node.text)
        if first is not None:
            self.problem(node.mark, f"{shown(node.text)} stands here twice, first in line {first}")
            return Unread(node.mark)
        frame.lines[node.text] = node.mark.line
        return node


def _place(file: str, text: str, position: int) -> Mark:
    before = text[:position]
    return Mark(file, before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1)


def _syntax(error: yaml.MarkedYAMLError) -> str:
    said = " ".join(part for part in (error.context, error.problem) if part) or "not YAML"
    if "'\\t'" in said:
        said += ": indent with spaces, not tabs"
    return f"is not YAML: {said}"
