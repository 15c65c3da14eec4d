"""Reads what a machine says of itself while a configuration runs: counters, quotas, CPU time."""

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

KDAMONDS = Path("/sys/kernel/mm/damon/admin/kdamonds")
VMSTAT = Path("/proc/vmstat")

# In the order of a Reading's first fields; names that begin so are added up.
_COUNTERS = {
    "moved_pages": ("pgmigrate_success",),
    "numab_pages": ("pgpromote_success",),
    "reclaimed_pages": ("pgdemote_",),
    "direct_pages": ("pgdemote_direct",),
    "stalls": ("allocstall_",),
}


@dataclass(frozen=True, slots=True)
class Counters:
    """Of the whole machine, since it was booted."""

    moved_pages: int
    numab_pages: int
    reclaimed_pages: int
    direct_pages: int
    stalls: int


@dataclass(frozen=True, slots=True)
class Quota:
    """A scheme that moves pages: what it may move in a window, and says that it has moved."""

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


def pids() -> tuple[int, ...]:
    """Of the kdamonds that run."""
    found = (number(path / "pid") for path in sorted(KDAMONDS.glob("[0-9]*")))
    return tuple(pid for pid in found if pid is not None and pid > 0)


def quotas() -> tuple[Quota, ...]:
    """Of all schemes that move pages, as far as their files can be read just now."""
    found = []
    for scheme in sorted(KDAMONDS.glob("*/contexts/0/schemes/[0-9]*")):
        action = text(scheme / "action") or ""
        effective = number(scheme / "quotas/effective_bytes")
        applied = number(scheme / "stats/sz_applied")
        if action.startswith("migrate_") and effective is not None and applied is not None:
            found.append(Quota(action, effective, applied))
    return tuple(found)


def cpu_s(processes: Iterable[int]) -> float:
    """Processor time of these processes so far; one that is gone has none."""
    ticks = 0
    for pid in processes:
        stat = text(Path(f"/proc/{pid}/stat"))
        if stat:
            user, system = stat.rpartition(")")[2].split()[11:13]
            ticks += int(user) + int(system)
    return ticks / os.sysconf("SC_CLK_TCK")


def others_pages(nodes: Collection[int], but: Collection[int]) -> dict[tuple[str, int], int]:
    """How many pages each process has of its own on these nodes, and each file that is mapped, by
    pid or path and node; of all processes but some, whose maps are not read: that takes the kernel
    as long as they are large."""
    found: dict[tuple[str, int], int] = {}
    for path in Path("/proc").glob("[0-9]*/numa_maps"):
        pid = path.parent.name
        maps = None if int(pid) in but else text(path)
        for key, count in parse_numa_maps(maps or "", pid, nodes).items():
            # A file's pages are of everybody who maps it, and hardly anybody maps all of them.
            found[key] = max(count, found.get(key, 0))
    return found


def parse_numa_maps(maps: str, pid: str, nodes: Collection[int]) -> dict[tuple[str, int], int]:
    """Pages by file, or by pid where a mapping has none, and node."""
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
    """A file's text; None where it cannot be read now: gone, or DAMON is busy."""
    try:
        return path.read_text().strip()
    except OSError:
        return None
