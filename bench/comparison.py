"""Compares the configurations of one program: tables, charts and a sentence. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from bench import plot, throughput
from bench.cells import Cell
from bench.figures import PAGE
from bench.throughput import Trial, Window
from tierd.views import plots
from tierd.views.plots import Ink

MIB = 1 << 20
COLUMN_S = 5.0
CHART_ROWS = 6
# Two runs of the same configuration differ by this much on a quiet host. A smaller difference means
# nothing.
SAME = 0.02

# The line that the others are relative to.
BASE = "none"
COLOURS = {BASE: 0, "all-fast": 1, "tierd": 7}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The cells of each configuration, and its trials, which are made from them."""

    title: str
    cells: dict[str, tuple[Cell, ...]]
    trials: dict[str, tuple[Trial, ...]]

    @property
    def first(self) -> dict[str, Any]:
        """What was seen in the first cell. The settings are the same in all cells."""
        return next(iter(self.cells.values()))[0].seen


def compare(title: str, found: Sequence[Cell]) -> Comparison:
    """Group the cells of one program by configuration; the base comes first."""
    names = sorted(
        {cell.key.configuration for cell in found}, key=lambda name: (name != BASE, name)
    )
    cells = {name: tuple(c for c in found if c.key.configuration == name) for name in names}
    trials = {
        name: tuple(throughput.trial(name, cell.key.trial, cell.seen) for cell in cells[name])
        for name in names
    }
    return Comparison(title, cells, trials)


def text(compared: Comparison, ink: Ink) -> str:
    """Return the text that is shown at the end of a run."""
    parts = [setting(compared), *charts(compared, ink), table(compared), sentence(compared), LIMITS]
    return "\n\n".join(parts) + "\n"


def setting(compared: Comparison) -> str:
    """Return a paragraph that says what ran, where, and how large it was."""
    seen = compared.first
    pages = sum(seen["pages"]["first"].values())
    made = seen["made"]
    loads = [float(c.seen["made"]["load"]) for cells in compared.cells.values() for c in cells]
    return (
        f"{compared.title}\n"
        f"kernel {seen['release']}, {made['host']}, load {min(loads)} to {max(loads)}, "
        f"commit {made.get('commit', 'unknown')}\n"
        f"{seen['items']} items in {pages * PAGE // MIB} MiB, "
        f"{pages * PAGE / seen['fast_bytes']:.1f} times the fast node; "
        f"cap {seen['cap'] // 1_000_000} MB/s; memory {seen['slowness']['stretch']} times as slow "
        "as its figures"
    )


def columns(compared: Comparison, name: str) -> list[tuple[float, float | None]]:
    """Return the operations per second over time, as the mean of all trials."""
    rates: dict[float, list[float]] = {}
    for cell in compared.cells[name]:
        for at, rate in throughput.grouped(cell.seen, COLUMN_S):
            if rate is not None:
                rates.setdefault(at, []).append(rate)
    if not rates:
        return []
    count = round((max(rates) - min(rates)) / COLUMN_S) + 1
    times = [min(rates) + COLUMN_S * number for number in range(count)]
    return [(at, mean(rates[at]) if at in rates else None) for at in times]


def charts(compared: Comparison, ink: Ink) -> list[str]:
    """Return a chart of the operations per second over time for each configuration."""
    lines = {name: columns(compared, name) for name in compared.trials}
    most = max((rate for line in lines.values() for _, rate in line if rate is not None), default=1)
    drawn = []
    for name, line in lines.items():
        chart = plots.chart([rate for _, rate in line], CHART_ROWS, most, _whole, ink)
        axis = " " * len(_whole(most)) + " " + ink.frame
        start = next((number for number, (at, _) in enumerate(line) if at >= 0), 0)
        head = f"{name}: operations a second, {COLUMN_S:g} s a column, mean of trials"
        drawn.append("\n".join([head, *chart, axis + " " * start + "^ in force from here on"]))
    return drawn


def svg(compared: Comparison) -> str:
    """Return these charts as one picture."""
    lines = {name: columns(compared, name) for name in compared.trials}
    begin_s = min((line[0][0] for line in lines.values() if line), default=0.0)
    drawn = [
        plot.Line(name, COLOURS.get(name, 2), tuple((at - begin_s, rate) for at, rate in line))
        for name, line in lines.items()
    ]
    marks = [plot.Mark(-begin_s, "in force")]
    return plot.svg(compared.title, "seconds", "operations a second", drawn, marks)


def table(compared: Comparison) -> str:
    """Return a table with the figures of each configuration, as medians of its trials."""
    rows: list[tuple[str, Callable[[Trial], float | None], Callable[[float], str]]] = []
    for name in throughput.WINDOWS:
        rows.append((f"operations/s, {name}", _of(name, lambda w: w.rate), _whole))
    for name in throughput.WINDOWS:
        rows.append((f"p50 us, {name}", _of(name, lambda w: w.p50_us), _whole))
    for name in throughput.WINDOWS:
        rows.append((f"p99 us, {name}", _of(name, lambda w: w.p99_us), _whole))
    for name in throughput.WINDOWS:
        rows.append((f"served by the fast node, {name}", _of(name, lambda w: w.fast_share), _share))
    rows += [
        ("on the fast node, at first MiB", lambda t: t.fast_bytes[0] / MIB, _whole),
        ("on the fast node, at last MiB", lambda t: t.fast_bytes[1] / MIB, _whole),
        ("moved MiB", lambda t: t.moved_bytes / MIB, _whole),
        ("came up and stayed MiB", lambda t: t.up_bytes / MIB, _whole),
        ("moved per byte that stayed", lambda t: t.moved_per_stayed, _tenths),
        ("lost hot-seconds", lambda t: t.lost_s, _tenths),
        ("waited for the host, s per s", lambda t: t.waited, _hundredths),
        ("kdamonds, processor s", lambda t: t.kdamond_cpu_s, _tenths),
        ("daemon, processor s", lambda t: t.daemon_cpu_s, _tenths),
        ("filled in s", lambda t: t.fill_s, _tenths),
        ("trials", lambda t: len(compared.trials[t.configuration]), _whole),
    ]
    names = list(compared.trials)
    width = max(len(title) for title, _, _ in rows)
    lines = [" " * width + "".join(name.rjust(12) for name in names)]
    for title, figure, shown in rows:
        values = [middle([figure(t) for t in compared.trials[name]]) for name in names]
        told = ["-" if value is None else shown(value) for value in values]
        lines.append(title.ljust(width) + "".join(word.rjust(12) for word in told))
    return "\n".join(lines)


def middle(values: Sequence[float | None]) -> float | None:
    """Return the median of the values that were read; None if none was."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def sentence(compared: Comparison) -> str:
    """Compare each configuration with the base, in words."""
    told = []
    for name, trials in compared.trials.items():
        if name == BASE:
            continue
        ratios = {
            window: throughput.relative(trials, compared.trials.get(BASE, ()), window)
            for window in throughput.WINDOWS
        }
        if not ratios["settled"]:
            told.append(f"{name} has no trial beside one of {BASE}, so nothing can be said.")
            continue
        told.append(
            f"{name} over {BASE}, operations a second, pair by pair: "
            + "; ".join(f"{spread(ratios[window])} {window}" for window in throughput.WINDOWS)
            + f". {judgement(name, ratios['before'], ratios['settled'])}"
        )
    return "\n".join(told)


def judgement(name: str, before: Sequence[float], settled: Sequence[float]) -> str:
    """Return a verdict that all pairs agree on, or say that there is none."""
    # A difference from before the configuration was in force is noise of the host.
    noise = max([SAME, *(abs(ratio - 1) for ratio in before)])
    pairs = f"{len(settled)} pair{'s' if len(settled) != 1 else ''}"
    if all(ratio > 1 + noise for ratio in settled):
        return f"Once settled, {name} was faster in all of {pairs}."
    if all(ratio < 1 - noise for ratio in settled):
        return f"Once settled, {name} was slower in all of {pairs}."
    return f"No difference that {pairs} can show: two trials of the same differ by {noise:.0%}."


def spread(ratios: Sequence[float]) -> str:
    """Return the median, and in brackets the least and the greatest ratio."""
    if not ratios:
        return "unknown"
    return f"{median(ratios):.2f} x ({min(ratios):.2f} to {max(ratios):.2f})"


LIMITS = """\
What it says: how this program fares where pages of the slow node cost more, and what tierd moves
for it. What it does not say: how fast a real machine would be. Processors are emulated. Waiting for
memory is a model. The kernel's own accesses and its copies of pages cost no memory time. There are
two processors for the program, its driver, tierd and the kernel's threads: each takes time from the
others. The shares are of all user code, tierd's included. Only ratios within one run mean anything,
and a busy host spoils them too."""


def _of(name: str, figure: Callable[[Window], float | None]) -> Callable[[Trial], float | None]:
    return lambda one: figure(one.windows[name])


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _tenths(value: float) -> str:
    return f"{value:.1f}"


def _hundredths(value: float) -> str:
    return f"{value:.2f}"


def _share(value: float) -> str:
    return f"{value:.1%}"
