"""Read-only checks: whether our kdamonds run, are as planned, and may be changed."""

from tierd import figures
from tierd.errors import Conflict, TierdError
from tierd.frozen import dataclass
from tierd.kdamonds.applied import Applied, CgroupsGone
from tierd.kdamonds.kernel import OFF, Kernel, Status
from tierd.kdamonds.ownership import require_ours
from tierd.kdamonds.saved import holds
from tierd.machine import cgroups
from tierd.machine.neighbours import MODULES, neighbours
from tierd.plans.changes import is_filter, steered, tuned, values
from tierd.plans.damon import Writes
from tierd.plans.plan import Plan
from tierd.sysfs import Sysfs, optional
from tierd.units import format_ids

HAS_MEMORY = "sys/devices/system/node/has_memory"


@dataclass(frozen=True, slots=True)
class Health:
    """The state of one of our kdamonds."""

    index: int
    state: str
    """The content of its `state` file; `gone` if there is no kdamond of that index."""
    pid: int
    alive: bool
    """True if it is on and has the pid that we recorded."""


def health(kernel: Kernel, applied: Applied) -> tuple[Health, ...]:
    """Return the state of each of our kdamonds."""
    count = kernel.count()
    gone = Status("gone", OFF.pid)
    statuses = [kernel.status(i) if i < count else gone for i in range(len(applied.pids))]
    return tuple(
        Health(index, status.state, status.pid, status.on and status.pid == pid)
        for index, (status, pid) in enumerate(zip(statuses, applied.pids, strict=True))
    )


@dataclass(frozen=True, slots=True)
class Drift:
    """A file that does not hold what the plan says; `found` is None if the file is absent."""

    path: str
    wanted: str
    found: str | None


def drift(sysfs: Sysfs, plan: Plan) -> tuple[Drift, ...]:
    """Return where the kernel differs from the plan. Pass a Sysfs that waits while DAMON is busy.

    Current values of goals, gates, the speeds of gated sweeps and tuned intervals may differ from
    the plan. A setting may be absent, and one that tierd steers may be lower. Where groups share
    the fast memory, filters change all the time. These cases are not drift.
    """
    wanted = values(plan.writes)
    free = tuned(wanted) | steered(wanted)
    if plan.groups:
        free |= {path for path in wanted if is_filter(path)}
    found = {path: optional(sysfs, path) for path in wanted if path not in free}
    drifted = [
        Drift(path, wanted[path], text) for path, text in found.items() if text != wanted[path]
    ]
    for knob in plan.knobs:
        text = optional(sysfs, knob.path)
        if text is not None and not holds(knob.path, knob.value, text):
            drifted.append(Drift(knob.path, knob.value, text))
    return tuple(drifted)


def require_paused(kernel: Kernel, applied: Applied) -> None:
    """Raise Conflict if, during a pause, somebody else has replaced our kdamonds."""
    if kernel.count() == 0:
        raise Conflict(
            "DAMON has been taken over during the pause: our kdamonds were removed",
            "run `tierd resume`, which starts new kdamonds",
        )
    left = all(one.alive or one.state == OFF.state for one in health(kernel, applied))
    if not left or kernel.count() != len(applied.pids):
        require_ours(kernel, applied.saved)


def require_cgroups(kernel: Kernel, writes: Writes, staged: Applied | None = None) -> None:
    """Raise CgroupsGone if a cgroup of the writes was removed: the kernel refuses it with ENOMEM.

    `staged` is what runs, if the files hold these filters already.
    """
    paths = {write.value for write in writes if write.path.endswith("/memcg_path")}
    gone = cgroups.gone(kernel.sysfs, sorted(paths)) if paths else ()
    if gone:
        raise CgroupsGone(gone, frozenset(paths.difference(gone)), staged)


def require_nodes(kernel: Kernel, plan: Plan) -> None:
    """Raise if a node of the plan has no memory any more: some kernels crash on its number."""
    present = figures.ids(HAS_MEMORY, kernel.sysfs.read(HAS_MEMORY))
    gone = set(plan.nodes) - set(present)
    if gone:
        raise TierdError(
            f"node {format_ids(gone)} has no memory any more (/{HAS_MEMORY}: "
            f"{format_ids(present)})",
            "make the plan again; the daemon does so by itself",
        )


def require_no_module(kernel: Kernel, plan: Plan) -> None:
    """Raise Conflict if a DAMON module uses DAMON, unless the plan turns that module off."""
    ours = {knob.path for knob in plan.knobs}
    others = [
        module.name
        for module in neighbours(kernel.sysfs).holders
        if f"{MODULES}/{module.name}/parameters/enabled" not in ours
    ]
    if others:
        raise Conflict(
            f"DAMON is held by {', '.join(others)}",
            " and ".join(f"`echo N > /{MODULES}/{name}/parameters/enabled`" for name in others),
        )
