"""Computes how fast a program ran, from the cells of its trials. Pure.

A trial has three windows: `before` the configuration was started, the `first half minute` that it
was in force, and `settled`, the last quarter of a minute.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from bench.figures import PAGE

WINDOWS = ("before", "first half minute", "settled")
FIRST_S = 30.0
SETTLED_S = 15.0
# The first seconds do not count: a server that has just been filled rearranges its table and fills
# its caches.
WARM_S = 5
# Fewer bytes than this are chance: a few pages that the program allocated anew.
STAYED_BYTES_MIN = 1 << 20


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
    slow_shares: tuple[float, float]
    """The share of the program's memory that is not there, at the beginning and at the end."""
    moved_bytes: int
    """What the kernel counts as moved, by whom and from where to where ever."""
    up_bytes: int
    """The program's memory that was on the slow node at first and is on the fast node at last."""
    down_bytes: int
    """The same in the other direction."""
    waited: float | None
    """Processors of the host that the emulator waited for, on average over the time in force."""
    lost_s: float | None
    """The share that the fast node did not serve, summed up over the time in force."""
    kdamond_cpu_s: float | None
    daemon_cpu_s: float | None

    @property
    def moved_per_stayed(self) -> float | None:
        """Return the moved bytes per byte that came up and stayed; None if next to none did."""
        return self.moved_bytes / self.up_bytes if self.up_bytes >= STAYED_BYTES_MIN else None


def trial(configuration: str, number: int, seen: dict[str, Any]) -> Trial:
    """Return the figures of a cell."""
    served, samples = seen["served"], seen["samples"]
    ends = served["at_s"]
    last_s = ends[-1]
    begin_s = seen["in_force_s"]
    bounds = {
        "before": (ends[0] + WARM_S - 1, seen["before_end_s"]),
        "first half minute": (begin_s, begin_s + FIRST_S),
        "settled": (last_s - SETTLED_S, last_s),
    }
    fast, pages = str(seen["fast"]), seen["pages"]
    return Trial(
        configuration,
        number,
        {name: window(seen, *bounds[name]) for name in WINDOWS},
        seen["fill_s"],
        (pages["first"][fast] * PAGE, pages["last"][fast] * PAGE),
        (slow_share(pages["first"], fast), slow_share(pages["last"], fast)),
        (samples["moved"][-1] - samples["moved"][0]) * PAGE,
        pages["up"] * PAGE,
        pages["down"] * PAGE,
        waited(seen, begin_s),
        lost_s(seen, begin_s, begin_s + seen["after"]),
        seen["kdamond_cpu_s"],
        seen["daemon_cpu_s"],
    )


def slow_share(pages: Mapping[str, int], fast: str) -> float:
    """Return the share of pages that are not on the fast node."""
    return 1 - pages[fast] / (sum(pages.values()) or 1)


def waited(seen: dict[str, Any], begin_s: float) -> float | None:
    """Return for how long the emulator waited for the host from then on, in seconds per second."""
    served, counts = seen["served"], seen["waited_ns"]
    first = next((i for i, at in enumerate(served["at_s"]) if at >= begin_s), None)
    if first is None or len(counts) != len(served["at_s"]) + 1:
        return None
    seconds = sum(served["seconds"][first + 1 :])
    return (counts[-1] - counts[first + 1]) / 1e9 / seconds if seconds else None


def lost_s(seen: dict[str, Any], begin_s: float, end_s: float) -> float | None:
    """Return the sum of the seconds, each weighted by the share that the slow node served."""
    shares = fast_shares(seen)
    if shares is None:
        return None
    served = seen["served"]
    lost = 0.0
    for at, length, (fast, total) in zip(served["at_s"], served["seconds"], shares, strict=True):
        if begin_s <= at - length and at <= end_s and total:
            lost += length * (1 - fast / total)
    return lost


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


def relative(
    trials: Sequence[Trial],
    to: Sequence[Trial],
    name: str,
    figure: Callable[[Window], float | None] = lambda window: window.rate,
) -> list[float]:
    """Return each trial's rate in a window, divided by that of `to` with the same number.

    Another figure of the window can be chosen.
    """
    others = {other.number: figure(other.windows[name]) for other in to}
    pairs = [(figure(one.windows[name]), others.get(one.number)) for one in trials]
    return [own / other for own, other in pairs if own is not None and other]


def grouped(seen: dict[str, Any], step_s: float) -> list[tuple[float, float | None]]:
    """Return the operations per second in each step of `step_s` seconds; None for an empty step.

    Time is counted from the start of the configuration.
    """
    served = seen["served"]
    starts = [a - length - seen["in_force_s"] for a, length in
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
