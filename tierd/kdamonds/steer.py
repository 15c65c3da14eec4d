"""What is done to a plan that runs: goals tuned, paused, resumed, looked at, one kdamond revived.

Rules are those of `apply`: verified steps, a failure taken back, what was not taken back named.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from tierd.clock import Clock
from tierd.errors import Conflict, TierdError
from tierd.kdamonds.applied import Applied, Record, Undone, failed_undo
from tierd.kdamonds.attempts import Attempts
from tierd.kdamonds.build import bring, keep_intervals, rebuild
from tierd.kdamonds.goback import each_back, not_taken_back
from tierd.kdamonds.kernel import OFF, Kernel, Status
from tierd.kdamonds.ownership import Standing, describe_all, standing
from tierd.kdamonds.restore import undo
from tierd.kdamonds.saved import SavedState, changing
from tierd.machine.neighbours import kdamonds
from tierd.plans.changes import Change, Kind, kdamond_of, values
from tierd.plans.damon import Command, Write, Writes, kdamond_dir
from tierd.sysfs import Sysfs

_GOAL = re.compile(r"/quotas/goals/\d+/(target_value|current_value)$")


@dataclass(frozen=True, slots=True)
class Health:
    """One of our kdamonds, looked at."""

    index: int
    state: str
    """`gone` if there is none of that index."""
    pid: int
    alive: bool
    """On, and with the pid that we know."""


def health(sysfs: Sysfs, clock: Clock, applied: Applied) -> tuple[Health, ...]:
    """All of our kdamonds."""
    kernel = Kernel.patient(sysfs, clock)
    count = kernel.count()
    gone = Status("gone", OFF.pid)
    statuses = [kernel.status(i) if i < count else gone for i in range(len(applied.pids))]
    return tuple(
        Health(index, status.state, status.pid, status.on and status.pid == pid)
        for index, (status, pid) in enumerate(zip(statuses, applied.pids, strict=True))
    )


def command(sysfs: Sysfs, clock: Clock, applied: Applied, index: int, what: Command) -> None:
    """Give one kdamond of ours a command (update_schemes_stats, ...) and look at it again."""
    kernel = Kernel.patient(sysfs, clock)
    kernel.require(index, "the last look", applied.pids[index])
    kernel.command(index, what, applied.pids[index])


def tune(sysfs: Sysfs, clock: Clock, applied: Applied, changes: Writes) -> Applied:
    """Write goal values (`.../quotas/goals/...`) and commit goals only, on the kdamonds meant."""
    assert all(_GOAL.search(write.path) for write in changes)
    kernel = Kernel.patient(sysfs, clock)
    indices = _indices(changes)
    for index in indices:
        kernel.require(index, "the last look", applied.pids[index])
    before = tuple(Write(write.path, kernel.sysfs.read(write.path)) for write in changes)
    try:
        _commit_goals(kernel, changes, indices, applied.pids)
    except TierdError as error:
        attempts = Attempts()
        for write in before:
            attempts.run(partial(kernel.put, write))
        for index in attempts.run(lambda: _running(kernel, indices)) or ():
            commit = partial(kernel.command, index, Command.commit_goals, applied.pids[index])
            attempts.run(commit)
        if attempts.failed:
            raise not_taken_back(error, attempts) from error
        raise Undone(error, applied) from error
    return applied


def _commit_goals(
    kernel: Kernel, writes: Writes, indices: Iterable[int], pids: tuple[int, ...]
) -> None:
    for write in writes:
        kernel.put(write)
    for index in indices:
        kernel.command(index, Command.commit_goals, pids[index])


def revive(sysfs: Sysfs, clock: Clock, applied: Applied, index: int, record: Record) -> Applied:
    """Turn a kdamond that died on again, with the plan's values below it.

    If all are gone, because nr_kdamonds was written, they are built anew.
    """
    kernel = Kernel.patient(sysfs, clock)
    saved = applied.saved
    require_ours(kernel, saved)
    if kernel.count() == 0:
        return _build_again(kernel, applied, record)
    return _recorded(
        kernel,
        applied,
        (index,),
        partial(bring, kernel, saved),
        kernel.turn_off,
        record,
        f"kdamond {index} turned on again",
    )


def _build_again(kernel: Kernel, applied: Applied, record: Record) -> Applied:
    saved = applied.saved
    begun = changing(saved, saved.writes, saved.knobs)
    record(begun)
    try:
        running = replace(saved, pids=rebuild(kernel, saved.writes))
        record(running)
    except TierdError as error:
        try:
            # Without trust: it may be somebody else's that kept ours from being built.
            undo(kernel, replace(begun, knobs=()), trusted=False)
            record(saved)
        except TierdError as failed:
            raise failed_undo(error, failed) from error
        raise Undone(error, applied) from error
    return replace(applied, saved=running, how="built again")


def pause(sysfs: Sysfs, clock: Clock, applied: Applied, record: Record) -> Applied:
    """Stop all movement: by `pause` where the kernel has it (keeps what was learned), else off."""
    kernel = Kernel.patient(sysfs, clock)
    hold, run = partial(_hold, kernel, applied.saved), partial(bring, kernel, applied.saved)
    return _recorded(kernel, applied, range(len(applied.pids)), hold, run, record, "paused")


def resume(sysfs: Sysfs, clock: Clock, applied: Applied, record: Record) -> Applied:
    """End a pause."""
    kernel = Kernel.patient(sysfs, clock)
    hold, run = partial(_hold, kernel, applied.saved), partial(bring, kernel, applied.saved)
    return _recorded(kernel, applied, range(len(applied.pids)), run, hold, record, "resumed")


def _recorded(
    kernel: Kernel,
    applied: Applied,
    indices: Iterable[int],
    do: Callable[[int], int | None],
    back: Callable[[int], int | None],
    record: Record,
    how: str,
) -> Applied:
    """Do it to each kdamond and record the pids after it; on failure go back, and record those.

    What returns no pid leaves the one that was known.
    """
    listed = tuple(indices)
    pids = list(applied.pids)
    require_ours(kernel, applied.saved)
    try:
        for index in listed:
            pids[index] = do(index) or pids[index]
        return replace(_with_pids(applied, pids, record), how=how)
    except TierdError as error:
        attempts = Attempts()
        for index in listed:
            pids[index] = each_back(attempts, back, index) or pids[index]
        if attempts.failed:
            raise not_taken_back(error, attempts) from error
        try:
            undone = _with_pids(applied, pids, record)
        except TierdError as failed:
            raise failed_undo(error, failed) from error
        raise Undone(error, undone) from error


def _with_pids(applied: Applied, pids: list[int], record: Record) -> Applied:
    saved = replace(applied.saved, pids=tuple(pids), former=())
    if saved == applied.saved:
        return applied
    record(saved)
    return replace(applied, saved=saved)


def _hold(kernel: Kernel, saved: SavedState, index: int) -> None:
    """Keep a kdamond from moving anything."""
    path = f"{kdamond_dir(index)}/contexts/0/pause"
    if path not in values(saved.writes) or not kernel.status(index).on:
        kernel.turn_off(index)
        return
    write = Write(path, "Y")
    change = Change(Kind.commit, (write,), (index,))
    keep_intervals(kernel, saved.writes, change, saved.pids)
    kernel.put(write)
    kernel.command(index, Command.commit, saved.pids[index])


def _running(kernel: Kernel, indices: Iterable[int]) -> tuple[int, ...]:
    return tuple(index for index in indices if kernel.status(index).on)


def require_ours(kernel: Kernel, saved: SavedState) -> None:
    """Raise Conflict if the kdamonds that exist are somebody else's."""
    if standing(kernel, saved) is Standing.foreign:
        raise Conflict(
            f"DAMON has been taken over: {describe_all(kdamonds(kernel.sysfs))}",
            "find out who did it; restart tierd when they are done",
        )


def _indices(writes: Writes) -> tuple[int, ...]:
    found = {kdamond_of(write.path) for write in writes}
    return tuple(sorted(index for index in found if index is not None))
