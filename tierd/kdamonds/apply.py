"""Carries out plans: start, adopt and replace; `steer` has what is done to a plan that runs, and
`restore` is the way back.

Rules of this file:
1. What is needed to restore is recorded before the first change (`record`), and again before
   each change of the tree after that.
2. Every step is verified (`kernel`). A failure is undone; what could not be undone is an error
   of its own, UndoFailed, that names the files.
3. A kdamond that is not ours is never written to, unless the config says to take over.
"""

import dataclasses

from tierd.clock import Clock
from tierd.errors import Conflict, TierdError
from tierd.kdamonds.aftermath import rest
from tierd.kdamonds.applied import Applied, Record, Undone, failed_undo
from tierd.kdamonds.build import (
    all_alive,
    build,
    carry_out,
    change_to,
    every_knob,
    saved_knobs,
    stop_all,
    turn_knobs,
)
from tierd.kdamonds.goback import go_back
from tierd.kdamonds.kernel import NR_KDAMONDS, KdamondDied, Kernel, NotVerified, same
from tierd.kdamonds.ownership import Standing, describe_all, standing
from tierd.kdamonds.restore import Restored, UndoFailed, restore, restore_writes, undo
from tierd.kdamonds.saved import SavedKnob, SavedState, changing
from tierd.kdamonds.steer import (
    Health,
    command,
    health,
    pause,
    require_ours,
    resume,
    revive,
    tune,
)
from tierd.machine.neighbours import MODULES, kdamonds, neighbours
from tierd.plans.changes import Change, Kind, tuned, values
from tierd.plans.opening import grows, opening
from tierd.plans.plan import Plan
from tierd.sysfs import Sysfs, optional
from tierd.units import format_ids, parse_ids

__all__ = [
    "Applied",
    "Drift",
    "Health",
    "KdamondDied",
    "NotVerified",
    "Record",
    "Restored",
    "UndoFailed",
    "Undone",
    "adoption",
    "command",
    "drift",
    "health",
    "pause",
    "replace",
    "rest",
    "restore",
    "restore_writes",
    "resume",
    "revive",
    "start",
    "tune",
]

HAS_MEMORY = "sys/devices/system/node/has_memory"

HOW = {
    Kind.none: "adopted as it runs",
    Kind.goals: "kept running; goals committed",
    Kind.commit: "kept running; changes committed",
    Kind.restart: "replaced: turned off and started anew",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Drift:
    """A file that does not hold what the plan says; `found` None: it is not there."""

    path: str
    wanted: str
    found: str | None


def start(
    sysfs: Sysfs,
    clock: Clock,
    plan: Plan,
    record: Record,
    *,
    saved: SavedState | None = None,
    take_over: bool = False,
) -> Applied:
    """Make the kernel run the plan, from nothing or from what an earlier tierd left.

    With `saved` the kdamonds that it left running are adopted without a write where they fit,
    and changed by the smallest change where they do not. Conflict if a kdamond is there that is
    not ours, unless `take_over`. After any failure the machine is as it was before tierd.
    """
    kernel = Kernel.patient(sysfs, clock)
    boot_id = kernel.boot_id()
    known = saved if saved is not None and saved.boot_id == boot_id else None
    whose = standing(kernel, known)
    if whose is Standing.foreign and not take_over:
        raise Conflict(
            f"DAMON is in use: {describe_all(kdamonds(kernel.sysfs))}",
            "stop its owner, or set `on_conflict: take_over` to have it replaced",
        )
    _require_nodes(kernel, plan)
    if whose is Standing.ours and known is not None:
        return _adopt(kernel, known, plan, record)
    _require_free(kernel, plan)
    former = known.knobs if known is not None else ()
    knobs = saved_knobs(kernel, plan.knobs, former)
    begun = SavedState(boot_id, plan.writes, knobs=every_knob(knobs, former))
    taken = kernel.count()
    record(begun)
    built = False
    try:
        turn_knobs(kernel, knobs, former)
        stop_all(kernel)
        kernel.sysfs.write(NR_KDAMONDS, plan.writes[0].value)
        built = True
        pids = build(kernel, opening(plan))
        grows_s = kernel.clock.monotonic() if grows(plan) else None
        running = dataclasses.replace(begun, pids=pids, knobs=knobs)
        record(running)
    except TierdError as error:
        _take_back(kernel, begun, error, trusted=built)
        if taken:
            gone = f"{error}; {taken} kdamonds of somebody else were taken over and are stopped"
            raise UndoFailed(gone, (NR_KDAMONDS,)) from error
        raise
    how = f"started, in place of {taken} kdamonds of somebody else" if taken else "started"
    return Applied(plan, running, how, grows_s)


def adoption(kernel: Kernel, saved: SavedState, plan: Plan) -> Change:
    """What makes the kdamonds that an earlier tierd left into those of the plan."""
    change = change_to(kernel, plan.writes)
    everything = tuple(range(len(plan.kdamonds)))
    if not all_alive(kernel, saved.pids):
        return dataclasses.replace(change, kind=Kind.restart)
    if saved.former and change.kind < Kind.commit:
        # It died during a change: files may be staged that no commit has followed.
        return Change(Kind.commit, change.stage, everything)
    return change


def _adopt(kernel: Kernel, saved: SavedState, plan: Plan, record: Record) -> Applied:
    change = adoption(kernel, saved, plan)
    knobs = saved_knobs(kernel, plan.knobs, saved.knobs)
    if change.kind is Kind.none and saved.writes == plan.writes and knobs == saved.knobs:
        return Applied(plan, saved, HOW[Kind.none])
    begun = changing(saved, plan.writes, every_knob(knobs, saved.knobs))
    record(begun)
    try:
        running = _changed(kernel, saved, plan, change, knobs, record)
    except TierdError as error:
        _take_back(kernel, begun, error, trusted=True)
        raise
    return Applied(plan, running, HOW[change.kind])


def _changed(
    kernel: Kernel,
    saved: SavedState,
    plan: Plan,
    change: Change,
    knobs: tuple[SavedKnob, ...],
    record: Record,
) -> SavedState:
    """Make what runs into the plan, and record it; who asks undoes what fails."""
    turn_knobs(kernel, knobs, saved.knobs)
    pids = carry_out(kernel, plan.writes, change, saved.pids)
    running = SavedState(saved.boot_id, plan.writes, pids, knobs)
    record(running)
    return running


def _take_back(kernel: Kernel, begun: SavedState, error: TierdError, *, trusted: bool) -> None:
    try:
        undo(kernel, begun, trusted=trusted)
    except UndoFailed as failed:
        raise failed_undo(error, failed) from error


def replace(sysfs: Sysfs, clock: Clock, applied: Applied, plan: Plan, record: Record) -> Applied:
    """Run `plan` instead, by the smallest change: nothing, goals only, commit, or off and on.

    A pause ends by it. After a failure the former plan runs again, and Undone says so.
    """
    kernel = Kernel.patient(sysfs, clock)
    saved = applied.saved
    require_ours(kernel, saved)
    _require_nodes(kernel, plan)
    change = adoption(kernel, saved, plan)
    knobs = saved_knobs(kernel, plan.knobs, saved.knobs)
    if change.kind is Kind.none and saved.writes == plan.writes and knobs == saved.knobs:
        return dataclasses.replace(applied, plan=plan)
    begun = changing(saved, plan.writes, every_knob(knobs, saved.knobs))
    record(begun)
    try:
        running = _changed(kernel, saved, plan, change, knobs, record)
    except TierdError as error:
        raise Undone(error, go_back(kernel, applied, begun, error, record)) from error
    return Applied(plan, running, HOW[change.kind])


def drift(sysfs: Sysfs, plan: Plan) -> tuple[Drift, ...]:
    """Where the kernel differs from the plan: pass a Sysfs that asks again.

    Current values of goals and tuned intervals may differ; settings that are not there may too.
    """
    wanted = values(plan.writes)
    free = tuned(wanted) | {path for path in wanted if path.endswith("/current_value")}
    found = {path: optional(sysfs, path) for path in wanted if path not in free}
    drifted = [
        Drift(path, wanted[path], text) for path, text in found.items() if text != wanted[path]
    ]
    for knob in plan.knobs:
        text = optional(sysfs, knob.path)
        if text is not None and not same(text, knob.value):
            drifted.append(Drift(knob.path, knob.value, text))
    return tuple(drifted)


def _require_nodes(kernel: Kernel, plan: Plan) -> None:
    """A node may have gone since the plan was made, and some kernels crash on its number."""
    present = parse_ids(kernel.sysfs.read(HAS_MEMORY))
    gone = set(plan.nodes) - set(present)
    if gone:
        raise TierdError(
            f"node {format_ids(gone)} has no memory any more (/{HAS_MEMORY}: "
            f"{format_ids(present)})",
            "the plan must be made again",
        )


def _require_free(kernel: Kernel, plan: Plan) -> None:
    """DAMON's modules hold it for themselves; one that the plan stops is no obstacle."""
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
