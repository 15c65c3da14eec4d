"""The output of `tierd history`: the readings of some hours as charts, or as JSON."""

import json
import textwrap
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypedDict

from tierd.frozen import dataclass
from tierd.record import chronicle
from tierd.record.chronicle import HistoryNode, HistoryReading, HistoryReadingDocument
from tierd.record.sensed import cold_used_bytes, hot_used_bytes, is_headroom_short
from tierd.units import format_duration_us, format_percent, format_rate, format_size
from tierd.views import plots
from tierd.views.plots import Ink
from tierd.views.render import day, moment

SCHEMA = "tierd.history/1"

CHART_ROWS = 4
LABEL_COLUMNS = 12

# If two readings are further apart than this, tierd did not run in between: no rate is computed
# from them.
GAP_S_MAX = 90.0

# Charts of a whole day use one reading per minute. That is more than there are columns, and few
# enough to be drawn at once, even for a machine with eight nodes.
READINGS_MAX = 1_440

# Seconds after a reading for which a chart without a newer reading shows its value.
HOLDS_S = 4.5 * chronicle.READING_EVERY_S

Points = tuple[tuple[float, float], ...]
"""Pairs of moment and value."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart: title, note, values, largest value, unit, and a level to draw a line at."""

    title: str
    note: str
    points: Points
    most: float
    label: Callable[[float], str]
    mark: float | None = None


def panels(readings: tuple[HistoryReading, ...]) -> tuple[Panel, ...]:
    """Return the charts: the rate of each direction; of each node free, used, hot, cold memory."""
    nodes = sorted({node for reading in readings for node in reading.nodes})
    return (
        *(_rate_panel(readings, way, name) for way, name in _WAYS),
        *(panel for node in nodes for panel in _node_panels(readings, node)),
    )


_WAYS = (("promote", "promoted"), ("demote", "demoted"))


def _rate_panel(readings: tuple[HistoryReading, ...], way: str, name: str) -> Panel:
    steps = tuple(pairwise(_totals(readings, way)))
    # A total that went down began again at 0, as its file was damaged: that step is left out.
    moved = sum(after - before for (_, before), (_, after) in steps if after > before)
    rates = rate_points(readings, way)
    most = max((rate for _, rate in rates), default=0.0)
    note = f"{_size(moved)} in total, at most {format_rate(most)}"
    return Panel(name, note, rates, most, format_rate)


def rate_points(readings: tuple[HistoryReading, ...], way: str) -> Points:
    """Return the bytes per second that were moved in a direction, at the end of each step."""
    return _rates(_totals(readings, way))


def cost_points(readings: tuple[HistoryReading, ...]) -> Points:
    """Return the share of a CPU that the kdamonds used, at the end of each step."""
    return _rates([(reading.at, reading.cpu_seconds) for reading in readings])


def _rates(totals: Sequence[tuple[float, float]]) -> Points:
    return tuple(
        (end, max(0.0, after - before) / (end - start))
        for (start, before), (end, after) in pairwise(totals)
        if 0 < end - start <= GAP_S_MAX
    )


def _totals(readings: tuple[HistoryReading, ...], way: str) -> list[tuple[float, int]]:
    """Return what the schemes of one direction had moved at each moment.

    The id of a scheme begins with its direction.
    """
    totals = []
    mine: dict[tuple[str, ...], list[str]] = {}
    for reading in readings:
        every = tuple(reading.applied_bytes)
        if every not in mine:
            mine[every] = [scheme for scheme in every if scheme.startswith(f"{way}-")]
        totals.append((reading.at, sum(map(reading.applied_bytes.__getitem__, mine[every]))))
    return totals


def _node_panels(readings: tuple[HistoryReading, ...], node: int) -> Iterator[Panel]:
    seen = [(reading.at, reading.nodes[node]) for reading in readings if node in reading.nodes]
    last = seen[-1][1]
    if last.headroom_bytes is not None:
        yield _headroom_panel(node, seen)
    used = tuple((at, float(one.used_bytes)) for at, one in seen)
    share = format_percent(last.used_bytes * 10_000 / max(1, last.size_bytes))
    note = f"now {format_size(last.used_bytes)} of {format_size(last.size_bytes)} ({share})"
    yield Panel(f"node{node} used", note, used, float(last.size_bytes), _size)
    for name, values in (
        ("hot, could be promoted", [(at, _hot(one)) for at, one in seen]),
        ("cold, could be demoted", [(at, _cold(one)) for at, one in seen]),
    ):
        known = tuple((at, float(value)) for at, value in values if value is not None)
        if any(value for _, value in known):
            most = max(value for _, value in known)
            note = f"now {_size(known[-1][1])}, at most {_size(most)}"
            yield Panel(f"node{node} {name}", note, known, most, _size)


def _hot(node: HistoryNode) -> int | None:
    if node.hot_bytes is None:
        return None
    return hot_used_bytes(node.size_bytes, node.free_bytes, node.hot_bytes)


def _cold(node: HistoryNode) -> int | None:
    if node.cold_bytes is None:
        return None
    return cold_used_bytes(node.size_bytes, node.free_bytes, node.cold_bytes)


def _headroom_panel(node: int, seen: list[tuple[float, HistoryNode]]) -> Panel:
    free = tuple((at, float(one.free_bytes)) for at, one in seen)
    target = seen[-1][1].headroom_bytes or 0
    short = sum(is_headroom_short(one.free_bytes, one.headroom_bytes or 0) for _, one in seen)
    values = [value for _, value in free]
    note = (
        f"now {_size(values[-1])}, at least {_size(min(values))}; headroom {format_size(target)}, "
        f"short by more than a tenth in {format_percent(short * 10_000 / len(seen))} of readings"
    )
    # The chart is high enough to show the line of the target too.
    most = max(*values, target * 1.5)
    return Panel(f"node{node} free", note, free, most, _size, float(target))


def _size(value: float) -> str:
    return format_size(round(value))


def as_text(
    readings: tuple[HistoryReading, ...], since: float, now: float, columns: int, ink: Ink
) -> str:
    """Return the text of `tierd history`: all charts, over the time that was asked for."""
    if not readings:
        return "there are no readings of that time; tierd writes one every 10 s while it runs"
    start = max(since, min(reading.at for reading in readings))
    # A single reading needs a span of more than 0 too.
    end = max(now, start + 1.0)
    lines = textwrap.wrap(span(readings, start, end), columns)
    width = columns - LABEL_COLUMNS - 2
    for panel in panels(readings):
        values = plots.columns_of(panel.points, start, end, width, HOLDS_S)
        drawn = plots.chart(values, CHART_ROWS, panel.most, panel.label, ink, panel.mark)
        lines += ["", *textwrap.wrap(f"{panel.title}: {panel.note}", columns)]
        for line in drawn:
            label, frame, cells = line.partition(ink.frame)
            lines.append(label.rjust(LABEL_COLUMNS) + frame + cells)
    left, right = moment(start), moment(end)
    axis = " " * (LABEL_COLUMNS + 1) + left + right.rjust(width - len(left))
    return "\n".join([*lines, axis])


def span(readings: tuple[HistoryReading, ...], start: float, end: float) -> str:
    """Return the heading: the period, the number of readings, and the CPU time of kdamonds."""
    length = format_duration_us(round((end - start) * 1_000_000))
    count = "1 reading" if len(readings) == 1 else f"{len(readings)} readings"
    return f"{length} up to {day(end)} {moment(end)}: {count}{_cost(readings)}"


def _cost(readings: tuple[HistoryReading, ...]) -> str:
    """Return the share of a CPU that the kdamonds used.

    A step in which the counter went down is left out: the counters were lost.
    """
    steps = [(b.at - a.at, b.cpu_seconds - a.cpu_seconds) for a, b in pairwise(readings)]
    known = [(length, used) for length, used in steps if 0 < length <= GAP_S_MAX and used >= 0]
    if not known:
        return ""
    share = sum(used for _, used in known) / sum(length for length, _ in known)
    return f"; kdamonds used {format_percent(share * 10_000)} of a CPU"


class Document(TypedDict):
    """The readings of a period, as `tierd history --json` prints them."""

    schema: str
    since: float
    """In seconds since the epoch, like all times."""
    until: float
    readings: list[HistoryReadingDocument]
    """Oldest first, about 10 s apart while tierd ran."""


def as_json(readings: tuple[HistoryReading, ...], since: float, now: float) -> str:
    """Return the text of `tierd history --json`.

    Each reading is on one line: to indent the readings of a whole day would take long.
    """
    head = json.dumps({"schema": SCHEMA, "since": since, "until": now}, indent=2)
    lines = ",".join(f"\n    {json.dumps(one)}" for one in chronicle.documents(readings))
    return f'{head.removesuffix("}").rstrip()},\n  "readings": [{lines}\n  ]\n}}'
