"""How much memory processes have on each node, and how much of it the kernel takes for in use.

The kernel keeps no count of this. When somebody reads numa_maps, it walks the page tables of the
process, and for so long the process cannot map memory.

Rules of this file:
1. Only a command reads this, for somebody who waits. The daemon never does.
2. Few processes are read: the largest, and within a time. What is left out is counted.
3. What is not known is None, and never 0.
"""

import errno
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from tierd import figures
from tierd.clock import Clock
from tierd.frozen import dataclass
from tierd.machine import processes
from tierd.machine.processes import RSS_BYTES_MAX
from tierd.sysfs import Sysfs, SysfsError, optional

# A mask. Its first bit is set if the kernel sorts pages into generations (MGLRU).
LRU_GEN = "sys/kernel/mm/lru_gen/enabled"
_GENERATIONS = 1

# Processes whose sizes are asked for, and of these the largest, whose page tables are walked.
SIZED_MAX = 32_768
WALKED_MAX = 20

# Seconds after which no other process is read. One of RSS_BYTES_MAX takes about a second more.
WITHIN_S = 5.0

_RESIDENT = re.compile(r"\d+ (\d+) ")
_CELL = re.compile(r" N(\d+)=(\d+)")
_ACTIVE = re.compile(r" active=(\d+)")
_PAGE_KB = re.compile(r" kernelpagesize_kB=(\d+)")
# The name of a file comes before, but has no space in it: the kernel writes \040.
_HUGETLB = re.compile(r" huge(?= |$)")

_GONE = (errno.ENOENT, errno.ESRCH)
_NOT_PERMITTED = (errno.EACCES, errno.EPERM)


class Why(StrEnum):
    """Why a process was left out."""

    unreadable = "unreadable"
    too_large = "too_large"
    smaller = "smaller"
    late = "late"
    not_sized = "not_sized"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Processes of which it is not known on which nodes their memory is."""

    why: Why
    processes: int
    rss_bytes: int | None
    """How much memory they have; None if that is not known of each of them."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes: about so many, and certainly from `least` to `most`."""

    about: int
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Active:
    """The memory of a process that is in use, as the kernel's lists say.

    numa_maps says it of each mapping, but not of each node. So the part on one node is an estimate
    where a mapping has pages on several nodes, and some of its pages are active.
    """

    size_bytes: int
    by_node: Mapping[int, Estimate]


@dataclass(frozen=True, slots=True)
class Mapped:
    """The memory in the page tables of a process."""

    bytes_by_node: Mapping[int, int]
    hugetlb_bytes: int
    """The part of it in huge pages of hugetlbfs: they are on no list, and do not move."""
    active: Active | None
    """None if the kernel does not tell: it sorts pages into generations."""


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """A process with its memory; `mapped` is None if it is too large to be read."""

    pid: int
    name: str
    rss_bytes: int
    mapped: Mapped | None


@dataclass(frozen=True, slots=True)
class Processes:
    """The largest processes, and what is left out."""

    found: tuple[ProcessMemory, ...]
    left_out: tuple[LeftOut, ...]
    knows_active: bool
    """False if this kernel does not tell which pages of a process are active."""


@dataclass(frozen=True, slots=True)
class _Sized:
    pid: int
    rss_bytes: int


_Left = tuple[Why, int | None]
"""A process that is left out, with its memory if that is known."""


def read(
    sysfs: Sysfs, pids: Sequence[int], page_bytes: int, clock: Clock, within_s: float = WITHIN_S
) -> Processes:
    """Return the largest of these processes. After `within_s` no other one is read."""
    ends_s = clock.monotonic() + within_s
    knows_active = has_active_list(sysfs)
    sized, left = _sized(sysfs, pids, page_bytes, clock, ends_s)
    found: list[ProcessMemory] = []
    for one in sized:
        if len(found) == WALKED_MAX:
            left.append((Why.smaller, one.rss_bytes))
        elif clock.monotonic() >= ends_s:
            left.append((Why.late, one.rss_bytes))
        else:
            process, why = _process(sysfs, one, knows_active=knows_active)
            found += [process] if process else []
            left += [(why, one.rss_bytes)] if why else []
    return Processes(tuple(found), _counted(left), knows_active)


def has_active_list(sysfs: Sysfs) -> bool:
    """True if the kernel marks the pages that it takes for in use.

    Where it sorts pages into generations it clears the mark (lru_gen_add_folio(), Linux 6.1), so
    numa_maps would show that nearly nothing is active.
    """
    text = optional(sysfs, LRU_GEN)
    if text is None:
        return True
    mask = figures.hexadecimal(LRU_GEN, text.removeprefix("0x"), 0, 2**64 - 1)
    return not mask & _GENERATIONS


def _sized(
    sysfs: Sysfs, pids: Sequence[int], page_bytes: int, clock: Clock, ends_s: float
) -> tuple[list[_Sized], list[_Left]]:
    """Return the processes with memory, the largest first, and those of unknown size."""
    sized: list[_Sized] = []
    left: list[_Left] = []
    for number, pid in enumerate(pids):
        if number == SIZED_MAX or clock.monotonic() >= ends_s:
            left += [(Why.not_sized, None)] * (len(pids) - number)
            break
        path = f"proc/{pid}/statm"
        try:
            text = sysfs.read(path)
        except SysfsError as error:
            if error.errno in _NOT_PERMITTED:
                left.append((Why.unreadable, None))
            elif error.errno not in _GONE:
                raise
            continue
        rss_bytes = resident_pages(path, text) * page_bytes
        # Threads of the kernel have no memory of their own.
        if rss_bytes:
            sized.append(_Sized(pid, rss_bytes))
    sized.sort(key=lambda one: -one.rss_bytes)
    return sized, left


def resident_pages(path: str, statm: str) -> int:
    """Return how many pages of a process are in memory, without huge pages of hugetlbfs."""
    found = _RESIDENT.match(statm)
    if found is None:
        raise figures.Garbled(path, "seven numbers of pages", statm)
    return figures.number(path, found[1], most=figures.PAGES_MAX)


def _process(
    sysfs: Sysfs, sized: _Sized, *, knows_active: bool
) -> tuple[ProcessMemory | None, Why | None]:
    """Return the process, and why it is left out. Both are None if it has ended."""
    # The status has the name in one line; a name may have line breaks.
    named = processes.process(sysfs, sized.pid)
    if named is None:
        return None, None
    if sized.rss_bytes > RSS_BYTES_MAX:
        return ProcessMemory(sized.pid, named.name, sized.rss_bytes, None), Why.too_large
    path = f"proc/{sized.pid}/numa_maps"
    try:
        text = sysfs.read(path)
    except SysfsError as error:
        if error.errno not in (*_GONE, *_NOT_PERMITTED):
            raise
        there = error.errno in _NOT_PERMITTED or sysfs.exists(f"proc/{sized.pid}/statm")
        return None, Why.unreadable if there else None
    # The page tables of a process that ends are gone before it is.
    if not text:
        return None, None
    found = mapped(path, text, knows_active=knows_active)
    return ProcessMemory(sized.pid, named.name, sized.rss_bytes, found), None


def _counted(left: Iterable[_Left]) -> tuple[LeftOut, ...]:
    by_why: dict[Why, list[int | None]] = {}
    for why, size in left:
        by_why.setdefault(why, []).append(size)
    return tuple(
        LeftOut(why, len(sizes), _sum(sizes))
        for why in Why
        if (sizes := by_why.get(why)) is not None
    )


def _sum(sizes: Iterable[int | None]) -> int | None:
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total


def mapped(path: str, numa_maps: str, *, knows_active: bool) -> Mapped:
    """Return the memory in the page tables of a process, from its numa_maps."""
    total: dict[int, int] = {}
    by_node: dict[int, Estimate] = {}
    hugetlb_bytes = active_bytes = 0
    for line in numa_maps.splitlines():
        pages = {
            figures.number(path, node): figures.number(path, count, most=figures.PAGES_MAX)
            for node, count in _CELL.findall(line)
        }
        # A mapping without a page in memory has no page size either.
        if not pages:
            continue
        page = _PAGE_KB.search(line)
        if page is None:
            raise figures.Garbled(path, "kernelpagesize_kB of a mapping with pages", line)
        page_bytes = figures.number(path, page[1], most=figures.KIB_MAX) * 1024
        for node, count in pages.items():
            total[node] = total.get(node, 0) + count * page_bytes
        if _HUGETLB.search(line):
            hugetlb_bytes += sum(pages.values()) * page_bytes
            continue
        active = _active_pages(path, line, sum(pages.values()))
        active_bytes += active * page_bytes
        for node, one in _estimates(pages, active).items():
            by_node[node] = _plus(by_node.get(node, Estimate(0, 0, 0)), one, page_bytes)
    return Mapped(total, hugetlb_bytes, Active(active_bytes, by_node) if knows_active else None)


def _active_pages(path: str, line: str, pages: int) -> int:
    """Return how many pages of a mapping are active.

    show_numa_map() leaves the number out if all of them are; it writes active=0 if none is.
    """
    found = _ACTIVE.search(line)
    return pages if found is None else figures.number(path, found[1], most=pages)


def _estimates(pages: Mapping[int, int], active: int) -> dict[int, Estimate]:
    """Return how many active pages a mapping has on each node, if they are spread evenly."""
    whole = sum(pages.values())
    return {
        node: Estimate(
            active * count // whole if whole else 0,
            max(0, active - (whole - count)),
            min(active, count),
        )
        for node, count in pages.items()
    }


def _plus(total: Estimate, pages: Estimate, page_bytes: int) -> Estimate:
    return Estimate(
        total.about + pages.about * page_bytes,
        total.least + pages.least * page_bytes,
        total.most + pages.most * page_bytes,
    )
