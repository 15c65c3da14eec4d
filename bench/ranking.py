"""Medians over trials, and what the bars say of them. Pure.

"Never" is later than any time: a median of trials of which most never arrived is never.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.cells import Cell
from bench.configuration import SERIES
from bench.figures import Figures, figures

MIB = 1 << 20
SHIFTS = ("shift-1", "shift-2", "shift-3")
TIERD = ("kernel", "emulated", "demand")

Groups = Mapping[tuple[str, str, str], tuple[Figures, ...]]


@dataclass(frozen=True, slots=True)
class Scale:
    """What bytes are measured against."""

    cap: int
    fast_bytes: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """One bar on one kernel: what was found, of how many trials, and whether it is met."""

    series: str
    found: str
    trials: int
    met: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """What is promised, and what each kernel that was measured says to it."""

    name: str
    verdicts: tuple[Verdict, ...]


def grouped(cells: Iterable[Cell]) -> Groups:
    """The figures of all trials, by kernel, configuration and phase (each shift on its own)."""
    found: dict[tuple[str, str, str], list[Figures]] = defaultdict(list)
    for cell in cells:
        key = cell.key
        found[key.series, key.configuration, key.phase].append(figures(cell.seen))
    return {key: tuple(values) for key, values in found.items()}


def median(values: Iterable[float | None]) -> float | None:
    """None, which is never, is larger than all."""
    found = statistics.median_high(math.inf if value is None else value for value in values)
    return None if math.isinf(found) else found


def worst(values: Iterable[float | None]) -> float | None:
    most = max(math.inf if value is None else value for value in values)
    return None if math.isinf(most) else most


def bars(groups: Groups, scale: Scale) -> tuple[Bar, ...]:
    """Every bar of the project that a virtual machine can judge."""
    return tuple(
        Bar(name, tuple(verdict for series in SERIES for verdict in judge(groups, series, scale)))
        for name, judge in _BARS
    )


Judge = Callable[[Groups, str, Scale], Iterator[Verdict]]


def _times(name: str, most: float) -> Judge:
    """Of demand over the oracle, to 95 %."""

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
    """A figure's median; of several phases or configurations the worst. `absent`: None is bad."""

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
                    found.append((math.inf if middle is None else middle, label, len(values)))
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


def seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"


_MOVING = ("static", *SHIFTS)
_ANY = (*_MOVING, "drift", "thp", "restart", "half-empty")
_BARS: tuple[tuple[str, Judge], ...] = (
    ("static: 95 % in at most 2.0 x the oracle's time", _times("static", 2.0)),
    *((f"{name}: at most 2.5 x the oracle's time", _times(name, 2.5)) for name in SHIFTS),
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
)
