"""Finds programs that move memory themselves, and programs that are bound to nodes.

The daemon needs only the names of programs that move memory; the doctor needs both. This module
only reads. To read numa_maps takes long, so it is read for few programs, and not for huge ones.
"""

import errno
import re

from tierd import figures
from tierd.frozen import dataclass, replace
from tierd.sysfs import Sysfs, SysfsError

# Programs that move memory between nodes, or drive DAMON, by the name the kernel knows them by.
PLACERS = ("numad", "memtierd", "damo")

# 20 programs of 64 MiB to 64 GiB: a smaller one does not matter to a tier, and to read numa_maps of
# 64 GiB in small pages takes about a second.
LOOKED_INTO_MAX = 20
RSS_BYTES_MIN = 64 << 20
RSS_BYTES_MAX = 64 << 30

_FIELD = re.compile(r"^(Name|VmRSS|VmPin|Mems_allowed_list):\s*(.*)$", re.MULTILINE)
_POLICY = re.compile(r"^[0-9a-f]+ bind(?:=\w+)?:(\S+)(.*)$", re.MULTILINE)
_PAGES = re.compile(r" N[0-9]+=(\S+)")
_PAGE_KB = re.compile(r" kernelpagesize_kB=(\S+)")
_PID = re.compile(r"[0-9]{1,9}")
_KB = re.compile(r"(\S+) kB")

# The process ended after it was listed in /proc.
_GONE = (errno.ENOENT, errno.ESRCH)


@dataclass(frozen=True, slots=True)
class Process:
    """A program, with its memory."""

    pid: int
    name: str
    rss_bytes: int
    mems_allowed: tuple[int, ...]
    """The nodes that its cpuset lets it use."""
    bound_bytes: int | None = None
    """The memory that it bound to nodes by mempolicy; None if that was not read."""
    pinned_bytes: int = 0
    """The memory that devices use, which cannot move."""


def placers(sysfs: Sysfs) -> tuple[str, ...]:
    """Return the PLACERS that run. This reads a file of each process: too slow for every tick."""
    running = {_name(sysfs, pid) for pid in pids(sysfs)}
    return tuple(name for name in PLACERS if name in running)


def pids(sysfs: Sysfs) -> tuple[int, ...]:
    """Return the pids of all processes, threads of the kernel included."""
    return tuple(int(name) for name in sysfs.listdir("proc") if _PID.fullmatch(name))


def _name(sysfs: Sysfs, pid: int) -> str | None:
    """Return the kernel's name of a process; None if it has ended."""
    try:
        return sysfs.read(f"proc/{pid}/comm")
    except SysfsError as error:
        if error.errno not in _GONE:
            raise
        return None


def processes(sysfs: Sysfs) -> tuple[Process, ...]:
    """Return all programs, largest first; the largest ones with `bound_bytes`."""
    found = [one for pid in pids(sysfs) if (one := process(sysfs, pid)) is not None]
    found.sort(key=lambda one: -one.rss_bytes)
    return tuple(
        _looked_into(sysfs, one) if rank < LOOKED_INTO_MAX else one
        for rank, one in enumerate(found)
    )


def process(sysfs: Sysfs, pid: int) -> Process | None:
    """Return the program; None if it is a kernel thread or has ended."""
    path = f"proc/{pid}/status"
    try:
        fields = dict(_FIELD.findall(sysfs.read(path)))
    except SysfsError:
        return None
    if "VmRSS" not in fields:
        return None
    size, pinned = (_KB.fullmatch(fields.get(name, "0 kB")) for name in ("VmRSS", "VmPin"))
    if size is None or pinned is None or "Name" not in fields:
        raise figures.Garbled(path, "a Name, and VmRSS and VmPin in kB", str(fields))
    return Process(
        pid=pid,
        name=fields["Name"],
        rss_bytes=figures.number(path, size[1], most=figures.KIB_MAX) * 1024,
        pinned_bytes=figures.number(path, pinned[1], most=figures.KIB_MAX) * 1024,
        mems_allowed=figures.ids(path, fields.get("Mems_allowed_list", "")),
    )


def _looked_into(sysfs: Sysfs, process: Process) -> Process:
    if not RSS_BYTES_MIN <= process.rss_bytes <= RSS_BYTES_MAX:
        return process
    path = f"proc/{process.pid}/numa_maps"
    try:
        text = sysfs.read(path)
    except SysfsError:
        return process
    return replace(process, bound_bytes=bound_bytes(path, text))


def bound_bytes(path: str, numa_maps: str) -> int:
    """Return the bytes of a program that are in mappings with the policy `bind`."""
    total = 0
    for match in _POLICY.finditer(numa_maps):
        # A mapping without a page in memory has no page size either.
        page = _PAGE_KB.search(match[2])
        if page is not None:
            kib = figures.number(path, page[1], most=figures.KIB_MAX)
            counts = _PAGES.findall(match[2])
            pages = sum(figures.number(path, count, most=figures.PAGES_MAX) for count in counts)
            total += pages * kib * 1024
    return total
