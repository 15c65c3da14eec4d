"""`tierd history --svg`: the charts of a history as an SVG picture, for a report."""

from collections.abc import Iterator
from html import escape

from tierd.record.chronicle import HistoryReading
from tierd.views.history import HOLDS_S, Panel, panels, span
from tierd.views.plots import columns_of
from tierd.views.render import moment

WIDTH = 800
HEAD_HEIGHT = 44
PANEL_HEIGHT = 104
GRAPH_HEIGHT = 64
FOOT_HEIGHT = 36
LEFT = 100
RIGHT = 20
# The width of a column in the picture's units; narrower ones cannot be told apart.
STEP = 2
COLUMNS = (WIDTH - LEFT - RIGHT) // STEP

# The most vertical lines, and the seconds that may lie between two of them: the smallest of these
# steps is used that gives no more lines.
TICKS_MAX = 8
STEPS_S = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10_800, 21_600)

_STYLE = (
    "text{font:12px sans-serif;fill:#222}.t{font-weight:bold}.h{font-size:14px;font-weight:bold}"
    ".v{fill:#1f6fb2;opacity:.75}.n{fill:#eee}.f{fill:none;stroke:#999}.x{stroke:#ddd}"
    ".m{stroke:#c33;stroke-dasharray:4 3}text.k{fill:#c33}"
)


def svg(readings: tuple[HistoryReading, ...], since: float, now: float) -> str:
    """Return the picture: the charts one below the other, over the same time."""
    drawn = panels(readings) if readings else ()
    start = max(since, min((reading.at for reading in readings), default=since))
    end = max(now, start + 1.0)
    height = HEAD_HEIGHT + max(1, len(drawn)) * PANEL_HEIGHT + FOOT_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}">',
        f'<style>{_STYLE}</style><rect width="100%" height="100%" fill="#fff"/>',
    ]
    if drawn:
        parts.append(f'<text class="h" x="20" y="26">{escape(span(readings, start, end))}</text>')
        parts += _ticks(start, end, height - FOOT_HEIGHT)
    else:
        parts.append('<text x="20" y="40">there are no readings of that time</text>')
    for index, panel in enumerate(drawn):
        parts += _panel(panel, HEAD_HEIGHT + index * PANEL_HEIGHT, start, end)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _ticks(start: float, end: float, base: int) -> Iterator[str]:
    """Return a vertical line through all charts at each round time, with the time below."""
    step = next((s for s in STEPS_S if (end - start) / s <= TICKS_MAX), STEPS_S[-1])
    at = (start // step + 1) * step
    while at < end:
        x = LEFT + (at - start) / (end - start) * (WIDTH - LEFT - RIGHT)
        shown = moment(at) if step < 60 else moment(at).removesuffix(":00Z") + "Z"
        yield f'<path class="x" d="M{x:.1f} {HEAD_HEIGHT + 20}V{base + 4}"/>'
        yield f'<text x="{x:.1f}" y="{base + 20}" text-anchor="middle">{shown}</text>'
        at += step


def _panel(panel: Panel, top: int, start: float, end: float) -> Iterator[str]:
    base = top + 24 + GRAPH_HEIGHT
    right = WIDTH - RIGHT
    most = panel.most or 1.0
    yield (
        f'<text x="{LEFT}" y="{top + 16}"><tspan class="t">{escape(panel.title)}:</tspan> '
        f"{escape(panel.note)}</text>"
    )
    yield from _bars(panel, base, most, start, end)
    yield f'<path class="f" d="M{LEFT} {base - GRAPH_HEIGHT}V{base}H{right}"/>'
    for value, y in ((panel.most, base - GRAPH_HEIGHT + 10), (0.0, base)):
        yield (
            f'<text x="{LEFT - 6}" y="{y}" text-anchor="end">{escape(panel.label(value))}</text>'
        )
    if panel.mark is not None:
        level = base - min(1.0, panel.mark / most) * GRAPH_HEIGHT
        yield f'<path class="m" d="M{LEFT} {level:.1f}H{right}"/>'
        # The label stays between the two other labels, wherever the line is.
        beside = max(base - GRAPH_HEIGHT + 24, min(base - 14, level + 4))
        yield (f'<text class="k" x="{LEFT - 6}" y="{beside:.1f}" text-anchor="end">target</text>')


def _bars(panel: Panel, base: int, most: float, start: float, end: float) -> Iterator[str]:
    """Return the bars of the values, and grey bars where there is no value."""
    values = columns_of(panel.points, start, end, COLUMNS, HOLDS_S)
    known = [value and min(1.0, value / most) * GRAPH_HEIGHT for value in values]
    unknown = [float(GRAPH_HEIGHT) if value is None else None for value in values]
    for kind, heights in (("v", known), ("n", unknown)):
        drawn = "".join(
            f"M{LEFT + column * STEP:g} {base}v-{height:.1f}h{STEP:g}V{base}"
            for column, height in enumerate(heights)
            if height
        )
        if drawn:
            yield f'<path class="{kind}" d="{drawn}"/>'
