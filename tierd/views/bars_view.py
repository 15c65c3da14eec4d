"""Charts for `tierd why` of promotion and demotion by page: the two bars, and what is beyond them.

A bar is a number of touches per second: 1 / lag for promotion, 1 / idle time for demotion.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import log10
from typing import Any

from tierd.units import format_percent
from tierd.views.plots import Ink, sparkline

Look = Mapping[str, Any]

# The scale: powers of ten of touches per second. An idle time is 600 s at most, and a lag is one
# window of 20 ms at least.
LEAST, MOST = -3, 2
COLUMNS_PER_POWER = 10
WIDTH = (MOST - LEAST) * COLUMNS_PER_POWER

# The names of the rows stand before the charts.
NAME_COLUMNS = 22

_UP = "promote"


def bars(scheme: Mapping[str, Any]) -> bool:
    """True if the scheme moves pages by a bar."""
    return scheme.get("bar_seconds") is not None


def drawn(looks: Sequence[Look], node: int, columns: int, ink: Ink) -> Iterator[str]:
    """Return the charts for `tierd why`; nothing if the node has no such schemes, or no space."""
    mine = [one for one in looks[-1]["schemes"] if bars(one) and node in _ends(one)]
    if not mine or columns < NAME_COLUMNS + WIDTH + 1:
        return
    yield "pages, by how often they are touched:"
    yield f"  {'touches per second':<{NAME_COLUMNS - 2}}{_scale()}"
    for one in mine:
        yield f"  {_name(one):<{NAME_COLUMNS - 2}}{_row(one)}"
    yield f"share of visited pages that is beyond the bar, {len(looks)} readings:"
    room = columns - NAME_COLUMNS - 8
    for one in mine:
        shares = shares_of(looks, one["scheme"])[-room:]
        most = max((share for share in shares if share is not None), default=0.0)
        now = _percent(one["bar_share"] or 0.0)
        line = sparkline(shares, most or 1.0, ink)
        yield f"  {_name(one):<{NAME_COLUMNS - 2}}{line} {now}"


def _percent(share: float) -> str:
    return format_percent(share * 10_000)


def shares_of(looks: Sequence[Look], scheme: str) -> list[float | None]:
    """Return the share beyond the bar in each look; None where the scheme has none."""
    return [
        next((one.get("bar_share") for one in look["schemes"] if one["scheme"] == scheme), None)
        for look in looks
    ]


def per_second(scheme: Mapping[str, Any]) -> float:
    """Return the bar of a scheme in touches per second."""
    return 1.0 / float(scheme["bar_seconds"])


def _ends(scheme: Mapping[str, Any]) -> tuple[int, int]:
    return scheme["source_node"], scheme["target_node"]


def _name(scheme: Mapping[str, Any]) -> str:
    way = "goes up" if scheme["action"] == _UP else "goes down"
    return f"node{scheme['source_node']}, {way}"


def _scale() -> str:
    marks = [f"{10.0**power:g}" for power in range(LEAST, MOST + 1)]
    return "".join(f"{mark:<{COLUMNS_PER_POWER}}" for mark in marks).rstrip()


def _row(scheme: Mapping[str, Any]) -> str:
    """Return the side of the bar on which pages move: to its right for promotion."""
    hz = per_second(scheme)
    at = round((log10(hz) - LEAST) * COLUMNS_PER_POWER)
    at = min(WIDTH - 1, max(1, at))
    where = f"{hz:.2g}"
    if scheme["action"] == _UP:
        return f"{' ' * at}|{'>' * (WIDTH - at - 1)} {where}"
    return f"{'<' * at}|{' ' * (WIDTH - at - 1)} {where}"
