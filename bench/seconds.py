"""Counts a driver's operations, and prints a line for each second, as tests/vm/seconds.h does."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

NS_PER_S = 1_000_000_000


def quantile(latencies: Sequence[int], share: float) -> int:
    """Return the latency that this share of the operations does not exceed."""
    ranked = sorted(latencies)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


@dataclass(slots=True)
class Seconds:
    """The second that is under way. `mark` tells the plugin that one is over."""

    mark: Callable[[int], None]
    began_ns: int
    number: int = 0
    latencies: list[int] = field(default_factory=list)

    def add(self, took_ns: int, now_ns: int) -> None:
        """Count an operation that has ended now. Print its second if that is over."""
        self.latencies.append(took_ns)
        if now_ns - self.began_ns < NS_PER_S:
            return
        p50, p99 = (quantile(self.latencies, share) for share in (0.5, 0.99))
        print("second", self.began_ns, now_ns, len(self.latencies), p50, p99, flush=True)
        self.number += 1
        self.mark(self.number)
        self.latencies = []
        self.began_ns = now_ns


def ask(operation: Callable[[], None], mark: Callable[[int], None], seconds: int) -> None:
    """Repeat an operation for so many seconds, and print how fast that was."""
    mark(0)
    told = Seconds(mark, time.monotonic_ns())
    while told.number < seconds:
        before_ns = time.monotonic_ns()
        operation()
        now_ns = time.monotonic_ns()
        told.add(now_ns - before_ns, now_ns)


def filled(began_ns: int, *pid: int) -> None:
    print("filled", began_ns, time.monotonic_ns(), *pid, flush=True)
