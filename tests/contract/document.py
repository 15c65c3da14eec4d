"""docs/kernel-support.md from the table: `python -m tests.contract.document` writes it."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import groupby
from pathlib import Path

from tests.contract.behaviour import AREAS, SERIES, Behaviour, Expected, table
from tierd.sim.kernel_series import load

PAGE = Path(__file__).parent.parent.parent / "docs" / "kernel-support.md"

HEAD = """\
# What each kernel does

This page is about DAMON and memory tiers in real kernels. Each line is a fact that a test checks,
on real kernels ({releases}) in virtual machines, and on the
simulated kernel of each series. *Seen* is what the series show; a series that is not named behaves
like the one before it. *By* names the function in the kernel's source that does it. Words are in
the [glossary](glossary.md).

`python -m tests.contract.document` makes this page from the contract suite, and a test fails if it
is out of date. [CONTRIBUTING.md](../CONTRIBUTING.md) says how to add a fact.
"""


def page(entries: Sequence[Behaviour]) -> str:
    """The whole document."""
    releases = ", ".join(load(series).release.partition("+")[0] for series in SERIES)
    parts = [HEAD.format(releases=releases)]
    parts.append(
        f"There are {len(entries)} facts; {sum(map(differs, entries))} differ between series.\n"
    )
    modules = {area.rpartition(".")[2]: import_module(area) for area in AREAS}
    for area, behaviours in groupby(entries, lambda entry: entry.area):
        about = (modules[area].__doc__ or "").partition("\n\n")[0]
        parts.append(f"## {area.capitalize()}\n\n{' '.join(about.split())}\n")
        parts.append("| fact | seen | by |\n|---|---|---|\n" + "".join(map(row, behaviours)))
    return "\n".join(parts)


def differs(entry: Behaviour) -> bool:
    """Whether series show different things."""
    return len({shown(entry.expect.of(series)) for series in SERIES}) > 1


def row(entry: Behaviour) -> str:
    """The line of a behaviour."""
    seen = "<br>".join(changes(entry))
    return f"| {cell(entry.says)} | {seen} | {cell(entry.cites)} |\n"


def changes(entry: Behaviour) -> Iterator[str]:
    """What the first series shows, and what changes with a later one."""
    before: Expected = entry.expect.of(SERIES[0])
    yield cell(shown(before)) if not differs(entry) else f"{SERIES[0]}: {cell(shown(before))}"
    for series in SERIES[1:]:
        now = entry.expect.of(series)
        if shown(now) != shown(before):
            yield f"{series}: {cell(shown(changed(before, now)))}"
        before = now


def changed(before: Expected, now: Expected) -> Expected:
    """Of two mappings of the same names only what is not the same."""
    if isinstance(before, Mapping) and isinstance(now, Mapping) and before.keys() == now.keys():
        return {name: now[name] for name in now if shown(now[name]) != shown(before[name])}
    return now


def shown(value: Expected) -> str:
    """An expectation in words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value in ("", [], ()):
        return "nothing"
    if isinstance(value, Mapping):
        return "; ".join(f"{', '.join(names)}: {text}" for text, names in alike(value).items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(shown, value))
    return escaped(str(value))


def alike(values: Mapping[str, Expected]) -> dict[str, list[str]]:
    """The names that share a value, by that value in words."""
    found: dict[str, list[str]] = {}
    for name, value in values.items():
        text = f"({shown(value)})" if isinstance(value, Mapping) else shown(value)
        found.setdefault(text, []).append(escaped(name))
    return found


def escaped(text: str) -> str:
    """Text in which blanks and line ends can be seen."""
    return repr(text) if text != text.strip() else text


def cell(text: str) -> str:
    """Text that ends no cell and marks nothing up."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("\n", " ")


def main() -> int:
    PAGE.write_text(page(table()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
