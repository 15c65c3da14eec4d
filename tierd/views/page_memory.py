"""The part of the page that shows how full each node is, as bars and as figures."""

from collections.abc import Mapping, Sequence
from typing import Any

from tierd.record.sensed import is_headroom_short
from tierd.units import format_percent, format_size
from tierd.views import statusview
from tierd.views.markup import escaped

# The width of a bar in the picture's units.
BAR_WIDTH = 1000


def legend() -> str:
    """Return what the colours mean."""
    kinds = ("hot", "used", "cold", "free")
    listed = "".join(f'<span class="key {kind}">{kind}</span>' for kind in kinds)
    return f'<p class="notes">{listed}<span class="key goal">headroom</span></p>'


def bars(nodes: Sequence[Mapping[str, Any]]) -> str:
    """Return a table with a row and a bar for each node, the fastest tier first."""
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
