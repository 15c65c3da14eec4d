"""After a kill: no quota is in use that nobody looks after, until the next tierd takes them over.

The input that was written last goes on multiplying. One by which a quota grew takes it to its
limit, and behind that further on; one by which it shrinks takes seven seconds to halve what may
be several times the rate, where most tries failed before and do not now. So whoever is there
first, which under systemd is ExecStopPost, has every quota begin at a byte again.
"""

from collections.abc import Mapping
from functools import partial

from tierd.clock import Clock
from tierd.errors import TierdError
from tierd.kdamonds.attempts import Attempts
from tierd.kdamonds.kernel import Kernel
from tierd.kdamonds.ownership import Standing, standing
from tierd.kdamonds.saved import SavedState
from tierd.plans.changes import kdamond_of, values
from tierd.plans.damon import Command, Metric, Write, Writes
from tierd.sysfs import Sysfs
from tierd.tuner.throttle import RESET, TARGET

_METRIC = "/target_metric"


def rest(sysfs: Sysfs, clock: Clock, saved: SavedState) -> tuple[int, ...]:
    """The kdamonds that rest now; those that are off or not ours are left."""
    kernel = Kernel.patient(sysfs, clock)
    if kernel.boot_id() != saved.boot_id:
        return ()
    attempts = Attempts()
    told = attempts.run(partial(_all, kernel, saved, attempts)) or ()
    if attempts.failed:
        raise TierdError(
            f"a quota may be in use that nobody looks after: {attempts.reasons}",
            "start tierd, which takes it over, or run `tierd restore`, which ends it",
        )
    return told


def _all(kernel: Kernel, saved: SavedState, attempts: Attempts) -> tuple[int, ...]:
    """Each by itself: what keeps one from being told is noted, and the next is told."""
    if standing(kernel, saved) is not Standing.ours:
        return ()
    aims = targets(saved.writes)
    count = kernel.count()
    return tuple(i for i in range(count) if attempts.run(partial(_one, kernel, i, aims)))


def _one(kernel: Kernel, index: int, aims: Mapping[str, int]) -> bool:
    """Whether the kdamond takes inputs, and was told."""
    status = kernel.status(index)
    # A kill amid a change of the tree leaves some of the files only.
    inputs = kernel.found(path for path in aims if kdamond_of(path) == index)
    if not status.on or not inputs:
        return False
    for path in inputs:
        kernel.put(Write(path, str(aims[path] * RESET.value // TARGET)))
    kernel.command(index, Command.commit_goals, status.pid)
    return True


def targets(writes: Writes) -> Mapping[str, int]:
    """What each input of those writes is measured by, by the input's path."""
    held = values(writes)
    goals = (
        path.removesuffix(_METRIC)
        for path, value in held.items()
        if path.endswith(_METRIC) and value == Metric.user_input
    )
    return {f"{goal}/current_value": int(held[f"{goal}/target_value"]) for goal in goals}
