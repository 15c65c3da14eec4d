"""Keeps what was measured in files: one for each kernel, configuration, phase and trial.

A run measures only the cells that are missing, so it can go on after an interruption.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench import phase
from bench.phase import Phase

SCHEMA = "tierd.bench/1"
FOLDER = Path(__file__).parent.parent / "docs/benchmarks/data"

# A sample is due every half second. If none came for this long, the host had no time for the guest.
# The guest's kernel threads waited too, so the figures mean nothing.
GAP_S_MAX = 2.0


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Names a cell. `phase` is the name of one repeat, such as shift-2."""

    series: str
    configuration: str
    phase: str
    trial: int

    @property
    def path(self) -> Path:
        return Path(self.series) / self.configuration / f"{self.phase}.{self.trial}.json"


@dataclass(frozen=True, slots=True)
class Cell:
    """A key, and what was seen in one phase: the document that bench.inside prints."""

    key: Key
    seen: dict[str, Any]


def missing(
    folder: Path, series: str, configuration: str, phases: tuple[Phase, ...], trial: int
) -> bool:
    """True if a timeline has a phase that has not been measured in this trial."""
    keys = (Key(series, configuration, name, trial) for p in phases for name in phase.trials(p))
    return not all((folder / key.path).exists() for key in keys)


def split(
    told: dict[str, Any], series: str, configuration: str, trial: int, made: dict[str, str]
) -> Iterator[Cell]:
    """Split the document of one boot into its cells."""
    shared = {name: value for name, value in told.items() if name != "phases"}
    for number, (name, seen) in enumerate(told["phases"].items()):
        key = Key(series, configuration, name, trial)
        told_first = {"schema": SCHEMA, "first": number == 0}
        yield Cell(key, {**told_first, **seen, **shared, "made": made})


def longest_gap_s(told: dict[str, Any]) -> float:
    """Return the longest time between two samples in all phases of one boot."""
    return max(
        (
            after - before
            for seen in told["phases"].values()
            for before, after in pairwise(seen["series"]["t"])
        ),
        default=0.0,
    )


def save(folder: Path, cell: Cell) -> None:
    path = folder / cell.key.path
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f"{json.dumps(name)}: {_short(cell.seen[name])}" for name in cell.seen)
    path.write_text(f"{{{lines}}}\n")


def load(folder: Path) -> tuple[Cell, ...]:
    """Return all cells that have been measured."""
    cells = []
    for path in sorted(folder.glob("*/*/*.json")):
        name, trial, _ = path.name.rsplit(".", 2)
        key = Key(path.parent.parent.name, path.parent.name, name, int(trial))
        cells.append(Cell(key, json.loads(path.read_text())))
    return tuple(cells)


def _short(value: Any) -> str:
    """Return JSON without blanks, with each series on a line of its own."""
    if isinstance(value, dict) and all(isinstance(item, list) for item in value.values()):
        columns = (f"{json.dumps(name)}: {_short(value[name])}" for name in value)
        return "{" + ",\n".join(columns) + "}"
    return json.dumps(value, separators=(",", ":"))
