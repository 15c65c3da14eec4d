"""Sets of physical addresses, as ranges.

In a tuple of ranges, the ranges rise and do not overlap or touch. DAMON cuts a region where two
ranges touch, so contiguous memory must be one range.
"""

from collections.abc import Iterable

from tierd.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """The physical addresses from `start` up to, but not including, `end`."""

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
    """Return the union of the ranges."""
    merged: list[Range] = []
    for part in sorted(ranges, key=lambda part: part.start):
        if merged and part.start <= merged[-1].end:
            merged[-1] = Range(merged[-1].start, max(merged[-1].end, part.end))
        else:
            merged.append(part)
    return tuple(merged)


def intersect(left: Ranges, right: Ranges) -> Ranges:
    """Return the addresses that are in both sets."""
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
    """Return the addresses that are in `left` and not in `right`."""
    remaining: list[Range] = []
    for part in left:
        start = part.start
        for hole in right:
            if hole.end <= start or hole.start >= part.end:
                continue
            if start < hole.start:
                remaining.append(Range(start, hole.start))
            start = hole.end
        if start < part.end:
            remaining.append(Range(start, part.end))
    return tuple(remaining)


def total_bytes(ranges: Ranges) -> int:
    return sum(part.size_bytes for part in ranges)
