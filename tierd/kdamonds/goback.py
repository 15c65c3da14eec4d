"""After a change that failed half way: make the plan run again that ran before it."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tierd.errors import TierdError
from tierd.kdamonds.applied import Applied, Record, failed_undo
from tierd.kdamonds.attempts import Attempts
from tierd.kdamonds.build import bring, rebuild, turn_back, turn_on
from tierd.kdamonds.kernel import Kernel
from tierd.kdamonds.restore import UndoFailed
from tierd.kdamonds.saved import SavedState
from tierd.plans.damon import state_path


def go_back(
    kernel: Kernel, applied: Applied, begun: SavedState, error: TierdError, record: Record
) -> Applied:
    """The former plan, running; UndoFailed names every file that is not as it was."""
    attempts = Attempts()
    saved = applied.saved
    kept = {knob.path for knob in saved.knobs}
    for knob in reversed(begun.knobs):
        if knob.path not in kept:
            attempts.run(partial(turn_back, kernel, knob))
    for knob in saved.knobs:
        attempts.run(partial(turn_on, kernel, knob))
    pids = _tree(kernel, attempts, saved)
    if attempts.failed:
        raise not_taken_back(error, attempts) from error
    back = replace(saved, pids=pids)
    try:
        record(back)
    except TierdError as failed:
        raise failed_undo(error, failed) from error
    return replace(applied, saved=back)


def _tree(kernel: Kernel, attempts: Attempts, saved: SavedState) -> tuple[int, ...]:
    """The kdamonds as they were: each by itself, where there are as many as there were."""
    indices = range(len(saved.pids))
    if attempts.run(kernel.count) == len(indices):
        run = partial(bring, kernel, saved)
        return tuple(each_back(attempts, run, index) or saved.pids[index] for index in indices)
    pids = attempts.run(partial(rebuild, kernel, saved.writes))
    if pids is None:
        for index in indices:
            attempts.failed.setdefault(state_path(index), "not as it was")
    return pids or saved.pids


def each_back(attempts: Attempts, back: Callable[[int], int | None], index: int) -> int | None:
    """Take one kdamond back; if that fails, what failed is noted and the kdamond as a whole."""
    known = len(attempts.failed)
    pid = attempts.run(partial(back, index))
    if len(attempts.failed) > known:
        attempts.failed.setdefault(state_path(index), "not as it was")
    return pid


def not_taken_back(error: TierdError, attempts: Attempts) -> UndoFailed:
    named = ", ".join(f"/{path}" for path in attempts.failed)
    return UndoFailed(
        f"{error}; and taking it back failed at {named}: {attempts.reasons}",
        tuple(attempts.failed),
    )
