"""Who else moves or watches memory on this machine; read only."""

from dataclasses import dataclass
from enum import StrEnum

from tierd.errors import TierdError
from tierd.machine.observe import KDAMONDS
from tierd.sysfs import Sysfs, optional

MODULES = "sys/module"
NUMA_BALANCING = "proc/sys/kernel/numa_balancing"
DEMOTION_ENABLED = "sys/kernel/mm/numa/demotion_enabled"
ZONE_RECLAIM_MODE = "proc/sys/vm/zone_reclaim_mode"

# The modules of the kernel tree that start a kdamond of their own. They take DAMON exclusively
# (damon_start(), running_exclusive_ctxs): while one runs, `on` answers EBUSY.
DAMON_MODULES = (
    "damon_stat",
    "damon_reclaim",
    "damon_lru_sort",
    "damon_sample_mtier",
    "damon_sample_prcl",
    "damon_sample_wsse",
)

NUMA_BALANCING_TIERING = 2
"""The bit of numa_balancing that promotes what hint faults find hot."""

# Module parameters print the first pair, /sys/kernel/mm/numa the second.
_BOOLS = {"Y": True, "N": False, "true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Kdamond:
    """A kdamond of the sysfs interface, whoever made it."""

    index: int
    state: str
    """`on` or `off`."""
    pid: int
    """-1 when off."""
    operations: tuple[str, ...]
    """Of each context."""
    actions: tuple[str, ...]
    """Of each scheme."""

    @property
    def running(self) -> bool:
        return self.state == "on"


@dataclass(frozen=True, slots=True)
class DamonModule:
    """A DAMON module that is loaded or built in."""

    name: str
    enabled: bool
    kdamond_pid: int | None
    """None where the module does not say; -1 when it runs none."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Everything that shares DAMON or the placement of pages with tierd; None where absent."""

    kdamonds: tuple[Kdamond, ...]
    modules: tuple[DamonModule, ...]
    numa_balancing: int | None
    demotion_enabled: bool | None
    zone_reclaim_mode: int | None

    @property
    def holders(self) -> tuple[DamonModule, ...]:
        """The modules that hold DAMON now."""
        return tuple(module for module in self.modules if module.enabled)


class Owner(StrEnum):
    """Whose work may cross ours; the value is the label of `tierd_conflicts`."""

    damon_module = "damon_module"
    foreign_kdamond = "foreign_kdamond"
    numa_balancing = "numa_balancing"
    # The programs of `tierd.machine.processes.PLACERS`.
    numad = "numad"
    memtierd = "memtierd"
    damo = "damo"


@dataclass(frozen=True, slots=True)
class Rival:
    """One who moves or watches memory as well, and how, in words."""

    owner: Owner
    text: str


def rivals(found: Neighbours, programs: tuple[str, ...], *, ours_run: bool) -> tuple[Rival, ...]:
    """Who is in the way, of those that are there. While ours run, all kdamonds are ours."""
    told = [Rival(Owner.damon_module, f"{module.name} holds DAMON") for module in found.holders]
    if found.numa_balancing is not None and found.numa_balancing & NUMA_BALANCING_TIERING:
        text = "NUMA balancing promotes pages too (kernel.numa_balancing has bit 2)"
        told.append(Rival(Owner.numa_balancing, text))
    if not ours_run and found.kdamonds:
        text = f"{len(found.kdamonds)} kdamonds that are not tierd's"
        told.append(Rival(Owner.foreign_kdamond, text))
    told += [Rival(Owner(name), f"{name} runs, and places memory too") for name in programs]
    return tuple(told)


def neighbours(sysfs: Sysfs) -> Neighbours:
    """What else is there. Reading `state` may answer EBUSY: pass a Sysfs that asks again."""
    numa_balancing = optional(sysfs, NUMA_BALANCING)
    demotion_enabled = optional(sysfs, DEMOTION_ENABLED)
    zone_reclaim_mode = optional(sysfs, ZONE_RECLAIM_MODE)
    return Neighbours(
        kdamonds=kdamonds(sysfs),
        modules=modules(sysfs),
        numa_balancing=None if numa_balancing is None else int(numa_balancing),
        demotion_enabled=None
        if demotion_enabled is None
        else _bool(DEMOTION_ENABLED, demotion_enabled),
        zone_reclaim_mode=None if zone_reclaim_mode is None else int(zone_reclaim_mode),
    )


def kdamonds(sysfs: Sysfs) -> tuple[Kdamond, ...]:
    """Every kdamond of the sysfs interface; none where DAMON is missing."""
    count = optional(sysfs, f"{KDAMONDS}/nr_kdamonds")
    return tuple(_kdamond(sysfs, index) for index in range(int(count or 0)))


def modules(sysfs: Sysfs) -> tuple[DamonModule, ...]:
    """Every DAMON module that is loaded or built in."""
    return tuple(found for name in DAMON_MODULES if (found := _module(sysfs, name)) is not None)


def _kdamond(sysfs: Sysfs, index: int) -> Kdamond:
    folder = f"{KDAMONDS}/{index}"
    contexts = int(sysfs.read(f"{folder}/contexts/nr_contexts"))
    operations = []
    actions = []
    for context in range(contexts):
        base = f"{folder}/contexts/{context}"
        operations.append(sysfs.read(f"{base}/operations"))
        for scheme in range(int(sysfs.read(f"{base}/schemes/nr_schemes"))):
            actions.append(sysfs.read(f"{base}/schemes/{scheme}/action"))
    return Kdamond(
        index=index,
        state=sysfs.read(f"{folder}/state"),
        pid=int(sysfs.read(f"{folder}/pid")),
        operations=tuple(operations),
        actions=tuple(actions),
    )


def _module(sysfs: Sysfs, name: str) -> DamonModule | None:
    path = f"{MODULES}/{name}/parameters/enabled"
    enabled = optional(sysfs, path)
    if enabled is None:
        return None
    pid = optional(sysfs, f"{MODULES}/{name}/parameters/kdamond_pid")
    return DamonModule(name, _bool(path, enabled), None if pid is None else int(pid))


def _bool(path: str, text: str) -> bool:
    if text not in _BOOLS:
        raise TierdError(f"/{path}: expected one of {', '.join(_BOOLS)}, found {text!r}")
    return _BOOLS[text]
