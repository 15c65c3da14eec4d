"""/proc/zoneinfo as values: each zone's place, fill and watermarks, in pages."""

import math
import re
from dataclasses import dataclass

from tierd.errors import TierdError

PATH = "proc/zoneinfo"

_PROTECTION = re.compile(r"^ +protection: \(([0-9, ]*)\)$", re.MULTILINE)
_HEADER = re.compile(r"^Node (\d+), zone\s+(\S+)$", re.MULTILINE)
_FIELD = re.compile(
    r"^(?:  pages | +)(free|boost|min|low|high|promo|spanned|present|managed|start_pfn):? +(\d+)$",
    re.MULTILINE,
)
# zoneinfo_show_print() prints these for every zone, populated or not. `boost` and `promo` are
# newer than the rest, and `start_pfn` is for populated zones only.
_ALWAYS = ("free", "min", "low", "high", "spanned", "present", "managed")


@dataclass(frozen=True, slots=True)
class Zone:
    """One zone of one node; its watermarks include `boost_pages`, as the kernel prints them.

    A hole, or memory that is offline, is spanned but not present.
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
    """What allocations that could use a higher zone must leave here (lowmem_reserve)."""

    @property
    def populated(self) -> bool:
        """Whether any page is handed out; an empty zone prints watermarks all the same."""
        return self.managed_pages > 0


def parse_zones(text: str) -> tuple[Zone, ...]:
    """Every zone in the order of the file; a zone without its figures spoils the whole."""
    parts = _HEADER.split(text)
    found = zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
    return tuple(_zone(int(node), name, body) for node, name, body in found)


def page_bytes(mem_total_bytes: int, managed_pages: int) -> int:
    """The kernel's page size, from one node's size in both units.

    MemTotal is the managed pages of a node, so the quotient is the page size; it is rounded to a
    power of two because the two files are not read at one moment.
    """
    if managed_pages <= 0 or mem_total_bytes <= 0:
        raise TierdError(f"{mem_total_bytes} bytes in {managed_pages} pages give no page size")
    return 1 << round(math.log2(mem_total_bytes / managed_pages))


def _zone(node: int, name: str, body: str) -> Zone:
    # "high" also occurs for each CPU's page list, as "high:"; the zone's own come first.
    fields: dict[str, int] = {}
    for key, value in _FIELD.findall(body):
        fields.setdefault(key, int(value))
    missing = [key for key in _ALWAYS if key not in fields]
    if missing:
        raise TierdError(
            f"/{PATH}: node {node}, zone {name}: no {', '.join(missing)}",
            "this kernel prints its zones in a way that tierd does not know; please report it",
        )
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
    return 0 if match is None else max((int(word) for word in match[1].split(",")), default=0)
