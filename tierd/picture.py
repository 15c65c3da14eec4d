"""The panels of a history as an SVG picture, to paste into a report."""

from html import escape

from tierd.chronicle import Reading
from tierd.history import HOLDS_S, Panel, panels
from tierd.plots import columns_of

WIDTH = 800
PANEL_HEIGHT = 110
GRAPH_HEIGHT = 64
LEFT = 100
RIGHT = 20
# A column every two points is as much as can be seen.
COLUMNS = (WIDTH - LEFT - RIGHT) // 2

_STYLE = (
    "text{font:12px sans-serif;fill:#222}.t{font-weight:bold}.v{fill:#1f6fb2;opacity:.75}"
    ".f{fill:none;stroke:#999}.m{stroke:#c33;stroke-dasharray:4 3}"
)


def svg(readings: tuple[Reading, ...], since: float, now: float) -> str:
    """The picture: one graph below the other, over the same time."""
    drawn = panels(readings) if readings else ()
    start = max(since, readings[0].at) if readings else since
    height = max(1, len(drawn)) * PANEL_HEIGHT + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}">',
        f'<style>{_STYLE}</style><rect width="100%" height="100%" fill="#fff"/>',
    ]
    if not drawn:
        parts.append('<text x="20" y="40">no reading is kept of that time</text>')
    for index, panel in enumerate(drawn):
        parts += _panel(panel, index * PANEL_HEIGHT + 10, start, max(now, start + 1.0))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Panel, top: int, start: float, end: float) -> list[str]:
    base = top + 30 + GRAPH_HEIGHT
    right = WIDTH - RIGHT
    most = panel.most or 1.0
    step = (right - LEFT) / COLUMNS
    bars = [
        f'<rect class="v" x="{LEFT + column * step:.1f}" y="{base - height:.1f}" '
        f'width="{step:.1f}" height="{height:.1f}"/>'
        for column, value in enumerate(columns_of(panel.points, start, end, COLUMNS, HOLDS_S))
        if value and (height := min(1.0, value / most) * GRAPH_HEIGHT)
    ]
    lines = [
        f'<text x="{LEFT}" y="{top + 20}"><tspan class="t">{escape(panel.title)}</tspan> '
        f"{escape(panel.note)}</text>",
        *bars,
        f'<path class="f" d="M{LEFT} {base - GRAPH_HEIGHT}V{base}H{right}"/>',
        f'<text x="{LEFT - 6}" y="{base - GRAPH_HEIGHT + 10}" text-anchor="end">'
        f"{escape(panel.label(panel.most))}</text>",
        f'<text x="{LEFT - 6}" y="{base}" text-anchor="end">{escape(panel.label(0))}</text>',
    ]
    if panel.mark is not None:
        level = base - min(1.0, panel.mark / most) * GRAPH_HEIGHT
        lines.append(f'<path class="m" d="M{LEFT} {level:.1f}H{right}"/>')
    return lines
