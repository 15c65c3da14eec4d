"""The web page of tierd: a snapshot and the last hour as one HTML document.

Rules of this file: every text that is not of this file goes through `escaped`. There is no style
attribute and no handler in a tag: the page's Content-Security-Policy forbids both. All that a
reader needs is in the document; the script only fetches a newer one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tierd.record.chronicle import HistoryNode, HistoryReading
from tierd.record.sensed import cold_used_bytes, hot_used_bytes, is_headroom_short
from tierd.record.snapshot import Snapshot, document
from tierd.units import format_duration_us, format_percent, format_rate, format_size
from tierd.views import statusview, whyview
from tierd.views.charts import Chart, Series, Span, figure
from tierd.views.history import cost_points, rate_points
from tierd.views.markup import escaped
from tierd.views.render import day, moment

# The time that the charts show: the shortest of these that has room for all readings.
SPANS_S = (300.0, 900.0, 3_600.0)

# More events than this are in `tierd events`.
EVENTS_SHOWN = 12

# The smallest scale of the charts of rates. Without it, noise would fill a chart.
RATE_MOST = 1e6
COST_MOST = 0.01

# The width of a bar in the picture's units.
BAR_WIDTH = 1000

ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Crect width='16' height='16' rx='3' fill='%231b2733'/%3E"
    "%3Cpath d='M3 5h10' stroke='%23f08c3a' stroke-width='3'/%3E"
    "%3Cpath d='M3 11h10' stroke='%235b9bd5' stroke-width='3'/%3E%3C/svg%3E"
)

LINKS = (("/metrics", "metrics"), ("/healthz", "health"), ("/readyz", "ready"))

SUBTITLE = {"promote": "to faster memory", "demote": "to slower memory"}


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
    yield _section("memory", "Memory", _nodes(status["nodes"]), _legend())
    yield _charts(look)
    yield _section("decisions", "Decisions", _decisions(look, status))
    yield '<div class="columns">'
    yield _section("events", "Events", _events(status["events"]))
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
    reasons = "".join(f"<li>{escaped(one)}</li>" for one in status["degraded"])
    return (
        f'<section id="verdict" class="verdict {escaped(state)}" aria-label="State">'
        f'<h2><span class="state">{escaped(state)}</span> {_coded(said)}</h2>'
        + (f'<ul class="reasons">{reasons}</ul>' if reasons else "")
        + f'<dl class="figures">{"".join(_figures(status))}</dl></section>'
    )


def _coded(text: str) -> str:
    """Return the text with its commands, which stand in backquotes, as code."""
    parts = escaped(text).split("`")
    return "".join(f"<code>{one}</code>" if n % 2 else one for n, one in enumerate(parts))


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


def _legend() -> str:
    kinds = ("hot", "used", "cold", "free")
    listed = "".join(f'<span class="key {kind}">{kind}</span>' for kind in kinds)
    return f'<p class="notes">{listed}<span class="key goal">headroom</span></p>'


def _nodes(nodes: Sequence[Mapping[str, Any]]) -> str:
    heads = ("node", "", "size", "used", "free", "headroom", "hot", "cold")
    columns = "".join(f'<th scope="col">{head or "<span>how full</span>"}</th>' for head in heads)
    rows = "".join(map(_node, statusview.fastest_first(nodes)))
    return f'<table class="nodes"><thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table>'


def _node(node: Mapping[str, Any]) -> str:
    size, free, target = node["size_bytes"], node["free_bytes"], node["headroom_target_bytes"]
    hot, cold = statusview.hot_of(node), statusview.cold_of(node)
    short = bool(target) and is_headroom_short(free, target)
    kept = "-" if not target else f"{format_size(target)}, {'short' if short else 'kept'}"
    cells = (
        ("size", format_size(size)),
        ("used", f"{format_size(size - free)} ({_share(size - free, size)})"),
        ("free", f"{format_size(free)} ({_share(free, size)})"),
        ("headroom", kept),
        ("hot", "-" if hot is None else format_size(hot)),
        ("cold", "-" if cold is None else format_size(cold)),
    )
    told = "; ".join(f"{name} {value}" for name, value in cells)
    listed = "".join(
        f'<td data-name="{name}"{_short_class(name, short=short)}>{escaped(value)}</td>'
        for name, value in cells
    )
    return (
        f'<tr><th scope="row">node{node["numa_node"]}<small>{escaped(node["tier"])}</small></th>'
        f'<td class="bar">{_bar(node, hot or 0, cold or 0, told)}</td>{listed}</tr>'
    )


def _short_class(name: str, *, short: bool) -> str:
    return ' class="bad"' if name == "headroom" and short else ""


def _share(part: int, whole: int) -> str:
    return format_percent(round(part * 100 / max(1, whole), 1) * 100)


def _bar(node: Mapping[str, Any], hot: int, cold: int, told: str) -> str:
    """Return a bar: hot memory first, then what is neither hot nor cold, cold, and free memory."""
    size = max(1, node["size_bytes"])
    used = size - node["free_bytes"]
    hot = min(hot, used)
    cold = min(cold, used - hot)
    parts, begin = [], 0
    for kind, end in (("hot", hot), ("used", used - cold), ("cold", used)):
        x, right = (round(edge * BAR_WIDTH / size) for edge in (begin, end))
        if right > x:
            parts.append(f'<rect class="{kind}" x="{x}" width="{right - x}" height="20"/>')
        begin = end
    target = node["headroom_target_bytes"]
    if target:
        x = round((size - min(target, size)) * BAR_WIDTH / size)
        parts.append(f'<path class="goal" d="M{x} 0V20"/>')
    return (
        f'<svg viewBox="0 0 {BAR_WIDTH} 20" preserveAspectRatio="none" role="img" '
        f'aria-label="{escaped(told)}">{"".join(parts)}</svg>'
    )


def _charts(look: Look) -> str:
    span = _span(look.readings, look.now)
    drawn = "".join(figure(chart, span) for chart in _all_charts(look.readings))
    long = format_duration_us(round((span.end - span.start) * 1e6))
    note = f'<p class="notes"><span>the last {long}, UTC</span></p>'
    return _section("charts", "Over time", f'<div class="charts">{drawn}</div>', note)


def _span(readings: tuple[HistoryReading, ...], now: float) -> Span:
    first = min((reading.at for reading in readings), default=now)
    long_s = next((one for one in SPANS_S if now - first <= one), SPANS_S[-1])
    return Span(now - long_s, now)


def _all_charts(readings: tuple[HistoryReading, ...]) -> Iterator[Chart]:
    up, down = rate_points(readings, "promote"), rate_points(readings, "demote")
    notes = tuple(
        (kind, f"{name} {format_rate(points[-1][1] if points else 0.0)}")
        for kind, name, points in (("promote", "promoted", up), ("demote", "demoted", down))
    )
    series = (Series("promote", up), Series("demote", down, down=True))
    yield Chart("Moved", notes, series, _most((*up, *down), RATE_MOST), format_rate)
    cost = cost_points(readings)
    now = cost[-1][1] if cost else 0.0
    note = (("cost", f"now {_percent_of_cpu(now)} of a CPU"),)
    most = _most(cost, COST_MOST)
    yield Chart("Cost of kdamonds", note, (Series("cost", cost),), most, _percent_of_cpu)
    for number in sorted({number for reading in readings for number in reading.nodes}):
        seen = [(one.at, one.nodes[number]) for one in readings if number in one.nodes]
        yield _fill(number, seen)
        if seen[-1][1].headroom_bytes:
            yield _room(number, seen)


def _percent_of_cpu(share: float) -> str:
    return format_percent(round(share * 100, 1) * 100)


def _most(points: Sequence[tuple[float, float]], least: float) -> float:
    """Return the smallest of 1, 2, 5, 10, 20 ... times `least` that no value is above."""
    most, factors = least, (2.0, 2.5, 2.0)
    highest = max((value for _, value in points), default=0.0)
    number = 0
    while most < highest:
        most *= factors[number % len(factors)]
        number += 1
    return most


def _fill(number: int, seen: list[tuple[float, HistoryNode]]) -> Chart:
    """Return the chart of what a node holds, in the order and the colours of its bar."""
    rows = [(at, *_parts(node)) for at, node in seen]
    last = seen[-1][1]
    used = tuple((at, float(used)) for at, _, _, used in rows)
    warm = tuple((at, float(used - cold)) for at, _, cold, used in rows)
    hot = tuple((at, float(hot)) for at, hot, _, _ in rows)
    notes = [("used", f"used {format_size(last.used_bytes)}")]
    if last.hot_bytes is not None:
        notes.insert(0, ("hot", f"hot {format_size(rows[-1][1])}"))
    if last.cold_bytes is not None:
        notes.append(("cold", f"cold {format_size(rows[-1][2])}"))
    return Chart(
        f"node{number}",
        tuple(notes),
        (Series("cold", used), Series("used", warm), Series("hot", hot)),
        float(max(node.size_bytes for _, node in seen)),
        _size,
    )


def _parts(node: HistoryNode) -> tuple[int, int, int]:
    """Return how much of a node is hot, cold and used; hot and cold together are not above used."""
    size, free, used = node.size_bytes, node.free_bytes, node.used_bytes
    hot = 0 if node.hot_bytes is None else hot_used_bytes(size, free, node.hot_bytes)
    cold = 0 if node.cold_bytes is None else cold_used_bytes(size, free, node.cold_bytes)
    return hot, min(cold, used - hot), used


def _room(number: int, seen: list[tuple[float, HistoryNode]]) -> Chart:
    free = tuple((at, float(node.free_bytes)) for at, node in seen)
    target = float(seen[-1][1].headroom_bytes or 0)
    # The line of the target stands in the upper half.
    most = max(max(value for _, value in free), target * 1.5)
    notes = (
        ("room", f"free {format_size(seen[-1][1].free_bytes)}"),
        ("goal", f"headroom {_size(target)}"),
    )
    return Chart(f"node{number} free", notes, (Series("room", free),), most, _size, target)


def _size(value: float) -> str:
    return format_size(round(value))


def _decisions(look: Look, status: Mapping[str, Any]) -> str:
    looks = [
        {
            "at": one.at,
            "state": one.state,
            "schemes": [
                {
                    "scheme": scheme.scheme,
                    "reason": scheme.reason,
                    "applied_bytes_per_s": scheme.applied_bytes_per_s,
                }
                for scheme in one.schemes
            ],
        }
        for one in look.recent
    ]
    if not status["schemes"]:
        return '<p class="none">No scheme runs.</p>'
    cards = "".join(_scheme(looks, status["state"], one) for one in status["schemes"])
    return f'<div class="cards">{cards}</div>'


def _scheme(looks: Sequence[whyview.Look], state: str, scheme: Mapping[str, Any]) -> str:
    action = str(scheme["action"])
    said = whyview.sentence(state, scheme)
    turns = "".join(map(_turn, reversed(whyview.turns(looks, scheme["scheme"]))))
    figures = "".join(f"<li>{escaped(one)}</li>" for one in whyview.figures(scheme))
    return (
        f'<article class="card"><h3><span class="key {escaped(action)}">'
        f"node{scheme['source_node']} &rarr; node{scheme['target_node']}</span>"
        f"<small>{SUBTITLE.get(action, '')}</small>"
        f"<b>{escaped(format_rate(scheme['applied_bytes_per_s']))}</b></h3>"
        f"<p>{_coded(said[:1].upper() + said[1:])}</p>"
        f'<ol class="log">{turns}</ol><ul class="small">{figures}</ul></article>'
    )


def _turn(turn: whyview.Turn) -> str:
    moved = turn.moved_bytes_per_s
    tail = f'<span class="moved">{escaped(format_rate(moved))}</span>' if moved else ""
    long = whyview.lasted(turn) if turn.lasted_s > 0 else "now"
    return (
        f"<li><time>{moment(turn.at)}</time><span>{escaped(long)}</span>"
        f"<span>{_coded(turn.reason)}</span>{tail}</li>"
    )


def _events(events: Sequence[Mapping[str, Any]]) -> str:
    if not events:
        return '<p class="none">Nothing has happened yet.</p>'
    rows = "".join(
        f'<li><time datetime="{day(one["at"])}T{moment(one["at"])}">{moment(one["at"])}</time>'
        f"<b>{escaped(one['event'])}</b><span>{_coded(' '.join(one['text'].split()))}</span></li>"
        for one in reversed(events[-EVENTS_SHOWN:])
    )
    return f'<ol class="log">{rows}</ol>'


def _others(status: Mapping[str, Any]) -> str:
    if not status["conflicts"]:
        return '<p class="none">No other program uses DAMON or moves pages.</p>'
    return "<ul>" + "".join(f"<li>{_coded(one)}</li>" for one in status["conflicts"]) + "</ul>"


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
    cost = _percent_of_cpu(used_s / seconds) if one["cpu_known"] and seconds > 0 else "?"
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
