"""The kdamond threads of the whole kernel: pids, names, and which ones exclude each other."""

from collections.abc import Callable
from dataclasses import dataclass
from errno import EBUSY
from random import Random

from tierd.sim.file_tree import Refused

# After boot some hundreds of pids are used. Other processes take more pids between two kdamonds.
_FIRST_PIDS = (300, 900)
_PID_STEP = 7


@dataclass(slots=True)
class KdamondThread:
    """A kdamond of the sysfs interface or of a module."""

    pid: int
    name: str
    started_us: int


class KdamondThreads:
    """All kdamonds that run; the kernel counts them in nr_running_ctxs and
    running_exclusive_ctxs.
    """

    def __init__(self, rng: Random, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._rng = rng
        self._next_pid = rng.randint(*_FIRST_PIDS)
        self.all: dict[int, KdamondThread] = {}
        self.exclusive: int | None = None
        self.alive: Callable[[], set[int]] = set
        self.cpu_us: Callable[[int], int | None] = lambda _pid: None
        """Returns the processor time of a kdamond; None if it is not known."""

    def start(self, *, exclusive: bool = False) -> int:
        """Start a kdamond and return its pid.

        It is EBUSY if an exclusive kdamond runs, or if any runs and this one is exclusive.
        """
        self._forget_ended()
        if self.exclusive is not None or (exclusive and self.all):
            raise Refused(EBUSY)
        pid = self._next_pid
        self._next_pid += self._rng.randint(1, _PID_STEP)
        # The number in the name counts the kdamonds that run now, so two can have the same name.
        self.all[pid] = KdamondThread(pid, f"kdamond.{len(self.all)}", self._now_us())
        if exclusive:
            self.exclusive = pid
        return pid

    def stop_exclusive(self) -> None:
        """End the exclusive kdamond."""
        if self.exclusive is not None:
            del self.all[self.exclusive]
            self.exclusive = None

    def running(self) -> dict[int, KdamondThread]:
        """Return all running kdamonds by pid."""
        self._forget_ended()
        return self.all

    def _forget_ended(self) -> None:
        alive = self.alive()
        for pid in [pid for pid in self.all if pid != self.exclusive and pid not in alive]:
            del self.all[pid]
