"""Sets of physical addresses: sorted, disjoint, merged ranges, and the files they come from.

Rules of this file:
1. A tuple of ranges is always normal: rising, not touching. DAMON cuts a region where two ranges
   touch, so what is contiguous is one range.
2. Nothing here reads: text comes in as an argument.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_IOMEM_LINE = re.compile(r"^ *([0-9a-f]+)-([0-9a-f]+) : (.*)$", re.MULTILINE)

# Firmware and drivers name their memory "System RAM (kmem)", "System RAM (virtio_mem)", ...
_SYSTEM_RAM = "System RAM"

# Within it "Kernel code", "Kernel data", ..., and what is kept for another kernel after a crash.
_KEPT = ("Kernel ", "Crash kernel")


@dataclass(frozen=True, slots=True)
class Range:
    """Physical addresses from `start` up to, not including, `end`."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise ValueError(f"not a range: {self.start:#x}-{self.end:#x}")

    @property
    def size_bytes(self) -> int:
        return self.end - self.start


Ranges = tuple[Range, ...]


def merge(ranges: Iterable[Range]) -> Ranges:
    """The union, in normal form."""
    merged: list[Range] = []
    for part in sorted(ranges, key=lambda part: part.start):
        if merged and part.start <= merged[-1].end:
            merged[-1] = Range(merged[-1].start, max(merged[-1].end, part.end))
        else:
            merged.append(part)
    return tuple(merged)


def intersect(left: Ranges, right: Ranges) -> Ranges:
    """What both sets hold."""
    common: list[Range] = []
    i = j = 0
    while i < len(left) and j < len(right):
        start = max(left[i].start, right[j].start)
        end = min(left[i].end, right[j].end)
        if start < end:
            common.append(Range(start, end))
        if left[i].end < right[j].end:
            i += 1
        else:
            j += 1
    return merge(common)


def subtract(left: Ranges, right: Ranges) -> Ranges:
    """What `left` holds and `right` does not."""
    rest: list[Range] = []
    for part in left:
        start = part.start
        for hole in right:
            if hole.end <= start or hole.start >= part.end:
                continue
            if start < hole.start:
                rest.append(Range(start, hole.start))
            start = hole.end
        if start < part.end:
            rest.append(Range(start, part.end))
    return tuple(rest)


def total_bytes(ranges: Ranges) -> int:
    return sum(part.size_bytes for part in ranges)


def parse_iomem(text: str, page_bytes: int) -> Ranges | None:
    """The whole pages in /proc/iomem that programs may get; None where addresses are hidden.

    That is System RAM but for the kernel's image and what is kept for a crash kernel. DAMON sees
    no access there, and nothing can be moved: being the coldest memory there is, it would be tried
    in vain for ever, which before 7.2 uses up the quota of demotion.

    Without CAP_SYS_ADMIN every address reads as zero (r_show()). Memory that a driver hands to
    the kernel lies below the driver's own line, so a line counts at any depth.
    """
    lines = [
        (int(first, 16), int(last, 16) + 1, name) for first, last, name in _IOMEM_LINE.findall(text)
    ]
    if all(end == 1 for _, end, _ in lines):
        return None
    ram = [
        (-(-start // page_bytes) * page_bytes, end // page_bytes * page_bytes)
        for start, end, name in lines
        if name.startswith(_SYSTEM_RAM)
    ]
    kept = [
        Range(start // page_bytes * page_bytes, -(-end // page_bytes) * page_bytes)
        for start, end, name in lines
        if name.startswith(_KEPT)
    ]
    return subtract(merge(Range(start, end) for start, end in ram if start < end), merge(kept))
