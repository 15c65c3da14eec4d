"""What the doctor judges: everything about a machine that decides whether tierd works well there.

Only reads. What cannot be read is a `Hidden` with the reason, so that one file that only root may
see costs one check and not the whole report.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tierd.configuration.config import Config
from tierd.errors import TierdError
from tierd.kdamonds.kernel import Kernel
from tierd.kdamonds.ownership import Standing, standing
from tierd.kdamonds.saved import SavedState
from tierd.machine import discovery, neighbours, observe, processes, sysctls
from tierd.machine.neighbours import DamonModule, Kdamond
from tierd.machine.observe import Capabilities
from tierd.machine.processes import Process
from tierd.machine.sample import PRESSURE, Watermarks, watermarks
from tierd.machine.sysctls import Claim
from tierd.sysfs import Sysfs, optional
from tierd.topology import Topology

LRU_GEN = "sys/kernel/mm/lru_gen/enabled"
THP = "sys/kernel/mm/transparent_hugepage/enabled"
ZSWAP = "sys/module/zswap/parameters/enabled"
SWAPS = "proc/swaps"
RELEASE = "proc/sys/kernel/osrelease"
NUMA_BALANCING_KEY = "kernel.numa_balancing"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Hidden:
    """Something that could not be read, and why, and what would help."""

    why: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Kdamonds:
    """The kdamonds that exist, and what they are to us."""

    standing: Standing
    listed: tuple[Kdamond, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """One machine at one moment; None is a file that this kernel does not have."""

    is_root: bool
    release: str | None
    config: Config | Hidden
    capabilities: Capabilities | Hidden
    topology: Topology | Hidden
    watermarks: tuple[Watermarks, ...] | Hidden
    kdamonds: Kdamonds | Hidden
    modules: tuple[DamonModule, ...] | Hidden
    numa_balancing: int | Hidden | None
    numa_balancing_claims: tuple[Claim, ...]
    demotion_enabled: str | Hidden | None
    zone_reclaim_mode: int | Hidden | None
    lru_gen: str | Hidden | None
    swaps: str | Hidden | None
    zswap: str | Hidden | None
    pressure: str | Hidden | None
    thp: str | Hidden | None
    processes: tuple[Process, ...] | Hidden


def read(
    kernel: Kernel,
    read_config: Callable[[], Config],
    load_saved: Callable[[], SavedState | None],
    *,
    is_root: bool,
) -> Facts:
    """The facts as they are now. `load_saved` is asked for what an earlier tierd noted."""
    sysfs = kernel.sysfs
    config = _try(read_config)
    override = None if isinstance(config, Hidden) else config.tiers
    topology = _try(lambda: discovery.survey(sysfs, override))
    return Facts(
        is_root=is_root,
        release=optional(sysfs, RELEASE),
        config=config,
        capabilities=_try(lambda: observe.probe(sysfs)),
        topology=topology,
        watermarks=topology
        if isinstance(topology, Hidden)
        else _try(lambda: watermarks(sysfs, topology)),
        kdamonds=_try(lambda: _kdamonds(kernel, load_saved)),
        modules=_try(lambda: neighbours.modules(sysfs)),
        numa_balancing=_number(sysfs, neighbours.NUMA_BALANCING),
        numa_balancing_claims=sysctls.claims(sysfs, NUMA_BALANCING_KEY),
        demotion_enabled=_text(sysfs, neighbours.DEMOTION_ENABLED),
        zone_reclaim_mode=_number(sysfs, neighbours.ZONE_RECLAIM_MODE),
        lru_gen=_text(sysfs, LRU_GEN),
        swaps=_text(sysfs, SWAPS),
        zswap=_text(sysfs, ZSWAP),
        pressure=_text(sysfs, PRESSURE),
        thp=_text(sysfs, THP),
        processes=_try(lambda: processes.processes(sysfs)),
    )


def _kdamonds(kernel: Kernel, load_saved: Callable[[], SavedState | None]) -> Kdamonds:
    listed = neighbours.kdamonds(kernel.sysfs)
    if not listed:
        return Kdamonds(Standing.none, ())
    saved = load_saved()
    now = saved if saved is not None and saved.boot_id == kernel.boot_id() else None
    return Kdamonds(standing(kernel, now), listed)


def _text(sysfs: Sysfs, path: str) -> str | Hidden | None:
    return _try(lambda: optional(sysfs, path))


def _number(sysfs: Sysfs, path: str) -> int | Hidden | None:
    text = _text(sysfs, path)
    return int(text) if isinstance(text, str) else text


def _try(look: Callable[[], T]) -> T | Hidden:
    try:
        return look()
    except TierdError as error:
        return Hidden(str(error), error.hint)
