"""How large the caches of processors are, as the kernel tells."""

import re
from collections.abc import Iterable, Iterator

from tierd import figures
from tierd.sysfs import Sysfs, optional

CPUS = "sys/devices/system/cpu"
LEVEL_MAX = 9
# More than any machine has. A sum of wrong figures must still fit into a profile.
BYTES_MAX = 1 << 40

_SIZE = re.compile(r"([0-9]{1,9})K")


def total_bytes(sysfs: Sysfs, cpus: Iterable[int]) -> int:
    """Return the bytes of all caches that are the last before memory; 0 if the kernel is silent.

    A cache that processors share counts once.
    """
    total, counted = 0, set[int]()
    for cpu in cpus:
        told = [] if cpu in counted else list(_told(sysfs, cpu))
        if told:
            _, size, folder = max(told)
            total += size
            path = f"{folder}/shared_cpu_list"
            counted.update(figures.ids(path, optional(sysfs, path) or f"{cpu}"))
    return min(BYTES_MAX, total)


def sizes(sysfs: Sysfs, cpu: int) -> dict[int, int]:
    """Return the bytes of each level; empty if the kernel does not tell."""
    found: dict[int, int] = {}
    for level, size, _ in _told(sysfs, cpu):
        found[level] = max(found.get(level, 0), size)
    return found


def _told(sysfs: Sysfs, cpu: int) -> Iterator[tuple[int, int, str]]:
    """Yield level, bytes and folder of each cache of a processor."""
    above = f"{CPUS}/cpu{cpu}/cache"
    names = sysfs.listdir(above) if sysfs.exists(above) else ()
    for name in (one for one in names if one.startswith("index")):
        level_path, path = f"{above}/{name}/level", f"{above}/{name}/size"
        level, text = optional(sysfs, level_path), optional(sysfs, path)
        if not level or not text:
            continue
        match = _SIZE.fullmatch(text)
        if match is None:
            raise figures.Garbled(path, "a size such as 32768K", text)
        number = figures.number(level_path, level, most=LEVEL_MAX)
        yield number, int(match[1]) * 1024, f"{above}/{name}"
