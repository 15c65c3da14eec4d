"""A kernel that fails, or a tierd that is killed, at the Nth operation on a file."""

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from tierd.errors import TierdError
from tierd.kdamonds.saved import SavedState, from_text, to_text
from tierd.plans.damon import Command
from tierd.sim.sim_kernel import DAMON, SimKernel
from tierd.sysfs import SysfsError

# Reads of one status: `state` and `pid`.
READS_OF_A_LOOK = 2

MOVES = {"migrate_hot", "migrate_cold"}


class Fault(StrEnum):
    """What happens at the Nth operation."""

    once = "once"
    """The operation fails; the next one does not."""
    busy = "busy"
    """The operation fails with EBUSY, once."""
    for_ever = "for_ever"
    """This and each later operation fails."""
    file_for_ever = "file_for_ever"
    """From now on each operation on this file fails."""
    after = "after"
    """The operation takes effect, but returns an error."""
    absent = "absent"
    """The file is absent once, as while its directory is created again."""
    lost = "lost"
    """A write succeeds, but the file keeps its value."""
    lost_for_ever = "lost_for_ever"
    """From now on writes to this file succeed, but it keeps its value."""
    replaced = "replaced"
    """After a command, somebody else's kdamond runs in place of ours."""
    ended = "ended"
    """After a command, the kdamond has ended."""
    ended_late = "ended_late"
    """After a commit, the kdamond ends, but only after its status was read once."""
    killed = "killed"
    """tierd is killed before the operation."""
    killed_after = "killed_after"
    """tierd is killed after the operation."""


class Killed(BaseException):
    """tierd was killed: none of its code runs any more, also no error handler."""


@dataclass
class FaultySysfs:
    """A Sysfs in front of the simulated kernel. It plants a fault, and checks each command."""

    kernel: SimKernel
    fault: Fault | None = None
    at: int = 0
    operations: int = 0
    struck: str | None = None
    """The path of the Nth operation, once that has happened."""
    healed: Fault | None = None
    hit: bool = False
    """True if the fault had an effect at the Nth operation."""
    ends_after: tuple[int, int] | None = None
    """The index of a kdamond that will end, and the number of reads until then."""
    wrote: Callable[[str, str], None] = lambda _path, _value: None
    """Called after each write."""

    def read(self, path: str) -> str:
        self._before("read", path)
        try:
            return self.kernel.read(path)
        finally:
            self._end_if_due()
            self._after("read", path)

    reread = read

    def read_bytes(self, path: str) -> bytes:
        return self.kernel.read_bytes(path)

    def write(self, path: str, value: str) -> None:
        self._before("write", path, value)
        require_limits(self.kernel, path, value)
        if self._loses(path, value):
            return
        try:
            self.kernel.write(path, value)
            self.wrote(path, value)
        finally:
            self._after_command(path, value)
            self._after("write", path, value)

    def exists(self, path: str) -> bool:
        return self.kernel.exists(path)

    def listdir(self, path: str) -> tuple[str, ...]:
        self._before("list", path)
        return self.kernel.listdir(path)

    @property
    def ended(self) -> bool:
        """True if one of our kdamonds has ended by itself."""
        return self.hit and self.healed in (Fault.ended, Fault.ended_late)

    def heal(self) -> None:
        self.healed, self.fault = self.fault, None

    def _before(self, operation: str, path: str, value: str | None = None) -> None:
        self.operations += 1
        if self.fault is None:
            return
        here = self.operations == self.at
        if here:
            self.struck = path
        if here and self.fault is Fault.killed:
            raise Killed
        refused = (
            (here and self.fault is Fault.once)
            or (self.operations >= self.at and self.fault is Fault.for_ever)
            or (self.struck == path and self.fault is Fault.file_for_ever)
        )
        if refused:
            raise SysfsError(operation, path, errno.EIO, value)
        if here and self.fault is Fault.busy:
            raise SysfsError(operation, path, errno.EBUSY, value)
        if here and self.fault is Fault.absent and operation != "list":
            raise SysfsError(operation, path, errno.ENOENT, value)

    def _loses(self, path: str, value: str) -> bool:
        """True if the write has no effect. A command is never lost: nobody could notice it."""
        if path.endswith("/state") and value not in (Command.on, Command.off):
            return False
        here = self.operations == self.at
        lost = (here and self.fault in (Fault.lost, Fault.lost_for_ever)) or (
            self.fault is Fault.lost_for_ever and self.hit and path == self.struck
        )
        self.hit = self.hit or lost
        return lost

    def _after_command(self, path: str, value: str) -> None:
        """Have something happen to the kdamond that just got a command."""
        if self.operations != self.at or not path.endswith("/state") or value == Command.off:
            return
        index = int(path.removesuffix("/state").rpartition("/")[2])
        if self.fault is Fault.replaced:
            self.hit = True
            self.kernel.write(path, Command.off)
            self.kernel.write(path, Command.on)
        elif self.fault is Fault.ended:
            self.hit = True
            self.kernel.end_kdamond(index)
        elif self.fault is Fault.ended_late and value == Command.commit:
            self.hit = True
            self.ends_after = (index, READS_OF_A_LOOK)

    def _end_if_due(self) -> None:
        if self.ends_after is None:
            return
        index, reads = self.ends_after
        self.ends_after = (index, reads - 1) if reads > 1 else None
        if self.ends_after is None:
            self.kernel.end_kdamond(index)

    def _after(self, operation: str, path: str, value: str | None = None) -> None:
        if self.operations != self.at:
            return
        if self.fault is Fault.killed_after:
            raise Killed
        if self.fault is Fault.after:
            raise SysfsError(operation, path, errno.EIO, value)


class RecordFailed(TierdError):
    """The disk is full."""


@dataclass
class Disk:
    """Keeps the SavedState as text, as the daemon does. The record number `fails_at` fails."""

    fails_at: int = 0
    records: int = 0
    text: str | None = None
    seen: list[str] = field(default_factory=list)

    def record(self, saved: SavedState) -> None:
        self.records += 1
        if self.records == self.fails_at:
            raise RecordFailed("no space left on device")
        self.text = to_text(saved)
        self.seen.append(self.text)

    def saved(self) -> SavedState | None:
        return None if self.text is None else from_text(self.text)


@dataclass(frozen=True)
class StillClock:
    """A clock that stands still. Waiting is of no use here: no fault passes by itself."""

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        """Return at once."""


def require_limits(kernel: SimKernel, path: str, value: str) -> None:
    """Assert that no command makes a scheme that moves pages run without a limit."""
    if not path.endswith("/state") or value not in (Command.on, Command.commit):
        return
    schemes = f"{path.removesuffix('/state')}/contexts/0/schemes"
    for index in range(int(kernel.read(f"{schemes}/nr_schemes"))):
        if kernel.read(f"{schemes}/{index}/action") in MOVES:
            limit = int(kernel.read(f"{schemes}/{index}/quotas/bytes"))
            window = int(kernel.read(f"{schemes}/{index}/quotas/reset_interval_ms"))
            assert limit > 0, f"{value} with an unlimited scheme {index} at {path}"
            assert window == 0, f"{value} with a first window without limit at {path}"


def count(kernel: SimKernel) -> int:
    return int(kernel.read(f"{DAMON}/nr_kdamonds"))
