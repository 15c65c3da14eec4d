"""How memory comes online on this machine. Only reads."""

import re
from collections.abc import Mapping

from tierd.frozen import dataclass
from tierd.machine.zoneinfo import PATH as ZONEINFO
from tierd.machine.zoneinfo import parse_zones
from tierd.sysfs import Sysfs, optional

AUTO_ONLINE = "sys/devices/system/memory/auto_online_blocks"
PARAMETERS = "sys/module/memory_hotplug/parameters"
IOMEM = "proc/iomem"

# How the driver dax/kmem names memory that it adds (kmem_name in drivers/dax/kmem.c). The name is
# shown to everybody; only addresses are hidden.
_BY_DRIVER = re.compile(r": System RAM \(kmem\)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Hotplug:
    """The settings, and what they made of the nodes; None where the kernel has no such file."""

    movable_bytes: Mapping[int, int]
    """The memory of each node in ZONE_MOVABLE."""
    new_blocks: str | None
    """The state of memory that appears: offline, online, online_kernel or online_movable."""
    memmap_on_memory: str | None
    online_policy: str | None
    by_driver: bool
    """True if a driver (dax/kmem) has added memory."""


def read(sysfs: Sysfs, page_bytes: int) -> Hotplug | None:
    """Return the settings; None if the kernel has no memory hotplug."""
    new_blocks = optional(sysfs, AUTO_ONLINE)
    if new_blocks is None:
        return None
    movable: dict[int, int] = {}
    for zone in parse_zones(sysfs.read(ZONEINFO)):
        pages = zone.managed_pages if zone.name == "Movable" else 0
        movable[zone.node] = movable.get(zone.node, 0) + pages * page_bytes
    return Hotplug(
        movable_bytes=movable,
        new_blocks=new_blocks,
        memmap_on_memory=optional(sysfs, f"{PARAMETERS}/memmap_on_memory"),
        online_policy=optional(sysfs, f"{PARAMETERS}/online_policy"),
        by_driver=_BY_DRIVER.search(optional(sysfs, IOMEM) or "") is not None,
    )
