"""Rollback: after a change that failed half way, make the former plan run again.

Each step is tried even if another one failed. UndoFailed names every file that is not as it was.
"""

from collections.abc import Callable
from functools import partial

from tierd.errors import TierdError
from tierd.frozen import replace
from tierd.kdamonds.applied import Applied, Record, UndoFailed
from tierd.kdamonds.build import put_knob_back, rebuild, run_as_saved, set_knob
from tierd.kdamonds.kernel import Attempts, Kernel
from tierd.kdamonds.saved import SavedState
from tierd.plans.damon import state_path


def roll_back(
    kernel: Kernel, applied: Applied, begun: SavedState, error: TierdError, record: Record
) -> Applied:
    """Return the former plan, running again.

    `begun` is the state that was recorded before the change, and `error` is why the change failed.
    """
    attempts = Attempts()
    saved = applied.saved
    kept = {knob.path for knob in saved.knobs}
    for knob in reversed(begun.knobs):
        if knob.path not in kept:
            attempts.run(partial(put_knob_back, kernel, knob))
    for knob in saved.knobs:
        attempts.run(partial(set_knob, kernel, knob))
    pids = _roll_back_kdamonds(kernel, attempts, saved)
    if attempts.failed:
        raise steps_failed(error, attempts) from error
    back = replace(saved, pids=pids)
    try:
        record(back)
    except TierdError as failed:
        raise undo_failed(error, failed) from error
    return replace(applied, saved=back)


def _roll_back_kdamonds(kernel: Kernel, attempts: Attempts, saved: SavedState) -> tuple[int, ...]:
    """Make the kdamonds run as before and return their pids.

    If their number is unchanged, each is rolled back alone; else all are built anew.
    """
    indices = range(len(saved.pids))
    if attempts.run(kernel.count) == len(indices):
        step = partial(run_as_saved, kernel, saved)
        return tuple(
            roll_back_kdamond(attempts, step, index) or saved.pids[index] for index in indices
        )
    pids = attempts.run(partial(rebuild, kernel, saved.writes))
    if pids is None:
        for index in indices:
            attempts.failed.setdefault(state_path(index), "not as it was")
    return pids or saved.pids


def roll_back_kdamond(
    attempts: Attempts, step: Callable[[int], int | None], index: int
) -> int | None:
    """Try the step on one kdamond and return its result.

    On failure, note the file that failed and also the `state` file of the kdamond.
    """
    known = len(attempts.failed)
    pid = attempts.run(partial(step, index))
    if len(attempts.failed) > known:
        attempts.failed.setdefault(state_path(index), "not as it was")
    return pid


def steps_failed(error: TierdError, attempts: Attempts) -> UndoFailed:
    """Return the error for a change that failed, and whose rollback failed at some files."""
    named = ", ".join(f"/{path}" for path in attempts.failed)
    return UndoFailed(
        f"{error}; and taking it back failed at {named}: {attempts.reasons}",
        tuple(attempts.failed),
    )


def undo_failed(error: TierdError, failed: TierdError) -> UndoFailed:
    """Return the error for a change that failed with `error`, and whose undo gave `failed`."""
    if isinstance(failed, UndoFailed):
        return UndoFailed(f"{error}; then {failed}", failed.paths)
    path = getattr(failed, "path", None)
    paths = () if path is None else (str(path),)
    return UndoFailed(f"{error}; and taking it back failed: {failed}", paths)
