"""Things that are costly to make, kept outside the checkout: whole, or not there.

A thing is made in a scratch directory within the cache and renamed into place, so that neither an
interrupted download nor a full disk leaves half of one. One maker at a time, by a lock per thing;
what a killed one has left is removed by the next.
"""

import errno
import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.vm.errors import Missing, VmError

# Five kernels with modules (0.6 GB unpacked), a root file system (0.5 GB), QEMU (0.2 GB), and
# the largest of them twice while it is made.
ROOM_BYTES_MIN = 2 << 30


def place() -> Path:
    """Where the cache is, or would be."""
    chosen = os.environ.get("TIERD_VM_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(chosen) if chosen else base / "tierd-vm"


def folder() -> Path:
    """The cache, made if need be."""
    path = place()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Missing(f"cannot create the cache {path}: {error.strerror}") from error
    return path


@contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold a lock on something in this cache."""
    fd = lock_file(folder() / f".{name}.lock")
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def lock_file(path: Path) -> int:
    """A descriptor to lock."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise Missing(f"cannot write {path}: {error.strerror}") from error


def made(name: str, make: Callable[[Path], None]) -> Path:
    """The thing called `name`; `make` fills an empty directory if it is not there yet."""
    path = folder() / name
    if path.exists():
        return path
    with lock(name):
        if path.exists():
            return path
        for stale in folder().glob(f".{name}.*"):
            if stale.is_dir():
                remove(stale)
        require_room()
        _make(path, make)
    return path


def _make(path: Path, make: Callable[[Path], None]) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        make(scratch)
        scratch.chmod(0o755)
        scratch.rename(path)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise Missing(f"no room left in {path.parent} while making {path.name}") from error
        raise VmError(f"cannot make {path.name}: {error}") from error
    finally:
        remove(scratch)


def remove(tree: Path) -> None:
    """Delete a tree, but nothing of the /proc and /sys that a bootstrap may have left mounted."""
    for point in mounts_below(Path("/proc/self/mountinfo").read_text(), tree):
        done = subprocess.run(
            ["umount", "--lazy", point], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise VmError(f"{point} is mounted, so {tree} stays: {done.stderr.strip()}")
    shutil.rmtree(tree, ignore_errors=True)


def mounts_below(mountinfo: str, tree: Path) -> list[str]:
    """The mount points at or below a folder, the deepest first."""
    escaped = [line.split()[4] for line in mountinfo.splitlines()]
    # The kernel writes blanks and backslashes in paths as octal numbers.
    points = [re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), e) for e in escaped]
    return sorted((point for point in points if Path(point).is_relative_to(tree)), reverse=True)


def require_room() -> None:
    """Say so before work begins, if there is too little of it."""
    free = shutil.disk_usage(folder()).free
    if free < ROOM_BYTES_MIN:
        raise Missing(
            f"{folder()} has {free >> 20} MiB free and needs {ROOM_BYTES_MIN >> 20} MiB; "
            "set TIERD_VM_CACHE to a directory with room"
        )
