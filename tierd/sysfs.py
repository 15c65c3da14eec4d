"""All access to kernel files.

Rules of this file:
1. No other module opens a file below /sys or /proc. Paths are relative to a root
   ("sys/kernel/mm"), so that the same code runs on a captured machine and on the simulated kernel.
2. A write never creates or truncates a file. On a captured machine that would invent a file that
   the kernel lacks, and hide a missing feature.
3. One value is one write(2): sysfs takes each write as a whole value.
4. A refused operation raises an error with operation, path, errno and value.
"""

import errno
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path
from typing import Protocol, TypeVar, TypeVarTuple

from tierd.clock import Clock
from tierd.errors import ExitCode, TierdError
from tierd.frozen import dataclass

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

# Bytes of one read: more than each file that a tick reads, so that one pread(2) sees it in one
# state. /proc/vmstat is 4 KiB. A buffer of 1 MiB takes 17 us more for each read, since the memory
# comes from the kernel and goes back to it.
READ_BYTES = 1 << 16

# A file of sysfs below these folders ends with the first read that is shorter than a page. Other
# file systems, such as procfs, return less than all now and then.
ENDS_SHORT = ("sys/kernel/mm/", "sys/devices/")
SHORT_BYTES = 4096

# Open files that are kept for the next tick: it reads about 350 on a machine of 16 nodes with two
# schemes each. A process may have 1,024. Beyond the bound the oldest is closed.
KEPT_DESCRIPTORS_MAX = 512

# Seconds of one wait, and waits in all: 4 s. DAMON has one lock for all of its files, and holds it
# while a command runs. That is at most one apply interval (1 s, on 6.12).
BUSY_WAIT_S = 0.1
BUSY_WAITS_MAX = 40

# Waits of a terminal command: 20 s. A daemon beside it may hold the lock most of the time, and 20 s
# are enough for 16 kdamonds. systemd gives `tierd restore` a minute.
TERMINAL_WAITS_MAX = 200


BUSY_HINT = (
    "another program uses DAMON, so that tierd cannot: run `tierd doctor` to see which; "
    "tierd tries again"
)


class SysfsError(TierdError):
    """The kernel refused an operation on a file."""

    def __init__(self, operation: str, path: str, code: int, value: str | None = None) -> None:
        shown = "" if value is None else f" {str(value)!r}"
        name = errno.errorcode.get(code, str(code))
        super().__init__(f"{operation} /{path}{shown}: {os.strerror(code)} ({name})")
        self.operation = operation
        self.path = path
        self.errno = code
        self.value = value
        if code in (errno.EACCES, errno.EPERM):
            self.exit_code = ExitCode.not_permitted


class Sysfs(Protocol):
    """The operations on the files of a kernel, which may be real, captured or simulated.

    Text is returned without its trailing newline. Use `reread` for files that each tick reads.
    """

    def read(self, path: str) -> str: ...
    def reread(self, path: str) -> str: ...
    def read_bytes(self, path: str) -> bytes: ...
    def write(self, path: str, value: str) -> None: ...
    def exists(self, path: str) -> bool: ...
    def listdir(self, path: str) -> tuple[str, ...]: ...


@dataclass(slots=True)
class RealSysfs:
    """Files below `root`: `/` on a live machine, a directory for a captured one.

    Paths are joined as text: with pathlib this took an eighth of a tick.
    """

    root: Path = Path("/")
    _kept: OrderedDict[str, int] = field(default_factory=OrderedDict)
    _below: str = field(init=False)

    def __post_init__(self) -> None:
        self._below = os.path.join(self.root, "")  # noqa: PTH118 - it must end with a slash

    def read(self, path: str) -> str:
        return self.read_bytes(path).decode("utf-8", "surrogateescape").removesuffix("\n")

    def read_bytes(self, path: str) -> bytes:
        try:
            fd = os.open(self._below + path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                return _whole(fd, path)
            finally:
                os.close(fd)
        except OSError as error:
            raise _refused("read", path, error) from error

    def reread(self, path: str) -> str:
        """Read through a descriptor that is kept open. If the file was replaced, open it again."""
        try:
            try:
                raw = self._pread(path)
            except OSError as error:
                # A file that was removed gives ENODEV in sysfs, and ESRCH in procfs if its process
                # has ended. A new one of the same name may exist: writing an nr_* file creates all
                # directories below it again.
                if error.errno not in (errno.ENODEV, errno.ESRCH):
                    raise
                os.close(self._kept.pop(path))
                raw = self._pread(path)
        except OSError as error:
            raise _refused("read", path, error) from error
        return raw.decode("utf-8", "surrogateescape").removesuffix("\n")

    def write(self, path: str, value: str) -> None:
        # The name of a cgroup is bytes, and need not be UTF-8.
        data = value.encode("utf-8", "surrogateescape")
        try:
            fd = os.open(self._below + path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                written = os.write(fd, data)
            finally:
                os.close(fd)
        except OSError as error:
            raise _refused("write", path, error, value) from error
        if written != len(data):
            raise SysfsError("write", path, errno.EIO, value)

    def exists(self, path: str) -> bool:
        try:
            os.stat(self._below + path)  # noqa: PTH116 - text, not a Path
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise _refused("look for", path, error) from error
        return True

    def listdir(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(os.listdir(self._below + path)))  # noqa: PTH208 - names, not paths
        except OSError as error:
            raise _refused("list", path, error) from error

    def close(self) -> None:
        """Close every kept descriptor."""
        while self._kept:
            os.close(self._kept.popitem()[1])

    def _pread(self, path: str) -> bytes:
        fd = self._kept.get(path)
        if fd is None:
            fd = os.open(self._below + path, os.O_RDONLY | os.O_CLOEXEC)
            self._kept[path] = fd
            if len(self._kept) > KEPT_DESCRIPTORS_MAX:
                os.close(self._kept.popitem(last=False)[1])
        return _whole(fd, path)


def _whole(fd: int, path: str) -> bytes:
    """Return the content of an open file."""
    first = os.pread(fd, READ_BYTES, 0)
    if _is_last(first, path):
        return first
    # The types of the kernel are more than a thousand pages. To add each page to those before would
    # copy 4 GB.
    return b"".join((first, *_more(fd, path, len(first))))


def _is_last(chunk: bytes, path: str) -> bool:
    return len(chunk) < SHORT_BYTES and path.startswith(ENDS_SHORT)


def _more(fd: int, path: str, at: int) -> Iterator[bytes]:
    """Yield what follows in an open file: a read returns at most a page or a record of it."""
    while chunk := os.pread(fd, READ_BYTES, at):
        yield chunk
        if _is_last(chunk, path):
            return
        at += len(chunk)


@dataclass(slots=True)
class Patience:
    """The number of waits for EBUSY that are left for one task: a tick, a stop or a command.

    DAMON has one lock for all its files, so all files share this number. If each file had its own
    and the lock were never released, one task would wait many times as long. When no wait is left,
    each operation is tried once.
    """

    wait: Callable[[float], bool]
    """Waits for so many seconds. Returns False if a stop was asked for: all waiting then ends."""
    waits_max: int = BUSY_WAITS_MAX
    _left: int = field(init=False)

    def __post_init__(self) -> None:
        self.renew()

    @staticmethod
    def by(clock: Clock, waits_max: int = BUSY_WAITS_MAX) -> "Patience":
        """Return a Patience that waits by the clock. No stop ends its waits early."""

        def wait(seconds: float) -> bool:
            clock.sleep(seconds)
            return True

        return Patience(wait, waits_max)

    def renew(self) -> None:
        """Allow `waits_max` waits again. The caller does this when a new task begins."""
        self._left = self.waits_max

    def ask_again(self) -> bool:
        """Wait once, if a wait is left. Return True if the operation should be tried again."""
        if self._left <= 0:
            return False
        self._left -= 1
        if self.wait(BUSY_WAIT_S):
            return True
        self._left = 0
        return False


@dataclass(frozen=True, slots=True)
class PatientSysfs:
    """A Sysfs that tries again if the kernel returns EBUSY, until no wait is left.

    EBUSY means that DAMON's lock is taken: "ask again", never "off". If no wait is left, another
    program uses DAMON all the time, and the error is raised.
    """

    inner: Sysfs
    patience: Patience

    def read(self, path: str) -> str:
        return self._patiently(self.inner.read, path)

    def reread(self, path: str) -> str:
        return self._patiently(self.inner.reread, path)

    def write(self, path: str, value: str) -> None:
        self._patiently(self.inner.write, path, value)

    def read_bytes(self, path: str) -> bytes:
        return self.inner.read_bytes(path)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def listdir(self, path: str) -> tuple[str, ...]:
        return self.inner.listdir(path)

    def _patiently(self, operation: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
        while True:
            try:
                return operation(*arguments)
            except SysfsError as error:
                if error.errno != errno.EBUSY:
                    raise
                if not self.patience.ask_again():
                    error.hint = BUSY_HINT
                    raise


@dataclass(frozen=True, slots=True)
class CountedSysfs:
    """A Sysfs that reports the errno of each write that was refused, and the end of each write."""

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


def optional(sysfs: Sysfs, path: str, *, often: bool = False) -> str | None:
    """Return the text of a file that some kernels lack; None only if it is absent.

    If the read fails but the file then exists, somebody is just creating it again. Then the error
    is raised. Pass `often` for a file that each tick reads.
    """
    try:
        return sysfs.reread(path) if often else sysfs.read(path)
    except SysfsError as error:
        if error.errno != errno.ENOENT or sysfs.exists(path):
            raise
        return None
