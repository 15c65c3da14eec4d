"""The files of tierd: the lock, the saved state, the totals, and the path of the socket.

Rules of this file:
1. A file is replaced as a whole (new file, fsync, rename, fsync of the directory), so that a power
   cut leaves the old text or the new one. An absent file is None. An unreadable file is an error.
2. Files are created only in directories where nobody else can create any. No link is followed, and
   only regular files are opened, so that nobody can make tierd change another file.
3. The size of a file is checked before it is read.
"""

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tierd.errors import Conflict, ExitCode, TierdError

SOCKET = "api.sock"
# Exists only while tierd runs on a simulated machine. Other commands read its files there.
KERNEL_SOCKET = "kernel.sock"
STATE = "state.json"
COUNTERS = "counters.json"
EVENTS = "events.ring"
HISTORY = "history.ring"
TALLY = "tally.json"
# The profile that the daemon keeps, and the one before it.
PROFILE = "profile.jsonl"
PROFILE_BEFORE = "profile.old.jsonl"
LOCK = "lock"
# Created by a tierd that replaces a running one, which then leaves its kdamonds to the new one.
HAND_OVER = "hand-over"


# sun_path of <linux/un.h> has 108 bytes, of which the last is zero.
SOCKET_PATH_BYTES_MAX = 107

# Totals of 64 nodes with two schemes each are 60 KiB.
TEXT_BYTES_MAX = 1 << 20

# The state to restore is 60 KiB with four nodes. It grows with nodes and with excluded cgroups.
STATE_BYTES_MAX = 32 << 20

WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class FileError(TierdError):
    """A file of our own could not be read or written."""


class NotOurs(TierdError):
    """Somebody else can create files in a directory of tierd."""

    exit_code = ExitCode.not_permitted


class RunDir(NamedTuple):
    """`run` is lost at reboot (socket, lock, state to restore). `state` stays (totals, history).

    It is a tuple, because the dataclasses module takes longer to load than the rest of `status`.
    """

    run: Path
    state: Path

    def make(self) -> None:
        """Create the run directory, as open as systemd would make it for the unit."""
        _make(self.run)

    def make_state(self) -> None:
        """Create the state directory. tierd can run without it."""
        _make(self.state)

    def lock(self) -> int:
        """Take the single-instance lock. It is held while the returned descriptor is open."""
        require_ours(self.run)
        path = self.run / LOCK
        try:
            fd = open_regular(path, os.O_RDWR | os.O_CREAT)
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
        # The pid in the file is only information, so a full disk does not matter.
        with suppress(OSError):
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode("ascii"), 0)
        return fd


def require_ours(folder: Path) -> None:
    """Refuse a directory in which others can create files, or a link of theirs."""
    try:
        found = (folder.lstat(), folder.stat())
    except OSError as error:
        raise _unusable("look at", folder, error) from error
    owners = {one.st_uid for one in found} - {0, os.geteuid()}
    if owners:
        raise NotOurs(
            f"{folder} belongs to user {min(owners)}, who could put files of theirs into it",
            "remove it, or name another directory with --run-dir or --state-dir",
        )
    if found[-1].st_mode & WRITABLE_BY_OTHERS:
        mode = stat.S_IMODE(found[-1].st_mode)
        raise NotOurs(
            f"{folder} has mode {mode:o}: others could put files of theirs into it",
            "`chmod go-w` it, or name another directory with --run-dir or --state-dir",
        )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable("create", folder, error) from error
    require_ours(folder)


def socket_address(path: Path) -> str:
    """Return the path as the address of a socket. Raise FileError if it is too long."""
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_BYTES_MAX:
        raise FileError(
            f"{path} has {length} bytes, and the path of a socket may have "
            f"{SOCKET_PATH_BYTES_MAX} (108 with the zero at its end)",
            "name a directory with a shorter path with --run-dir",
        )
    return str(path)


def open_regular(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a regular file and return its descriptor. Links and pipes are refused."""
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, "it is no regular file")


def load(path: Path, bytes_max: int = TEXT_BYTES_MAX) -> str | None:
    """Return the text of a file, or None if there is no file."""
    raw = load_bytes(path, bytes_max)
    try:
        return None if raw is None else raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError(f"cannot read {path}: it is no text ({error})", "remove it") from error


def load_bytes(path: Path, bytes_max: int) -> bytes | None:
    """Return the content of a file, or None if there is no file. A larger one is an error."""
    try:
        fd = open_regular(path, os.O_RDONLY)
        with os.fdopen(fd, "rb") as file:
            # The buffer has the size of the file. One more byte shows a file that grows.
            raw = file.read(min(os.fstat(fd).st_size, bytes_max) + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable("read", path, error) from error
    if len(raw) > bytes_max:
        raise FileError(f"{path} is longer than {bytes_max} bytes, as none of ours is", "remove it")
    return raw


def save(path: Path, text: str, mode: int = 0o600, *, lasting: bool = True) -> None:
    """Replace the text of a file, as `save_bytes` does."""
    save_bytes(path, text.encode("utf-8"), mode, lasting=lasting)


def save_bytes(path: Path, content: bytes, mode: int = 0o600, *, lasting: bool = True) -> None:
    """Replace the content of a file.

    It then survives a kill, and if `lasting`, a power cut too.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # An existing file is a link, or was left by a killed tierd with this pid.
        aside.unlink(missing_ok=True)
        fd = open_regular(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(fd, "wb") as file:
            # The umask of the process does not matter.
            os.fchmod(fd, mode)
            file.write(content)
            file.flush()
            if lasting:
                os.fsync(fd)
        aside.replace(path)
        if lasting:
            _sync_directory(path.parent)
    except OSError as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise _unusable("write", path, error) from error


def remove(path: Path) -> None:
    """Remove the file, if it is there."""
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


def _unusable(operation: str, path: Path, error: OSError) -> FileError:
    why = "it is a link" if error.errno == errno.ELOOP else error.strerror or str(error)
    refused = FileError(
        f"cannot {operation} {path}: {why}",
        "run as root, or name other directories with --run-dir and --state-dir",
    )
    if error.errno in (errno.EACCES, errno.EPERM):
        refused.exit_code = ExitCode.not_permitted
    return refused
