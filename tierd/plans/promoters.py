"""Chooses what promotes: tierd's schemes, or hint faults of the kernel's NUMA balancing. Pure."""

from collections.abc import Iterable

from tierd.configuration.config import Config, Promoter
from tierd.errors import Unsupported
from tierd.machine.neighbours import NUMA_BALANCING
from tierd.machine.numa_balancing import PROMOTE_RATE_LIMIT, NumaBalancing
from tierd.plans.plan import (
    AS_CONFIGURED,
    Controller,
    Direction,
    HintFaults,
    Migration,
    PromoterChoice,
)
from tierd.topology import Topology
from tierd.units import format_ids, format_rate

NO_CLASSES = (
    "cgroups: NUMA balancing promotes memory of every cgroup; the classes limit only what goes down"
)


def choose(
    config: Config, topology: Topology, loop: Controller, found: NumaBalancing | None
) -> PromoterChoice:
    """Return the promoter, and the reason for it. `found` is None if there is no NUMA balancing."""
    if config.promoter is Promoter.damon:
        return PromoterChoice(Promoter.damon, AS_CONFIGURED)
    why_not = _why_not(topology, found)
    if config.promoter is Promoter.numa_balancing:
        if why_not:
            raise Unsupported(f"`promoter: numa-balancing`: {why_not}", "set `promoter: damon`")
        return PromoterChoice(Promoter.numa_balancing, AS_CONFIGURED)
    if found is None or not found.promotes:
        return PromoterChoice(
            Promoter.damon,
            "bit 2 of kernel.numa_balancing was not set, and a hint fault takes time of a program",
        )
    if loop is not Controller.demand:
        why_not = f"the tuner {loop} makes no room for what NUMA balancing promotes"
    elif config.shares:
        why_not = "NUMA balancing promotes memory of every cgroup alike, and `shares` is set"
    if why_not:
        return PromoterChoice(Promoter.damon, why_not)
    return PromoterChoice(
        Promoter.numa_balancing,
        "bit 2 of kernel.numa_balancing was set before tierd started, so the kernel promotes",
    )


def _why_not(topology: Topology, found: NumaBalancing | None) -> str:
    """Return why hint faults cannot promote on this machine; empty if they can."""
    if found is None:
        return f"/{NUMA_BALANCING} is missing: this kernel was built without CONFIG_NUMA_BALANCING"
    if not found.limits_rate:
        return f"/{PROMOTE_RATE_LIMIT} is missing: without it the rate has no limit"
    if not topology.tiers:
        return ""
    fastest, *slower = topology.tiers
    idle = [node for node in fastest.nodes if not topology.node(node).cpus]
    if idle:
        return (
            f"node {format_ids(idle)} of the fastest tier has no processors, and hint faults bring "
            "pages to the processor that touches them"
        )
    fast = [node for tier in slower for node in tier.nodes if node in found.fast_nodes]
    if fast:
        return (
            f"the kernel takes node {format_ids(fast)} for fast memory, and hint faults promote "
            "only from slow memory (`tierd tiers` shows the kernel's tiers)"
        )
    return ""


def nearest_ups(migrations: Iterable[Migration]) -> tuple[Migration, ...]:
    """Return the promotions that hint faults do in place of tierd: to the nearest nodes."""
    ups = (one for one in migrations if one.direction is Direction.promote)
    return tuple(one for one in ups if not one.fallback)


def hint_faults(
    choice: PromoterChoice, topology: Topology, replaced: Iterable[Migration]
) -> tuple[HintFaults, ...]:
    """Return what hint faults bring up, by node, in place of these migrations."""
    listed = tuple(replaced)
    fastest = topology.tiers[0].nodes if topology.tiers else ()
    return tuple(
        _to(node, tuple(one for one in listed if one.target_node == node))
        for node in fastest
        if choice.hints and any(one.target_node == node for one in listed)
    )


def _to(node: int, replaced: tuple[Migration, ...]) -> HintFaults:
    rate = sum(one.rate_max_bytes_per_s for one in replaced)
    return HintFaults(
        id=f"hint-faults-{node}",
        node=node,
        sources=tuple(one.source_node for one in replaced),
        rate_max_bytes_per_s=rate,
        reason=(
            f"the kernel moves pages of slow nodes up to node {node} if a program touches them "
            f"soon after they were made to fault, at most {format_rate(rate)}"
        ),
    )
