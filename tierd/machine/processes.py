"""Programs that matter to tiering: those that place memory themselves, and those bound to nodes.

The daemon asks for the names of the first, doctor for all. Only reads, and spends a bounded time:
numa_maps walks a program's page tables, so it is read for few programs, and not for huge ones.
"""

import errno
import re
from dataclasses import dataclass

from tierd.sysfs import Sysfs, SysfsError
from tierd.units import parse_ids

# Programs that move memory between nodes, or drive DAMON, by the name the kernel knows them by.
PLACERS = ("numad", "memtierd", "damo")

# Smaller programs do not matter to a tier, and each numa_maps costs a walk of the page tables:
# about a second for 64 GiB in small pages.
LOOKED_INTO_MAX = 20
RSS_BYTES_MIN = 64 << 20
RSS_BYTES_MAX = 64 << 30

_FIELD = re.compile(r"^(Name|VmRSS|Mems_allowed_list):\s*(.*)$", re.MULTILINE)
_POLICY = re.compile(r"^[0-9a-f]+ bind(?:=\w+)?:(\S+)(.*)$", re.MULTILINE)
_PAGES = re.compile(r" N\d+=(\d+)")
_PAGE_KB = re.compile(r" kernelpagesize_kB=(\d+)")


# A process may end between the look at /proc and the look at it.
_GONE = (errno.ENOENT, errno.ESRCH)


@dataclass(frozen=True, slots=True)
class Process:
    """A program with memory of its own."""

    pid: int
    name: str
    rss_bytes: int
    mems_allowed: tuple[int, ...]
    """The nodes that its cpuset lets it use."""
    bound_bytes: int | None = None
    """What it bound to nodes by mempolicy; None where that was not looked at, or is hidden."""


def placers(sysfs: Sysfs) -> tuple[str, ...]:
    """Which of PLACERS run. One short read for each process of the machine: not for every tick."""
    running = {_name(sysfs, name) for name in sysfs.listdir("proc") if name.isdigit()}
    return tuple(name for name in PLACERS if name in running)


def _name(sysfs: Sysfs, pid: str) -> str | None:
    """What the kernel calls it; None for one that has ended meanwhile."""
    try:
        return sysfs.read(f"proc/{pid}/comm")
    except SysfsError as error:
        if error.errno not in _GONE:
            raise
        return None


def processes(sysfs: Sysfs) -> tuple[Process, ...]:
    """All programs, largest first; the largest with what they bound."""
    found = [
        process
        for name in sysfs.listdir("proc")
        if name.isdigit() and (process := _process(sysfs, int(name))) is not None
    ]
    found.sort(key=lambda process: -process.rss_bytes)
    return tuple(
        _looked_into(sysfs, process) if rank < LOOKED_INTO_MAX else process
        for rank, process in enumerate(found)
    )


def _process(sysfs: Sysfs, pid: int) -> Process | None:
    """None for a kernel thread, and for a program that has ended meanwhile."""
    try:
        fields = dict(_FIELD.findall(sysfs.read(f"proc/{pid}/status")))
    except SysfsError:
        return None
    if "VmRSS" not in fields:
        return None
    return Process(
        pid=pid,
        name=fields["Name"],
        rss_bytes=int(fields["VmRSS"].split()[0]) * 1024,
        mems_allowed=parse_ids(fields.get("Mems_allowed_list", "")),
    )


def _looked_into(sysfs: Sysfs, process: Process) -> Process:
    if not RSS_BYTES_MIN <= process.rss_bytes <= RSS_BYTES_MAX:
        return process
    try:
        text = sysfs.read(f"proc/{process.pid}/numa_maps")
    except SysfsError:
        return process
    return Process(
        process.pid, process.name, process.rss_bytes, process.mems_allowed, bound_bytes(text)
    )


def bound_bytes(numa_maps: str) -> int:
    """How much of a program lies in mappings with the policy `bind`."""
    total = 0
    for match in _POLICY.finditer(numa_maps):
        # A mapping without a page in memory has no size of pages either.
        page = _PAGE_KB.search(match[2])
        if page is not None:
            total += sum(int(pages) for pages in _PAGES.findall(match[2])) * int(page[1]) * 1024
    return total
