"""Computes how fast a program ran, from the cells of its trials. Pure.

A trial has three windows: `before` the configuration was in force, the `first minute` of it, and
`settled`, the last half minute.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from bench.figures import PAGE

WINDOWS = ("before", "first minute", "settled")
FIRST_S = 60.0
SETTLED_S = 30.0
# The first seconds do not count: a server that has just been filled rearranges its table and fills
# its caches.
WARM_S = 5


@dataclass(frozen=True, slots=True)
class Window:
    """The figures of some seconds. None means that it could not be read, or is not there."""

    seconds: float
    rate: float | None
    p50_us: float | None
    p99_us: float | None
    """The median over the seconds, so that one bad second of the host does not decide."""
    fast_share: float | None
    """The share that the fast node served of user code's accesses that missed the caches."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The figures of a cell. Bytes are for the whole time that the configuration was in force."""

    configuration: str
    number: int
    windows: dict[str, Window]
    fill_s: float
    fast_bytes: tuple[int, int]
    """The program's memory on the fast node, at the beginning and at the end."""
    moved_bytes: int
    kdamond_cpu_s: float | None
    daemon_cpu_s: float | None

    @property
    def up_bytes(self) -> int:
        """Return the bytes that came to the fast node, if only the program's memory moved."""
        return max(0, self.moved_bytes + self.fast_bytes[1] - self.fast_bytes[0]) // 2

    @property
    def down_bytes(self) -> int:
        """Return the bytes that left the fast node, if only the program's memory moved."""
        return self.moved_bytes - self.up_bytes


def trial(configuration: str, number: int, seen: dict[str, Any]) -> Trial:
    """Return the figures of a cell."""
    served, samples = seen["served"], seen["samples"]
    ends = served["at_s"]
    last_s = ends[-1]
    bounds = {
        "before": (ends[0] + WARM_S - 1, seen["began_s"]),
        "first minute": (seen["began_s"], seen["began_s"] + FIRST_S),
        "settled": (last_s - SETTLED_S, last_s),
    }
    at_first = _at(samples["at_s"], seen["began_s"])
    fast, pages = str(seen["fast"]), seen["pages"]
    # These are all moves on the machine, those of reclaim too.
    moved = samples["moved"][-1] - samples["moved"][at_first]
    return Trial(
        configuration,
        number,
        {name: window(seen, *bounds[name]) for name in WINDOWS},
        seen["fill_s"],
        (pages["first"][fast] * PAGE, pages["last"][fast] * PAGE),
        moved * PAGE,
        seen["kdamond_cpu_s"],
        seen["daemon_cpu_s"],
    )


def window(seen: dict[str, Any], begin_s: float, end_s: float) -> Window:
    """Return the figures of the seconds that lie wholly within these bounds."""
    served = seen["served"]
    chosen = [
        i
        for i, (at, length) in enumerate(zip(served["at_s"], served["seconds"], strict=True))
        if at - length >= begin_s and at <= end_s
    ]
    seconds = sum(served["seconds"][i] for i in chosen)
    shares = fast_shares(seen)
    counts = [shares[i] for i in chosen] if shares is not None else []
    fast, total = sum(one[0] for one in counts), sum(one[1] for one in counts)
    return Window(
        round(seconds, 2),
        sum(served["operations"][i] for i in chosen) / seconds if chosen else None,
        median(served["p50_us"][i] for i in chosen) if chosen else None,
        median(served["p99_us"][i] for i in chosen) if chosen else None,
        fast / total if total else None,
    )


def fast_shares(seen: dict[str, Any]) -> list[tuple[int, int]] | None:
    """Return for each second the misses that the fast node served, and all misses.

    None if a mark is missing, because then the seconds of the marks are unknown.
    """
    misses = seen["misses"]
    seconds = len(seen["served"]["at_s"])
    if any(len(counts) != seconds + 1 for counts in misses.values()):
        return None
    steps = {node: [b - a for a, b in pairwise(counts)] for node, counts in misses.items()}
    fast = steps[str(seen["fast"])]
    return [(fast[i], sum(step[i] for step in steps.values())) for i in range(seconds)]


def relative(trials: Sequence[Trial], to: Sequence[Trial], name: str) -> list[float]:
    """Return each trial's rate in a window, divided by that of `to` with the same number."""
    others = {other.number: other.windows[name].rate for other in to}
    rates = [(one.windows[name].rate, others.get(one.number)) for one in trials]
    return [rate / other for rate, other in rates if rate is not None and other]


def grouped(seen: dict[str, Any], step_s: float) -> list[tuple[float, float | None]]:
    """Return the operations per second in each step of `step_s` seconds; None for an empty step.

    Time is counted from the start of the configuration.
    """
    served = seen["served"]
    starts = [a - length - seen["began_s"] for a, length in
              zip(served["at_s"], served["seconds"], strict=True)]  # fmt: skip
    found: list[tuple[float, float | None]] = []
    if not starts:
        return found
    for number in range(int(starts[0] // step_s), int(starts[-1] // step_s) + 1):
        chosen = [i for i, start in enumerate(starts) if start // step_s == number]
        seconds = sum(served["seconds"][i] for i in chosen)
        rate = sum(served["operations"][i] for i in chosen) / seconds if chosen else None
        found.append((number * step_s, rate))
    return found


def _at(times: Sequence[float], when: float) -> int:
    """Return the last row that is not after this moment; the first if there is none."""
    return max((i for i, at in enumerate(times) if at <= when), default=0)
