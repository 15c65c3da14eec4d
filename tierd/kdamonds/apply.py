"""Runs plans in the kernel: starts, adopts, changes, tunes, pauses, resumes and revives them.

Rules of this file:
1. What a restore needs is recorded (`record`) before the first change, and again before each
   later change.
2. Every step is verified (`kernel`). A failed change is taken back (`rollback`, `restore`). If
   that fails too, UndoFailed names the files.
3. A kdamond that is not ours is never written to, unless the config says to take over.
"""

import re
from collections.abc import Callable, Iterable
from functools import partial

from tierd.errors import Conflict, TierdError
from tierd.frozen import dataclass, replace
from tierd.kdamonds.applied import Applied, Record, RolledBack, UndoFailed
from tierd.kdamonds.build import (
    all_alive,
    build,
    carry_out,
    change_to,
    every_knob,
    keep_tuned_intervals,
    knobs_to_set,
    rebuild,
    run_as_saved,
    set_knobs,
    stop_all,
)
from tierd.kdamonds.inspection import require_cgroups, require_no_module, require_nodes
from tierd.kdamonds.kernel import NR_KDAMONDS, Attempts, Kernel
from tierd.kdamonds.ownership import (
    ALTERED_HINT,
    Standing,
    altered,
    describe_all,
    require_ours,
    standing,
)
from tierd.kdamonds.restore import park_settings, restore_same_boot
from tierd.kdamonds.rollback import roll_back, roll_back_kdamond, steps_failed, undo_failed
from tierd.kdamonds.saved import SavedKnob, SavedState, changing
from tierd.machine.neighbours import kdamonds
from tierd.plans.changes import Change, ChangeMethod, is_gate, kdamond_of, values
from tierd.plans.damon import Command, Write, Writes, kdamond_dir
from tierd.plans.plan import Plan

HOW = {
    ChangeMethod.none: "adopted as it runs",
    ChangeMethod.goals: "kept running; goals committed",
    ChangeMethod.commit: "kept running; changes committed",
    ChangeMethod.restart: "replaced: turned off and started anew",
}

_FILTER = re.compile(r"/(core_|ops_)?filters/")
_STEERED = re.compile(r"/quotas/(goals/\d+/(target_value|current_value)|bytes)$")


def start(
    kernel: Kernel,
    plan: Plan,
    record: Record,
    *,
    saved: SavedState | None = None,
    take_over: bool = False,
) -> Applied:
    """Make the kernel run the plan, from nothing or from what an earlier tierd left.

    With `saved`, the kdamonds of an earlier tierd are adopted: without a write if they fit, else
    by the smallest change. Conflict if a kdamond exists that is not ours, unless `take_over`.
    After any failure the machine is as it was before tierd.
    """
    boot_id = kernel.boot_id()
    known = saved if saved is not None and saved.boot_id == boot_id else None
    whose = standing(kernel, known)
    if whose is Standing.foreign and not take_over:
        hint = "stop its owner; with `on_conflict: take_over` the daemon replaces its kdamonds"
        if known is not None and altered(kernel, known):
            hint = ALTERED_HINT
        raise Conflict(f"DAMON is in use: {describe_all(kdamonds(kernel.sysfs))}", hint)
    require_nodes(kernel, plan)
    require_cgroups(kernel, plan.writes)
    if whose is Standing.ours and known is not None:
        return _adopt(kernel, known, plan, record)
    require_no_module(kernel, plan)
    former = known.knobs if known is not None else ()
    knobs = knobs_to_set(kernel, plan.knobs, former)
    begun = SavedState(boot_id, plan.writes, knobs=every_knob(knobs, former))
    taken = kernel.count()
    record(begun)
    built = False
    try:
        set_knobs(kernel, knobs, former)
        stop_all(kernel)
        kernel.sysfs.write(NR_KDAMONDS, plan.writes[0].value)
        built = True
        pids = build(kernel, plan.writes_at_start)
        grows_s = kernel.clock.monotonic() if plan.grows_at_start else None
        running = replace(begun, pids=pids, knobs=knobs)
        record(running)
    except TierdError as error:
        _restore_after(kernel, begun, error, known_ours=built)
        if taken:
            gone = f"{error}; {taken} kdamonds of somebody else were taken over and are stopped"
            raise UndoFailed(gone, (NR_KDAMONDS,)) from error
        require_cgroups(kernel, plan.writes)
        raise
    how = f"started, in place of {taken} kdamonds of somebody else" if taken else "started"
    return Applied(plan, running, how, grows_s)


def _adopt(kernel: Kernel, saved: SavedState, plan: Plan, record: Record) -> Applied:
    step = _step_to(kernel, saved, plan)
    if step is None:
        return Applied(plan, saved, HOW[ChangeMethod.none])
    record(step.begun)
    try:
        running = _take(step, kernel, saved, plan, record)
    except TierdError as error:
        _restore_after(kernel, step.begun, error, known_ours=True)
        require_cgroups(kernel, plan.writes)
        raise
    return Applied(plan, running, HOW[step.change.method])


def change_plan(kernel: Kernel, applied: Applied, plan: Plan, record: Record) -> Applied:
    """Run `plan` instead, by the smallest change: nothing, goals only, commit, or off and on.

    This ends a pause. After a failure the former plan runs again, and RolledBack is raised.
    """
    saved = applied.saved
    require_ours(kernel, saved)
    require_nodes(kernel, plan)
    step = _step_to(kernel, saved, plan)
    # As late as possible: a cgroup may go at any time.
    require_cgroups(kernel, plan.writes)
    if step is None:
        return replace(applied, plan=plan)
    record(step.begun)
    try:
        running = _take(step, kernel, saved, plan, record)
    except TierdError as error:
        if _only_filters(step.change):
            # The kernel has refused the filters, and goes on with the former ones, or the kdamond
            # has ended. The former ones may name cgroups that are gone too, so they cannot be
            # committed again.
            staged = replace(applied, saved=step.begun)
            require_cgroups(kernel, plan.writes, staged)
        raise RolledBack(error, roll_back(kernel, applied, step.begun, error, record)) from error
    return Applied(plan, running, HOW[step.change.method])


@dataclass(frozen=True, slots=True)
class _Step:
    """The smallest change from kdamonds that run to a plan."""

    change: Change
    knobs: tuple[SavedKnob, ...]
    begun: SavedState
    """What a restore needs if tierd dies during the step."""


def _step_to(kernel: Kernel, saved: SavedState, plan: Plan) -> _Step | None:
    """Return the step that makes our kdamonds run the plan; None if they run it already."""
    change = _change_to(kernel, saved, plan)
    knobs = knobs_to_set(kernel, plan.knobs, saved.knobs)
    if change.method is ChangeMethod.none and saved.writes == plan.writes and knobs == saved.knobs:
        return None
    return _Step(change, knobs, changing(saved, plan.writes, every_knob(knobs, saved.knobs)))


def _only_filters(change: Change) -> bool:
    return all(_FILTER.search(write.path) for write in change.stage)


def _change_to(kernel: Kernel, saved: SavedState, plan: Plan) -> Change:
    """Return the smallest change that makes our kdamonds run the plan."""
    change = change_to(kernel, plan.writes)
    everything = tuple(range(len(plan.kdamonds)))
    if not all_alive(kernel, saved.pids):
        return replace(change, method=ChangeMethod.restart)
    if saved.former and change.method <= ChangeMethod.commit:
        # A change was not completed: files may have been written that no commit has followed.
        return Change(ChangeMethod.commit, change.stage, everything)
    return change


def _take(step: _Step, kernel: Kernel, saved: SavedState, plan: Plan, record: Record) -> SavedState:
    """Take the step, and record the state after it. The caller undoes a failure."""
    set_knobs(kernel, step.knobs, saved.knobs)
    pids = carry_out(kernel, plan.writes, step.change, saved.pids)
    running = SavedState(saved.boot_id, plan.writes, pids, step.knobs)
    record(running)
    return running


def _restore_after(
    kernel: Kernel, begun: SavedState, error: TierdError, *, known_ours: bool
) -> None:
    """Put the machine back after a start that failed with `error`."""
    try:
        restore_same_boot(kernel, begun, known_ours=known_ours)
    except UndoFailed as failed:
        raise undo_failed(error, failed) from error


def command(kernel: Kernel, applied: Applied, index: int, what: Command) -> None:
    """Give one of our kdamonds a command, and verify that the kdamond runs before and after it."""
    kernel.require_running(index, "the last tick", applied.pids[index])
    kernel.command(index, what, applied.pids[index])


def tune(kernel: Kernel, applied: Applied, changes: Writes) -> Applied:
    """Write goal values, gates and the speeds of gated schemes, and commit them.

    Goals have a commit of their own. A kdamond with a changed gate needs a commit of everything. A
    speed comes with its gate. The commit is refused if it names a cgroup that has gone. Then
    CgroupsGone is raised, and the next commit changes the gates too.
    """
    assert all(_STEERED.search(write.path) or is_gate(write.path) for write in changes)
    named = {kdamond_of(write.path) for write in changes}
    indices = tuple(sorted(index for index in named if index is not None))
    gated = {kdamond_of(write.path) for write in changes if is_gate(write.path)}
    commits = {one: Command.commit if one in gated else Command.commit_goals for one in indices}
    for index in indices:
        kernel.require_running(index, "the last tick", applied.pids[index])
    names_cgroups = bool(applied.plan.cgroups or applied.plan.groups)
    if gated and names_cgroups:
        require_cgroups(kernel, applied.saved.writes)
    before = tuple(Write(write.path, kernel.sysfs.reread(write.path)) for write in changes)
    try:
        whole = tuple(index for index in indices if index in gated)
        change = Change(ChangeMethod.commit, changes, whole)
        keep_tuned_intervals(kernel, applied.saved.writes, change, applied.pids)
        for write in changes:
            kernel.put(write)
        for index in indices:
            kernel.command(index, commits[index], applied.pids[index])
    except TierdError as error:
        if gated and names_cgroups:
            # The former gates cannot be committed either.
            require_cgroups(kernel, applied.saved.writes)
        attempts = Attempts()
        for write in before:
            attempts.run(partial(kernel.put, write))
        on = attempts.run(lambda: tuple(i for i in indices if kernel.status(i).on))
        for index in on or ():
            commit = partial(kernel.command, index, commits[index], applied.pids[index])
            attempts.run(commit)
        if attempts.failed:
            raise steps_failed(error, attempts) from error
        raise RolledBack(error, applied) from error
    return applied


def revive(kernel: Kernel, applied: Applied, index: int, record: Record) -> Applied:
    """Turn on again a kdamond that died, with the values of the plan.

    If somebody has removed all kdamonds, they are built anew.
    """
    saved = applied.saved
    require_ours(kernel, saved)
    require_cgroups(kernel, applied.saved.writes)
    if kernel.count() == 0:
        return _build_again(kernel, applied, record)
    return _on_each(
        kernel,
        applied,
        (index,),
        partial(run_as_saved, kernel, saved),
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
            # The existing kdamonds may belong to another program, so that ours could not be built.
            begun = replace(begun, knobs=())
            restore_same_boot(kernel, begun, known_ours=False)
            record(saved)
        except TierdError as failed:
            raise undo_failed(error, failed) from error
        raise RolledBack(error, applied) from error
    return replace(applied, saved=running, how="built again")


def pause(kernel: Kernel, applied: Applied, record: Record) -> Applied:
    """Stop all moves, by the file `pause` (DAMON keeps its regions) or, if it is absent, by off."""
    hold, run = partial(_hold, kernel, applied.saved), partial(run_as_saved, kernel, applied.saved)
    return _on_each(kernel, applied, range(len(applied.pids)), hold, run, record, "paused")


def end_leftovers(kernel: Kernel, saved: SavedState) -> None:
    """End what a change that failed has left, and what may still move pages."""
    if kernel.boot_id() != saved.boot_id:
        return
    park_settings(kernel, saved)
    if standing(kernel, saved) is Standing.ours:
        for index in range(kernel.count()):
            kernel.turn_off(index)


def resume(kernel: Kernel, applied: Applied, record: Record) -> Applied:
    """End a pause."""
    hold, run = partial(_hold, kernel, applied.saved), partial(run_as_saved, kernel, applied.saved)
    return _on_each(kernel, applied, range(len(applied.pids)), run, hold, record, "resumed")


def _hold(kernel: Kernel, saved: SavedState, index: int) -> None:
    """Keep one kdamond from moving anything."""
    path = f"{kdamond_dir(index)}/contexts/0/pause"
    if path not in values(saved.writes) or not kernel.status(index).on:
        kernel.turn_off(index)
        return
    change = Change(ChangeMethod.commit, (Write(path, "Y"),), (index,))
    carry_out(kernel, saved.writes, change, saved.pids)


def _on_each(
    kernel: Kernel,
    applied: Applied,
    indices: Iterable[int],
    do: Callable[[int], int | None],
    back: Callable[[int], int | None],
    record: Record,
    how: str,
) -> Applied:
    """Call `do` for each kdamond, and record the pids. If one call fails, call `back` for each.

    If a call returns no pid, the recorded pid of that kdamond stays.
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
            pids[index] = roll_back_kdamond(attempts, back, index) or pids[index]
        if attempts.failed:
            raise steps_failed(error, attempts) from error
        try:
            former = _with_pids(applied, pids, record)
        except TierdError as failed:
            raise undo_failed(error, failed) from error
        raise RolledBack(error, former) from error


def _with_pids(applied: Applied, pids: list[int], record: Record) -> Applied:
    saved = replace(applied.saved, pids=tuple(pids), former=())
    if saved == applied.saved:
        return applied
    record(saved)
    return replace(applied, saved=saved)
