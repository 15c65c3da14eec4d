"""The web page of tierd: a snapshot and the last hour as one HTML document.

Rules of this file: every text that is not of this file goes through `escaped`. There is no style
attribute and no handler in a tag: the page's Content-Security-Policy forbids both. All that a
reader needs is in the document; the script only fetches a newer one.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tierd.frozen import dataclass
from tierd.record.chronicle import HistoryReading
from tierd.record.snapshot import Snapshot, document
from tierd.units import format_duration_us, format_percent, format_rate, format_size
from tierd.views import page_charts, page_decisions, page_memory, statusview
from tierd.views.charts import Span, figure
from tierd.views.markup import coded, escaped
from tierd.views.page_charts import percent
from tierd.views.render import day, moment

# The time that the charts show: the shortest of these that has room for all readings.
SPANS_S = (300.0, 900.0, 3_600.0)

ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Crect width='16' height='16' rx='3' fill='%231b2733'/%3E"
    "%3Cpath d='M3 5h10' stroke='%23f08c3a' stroke-width='3'/%3E"
    "%3Cpath d='M3 11h10' stroke='%235b9bd5' stroke-width='3'/%3E%3C/svg%3E"
)

# A chart needs two readings.
BARS_READINGS_MIN = 2

# Relative, so that a proxy may serve the page below another path.
LINKS = (("metrics", "metrics"), ("healthz", "health"), ("readyz", "ready"))


@dataclass(frozen=True, slots=True)
class Look:
    """What the page shows: a snapshot with those before it, the readings, and where it is."""

    snapshot: Snapshot | None
    recent: tuple[Snapshot, ...]
    readings: tuple[HistoryReading, ...]
    host: str
    now: float


def page(look: Look, style: str, script: str) -> str:
    """Return the document. Before the first tick it says that tierd starts."""
    status = None if look.snapshot is None else document(look.snapshot)
    state = "starting" if status is None else str(status["state"])
    body = _starting() if status is None else "".join(_sections(look, status))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escaped(state)} - tierd on {escaped(look.host)}</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<link rel="icon" href="{ICON}">'
        '<noscript><meta http-equiv="refresh" content="10"></noscript>'
        f"<style>{style}</style></head><body>"
        f"{_head(look, status)}<main>{body}</main>{_foot(status)}"
        f"<script>{script}</script></body></html>\n"
    )


def _head(look: Look, status: Mapping[str, Any] | None) -> str:
    machine = ""
    if status is not None and status["machine"] != statusview.THIS_MACHINE:
        machine = f'<span class="simulated">SIMULATED machine {escaped(status["machine"])}</span>'
    at = look.now if status is None else status["at"]
    return (
        f'<header><h1><span class="name">tierd</span> <span class="host">{escaped(look.host)}'
        f'</span></h1>{machine}<p class="clock" id="clock">{day(at)} {moment(at)}</p>'
        '<p id="notice" role="status" hidden>no answer from tierd: this is how it was</p></header>'
    )


def _starting() -> str:
    return (
        '<section id="verdict" class="verdict starting"><h2><span class="state">starting</span> '
        "tierd has not read the machine yet</h2></section>"
    )


def _sections(look: Look, status: Mapping[str, Any]) -> Iterator[str]:
    yield _verdict(status, look.now)
    yield _section("memory", "Memory", page_memory.bars(status["nodes"]), page_memory.legend())
    yield _charts(look, status)
    yield _bars(look)
    yield _section("decisions", "Decisions", page_decisions.decisions(look.recent, status))
    yield '<div class="columns">'
    yield _section("events", "Events", page_decisions.events(status["events"], look.now))
    yield f"<div>{_section('others', 'Others', _others(status))}"
    yield f"{_section('kdamonds', 'Kdamonds', _kdamonds(status))}</div></div>"


def _section(name: str, title: str, content: str, aside: str = "") -> str:
    return (
        f'<section id="{name}" aria-labelledby="{name}-title"><div class="title">'
        f'<h2 id="{name}-title">{title}</h2>{aside}</div>{content}</section>'
    )


def _verdict(status: Mapping[str, Any], now: float) -> str:
    """Return the first lines: those of `tierd status`, with the figures beside each other."""
    state, said = str(status["state"]), statusview.how(status)
    if statusview.is_stuck(status, now):
        state = "stuck"
        said = f"no new reading for {now - status['at']:.0f} s, see `journalctl -u tierd`"
    reasons = "".join(f"<li>{coded(one)}</li>" for one in status["degraded"])
    return (
        f'<section id="verdict" class="verdict {escaped(state)}" aria-label="State">'
        f'<h2><span class="state">{escaped(state)}</span> {coded(said)}</h2>'
        + (f'<ul class="reasons">{reasons}</ul>' if reasons else "")
        + f'<dl class="figures">{"".join(_figures(status))}</dl></section>'
    )


def _figures(status: Mapping[str, Any]) -> Iterator[str]:
    for action, name in (("promote", "Promotes"), ("demote", "Demotes")):
        moved = sum(
            one["applied_bytes_total"] for one in status["schemes"] if one["action"] == action
        )
        now = format_rate(statusview.rate(status, action))
        yield _figure(name, now, f"{format_size(moved)} in all", action)
    for name, found, where in (
        ("Hot", statusview.hot_below(status), "on slower nodes"),
        ("Cold", statusview.cold_above(status), "on faster nodes"),
    ):
        yield _figure(name, "?" if found is None else format_size(found), where, name.lower())
    known = all(one["cpu_known"] for one in status["kdamonds"])
    cost = format_percent(statusview.cpu_share(status) * 10_000) if known else "?"
    yield _figure("Kdamonds use", cost, "of a CPU since the start", "cost")
    up = sum(one["up"] for one in status["kdamonds"])
    yield _figure("Runs for", _since(status), f"{up} of {len(status['kdamonds'])} kdamonds run", "")


def _figure(name: str, value: str, about: str, kind: str) -> str:
    # A figure and its unit are set in two sizes.
    number, _, unit = value.partition(" ")
    parts = f"{escaped(number)}<small> {escaped(unit)}</small>" if unit else escaped(number)
    return (
        f'<div><dt class="key {kind}">{escaped(name)}</dt><dd>{parts}</dd>'
        f'<dd class="about">{escaped(about)}</dd></div>'
    )


def _since(status: Mapping[str, Any]) -> str:
    return format_duration_us(max(1, round((status["at"] - status["started_at"]) * 1e6)))


def _charts(look: Look, status: Mapping[str, Any]) -> str:
    span = _span(look.readings, look.now)
    order = [node["numa_node"] for node in statusview.fastest_first(status["nodes"])]
    drawn = "".join(figure(chart, span) for chart in page_charts.charts(look.readings, order))
    long = format_duration_us(round((span.end - span.start) * 1e6))
    note = f'<p class="notes"><span>the last {long}, UTC</span></p>'
    return _section("charts", "Over time", f'<div class="charts">{drawn}</div>', note)


def _bars(look: Look) -> str:
    """Return the charts of promotion and demotion by page, over the last readings."""
    if len(look.recent) < BARS_READINGS_MIN:
        return ""
    span = Span(look.recent[0].at, look.recent[-1].at)
    drawn = "".join(figure(chart, span) for chart in page_charts.bars(look.recent))
    if not drawn:
        return ""
    long = format_duration_us(round((span.end - span.start) * 1e6))
    note = f'<p class="notes"><span>the last {long}: what visits found</span></p>'
    return _section("bars", "Page by page", f'<div class="charts">{drawn}</div>', note)


def _span(readings: tuple[HistoryReading, ...], now: float) -> Span:
    first = min((reading.at for reading in readings), default=now)
    long_s = next((one for one in SPANS_S if now - first <= one), SPANS_S[-1])
    return Span(now - long_s, now)


def _others(status: Mapping[str, Any]) -> str:
    if not status["conflicts"]:
        return '<p class="none">No other program uses DAMON or moves pages.</p>'
    return "<ul>" + "".join(f"<li>{coded(one)}</li>" for one in status["conflicts"]) + "</ul>"


def _kdamonds(status: Mapping[str, Any]) -> str:
    seconds = status["at"] - status["started_at"]
    heads = ("node", "state", "pid", "restarts", "CPU")
    columns = "".join(f'<th scope="col">{head}</th>' for head in heads)
    rows = "".join(_kdamond(one, seconds) for one in status["kdamonds"])
    if not rows:
        return '<p class="none">No kdamond runs.</p>'
    return f"<table><thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table>"


def _kdamond(one: Mapping[str, Any], seconds: float) -> str:
    used_s = one["cpu_seconds_total"] - one["cpu_seconds_before"]
    cost = percent(used_s / seconds) if one["cpu_known"] and seconds > 0 else "?"
    state = "<td>runs</td>" if one["up"] else '<td class="bad">off</td>'
    cells = "".join(f"<td>{value}</td>" for value in (one["pid"], one["restarts_total"], cost))
    return f'<tr><th scope="row">node{one["numa_node"]}</th>{state}{cells}</tr>'


def _foot(status: Mapping[str, Any] | None) -> str:
    links = " ".join(f'<a href="{path}">{name}</a>' for path, name in LINKS)
    if status is None:
        return f"<footer><nav>{links}</nav></footer>"
    about = (
        f"tierd {status['version']}, mode {status['mode']}, "
        f"tuner {status['tuner']}: {status['tuner_reason']}"
    )
    return f"<footer><p>{escaped(about)}</p><nav>{links}</nav></footer>"
