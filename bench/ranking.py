"""Takes medians over trials, and compares them with the bars. Pure.

"Never" is later than any time: if most trials never arrived, their median is "never".
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.cells import Cell
from bench.configuration import SERIES, STORES
from bench.figures import Figures, StoreFigures, figures

MIB = 1 << 20
SHIFTS = ("shift-1", "shift-2", "shift-3")
TIERD = ("kernel", "emulated", "demand")

# The least share of what the best placement of as many pages would serve.
STORE_END_MIN = 0.95

# A phase is sampled each half second, and a sample may come a tenth late.
FIRST_UP_S = 1.6

Groups = Mapping[tuple[str, str, str], tuple[Figures, ...]]


@dataclass(frozen=True, slots=True)
class Scale:
    """The sizes that bytes are compared with."""

    cap: int
    fast_bytes: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """One bar on one kernel: what was found, in how many trials, and if the bar is met."""

    series: str
    found: str
    trials: int
    met: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """A promise, and a verdict for each kernel that was measured."""

    name: str
    verdicts: tuple[Verdict, ...]


def grouped(cells: Iterable[Cell]) -> Groups:
    """Return the figures of all trials, by kernel, configuration and phase.

    Each repeat of a phase is a phase of its own here (shift-1, shift-2).
    """
    found: dict[tuple[str, str, str], list[Figures]] = defaultdict(list)
    for cell in cells:
        key = cell.key
        found[key.series, key.configuration, key.phase].append(figures(cell.seen))
    return {key: tuple(values) for key, values in found.items()}


def median(values: Iterable[float | None]) -> float | None:
    """Return the median, where None means never and is larger than all values.

    Of an even number of values it is the larger one of the two in the middle.
    """
    found = statistics.median_high(_never(value) for value in values)
    return None if math.isinf(found) else found


def middles(values: Iterable[float | None]) -> tuple[float | None, ...]:
    """Return the median, or both values in the middle if their number is even; none of no values.

    None means never and is larger than all values.
    """
    ranked = sorted(values, key=_never)
    return tuple(ranked[(len(ranked) - 1) // 2 : len(ranked) // 2 + 1])


def worst(values: Iterable[float | None]) -> float | None:
    most = max(_never(value) for value in values)
    return None if math.isinf(most) else most


def _never(value: float | None) -> float:
    """Return the value, or infinity for None, which means never."""
    return math.inf if value is None else value


def bars(groups: Groups, scale: Scale) -> tuple[Bar, ...]:
    """Return every bar of the project that a virtual machine can judge."""
    return tuple(
        Bar(name, tuple(verdict for series in SERIES for verdict in judge(groups, series, scale)))
        for name, judge in _BARS
    )


Judge = Callable[[Groups, str, Scale], Iterator[Verdict]]


def _times(name: str, most: float) -> Judge:
    """Compare the times to 95 %: `demand` may take at most `most` times as long as the oracle."""

    def judge(groups: Groups, series: str, _scale: Scale) -> Iterator[Verdict]:
        own, ideal = groups.get((series, "demand", name)), groups.get((series, "oracle", name))
        if not own or not ideal:
            return
        mine, best = (median(f.t95_s for f in trials) for trials in (own, ideal))
        if best is None:
            return
        if mine is None:
            yield Verdict(series, f"never; the oracle {best:.1f} s", len(own), False)
        else:
            told = f"{mine / best:.2f} x ({mine:.1f} s over {best:.1f} s)"
            yield Verdict(series, told, len(own), mine <= most * best)

    return judge


def _against_numab(groups: Groups, series: str, _scale: Scale) -> Iterator[Verdict]:
    for name in ("static", *SHIFTS):
        own, other = groups.get((series, "demand", name)), groups.get((series, "numab2", name))
        if not own or not other:
            continue
        times = [median(f.t95_s for f in trials) for trials in (own, other)]
        moved = [median(f.moved_bytes for f in trials) or 0 for trials in (own, other)]
        p99 = [median(f.p99_us for f in trials) or 0 for trials in (own, other)]
        sooner = times[1] is None or (times[0] is not None and times[0] <= times[1])
        said = "; ".join(
            (
                " against ".join(seconds(time) for time in times),
                f"{moved[0] / MIB:.0f} against {moved[1] / MIB:.0f} MiB moved",
                f"p99 {p99[0]:.0f} against {p99[1]:.0f} us",
            )
        )
        met = sooner and moved[0] < moved[1] and p99[0] < p99[1]
        yield Verdict(f"{series} {name}", said, len(own), met)


def _value(
    names: Sequence[str],
    value: Callable[[Figures, Scale], float | None],
    most: float,
    shown: str,
    of: Sequence[str] = ("demand",),
    absent: bool = False,
) -> Judge:
    """Judge the median of a figure; with several phases or configurations, the worst of them.

    With `absent` a value of None counts as never; else it is left out.
    """

    def judge(groups: Groups, series: str, scale: Scale) -> Iterator[Verdict]:
        found: list[tuple[float, str, int]] = []
        for configuration in of:
            for name in names:
                trials = groups.get((series, configuration, name), ())
                values = [value(f, scale) for f in trials]
                if not absent:
                    values = [one for one in values if one is not None]
                if values:
                    middle = median(values)
                    label = name if len(of) == 1 else f"{configuration}, {name}"
                    found.append((_never(middle), label, len(values)))
        if found:
            largest, label, trials_count = max(found)
            told = "never" if math.isinf(largest) else shown.format(largest)
            where = f" ({label})" if len(found) > 1 else ""
            yield Verdict(series, told + where, trials_count, largest <= most)

    return judge


def _slower_than_none(groups: Groups, series: str, _scale: Scale) -> Iterator[Verdict]:
    own = groups.get((series, "demand", "big-uniform"))
    none = groups.get((series, "none", "big-uniform"))
    if own and none:
        mine, plain = (median(f.slowdown_modelled for f in trials) for trials in (own, none))
        assert mine is not None
        assert plain is not None
        told = f"{mine:.3f} against {plain:.3f}, modelled"
        yield Verdict(series, told, len(own), mine <= plain * 1.01)


def _half_empty(groups: Groups, series: str, _scale: Scale) -> Iterator[Verdict]:
    own = groups.get((series, "demand", "half-empty"))
    natives = [
        median(f.t95_s for f in trials)
        for name in ("kernel", "damo")
        if (trials := groups.get((series, name, "half-empty")))
    ]
    known = [time for time in natives if time is not None]
    if own and known:
        mine, best = median(f.t95_s for f in own), min(known)
        told = f"{seconds(mine)} against {best:.1f} s"
        yield Verdict(series, told, len(own), mine is not None and mine <= 1.1 * best)


Compare = Callable[[StoreFigures, StoreFigures], tuple[str, bool]]


def _store(compare: Compare) -> Judge:
    """Compare `demand` with NUMA balancing in each phase that reads a store, by the medians.

    A figure of None counts as larger than all values.
    """

    def judge(groups: Groups, series: str, _scale: Scale) -> Iterator[Verdict]:
        for name in STORES:
            own = _median_store(groups.get((series, "demand", name), ()))
            other = _median_store(groups.get((series, "numab2", name), ()))
            if own is not None and other is not None:
                told, met = compare(own, other)
                trials = len(groups[series, "demand", name])
                yield Verdict(f"{series} {name}", told, trials, met)

    return judge


def _median_store(trials: Sequence[Figures]) -> StoreFigures | None:
    known = [found.store for found in trials if found.store is not None]
    if not known:
        return None
    return StoreFigures(
        best=statistics.median_low(one.best for one in known),
        t80_s=median(one.t80_s for one in known),
        t90_s=median(one.t90_s for one in known),
        end=statistics.median_low(one.end for one in known),
        moved_bytes_per_point=median(one.moved_bytes_per_point for one in known),
        worst_drop=statistics.median_high(one.worst_drop for one in known),
        settled_bytes_per_min=median(one.settled_bytes_per_min for one in known),
    )


def _no_later(own: StoreFigures, other: StoreFigures) -> tuple[str, bool]:
    pairs = ((own.t80_s, other.t80_s), (own.t90_s, other.t90_s))
    told = "; ".join(f"{seconds(mine)} against {seconds(its)}" for mine, its in pairs)
    return told, all(_never(mine) <= _never(its) for mine, its in pairs)


def _as_much_at_the_end(own: StoreFigures, other: StoreFigures) -> tuple[str, bool]:
    told = f"{own.end:.1%} of the best, against {other.end:.1%}"
    return told, own.end >= max(other.end, STORE_END_MIN)


def _moves_per_point(own: StoreFigures, other: StoreFigures) -> tuple[str, bool]:
    mine, its = own.moved_bytes_per_point, other.moved_bytes_per_point
    told = " against ".join(
        "nothing gained" if one is None else f"{one / MIB:.1f} MiB" for one in (mine, its)
    )
    return told, mine is not None and mine <= _never(its) / 2


def seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"


_MOVING = ("static", *SHIFTS)
_ANY = (*_MOVING, "drift", "thp", "restart", "half-empty")
_BARS: tuple[tuple[str, Judge], ...] = (
    ("static: 95 % in at most 2.0 x the oracle's time", _times("static", 2.0)),
    *((f"{name}: at most 2.5 x the oracle's time", _times(name, 2.5)) for name in SHIFTS),
    (
        "shifts: the first page has come up by the sample at 1.5 s",
        _value(SHIFTS, lambda f, _: f.first_up_s, FIRST_UP_S, "{:.1f} s", absent=True),
    ),
    (
        "against NUMA balancing with demotion: no later, fewer bytes moved, a lower p99",
        _against_numab,
    ),
    (
        "promoted bytes per byte of the hot set: at most 1.15",
        _value(_MOVING, lambda f, _: f.promoted_per_hot_byte, 1.15, "{:.2f}", absent=True),
    ),
    (
        "promoted and demoted over the least exchange: at most 1.3",
        _value(_MOVING, lambda f, _: f.excess, 1.3, "{:.2f}", absent=True),
    ),
    (
        "static, once it has arrived: at most 0.1 % of the fast node a minute",
        _value(
            ("static",),
            lambda f, s: (
                None if f.steady_bytes_per_min is None else f.steady_bytes_per_min / s.fast_bytes
            ),
            0.001,
            "{:.2%}",
            absent=True,
        ),
    ),
    (
        "big-uniform, after 60 s: at most 5 % of the cap",
        _value(
            ("big-uniform",),
            lambda f, s: None if f.late_bytes_per_s is None else f.late_bytes_per_s / s.cap,
            0.05,
            "{:.1%}",
        ),
    ),
    ("big-uniform: modelled slowdown within 1 % of no tiering", _slower_than_none),
    (
        "scan: the hot set loses at most 2 points",
        _value(("scan",), lambda f, _: f.residency_drop, 0.02, "{:.1%}"),
    ),
    (
        "scan: at most 1 % of what is scanned is promoted",
        _value(("scan",), lambda f, _: f.scanned_share, 0.01, "{:.2%}"),
    ),
    (
        "burst: no allocation stalls, no demotion in the allocating task",
        _value(("burst",), lambda f, _: f.stalls + f.direct, 0, "{:.0f} events"),
    ),
    (
        "burst: p99 of faults at most 2 x that of an empty node",
        _value(("burst",), lambda f, _: f.fault_p99_ratio, 2.0, "{:.2f} x"),
    ),
    (
        "idle: nothing is moved",
        _value(("idle",), lambda f, _: f.moved_bytes, 0, "{:.0f} bytes"),
    ),
    (
        "the first second, each tuner: at most the cap, both ways together twice the cap",
        _value(
            _ANY,
            lambda f, s: None if f.first_second_bytes is None else f.first_second_bytes / s.cap,
            2.0,
            "{:.2f} x the cap",
            of=TIERD,
        ),
    ),
    (
        "moved but arrived nowhere: at most 5 %",
        _value(_ANY, lambda f, _: f.futile, 0.05, "{:.1%}"),
    ),
    ("half-empty: at most 1.1 x the best of the kernel's own", _half_empty),
    ("stores: 80 % and 90 % of the best no later than NUMA balancing", _store(_no_later)),
    (
        "stores, at the end: at least NUMA balancing's share, and 95 % of the best",
        _store(_as_much_at_the_end),
    ),
    (
        "stores: per point gained at most half of what NUMA balancing moves",
        _store(_moves_per_point),
    ),
    (
        "stores: never more than 1 point below the start, over ten seconds",
        _value(
            STORES, lambda f, _: None if f.store is None else f.store.worst_drop, 0.01, "{:.1%}"
        ),
    ),
    (
        "stores, settled: at most 1 % of the fast node a minute",
        _value(
            STORES,
            lambda f, s: (
                None
                if f.store is None or f.store.settled_bytes_per_min is None
                else f.store.settled_bytes_per_min / s.fast_bytes
            ),
            0.01,
            "{:.1%}",
        ),
    ),
)
