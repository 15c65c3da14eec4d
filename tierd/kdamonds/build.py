"""Makes the kernel's tree what a list of writes says: from nothing, or by a change.

These are the steps of `apply`, which records before them and undoes after them.
"""

from collections.abc import Iterable

from tierd.kdamonds.kernel import NR_KDAMONDS, Kernel, same
from tierd.kdamonds.saved import SavedKnob, SavedState
from tierd.plans.changes import (
    Change,
    Kind,
    difference,
    is_state,
    kdamond_of,
    tuned,
    values,
)
from tierd.plans.damon import Command, Write, Writes
from tierd.plans.plan import Knob
from tierd.sysfs import optional


def build(kernel: Kernel, writes: Writes) -> tuple[int, ...]:
    """Fill a tree whose nr_kdamonds has just been written, and turn everything on: the pids."""
    count, *rest = writes
    assert count.path == NR_KDAMONDS
    kernel.verify(count)
    for write in rest:
        if not is_state(write):
            kernel.put(write)
    pids = tuple(kernel.turn_on(index) for index in range(int(count.value)))
    for index, pid in enumerate(pids):
        kernel.require(index, Command.on, pid)
    return pids


def rebuild(kernel: Kernel, writes: Writes) -> tuple[int, ...]:
    """Stop all kdamonds, which are ours, and build anew."""
    stop_all(kernel)
    kernel.sysfs.write(writes[0].path, writes[0].value)
    return build(kernel, writes)


def stop_all(kernel: Kernel) -> None:
    for index in range(kernel.count()):
        kernel.turn_off(index)


def all_alive(kernel: Kernel, pids: tuple[int, ...]) -> bool:
    """Whether just these kdamonds are there, and run."""
    if kernel.count() != len(pids) or not pids:
        return False
    statuses = [kernel.status(index) for index in range(len(pids))]
    return all(status.on and status.pid == pid for status, pid in zip(statuses, pids, strict=True))


def change_to(kernel: Kernel, writes: Writes) -> Change:
    """What makes the tree as it is now into what is wanted."""
    return difference(kernel.found(values(writes)), writes)


def carry_out(
    kernel: Kernel, writes: Writes, change: Change, pids: tuple[int, ...]
) -> tuple[int, ...]:
    """Make the change on running kdamonds; the pids after it."""
    if change.kind is Kind.none:
        return pids
    if change.kind is Kind.restart:
        return rebuild(kernel, writes)
    if change.kind is Kind.commit:
        keep_intervals(kernel, writes, change, pids)
    command = Command.commit if change.kind is Kind.commit else Command.commit_goals
    for write in change.stage:
        kernel.put(write)
    for index in change.kdamonds:
        kernel.command(index, command, pids[index])
    return pids


def bring(kernel: Kernel, saved: SavedState, index: int) -> int:
    """Make one kdamond run as `saved` has it, whatever it does now; its pid."""
    part = tuple(
        write for write in saved.writes if kdamond_of(write.path) == index and not is_state(write)
    )
    change = change_to(kernel, part)
    status = kernel.status(index)
    if status.on and status.pid == saved.pids[index] and change.kind is not Kind.restart:
        carry_out(kernel, part, change, saved.pids)
        return status.pid
    # Somebody may have started it again: what it runs with is not known, so it starts over.
    kernel.turn_off(index)
    for write in change.stage:
        kernel.put(write)
    return kernel.turn_on(index)


def keep_intervals(kernel: Kernel, writes: Writes, change: Change, pids: tuple[int, ...]) -> None:
    """Have tuned intervals written to their files, or the commit would reset them to what stands
    there.

    Where the intervals themselves change they start over, and that is meant.
    """
    free = {kdamond_of(path) for path in tuned(values(writes))}
    anew = {kdamond_of(write.path) for write in change.stage if "/intervals/" in write.path}
    for index in change.kdamonds:
        if index in free - anew:
            kernel.command(index, Command.update_intervals, pids[index])


def saved_knobs(
    kernel: Kernel, knobs: Iterable[Knob], former: tuple[SavedKnob, ...]
) -> tuple[SavedKnob, ...]:
    """Those settings that there are and that must change, with what to put back.

    One that an earlier plan has changed already keeps the value from before that.
    """
    found = []
    for knob in knobs:
        now = optional(kernel.sysfs, knob.path)
        if now is None:
            continue
        before = next((f for f in former if f.path == knob.path and same(f.ours, now)), None)
        if before is not None:
            found.append(SavedKnob(knob.path, before.before, knob.value))
        elif not same(now, knob.value):
            found.append(SavedKnob(knob.path, now, knob.value))
    return tuple(found)


def every_knob(
    knobs: tuple[SavedKnob, ...], former: tuple[SavedKnob, ...]
) -> tuple[SavedKnob, ...]:
    """Both lists, for as long as a change from one to the other is under way."""
    paths = {knob.path for knob in knobs}
    return (*knobs, *(knob for knob in former if knob.path not in paths))


def turn_knobs(kernel: Kernel, knobs: tuple[SavedKnob, ...], former: tuple[SavedKnob, ...]) -> None:
    """Put back what is no longer wanted, and set the rest."""
    paths = {knob.path for knob in knobs}
    for knob in reversed(former):
        if knob.path not in paths:
            turn_back(kernel, knob)
    for knob in knobs:
        turn_on(kernel, knob)


def turn_on(kernel: Kernel, knob: SavedKnob) -> None:
    """Set it as we want it."""
    if not same(kernel.sysfs.read(knob.path), knob.ours):
        kernel.put(Write(knob.path, knob.ours))


def turn_back(kernel: Kernel, knob: SavedKnob) -> None:
    """Put back what it was, unless it is gone or somebody else has changed it."""
    now = optional(kernel.sysfs, knob.path)
    if now is not None and same(now, knob.ours):
        kernel.put(Write(knob.path, knob.before))
