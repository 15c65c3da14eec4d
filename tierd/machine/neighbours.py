"""Finds other programs and parts of the kernel that move or watch memory; only reads."""

import errno
from enum import StrEnum

from tierd import figures
from tierd.frozen import dataclass
from tierd.machine.features import KDAMONDS
from tierd.sysfs import Sysfs, SysfsError, optional

DAMON = "sys/kernel/mm/damon"
MODULES = "sys/module"
NUMA_BALANCING = "proc/sys/kernel/numa_balancing"
DEMOTION_ENABLED = "sys/kernel/mm/numa/demotion_enabled"
ZONE_RECLAIM_MODE = "proc/sys/vm/zone_reclaim_mode"

# The kernel modules that start their own kdamond. They use DAMON exclusively (damon_start(),
# running_exclusive_ctxs): while one runs, writing `on` gives EBUSY.
DAMON_MODULES = (
    "damon_stat",
    "damon_reclaim",
    "damon_lru_sort",
    "damon_sample_mtier",
    "damon_sample_prcl",
    "damon_sample_wsse",
)

NUMA_BALANCING_TIERING = 2
"""With this bit of numa_balancing the kernel promotes memory that its hint faults find hot."""

# The largest int: the kernel keeps counts of objects and these sysctls in one.
COUNT_MAX = 2**31 - 1

# Module parameters print Y or N, the files in /sys/kernel/mm/numa print true or false.
_BOOLS = {"Y": True, "N": False, "true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Kdamond:
    """A kdamond of the sysfs interface; tierd or another program made it."""

    index: int
    state: str
    """`on` or `off`."""
    pid: int
    """-1 when off."""
    operations: tuple[str, ...]
    """The operations set of each context."""
    actions: tuple[str, ...]
    """The action of each scheme."""

    @property
    def running(self) -> bool:
        return self.state == "on"


@dataclass(frozen=True, slots=True)
class DamonModule:
    """A DAMON module that is loaded or built in."""

    name: str
    enabled: bool
    kdamond_pid: int | None
    """None if the module does not show it; -1 if it runs no kdamond."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Everything else that uses DAMON or moves pages. A field is None if the kernel lacks it."""

    kdamonds: tuple[Kdamond, ...]
    modules: tuple[DamonModule, ...]
    numa_balancing: int | None
    demotion_enabled: bool | None
    zone_reclaim_mode: int | None

    @property
    def holders(self) -> tuple[DamonModule, ...]:
        """The modules that use DAMON exclusively now."""
        return tuple(module for module in self.modules if module.enabled)


class Owner(StrEnum):
    """A party that may conflict with tierd; the value is the label of `tierd_conflicts`."""

    damon_module = "damon_module"
    foreign_kdamond = "foreign_kdamond"
    numa_balancing = "numa_balancing"
    # The programs of `tierd.machine.processes.PLACERS`.
    numad = "numad"
    memtierd = "memtierd"
    damo = "damo"


@dataclass(frozen=True, slots=True)
class Rival:
    """A conflict with another party that moves or watches memory, and a text that says how."""

    owner: Owner
    text: str


def rivals(
    found: Neighbours, programs: tuple[str, ...], *, ours_run: bool, hints: bool = False
) -> tuple[Rival, ...]:
    """Return the conflicts. While tierd's kdamonds run, every kdamond is tierd's.

    With `hints` the plan leaves promotion to NUMA balancing.
    """
    told = [
        Rival(Owner.damon_module, f"{module.name} uses DAMON exclusively")
        for module in found.holders
    ]
    promotes = bool((found.numa_balancing or 0) & NUMA_BALANCING_TIERING)
    if promotes and not hints:
        text = (
            "NUMA balancing promotes pages too (kernel.numa_balancing has bit 2); with `promoter: "
            "numa-balancing` tierd leaves promotion to it, and makes the room"
        )
        told.append(Rival(Owner.numa_balancing, text))
    if hints and not promotes:
        text = (
            f"nothing promotes: kernel.numa_balancing is {found.numa_balancing}, without the bit 2 "
            "that `promoter: numa-balancing` needs; somebody else has changed it. `tierd restore` "
            "and a new start of tierd set it again"
        )
        told.append(Rival(Owner.numa_balancing, text))
    if not ours_run and found.kdamonds:
        text = f"{len(found.kdamonds)} kdamonds that are not tierd's"
        told.append(Rival(Owner.foreign_kdamond, text))
    told += [Rival(Owner(name), f"{name} runs, and moves memory too") for name in programs]
    return tuple(told)


def neighbours(sysfs: Sysfs) -> Neighbours:
    """Return the neighbours. Reading `state` may give EBUSY: pass a Sysfs that tries again."""
    demotion_enabled = optional(sysfs, DEMOTION_ENABLED)
    return Neighbours(
        kdamonds=kdamonds(sysfs),
        modules=modules(sysfs),
        numa_balancing=sysctl(sysfs, NUMA_BALANCING),
        demotion_enabled=None
        if demotion_enabled is None
        else _bool(DEMOTION_ENABLED, demotion_enabled),
        zone_reclaim_mode=sysctl(sysfs, ZONE_RECLAIM_MODE),
    )


def sysctl(sysfs: Sysfs, path: str) -> int | None:
    """Return the number in a sysctl; None if this kernel does not have it."""
    return figures.optional(path, optional(sysfs, path), most=COUNT_MAX)


def kdamonds(sysfs: Sysfs) -> tuple[Kdamond, ...]:
    """Return every kdamond of the sysfs interface; none if there is no DAMON."""
    return tuple(_kdamond(sysfs, index) for index in range(count_kdamonds(sysfs)))


def count_kdamonds(sysfs: Sysfs) -> int:
    """Return the number of kdamonds, of any owner; 0 if the kernel has no DAMON.

    A kernel with DAMON always has the count, so a missing file is then an error and not 0.
    """
    try:
        path = f"{KDAMONDS}/nr_kdamonds"
        return figures.number(path, sysfs.reread(path), most=COUNT_MAX)
    except SysfsError as error:
        if error.errno != errno.ENOENT or sysfs.exists(DAMON):
            raise
        return 0


def modules(sysfs: Sysfs) -> tuple[DamonModule, ...]:
    """Return every DAMON module that is loaded or built in."""
    return tuple(found for name in DAMON_MODULES if (found := _module(sysfs, name)) is not None)


def _kdamond(sysfs: Sysfs, index: int) -> Kdamond:
    folder = f"{KDAMONDS}/{index}"
    contexts = _count(sysfs, f"{folder}/contexts/nr_contexts")
    operations = []
    actions = []
    for context in range(contexts):
        base = f"{folder}/contexts/{context}"
        operations.append(sysfs.read(f"{base}/operations"))
        for scheme in range(_count(sysfs, f"{base}/schemes/nr_schemes")):
            actions.append(sysfs.read(f"{base}/schemes/{scheme}/action"))
    return Kdamond(
        index=index,
        state=sysfs.read(f"{folder}/state"),
        pid=figures.number(f"{folder}/pid", sysfs.read(f"{folder}/pid"), -1, figures.PID_MAX),
        operations=tuple(operations),
        actions=tuple(actions),
    )


def _count(sysfs: Sysfs, path: str) -> int:
    return figures.number(path, sysfs.read(path), most=COUNT_MAX)


def _module(sysfs: Sysfs, name: str) -> DamonModule | None:
    path = f"{MODULES}/{name}/parameters/enabled"
    enabled = optional(sysfs, path)
    if enabled is None:
        return None
    at = f"{MODULES}/{name}/parameters/kdamond_pid"
    pid = figures.optional(at, optional(sysfs, at), -1, figures.PID_MAX)
    return DamonModule(name, _bool(path, enabled), pid)


def _bool(path: str, text: str) -> bool:
    if text not in _BOOLS:
        raise figures.Garbled(path, f"one of {', '.join(_BOOLS)}", text)
    return _BOOLS[text]
