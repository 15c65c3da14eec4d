"""Files of our own: the lock, the saved state, the counters, and where the socket lives.

Rules of this file: a file is replaced whole (write aside, fsync, rename, fsync the directory), so
that a power cut leaves the old text or the new one; a file that is not there is None, one that
cannot be read is an error.
"""

import errno
import fcntl
import os
from pathlib import Path
from typing import NamedTuple

from tierd.errors import Conflict, TierdError

SOCKET = "api.sock"
STATE = "state.json"
COUNTERS = "counters.json"
EVENTS = "events.ring"
HISTORY = "history.ring"
TALLY = "tally.json"
LOCK = "lock"
# Whoever replaces a running tierd puts it there: the one that stops leaves everything to the next.
HAND_OVER = "hand-over"


class FileError(TierdError):
    """A file of our own could not be read or written."""


class RunDir(NamedTuple):
    """`run` dies with the boot (socket, lock, what to restore); `state` outlives it (counters).

    A tuple, as every command has one: the module of dataclasses takes longer to load than all else
    that `status` needs of tierd.
    """

    run: Path
    state: Path

    def make(self) -> None:
        """Create both directories, as open as systemd would make them for the unit."""
        for folder in (self.run, self.state):
            try:
                folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            except OSError as error:
                raise _unusable("create", folder, error) from error

    def lock(self) -> int:
        """Hold the single-instance lock until the process ends; the descriptor is the hold."""
        path = self.run / LOCK
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unusable("open", path, error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            os.close(fd)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise _unusable("lock", path, error) from error
            raise Conflict(
                f"another tierd holds {path} (pid {holder or 'unknown'})",
                "look at it with `tierd status`; one machine needs one tierd",
            ) from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode("ascii"), 0)
        return fd


def load(path: Path) -> str | None:
    """The text of a file, or None if there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable("read", path, error) from error


def save(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace the file's text; after this returns it survives a power cut."""
    save_bytes(path, text.encode("utf-8"), mode)


def save_bytes(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace the file's content; after this returns it survives a power cut."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise _unusable("write", path, error) from error


def remove(path: Path) -> None:
    """Remove the file; one that is not there is removed already."""
    try:
        path.unlink(missing_ok=True)
        _sync_directory(path.parent)
    except OSError as error:
        raise _unusable("remove", path, error) from error


def _sync_directory(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _unusable(operation: str, path: Path, error: OSError | UnicodeDecodeError) -> FileError:
    why = error.strerror if isinstance(error, OSError) else str(error)
    return FileError(
        f"cannot {operation} {path}: {why}",
        "run as root, or name other directories with --run-dir and --state-dir",
    )
