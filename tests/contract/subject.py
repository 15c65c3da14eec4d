"""The kernel that a behaviour works on, real or simulated.

`sysfs` does not retry on EBUSY, because behaviours test when it occurs. Every behaviour
starts on a kernel at rest (`rest`): no kdamond of the sysfs interface, no DAMON module running.
"""

from collections.abc import Callable, Mapping
from errno import EBUSY, ENOENT, errorcode
from functools import partial
from typing import Protocol, TypeVar

from tests.contract.sets import Sets
from tierd.clock import Clock
from tierd.sysfs import Sysfs, SysfsError

T = TypeVar("T")

KDAMONDS = "sys/kernel/mm/damon/admin/kdamonds"
MODULES = ("damon_stat", "damon_reclaim", "damon_lru_sort")

# A command of somebody else may hold DAMON's lock while a behaviour cleans up.
TRIES_MAX = 200
WAIT_S = 0.05


class Subject(Protocol):
    """A kernel under test, on the two-tier machine: node 0 is fast, node 1 slow."""

    @property
    def sysfs(self) -> Sysfs: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def sets(self) -> Sets: ...

    @property
    def at_boot(self) -> Mapping[str, str]:
        """The `enabled` parameter of every DAMON module after boot."""

    def during(self, path: str, value: str, attempt: Callable[[], T]) -> T:
        """Return the result of an attempt while another user's write is being served."""

    def make_cgroup(self, name: str) -> str:
        """Create a memory cgroup and return its path as DAMON needs it."""

    def remove_cgroup(self, name: str) -> None:
        """Remove the cgroup."""


def errno_of(attempt: Callable[[], object]) -> str:
    """Return the name of the errno of a refused operation, or "ok"."""
    try:
        attempt()
    except SysfsError as error:
        return errorcode[error.errno]
    return "ok"


def enabled(module: str) -> str:
    """The file that starts and stops a DAMON module."""
    return f"sys/module/{module}/parameters/enabled"


def modules_enabled(sysfs: Sysfs) -> dict[str, str]:
    """The DAMON modules that this kernel has, and whether each is on."""
    return {name: sysfs.read(enabled(name)) for name in MODULES if sysfs.exists(enabled(name))}


def rest(subject: Subject) -> None:
    """Stop every kdamond and forget what was staged; ask again while the lock is held."""
    sysfs = subject.sysfs
    for name, on in modules_enabled(sysfs).items():
        if on == "Y":
            sysfs.write(enabled(name), "N")
    for entry in sysfs.listdir(KDAMONDS):
        if entry.isdigit():
            patiently(subject, partial(turn_off, sysfs, f"{KDAMONDS}/{entry}/state"))
    patiently(subject, partial(sysfs.write, f"{KDAMONDS}/nr_kdamonds", "0"))


def turn_off(sysfs: Sysfs, state: str) -> None:
    """Stop a kdamond that runs."""
    if sysfs.read(state) == "on":
        sysfs.write(state, "off")


def patiently(subject: Subject, attempt: Callable[[], T]) -> T:
    """Repeat an attempt while the answer is EBUSY, a limited number of times."""
    for _ in range(TRIES_MAX):
        try:
            return attempt()
        except SysfsError as error:
            if error.errno != EBUSY:
                raise
        subject.clock.sleep(WAIT_S)
    return attempt()


def text(sysfs: Sysfs, path: str) -> str | None:
    """Return the text of a file, or None if this kernel does not have it."""
    try:
        return sysfs.read(path)
    except SysfsError as error:
        if error.errno != ENOENT:
            raise
        return None
