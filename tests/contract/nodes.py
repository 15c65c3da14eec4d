"""Behaviours of nodes under pressure: watermarks, kswapd and the demotion counters."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.contract.behaviour import behaviour
from tests.contract.context import FAST, MIB, PAGE, SLOW, node_events, node_kib
from tests.contract.subject import Subject

DEMOTION_ENABLED = "sys/kernel/mm/numa/demotion_enabled"
DEMOTIONS = ("pgdemote_kswapd", "pgdemote_direct")
_SETTLE_LOOKS = 40


@dataclass(frozen=True, slots=True)
class ZoneMarks:
    """A populated zone of /proc/zoneinfo, in pages."""

    name: str
    free: int
    low: int
    high: int
    managed: int


def zones(subject: Subject, nid: int) -> tuple[ZoneMarks, ...]:
    """The node's zones that hold memory."""
    found: list[ZoneMarks] = []
    at: tuple[int, str] | None = None
    seen: dict[str, int] = {}
    for line in subject.sysfs.read("proc/zoneinfo").splitlines():
        words = line.replace(",", " ").split()
        if words[:1] == ["Node"]:
            at, seen = (int(words[1]), words[3]), {}
        elif words[:2] == ["pages", "free"]:
            seen["free"] = int(words[2])
        elif at and len(words) == 2 and words[0] in ("low", "high", "managed"):
            seen.setdefault(words[0], int(words[1]))
            if words[0] == "managed" and at[0] == nid and seen["managed"]:
                found.append(ZoneMarks(at[1], **seen))
    return tuple(found)


@behaviour(
    cites="__setup_per_zone_wmarks()",
    expect="in order, and all of the node",
)
def marks_in_order(subject: Subject) -> str:
    """Each zone's low watermark is below its high one, and the zones add up to the node."""
    for nid in (FAST, SLOW):
        found = zones(subject, nid)
        total = node_kib(subject.sysfs, nid, "MemTotal") * 1024 // PAGE
        if sum(zone.managed for zone in found) != total:
            return f"node {nid}: {found} are not {total} pages"
        if not all(0 < zone.low < zone.high for zone in found):
            return f"node {nid}: {found}"
    return "in order, and all of the node"


@contextmanager
def demotion(subject: Subject, *, enabled: bool) -> Iterator[None]:
    """Set whether reclaim demotes, and restore the old value at the end."""
    before = subject.sysfs.read(DEMOTION_ENABLED)
    subject.sysfs.write(DEMOTION_ENABLED, str(enabled).lower())
    try:
        yield
    finally:
        subject.sysfs.write(DEMOTION_ENABLED, before)


@behaviour(
    cites="demote_folio_list(), shrink_folio_list()",
    expect="counted",
)
def kswapd_demotes(subject: Subject) -> str:
    """If a full node gets more pages, kswapd makes room: it demotes, and counts that."""
    with demotion(subject, enabled=True):
        before = node_events(subject.sysfs, FAST)
        moved = _press(subject)
        after = node_events(subject.sysfs, FAST)
    kswapd, direct = (after[name] - before[name] for name in DEMOTIONS)
    # Pages of others may be among the demoted, and pages of the sets have no other way there.
    if 0 < 0.9 * moved <= kswapd + direct and kswapd:
        return "counted"
    return f"{kswapd} by kswapd, {direct} directly, {moved} moved"


@behaviour(
    cites="balance_pgdat(), pgdat_balanced()",
    expect="near high",
)
def kswapd_stops(subject: Subject) -> str:
    """kswapd stops at the high watermark of the node's largest zone."""
    with demotion(subject, enabled=True):
        _press(subject)
        zone = max(zones(subject, FAST), key=lambda zone: zone.managed)
    # It takes whole batches, from several lists at a time: on a busy machine twice the mark.
    return "near high" if zone.low <= zone.free <= 3 * zone.high else str(zone)


def _press(subject: Subject) -> int:
    """Fill the fast node, ask for more, wait for kswapd; return the pages it moved."""
    free_kib = node_kib(subject.sysfs, FAST, "MemFree")
    subject.sets.place("filler", FAST, free_kib * 1024)
    spilt = subject.sets.where("filler").get(SLOW, 0)
    subject.sets.place("pressure", FAST, 32 * MIB, only=True)
    free = -1
    for _ in range(_SETTLE_LOOKS):
        subject.clock.sleep(0.1)
        free, before = node_kib(subject.sysfs, FAST, "MemFree"), free
        if free == before:
            break
    pushed = sum(subject.sets.where(name).get(SLOW, 0) for name in ("filler", "pressure"))
    return pushed - spilt
