"""A plan that runs, and how a change of it can end."""

from collections.abc import Callable
from dataclasses import dataclass

from tierd.errors import TierdError
from tierd.kdamonds.restore import UndoFailed
from tierd.kdamonds.saved import SavedState
from tierd.plans.plan import Plan

Record = Callable[[SavedState], None]
"""Puts a SavedState where it survives a crash, before it returns."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A plan that runs, and what undoes it."""

    plan: Plan
    saved: SavedState
    how: str
    """How it came to run, in words: started, adopted, goals committed, ..."""
    grows_s: float | None = None
    """Since when quotas grow from a byte, where kdamonds have just begun with such."""

    @property
    def pids(self) -> tuple[int, ...]:
        return self.saved.pids


class Undone(TierdError):
    """A change failed and was taken back: `applied` is what runs, as before the change."""

    def __init__(self, error: TierdError, applied: Applied) -> None:
        super().__init__(f"{error}; the change was taken back", error.hint)
        self.exit_code = error.exit_code
        self.applied = applied


def failed_undo(error: TierdError, failed: TierdError) -> UndoFailed:
    """What a change failed with, and what taking it back failed with."""
    if isinstance(failed, UndoFailed):
        return UndoFailed(f"{error}; then {failed}", failed.paths)
    path = getattr(failed, "path", None)
    paths = () if path is None else (str(path),)
    return UndoFailed(f"{error}; and taking it back failed: {failed}", paths)
