"""The physical address ranges of a machine's nodes, their zones, and the zone watermarks.

All functions are pure. They follow mm/page_alloc.c (__setup_per_zone_wmarks(),
calculate_min_free_kbytes(), setup_per_zone_lowmem_reserve()) and mm/khugepaged.c
(set_recommended_min_free_kbytes()), for the zones of x86-64.
"""

from math import isqrt

from tierd.frozen import dataclass, replace
from tierd.sim.context_spec import Range
from tierd.sim.machine_model import MachineModel

MIB = 2**20
GIB = 2**30

# QEMU's q35 machine puts all memory below 4 GiB if it is less than the first size. Otherwise it
# puts the second size there and leaves room for devices.
_LOW_ALL_BYTES = 2816 * MIB
_LOW_SPLIT_BYTES = 2 * GIB
_HIGH_START = 4 * GIB

_ZONES = (("DMA", 0, 16 * MIB), ("DMA32", 16 * MIB, _HIGH_START), ("Normal", _HIGH_START, 2**52))
# sysctl_lowmem_reserve_ratio of zones that have a higher zone above them.
_RESERVE_RATIO = 256

# What is taken before the page allocator starts, as in the virtual machines of tests/vm: struct
# pages and a few pages more on each node; kernel and initrd on the first node; in the first MiB the
# hole of the firmware and the code that boots other CPUs.
_STRUCT_PAGE_BYTES = 64
_NODE_RESERVED_PAGES = 43
_BOOT_RESERVED_BYTES = 9_600 * 4096
_DMA_ABSENT_BYTES = 98 * 4096
_DMA_RESERVED_BYTES = 158 * 4096

_PCP_TYPES = 3  # MIGRATE_PCPTYPES
_MIN_FREE_KIB = (128, 262_144)


@dataclass(frozen=True, slots=True)
class ZoneSpec:
    """A populated zone of a node; watermarks and reserve in pages."""

    nid: int
    name: str
    range: Range
    present_pages: int
    managed_pages: int
    reserve_pages: int = 0
    min_pages: int = 0
    low_pages: int = 0
    high_pages: int = 0
    promo_pages: int = 0


def node_ranges(machine: MachineModel) -> dict[int, tuple[Range, ...]]:
    """Return the physical memory of each node, as QEMU arranges it."""
    total = sum(node.size_mib for node in machine.nodes) * MIB
    low_end = total if total < _LOW_ALL_BYTES else _LOW_SPLIT_BYTES
    found: dict[int, tuple[Range, ...]] = {}
    at = 0
    for node in machine.nodes:
        end = at + node.size_mib * MIB
        parts = [Range(at, min(end, low_end))] if at < low_end else []
        if end > low_end:
            shift = _HIGH_START - low_end
            parts.append(Range(max(at, low_end) + shift, end + shift))
        found[node.id] = tuple(parts)
        at = end
    return found


def zone_specs(
    machine: MachineModel, *, min_free_kbytes: int | None, watermark_scale_factor: int, thp: bool
) -> tuple[ZoneSpec, ...]:
    """Return all populated zones with their watermarks.

    With min_free_kbytes None the kernel chooses the value.
    """
    zones = _managed(machine)
    page = machine.page_bytes
    wanted = min_free_kbytes or default_min_free_kbytes(zones, page, thp=thp)
    zones = tuple(_with_reserve(zone, zones) for zone in zones)
    return with_watermarks(zones, page, wanted, watermark_scale_factor)


def default_min_free_kbytes(zones: tuple[ZoneSpec, ...], page_bytes: int, *, thp: bool) -> int:
    """Return the kernel's min_free_kbytes: a square root, and more if huge pages are on."""
    page_kib = page_bytes // 1024
    buffer_pages = sum(zone.managed_pages for zone in zones)
    least, most = _MIN_FREE_KIB
    plain = max(least, min(most, isqrt(buffer_pages * page_kib * 16)))
    if not thp:
        return plain
    # pageblock_nr_pages: a huge page, which is a table of pages.
    recommended = page_bytes // 8 * len(zones) * (2 + _PCP_TYPES * _PCP_TYPES)
    high = sum(zone.high_pages for zone in with_watermarks(zones, page_bytes, plain, 10))
    return max(plain, min(recommended, (buffer_pages - high) // 20) * page_kib)


def with_watermarks(
    zones: tuple[ZoneSpec, ...], page_bytes: int, min_free_kbytes: int, watermark_scale_factor: int
) -> tuple[ZoneSpec, ...]:
    """Return the zones with their share of min_free_kbytes and the watermarks above it."""
    managed = sum(zone.managed_pages for zone in zones)
    pages_min = min_free_kbytes * 1024 // page_bytes
    return tuple(
        _with_watermarks(zone, pages_min, managed, watermark_scale_factor) for zone in zones
    )


def _with_watermarks(zone: ZoneSpec, pages_min: int, managed: int, scale: int) -> ZoneSpec:
    least = pages_min * zone.managed_pages // managed
    step = max(least // 4, zone.managed_pages * scale // 10_000)
    return replace(
        zone,
        min_pages=least,
        low_pages=least + step,
        high_pages=least + 2 * step,
        promo_pages=least + 3 * step,
    )


def _managed(machine: MachineModel) -> tuple[ZoneSpec, ...]:
    zones: list[ZoneSpec] = []
    page = machine.page_bytes
    for nid, ranges in sorted(node_ranges(machine).items()):
        present = [
            (name, Range(max(part.start, low), min(part.end, high)))
            for name, low, high in _ZONES
            for part in ranges
            if part.start < high and low < part.end
        ]
        node_pages = sum(part.end - part.start for part in ranges) // page
        reserved = node_pages * _STRUCT_PAGE_BYTES // page + _NODE_RESERVED_PAGES
        # Kernel and initrd are on the first node.
        reserved += 0 if zones else _BOOT_RESERVED_BYTES // page
        # The pages that are taken before the allocator starts come out of the largest zone.
        largest = max(present, key=lambda item: item[1].end - item[1].start)[1]
        for name, part in present:
            pages = (part.end - part.start) // page
            managed = pages - reserved if part == largest else pages
            if part.start == 0:
                pages -= _DMA_ABSENT_BYTES // page
                managed = pages - _DMA_RESERVED_BYTES // page
            zones.append(ZoneSpec(nid, name, part, pages, managed))
    return tuple(zones)


def _with_reserve(zone: ZoneSpec, zones: tuple[ZoneSpec, ...]) -> ZoneSpec:
    above = sum(
        other.managed_pages
        for other in zones
        if other.nid == zone.nid and other.range.start >= zone.range.end
    )
    return replace(zone, reserve_pages=above // _RESERVE_RATIO)
