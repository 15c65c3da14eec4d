"""Puts a list of writes into the kernel: from nothing, or by the smallest change.

`apply` records the saved state before these steps, and undoes them if one fails.
"""

from collections.abc import Iterable
from errno import EACCES, EPERM, EROFS

from tierd.kdamonds.kernel import NR_KDAMONDS, Kernel
from tierd.kdamonds.saved import STEERED, SavedKnob, SavedState, same_value
from tierd.machine.neighbours import NUMA_BALANCING
from tierd.machine.numa_balancing import PROMOTE_RATE_LIMIT
from tierd.plans.changes import (
    Change,
    ChangeMethod,
    difference,
    is_state,
    kdamond_of,
    tunes_itself,
    values,
)
from tierd.plans.damon import Command, Write, Writes
from tierd.plans.plan import Knob
from tierd.sysfs import SysfsError, optional

# The settings that the service may not write as it is shipped, and the errnos by which it is told.
PROTECTED = frozenset({NUMA_BALANCING, PROMOTE_RATE_LIMIT})
REFUSALS = frozenset({EPERM, EACCES, EROFS})
PROTECTED_HINT = (
    "the service needs the drop-in systemd/examples/numa-balancing.conf for `promoter: "
    "numa-balancing`; or set kernel.numa_balancing=2 yourself (docs/service.md)"
)


def build(kernel: Kernel, writes: Writes) -> tuple[int, ...]:
    """Write the files of all kdamonds, turn the kdamonds on, and return their pids.

    The caller has just written nr_kdamonds, so that all kdamonds are new.
    """
    count, *others = writes
    assert count.path == NR_KDAMONDS
    kernel.verify(count)
    for write in others:
        if not is_state(write):
            kernel.put(write)
    pids = tuple(kernel.turn_on(index) for index in range(int(count.value)))
    for index, pid in enumerate(pids):
        kernel.require_running(index, Command.on, pid)
    return pids


def rebuild(kernel: Kernel, writes: Writes) -> tuple[int, ...]:
    """Stop all kdamonds, which must be ours, and build them anew; return the pids."""
    stop_all(kernel)
    kernel.sysfs.write(writes[0].path, writes[0].value)
    return build(kernel, writes)


def stop_all(kernel: Kernel) -> None:
    for index in range(kernel.count()):
        kernel.turn_off(index)


def all_alive(kernel: Kernel, pids: tuple[int, ...]) -> bool:
    """Return True if the kernel has exactly the given kdamonds, and all of them run."""
    if kernel.count() != len(pids) or not pids:
        return False
    statuses = [kernel.status(index) for index in range(len(pids))]
    return all(status.on and status.pid == pid for status, pid in zip(statuses, pids, strict=True))


def change_to(kernel: Kernel, writes: Writes) -> Change:
    """Return the smallest change after which the kernel holds these writes."""
    return difference(kernel.found(values(writes)), writes)


def carry_out(
    kernel: Kernel, writes: Writes, change: Change, pids: tuple[int, ...]
) -> tuple[int, ...]:
    """Make the change on running kdamonds, and return their pids after it."""
    if change.method is ChangeMethod.none:
        return pids
    if change.method is ChangeMethod.restart:
        return rebuild(kernel, writes)
    if change.method is ChangeMethod.commit:
        keep_tuned_intervals(kernel, writes, change, pids)
    command = Command.commit if change.method is ChangeMethod.commit else Command.commit_goals
    for write in change.stage:
        kernel.put(write)
    for index in change.kdamonds:
        kernel.command(index, command, pids[index])
    return pids


def run_as_saved(kernel: Kernel, saved: SavedState, index: int) -> int:
    """Make one kdamond run as `saved` says, also if it is off now; return its pid."""
    part = tuple(
        write for write in saved.writes if kdamond_of(write.path) == index and not is_state(write)
    )
    change = change_to(kernel, part)
    status = kernel.status(index)
    if status.on and status.pid == saved.pids[index] and change.method is not ChangeMethod.restart:
        carry_out(kernel, part, change, saved.pids)
        return status.pid
    # If another program started the kdamond again, the settings that it uses are not known.
    kernel.turn_off(index)
    for write in change.stage:
        kernel.put(write)
    return kernel.turn_on(index)


def keep_tuned_intervals(
    kernel: Kernel, writes: Writes, change: Change, pids: tuple[int, ...]
) -> None:
    """Have the kernel write tuned intervals to their files: else the commit would reset them.

    A kdamond for which the change sets new intervals is left out: its tuning starts over.
    """
    if not change.kdamonds:
        return
    free = tunes_itself(writes)
    anew = {kdamond_of(write.path) for write in change.stage if "/intervals/" in write.path}
    for index in change.kdamonds:
        if index in free - anew:
            kernel.command(index, Command.update_intervals, pids[index])


def knobs_to_set(
    kernel: Kernel, knobs: Iterable[Knob], former: tuple[SavedKnob, ...]
) -> tuple[SavedKnob, ...]:
    """Return the settings that exist and must change, with the values to put back.

    A setting that an earlier plan has changed keeps the value from before that plan. One that
    tierd steers is in the list even if it has the value now.
    """
    found = []
    for knob in knobs:
        now = optional(kernel.sysfs, knob.path)
        if now is None:
            continue
        before = next((f for f in former if f.path == knob.path and f.is_in(now)), None)
        if before is not None:
            found.append(SavedKnob(knob.path, before.before, knob.value))
        elif knob.path in STEERED or not same_value(now, knob.value):
            found.append(SavedKnob(knob.path, now, knob.value))
    return tuple(found)


def every_knob(
    knobs: tuple[SavedKnob, ...], former: tuple[SavedKnob, ...]
) -> tuple[SavedKnob, ...]:
    """Return the settings of both plans, to be saved during the change from one to the other."""
    paths = {knob.path for knob in knobs}
    return (*knobs, *(knob for knob in former if knob.path not in paths))


def set_knobs(kernel: Kernel, knobs: tuple[SavedKnob, ...], former: tuple[SavedKnob, ...]) -> None:
    """Put back the settings that are no longer wanted, and set the others."""
    paths = {knob.path for knob in knobs}
    for knob in reversed(former):
        if knob.path not in paths:
            put_knob_back(kernel, knob)
    for knob in knobs:
        set_knob(kernel, knob)


def set_knob(kernel: Kernel, knob: SavedKnob) -> None:
    """Write tierd's value to one setting of the kernel."""
    if knob.is_in(kernel.sysfs.read(knob.path)):
        return
    try:
        kernel.put(Write(knob.path, knob.ours))
    except SysfsError as error:
        if error.errno in REFUSALS and knob.path in PROTECTED:
            error.hint = PROTECTED_HINT
        raise


def put_knob_back(kernel: Kernel, knob: SavedKnob) -> None:
    """Set a setting to its former value, unless it is gone or somebody else has changed it."""
    now = optional(kernel.sysfs, knob.path)
    if now is not None and knob.is_in(now):
        kernel.put(Write(knob.path, knob.before))
