"""Charts of numbers over time, drawn with characters, for terminals of any width."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

Values = Sequence[float | None]
"""A value for each column; None where there is no value."""


class Ink(NamedTuple):
    """The characters to draw with: the levels of a cell, from empty to full, and two lines.

    It is a tuple, because the dataclasses module takes longer to load than the rest of `why`.
    """

    levels: str
    frame: str
    mark: str


UNICODE = Ink(" ▁▂▃▄▅▆▇█", "│", "┈")
ASCII = Ink(" .:-=+*%#", "|", "-")


def ink_for(encoding: str | None) -> Ink:
    """Return the characters that a terminal of that encoding can show."""
    return UNICODE if (encoding or "").lower().replace("-", "").startswith("utf") else ASCII


def columns_of(
    points: Iterable[tuple[float, float]],
    start: float,
    end: float,
    columns: int,
    holds: float = 0.0,
) -> tuple[float | None, ...]:
    """Return, for each column, the mean of the points (moment, value) that fall into it.

    A column without a point takes the value before it, if that is at most `holds` seconds old.
    """
    values: list[list[float]] = [[] for _ in range(columns)]
    width = (end - start) / columns
    for moment, value in points:
        if start <= moment <= end:
            values[min(columns - 1, int((moment - start) / width))].append(value)
    means = [sum(column) / len(column) if column else None for column in values]
    return tuple(_held(means, int(holds / width)))


def _held(values: Sequence[float | None], columns: int) -> Iterator[float | None]:
    last, left = None, 0
    for value in values:
        last, left = (value, columns) if value is not None else (last, left - 1)
        yield last if left >= 0 else None


def sparkline(values: Values, most: float, ink: Ink) -> str:
    """Return one row of cells: the height of each value, from 0 to `most`."""
    return "".join(_cell(value, 0.0, most, ink) for value in values)


def chart(
    values: Values,
    rows: int,
    most: float,
    label: Callable[[float], str],
    ink: Ink,
    mark: float | None = None,
) -> list[str]:
    """Return a chart: rows from `most` down to 0, with labels; a line is drawn at `mark`."""
    top, bottom = label(most), label(0)
    width = max(len(top), len(bottom))
    marked = None if mark is None or most <= 0 else min(rows - 1, int(mark / most * rows))
    lines = []
    for row in reversed(range(rows)):
        low, high = most * row / rows, most * (row + 1) / rows
        cells = "".join(_cell(value, low, high, ink) for value in values)
        if row == marked:
            cells = cells.replace(" ", ink.mark)
        named = top if row == rows - 1 else bottom if row == 0 else ""
        lines.append(f"{named.rjust(width)} {ink.frame}{cells}".rstrip())
    return lines


def _cell(value: float | None, low: float, high: float, ink: Ink) -> str:
    """Return the character for how much of the span from `low` to `high` a value fills."""
    if value is None or high <= low:
        return ink.levels[0]
    steps = len(ink.levels) - 1
    filled = (value - low) / (high - low) * steps
    # Any value above 0 is shown, however small it is.
    level = round(filled) if filled >= 1 or low > 0 or value <= 0 else 1
    return ink.levels[max(0, min(steps, level))]
