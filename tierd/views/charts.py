"""Charts over time for the page, as HTML with SVG in it.

An SVG is stretched to the width of its place, and so would be text in it. So all text is HTML.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise

from tierd.frozen import dataclass
from tierd.views.history import GAP_S_MAX, HOLDS_S, Points
from tierd.views.markup import escaped
from tierd.views.render import moment

# The picture's units. Wider than most screens show it, so that no two readings fall together.
WIDTH = 720
HEIGHT = 100

# The labels below a chart: at its start, at its end, and between. A label without seconds is up to
# a minute early, which does not matter only where the labels are further apart than this.
LABELS = 6
SECONDS_STEP_S_MAX = 600.0


@dataclass(frozen=True, slots=True)
class Span:
    """The time that a chart shows, in seconds since the epoch."""

    start: float
    end: float

    def x(self, at: float) -> int:
        return round((at - self.start) / (self.end - self.start) * WIDTH)


@dataclass(frozen=True, slots=True)
class Series:
    """Values that are drawn as an area from 0, and the class that gives its colour."""

    kind: str
    points: Points
    down: bool = False
    """Draw it below the axis, in a chart with both directions."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart. A later series is drawn over the ones before it."""

    title: str
    notes: tuple[tuple[str, str], ...]
    """The legend: pairs of a class, which gives the colour, and a text. Without a class the text
    explains no line."""
    series: tuple[Series, ...]
    most: float
    label: Callable[[float], str]
    mark: float | None = None
    """A level at which a dashed line is drawn."""

    @property
    def both_ways(self) -> bool:
        return any(series.down for series in self.series)


def figure(chart: Chart, span: Span) -> str:
    """Return the chart with its title, its notes and its axes."""
    notes = "".join(
        f'<span class="key {kind}">{escaped(text)}</span>'
        if kind
        else f"<span>{escaped(text)}</span>"
        for kind, text in chart.notes
    )
    told = "; ".join((chart.title, *(text for _, text in chart.notes)))
    top = chart.label(chart.most)
    low = top if chart.both_ways else "0"
    axis = "<span>0</span>" if chart.both_ways else ""
    return (
        f'<figure class="chart"><figcaption><h3>{escaped(chart.title)}</h3>'
        f'<p class="notes">{notes}</p></figcaption>'
        f'<div class="plot"><div class="scale"><span>{escaped(top)}</span>{axis}'
        f"<span>{escaped(low)}</span></div>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escaped(told)}">{"".join(_drawn(chart, span))}</svg></div>'
        f'<div class="times">{"".join(_times(span))}</div></figure>'
    )


def _times(span: Span) -> Iterator[str]:
    step_s = (span.end - span.start) / (LABELS - 1)
    shape = "HH:MM" if step_s > SECONDS_STEP_S_MAX else "HH:MM:SS"
    for number in range(LABELS):
        yield f"<span>{moment(span.start + number * step_s)[: len(shape)]}</span>"


def _drawn(chart: Chart, span: Span) -> Iterator[str]:
    known = max((series.points for series in chart.series), key=len, default=())
    for start, end in _unknown(known, span):
        yield f'<path class="unknown" d="M{start} 0H{end}V{HEIGHT}H{start}z"/>'
    axis = HEIGHT / 2 if chart.both_ways else HEIGHT
    for number in range(1, LABELS - 1):
        yield f'<path class="grid" d="M{WIDTH * number // (LABELS - 1)} 0V{HEIGHT}"/>'
    for level in (0, HEIGHT // 2, HEIGHT):
        yield f'<path class="grid" d="M0 {level}H{WIDTH}"/>'
    most = chart.most or 1.0
    for series in chart.series:
        scale = axis / most * (1 if series.down else -1)
        yield from _area(series, span, axis, scale)
    if chart.mark is not None:
        yield f'<path class="mark" d="M0 {_short(axis - chart.mark / most * axis)}H{WIDTH}"/>'


def _area(series: Series, span: Span, axis: float, scale: float) -> Iterator[str]:
    """Return the filled area and the line on top of it, interrupted where nothing is known."""
    areas, lines = [], []
    for run in _runs(series.points):
        corners = [(span.x(at), _short(axis + value * scale)) for at, value in run]
        # A run of a single reading is drawn one unit wide, so that it can be seen.
        last = max(corners[-1][0], corners[0][0] + 1)
        line = "L".join(f"{x} {y}" for x, y in corners) + f"H{last}"
        lines.append(f"M{line}")
        areas.append(f"M{corners[0][0]} {_short(axis)}L{line}V{_short(axis)}z")
    if lines:
        yield f'<path class="area {series.kind}" d="{"".join(areas)}"/>'
        yield f'<path class="line {series.kind}" d="{"".join(lines)}"/>'


def _runs(points: Points) -> list[list[tuple[float, float]]]:
    """Return the points, divided where two are further apart than a gap."""
    runs: list[list[tuple[float, float]]] = []
    for at, value in points:
        if runs and 0 <= at - runs[-1][-1][0] <= GAP_S_MAX:
            runs[-1].append((at, value))
        else:
            runs.append([(at, value)])
    return runs


def _unknown(points: Points, span: Span) -> Iterator[tuple[int, int]]:
    """Return where in the picture nothing is known: before, between and after the points."""
    moments = [span.start, *(at for at, _ in points), span.end]
    for number, (before, after) in enumerate(pairwise(moments)):
        inside = 0 < number < len(moments) - 2
        if after - before > (GAP_S_MAX if inside else HOLDS_S):
            yield span.x(before), span.x(after)


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
