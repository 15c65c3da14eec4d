"""Reads how NUMA balancing is set, and which nodes it takes for fast memory. Only reads.

With bit 2 of kernel.numa_balancing the kernel makes pages of slow nodes inaccessible, some at a
time. The next access is a fault (a hint fault), and a page that faults soon after goes up.
"""

from collections.abc import Iterable, Mapping

from tierd import figures
from tierd.frozen import dataclass
from tierd.machine.discovery import kernel_tiers
from tierd.machine.neighbours import COUNT_MAX, NUMA_BALANCING, NUMA_BALANCING_TIERING
from tierd.sysfs import Sysfs, optional
from tierd.topology import Tier, Topology

PROMOTE_RATE_LIMIT = "proc/sys/kernel/numa_balancing_promote_rate_limit_MBps"
"""The most that hint faults promote to a node per second, in MiB (MB_TO_PAGES())."""


@dataclass(frozen=True, slots=True)
class NumaBalancing:
    """What a kernel with NUMA balancing has and says."""

    mode: int
    """kernel.numa_balancing, as it is without tierd."""
    limits_rate: bool
    """Whether the kernel has a rate limit for promotion."""
    fast_nodes: frozenset[int]
    """The nodes that it takes for fast memory. Hint faults promote nothing from them."""

    @property
    def promotes(self) -> bool:
        return bool(self.mode & NUMA_BALANCING_TIERING)


def read(sysfs: Sysfs, topology: Topology, before: Mapping[str, str]) -> NumaBalancing | None:
    """Return how NUMA balancing is set; None if this kernel does not have it.

    `before` has the former values of settings that tierd has changed, by path.
    """
    mode = before.get(NUMA_BALANCING, optional(sysfs, NUMA_BALANCING))
    if mode is None:
        return None
    with_memory = tuple(node.id for node in topology.nodes)
    with_cpus = frozenset(node.id for node in topology.nodes if node.cpus)
    return NumaBalancing(
        mode=figures.number(NUMA_BALANCING, mode, most=COUNT_MAX),
        limits_rate=sysfs.exists(PROMOTE_RATE_LIMIT),
        fast_nodes=fast_nodes(kernel_tiers(sysfs, with_memory), with_memory, with_cpus),
    )


def fast_nodes(
    tiers: Iterable[Tier], with_memory: Iterable[int], with_cpus: frozenset[int]
) -> frozenset[int]:
    """Return the nodes that node_is_toptier() is true for.

    These are the nodes of the slowest tier that has processors, and of all faster tiers. A node
    without a tier counts as fast.
    """
    listed = tuple(tiers)
    last = max((tier.rank for tier in listed if with_cpus.intersection(tier.nodes)), default=-1)
    slow = {node for tier in listed if tier.rank > last for node in tier.nodes}
    return frozenset(with_memory) - slow
