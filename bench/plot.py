"""Draws line plots as SVG text: a few lines over time, with axes and a legend. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 150, 34, 40

# Colours that colour-blind readers can tell apart. The order is fixed, so that a name keeps its
# colour.
COLOURS = ("#888888", "#e69f00", "#56b4e9", "#cc79a7", "#0072b2", "#f0c808", "#d62728", "#009e73")

# More points than pixels would only make the files larger.
POINTS_MAX = 300

TICKS = 5


@dataclass(frozen=True, slots=True)
class Line:
    """A name, the number of a colour, and points by rising x. A y of None is a gap."""

    name: str
    colour: int
    points: tuple[tuple[float, float | None], ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment at which something happened, drawn as a dashed vertical line with a word."""

    x: float
    name: str


def svg(
    title: str,
    x_name: str,
    y_name: str,
    lines: Sequence[Line],
    marks: Sequence[Mark] = (),
    y_max: float | None = None,
) -> str:
    """Return the whole picture. Its axes begin at zero."""
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points if y is not None]
    x_top, y_top = _round_up(max(xs, default=1.0)), y_max or _round_up(max(ys, default=1.0))
    inner_w, inner_h = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + x / x_top * inner_w, TOP + inner_h - min(y, y_top) / y_top * inner_h

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 20, title, "start", 'font-weight="bold"'),
        _text(LEFT + inner_w / 2, HEIGHT - 6, x_name, "middle"),
        f'<g transform="translate(14 {TOP + inner_h / 2:.0f}) rotate(-90)">'
        f"{_text(0, 0, y_name, 'middle')}</g>",
    ]
    for step in range(TICKS + 1):
        x, y = x_top * step / TICKS, y_top * step / TICKS
        at_x, at_y = place(x, 0)[0], place(0, y)[1]
        parts.append(_stroke(LEFT, at_y, LEFT + inner_w, at_y, "#dddddd"))
        parts.append(_text(LEFT - 6, at_y + 4, f"{y:g}", "end"))
        parts.append(_text(at_x, TOP + inner_h + 16, f"{x:g}", "middle"))
    for mark in marks:
        at_x = place(mark.x, 0)[0]
        parts.append(_stroke(at_x, TOP, at_x, TOP + inner_h, "#999999", 'stroke-dasharray="3 3"'))
        parts.append(_text(at_x + 3, TOP - 3, mark.name, "start", 'font-size="10" fill="#555555"'))
    for row, line in enumerate(lines):
        colour = COLOURS[line.colour % len(COLOURS)]
        for run in _runs(thinned(line.points)):
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(x, y) for x, y in run))
            parts.append(
                f'<polyline fill="none" stroke="{colour}" stroke-width="1.8" points="{path}"/>'
            )
        y = TOP + 12 + row * 18
        parts.append(_stroke(WIDTH - RIGHT + 12, y, WIDTH - RIGHT + 32, y, colour, "", 3))
        parts.append(_text(WIDTH - RIGHT + 38, y + 4, line.name, "start"))
    return "\n".join([*parts, "</svg>", ""])


def thinned(
    points: Sequence[tuple[float, float | None]],
) -> tuple[tuple[float, float | None], ...]:
    """Return every n-th point and the last one, so that there are at most POINTS_MAX or so."""
    step = -(-len(points) // POINTS_MAX) or 1
    return (*points[:-1:step], *points[-1:])


def _runs(points: Sequence[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
    """Return the runs of points without gaps."""
    runs: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        if y is None:
            runs.append([])
        else:
            runs[-1].append((x, y))
    return [run for run in runs if run]


def _round_up(value: float) -> float:
    """Return the next number that is 1, 1.5, 2, 2.5, 3, 4, 5, 6 or 8 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 1.0
    while power * 10 <= value:
        power *= 10
    while power > value:
        power /= 10
    steps = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
    return next(step * power for step in steps if step * power >= value * 0.999)


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" {more}>{escape(text)}</text>'


def _stroke(
    x1: float, y1: float, x2: float, y2: float, colour: str, more: str = "", width: float = 1
) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}" {more}/>'
