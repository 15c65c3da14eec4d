"""`tierd report` in words, as JSON and as one HTML page that can be sent to somebody. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10
from textwrap import wrap
from typing import TypedDict

from tierd.report.compare import Arm, Difference, Measure, Slice
from tierd.units import format_duration_us

SCHEMA = "tierd.report/1"

METHODS = {
    "turns": (
        "On and off in turns, compared in pairs (Student's t, 95 %). Off means paused: nothing "
        "moves, but what was placed before stays where it is. So a steady program shows what "
        "running tierd costs; what placing gains shows only where heat moves. The share that is "
        "served at the end of a pause is taken from the first look after it."
    ),
    "before-after": (
        "A time before against a time after, by the means of slices (Welch, 95 %). What else "
        "changed between the two counts too."
    ),
    "one": "One time, with nothing to compare it with.",
}

_STYLE = """
:root{color-scheme:light dark;--ink:#222;--paper:#fff;--line:#ccc;--off:#888;--on:#1f6fb2}
@media(prefers-color-scheme:dark){:root{--ink:#ddd;--paper:#161616;--line:#444;--on:#6db3ee}}
body{font:15px/1.5 sans-serif;color:var(--ink);background:var(--paper);max-width:860px;
margin:2em auto;padding:0 1em}table{border-collapse:collapse;width:100%}
th,td{text-align:right;padding:.3em .6em;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}.better{color:#1a7f37}.worse{color:#c33}
svg{width:100%;height:auto}.off{fill:var(--off)}.on{fill:var(--on)}.axis{stroke:var(--line)}
text{font:11px sans-serif;fill:var(--ink)}h2{font-size:1.1em;margin-top:2em}
"""

# More labels below a chart would run into each other.
LABELS_MAX = 24
# Two decimals are enough where a difference of one matters to nobody.
DECIMALS, DECIMALS_MAX = 2, 9
CHART_WIDTH, CHART_HEIGHT, CHART_LEFT, CHART_FOOT = 720, 140, 60, 20


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured, and what follows."""

    about: str
    method: str
    """A key of METHODS."""
    slices: tuple[Slice, ...]
    differences: tuple[Difference, ...]


def as_text(report: Report, columns: int) -> str:
    """Return the report in words; what explains it is as wide as the terminal."""
    rows = [("", "off", "on", "difference", "")]
    rows += [_row(one) for one in report.differences]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [report.about, ""]
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [row[column].rjust(widths[column]) for column in range(1, 4)]
        lines.append("  ".join([*cells, row[4]]).rstrip())
    return "\n".join([*lines, "", *wrap(METHODS[report.method], columns)])


def _row(one: Difference) -> tuple[str, str, str, str, str]:
    digits = _decimals(one.measure, max(abs(one.off or 0.0), abs(one.on or 0.0)))
    difference = "-"
    if one.mean is not None:
        difference = f"{one.mean:+.{digits}f}"
        if one.half is not None:
            low, high = one.mean - one.half, one.mean + one.half
            difference += f" ({low:+.{digits}f} to {high:+.{digits}f})"
    title = f"{one.measure.title}, {one.measure.unit}" if one.measure.unit else one.measure.title
    off, on = ("-" if value is None else f"{value:.{digits}f}" for value in (one.off, one.on))
    return title, off, on, difference, one.verdict


def _decimals(measure: Measure, largest: float) -> int:
    """Return how many decimals tell values apart: two, or more for an application's small figure.

    A latency may be given in seconds.
    """
    if measure.small or not largest:
        return DECIMALS
    return min(DECIMALS_MAX, max(DECIMALS, DECIMALS - floor(log10(largest))))


class DifferenceDocument(TypedDict):
    """How much a measure differs: on less off."""

    measure: str
    unit: str
    better: str
    """Whether higher or lower values are good."""
    off: float | None
    on: float | None
    difference: float | None
    low: float | None
    """The interval of 95 %; null if there are too few values for one."""
    high: float | None
    verdict: str


class SliceDocument(TypedDict):
    """Some time in which the machine ran in one way."""

    arm: str
    seconds: float
    values: dict[str, float]


class Document(TypedDict):
    """Did it help."""

    schema: str
    about: str
    method: str
    differences: list[DifferenceDocument]
    slices: list[SliceDocument]


def as_document(report: Report) -> Document:
    return {
        "schema": SCHEMA,
        "about": report.about,
        "method": report.method,
        "differences": [_difference(one) for one in report.differences],
        "slices": [
            {"arm": one.arm, "seconds": round(one.seconds, 3), "values": dict(one.values)}
            for one in report.slices
        ],
    }


def _difference(one: Difference) -> DifferenceDocument:
    known = one.mean is not None and one.half is not None
    return {
        "measure": one.measure.key,
        "unit": one.measure.unit,
        "better": one.measure.better,
        "off": one.off,
        "on": one.on,
        "difference": one.mean,
        "low": (one.mean or 0.0) - (one.half or 0.0) if known else None,
        "high": (one.mean or 0.0) + (one.half or 0.0) if known else None,
        "verdict": one.verdict,
    }


def as_page(report: Report) -> str:
    """Return one HTML document that fetches nothing from elsewhere."""
    return "\n".join(_page(report)) + "\n"


def _page(report: Report) -> Iterator[str]:
    yield '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width,initial-scale=1">'
    yield f"<title>tierd report</title><style>{_STYLE}</style></head><body>"
    yield f"<h1>Did tierd help?</h1><p>{escape(report.about)}</p>"
    yield "<table><tr><th></th><th>off</th><th>on</th><th>difference (95 %)</th><th></th></tr>"
    for one in report.differences:
        cells = _row(one)
        marked = cells[4] if cells[4] in ("better", "worse") else ""
        inner = "".join(f"<td>{escape(cell)}</td>" for cell in cells[:4])
        yield f'<tr>{inner}<td class="{marked}">{escape(cells[4])}</td></tr>'
    yield "</table>"
    for one in report.differences:
        yield from _chart(one.measure, report.slices)
    yield f"<h2>Method</h2><p>{escape(METHODS[report.method])}</p></body></html>"


def _chart(measure: Measure, slices: Sequence[Slice]) -> Iterator[str]:
    """Yield a bar for each slice in which the measure has a value."""
    values = [(one, one.values.get(measure.key)) for one in slices]
    most = max((value for _, value in values if value is not None), default=0.0)
    if most <= 0:
        return
    width = (CHART_WIDTH - CHART_LEFT) / len(values)
    base = CHART_HEIGHT - CHART_FOOT
    yield f"<h2>{escape(measure.title)}</h2>"
    yield f'<svg viewBox="0 0 {CHART_WIDTH} {CHART_HEIGHT}" role="img">'
    digits = _decimals(measure, most)
    yield f'<text x="0" y="14">{most:.{digits}f}{escape(measure.unit)}</text>'
    yield f'<text x="0" y="{base}">0</text>'
    yield f'<path class="axis" d="M{CHART_LEFT} {base}H{CHART_WIDTH}"/>'
    for number, (one, value) in enumerate(values):
        x = CHART_LEFT + number * width
        if value is not None and value > 0:
            height = value / most * (base - 10)
            yield (
                f'<rect class="{one.arm}" x="{x + 1:.1f}" y="{base - height:.1f}" '
                f'width="{max(1.0, width - 2):.1f}" height="{height:.1f}"/>'
            )
        if len(values) <= LABELS_MAX:
            middle = x + width / 2
            yield f'<text x="{middle:.1f}" y="{base + 14}" text-anchor="middle">{one.arm}</text>'
    yield "</svg>"


def about(slices: Sequence[Slice], machine: str) -> str:
    """Return what was measured, in words."""
    counts = [sum(one.arm is arm for one in slices) for arm in (Arm.off, Arm.on)]
    seconds = sum(one.seconds for one in slices)
    length = format_duration_us(round(seconds * 1e6))
    return f"{machine}: {counts[0]} slices off and {counts[1]} on, {length} in all"
