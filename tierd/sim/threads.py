"""The kdamond threads of the whole kernel: their pids and names, and who excludes whom."""

from collections.abc import Callable
from dataclasses import dataclass
from errno import EBUSY
from random import Random

from tierd.sim.tree import Refused

# A machine that has booted has used up some hundreds of pids, and other processes take more
# between one kdamond and the next.
_FIRST_PIDS = (300, 900)
_PID_STEP = 7


@dataclass(slots=True)
class Thread:
    """A kdamond, of the sysfs interface or of a module."""

    pid: int
    name: str
    started_us: int


class Threads:
    """damon_start() of everybody: nr_running_ctxs and running_exclusive_ctxs."""

    def __init__(self, rng: Random, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._rng = rng
        self._next_pid = rng.randint(*_FIRST_PIDS)
        self.all: dict[int, Thread] = {}
        self.exclusive: int | None = None
        self.alive: Callable[[], set[int]] = set

    def start(self, *, exclusive: bool = False) -> int:
        """The pid of a new kdamond; EBUSY where an exclusive one runs, or where any runs and this
        one is to be exclusive.
        """
        self._forget_ended()
        if self.exclusive is not None or (exclusive and self.all):
            raise Refused(EBUSY)
        pid = self._next_pid
        self._next_pid += self._rng.randint(1, _PID_STEP)
        # The name counts the kdamonds that ran then; two may bear the same.
        self.all[pid] = Thread(pid, f"kdamond.{len(self.all)}", self._now_us())
        if exclusive:
            self.exclusive = pid
        return pid

    def stop_exclusive(self) -> None:
        """The exclusive kdamond ends."""
        if self.exclusive is not None:
            del self.all[self.exclusive]
            self.exclusive = None

    def running(self) -> dict[int, Thread]:
        """Every kdamond that runs."""
        self._forget_ended()
        return self.all

    def _forget_ended(self) -> None:
        alive = self.alive()
        for pid in [pid for pid in self.all if pid != self.exclusive and pid not in alive]:
            del self.all[pid]
