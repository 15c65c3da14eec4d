"""The tables of docs/simulate.md, from the cells in docs/prediction.

    python -m bench.prediction_page

Nothing is left out: a cell that is wrong is in the table like the others.
"""

import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from bench import least
from bench.least import Least
from bench.prediction import Cell, summary
from bench.prediction import load as load_cells

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/simulate.md"
CELLS = ROOT / "docs/prediction"
BEGIN, END = (
    f"<!-- cells: {where} of what bench.prediction_page writes -->" for where in ("begin", "end")
)

TITLES = {
    "hot": "hot: 300 MiB in one piece, 400 MiB warm, 900 MiB cold",
    "store": "store: zipf 0.99 over 1.6 GiB, scattered by page",
    "mixed": "mixed: a scattered store of 1 GiB, a hot set of 150 MiB, 400 MiB cold",
    "drift": "drift: 300 MiB hot, of which 4 % change each minute",
    "alike": "alike: 1.6 GiB, all pages used alike",
    "flat": "flat: zipf 0.6 over 1.2 GiB, scattered by page, 400 MiB cold",
    "walk": "walk: 200 MiB 25 times a second, 60 MiB 150 times, a scattered store of 900 MiB",
}


def table(cells: Sequence[Cell]) -> list[str]:
    """Return the lines of a table, and below it what it comes to and where it was made."""
    lines = [
        "| workload | seed | fast | predicted | interval | truth | best | off, in points |",
        "|---" * 8 + "|",
    ]
    for name, found in groupby(cells, lambda one: one.workload):
        for number, one in enumerate(found):
            title = TITLES.get(name, name) if not number else ""
            outside = "" if one.inside else ", outside"
            lines.append(
                f"| {title} | {one.seed} | {one.fast_mib} MiB | {one.predicted:.1%} | "
                f"{one.low:.0%} to {one.high:.0%}{outside} | {one.truth:.1%} | {one.best:.1%} | "
                f"{100 * one.off:.1f} |"
            )
    return [*lines, "", f"{summary(cells).capitalize()}. {made(cells)}"]


def least_table(cells: Sequence[Least]) -> list[str]:
    """Return the lines of the table of least sizes."""
    lines = [
        "| workload | seed | target | the size that is named | a tenth smaller serves | this size "
        "| a tenth larger | verdict |",
        "|---" * 8 + "|",
    ]
    for name, found in groupby(cells, lambda one: one.workload):
        for number, one in enumerate(found):
            title = TITLES.get(name, name) if not number else ""
            size = "none" if one.predicted_mib is None else f"{one.predicted_mib} MiB"
            shares = " | ".join(
                "-" if share is None else f"{share:.1%}"
                for share in (one.smaller, one.there, one.larger)
            )
            lines.append(
                f"| {title} | {one.seed} | {one.target:.0%} | {size} | {shares} | {one.verdict} |"
            )
    return [*lines, "", f"{least.summary(cells).capitalize()}. {made(cells)}"]


def made(cells: Sequence[Cell] | Sequence[Least]) -> str:
    """Return where, when and how often the cells were made."""
    parts = {
        key: sorted({one.made.get(key, "unknown") for one in cells})
        for key in ("date", "commit", "host")
    }
    loads = sorted((one.made["load"] for one in cells if "load" in one.made), key=float)
    load = f"load {loads[0]} to {loads[-1]}" if loads else "load unknown"
    kernels = ", ".join(sorted({one.kernel for one in cells}))
    named = "; ".join(f"{key} {', '.join(values)}" for key, values in parts.items())
    return f"Kernel {kernels}; {named}; {load}; n = 1 for each cell."


def section(
    simulated: Sequence[Cell],
    held_out: Sequence[Cell],
    sizes: Sequence[Least],
    guests: Sequence[Cell],
) -> str:
    lines = ["**On the simulated machine**", "", *table(simulated)]
    if held_out:
        lines += ["", "**Held out**: at these nobody looked when faults were mended", ""]
        lines += table(held_out)
    if sizes:
        lines += ["", "**The least fast memory for a target**, on the simulated machine", ""]
        lines += least_table(sizes)
    for kernel, found in groupby(guests, lambda one: one.kernel):
        lines += ["", f"**In virtual machines with Linux {kernel}**", "", *table(tuple(found))]
    return "\n".join(lines)


def read() -> tuple[list[Cell], list[Cell], list[Least], list[Cell]]:
    """Return the cells of the simulated machine, those held out, least sizes, those of guests."""
    simulated, held_out, guests = (
        load_cells(CELLS / f"{name}.json") for name in ("simulated", "held-out", "guests")
    )
    return simulated, held_out, least.load(CELLS / "least.json"), guests


def renewed(page: str, text: str) -> str:
    """Return the page with another text between the marks."""
    before, _, rest = page.partition(f"{BEGIN}\n")
    _, mark, after = rest.partition(f"\n{END}")
    if not mark:
        raise ValueError(f"{PAGE}: expected the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def main() -> int:
    PAGE.write_text(renewed(PAGE.read_text(), section(*read())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
