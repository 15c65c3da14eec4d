"""Makes the page of the benchmark: tables, bars and plots of all cells. Only `write` does IO."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bench import phase, plot, provenance, ranking
from bench.cells import FOLDER, Cell
from bench.configuration import BY_NAME, CONFIGURATIONS, SERIES
from bench.figures import PAGE, Figures
from bench.plot import Line, Mark
from bench.ranking import MIB, Groups, Scale, middles, seconds, worst

PAGES = FOLDER.parent

TIMELINE = ("static", *ranking.SHIFTS, "idle")
COLOUR = {one.name: number for number, one in enumerate(CONFIGURATIONS)}

INTRODUCTION = """# Benchmarks

How soon does hot memory get to the fast node, how much is moved for it, and what does it cost?
Each *configuration* (a way of placing memory) runs the same *phases* in a virtual machine with two
tiers. The workload knows its own pages and says where they are.
[bench/README.md]({docs}/../bench/README.md) says how it is done, and how to do it elsewhere.
`python -m bench report` makes this page from the files in `data/`. Each file is one trial, with
all that was recorded over time. [missed.md]({pages}/missed.md) says which bars are missed, and why.
There are cells [with a cap of 20 MB/s]({pages}/README.md), and some
[at the default rate limit]({pages}/default-rate/README.md), 200 MB/s.
[programs.md]({pages}/programs.md) has programs on slow memory. Words are in the
[glossary]({docs}/glossary.md); N is the size of the fast node.

**What you can read from it**: which configuration brings the hot set up, how long it takes, how
many bytes it moves, stalls, processor time. **What you cannot**: a gain in speed. All nodes of a
virtual machine are equally fast. So "slowdown" is a model (1 + 0.22 x the share of accesses that
reach the slow node + bytes moved a second / 10 GB/s), and it is called so.

An emulated guest notices other work of its host in times and latencies, and hardly in pages. Each
cell says how busy the host was. Compare within a kernel and a host, and look at n, the number of
trials. A figure is the median of the trials in which it could be read; of an even number it is both
middle values.
"""

# Fewer trials than this decide nothing.
TRIALS_MIN = 3

COLUMNS = """\
- *50 %*, *95 %*: seconds until that share of the hot accesses reaches the fast node: the median,
  with the worst trial in brackets. "never" means not within the time of the phase. Time begins when
  the first kdamond runs (or the switch is set).
- *per hot byte*: bytes that came to the fast node, per byte of the hot set that was not there.
  *excess*: all bytes that came and left, over twice the bytes that had to come.
- *moved*: what the kernel counts as migrated. *futile*: what schemes say that they moved (without
  schemes: *moved*) although no page of the workload or of another program changed its node, as a
  share.
- *steady*: moved per minute, from 10 s after the hot set has arrived.
- *p99*: of requests of the workload that touch 64 pages each. *stalls*: allocation stalls, and
  demotions by the task that allocates. *kdamonds*, *daemon*: of one emulated processor, in the
  trials where it could be read: {read}.
"""

STORE_COLUMNS = """\
Figures of stores are against the best placement of as many pages as the store has on the fast node
at the start:

- *80 %*, *90 %*: seconds until the fast node serves so much of what the best placement would serve.
- *at the end*: what it serves in the last ten seconds, over the best. *worst*: how much less than
  at the start it serves, on average over the worst ten seconds.
- *per point*: bytes moved per point of the share that was gained. *settled*: moved per minute in
  the last thirty seconds.
- *touches*: what the program got done in a second. Compare it within one host and day only.
"""

STORE_HEADS = ("kernel", "configuration", "n", "best", "80 %", "90 %", "at the end", "moved MiB",
               "per point, MiB", "worst", "settled MiB/min", "p99 us", "touches/s", "kdamonds",
               "daemon")  # fmt: skip

HEADS = ("kernel", "configuration", "n", "50 %", "95 %", "at the end", "per hot byte", "excess",
         "moved MiB", "futile", "steady MiB/min", "p99 us", "stalls", "kdamonds", "daemon",
         "slowdown, modelled")  # fmt: skip


def write(cells: Sequence[Cell], folder: Path = PAGES) -> None:
    """Write README.md and the plots that it shows. Remove the plots that were there before."""
    plots = dict(pictures(cells))
    for old in folder.glob("*.svg"):
        old.unlink()
    for name, picture in plots.items():
        (folder / name).write_text(picture)
    (folder / "README.md").write_text(page(cells, tuple(plots), folder))


def page(cells: Sequence[Cell], plots: Iterable[str], folder: Path = PAGES) -> str:
    """Return the text of README.md in `folder`."""
    pages = os.path.relpath(PAGES, folder)
    groups = ranking.grouped(cells)
    shown = tuple(plots)
    parts = [
        INTRODUCTION.format(pages=pages, docs=os.path.relpath(PAGES.parent, folder)),
        *_made(cells),
        *bar_lines(groups, _scale(cells)),
        "## Figures\n",
        COLUMNS.format(read=_read(cells)),
        *([STORE_COLUMNS] if any(cell.seen.get("best") for cell in cells) else []),
    ]
    for one in phase.PHASES:
        stored = one.skew is not None
        rows = phase_rows(groups, one, _store_row if stored else _row)
        if not rows:
            continue
        parts.append(f"### {one.name}: {one.title}\n")
        heads = STORE_HEADS if stored else HEADS
        scene = f"{one.scene.value[0].upper()}{one.scene.value[1:]}. {_lasted(cells, one)}\n"
        parts += [scene, *_table([heads, *rows])]
        parts += [f"![{name}]({name})" for name in shown if name.split("-on-")[0] == one.name]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _read(cells: Sequence[Cell]) -> str:
    """Return a phrase: in how many cells with kdamonds their processor time is known."""
    by_damon = [cell for cell in cells if BY_NAME[cell.key.configuration].has_kdamonds]
    known = sum(cell.seen["kdamond_cpu_s"] is not None for cell in by_damon)
    return f"that of kdamonds in {known} of {len(by_damon)} cells"


def _scale(cells: Sequence[Cell]) -> Scale:
    seen = cells[0].seen
    return Scale(seen["cap"], seen["fast_bytes"])


def _made(cells: Sequence[Cell]) -> list[str]:
    """Return the lines about how the cells were made: machines, kernels, days, the cap."""
    scale = _scale(cells)
    releases = sorted({cell.seen["release"] for cell in cells})
    hosts = sorted({cell.seen["made"]["host"] for cell in cells})
    days = sorted({cell.seen["made"]["date"] for cell in cells})
    titles = [f"- `{one.name}`: {one.title}" for one in CONFIGURATIONS
              if any(cell.key.configuration == one.name for cell in cells)]  # fmt: skip
    return [
        f"Kernels: {', '.join(releases)}. Host: {'; '.join(hosts)}, emulating two processors; a "
        f"fast node of {scale.fast_bytes / MIB:.0f} MiB, a cap of {scale.cap / 1e6:.0f} MB/s. "
        f"Measured {' to '.join(dict.fromkeys((days[0], days[-1])))}. {len(cells)} cells.\n",
        *titles,
        "",
        "Load of the host, averaged over the five minutes before a trial's end (the guest itself "
        f"is up to two of it): {_loads(cells)}.\n",
        f"{provenance.commits(cells)}\n",
        *provenance.hosts(cells),
    ]


def _loads(cells: Sequence[Cell]) -> str:
    """Return the least and the greatest load beside each configuration, in words."""
    told = []
    for one in CONFIGURATIONS:
        made = [cell.seen["made"] for cell in cells if cell.key.configuration == one.name]
        known = [float(about["load"]) for about in made if "load" in about]
        if made:
            span = f"{min(known)} to {max(known)}" if known else "unknown"
            lacking = len(made) - len(known)
            unknown = f" (unknown in {lacking})" if known and lacking else ""
            told.append(f"`{one.name}` {span}{unknown}")
    return ", ".join(told)


def _lasted(cells: Sequence[Cell], one: phase.Phase) -> str:
    """Return a sentence: how long the trials of a phase lasted."""
    names = phase.trials(one)
    lengths = [c.seen["series"]["t"][-1] for c in cells if c.key.phase in names]
    return f"The trials lasted {min(lengths):.0f} to {max(lengths):.0f} s."


def bar_lines(groups: Groups, scale: Scale) -> list[str]:
    """Return the bars as a table. In it, n is the number of trials behind the median."""
    rows: list[tuple[str, ...]] = [("bar", "kernel", "found", "n", "")]
    for bar in ranking.bars(groups, scale):
        if not bar.verdicts:
            rows.append((bar.name, "", "not measured yet", "", ""))
        for verdict in bar.verdicts:
            met = "met" if verdict.met else "**missed**"
            if verdict.trials < TRIALS_MIN:
                met = f"{'met' if verdict.met else 'missed'} so far: fewer than {TRIALS_MIN} trials"
            rows.append((bar.name, verdict.series, verdict.found, str(verdict.trials), met))
    return [
        "## Bars\n",
        "A bar is a result that tierd should reach. Found is the median of n trials of `demand`, "
        "if nothing else is said; of an even number of trials, the worse of the two middle values. "
        f"Fewer than {TRIALS_MIN} trials decide nothing.\n",
        *_table(rows),
    ]


Row = Callable[[str, str, Sequence[Figures]], tuple[str, ...]]


def phase_rows(groups: Groups, one: phase.Phase, row: Row) -> list[tuple[str, ...]]:
    """Return a row for each kernel and configuration. Repeats of a phase count as trials."""
    rows = []
    for series in [*SERIES, *sorted({key[0] for key in groups} - set(SERIES))]:
        for contender in CONFIGURATIONS:
            trials = [
                found
                for name in phase.trials(one)
                for found in groups.get((series, contender.name, name), ())
            ]
            if trials:
                rows.append(row(series, contender.name, trials))
    return rows


def _shown(values: Iterable[float | None], pattern: str) -> str:
    """Return the median of the values that are known, as text; of an even number both middles."""
    known = [value for value in values if value is not None]
    shown = dict.fromkeys(pattern.format(value) for value in middles(known))
    return " / ".join(shown) or "-"


def _time(values: Sequence[float | None]) -> str:
    """Return the median, with the worst value in brackets."""
    middle, most = middles(values), worst(values)
    shown = " / ".join(dict.fromkeys(map(seconds, middle)))
    return shown if middle[-1] == most else f"{shown} ({seconds(most)})"


def _store_row(series: str, name: str, trials: Sequence[Figures]) -> tuple[str, ...]:
    stores = [found.store for found in trials if found.store is not None]

    def in_mib(values: Iterable[float | None]) -> str:
        return _shown((None if one is None else one / MIB for one in values), "{:.1f}")

    return (
        series,
        f"`{name}`",
        str(len(trials)),
        _shown((one.best for one in stores), "{:.1%}"),
        _time([one.t80_s for one in stores]),
        _time([one.t90_s for one in stores]),
        _shown((one.end for one in stores), "{:.1%}"),
        _shown((found.moved_bytes / MIB for found in trials), "{:.0f}"),
        in_mib(one.moved_bytes_per_point for one in stores),
        _shown((one.worst_drop for one in stores), "{:.1%}"),
        in_mib(one.settled_bytes_per_min for one in stores),
        _shown((found.p99_us for found in trials), "{:.0f}"),
        _shown((found.touches_per_s for found in trials), "{:,.0f}"),
        _shown((found.kdamond_cpu for found in trials), "{:.1%}"),
        _shown((found.daemon_cpu for found in trials), "{:.1%}"),
    )


def _row(series: str, name: str, trials: Sequence[Figures]) -> tuple[str, ...]:
    return (
        series,
        f"`{name}`",
        str(len(trials)),
        _time([f.t50_s for f in trials]),
        _time([f.t95_s for f in trials]),
        _shown((f.residency_end for f in trials), "{:.1%}"),
        _shown((f.promoted_per_hot_byte for f in trials), "{:.2f}"),
        _shown((f.excess for f in trials), "{:.2f}"),
        _shown((f.moved_bytes / MIB for f in trials), "{:.0f}"),
        _shown((f.futile for f in trials), "{:.1%}"),
        _shown(
            (None if f.steady_bytes_per_min is None else f.steady_bytes_per_min / MIB
             for f in trials), "{:.1f}"
        ),
        _shown((f.p99_us for f in trials), "{:.0f}"),
        _shown((f.stalls + f.direct for f in trials), "{:.0f}"),
        _shown((f.kdamond_cpu for f in trials), "{:.1%}"),
        _shown((f.daemon_cpu for f in trials), "{:.1%}"),
        _shown((f.slowdown_modelled for f in trials), "{:.3f}"),
    )  # fmt: skip


def pictures(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """Return the plots of each kernel, with their names. Only the first trial is drawn.

    Four plots show the timeline of static, shifts and idle. Each other phase has one plot, of the
    residency of the hot set.
    """
    drawn = {(c.key.series, c.key.configuration, c.key.phase): c for c in reversed(cells)}
    for cell in cells:
        key = (cell.key.series, cell.key.configuration, cell.key.phase)
        if cell.key.trial < drawn[key].key.trial:
            drawn[key] = cell
    found: list[tuple[str, str]] = []
    for series in sorted({cell.key.series for cell in cells}):
        chains = {
            one.name: [drawn[series, one.name, name] for name in TIMELINE
                       if (series, one.name, name) in drawn]
            for one in CONFIGURATIONS
        }  # fmt: skip
        chains = {name: chain for name, chain in chains.items() if chain}
        if chains:
            found += _timeline(series, chains)
        for one in phase.PHASES:
            if one.name in ("static", "shift", "idle"):
                continue
            singles = {c.name: [drawn[series, c.name, one.name]] for c in CONFIGURATIONS
                       if (series, c.name, one.name) in drawn}  # fmt: skip
            if singles:
                picture = _plot("hit", f"{one.name} on {series}: hot accesses on the fast node",
                                "%", singles, 100)  # fmt: skip
                found.append((f"{one.name}-on-{series}.svg", picture))
    return found


def _timeline(series: str, chains: dict[str, list[Cell]]) -> list[tuple[str, str]]:
    kinds = (
        ("hit", "hot accesses that reach the fast node", "%", 100.0),
        ("moved", "memory moved so far", "MiB", None),
        ("free", "free memory of the fast node", "MiB", None),
        ("quota", "what the promotion scheme may move in a window", "MiB", None),
    )
    return [
        (f"static-on-{series}-{kind}.svg", picture)
        for kind, title, unit, y_max in kinds
        if (picture := _plot(kind, f"static, shifts and idle on {series}: {title}", unit, chains,
                             y_max))
    ]  # fmt: skip


def _plot(
    kind: str, title: str, unit: str, chains: dict[str, list[Cell]], y_max: float | None
) -> str:
    """Plot the cells of each configuration side by side. A phase is as wide as its longest cell."""
    spans: dict[str, float] = {}
    for chain in chains.values():
        for cell in chain:
            length = cell.seen["series"]["t"][-1]
            spans[cell.key.phase] = max(spans.get(cell.key.phase, 0.0), length)
    starts: dict[str, float] = {}
    for name in sorted(spans, key=lambda one: TIMELINE.index(one) if one in TIMELINE else 0):
        starts[name] = sum(spans[other] for other in starts)
    lines = []
    for name, chain in chains.items():
        points: list[tuple[float, float | None]] = []
        carried = 0.0
        for cell in chain:
            values = _values(kind, cell)
            points += [(starts[cell.key.phase] + t, value + carried) for t, value in values]
            if values:
                points.append((starts[cell.key.phase] + values[-1][0], None))
            if kind == "moved":
                carried += values[-1][1]
        if points:
            lines.append(Line(name, COLOUR[name], tuple(points)))
    marks = [Mark(start, name) for name, start in starts.items()] if len(starts) > 1 else []
    return plot.svg(title, "seconds", unit, lines, marks, y_max) if lines else ""


def _values(kind: str, cell: Cell) -> list[tuple[float, float]]:
    series = cell.seen["series"]
    times = series["t"]
    match kind:
        case "hit":
            values = [value * 100 for value in series["hit"]]
        case "moved":
            values = [pages * PAGE / MIB for pages in series["moved"]]
        case "free":
            values = [kib / 1024 for kib in series["free_kib"]]
        case _:
            rows = [row for row in cell.seen["trace"] if row[1] is not None]
            return [(row[0], row[1] / MIB) for row in rows]
    return list(zip(times, values, strict=True))


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = ("| " + " | ".join(row) + " |" for row in rows)
    return [head, "|" + "---|" * len(rows[0]), *body, ""]
