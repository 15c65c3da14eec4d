"""Directories and files of the simulated kernel, as objects: what a path leads to.

A file's text is made when it is read. A refusal carries the errno alone; the kernel that was
asked adds operation, path and value.
"""

from collections.abc import Callable, Iterator
from errno import EACCES, EISDIR, ENOENT, ENOTDIR
from typing import Protocol

READ_ONLY = 0o444
READ_WRITE = 0o644
ROOT_READ_ONLY = 0o400
ROOT_READ_WRITE = 0o600

_ANY_READ = 0o444
_ANY_WRITE = 0o222


class Refused(Exception):
    """The kernel says no: an errno, which the system call hands to its caller."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Oops(Exception):
    """The kernel dies of what was asked: whoever gets here has killed a machine."""


class File(Protocol):
    """What a path may end at. Text has no trailing newline."""

    @property
    def mode(self) -> int: ...
    def read(self) -> str: ...
    def write(self, text: str, /) -> None: ...


class Directory:
    """Names, and what they stand for."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[str, Directory | File] = {}

    def make(self, path: str) -> "Directory":
        """The directory of that path below this one, made where it is missing."""
        found = self
        for name in path.split("/"):
            entry = found.entries.setdefault(name, Directory())
            if not isinstance(entry, Directory):
                raise ValueError(f"{path}: {name} is a file")
            found = entry
        return found

    def put(self, path: str, file: File) -> None:
        """A file at that path below this one; directories on the way are made."""
        folder, _, name = path.rpartition("/")
        (self.make(folder) if folder else self).entries[name] = file

    def find(self, path: str) -> "Directory | File":
        """What the path leads to; Refused as by open(2)."""
        found: Directory | File = self
        for name in path.split("/"):
            if not isinstance(found, Directory):
                raise Refused(ENOTDIR)
            entry = found.entries.get(name)
            if entry is None:
                raise Refused(ENOENT)
            found = entry
        return found

    def file(self, path: str) -> File:
        """The file of that path; a directory is refused as by read(2) and open(2) for writing."""
        found = self.find(path)
        if isinstance(found, Directory):
            raise Refused(EISDIR)
        return found

    def directory(self, path: str) -> "Directory":
        """The directory of that path."""
        found = self.find(path)
        if not isinstance(found, Directory):
            raise Refused(ENOTDIR)
        return found

    def walk(self, prefix: str = "") -> Iterator[str]:
        """The path of every file below, in the order of names."""
        for name, entry in sorted(self.entries.items()):
            if isinstance(entry, Directory):
                yield from entry.walk(f"{prefix}{name}/")
            else:
                yield f"{prefix}{name}"


class Fixed:
    """A file that always reads the same and takes nothing."""

    __slots__ = ("mode", "text")

    def __init__(self, text: str, mode: int = READ_ONLY) -> None:
        self.text = text
        self.mode = mode

    def read(self) -> str:
        return self.text

    def write(self, _text: str) -> None:
        raise Refused(EACCES)


class Live:
    """A file whose text is made at each read, and which may take values."""

    __slots__ = ("_take", "_text", "mode")

    def __init__(
        self,
        text: Callable[[], str],
        take: Callable[[str], None] | None = None,
        mode: int | None = None,
    ) -> None:
        self._text = text
        self._take = take
        self.mode = mode or (READ_ONLY if take is None else READ_WRITE)

    def read(self) -> str:
        return self._text()

    def write(self, text: str) -> None:
        if self._take is None:
            raise Refused(EACCES)
        self._take(text)


def may_read(file: File, *, root: bool) -> bool:
    """Whether open(2) for reading succeeds; kernfs asks for some read bit even of root."""
    return bool(file.mode & (_ANY_READ if root else 0o004))


def may_write(file: File, *, root: bool) -> bool:
    """Whether open(2) for writing succeeds; kernfs asks for some write bit even of root."""
    return bool(file.mode & (_ANY_WRITE if root else 0o002))
