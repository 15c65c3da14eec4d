"""The facts about a machine that the doctor's checks need.

Only reads. A fact that cannot be read is an `Unreadable` with the reason. So a file that only root
can read costs one check, and not the whole report.
"""

from collections.abc import Callable
from typing import TypeVar

from tierd.configuration.config import Config
from tierd.errors import TierdError
from tierd.frozen import dataclass
from tierd.kdamonds.kernel import Kernel
from tierd.kdamonds.ownership import Standing, standing
from tierd.kdamonds.saved import SavedState
from tierd.machine import (
    cgroups,
    cpusets,
    cputime,
    discovery,
    features,
    hotplug,
    neighbours,
    processes,
    swap,
    sysctls,
)
from tierd.machine.cgroups import NO_CGROUPS, Cgroups
from tierd.machine.features import Capabilities
from tierd.machine.hotplug import Hotplug
from tierd.machine.neighbours import (
    NUMA_BALANCING,
    ZONE_RECLAIM_MODE,
    DamonModule,
    Kdamond,
    sysctl,
)
from tierd.machine.processes import Process
from tierd.machine.sample import NodeSample, Watermarks
from tierd.machine.sample_reader import PRESSURE, node_samples, watermarks
from tierd.machine.swap import SwapArea
from tierd.machine.sysctls import Claim
from tierd.planning import cgroup_tops
from tierd.sysfs import Sysfs, optional
from tierd.topology import Topology

LRU_GEN = "sys/kernel/mm/lru_gen/enabled"
THP = "sys/kernel/mm/transparent_hugepage/enabled"
ZSWAP = "sys/module/zswap/parameters/enabled"
RELEASE = "proc/sys/kernel/osrelease"
CPU_PRESSURE = "proc/pressure/cpu"
NUMA_BALANCING_KEY = "kernel.numa_balancing"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A fact that could not be read: why, and what to do."""

    why: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class KdamondFacts:
    """The kdamonds that exist, and whether they are tierd's."""

    standing: Standing
    listed: tuple[Kdamond, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about one machine; None if this kernel does not have the file."""

    is_root: bool
    release: str | None
    config: Config | Unreadable
    cgroups: Cgroups | Unreadable
    capabilities: Capabilities | Unreadable
    topology: Topology | Unreadable
    watermarks: tuple[Watermarks, ...] | Unreadable
    kdamonds: KdamondFacts | Unreadable
    modules: tuple[DamonModule, ...] | Unreadable
    numa_balancing: int | Unreadable | None
    numa_balancing_claims: tuple[Claim, ...]
    demotion_enabled: str | Unreadable | None
    zone_reclaim_mode: int | Unreadable | None
    lru_gen: str | Unreadable | None
    swaps: tuple[SwapArea, ...] | Unreadable
    nodes: tuple[NodeSample, ...] | Unreadable
    zswap: str | Unreadable | None
    pressure: str | Unreadable | None
    cpu_pressure: str | Unreadable | None
    niceness: tuple[int | None, ...] | Unreadable
    """Of each kdamond; None if its thread is not seen from here."""
    thp: str | Unreadable | None
    processes: tuple[Process, ...] | Unreadable
    hotplug: Hotplug | Unreadable | None
    bound: tuple[str, ...] | Unreadable
    """The cgroups that a cpuset binds to some of the nodes."""


def read(
    kernel: Kernel,
    read_config: Callable[[], Config],
    load_saved: Callable[[], SavedState | None],
    *,
    is_root: bool,
) -> Facts:
    """Read the facts. `load_saved` returns the state that an earlier tierd saved."""
    sysfs = kernel.sysfs
    config = _try(read_config)
    asked = Config() if isinstance(config, Unreadable) else config
    topology = _try(lambda: discovery.survey(sysfs, asked.tiers, asked.bandwidths))
    return Facts(
        is_root=is_root,
        release=optional(sysfs, RELEASE),
        config=config,
        cgroups=NO_CGROUPS
        if isinstance(config, Unreadable)
        else _try(lambda: cgroups.read(sysfs, cgroup_tops(config))),
        capabilities=_try(lambda: features.probe(sysfs)),
        topology=topology,
        watermarks=topology
        if isinstance(topology, Unreadable)
        else _try(lambda: watermarks(sysfs, topology)),
        kdamonds=_try(lambda: _kdamonds(kernel, load_saved)),
        modules=_try(lambda: neighbours.modules(sysfs)),
        numa_balancing=_try(lambda: sysctl(sysfs, NUMA_BALANCING)),
        numa_balancing_claims=sysctls.claims(sysfs, NUMA_BALANCING_KEY),
        demotion_enabled=_text(sysfs, neighbours.DEMOTION_ENABLED),
        zone_reclaim_mode=_try(lambda: sysctl(sysfs, ZONE_RECLAIM_MODE)),
        lru_gen=_text(sysfs, LRU_GEN),
        swaps=_try(lambda: swap.areas(sysfs)),
        nodes=topology
        if isinstance(topology, Unreadable)
        else _try(lambda: node_samples(sysfs, topology)),
        zswap=_text(sysfs, ZSWAP),
        pressure=_text(sysfs, PRESSURE),
        cpu_pressure=_text(sysfs, CPU_PRESSURE),
        niceness=_try(lambda: _niceness(sysfs)),
        thp=_text(sysfs, THP),
        processes=_try(lambda: processes.processes(sysfs)),
        hotplug=topology
        if isinstance(topology, Unreadable)
        else _try(lambda: hotplug.read(sysfs, topology.page_bytes)),
        bound=_try(lambda: cpusets.bound(sysfs)),
    )


def _kdamonds(kernel: Kernel, load_saved: Callable[[], SavedState | None]) -> KdamondFacts:
    listed = neighbours.kdamonds(kernel.sysfs)
    if not listed:
        return KdamondFacts(Standing.none, ())
    saved = load_saved()
    now = saved if saved is not None and saved.boot_id == kernel.boot_id() else None
    return KdamondFacts(standing(kernel, now), listed)


def _niceness(sysfs: Sysfs) -> tuple[int | None, ...]:
    return tuple(cputime.niceness(sysfs, one.pid) for one in neighbours.kdamonds(sysfs))


def _text(sysfs: Sysfs, path: str) -> str | Unreadable | None:
    return _try(lambda: optional(sysfs, path))


def _try(look: Callable[[], T]) -> T | Unreadable:
    try:
        return look()
    except TierdError as error:
        return Unreadable(str(error), error.hint)
