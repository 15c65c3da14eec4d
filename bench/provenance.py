"""Says of which hosts and commits the cells of a page are, and which medians mix hosts. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from bench import phase
from bench.cells import Cell
from bench.configuration import CONFIGURATIONS, SERIES


def commits(cells: Sequence[Cell]) -> str:
    """Return a sentence: the commits of all cells, and how many cells do not have one."""
    known = Counter(made["commit"] for cell in cells if "commit" in (made := cell.seen["made"]))
    told = [f"{commit} ({count})" for commit, count in sorted(known.items())]
    lacking = len(cells) - known.total()
    if lacking:
        told.append(f"not written down ({lacking})")
    return f"Commits of tierd, with their number of cells: {', '.join(told)}."


def hosts(cells: Sequence[Cell]) -> list[str]:
    """Return the lines about hosts; none if all cells are of one."""
    names = sorted({cell.seen["made"]["host"] for cell in cells})
    if len(names) < 2:
        return []
    letters = {name: chr(ord("A") + at) for at, name in enumerate(names)}
    listed = "; ".join(f"{letter} is {name}" for name, letter in letters.items())
    return [
        f"Cells are of {len(names)} hosts: {listed}. The same trial takes another time on another "
        "host. So a median of trials of two hosts is less sure, and a comparison of configurations "
        "of different hosts decides nothing about times. All cells of a kernel and phase that is "
        "not in this table are of one host. The table has the number of trials on each:\n",
        "| kernel | phase | trials |",
        "|---|---|---|",
        *_mixed(cells, letters),
        "",
    ]


def _mixed(cells: Sequence[Cell], letters: dict[str, str]) -> Iterator[str]:
    """Yield a row for each kernel and phase whose cells are of more than one host."""
    counts: dict[tuple[str, str], dict[str, Counter[str]]] = {}
    for cell in cells:
        own = counts.setdefault((cell.key.series, cell.key.phase), defaultdict(Counter))
        own[cell.key.configuration][letters[cell.seen["made"]["host"]]] += 1
    for series in SERIES:
        for one in phase.PHASES:
            # All repeats of a phase are of one boot.
            found = counts.get((series, phase.trials(one)[0]), {})
            if len(set().union(*found.values())) > 1:
                told = (
                    f"`{config.name}` {_counted(found[config.name])}"
                    for config in CONFIGURATIONS
                    if config.name in found
                )
                yield f"| {series} | {one.name} | {', '.join(told)} |"


def _counted(found: Counter[str]) -> str:
    return " + ".join(f"{count} {letter}" for letter, count in sorted(found.items()))
