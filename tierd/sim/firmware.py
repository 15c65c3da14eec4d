"""The parts of RAM that the firmware of a PC reserves, as /proc/iomem shows them.

The parts are those of SeaBIOS, the firmware of the virtual machines of the tests. So addresses and
memory blocks are the same in both.
"""

from tierd.sim.context_spec import Range
from tierd.sim.memory import Memory

_PAGE_ZERO = Range(0, 0x1000)
_LOW_RAM = Range(0x1000, 0x9FC00)
_BIOS = Range(0x9FC00, 0x10_0000)
_FOUR_GIB = 2**32
# ACPI tables, at the end of the RAM below 4 GiB.
_TABLES_BYTES = 0x26000


def iomem(memory: Memory) -> list[tuple[Range, str]]:
    """Return the entries of /proc/iomem that describe RAM."""
    parts = sorted(
        (part for ranges in memory.ranges.values() for part in ranges), key=lambda part: part.start
    )
    merged: list[Range] = []
    for part in parts:
        if merged and merged[-1].end == part.start:
            merged[-1] = Range(merged[-1].start, part.end)
        else:
            merged.append(part)
    entries = []
    for part in merged:
        start, end = part.start, part.end
        if start == 0:
            entries += [(_PAGE_ZERO, "Reserved"), (_LOW_RAM, "System RAM"), (_BIOS, "Reserved")]
            start = _BIOS.end
        if end < _FOUR_GIB:
            end -= _TABLES_BYTES
        entries.append((Range(start, end), "System RAM"))
        if end < part.end:
            entries.append((Range(end, part.end), "Reserved"))
    return entries


def ram_of_modules(memory: Memory, *, whole: bool) -> tuple[int, int]:
    """Return the range that a DAMON module watches by default.

    With `whole` that is damon_find_system_rams_range(). The older damon_find_biggest_system_ram()
    returns the address of the last byte where the end is meant.
    """
    parts = [part for part, name in iomem(memory) if name == "System RAM"]
    if whole:
        return parts[0].start, parts[-1].end
    largest = max(parts, key=lambda part: part.end - part.start)
    return largest.start, largest.end - 1


def whole(memory: Memory, part: Range) -> bool:
    """True if all pages of the range are System RAM."""
    return any(
        known.start <= part.start and part.end <= known.end
        for known, name in iomem(memory)
        if name == "System RAM"
    )
