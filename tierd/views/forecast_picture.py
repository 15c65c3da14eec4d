"""The curve of `tierd simulate` as an SVG picture, written by hand. Pure."""

from collections.abc import Iterator, Sequence
from html import escape

from tierd.profile.curve import Point
from tierd.units import format_size
from tierd.views.forecast import Answer

WIDTH = 800
HEIGHT = 456
LEFT, RIGHT, TOP, FOOT = 64, 40, 100, 64
STEPS = 5

# The most labels of the axis of sizes.
SIZES_MAX = 9

# The widest letters have this width. A title that is too long is cut, and says so.
TITLE_LETTERS_MAX = 80

# The rows of the legend: where each entry begins, its class, and what that means.
LEGEND = (
    ((0, "c", "with tierd"), (150, "i", "interval: nine of ten"), (340, "b", "the best placement")),
    ((0, "p", "simulated"), (150, "o", "estimated"), (340, "u", "cannot tell")),
)
LEGEND_TOP, LEGEND_ROW = 62, 20

_STYLE = (
    "text{font:12px sans-serif;fill:#222}.h{font-size:14px;font-weight:bold}.g{stroke:#ddd}"
    ".i{fill:#1f6fb2;opacity:.18}.c{fill:none;stroke:#1f6fb2;stroke-width:2}"
    ".b{fill:none;stroke:#777;stroke-dasharray:4 3}.p{fill:#1f6fb2}.o{fill:#fff;stroke:#1f6fb2}"
    ".k{stroke:#c33;stroke-dasharray:4 3}text.k{fill:#c33;stroke:#fff;stroke-width:4px;"
    "stroke-dasharray:none;paint-order:stroke}.u{fill:#c33;stroke:#c33}"
)


def svg(answer: Answer) -> str:
    """Return the picture: the share that is served, by the size of fast memory."""
    most = max(row.fast_bytes for row in answer.points) * 1.02
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}">',
        f'<style>{_STYLE}</style><rect width="100%" height="100%" fill="#fff"/>',
        f'<text class="h" x="{LEFT}" y="24">{escape(_title(answer.about))}</text>',
        f'<text x="{LEFT}" y="43">Share of the touches that fast memory serves, by its size</text>',
        *_legend(),
        *_grid(most),
        *_band(answer.points, most),
        *_curves(answer.points, most),
        *_marks(answer, most),
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _title(about: str) -> str:
    return about if len(about) <= TITLE_LETTERS_MAX else about[: TITLE_LETTERS_MAX - 1] + "\u2026"


def _legend() -> Iterator[str]:
    for number, row in enumerate(LEGEND):
        y = LEGEND_TOP + number * LEGEND_ROW
        for offset, kind, meaning in row:
            x = LEFT + offset
            if kind == "i":
                yield f'<path class="i" d="M{x} {y - 5}h24v10h-24z"/>'
            elif kind in ("b", "c"):
                yield f'<path class="{kind}" d="M{x} {y}h24"/>'
            else:
                yield f'<ellipse class="{kind}" cx="{x + 12}" cy="{y}" rx="4" ry="4"/>'
            yield f'<text x="{x + 32}" y="{y + 4}">{meaning}</text>'


def _sizes(most: float) -> Iterator[int]:
    """Return round sizes for the axis: as many as have room."""
    step = 1
    while most / step >= SIZES_MAX:
        step *= 2
    yield from range(0, int(most) + 1, step)


def _x(fast_bytes: float, most: float) -> float:
    return LEFT + fast_bytes / most * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return TOP + (1 - share) * (HEIGHT - TOP - FOOT)


def _grid(most: float) -> Iterator[str]:
    for step in range(STEPS + 1):
        share = step / STEPS
        y = _y(share)
        yield f'<path class="g" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>'
    for size in _sizes(most):
        yield (
            f'<text x="{_x(size, most):.1f}" y="{HEIGHT - FOOT + 20}" text-anchor="middle">'
            f"{format_size(size) if size else 0}</text>"
        )
    yield (
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 16}" text-anchor="middle">'
        "fast memory</text>"
    )


def _band(rows: Sequence[Point], most: float) -> Iterator[str]:
    if len(rows) < 2:
        return
    upper = [f"{_x(row.fast_bytes, most):.1f} {_y(row.guess.high):.1f}" for row in rows]
    lower = [f"{_x(row.fast_bytes, most):.1f} {_y(row.guess.low):.1f}" for row in reversed(rows)]
    yield f'<path class="i" d="M{"L".join([*upper, *lower])}Z"/>'


def _curves(rows: Sequence[Point], most: float) -> Iterator[str]:
    for kind, shares in (
        ("b", [row.best for row in rows]),
        ("c", [row.guess.served for row in rows]),
    ):
        points = [
            f"{_x(row.fast_bytes, most):.1f} {_y(share):.1f}"
            for row, share in zip(rows, shares, strict=True)
        ]
        if len(points) > 1:
            yield f'<path class="{kind}" d="M{"L".join(points)}"/>'


def _marks(answer: Answer, most: float) -> Iterator[str]:
    for row in answer.points:
        kind = "u" if row.cannot_tell else "p" if row.simulated else "o"
        yield (
            f'<circle class="{kind}" cx="{_x(row.fast_bytes, most):.1f}" '
            f'cy="{_y(row.guess.served):.1f}" r="4"/>'
        )
    marked = [] if answer.knee is None else [("knee", answer.points[answer.knee].fast_bytes)]
    if answer.least_bytes is not None and answer.target is not None:
        marked.append((f"for {answer.target * 100:g}%", answer.least_bytes))
    for number, (name, size) in enumerate(marked):
        x = _x(size, most)
        yield f'<path class="k" d="M{x:.1f} {TOP}V{HEIGHT - FOOT}"/>'
        # Just above the axis, where the curve seldom is, and within the picture.
        right = x > WIDTH * 0.75
        yield (
            f'<text class="k" x="{x + (-6 if right else 6):.1f}" '
            f'y="{HEIGHT - FOOT - 10 - 18 * number}" text-anchor="{"end" if right else "start"}">'
            f"{name}: {format_size(size)}</text>"
        )
