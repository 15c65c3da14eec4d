"""Makes the figures of one cell from its series. Pure.

A page counts as promoted or demoted when the workload has seen it arrive, because the counters of
the kernel and of configurations are only claims. A second in which nothing happened counts too.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.phase import ARRIVED

PAGE = 4096

# The cost of the slow tier. Redis with zipfian keys was 22 % slower on CXL alone (HMSDK's cover
# letter). A copy takes bandwidth of the slow node, which has 10 GB/s on the machine two-tier.
SLOW_PENALTY = 0.22
COPY_BYTES_PER_S = 10e9

# A hot set has arrived when 95 % of it are there, and the rest follows within this many seconds.
# Later moves have another reason.
LANDED_S = 10.0
# A figure of the steady state needs at least this many seconds of a phase.
STEADY_S_MIN = 10.0
# Fewer moved pages than this are chance: compaction, or other moves of the kernel.
MOVED_PAGES_MIN = 256
# In the phase "scan" a set as large as the fast node is touched this many times.
SCANS = 2
# Pages that a request of the workload touches (workload.c).
REQUEST_TOUCHES = 64
# For a store: the end and the worst drop are means over this many seconds, because a single sample
# is partly chance.
END_S = 10.0
DROP_S = 10.0
# The last seconds of a phase that reads a store. Nothing should move any more then.
SETTLED_S = 30.0
# A smaller gain is chance.
GAIN_MIN = 0.02
# In the phases big-* a tuner may explore for this long.
LOOK_AROUND_S = 60.0


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one cell.

    None means: it never happened, this phase does not measure it, or it could not be read.
    """

    t50_s: float | None
    t95_s: float | None
    first_up_s: float | None
    """When the first page of the hot set had come up, by the sample that saw it."""
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
    kdamond_cpu: float | None
    daemon_cpu: float | None
    slowdown_modelled: float
    scanned_share: float | None
    fault_p99_ratio: float | None
    touches_per_s: float
    store: "StoreFigures | None"


@dataclass(frozen=True, slots=True)
class StoreFigures:
    """The figures of a phase that reads a store, compared with the best placement."""

    best: float
    """The share of the touches that the best placement would serve."""
    t80_s: float | None
    """The time until the fast node serves 80 % of `best`."""
    t90_s: float | None
    end: float
    """The share that is served in the last seconds, divided by `best`."""
    moved_bytes_per_point: float | None
    """Moved bytes for each percentage point that was gained; None if nothing was gained."""
    worst_drop: float
    """How much less was served than at the start, as a mean over the worst seconds."""
    settled_bytes_per_min: float | None
    """How much still moves in the last seconds of the phase."""


def figures(seen: Mapping[str, Any]) -> Figures:
    """Return the figures of one saved cell."""
    series: Mapping[str, Sequence[float]] = seen["series"]
    times, hits, moved = series["t"], series["hit"], series["moved"]
    seconds = max(times[-1] - times[0], 1e-9)
    up, down = int(series["up"][-1]), int(series["down"][-1])
    arrived = up + down + seen.get("others_pages", 0)
    lacking = (1 - hits[0]) * seen["hot_bytes"] + seen.get("drifted_bytes", 0)
    t95 = reached(times, hits, ARRIVED)
    residency = mean_over(times, hits)
    total = int(moved[-1])
    best = seen.get("best")
    exchanged = lacking >= seen["hot_bytes"] / 2 and best is None
    return Figures(
        t50_s=reached(times, hits, 0.5),
        t95_s=t95,
        first_up_s=next(
            (time for time, up in zip(times, series["up"], strict=True) if up > 0), None
        ),
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
        kdamond_cpu=share(seen["kdamond_cpu_s"], seconds),
        daemon_cpu=share(seen["daemon_cpu_s"], seconds),
        slowdown_modelled=slowdown(residency, total * PAGE / seconds),
        scanned_share=seen["scanned_up"] * PAGE / (SCANS * seen["fast_bytes"])
        if "scanned_up" in seen
        else None,
        fault_p99_ratio=fault_ratio(seen),
        touches_per_s=seen["latency"]["requests"] * REQUEST_TOUCHES / seconds,
        store=None if best is None else store_figures(best, times, hits, moved),
    )


def store_figures(
    best: float, times: Sequence[float], served: Sequence[float], moved: Sequence[float]
) -> StoreFigures:
    """Return the figures of a store, from what the fast node served and the pages that moved."""
    end = last_mean(times, served, END_S)
    gained = end - served[0]
    return StoreFigures(
        best=best,
        t80_s=reached(times, served, 0.8 * best),
        t90_s=reached(times, served, 0.9 * best),
        end=end / best,
        moved_bytes_per_point=moved[-1] * PAGE / (100 * gained) if gained >= GAIN_MIN else None,
        worst_drop=served[0] - lowest_mean(times, served, DROP_S),
        settled_bytes_per_min=steady(times, moved, times[-1] - SETTLED_S),
    )


def last_mean(times: Sequence[float], values: Sequence[float], over_s: float) -> float:
    """Return the mean over the last `over_s` seconds."""
    first = next(i for i, time in enumerate(times) if time >= times[-1] - over_s)
    return mean_over(times[first:], values[first:])


def lowest_mean(times: Sequence[float], values: Sequence[float], over_s: float) -> float:
    """Return the lowest mean over `over_s` seconds, or the mean over all if they are fewer."""
    ends = [i for i, time in enumerate(times) if time - times[0] >= over_s]
    return min(
        (last_mean(times[: end + 1], values[: end + 1], over_s) for end in ends),
        default=mean_over(times, values),
    )


def share(spent_s: float | None, seconds: float) -> float | None:
    """Return the share of one processor; None if the time spent could not be read."""
    return None if spent_s is None else spent_s / seconds


def reached(times: Sequence[float], values: Sequence[float], share: float) -> float | None:
    """Return when a value first reached `share`, interpolated between samples; None if never."""
    before_t, before = times[0], values[0]
    for time, value in zip(times, values, strict=True):
        if value >= share:
            grown = value - before
            return time if grown <= 0 else before_t + (time - before_t) * (share - before) / grown
        before_t, before = time, value
    return None


def mean_over(times: Sequence[float], values: Sequence[float]) -> float:
    """Return the mean over time, by the trapezoidal rule."""
    area = sum(
        (values[i] + values[i - 1]) / 2 * (times[i] - times[i - 1]) for i in range(1, len(times))
    )
    span = times[-1] - times[0]
    return area / span if span > 0 else values[-1]


def steady(times: Sequence[float], moved: Sequence[float], since: float) -> float | None:
    """Return the bytes per minute from `since` to the end; None if that time is too short."""
    span = times[-1] - since
    if span < STEADY_S_MIN:
        return None
    return (moved[-1] - at(times, moved, since)) * PAGE / span * 60


def late(times: Sequence[float], moved: Sequence[float]) -> float | None:
    """Return the bytes per second after the first minute; None if that time is too short."""
    per_minute = steady(times, moved, times[0] + LOOK_AROUND_S)
    return None if per_minute is None else per_minute / 60


def at(times: Sequence[float], values: Sequence[float], time: float) -> float:
    """Return a growing value at a time between samples, interpolated."""
    for i in range(1, len(times)):
        if times[i] >= time:
            part = (time - times[i - 1]) / max(times[i] - times[i - 1], 1e-9)
            return values[i - 1] + (values[i] - values[i - 1]) * max(0.0, part)
    return values[-1]


def first_second(seen: Mapping[str, Any]) -> int | None:
    """Return the most bytes that moved in any second of the first five, without reclaim.

    None for a phase in which no configuration was started.
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
    """Return the median of the bursts' 99th percentiles, divided by that of bursts with room."""
    if not seen.get("bursts"):
        return None
    full, roomy = (
        statistics.median(burst["p99_ns"] for burst in bursts)
        for bursts in (seen["bursts"], seen["facts"]["unloaded"])
    )
    return float(full / roomy)


def futile(seen: Mapping[str, Any], arrived_pages: float) -> float | None:
    """Return the share of the moves that brought no page to another node; None if few moved.

    The moves are those that schemes claim, if there are any. The kernel's own counter includes
    compaction, which moves pages within a node.
    """
    pages: float = seen["series"]["moved"][-1]
    said = claimed_bytes(seen.get("trace", ()))
    if said is not None:
        pages = said / PAGE
        arrived_pages -= seen["series"]["reclaimed"][-1]
    # The pages of a burst belong to a second program, which comes and goes. Nobody watches where
    # they move.
    if pages < MOVED_PAGES_MIN or seen.get("bursts"):
        return None
    return max(0.0, 1 - arrived_pages / pages)


def claimed_bytes(trace: Sequence[Sequence[float | None]]) -> int | None:
    """Return the bytes that the schemes of both directions claim to have moved in a phase.

    None if there was no scheme, or if one was made anew.
    """
    columns = [[value for row in trace if (value := row[column]) is not None] for column in (2, 4)]
    said = [(values[0], values[-1]) for values in columns if len(values) >= 2]
    # A scheme that was made anew counts from 0, so what it moved before is lost.
    if not said or any(last < first for first, last in said):
        return None
    return int(sum(last - first for first, last in said))


def slowdown(residency: float, bytes_per_s: float) -> float:
    """Return a modelled slowdown. The nodes of a guest are equally fast, so none is measured."""
    return 1 + SLOW_PENALTY * (1 - residency) + bytes_per_s / COPY_BYTES_PER_S
