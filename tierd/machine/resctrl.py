"""Counters of memory traffic (bandwidth monitoring of resctrl), if a machine has them. Only reads.

Processors of Intel and AMD count the bytes that each L3 cache exchanges with memory, and how many
of these with the memory of its own node. The kernel shows the counters if somebody has mounted
/sys/fs/resctrl. They are by group of tasks: a task is in one control group, or in the root.
"""

import re
from collections.abc import Iterable

from tierd import figures
from tierd.machine.caches import CPUS
from tierd.sysfs import Sysfs, optional
from tierd.units import ID_MAX

FOLDER = "sys/fs/resctrl"
DATA = "mon_data"

_DOMAIN = re.compile(r"mon_L3_([0-9]{1,9})")
# What a file says if its counter has no value now (rdtgroup_mondata_show()).
_NONE = ("Unavailable", "Unassigned", "Error")

# Groups with hardware of their own: processors have at most 64 classes of service.
GROUPS_MAX = 64


def is_there(sysfs: Sysfs) -> bool:
    """Return whether the machine counts, and the counters can be seen."""
    return sysfs.exists(f"{FOLDER}/{DATA}")


def caches(sysfs: Sysfs, cpus: Iterable[int]) -> tuple[int, ...]:
    """Return the ids of the L3 caches of some processors."""
    found = set()
    for cpu in cpus:
        path = f"{CPUS}/cpu{cpu}/cache/index3/id"
        text = optional(sysfs, path)
        if text is not None:
            found.add(figures.number(path, text, most=ID_MAX))
    return tuple(sorted(found))


def local_bytes(sysfs: Sysfs, caches: Iterable[int]) -> int | None:
    """Return the bytes that these caches exchanged with the memory of their own node.

    None if a counter has no value now: then nothing is known.
    """
    wanted, total, seen = set(caches), 0, False
    for group in _groups(sysfs):
        for name in sysfs.listdir(f"{group}/{DATA}"):
            match = _DOMAIN.fullmatch(name)
            if match is None or int(match[1]) not in wanted:
                continue
            path = f"{group}/{DATA}/{name}/mbm_local_bytes"
            text = optional(sysfs, path)
            if text is None or text in _NONE:
                return None
            total, seen = total + figures.number(path, text), True
    return total if seen else None


def _groups(sysfs: Sysfs) -> list[str]:
    """Return the root and the control groups. A group includes its monitoring groups."""
    names = [name for name in sysfs.listdir(FOLDER) if sysfs.exists(f"{FOLDER}/{name}/{DATA}")]
    return [FOLDER, *(f"{FOLDER}/{name}" for name in names[:GROUPS_MAX])]
