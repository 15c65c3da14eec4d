"""DAMON's kdamonds and the settings around them, asked with care: one verified step at a time.

Rules of this file:
1. Every write is read back; after every command `state` and `pid` are looked at again.
2. EBUSY is "ask again" (PatientSysfs), so no step takes it for an answer.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tierd.clock import Clock
from tierd.errors import TierdError
from tierd.machine.observe import KDAMONDS
from tierd.plans.damon import Command, Write, state_path
from tierd.sysfs import PatientSysfs, Sysfs, SysfsError, optional

NR_KDAMONDS = f"{KDAMONDS}/nr_kdamonds"
BOOT_ID = "proc/sys/kernel/random/boot_id"

# A kdamond of the 6.12 series that dislikes a commit ends after write(2) has said yes. The end
# of a kernel thread takes microseconds; a tenth of a second is for a busy machine.
SETTLE_S = 0.1

# What the kernel prints for a boolean, and what is written for one.
_TRUE = frozenset({"Y", "y", "1", "true", "on"})
_FALSE = frozenset({"N", "n", "0", "false", "off"})


class NotVerified(TierdError):
    """The kernel took a write, but does not show it."""

    def __init__(self, write: Write, found: str) -> None:
        super().__init__(
            f"/{write.path}: wrote {write.value!r}, but it reads {found!r}",
            "another program may be writing here: see `tierd doctor`",
        )
        self.path = write.path


class KdamondDied(TierdError):
    """One of our kdamonds is not running any more."""

    def __init__(self, index: int, after: str) -> None:
        super().__init__(
            f"kdamond {index} is not running after {after!r}",
            "the kernel log may say why; tierd turns it on again",
        )
        self.index = index
        self.path = state_path(index)


# What a step can fail with; each names its file as `path`.
StepFailed = (SysfsError, NotVerified, KdamondDied)


@dataclass(frozen=True, slots=True)
class Status:
    """`state` and `pid` of a kdamond; pid -1 when off."""

    state: str
    pid: int

    @property
    def on(self) -> bool:
        return self.state == Command.on and self.pid > 0


OFF = Status("off", -1)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A Sysfs that asks again, and the clock that it waits by."""

    sysfs: Sysfs
    clock: Clock

    @staticmethod
    def patient(sysfs: Sysfs, clock: Clock) -> "Kernel":
        return Kernel(PatientSysfs(sysfs, clock), clock)

    def boot_id(self) -> str:
        """Names this boot; empty where the kernel does not."""
        return optional(self.sysfs, BOOT_ID) or ""

    def count(self) -> int:
        """How many kdamonds there are, whoever made them."""
        return int(optional(self.sysfs, NR_KDAMONDS) or 0)

    def status(self, index: int) -> Status:
        state = self.sysfs.reread(state_path(index))
        return Status(state, int(self.sysfs.reread(f"{KDAMONDS}/{index}/pid")))

    def found(self, paths: Iterable[str]) -> dict[str, str]:
        """The values of those of the paths that are there."""
        values = {path: optional(self.sysfs, path) for path in paths}
        return {path: value for path, value in values.items() if value is not None}

    def put(self, write: Write) -> None:
        self.sysfs.write(write.path, write.value)
        self.verify(write)

    def verify(self, write: Write) -> None:
        shown = self.sysfs.read(write.path)
        if not same(shown, write.value):
            raise NotVerified(write, shown)

    def turn_on(self, index: int) -> int:
        """Start a kdamond and return its pid."""
        write = Write(state_path(index), Command.on)
        self.sysfs.write(write.path, write.value)
        status = self.status(index)
        if not status.on:
            raise NotVerified(write, f"{status.state} (pid {status.pid})")
        return status.pid

    def turn_off(self, index: int) -> None:
        """Stop a kdamond; one that has ended by itself is as good."""
        write = Write(state_path(index), Command.off)
        if self.status(index).state == Command.off:
            return
        try:
            self.sysfs.write(write.path, write.value)
        except SysfsError:
            # Until 7.3 `off` is refused if the kdamond has ended between our two steps.
            if self.status(index).state != Command.off:
                raise
            return
        status = self.status(index)
        if status.state != Command.off:
            raise NotVerified(write, f"{status.state} (pid {status.pid})")

    def command(self, index: int, what: Command, pid: int) -> None:
        """Give a running kdamond a command; it must be the same and running after it."""
        self.sysfs.write(state_path(index), what)
        self.require(index, what, pid)
        if what is Command.commit:
            self.clock.sleep(SETTLE_S)
            self.require(index, what, pid)

    def require(self, index: int, after: str, pid: int) -> None:
        """Raise unless the kdamond runs and has this pid."""
        status = self.status(index)
        if not status.on or status.pid != pid:
            raise KdamondDied(index, after)


def same(left: str, right: str) -> bool:
    """Whether two texts of a file mean the same; booleans have several spellings."""
    return left == right or {left, right} <= _TRUE or {left, right} <= _FALSE
