"""Notices pages that were swapped out of a node while a slower node had room for them.

Nobody wants that: on the slower node they would still be memory. The kernel does it if reclaim on
the faster node may not demote.
"""

from collections.abc import Iterator

from tierd.frozen import dataclass, replace
from tierd.loop import force
from tierd.loop.outside import Outside
from tierd.loop.running import Running
from tierd.machine.neighbours import DEMOTION_ENABLED
from tierd.machine.sample import Sample, Watermarks
from tierd.sysfs import Sysfs, optional
from tierd.topology import Topology
from tierd.units import format_size

# Seconds between two reports. Swapping can go on for hours, and one event in ten minutes says so.
QUIET_S = 600.0


@dataclass(frozen=True, slots=True)
class Inversion:
    """Memory that left a node for swap, and the slower node that had the most room."""

    node: int
    swapped_bytes: int
    roomy_node: int
    room_bytes: int


def inversions(
    topology: Topology, marks: tuple[Watermarks, ...], before: Sample, now: Sample
) -> Iterator[Inversion]:
    """Yield each node from which pages were swapped although they had fitted on a slower node."""
    kept = {one.node: one.floor_bytes for one in marks}
    known = {one.node: one for one in now.nodes}
    for old in before.nodes:
        tier, new = topology.tier_of(old.node), known.get(old.node)
        if tier is None or new is None:
            continue
        swapped = (new.swapped_pages - old.swapped_pages) * topology.page_bytes
        rooms = {
            node: known[node].free_bytes - kept.get(node, 0)
            for slower in topology.tiers[tier.rank + 1 :]
            for node in slower.nodes
            if node in known
        }
        if swapped > 0 and rooms:
            roomy = max(rooms, key=lambda node: (rooms[node], -node))
            if rooms[roomy] >= swapped:
                yield Inversion(old.node, swapped, roomy, rooms[roomy])


def noticed(outside: Outside, running: Running, now_s: float) -> Running:
    """Report pages that were swapped in vain since the last sample, if nobody was told lately."""
    before, now = running.before, running.sample
    if before is None or now is None or now_s < running.inverted_s + QUIET_S:
        return running
    found = tuple(inversions(running.topology, running.watermarks, before, now))
    if not found:
        return running
    text = "; ".join(_said(one) for one in found)
    running = replace(running, inverted_s=now_s)
    return force.say(outside, running, "inversion", f"{text}. {_advice(outside.sysfs)}")


def _said(one: Inversion) -> str:
    return (
        f"{format_size(one.swapped_bytes)} swapped out of node {one.node} with "
        f"{format_size(one.room_bytes)} of room on node {one.roomy_node}"
    )


def _advice(sysfs: Sysfs) -> str:
    demotes = optional(sysfs, DEMOTION_ENABLED)
    if demotes in ("true", "1"):
        return "demotion_enabled is on, so look for cgroups that are at their memory.high or max"
    return "reclaim may not demote: set `neighbours.demotion_enabled: on`"
