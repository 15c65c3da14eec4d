"""Keeps things that are costly to make outside of the checkout: whole, or not at all.

A thing is made in a scratch directory of the cache, and then renamed. So an interrupted download or
a full disk leaves no half of it. A lock per thing admits one maker at a time. If a maker is killed,
the next one removes what it has left.
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

# Room for five kernels with modules (0.6 GB unpacked), a root file system (0.5 GB), QEMU (0.2 GB),
# and for a second copy of the largest while it is made.
ROOM_BYTES_MIN = 2 << 30


def place() -> Path:
    """Return where the cache is, or would be made."""
    chosen = os.environ.get("TIERD_VM_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(chosen) if chosen else base / "tierd-vm"


def folder() -> Path:
    """Return the folder of the cache. Create it if it is not there."""
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
    """Open a file to lock, and return its descriptor."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise Missing(f"cannot write {path}: {error.strerror}") from error


def made(name: str, make: Callable[[Path], None]) -> Path:
    """Return the thing called `name`. If it is not there yet, `make` fills an empty directory."""
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
    """Delete a tree. First unmount what a bootstrap may have left mounted there (/proc, /sys)."""
    for point in mounts_below(Path("/proc/self/mountinfo").read_text(), tree):
        done = subprocess.run(
            ["umount", "--lazy", point], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise VmError(f"{point} is mounted, so {tree} stays: {done.stderr.strip()}")
    shutil.rmtree(tree, ignore_errors=True)


def mounts_below(mountinfo: str, tree: Path) -> list[str]:
    """Return the mount points at or below a folder, the deepest first."""
    escaped = [line.split()[4] for line in mountinfo.splitlines()]
    # The kernel writes blanks and backslashes in paths as octal numbers.
    points = [re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), e) for e in escaped]
    return sorted((point for point in points if Path(point).is_relative_to(tree)), reverse=True)


def require_room() -> None:
    """Raise Missing if the disk has too little room, before any work begins."""
    free = shutil.disk_usage(folder()).free
    if free < ROOM_BYTES_MIN:
        raise Missing(
            f"{folder()} has {free >> 20} MiB free and needs {ROOM_BYTES_MIN >> 20} MiB; "
            "set TIERD_VM_CACHE to a directory with room"
        )
