"""Who has memory where: bytes of each cgroup on each node, and the processes of one cgroup.

The kernel counts the bytes of a cgroup by node all the time (memory.numa_stat), so to read them is
cheap.
"""

import errno
import re
from collections.abc import Iterable, Mapping

from tierd import figures
from tierd.errors import TierdError
from tierd.frozen import dataclass
from tierd.machine import cgroups
from tierd.machine.cgroups import MEMBERS
from tierd.sysfs import Sysfs, SysfsError

TREE = "sys/fs/cgroup"
STAT = "memory.numa_stat"

Bytes = Mapping[int, int]
"""Bytes by node."""

# What can move: pages of programs and of files. The rest of the file are parts of these, and
# memory of the kernel itself.
_MOVABLE = ("anon", "file")
_ACTIVE = ("active_anon", "active_file")

_ROW = re.compile(r"^(\w+)((?: N\d+=\d+)+)$", re.MULTILINE)
_CELL = re.compile(r" N(\d+)=(\d+)")


@dataclass(frozen=True, slots=True)
class Resident:
    """A cgroup with its memory by node, without that of the cgroups below it."""

    path: str
    bytes_by_node: Bytes
    active_by_node: Bytes | None
    """How much of it is on the kernel's lists of memory in use; None if the kernel has no lists."""


@dataclass(frozen=True, slots=True)
class Residents:
    """All cgroups with memory."""

    cgroups: tuple[Resident, ...]
    left_out: tuple[str, ...] = ()
    """Which cgroups were not read, and why."""


NOBODY = Residents(())


@dataclass(frozen=True, slots=True)
class Members:
    """The processes of a cgroup and of those below it."""

    pids: tuple[int, ...]
    left_out: tuple[str, ...]
    """Which cgroups were not read, and why."""


class NoCgroup(TierdError):
    """There is no such cgroup, or no unified tree of cgroups."""


def read(sysfs: Sysfs) -> Residents:
    """Return all cgroups below the root, with their own memory by node."""
    if not sysfs.exists(f"{TREE}/cgroup.controllers"):
        raise NoCgroup(
            f"/{TREE} is no unified cgroup tree, so the memory of cgroups by node is not known",
            "boot with systemd.unified_cgroup_hierarchy=1",
        )
    # The root has files beside its cgroups.
    names = [name for name in sysfs.listdir(TREE) if sysfs.exists(f"{TREE}/{name}/{STAT}")]
    listed = cgroups.read(sysfs, (f"/{name}" for name in names))
    whole = {path: rows for path in listed.own_bytes if (rows := _stat(sysfs, path)) is not None}
    below: dict[str, list[str]] = {}
    for path in whole:
        below.setdefault(path.rpartition("/")[0], []).append(path)
    found = []
    for path, rows in whole.items():
        children = [whole[child] for child in below.get(path, ())]
        own = _own(rows, children, _MOVABLE)
        active = _own(rows, children, _ACTIVE) if _knows_active(rows) else None
        if any(own.values()):
            found.append(Resident(path, own, active))
    return Residents(tuple(found), listed.left_out)


def _knows_active(rows: Mapping[str, Bytes]) -> bool:
    return any(name in rows for name in _ACTIVE)


def _stat(sysfs: Sysfs, path: str) -> dict[str, Bytes] | None:
    """Return the rows of a cgroup's numa_stat; None if it is gone or may not be read."""
    file = f"{TREE}{path}/{STAT}"
    try:
        return parse(file, sysfs.read(file))
    except SysfsError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV, errno.EACCES, errno.EPERM):
            return None
        raise


def parse(path: str, text: str) -> dict[str, Bytes]:
    """Return the rows of a memory.numa_stat of the unified tree: bytes by node."""
    rows: dict[str, Bytes] = {}
    for line in text.splitlines():
        row = _ROW.fullmatch(line)
        if row is None:
            raise figures.Garbled(path, "lines such as `anon N0=4096 N1=0`", line)
        rows[row[1]] = {
            figures.number(path, node): figures.number(path, size)
            for node, size in _CELL.findall(row[2])
        }
    return rows


def _own(
    rows: Mapping[str, Bytes], children: Iterable[Mapping[str, Bytes]], names: tuple[str, ...]
) -> Bytes:
    """Return the memory of a cgroup in these rows, without that of its children."""
    own = _sum(rows, names)
    for child in children:
        for node, size in _sum(child, names).items():
            own[node] = own.get(node, 0) - size
    # The files are read one after the other, so a child may seem larger than its parent.
    return {node: max(0, size) for node, size in own.items()}


def _sum(rows: Mapping[str, Bytes], names: tuple[str, ...]) -> dict[int, int]:
    total: dict[int, int] = {}
    for name in names:
        for node, size in rows.get(name, {}).items():
            total[node] = total.get(node, 0) + size
    return total


def one(sysfs: Sysfs, path: str) -> Resident:
    """Return a cgroup with all its memory by node, that of the cgroups below it included."""
    rows = _stat(sysfs, path)
    if rows is None:
        raise NoCgroup(
            f"there is no /{TREE}{path}/{STAT}, or it may not be read",
            "`tierd top` lists the cgroups that have memory",
        )
    active = _sum(rows, _ACTIVE) if _knows_active(rows) else None
    return Resident(path, _sum(rows, _MOVABLE), active)


def members(sysfs: Sysfs, path: str) -> Members:
    """Return the processes in a cgroup and below it."""
    listed = cgroups.read(sysfs, (path,))
    pids: list[int] = []
    for group in listed.own_bytes:
        file = f"{TREE}{group}/{MEMBERS}"
        try:
            text = sysfs.read(file)
        except SysfsError as error:
            # EOPNOTSUPP: a threaded cgroup, whose threads belong to a process of its parent.
            if error.errno not in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
                raise
            continue
        pids += [figures.number(file, one, most=figures.PID_MAX) for one in text.split()]
    # The kernel writes 0 for a process that this namespace of pids does not show.
    hidden = pids.count(0)
    left_out = (f"{path}: processes of another namespace of pids: {hidden}",) if hidden else ()
    # A process that moves to another cgroup may be listed twice.
    seen = tuple(pid for pid in dict.fromkeys(pids) if pid)
    return Members(seen, listed.left_out + left_out)
