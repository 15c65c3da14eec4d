"""`tierd report` in words, as JSON and as one HTML page that can be sent to somebody. Pure."""

from collections.abc import Iterator, Sequence
from html import escape
from math import floor, log10
from textwrap import wrap
from typing import TypedDict

from tierd.frozen import dataclass
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

# What the two ways to run are called: the one to compare with, and the one that is looked at.
HEADS = {"turns": ("off", "on"), "before-after": ("before", "after"), "one": ("before", "now")}

_STYLE = """
:root{color-scheme:light dark;--ink:#171b20;--soft:#59636e;--paper:#fff;--line:#d5dae0;
--off:#8390a0;--on:#1f6fb2;--better:#1c7a4f;--worse:#b42318}
@media(prefers-color-scheme:dark){:root{--ink:#e7eaed;--soft:#98a3ae;--paper:#161a1f;--line:#353d46;
--off:#6d7986;--on:#6db3ee;--better:#56c596;--worse:#ff8272}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;
font-variant-numeric:tabular-nums;color:var(--ink);background:var(--paper);max-width:860px;
margin:2em auto;padding:0 1em}
.about{overflow-wrap:anywhere}td{white-space:nowrap}
h1{font-size:1.6em}h2{font-size:1.1em;margin:2em 0 .5em}h2 small,.about{color:var(--soft)}
table{border-collapse:collapse;width:100%}
th,td{text-align:right;padding:.35em 0 .35em 1.2em;border-bottom:1px solid var(--line)}
thead th{font-weight:400;color:var(--soft)}th:first-child{text-align:left;padding-left:0}
td:last-child,.better,.worse{font-weight:600}.none{color:var(--soft);font-weight:400}
.better{color:var(--better)}.worse{color:var(--worse)}
.plot{display:grid;grid-template-columns:72px minmax(0,1fr);gap:0 8px}
.plot svg{width:100%;height:120px;border-bottom:1px solid var(--line)}
.scale{display:flex;flex-direction:column;justify-content:space-between;text-align:right}
.scale,.names{font-size:12px;line-height:1;color:var(--soft)}
.names{grid-column:2;display:grid;grid-auto-flow:column;grid-auto-columns:minmax(0,1fr);
text-align:center;margin-top:6px;white-space:nowrap}
.key{font-size:13px;color:var(--soft);margin-right:1em}
.key::before{content:"";display:inline-block;width:9px;height:9px;border-radius:2px;
margin-right:6px;background:var(--key)}
.off{--key:var(--off)}.on{--key:var(--on)}rect{fill:var(--key)}
@media(max-width:760px){.many{display:none}thead{display:none}
tr{display:grid;grid-template-columns:1fr 1fr 2fr;padding:.6em 0;
border-bottom:1px solid var(--line)}
th,td{text-align:left;padding:0;border:0;white-space:normal}th:first-child{grid-column:1/-1}
td:last-child{grid-column:1/-1}
td[data-name]::before{content:attr(data-name);display:block;font-size:12px;color:var(--soft)}}
"""

# More names below a chart would run into each other: on a phone, and on any screen.
NAMES_MAX_PHONE = 8
NAMES_MAX = 24
# Two decimals are enough where a difference of one matters to nobody.
DECIMALS, DECIMALS_MAX = 2, 9
CHART_HEIGHT = 100


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
    off, on = HEADS[report.method]
    rows = [("", off, on, "difference", "")]
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
    yield f'<h1>Did tierd help?</h1><p class="about">{escape(report.about)}</p>'
    off, on = HEADS[report.method]
    heads = ("", off, on, "difference (95 %)", "")
    columns = "".join(f'<th scope="col">{head}</th>' for head in heads)
    yield f"<table><thead><tr>{columns}</tr></thead><tbody>"
    for one in report.differences:
        title, *values, verdict = _row(one)
        marked = verdict if verdict in ("better", "worse") else "none"
        inner = "".join(
            f'<td data-name="{head}">{escape(value)}</td>'
            for head, value in zip(heads[1:4], values, strict=True)
        )
        yield f'<tr><th scope="row">{escape(title)}</th>{inner}'
        yield f'<td class="{marked}">{escape(verdict)}</td></tr>'
    yield "</tbody></table>"
    for one in report.differences:
        yield from _chart(one.measure, report.slices, (off, on))
    yield f"<h2>Method</h2><p>{escape(METHODS[report.method])}</p></body></html>"


def _chart(measure: Measure, slices: Sequence[Slice], heads: tuple[str, str]) -> Iterator[str]:
    """Yield a bar for each slice, and a question mark where the measure has no value.

    The picture is stretched to the width of its place, and so would be text in it. So all text is
    HTML.
    """
    values = [(one, one.values.get(measure.key)) for one in slices]
    most = max((value for _, value in values if value is not None), default=0.0)
    if most <= 0:
        return
    yield f"<h2>{escape(measure.title)}</h2><p>"
    names = dict(zip((Arm.off, Arm.on), heads, strict=True))
    for arm, name in names.items():
        if any(one.arm is arm for one in slices):
            yield f'<span class="key {arm}">{name}</span>'
    top = f"{most:.{_decimals(measure, most)}f}{escape(measure.unit)}"
    yield f'</p><div class="plot"><div class="scale"><span>{top}</span><span>0</span></div>'
    yield f'<svg viewBox="0 0 {len(values)} {CHART_HEIGHT}" preserveAspectRatio="none" role="img"'
    yield f' aria-label="{escape(measure.title)} of each slice, at most {top}">'
    for number, (one, value) in enumerate(values):
        if value is not None and value >= 0:
            # Zero is a line, as it is not the same as no value.
            height = max(1.0, value / most * CHART_HEIGHT)
            yield (
                f'<rect class="{one.arm}" x="{number + 0.04:.2f}" y="{CHART_HEIGHT - height:.1f}" '
                f'width="0.92" height="{height:.1f}"/>'
            )
    yield "</svg>"
    if len(values) <= NAMES_MAX:
        many = " many" if len(values) > NAMES_MAX_PHONE else ""
        yield f'<div class="names{many}">'
        for one, value in values:
            yield f"<span>{names[one.arm]}{'' if value is not None else ' ?'}</span>"
        yield "</div>"
    yield "</div>"


def about(slices: Sequence[Slice], machine: str, method: str) -> str:
    """Return what was measured, in words."""
    counts = [sum(one.arm is arm for one in slices) for arm in (Arm.off, Arm.on)]
    off, on = HEADS[method]
    parts = f"{counts[0]} slices {off} and {counts[1]} {on}" if counts[0] else f"{counts[1]} slices"
    seconds = sum(one.seconds for one in slices)
    return f"{machine}: {parts}, {format_duration_us(round(seconds * 1e6))} in all"
