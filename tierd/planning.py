"""Read a machine and make its plan. `tierd plan` and the daemon both use this."""

from collections.abc import Mapping
from glob import escape

from tierd import policy
from tierd.configuration.config import (
    BOUND,
    CgroupClass,
    CgroupMode,
    Config,
    Cpusets,
    Mode,
    Moves,
    Promoter,
    ShareClass,
)
from tierd.frozen import replace
from tierd.machine import cgroups, cpusets, discovery, features, interleave, numa_balancing, swap
from tierd.machine.features import Capabilities
from tierd.machine.sample_reader import watermarks
from tierd.plans import groups
from tierd.plans.groups import NO_ROLES, Group, Roles
from tierd.plans.plan import Plan
from tierd.plans.scope import Match, match_classes
from tierd.sysfs import Sysfs
from tierd.topology import Topology


def plan_for(
    sysfs: Sysfs,
    topology: Topology,
    capabilities: Capabilities,
    config: Config,
    *,
    only: frozenset[str] | None = None,
    roles: Roles = NO_ROLES,
    before: Mapping[str, str] | None = None,
    careful: bool = False,
) -> Plan:
    """Return the plan for a known topology, with no other cgroups than `only`.

    `before` has the former values of settings that tierd has changed, by path. If `careful`,
    commits that name cgroups are few.
    """
    config = heeding(sysfs, config)
    floors = {marks.node: marks.floor_bytes for marks in watermarks(sysfs, topology)}
    found = cgroups.read(sysfs, cgroup_tops(config))
    if only is not None:
        found = cgroups.among(found, only)
    return policy.plan(
        topology,
        capabilities,
        config,
        cgroups=found,
        free_floors=floors,
        swaps=swap.has_backing(swap.areas(sysfs)),
        weights=interleave.read(sysfs) if config.manage_interleave_weights else None,
        roles=roles,
        numa_balancing=None
        if config.promoter is Promoter.damon
        else numa_balancing.read(sysfs, topology, before or {}),
        careful=careful,
    )


def plan_here(sysfs: Sysfs, config: Config, *, observe_only: bool = False) -> Plan:
    """Return the plan that a daemon would start with now."""
    if observe_only:
        config = replace(config, mode=Mode.observe)
    topology = discovery.discover(sysfs, config.tiers, config.bandwidths)
    capabilities = features.probe(sysfs)
    features.require_migration(capabilities)
    return plan_for(sysfs, topology, capabilities, config)


def matches_here(sysfs: Sysfs, config: Config) -> tuple[Match, ...]:
    """Return the cgroups of each class now."""
    heeded = heeding(sysfs, config)
    found = cgroups.read(sysfs, cgroup_tops(heeded))
    return match_classes(heeded.cgroups, found.own_bytes)


def groups_now(sysfs: Sysfs, config: Config) -> tuple[Group, ...]:
    """Return the groups of the configuration with the cgroups that they have now."""
    shares = heeding(sysfs, config).shares
    found = cgroups.read(sysfs, groups.bases(shares))
    return groups.match(shares, found.own_bytes)


def heeding(sysfs: Sysfs, config: Config) -> Config:
    """Return a configuration that leaves alone what cpusets bind now, unless it ignores them."""
    paths = cpusets.bound(sysfs) if config.cpusets is Cpusets.heed else ()
    if not paths:
        return config
    if not config.shares:
        left = CgroupClass(BOUND, CgroupMode.exclude, paths)
        return replace(config, cgroups=(*config.cgroups, left))
    # A cgroup is in the first class that has it. A path of a class may be a pattern.
    alone = ShareClass(BOUND, tuple(escape(path) for path in paths), moves=Moves.none)
    return replace(config, shares=(alone, *config.shares))


def cgroup_tops(config: Config) -> tuple[str, ...]:
    """Return the paths below which all cgroups of the configuration are."""
    plain = tuple(path.rstrip("/") for found in config.cgroups for path in found.paths)
    return (*plain, *groups.bases(config.shares))
