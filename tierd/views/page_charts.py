"""The charts of the page: which there are, and their values."""

from collections.abc import Iterator, Sequence

from tierd.record.chronicle import HistoryNode, HistoryReading
from tierd.record.sensed import cold_used_bytes, hot_used_bytes
from tierd.record.snapshot import Snapshot
from tierd.units import format_duration_us, format_percent, format_rate, format_size
from tierd.views.charts import Chart, Series
from tierd.views.history import cost_points, rate_points

# The smallest scale of the charts of rates. Without it, noise would fill a chart.
RATE_MOST = 1e6
COST_MOST = 0.01

# The smallest scale of a chart of shares.
SHARE_MOST = 0.05


def charts(readings: tuple[HistoryReading, ...], order: Sequence[int]) -> Iterator[Chart]:
    """Return all charts: what moved, the cost, then the free and the used memory of the nodes.

    The nodes are in this order. Those that have gone come last.
    """
    up, down = rate_points(readings, "promote"), rate_points(readings, "demote")
    notes = tuple(
        (kind, f"{name} {format_rate(points[-1][1] if points else 0.0)}")
        for kind, name, points in (("promote", "promoted", up), ("demote", "demoted", down))
    )
    series = (Series("promote", up), Series("demote", down, down=True))
    yield Chart("Moved", notes, series, _most((*up, *down), RATE_MOST), format_rate)
    cost = cost_points(readings)
    now = cost[-1][1] if cost else 0.0
    note = (("cost", f"now {percent(now)} of a CPU"),)
    most = _most(cost, COST_MOST)
    yield Chart("Cost of kdamonds", note, (Series("cost", cost),), most, percent)
    nodes = {
        number: [(one.at, one.nodes[number]) for one in readings if number in one.nodes]
        for number in sorted(
            {number for reading in readings for number in reading.nodes},
            key=lambda number: (order.index(number) if number in order else len(order), number),
        )
    }
    for number, seen in nodes.items():
        if seen[-1][1].headroom_bytes:
            yield _room(number, seen)
    for number, seen in nodes.items():
        yield _fill(number, seen)


def bars(recent: Sequence[Snapshot]) -> Iterator[Chart]:
    """Return the charts for the page: for each node, the share beyond its bar in each reading."""
    last = recent[-1].schemes if recent else ()
    for now in last:
        if now.bar_seconds is None or now.bar_share is None:
            continue
        points = tuple(
            (one.at, scheme.bar_share)
            for one in recent
            for scheme in one.schemes
            if scheme.scheme == now.scheme and scheme.bar_share is not None
        )
        promotes = now.action == "promote"
        touched = "touched within" if promotes else "not touched for"
        bar = format_duration_us(round(now.bar_seconds * 1e6))
        notes = (
            (now.action, f"{percent(now.bar_share)} of the visited pages"),
            ("", f"{touched} {bar}"),
        )
        way = "up" if promotes else "down"
        yield Chart(
            f"node{now.source_node}: pages to go {way}",
            notes,
            (Series(now.action, points),),
            _most(points, SHARE_MOST),
            percent,
        )


def percent(share: float) -> str:
    """Return a share with one decimal: `1.4%`."""
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
        f"node{number} used",
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
