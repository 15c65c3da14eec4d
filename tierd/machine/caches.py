"""How large the caches of a processor are, as the kernel tells."""

import re

from tierd import figures
from tierd.sysfs import Sysfs, optional

CPUS = "sys/devices/system/cpu"
LEVEL_MAX = 9

_SIZE = re.compile(r"([0-9]{1,9})K")


def sizes(sysfs: Sysfs, cpu: int) -> dict[int, int]:
    """Return the bytes of each level; empty if the kernel does not tell."""
    folder = f"{CPUS}/cpu{cpu}/cache"
    names = sysfs.listdir(folder) if sysfs.exists(folder) else ()
    found: dict[int, int] = {}
    for name in (one for one in names if one.startswith("index")):
        level_path, path = f"{folder}/{name}/level", f"{folder}/{name}/size"
        level, text = optional(sysfs, level_path), optional(sysfs, path)
        if not level or not text:
            continue
        match = _SIZE.fullmatch(text)
        if match is None:
            raise figures.Garbled(path, "a size such as 32768K", text)
        number = figures.number(level_path, level, most=LEVEL_MAX)
        found[number] = max(found.get(number, 0), int(match[1]) * 1024)
    return found
