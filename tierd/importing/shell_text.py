"""Finds the commands of damo in a text, such as a script or a mail, and splits them into words.

Rules of this file:
1. A command may follow a prompt (`#`, `$`) and `sudo`, and goes on in the next line after a `\\`.
2. Nothing is expanded: a shell variable or a command in a value is a problem.
3. What is no command of damo is not read, and is counted.
"""

import re
from collections.abc import Iterator

from tierd.configuration.yamltext import FilePlace, Problem
from tierd.frozen import dataclass

# The name of damo, also as a variable (`"$damo_bin" start`), and its first words.
_DAMO = re.compile(
    r"""^[ \t]*(?:[#$%>][ \t]+)?(?:sudo[ \t]+)?(?:python3?[ \t]+)?
    ["']?(?:[^\s"'#]*/)?(?:damo(?:\.py)?|\$\{?[A-Za-z_]*damo[A-Za-z_]*\}?)["']?[ \t]+
    (?=(?:start|tune|args[ \t]+damon|module)\b)""",
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_DEMOTION = re.compile(
    r"^[^\n]*\becho[ \t]+[\"']?(?P<value>1|0|true|false|y|n)\b[^\n]*numa/demotion_enabled",
    re.MULTILINE | re.IGNORECASE,
)
_OPTION_LINE = re.compile(r"^[ \t]*--?[A-Za-z]", re.MULTILINE)
# 64 Ki characters: a script or a mail has fewer.
CHARACTERS_MAX = 64 * 1024

_COMMENT_LINE = re.compile(r"^[ \t]*#")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command."""

    text: str
    place: FilePlace


@dataclass(frozen=True, slots=True)
class Command:
    """A command of damo, from its first word on: `start`, `module`, ..."""

    words: tuple[Word, ...]
    place: FilePlace


@dataclass(frozen=True, slots=True)
class ShellText:
    """The commands in a text."""

    commands: tuple[Command, ...]
    demotion: Word | None
    """What the text writes into demotion_enabled."""
    unread_lines: int
    problems: tuple[Problem, ...]


def has_command(text: str) -> bool:
    """True if the text has a command of damo."""
    return _DAMO.search(text) is not None


def read(file: str, text: str) -> ShellText:
    """Return the commands in a text."""
    if len(text) > CHARACTERS_MAX:
        said = f"is too large: expected at most {CHARACTERS_MAX // 1024} KiB of text with a command"
        return ShellText((), None, 0, (Problem(FilePlace(file), said),))
    commands, problems = [], []
    # Positions of the lines that are read, and of those that are not.
    read_spans: list[tuple[int, int]] = []
    position = 0
    while (match := _DAMO.search(text, position)) is not None:
        reader = _Words(file, text, match.end())
        words = tuple(reader.words())
        problems += reader.problems
        commands.append(Command(words, words[0].place))
        position = max(reader.position, match.end() + 1)
        read_spans.append((match.start(), position))
    demotion = _DEMOTION.search(text)
    if demotion is not None:
        read_spans.append(demotion.span())
    unread = tuple(_unread(text, read_spans))
    problems += (
        Problem(
            _place(file, text, start),
            "a line begins with an option: the line before it must end with \\, and nothing after",
        )
        for start, line in unread
        if _OPTION_LINE.match(line)
    )
    word = (
        None
        if demotion is None
        else Word(demotion["value"], _place(file, text, demotion.start("value")))
    )
    return ShellText(tuple(commands), word, len(unread), tuple(problems))


def _unread(text: str, read_spans: list[tuple[int, int]]) -> Iterator[tuple[int, str]]:
    """Yield the position and the text of each line that is not read and not empty."""
    start = 0
    for line in text.split("\n"):
        end = start + len(line)
        is_read = any(first <= end and start < last for first, last in read_spans)
        if line.strip() and not is_read and not _COMMENT_LINE.match(line):
            yield start, line
        start = end + 1


def _place(file: str, text: str, position: int) -> FilePlace:
    before = text[:position]
    return FilePlace(file, before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1)


class _Words:
    """Splits one command into words, as a shell does but without expanding anything."""

    def __init__(self, file: str, text: str, position: int) -> None:
        self.problems: list[Problem] = []
        self.position = position
        self._file = file
        self._text = text

    def words(self) -> Iterator[Word]:
        """Yield the words up to the end of the command."""
        while self._skip_blanks():
            place = _place(self._file, self._text, self.position)
            text = self._word(place)
            if text is not None:
                yield Word(text, place)

    def _skip_blanks(self) -> bool:
        """Go to the next word; False at the end of the command."""
        text = self._text
        while self.position < len(text):
            if text.startswith(("\\\n", "\\\r\n"), self.position):
                self.position = text.index("\n", self.position) + 1
            elif text[self.position] in " \t\r":
                self.position += 1
            else:
                # A comment, or a character that ends a command.
                return text[self.position] not in "\n;&|#<>()"
        return False

    def _word(self, place: FilePlace) -> str | None:
        """Return the word that begins here; None for a comment in backquotes."""
        text, found = self._text, ""
        while self.position < len(text) and text[self.position] not in " \t\r\n;&|<>()":
            letter = text[self.position]
            if letter in "'\"`":
                inner = self._quoted(letter, place)
                if letter == "`":
                    if inner.lstrip().startswith("#"):
                        return None
                    self._expands(place)
                found += inner
                if letter == '"' and "$" in inner:
                    self._expands(place)
                continue
            if letter == "\\":
                if text.startswith(("\\\n", "\\\r\n"), self.position):
                    break
                self.position += 1
                found += text[self.position : self.position + 1]
            else:
                found += letter
                if letter == "$":
                    self._expands(place)
            self.position += 1
        return found

    def _quoted(self, quote: str, place: FilePlace) -> str:
        """Return what is in quotes, and go behind them."""
        end = self._text.find(quote, self.position + 1)
        if end < 0:
            self.problems.append(Problem(place, f"a quote {quote} is never closed"))
            end = len(self._text)
        inner = self._text[self.position + 1 : end]
        self.position = min(end + 1, len(self._text))
        return inner

    def _expands(self, place: FilePlace) -> None:
        said = "shell variables and commands are not expanded: write the value itself"
        self.problems.append(Problem(place, said))
