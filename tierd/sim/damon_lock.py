"""damon_sysfs_lock, and what other users see while a command waits for its kdamond.

Everybody takes the lock by trylock, so the second user is refused. The newer kernels hold the lock
until the command has finished. The older ones (Serves.callback) release it while a request waits
to be served, except for a walk over regions. They allow only one request at a time.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EBUSY

from tierd.sim.file_tree import Refused


class DamonLock:
    """The state of the lock: `pending` means that a request waits, with or without the lock."""

    __slots__ = ("held", "meanwhile", "pending")

    def __init__(self) -> None:
        self.held = False
        self.pending = False
        # The action of another user in the middle of the next command that waits.
        self.meanwhile: Callable[[], None] | None = None

    def require(self) -> None:
        """Refuse with EBUSY if the lock is held."""
        if self.held:
            raise Refused(EBUSY)

    @contextmanager
    def waiting(self, *, released: bool) -> Iterator[None]:
        """Mark that a command waits to be served."""
        if self.pending:
            raise Refused(EBUSY)
        self.pending, self.held = True, not released
        try:
            if self.meanwhile is not None:
                meanwhile, self.meanwhile = self.meanwhile, None
                meanwhile()
            yield
        finally:
            self.pending = self.held = False
