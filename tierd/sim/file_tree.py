"""The directories and files of the simulated kernel.

The text of a file is made when it is read. A refusal carries only the errno; sim_kernel.py adds
operation, path and value.
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
    """The kernel refuses an operation; `code` is the errno that the system call returns."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Oops(Exception):
    """The kernel crashes: the operation would have killed a real machine."""


class File(Protocol):
    """A file. Its text has no trailing newline."""

    @property
    def mode(self) -> int: ...
    def read(self) -> str: ...
    def write(self, text: str, /) -> None: ...


class Directory:
    """A directory: names, and the files and directories that they stand for."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[str, Directory | File] = {}

    def make(self, path: str) -> "Directory":
        """Return the directory at this path below this one; create it if it is missing."""
        found = self
        for name in path.split("/"):
            entry = found.entries.setdefault(name, Directory())
            if not isinstance(entry, Directory):
                raise ValueError(f"{path}: {name} is a file")
            found = entry
        return found

    def put(self, path: str, file: File) -> None:
        """Put a file at this path below this directory; create missing directories."""
        folder, _, name = path.rpartition("/")
        (self.make(folder) if folder else self).entries[name] = file

    def find(self, path: str) -> "Directory | File":
        """Return the file or directory at this path, or raise Refused as open(2) fails."""
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
        """Return the file at this path. A directory is refused with EISDIR, as read(2) does."""
        found = self.find(path)
        if isinstance(found, Directory):
            raise Refused(EISDIR)
        return found

    def directory(self, path: str) -> "Directory":
        """Return the directory at this path."""
        found = self.find(path)
        if not isinstance(found, Directory):
            raise Refused(ENOTDIR)
        return found

    def walk(self, prefix: str = "") -> Iterator[str]:
        """Yield the paths of all files below, in the order of names."""
        for name, entry in sorted(self.entries.items()):
            if isinstance(entry, Directory):
                yield from entry.walk(f"{prefix}{name}/")
            else:
                yield f"{prefix}{name}"


class Fixed:
    """A file with a fixed text that cannot be written."""

    __slots__ = ("mode", "text")

    def __init__(self, text: str, mode: int = READ_ONLY) -> None:
        self.text = text
        self.mode = mode

    def read(self) -> str:
        return self.text

    def write(self, _text: str) -> None:
        raise Refused(EACCES)


class Live:
    """A file whose text is made at each read, and which can be written if it has `take`."""

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
    """True if open(2) for reading succeeds; kernfs requires a read bit even for root."""
    return bool(file.mode & (_ANY_READ if root else 0o004))


def may_write(file: File, *, root: bool) -> bool:
    """True if open(2) for writing succeeds; kernfs requires a write bit even for root."""
    return bool(file.mode & (_ANY_WRITE if root else 0o002))
