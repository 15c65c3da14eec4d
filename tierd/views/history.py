"""How it went: readings of hours as totals, charts in a terminal, and a picture to paste."""

import json
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypedDict

from tierd.record import chronicle
from tierd.record.chronicle import NodeReading, Reading, ReadingDocument
from tierd.record.sensed import cold_used_bytes, hot_used_bytes
from tierd.units import format_duration_us, format_percent, format_rate, format_size
from tierd.views import plots
from tierd.views.plots import Ink
from tierd.views.render import day, moment

SCHEMA = "tierd.history/1"

CHART_ROWS = 4
LABEL_COLUMNS = 12

# A gap between two readings that is longer than this was a time without tierd: what moved before
# and after it says nothing about a rate.
GAP_S_MAX = 90.0

# Charts of a whole day use a reading a minute: more than there are columns to draw, and so few that
# nobody has to wait for a machine of eight nodes.
READINGS_MAX = 1_440

# So long a reading stands for what comes after it.
HOLDS_S = 4.5 * chronicle.READING_EVERY_S

Points = tuple[tuple[float, float], ...]
"""Pairs of moment and value."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph: what it shows, in which unit, and a level that it is to be read against."""

    title: str
    note: str
    points: Points
    most: float
    label: Callable[[float], str]
    mark: float | None = None


def panels(readings: tuple[Reading, ...]) -> tuple[Panel, ...]:
    """What is worth a graph: rates each way, what is free where room is kept, hot and cold."""
    return (
        *(_rate_panel(readings, way, name) for way, name in _WAYS),
        *(panel for node in _nodes(readings) for panel in _node_panels(readings, node)),
    )


_WAYS = (("promote", "promoted"), ("demote", "demoted"))


def _nodes(readings: tuple[Reading, ...]) -> tuple[int, ...]:
    return tuple(sorted({node for reading in readings for node in reading.nodes}))


def _rate_panel(readings: tuple[Reading, ...], way: str, name: str) -> Panel:
    steps = tuple(pairwise(_totals(readings, way)))
    # A total that went back began anew, with a damaged file: nothing is known of that step.
    moved = sum(after - before for (_, before), (_, after) in steps if after > before)
    rates = tuple(
        (end, max(0.0, after - before) / (end - start))
        for (start, before), (end, after) in steps
        if 0 < end - start <= GAP_S_MAX
    )
    most = max((rate for _, rate in rates), default=0.0)
    note = f"{_size(moved)} in all, at most {format_rate(most)}"
    return Panel(name, note, rates, most, format_rate)


def _totals(readings: tuple[Reading, ...], way: str) -> list[tuple[float, int]]:
    """What the schemes of one direction had moved at each moment; their ids begin with it."""
    totals = []
    mine: dict[tuple[str, ...], list[str]] = {}
    for reading in readings:
        every = tuple(reading.applied_bytes)
        if every not in mine:
            mine[every] = [scheme for scheme in every if scheme.startswith(f"{way}-")]
        totals.append((reading.at, sum(map(reading.applied_bytes.__getitem__, mine[every]))))
    return totals


def _node_panels(readings: tuple[Reading, ...], node: int) -> Iterator[Panel]:
    seen = [(reading.at, reading.nodes[node]) for reading in readings if node in reading.nodes]
    last = seen[-1][1]
    if last.headroom_bytes is not None:
        yield _headroom_panel(node, seen)
    used = tuple((at, float(one.used_bytes)) for at, one in seen)
    share = format_percent(last.used_bytes * 10_000 / last.size_bytes)
    note = f"now {format_size(last.used_bytes)} of {format_size(last.size_bytes)} ({share})"
    yield Panel(f"node{node} used", note, used, float(last.size_bytes), _size)
    for name, values in (
        ("hot, could go up", [(at, _hot(one)) for at, one in seen]),
        ("cold, could go down", [(at, _cold(one)) for at, one in seen]),
    ):
        known = tuple((at, float(value)) for at, value in values if value is not None)
        if any(value for _, value in known):
            most = max(value for _, value in known)
            note = f"now {_size(known[-1][1])}, at most {_size(most)}"
            yield Panel(f"node{node} {name}", note, known, most, _size)


def _hot(node: NodeReading) -> int | None:
    if node.hot_bytes is None:
        return None
    return hot_used_bytes(node.size_bytes, node.free_bytes, node.hot_bytes)


def _cold(node: NodeReading) -> int | None:
    if node.cold_bytes is None:
        return None
    return cold_used_bytes(node.size_bytes, node.free_bytes, node.cold_bytes)


def _headroom_panel(node: int, seen: list[tuple[float, NodeReading]]) -> Panel:
    free = tuple((at, float(one.free_bytes)) for at, one in seen)
    target = seen[-1][1].headroom_bytes or 0
    below = sum(one.free_bytes < (one.headroom_bytes or 0) for _, one in seen)
    values = [value for _, value in free]
    note = (
        f"now {_size(values[-1])}, least {_size(min(values))}; keeps {format_size(target)}, "
        f"below that in {format_percent(below * 10_000 / len(seen))} of readings"
    )
    # The line of the target is to be seen, and not only the values above it.
    most = max(*values, target * 1.5)
    return Panel(f"node{node} free", note, free, most, _size, float(target))


def _size(value: float) -> str:
    return format_size(round(value))


def as_text(readings: tuple[Reading, ...], since: float, now: float, columns: int, ink: Ink) -> str:
    """`tierd history`: a chart for each panel, over the time that was asked for."""
    if not readings:
        return "no reading is kept of that time; tierd writes one every 10 s while it runs"
    start = max(since, readings[0].at)
    # A single reading still needs a span to stand in.
    end = max(now, start + 1.0)
    lines = textwrap.wrap(span(readings, start, end), columns)
    width = columns - LABEL_COLUMNS - 2
    for panel in panels(readings):
        values = plots.columns_of(panel.points, start, end, width, HOLDS_S)
        drawn = plots.chart(values, CHART_ROWS, panel.most, panel.label, ink, panel.mark)
        lines += ["", *textwrap.wrap(f"{panel.title}: {panel.note}", columns)]
        lines += [_aligned(line, ink) for line in drawn]
    return "\n".join([*lines, _axis(start, end, width)])


def _aligned(line: str, ink: Ink) -> str:
    label, frame, cells = line.partition(ink.frame)
    return label.rjust(LABEL_COLUMNS) + frame + cells


def span(readings: tuple[Reading, ...], start: float, end: float) -> str:
    """Which time is shown, on what it rests, and what tierd cost then."""
    length = format_duration_us(round((end - start) * 1_000_000))
    count = "1 reading" if len(readings) == 1 else f"{len(readings)} readings"
    return f"{length} until {day(end)} {moment(end)}: {count}{_cost(readings)}"


def _cost(readings: tuple[Reading, ...]) -> str:
    """What the kdamonds used; their figure begins anew where the counters were lost."""
    steps = [(b.at - a.at, b.cpu_seconds - a.cpu_seconds) for a, b in pairwise(readings)]
    known = [(length, used) for length, used in steps if 0 < length <= GAP_S_MAX and used >= 0]
    if not known:
        return ""
    share = sum(used for _, used in known) / sum(length for length, _ in known)
    return f"; kdamonds used {format_percent(share * 10_000)} of a CPU"


def _axis(start: float, end: float, width: int) -> str:
    left, right = moment(start), moment(end)
    return " " * (LABEL_COLUMNS + 1) + left + right.rjust(width - len(left))


class Document(TypedDict):
    """A stretch of time, as `tierd history --json` tells it."""

    schema: str
    since: float
    """Seconds since the epoch, as are all times."""
    until: float
    readings: list[ReadingDocument]
    """Oldest first, about ten seconds apart where tierd ran."""


def as_json(readings: tuple[Reading, ...], since: float, now: float) -> str:
    """`tierd history --json`: a reading on each line, as a day of them indented takes long."""
    head = json.dumps({"schema": SCHEMA, "since": since, "until": now}, indent=2)
    lines = ",".join(f"\n    {json.dumps(one)}" for one in chronicle.documents(readings))
    return f'{head.removesuffix("}").rstrip()},\n  "readings": [{lines}\n  ]\n}}'
