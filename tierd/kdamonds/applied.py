"""A plan that runs in the kernel, and the errors that a change of it can end with."""

from collections.abc import Callable

from tierd.errors import TierdError
from tierd.frozen import dataclass
from tierd.kdamonds.saved import SavedState
from tierd.plans.plan import Plan

Record = Callable[[SavedState], None]
"""Writes a SavedState to disk, and returns only when it would survive a crash."""

RESTORE_AGAIN = "run `tierd restore`, which tries again"


@dataclass(frozen=True, slots=True)
class Applied:
    """A plan that runs, and the saved state by which it can be undone."""

    plan: Plan
    saved: SavedState
    how: str
    """How the plan came to run, in words: started, adopted, goals committed, ..."""
    grows_s: float | None = None
    """Monotonic time at which new kdamonds started with quotas that grow; None if none did."""

    @property
    def pids(self) -> tuple[int, ...]:
        return self.saved.pids


class RolledBack(TierdError):
    """A change failed, and the plan from before it runs again: `applied` describes that plan."""

    def __init__(self, error: TierdError, applied: Applied) -> None:
        super().__init__(f"{error}; the change was taken back", error.hint)
        self.exit_code = error.exit_code
        self.applied = applied


class UndoFailed(TierdError):
    """A restore or a rollback is incomplete: `paths` are the files that are not as they were."""

    def __init__(self, message: str, paths: tuple[str, ...], hint: str = RESTORE_AGAIN) -> None:
        super().__init__(message, hint)
        self.paths = paths


class CgroupsGone(TierdError):
    """Cgroups of the plan no longer exist, and the plan from before it runs on."""

    def __init__(
        self, gone: tuple[str, ...], remaining: frozenset[str], staged: Applied | None = None
    ) -> None:
        super().__init__(
            f"{len(gone)} cgroups of the plan were removed since it was made, as {gone[0]}",
            "make the plan again; the daemon does so by itself",
        )
        self.remaining = remaining
        """The cgroups of the plan that still exist."""
        self.staged = staged
        """The plan that runs, if files hold filters of the other plan already. None if they hold
        what they held before."""
