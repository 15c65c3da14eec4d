"""Time as an argument. Code that waits gets a Clock, so tests and the simulation control it."""

import time
from typing import Protocol

from tierd.frozen import dataclass


class Clock(Protocol):
    """Tells a monotonic time in seconds, and waits."""

    def monotonic(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's own time."""

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
