"""damon_sysfs_lock, and what somebody else sees while a command waits for its kdamond.

Everybody takes the lock by trylock, so whoever comes second is refused. The newer kernels hold it
for as long as a command takes. The older ones (Serves.callback) let it go while they wait for
their request to be served, all but a walk over regions, and allow one request at a time.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EBUSY

from tierd.sim.tree import Refused


class Lock:
    """Who holds it, and whether a request is under way without it."""

    __slots__ = ("held", "meanwhile", "pending")

    def __init__(self) -> None:
        self.held = False
        self.pending = False
        # What somebody else is to do in the middle of the next command that waits.
        self.meanwhile: Callable[[], None] | None = None

    def require(self) -> None:
        """Take it, for a moment."""
        if self.held:
            raise Refused(EBUSY)

    @contextmanager
    def waiting(self, *, released: bool) -> Iterator[None]:
        """A command that waits to be served."""
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
