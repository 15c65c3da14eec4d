"""Single steps on DAMON's files, each one verified.

Rules of this file:
1. Every write is read back. After every command `state` and `pid` are read again.
2. EBUSY only means that DAMON is busy. PatientSysfs tries again, so the steps do not handle it.
"""

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import TypeVar

from tierd import figures
from tierd.clock import Clock
from tierd.errors import TierdError
from tierd.frozen import dataclass
from tierd.kdamonds.saved import same_value
from tierd.machine.features import KDAMONDS
from tierd.machine.neighbours import count_kdamonds
from tierd.plans.damon import Command, Write, kdamond_dir, state_path
from tierd.sysfs import BUSY_WAITS_MAX, Patience, PatientSysfs, Sysfs, SysfsError, optional

T = TypeVar("T")

NR_KDAMONDS = f"{KDAMONDS}/nr_kdamonds"
BOOT_ID = "proc/sys/kernel/random/boot_id"

# Seconds to wait after a commit before the kdamond is checked, before 6.15. There a kdamond that
# refuses a commit ends after write(2) has returned. It ends within microseconds; 0.1 s is enough on
# a busy machine too.
SETTLE_S = 0.1


class NotVerified(TierdError):
    """The kernel accepted a write, but the file reads something else."""

    def __init__(self, write: Write, found: str) -> None:
        super().__init__(
            f"/{write.path}: wrote {str(write.value)!r}, but it reads {found!r}",
            "another program may be writing to this file: see `tierd doctor`",
        )
        self.path = write.path


class KdamondDied(TierdError):
    """One of our kdamonds no longer runs."""

    def __init__(self, index: int, after: str) -> None:
        super().__init__(
            f"kdamond {index} is not running after {str(after)!r}",
            "see the kernel log for the reason; tierd turns the kdamond on again",
        )
        self.index = index
        self.path = state_path(index)


# The errors that a step can raise. The attribute `path` of each is the path of the file.
StepFailed = (SysfsError, NotVerified, KdamondDied)


@dataclass(slots=True)
class Attempts:
    """Runs several steps, each one even if another one failed, and keeps the errors."""

    failed: dict[str, str] = field(default_factory=dict)
    """The text of each error, by the path of the file at which the step failed."""

    def run(self, step: Callable[[], T]) -> T | None:
        """Return what the step returns. If it fails, note the reason and return None."""
        try:
            return step()
        except StepFailed as error:
            self.failed[error.path] = str(error)
            return None

    @property
    def reasons(self) -> str:
        return "; ".join(dict.fromkeys(self.failed.values()))


@dataclass(frozen=True, slots=True)
class Status:
    """The `state` and `pid` of a kdamond. The pid is -1 when it is off."""

    state: str
    pid: int

    @property
    def on(self) -> bool:
        return self.state == Command.on and self.pid > 0


OFF = Status("off", -1)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A Sysfs that waits while DAMON is busy, its clock, and how much waiting is left.

    Build it once and pass it on. A second PatientSysfs around it would wait twice.
    """

    sysfs: Sysfs
    clock: Clock
    patience: Patience = field(default_factory=lambda: Patience(lambda _seconds: False))
    started: Callable[[int], None] = lambda _pid: None
    """Called with the pid of each kdamond that was turned on."""

    @staticmethod
    def patient(sysfs: Sysfs, clock: Clock, waits_max: int = BUSY_WAITS_MAX) -> "Kernel":
        patience = Patience.by(clock, waits_max)
        return Kernel(PatientSysfs(sysfs, patience), clock, patience)

    def boot_id(self) -> str:
        """Return the id of this boot; empty if the kernel has none."""
        return optional(self.sysfs, BOOT_ID) or ""

    def count(self) -> int:
        """Return the number of all kdamonds, including foreign ones."""
        return count_kdamonds(self.sysfs)

    def status(self, index: int) -> Status:
        state = self.sysfs.reread(state_path(index))
        path = f"{KDAMONDS}/{index}/pid"
        return Status(state, figures.number(path, self.sysfs.reread(path), -1, figures.PID_MAX))

    def found(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the values of the files that exist, by path."""
        values = {path: optional(self.sysfs, path) for path in paths}
        return {path: value for path, value in values.items() if value is not None}

    def put(self, write: Write) -> None:
        """Write the value, and verify that the file reads as written."""
        self.sysfs.write(write.path, write.value)
        self.verify(write)

    def verify(self, write: Write) -> None:
        """Raise NotVerified unless the file reads as written."""
        shown = self.sysfs.reread(write.path)
        if not same_value(shown, write.value):
            raise NotVerified(write, shown)

    def turn_on(self, index: int) -> int:
        """Start a kdamond and return its pid."""
        write = Write(state_path(index), Command.on)
        self.sysfs.write(write.path, write.value)
        status = self.status(index)
        if not status.on:
            raise NotVerified(write, f"{status.state} (pid {status.pid})")
        self.started(status.pid)
        return status.pid

    def turn_off(self, index: int) -> None:
        """Stop a kdamond. One that has ended by itself counts as stopped."""
        write = Write(state_path(index), Command.off)
        if self.status(index).state == Command.off:
            return
        try:
            self.sysfs.write(write.path, write.value)
        except SysfsError:
            # Before 7.3 `off` is refused if the kdamond ended after we read its state.
            if self.status(index).state != Command.off:
                raise
            return
        status = self.status(index)
        if status.state != Command.off:
            raise NotVerified(write, f"{status.state} (pid {status.pid})")

    def command(self, index: int, what: Command, pid: int) -> None:
        """Give a running kdamond a command. It must still run, with the same pid, after it."""
        self.sysfs.write(state_path(index), what)
        self.require_running(index, what, pid)
        if what is Command.commit and not self._refuses_at_once(index):
            self.clock.sleep(SETTLE_S)
            self.require_running(index, what, pid)

    def _refuses_at_once(self, index: int) -> bool:
        """Return whether a commit that is refused is an error of its write (6.15, as this file)."""
        return self.sysfs.exists(f"{kdamond_dir(index)}/contexts/0/schemes/0/ops_filters")

    def require_running(self, index: int, after: str, pid: int) -> None:
        """Raise KdamondDied unless the kdamond runs with this pid."""
        status = self.status(index)
        if not status.on or status.pid != pid:
            raise KdamondDied(index, after)
