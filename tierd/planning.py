"""From a machine to its plan: `tierd plan` and the daemon make it here, and so alike."""

from dataclasses import replace

from tierd import policy
from tierd.configuration.config import Config, Mode
from tierd.machine import cgroups, discovery, observe
from tierd.machine.observe import Capabilities
from tierd.machine.sample import watermarks
from tierd.plans.plan import Plan
from tierd.sysfs import Sysfs
from tierd.topology import Topology


def plan_for(sysfs: Sysfs, topology: Topology, capabilities: Capabilities, config: Config) -> Plan:
    """The plan for what is known to be there."""
    floors = {marks.node: marks.floor_bytes for marks in watermarks(sysfs, topology)}
    found = cgroups.paths(sysfs) if config.cgroups else ()
    return policy.plan(topology, capabilities, config, cgroups=found, free_floors=floors)


def plan_here(sysfs: Sysfs, config: Config, *, observe_only: bool = False) -> Plan:
    """The plan that a daemon would begin with, here and now."""
    if observe_only:
        config = replace(config, mode=Mode.observe)
    topology = discovery.discover(sysfs, config.tiers)
    capabilities = observe.probe(sysfs)
    observe.require_migration(capabilities)
    return plan_for(sysfs, topology, capabilities, config)
