"""Parses /proc/zoneinfo: the address, free pages and watermarks of each zone, in pages."""

import math
import re

from tierd.errors import TierdError
from tierd.figures import PAGES_MAX, Garbled, number
from tierd.frozen import dataclass
from tierd.units import ID_MAX

PATH = "proc/zoneinfo"

# log2 of bytes: Linux has pages of 4 KiB to 256 KiB.
PAGE_SHIFTS = range(12, 19)

_PROTECTION = re.compile(r"^ +protection: \(([0-9, ]*)\)$", re.MULTILINE)
_HEADER = re.compile(r"^Node ([0-9]{1,9}), zone +(\S+)$", re.MULTILINE)
_FIELD = re.compile(
    r"^(?:  pages | +)(free|boost|min|low|high|promo|spanned|present|managed|start_pfn):? +(\S+)$",
    re.MULTILINE,
)
# zoneinfo_show_print() prints these for every zone. `boost` and `promo` are newer, and `start_pfn`
# is printed for populated zones only.
_ALWAYS = ("free", "min", "low", "high", "spanned", "present", "managed")


@dataclass(frozen=True, slots=True)
class Zone:
    """One zone of one node; its watermarks include `boost_pages`, as in the kernel's file.

    A hole, or offline memory, is in the span of the zone, but not present.
    """

    node: int
    name: str
    free_pages: int
    boost_pages: int
    min_pages: int
    low_pages: int
    high_pages: int
    promo_pages: int | None
    spanned_pages: int
    present_pages: int
    managed_pages: int
    start_pfn: int | None
    reserve_pages: int
    """What an allocation that could use a higher zone must leave free (lowmem_reserve)."""

    @property
    def populated(self) -> bool:
        """True if the zone has pages to allocate; an empty zone has watermarks too."""
        return self.managed_pages > 0


def parse_zones(text: str) -> tuple[Zone, ...]:
    """Return every zone in the order of the file; raise if a zone lacks a figure."""
    parts = _HEADER.split(text)
    for part in parts[::3]:
        # Only a zone's header begins with "Node". An unknown form must not hide a zone.
        stray = next((line for line in part.splitlines() if line.startswith("Node")), None)
        if stray is not None:
            raise Garbled(PATH, "a line such as `Node 0, zone Normal`", stray)
    found = zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
    return tuple(_zone(number(PATH, node, most=ID_MAX), name, body) for node, name, body in found)


def page_bytes(mem_total_bytes: int, managed_pages: int) -> int:
    """Return the kernel's page size, from a size in bytes and in pages.

    MemTotal counts the managed pages. The quotient is rounded to a power of two, because the two
    files are not read at the same moment.
    """
    if managed_pages > 0 and mem_total_bytes > 0:
        shift = round(math.log2(mem_total_bytes / managed_pages))
        if shift in PAGE_SHIFTS:
            return 1 << shift
    raise TierdError(
        f"{mem_total_bytes} bytes in {managed_pages} pages give no page size",
        f"compare MemTotal in /sys/devices/system/node/node*/meminfo with `managed` in /{PATH}",
    )


def _zone(node: int, name: str, body: str) -> Zone:
    # "high:" also occurs in each CPU's page list; the zone's own comes first.
    fields: dict[str, int] = {}
    for key, value in _FIELD.findall(body):
        if key not in fields:
            fields[key] = number(PATH, value, most=PAGES_MAX)
    missing = [key for key in _ALWAYS if key not in fields]
    if missing:
        raise TierdError(
            f"/{PATH}: node {node}, zone {name}: no {', '.join(missing)}",
            "this kernel prints its zones in a form that tierd does not know; please report it",
        )
    if fields["present"] and not fields["spanned"]:
        raise Garbled(PATH, f"node {node}, zone {name} to span its pages", "spanned 0")
    return Zone(
        node=node,
        name=name,
        free_pages=fields["free"],
        boost_pages=fields.get("boost", 0),
        min_pages=fields["min"],
        low_pages=fields["low"],
        high_pages=fields["high"],
        promo_pages=fields.get("promo"),
        spanned_pages=fields["spanned"],
        present_pages=fields["present"],
        managed_pages=fields["managed"],
        start_pfn=fields.get("start_pfn"),
        reserve_pages=_reserve(body),
    )


def _reserve(body: str) -> int:
    match = _PROTECTION.search(body)
    if match is None:
        return 0
    return max(number(PATH, word.strip(), most=PAGES_MAX) for word in match[1].split(","))
