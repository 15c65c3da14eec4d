"""The figures of one cell, made from its series. Pure.

A page counts as promoted or demoted when the workload has seen it arrive: counters of the kernel
and of configurations are claims. A second in which nothing happened is a second like any other.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.phase import ARRIVED

PAGE = 4096

# Of the slow tier's cost: Redis with zipfian keys was 22 % slower on CXL alone (HMSDK's cover
# letter), and a copy takes the slow node's bandwidth, which is 10 GB/s on the machine two-tier.
SLOW_PENALTY = 0.22
COPY_BYTES_PER_S = 10e9

# "Arrived" leaves 5 % on their way; after so long what moves has another reason.
LANDED_S = 10.0
# Steady figures need this much of a phase to be worth anything.
STEADY_S_MIN = 10.0
# Fewer pages than these are chance: compaction, or the kernel's own.
MOVED_PAGES_MIN = 256
# How often the set of one N is touched in the phase "scan".
SCANS = 2
# big-*: it may look around for this long.
LOOK_AROUND_S = 60.0


@dataclass(frozen=True, slots=True)
class Figures:
    """None is: never, or not asked by this phase. Bytes and shares are plain numbers."""

    t50_s: float | None
    t95_s: float | None
    residency_end: float
    residency_mean: float
    residency_drop: float
    promoted_bytes: int
    demoted_bytes: int
    moved_bytes: int
    promoted_per_hot_byte: float | None
    excess: float | None
    steady_bytes_per_min: float | None
    late_bytes_per_s: float | None
    futile: float | None
    first_second_bytes: int | None
    p50_us: float
    p99_us: float
    stalls: int
    direct: int
    free_min_kib: int
    kdamond_cpu: float
    daemon_cpu: float
    slowdown_modelled: float
    scanned_share: float | None
    fault_p99_ratio: float | None


def figures(seen: Mapping[str, Any]) -> Figures:
    """Of one cell, as it was saved."""
    series: Mapping[str, Sequence[float]] = seen["series"]
    times, hits, moved = series["t"], series["hit"], series["moved"]
    seconds = max(times[-1] - times[0], 1e-9)
    up, down = int(series["up"][-1]), int(series["down"][-1])
    arrived = up + down + seen.get("others_pages", 0)
    lacking = (1 - hits[0]) * seen["hot_bytes"] + seen.get("drifted_bytes", 0)
    t95 = reached(times, hits, ARRIVED)
    residency = mean_over(times, hits)
    total = int(moved[-1])
    exchanged = lacking >= seen["hot_bytes"] / 2
    return Figures(
        t50_s=reached(times, hits, 0.5),
        t95_s=t95,
        residency_end=hits[-1],
        residency_mean=residency,
        residency_drop=hits[0] - min(hits),
        promoted_bytes=up * PAGE,
        demoted_bytes=down * PAGE,
        moved_bytes=total * PAGE,
        promoted_per_hot_byte=up * PAGE / lacking if exchanged and t95 is not None else None,
        excess=(up + down) * PAGE / (2 * lacking) if exchanged and t95 is not None else None,
        steady_bytes_per_min=None if t95 is None else steady(times, moved, t95 + LANDED_S),
        late_bytes_per_s=late(times, moved),
        futile=futile(seen, arrived),
        first_second_bytes=first_second(seen),
        p50_us=seen["latency"]["p50_ns"] / 1000,
        p99_us=seen["latency"]["p99_ns"] / 1000,
        stalls=seen["stalls"],
        direct=seen["direct"],
        free_min_kib=int(min(series["free_kib"])),
        kdamond_cpu=seen["kdamond_cpu_s"] / seconds,
        daemon_cpu=seen["daemon_cpu_s"] / seconds,
        slowdown_modelled=slowdown(residency, total * PAGE / seconds),
        scanned_share=seen["scanned_up"] * PAGE / (SCANS * seen["fast_bytes"])
        if "scanned_up" in seen
        else None,
        fault_p99_ratio=fault_ratio(seen),
    )


def reached(times: Sequence[float], values: Sequence[float], share: float) -> float | None:
    """When a value was first as large as this, between two samples in proportion."""
    before_t, before = times[0], values[0]
    for time, value in zip(times, values, strict=True):
        if value >= share:
            grown = value - before
            return time if grown <= 0 else before_t + (time - before_t) * (share - before) / grown
        before_t, before = time, value
    return None


def mean_over(times: Sequence[float], values: Sequence[float]) -> float:
    """The mean over time, by trapezoids."""
    area = sum(
        (values[i] + values[i - 1]) / 2 * (times[i] - times[i - 1]) for i in range(1, len(times))
    )
    span = times[-1] - times[0]
    return area / span if span > 0 else values[-1]


def steady(times: Sequence[float], moved: Sequence[float], since: float) -> float | None:
    """Bytes a minute from then to the end; None if that is too short."""
    span = times[-1] - since
    if span < STEADY_S_MIN:
        return None
    return (moved[-1] - at(times, moved, since)) * PAGE / span * 60


def late(times: Sequence[float], moved: Sequence[float]) -> float | None:
    """Bytes a second in what comes after a minute; None if that is too short."""
    per_minute = steady(times, moved, times[0] + LOOK_AROUND_S)
    return None if per_minute is None else per_minute / 60


def at(times: Sequence[float], values: Sequence[float], time: float) -> float:
    """A growing value at a time between samples."""
    for i in range(1, len(times)):
        if times[i] >= time:
            part = (time - times[i - 1]) / max(times[i] - times[i - 1], 1e-9)
            return values[i - 1] + (values[i] - values[i - 1]) * max(0.0, part)
    return values[-1]


def first_second(seen: Mapping[str, Any]) -> int | None:
    """The most bytes moved, but by reclaim, in a second from the start until five seconds later;
    None for a phase that nothing was started in.
    """
    if not seen.get("first"):
        return None
    series = seen["series"]
    began = seen["facts"]["start"]
    times = [at_s for at_s, _ in began]
    pages = [count for _, count in began]
    for i, time in enumerate(series["t"]):
        if time > times[-1] and time <= 5.0:
            own = series["moved"][i] - series["reclaimed"][i]
            times.append(time)
            pages.append(began[-1][1] + own)
    most = max(
        (at(times, pages, time + 1.0) - count for time, count in zip(times, pages, strict=True)),
        default=0,
    )
    return int(max(0, most)) * PAGE


def fault_ratio(seen: Mapping[str, Any]) -> float | None:
    """The median of the bursts' 99th percentiles, over that of bursts while there was room."""
    if not seen.get("bursts"):
        return None
    full, roomy = (
        statistics.median(burst["p99_ns"] for burst in bursts)
        for bursts in (seen["bursts"], seen["facts"]["unloaded"])
    )
    return float(full / roomy)


def futile(seen: Mapping[str, Any], arrived_pages: float) -> float | None:
    """The share of what is said to have moved that arrived nowhere; None where next to nothing was.

    What schemes say, where there are any: the kernel counts compaction as well, which moves pages
    within a node.
    """
    pages: float = seen["series"]["moved"][-1]
    said = claimed_bytes(seen.get("trace", ()))
    if said is not None:
        pages = said / PAGE
        arrived_pages -= seen["series"]["reclaimed"][-1]
    # A burst is a second program's, which comes and goes: where its pages moved to is not followed.
    if pages < MOVED_PAGES_MIN or seen.get("bursts"):
        return None
    return max(0.0, 1 - arrived_pages / pages)


def claimed_bytes(trace: Sequence[Sequence[float | None]]) -> int | None:
    """What a scheme of each direction says that it moved in a phase; None if there was none."""
    columns = [[value for row in trace if (value := row[column]) is not None] for column in (2, 4)]
    said = [(values[0], values[-1]) for values in columns if len(values) >= 2]
    # Where a scheme began anew, what it had moved before is not known.
    if not said or any(last < first for first, last in said):
        return None
    return int(sum(last - first for first, last in said))


def slowdown(residency: float, bytes_per_s: float) -> float:
    """A model, not a measurement: nodes of a guest are equally fast."""
    return 1 + SLOW_PENALTY * (1 - residency) + bytes_per_s / COPY_BYTES_PER_S
