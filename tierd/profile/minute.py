"""A line of a profile, from what the machine counted in a minute, and from what was seen of heat.

Pure. Who watches memory differs (`profile.Source`), and what the machine counts does not.
"""

from collections.abc import Mapping, Sequence

from tierd.frozen import dataclass
from tierd.machine.sample import Sample, VmEvents
from tierd.profile.profile import Line
from tierd.profile.rates import CLASSES
from tierd.topology import Topology

MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Moment:
    """The counters of the machine at one moment."""

    sample: Sample
    events: VmEvents


def tier_bytes(topology: Topology) -> dict[int, int]:
    """Return the memory of each tier, by its rank."""
    found: dict[int, int] = {}
    for node in topology.nodes:
        rank = topology.rank_of(node.id)
        found[rank] = found.get(rank, 0) + node.size_bytes
    return dict(sorted(found.items()))


def line(
    topology: Topology,
    before: Moment,
    now: Moment,
    heat_bytes: Mapping[int, tuple[float, ...]],
    number: int,
) -> Line:
    """Return a line. `heat_bytes` has the bytes of each class, by the rank of the tier."""
    size: dict[int, int] = {}
    used: dict[int, int] = {}
    for node in now.sample.nodes:
        rank = topology.rank_of(node.node)
        size[rank] = size.get(rank, 0) + node.total_bytes
        used[rank] = used.get(rank, 0) + node.used_bytes
    seconds = max(1.0, now.sample.monotonic_s - before.sample.monotonic_s)
    waited_us = 0
    if before.sample.pressure is not None and now.sample.pressure is not None:
        waited_us = now.sample.pressure.some_us - before.sample.pressure.some_us
    allocated = max(0, now.events.allocated_pages - before.events.allocated_pages)
    faults = max(0, now.events.major_faults - before.events.major_faults)
    ranks = sorted(size)
    return Line(
        minute=max(0, number),
        minutes=1,
        heat=tuple(_shares(heat_bytes.get(rank, ()), size[rank]) for rank in ranks),
        used=tuple(used[rank] / size[rank] for rank in ranks),
        alloc_bytes_per_s=round(allocated / seconds * topology.page_bytes),
        pressure=min(1.0, max(0, waited_us) / (seconds * 1e6)),
        major_faults_per_s=faults / seconds,
    )


def _shares(heat_bytes: Sequence[float], size_bytes: int) -> tuple[float, ...]:
    """Return the share of each class. What nobody has seen hot is cold, also where nobody looks.

    DAMON's ranges hold memory that the kernel keeps for itself, so they are larger than the node.
    """
    hot = [min(1.0, one / size_bytes) for one in heat_bytes[1:]] or [0.0] * (CLASSES - 1)
    return (max(0.0, 1.0 - sum(hot)), *hot)
