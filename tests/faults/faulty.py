"""A kernel that refuses, and a tierd that dies, at the Nth operation on a file."""

import errno
from dataclasses import dataclass, field
from enum import StrEnum

from tierd.errors import TierdError
from tierd.kdamonds.saved import SavedState, from_text, to_text
from tierd.plans.damon import Command
from tierd.sim.kernel import DAMON, SimKernel
from tierd.sysfs import SysfsError

MOVES = {"migrate_hot", "migrate_cold"}


class Fault(StrEnum):
    """What happens at the Nth operation."""

    once = "once"
    """It is refused, and the next one is not."""
    busy = "busy"
    """It is refused with EBUSY, once."""
    for_ever = "for_ever"
    """It and every later one is refused."""
    file_for_ever = "file_for_ever"
    """Its file refuses from now on; the others do not."""
    after = "after"
    """It takes effect and is refused all the same."""
    killed = "killed"
    """tierd dies before it."""
    killed_after = "killed_after"
    """tierd dies after it."""


class Killed(BaseException):
    """tierd is gone: nothing of it runs any more, no handler either."""


@dataclass
class FaultySysfs:
    """A Sysfs in front of the simulated kernel, and a check of every command that goes by."""

    kernel: SimKernel
    fault: Fault | None = None
    at: int = 0
    operations: int = 0
    struck: str | None = None
    """The path of the Nth operation, once it has come."""

    def read(self, path: str) -> str:
        self._before("read", path)
        try:
            return self.kernel.read(path)
        finally:
            self._after("read", path)

    reread = read

    def read_bytes(self, path: str) -> bytes:
        return self.kernel.read_bytes(path)

    def write(self, path: str, value: str) -> None:
        self._before("write", path, value)
        require_limits(self.kernel, path, value)
        try:
            self.kernel.write(path, value)
        finally:
            self._after("write", path, value)

    def exists(self, path: str) -> bool:
        return self.kernel.exists(path)

    def listdir(self, path: str) -> tuple[str, ...]:
        self._before("list", path)
        return self.kernel.listdir(path)

    def heal(self) -> None:
        self.fault = None

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
    """Where SavedState goes, as text, as the daemon keeps it; `fails_at` a record from 1."""

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
    """Waiting takes no time: what is waited for here is a fault that does not pass by itself."""

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        """Nothing passes."""


def require_limits(kernel: SimKernel, path: str, value: str) -> None:
    """No command may make a scheme that moves pages run without a limit."""
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
