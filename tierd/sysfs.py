"""The one door to kernel files.

Rules of this file:
1. Nobody else opens a file below /sys or /proc. Paths are relative to a root ("sys/kernel/mm"),
   so that the shipped program runs on a captured machine and on the simulated kernel alike.
2. A write never creates and never truncates: on a captured tree either would invent an attribute
   that the kernel lacks, and hide a missing feature.
3. One value is one write(2): sysfs takes each write as a whole value.
4. A refused operation is an error that carries operation, path, errno and value.
"""

import errno
import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from tierd.clock import Clock
from tierd.errors import ExitCode, TierdError

T = TypeVar("T")

# Larger than any text attribute that tierd reads (/proc/zoneinfo on 8 nodes is about 100 KiB):
# one pread(2) then sees one consistent snapshot.
READ_BYTES_MAX = 1 << 20

# A tick re-reads 3 files per kdamond, 6 or 7 per scheme and 2 per node: about 350 on a machine of
# 16 nodes with two schemes each. Beyond this the oldest is closed; a process may have 1,024.
KEPT_DESCRIPTORS_MAX = 512

# DAMON guards its whole tree with one trylock, held for as long as a command runs. A command is
# served once per sampling interval (5 ms) or aggregation (100 ms), and on 6.12 after as much as
# one apply interval (1 s): 4 s in all covers the longest with room, and still ends.
BUSY_TRIES_MAX = 40
BUSY_WAIT_S = 0.1


class SysfsError(TierdError):
    """The kernel refused an operation on a file."""

    def __init__(self, operation: str, path: str, code: int, value: str | None = None) -> None:
        shown = "" if value is None else f" {value!r}"
        name = errno.errorcode.get(code, str(code))
        super().__init__(f"{operation} /{path}{shown}: {os.strerror(code)} ({name})")
        self.operation = operation
        self.path = path
        self.errno = code
        self.value = value
        if code in (errno.EACCES, errno.EPERM):
            self.exit_code = ExitCode.not_permitted


class Sysfs(Protocol):
    """What the rest of tierd may ask of a kernel, real, captured or simulated.

    Text comes back without its trailing newline; `reread` is `read` for the files of every tick.
    """

    def read(self, path: str) -> str: ...
    def reread(self, path: str) -> str: ...
    def read_bytes(self, path: str) -> bytes: ...
    def write(self, path: str, value: str) -> None: ...
    def exists(self, path: str) -> bool: ...
    def listdir(self, path: str) -> tuple[str, ...]: ...


@dataclass(slots=True)
class RealSysfs:
    """Files below `root`: `/` on a live machine, a directory for a captured one."""

    root: Path = Path("/")
    _kept: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def read(self, path: str) -> str:
        return self.read_bytes(path).decode("utf-8", "surrogateescape").removesuffix("\n")

    def read_bytes(self, path: str) -> bytes:
        try:
            return (self.root / path).read_bytes()
        except OSError as error:
            raise _refused("read", path, error) from error

    def reread(self, path: str) -> str:
        """Read over a descriptor that stays open; a file that was replaced is opened afresh."""
        try:
            try:
                raw = self._pread(path)
            except OSError as error:
                # sysfs answers ENODEV on a descriptor whose attribute was removed; a new one of
                # the same name may be there (nr_* writes recreate whole subtrees).
                if error.errno != errno.ENODEV:
                    raise
                self._forget(path)
                raw = self._pread(path)
        except OSError as error:
            raise _refused("read", path, error) from error
        return raw.decode("utf-8", "surrogateescape").removesuffix("\n")

    def write(self, path: str, value: str) -> None:
        data = value.encode()
        try:
            fd = os.open(self.root / path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                written = os.write(fd, data)
            finally:
                os.close(fd)
        except OSError as error:
            raise _refused("write", path, error, value) from error
        if written != len(data):
            raise SysfsError("write", path, errno.EIO, value)

    def exists(self, path: str) -> bool:
        return (self.root / path).exists()

    def listdir(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(os.listdir(self.root / path)))  # noqa: PTH208 - names, not paths
        except OSError as error:
            raise _refused("list", path, error) from error

    def close(self) -> None:
        """Close every kept descriptor."""
        while self._kept:
            os.close(self._kept.popitem()[1])

    def _pread(self, path: str) -> bytes:
        fd = self._kept.get(path)
        if fd is None:
            fd = os.open(self.root / path, os.O_RDONLY | os.O_CLOEXEC)
            self._kept[path] = fd
            if len(self._kept) > KEPT_DESCRIPTORS_MAX:
                os.close(self._kept.popitem(last=False)[1])
        chunks: list[bytes] = []
        offset = 0
        # procfs hands out at most a page or a record at a time, so read until it says "no more".
        while offset < READ_BYTES_MAX:
            chunk = os.pread(fd, READ_BYTES_MAX - offset, offset)
            if not chunk:
                break
            chunks.append(chunk)
            offset += len(chunk)
        return b"".join(chunks)

    def _forget(self, path: str) -> None:
        os.close(self._kept.pop(path))


@dataclass(frozen=True, slots=True)
class PatientSysfs:
    """A Sysfs that asks again when the kernel says EBUSY, a bounded number of times.

    EBUSY from DAMON's trylock means "ask again", never "off"; an EBUSY that outlasts the bound is
    a real refusal (another exclusive user) and is raised.
    """

    inner: Sysfs
    clock: Clock
    tries_max: int = BUSY_TRIES_MAX

    def read(self, path: str) -> str:
        return self._patiently(lambda: self.inner.read(path))

    def reread(self, path: str) -> str:
        return self._patiently(lambda: self.inner.reread(path))

    def write(self, path: str, value: str) -> None:
        self._patiently(lambda: self.inner.write(path, value))

    def read_bytes(self, path: str) -> bytes:
        return self.inner.read_bytes(path)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def listdir(self, path: str) -> tuple[str, ...]:
        return self.inner.listdir(path)

    def _patiently(self, operation: Callable[[], T]) -> T:
        for _ in range(self.tries_max - 1):
            try:
                return operation()
            except SysfsError as error:
                if error.errno != errno.EBUSY:
                    raise
            self.clock.sleep(BUSY_WAIT_S)
        return operation()


@dataclass(frozen=True, slots=True)
class CountedSysfs:
    """A Sysfs that tells of every write: that it is over, and the errno of one refused."""

    inner: Sysfs
    refused: Callable[[str], None]
    over: Callable[[], None]

    def read(self, path: str) -> str:
        return self.inner.read(path)

    def reread(self, path: str) -> str:
        return self.inner.reread(path)

    def read_bytes(self, path: str) -> bytes:
        return self.inner.read_bytes(path)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def listdir(self, path: str) -> tuple[str, ...]:
        return self.inner.listdir(path)

    def write(self, path: str, value: str) -> None:
        try:
            self.inner.write(path, value)
        except SysfsError as error:
            self.refused(errno.errorcode.get(error.errno, str(error.errno)))
            raise
        finally:
            self.over()


def _refused(operation: str, path: str, error: OSError, value: str | None = None) -> SysfsError:
    return SysfsError(operation, path, error.errno or errno.EIO, value)


def optional(sysfs: Sysfs, path: str) -> str | None:
    """The text of a file that some kernels lack: None only where it is absent."""
    try:
        return sysfs.read(path)
    except SysfsError as error:
        if error.errno != errno.ENOENT:
            raise
        return None
