"""Makes docs/benchmarks/programs.md from the cells of programs on slow memory. Only `main` does IO.

`python -m bench.speed` reads what `python -m bench.quick --keep` has left there.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

from bench import cells, comparison, figures, program, ranking, throughput
from bench.cells import Cell
from bench.comparison import Comparison
from bench.throughput import Trial

FOLDER = cells.FOLDER / "programs"
PAGE = cells.FOLDER.parent / "programs.md"
PICTURES = "programs"

OWN, BASE, TOP = "tierd", comparison.BASE, "all-fast"
TRIALS_MIN = 3
# A loss within this is what two trials of the same differ by.
SAME = comparison.SAME
# Seconds per second that the emulator may wait for the host. It has two processors, and threads for
# the disk and the console, so this is an eighth of its time.
BUSY = 0.25

INTRODUCTION = """# Programs on slow memory

What do programs that nobody here wrote gain from tierd, on a machine whose slow memory is slow?
[quick.md](quick.md) says how it is measured. `python -m bench.speed` makes
this page from the cells in `data/programs/`.
"""

FIGURES = """## Figures

All contenders of a trial have their turns in one boot, beside one program, and begin with the same
placement of its pages. In the next trial another contender is the first, in the same boot or in
another one. So a figure is compared within its trial only: rates and p99 are divided by those of
`all-fast` in the same trial. p99 of different hosts are never compared.

- *operations*: a second, by the driver's clock. *first half minute*: from when the contender is in
  force. *settled*: the last 15 seconds. While a contender starts, memory does not wait, and nothing
  is counted: Python loads for a minute on such a machine, once.
- *served*: of user code's accesses that missed the processors' caches, the share that the fast node
  served.
- *moved per byte that stayed*: all that the kernel moved, over the program's memory that was on the
  slow node at first and is on the fast node at last. A dash: less than 1 MiB came up and stayed.
- *lost hot-seconds*: the time in force, weighted by the share that the fast node did not serve.
- *kdamonds*, *daemon*: seconds of an emulated processor, in the whole time in force. A dash means
  that it could not be read. In cells before commit 8a20676 the daemon's time has some six seconds
  more: what it took to start.
- *host*: seconds that the emulator waited for a processor of the host, per second. Above 0.25 the
  host had too much other work, and nothing is judged.
- A figure is the median of n trials, and of an even number of trials both middle values. In
  brackets are the least and the greatest.
"""

HEADS = ("contender", "n", "operations, first half minute", "operations, settled", "p99, settled",
         "served, first half minute", "served, settled", "moved MiB", "moved per byte that stayed",
         "lost hot-seconds", "kdamonds s", "daemon s", "host")  # fmt: skip


HOGS = """## Redis beside cold memory

This is HMSDK's own benchmark, at our size. A process takes most of the fast node and never touches
it again. Then redis comes, a tenth as large as the fast node, and part of it finds no room there.
*Slowdown* is how many times as many operations a second redis has in `all-fast` as with the
contender, settled. *Left* is the share of redis's memory that is on the slow node.
"""

HOG_HEADS = ("kernel", "cold memory, of the fast node", "contender", "n",
             "on the slow node at first", "left on it", "slowdown", "p99, settled", "moved MiB",
             "host")  # fmt: skip


def folder(cap: int) -> Path:
    """Return where the cells with this cap are kept."""
    return FOLDER / f"{cap // 1_000_000}MBs"


def kept() -> tuple[Cell, ...]:
    """Return all cells that are kept."""
    return tuple(cell for one in sorted(FOLDER.glob("*MBs")) for cell in cells.load(one))


def page(found: Sequence[Cell]) -> str:
    """Return the text of the page."""
    compared = list(comparisons(found))
    alone = [(key, one) for key, one in compared if not program.BY_NAME[key[0]].hog_share]
    beside = [(key, one) for key, one in compared if program.BY_NAME[key[0]].hog_share]
    parts = [INTRODUCTION, "## tierd against the others\n", *verdicts(alone), FIGURES]
    parts += cold_hogs(beside) if beside else []
    for key, one in alone:
        parts += [f"## {title(key)}\n", setting(one), ""]
        parts += [*table(one), f"![{title(key)}]({PICTURES}/{picture(key)})\n"]
    parts += [comparison.LIMITS]
    return "\n".join(parts).rstrip() + "\n"


Key = tuple[str, str, int]


def comparisons(found: Sequence[Cell]) -> Iterator[tuple[Key, Comparison]]:
    """Group cells by program, kernel and cap: only these are compared with each other."""
    keys = sorted({key_of(cell) for cell in found})
    for key in keys:
        chosen = [cell for cell in found if key_of(cell) == key]
        yield key, comparison.compare(title(key), chosen)


def key_of(cell: Cell) -> Key:
    return cell.key.phase, cell.key.series, cell.seen["cap"]


def title(key: Key) -> str:
    name, series, cap = key
    return f"{program.BY_NAME[name].title} on {series}, a cap of {cap // 1_000_000} MB/s"


def picture(key: Key) -> str:
    name, series, cap = key
    return f"{name}-on-{series}-at-{cap // 1_000_000}.svg"


def verdicts(compared: Sequence[tuple[Key, Comparison]]) -> list[str]:
    """Return a table of tierd's rates over those of the others, and a sentence on each loss."""
    rows: list[tuple[str, ...]] = [
        ("program", "kernel", "against", "first half minute", "settled", "")
    ]
    losses = []
    for key, one in compared:
        for name in one.trials:
            if name in (OWN, TOP) or OWN not in one.trials:
                continue
            early, late = (
                throughput.relative(one.trials[OWN], one.trials[name], window)
                for window in ("first half minute", "settled")
            )
            waits = [t.waited for which in (OWN, name) for t in one.trials[which]]
            said = verdict(early, late, max((w for w in waits if w is not None), default=0.0))
            rows.append((key[0], key[1], f"`{name}`", spread(early), spread(late), said))
            if said.startswith("**"):
                losses.append(f"{key[0]} on {key[1]} against `{name}`")
    if not compared:
        return ["Nothing has been measured yet.\n"]
    decided = [row for row in rows[1:] if "tierd" in row[-1] or row[-1] == "alike"]
    told = f"{len(decided)} of {len(rows) - 1} comparisons are decided. "
    told += (
        f"tierd loses in: {'; '.join(losses)}.\n" if losses else "tierd loses in none of these.\n"
    )
    return [
        "Operations a second with tierd over those of the other in the same boot: the median, with "
        "the least and the greatest in brackets.\n",
        *lines(rows), told,
    ]  # fmt: skip


def verdict(early: Sequence[float], late: Sequence[float], waited: float) -> str:
    """Judge tierd against one other, by the medians of both windows."""
    if len(late) < TRIALS_MIN:
        return f"fewer than {TRIALS_MIN} trials"
    if waited > BUSY:
        return "the host was too busy"
    worse = [
        words
        for ratios, words in ((early, "in the first half minute"), (late, "settled"))
        if ratios and median(ratios) < 1 - SAME
    ]
    if worse:
        return f"**tierd loses** {' and '.join(worse)}"
    return "tierd wins" if median(late) > 1 + SAME else "alike"


def cold_hogs(compared: Sequence[tuple[Key, Comparison]]) -> list[str]:
    """Return the table that HMSDK shows: one program beside cold memory of several sizes."""
    rows: list[tuple[str, ...]] = [HOG_HEADS]
    for key, one in compared:
        top = one.trials.get(TOP, ())
        for name, trials in one.trials.items():
            rates = throughput.relative(top, trials, "settled")
            late = throughput.relative(trials, top, "settled", lambda window: window.p99_us)
            rows.append(
                (
                    key[1],
                    f"{program.BY_NAME[key[0]].hog_share:.0%}",
                    f"`{name}`",
                    str(len(trials)),
                    _shown(trials, lambda t: t.slow_shares[0], "{:.1%}"),
                    _shown(trials, lambda t: t.slow_shares[1], "{:.1%}"),
                    spread(rates),
                    spread(late),
                    _shown(trials, lambda t: t.moved_bytes / ranking.MIB, "{:.0f}"),
                    _shown(trials, lambda t: t.waited, "{:.2f}"),
                )
            )
    return [HOGS, *(f"{key[1]}, {key[0]}: {setting(one)}" for key, one in compared), *lines(rows)]


def setting(one: Comparison) -> str:
    """Return a paragraph that says where, when and how the trials ran."""
    seen = one.first
    all_cells = [cell for cells in one.cells.values() for cell in cells]
    made = [cell.seen["made"] for cell in all_cells]
    loads = [float(about["load"]) for about in made]
    size = sum(seen["pages"]["first"].values()) * figures.PAGE
    befores, afters = ({cell.seen[name] for cell in all_cells} for name in ("before", "after"))
    return (
        f"Kernel {_listed(c.seen['release'] for c in all_cells)}; "
        f"{_listed(about['host'] for about in made)}, load {min(loads)} to {max(loads)}; commit "
        f"{_listed(about.get('commit', 'unknown') for about in made)}; "
        f"{_listed(about['date'] for about in made)}. {size / ranking.MIB:.0f} MiB, "
        f"{size / seen['fast_bytes']:.1f} times the fast node of "
        f"{seen['fast_bytes'] / ranking.MIB:.0f} MiB. A turn is {_listed(befores)} s without the "
        f"contender, then {_listed(afters)} s with it. Memory is "
        f"{seen['slowness']['stretch']} times as slow as the machine's figures say.\n"
    )


def _listed(values: "Iterator[object] | set[object]") -> str:
    return ", ".join(sorted({str(value) for value in values}))


def table(one: Comparison) -> list[str]:
    rows: list[tuple[str, ...]] = [HEADS]
    top = one.trials.get(TOP, ())
    for name, trials in one.trials.items():
        rates = [
            throughput.relative(trials, top, window) for window in ("first half minute", "settled")
        ]
        rows.append(
            (
                f"`{name}`",
                str(len(trials)),
                *(spread(rate) for rate in rates),
                spread(throughput.relative(trials, top, "settled", lambda w: w.p99_us)),
                _shown(trials, lambda t: t.windows["first half minute"].fast_share, "{:.1%}"),
                _shown(trials, lambda t: t.windows["settled"].fast_share, "{:.1%}"),
                _shown(trials, lambda t: t.moved_bytes / ranking.MIB, "{:.0f}"),
                _shown(trials, lambda t: t.moved_per_stayed, "{:.2f}"),
                _shown(trials, lambda t: t.lost_s, "{:.1f}"),
                _shown(trials, lambda t: t.kdamond_cpu_s, "{:.1f}"),
                _shown(trials, lambda t: t.daemon_cpu_s, "{:.1f}"),
                _shown(trials, lambda t: t.waited, "{:.2f}"),
            )
        )
    return lines(rows)


def _shown(trials: Sequence[Trial], figure: Callable[[Trial], float | None], shown: str) -> str:
    known = [value for trial in trials if (value := figure(trial)) is not None]
    middles = dict.fromkeys(shown.format(value) for value in ranking.middles(known))
    return " / ".join(middles) or "-"


def spread(ratios: Sequence[float]) -> str:
    """Return the median, or both middle values, and in brackets the least and the greatest."""
    if not ratios:
        return "-"
    middles = " / ".join(dict.fromkeys(f"{value:.2f}" for value in ranking.middles(ratios)))
    return f"{middles} ({min(ratios):.2f} to {max(ratios):.2f})"


def lines(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = ("| " + " | ".join(row) + " |" for row in rows)
    return [head, "|" + "---|" * len(rows[0]), *body, ""]


def pictures(found: Sequence[Cell]) -> dict[str, str]:
    """Return the pictures of the page by their names."""
    return {picture(key): comparison.svg(one) for key, one in comparisons(found)}


def main() -> None:
    argparse.ArgumentParser(prog="python -m bench.speed", description=__doc__).parse_args()
    found = kept()
    beside = PAGE.parent / PICTURES
    beside.mkdir(exist_ok=True)
    for old in beside.glob("*.svg"):
        old.unlink()
    for name, text in pictures(found).items():
        (beside / name).write_text(text)
    PAGE.write_text(page(found))
    print(f"{PAGE}: {len(found)} cells")


if __name__ == "__main__":
    main()
