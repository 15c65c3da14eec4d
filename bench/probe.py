"""Reads a machine while a configuration runs: counters, quotas, processor time."""

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

KDAMONDS = Path("/sys/kernel/mm/damon/admin/kdamonds")
VMSTAT = Path("/proc/vmstat")

# The names of kdamond threads begin with this (__damon_start()).
KDAMOND = "kdamond."

# For each field of Counters the beginnings of names in /proc/vmstat, whose values are added up.
_COUNTERS = {
    "moved_pages": ("pgmigrate_success",),
    "numab_pages": ("pgpromote_success",),
    "reclaimed_pages": ("pgdemote_",),
    "direct_pages": ("pgdemote_direct",),
    "stalls": ("allocstall_",),
}


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of the whole machine since its boot."""

    moved_pages: int
    numab_pages: int
    reclaimed_pages: int
    direct_pages: int
    stalls: int


@dataclass(frozen=True, slots=True)
class Quota:
    """A scheme that moves pages: how much it may move in a window, and claims to have moved."""

    action: str
    effective_bytes: int
    applied_bytes: int


def counters() -> Counters:
    return parse_vmstat(VMSTAT.read_text())


def parse_vmstat(text: str) -> Counters:
    found = dict.fromkeys(_COUNTERS, 0)
    for line in text.splitlines():
        name, value = line.split()
        for field, starts in _COUNTERS.items():
            if name.startswith(starts):
                found[field] += int(value)
    return Counters(**found)


def free_bytes(node: int) -> int:
    lines = Path(f"/sys/devices/system/node/node{node}/meminfo").read_text().splitlines()
    return next(int(line.split()[3]) << 10 for line in lines if "MemFree:" in line)


def kdamonds() -> tuple[int, ...]:
    """Return the pids of the kdamonds that run.

    They are found by their names, because DAMON's files, `pid` too, cannot be read while a command
    is under way.
    """
    return tuple(
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/comm")
        if (text(path) or "").startswith(KDAMOND)
    )


def quotas() -> tuple[Quota, ...]:
    """Return the schemes that move pages, without those whose files cannot be read just now."""
    found = []
    for scheme in sorted(KDAMONDS.glob("*/contexts/0/schemes/[0-9]*")):
        action = text(scheme / "action") or ""
        effective = number(scheme / "quotas/effective_bytes")
        applied = number(scheme / "stats/sz_applied")
        if action.startswith("migrate_") and effective is not None and applied is not None:
            found.append(Quota(action, effective, applied))
    return tuple(found)


def cpu_s(processes: Iterable[int]) -> dict[int, float]:
    """Return the processor time of each process so far, without processes that are gone."""
    found = {}
    for pid in processes:
        stat = text(Path(f"/proc/{pid}/stat"))
        if stat:
            user, system = stat.rpartition(")")[2].split()[11:13]
            found[pid] = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return found


def others_pages(nodes: Collection[int], but: Collection[int]) -> dict[tuple[str, int], int]:
    """Count the pages on these nodes, by node, and by pid or by the path of a mapped file.

    The processes in `but` are left out: to read the maps of a large process takes the kernel long.
    """
    found: dict[tuple[str, int], int] = {}
    for path in Path("/proc").glob("[0-9]*/numa_maps"):
        pid = path.parent.name
        maps = None if int(pid) in but else text(path)
        for key, count in parse_numa_maps(maps or "", pid, nodes).items():
            # Each process that maps a file shows those of the file's pages that it has mapped.
            # The largest such number is nearest to the number of all pages.
            found[key] = max(count, found.get(key, 0))
    return found


def parse_numa_maps(maps: str, pid: str, nodes: Collection[int]) -> dict[tuple[str, int], int]:
    """Count the pages of each mapping, by node, and by its file or by the pid if it has none."""
    found: dict[tuple[str, int], int] = {}
    for line in maps.splitlines():
        # The address, the policy, and `name` or `name=value`.
        words = dict(word.partition("=")[::2] for word in line.split()[2:])
        for node in nodes:
            count = int(words.get(f"N{node}", "0"))
            key = (words.get("file", pid), node)
            found[key] = found.get(key, 0) + count
    return found


def number(path: Path) -> int | None:
    found = text(path)
    return int(found) if found and found.lstrip("-").isdecimal() else None


def text(path: Path) -> str | None:
    """Return the text of a file; None if it is gone, or if DAMON is busy."""
    try:
        return path.read_text().strip()
    except OSError:
        return None
