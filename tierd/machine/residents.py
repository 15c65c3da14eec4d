"""Who has memory where: bytes of each cgroup on each node, and of the programs in one cgroup.

The kernel counts the bytes of a cgroup by node all the time (memory.numa_stat), so to read them is
cheap. For a program it has to walk the page tables (numa_maps), so that is done only if somebody
asks for one cgroup, and for a bounded number of programs.
"""

import errno
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tierd import figures
from tierd.errors import TierdError
from tierd.machine import cgroups, processes
from tierd.machine.cgroups import MEMBERS
from tierd.machine.processes import RSS_BYTES_MAX, RSS_BYTES_MIN
from tierd.sysfs import Sysfs, SysfsError

TREE = "sys/fs/cgroup"
STAT = "memory.numa_stat"

# Programs of a cgroup whose sizes are read, and of these the largest, whose page tables are walked.
PROGRAMS_MAX = 1000
WALKED_MAX = 20

Bytes = Mapping[int, int]
"""Bytes by node."""

# What can move: pages of programs and of files. The rest of the file are parts of these, and
# memory of the kernel itself.
_MOVABLE = ("anon", "file")
_ACTIVE = ("active_anon", "active_file")

_ROW = re.compile(r"^(\w+)((?: N\d+=\d+)+)$", re.MULTILINE)
_CELL = re.compile(r" N(\d+)=(\d+)")
_PAGE_KB = re.compile(r" kernelpagesize_kB=(\d+)")


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
class Program:
    """A program of a cgroup; `bytes_by_node` is None if its page tables were not walked."""

    pid: int
    name: str
    rss_bytes: int
    bytes_by_node: Bytes | None


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
            int(node): figures.number(path, size) for node, size in _CELL.findall(row[2])
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


def programs(sysfs: Sysfs, path: str) -> tuple[Program, ...]:
    """Return the programs in a cgroup and below it, the largest first."""
    pids: list[str] = []
    for group in cgroups.read(sysfs, (path,)).own_bytes:
        try:
            pids += sysfs.read(f"{TREE}{group}/{MEMBERS}").split()
        except SysfsError as error:
            # EOPNOTSUPP: a threaded cgroup, whose threads belong to a program of its parent.
            if error.errno not in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
                raise
    found = (processes.process(sysfs, int(pid)) for pid in pids[:PROGRAMS_MAX])
    sized = sorted((one for one in found if one), key=lambda one: -one.rss_bytes)
    return tuple(
        Program(
            one.pid, one.name, one.rss_bytes, _walked(sysfs, one) if rank < WALKED_MAX else None
        )
        for rank, one in enumerate(sized)
    )


def _walked(sysfs: Sysfs, program: processes.Process) -> Bytes | None:
    if not RSS_BYTES_MIN <= program.rss_bytes <= RSS_BYTES_MAX:
        return None
    path = f"proc/{program.pid}/numa_maps"
    try:
        return by_node(path, sysfs.read(path))
    except SysfsError:
        return None


def by_node(path: str, numa_maps: str) -> Bytes:
    """Return the bytes of a program on each node."""
    total: dict[int, int] = {}
    for line in numa_maps.splitlines():
        page = _PAGE_KB.search(line)
        # A mapping without a page in memory has no page size either.
        if page is not None:
            kib = figures.number(path, page[1], most=figures.KIB_MAX)
            for node, count in _CELL.findall(line):
                pages = figures.number(path, count, most=figures.PAGES_MAX)
                total[int(node)] = total.get(int(node), 0) + pages * kib * 1024
    return total
