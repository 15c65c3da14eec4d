"""The curve of `tierd simulate` as an SVG picture, written by hand. Pure."""

from collections.abc import Iterator, Sequence
from html import escape

from tierd.profile.curve import Point
from tierd.units import format_size
from tierd.views.forecast import Answer

WIDTH = 800
HEIGHT = 420
LEFT, RIGHT, TOP, FOOT = 64, 24, 64, 64
STEPS = 5

_STYLE = (
    "text{font:12px sans-serif;fill:#222}.h{font-size:14px;font-weight:bold}.g{stroke:#ddd}"
    ".i{fill:#1f6fb2;opacity:.18}.c{fill:none;stroke:#1f6fb2;stroke-width:2}"
    ".b{fill:none;stroke:#777;stroke-dasharray:4 3}.p{fill:#1f6fb2}.o{fill:#fff;stroke:#1f6fb2}"
    ".k{stroke:#c33;stroke-dasharray:4 3}text.k{fill:#c33;stroke:none}.u{fill:#c33;stroke:#c33}"
)


def svg(answer: Answer) -> str:
    """Return the picture: the share that is served, by the size of fast memory."""
    most = max(row.fast_bytes for row in answer.points) * 1.02
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}">',
        f'<style>{_STYLE}</style><rect width="100%" height="100%" fill="#fff"/>',
        f'<text class="h" x="{LEFT}" y="24">{escape(answer.about)}</text>',
        f'<text x="{LEFT}" y="44">share of the touches that fast memory serves; the band holds '
        "nine of ten; dashed: the best placement; filled points were simulated</text>",
        *_grid(most),
        *_band(answer.points, most),
        *_curves(answer.points, most),
        *_marks(answer, most),
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _x(fast_bytes: float, most: float) -> float:
    return LEFT + fast_bytes / most * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return TOP + (1 - share) * (HEIGHT - TOP - FOOT)


def _grid(most: float) -> Iterator[str]:
    for step in range(STEPS + 1):
        share, size = step / STEPS, most * step / STEPS
        y, x = _y(share), _x(size, most)
        yield f'<path class="g" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>'
        yield (
            f'<text x="{x:.1f}" y="{HEIGHT - FOOT + 20}" text-anchor="middle">'
            f"{format_size(round(size))}</text>"
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
        marked.append((f"{answer.target:.0%}", answer.least_bytes))
    for number, (name, size) in enumerate(marked):
        x = _x(size, most)
        yield f'<path class="k" d="M{x:.1f} {TOP}V{HEIGHT - FOOT}"/>'
        yield (
            f'<text class="k" x="{x + 6:.1f}" y="{TOP + 14 + 16 * number}">'
            f"{name}: {format_size(size)}</text>"
        )
