"""Text for people, made from the documents that programs get: same facts, drawn."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tierd.topology import EmptyNode, Node, Performance, Topology
from tierd.units import format_ids, format_percent, format_rate, format_size

BAR_CELLS = 20


def table(rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Rows as aligned columns, the first row being the heads."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        (
            indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def bar(part: float, cells: int = BAR_CELLS) -> str:
    """A share from 0 to 1 as a bar of plain characters."""
    filled = round(min(max(part, 0.0), 1.0) * cells)
    return "#" * filled + "." * (cells - filled)


def tiers_text(topology: Topology) -> str:
    """`tierd tiers`: every node, how it got its tier, and where its pages go."""
    lines = []
    for tier in topology.tiers:
        speed = " (fastest)" if tier.rank == 0 else ""
        lines.append(f"tier {tier.rank}{speed}: {tier.name}")
        rows: list[tuple[str, ...]] = [
            ("NODE", "SIZE", "CPUS", "HMAT", "DEMOTES TO", "PROMOTES TO", "TIER FROM")
        ]
        rows += [_node_row(topology, topology.node(node)) for node in tier.nodes]
        lines += [*table(rows), ""]
    outside = [node for node in topology.nodes if topology.tier_of(node.id) is None]
    lines += [
        f"not managed: node {node.id} ({format_size(node.size_bytes)}), {node.tier_origin}"
        for node in outside
    ]
    lines += [_empty_line(node) for node in topology.empty_nodes]
    if len(topology.tiers) == 1:
        lines.append("one tier only: there is nowhere to move pages to")
    return "\n".join(lines).rstrip() + "\n"


def _node_row(topology: Topology, node: Node) -> tuple[str, ...]:
    return (
        f"node{node.id}",
        format_size(node.size_bytes),
        format_ids(node.cpus) or "-",
        _performance(node.performance),
        _targets(topology.demotion_targets(node.id)),
        _targets(topology.promotion_targets(node.id)),
        node.tier_origin,
    )


def _performance(performance: Performance | None) -> str:
    if performance is None:
        return "-"
    latency = performance.read_latency_ns
    bandwidth = performance.read_bandwidth_mbps
    return f"{latency if latency is not None else '?'} ns, " + (
        f"{bandwidth / 1000:g} GB/s" if bandwidth is not None else "? GB/s"
    )


def _targets(nodes: tuple[int, ...]) -> str:
    return ", ".join(f"node{node}" for node in nodes) or "-"


def _empty_line(node: EmptyNode) -> str:
    why = f"{format_size(node.offline_bytes)} offline" if node.offline_bytes else "has CPUs only"
    return f"no memory: node {node.id} ({why})"


def tiers_document(topology: Topology) -> dict[str, Any]:
    """`tierd tiers --json`."""
    return {
        "schema": "tierd.tiers/1",
        "page_bytes": topology.page_bytes,
        "tiers": [
            {
                "name": tier.name,
                "rank": tier.rank,
                "nodes": [_node_document(topology, topology.node(node)) for node in tier.nodes],
            }
            for tier in topology.tiers
        ],
        "unmanaged_nodes": [
            _node_document(topology, node)
            for node in topology.nodes
            if topology.tier_of(node.id) is None
        ],
        "empty_nodes": [
            {"id": node.id, "cpus": list(node.cpus), "offline_bytes": node.offline_bytes}
            for node in topology.empty_nodes
        ],
    }


def _node_document(topology: Topology, node: Node) -> dict[str, Any]:
    performance = node.performance
    return {
        "id": node.id,
        "size_bytes": node.size_bytes,
        "cpus": list(node.cpus),
        "ranges": [{"start": one.start, "end": one.end} for one in node.ranges],
        "distances": {str(other): distance for other, distance in node.distances},
        "read_latency_ns": performance.read_latency_ns if performance else None,
        "write_latency_ns": performance.write_latency_ns if performance else None,
        "read_bandwidth_mbps": performance.read_bandwidth_mbps if performance else None,
        "write_bandwidth_mbps": performance.write_bandwidth_mbps if performance else None,
        "demotion_targets": list(topology.demotion_targets(node.id)),
        "promotion_targets": list(topology.promotion_targets(node.id)),
        "tier_from": node.tier_origin,
    }


def status_text(status: dict[str, Any], now: float) -> str:
    """`tierd status`: the verdict first, then what it rests on."""
    if "at" not in status:
        return "STARTING: the first reading is not there yet"
    lines = [f"{status['state'].upper()}: {status['reason']}", _vitals(status, now), ""]
    lines += [_node_bar(node) for node in status["nodes"]]
    if status["schemes"]:
        rows: list[tuple[str, ...]] = [
            ("SCHEME", "MOVED", "TRIED", "NOW", "QUOTA/WINDOW", "QUOTA HIT")
        ]
        rows += [_scheme_row(scheme) for scheme in status["schemes"]]
        lines += ["", *table(rows)]
    if status["goals"]:
        lines += ["", *(_goal_line(goal) for goal in status["goals"])]
    lines += [f"steered by: {status['tuner']}: {status['tuner_reason']}"]
    for title, entries in (
        ("degraded because", status["degraded"]),
        ("neighbours", status["conflicts"]),
        ("last events", [event_line(event) for event in status["events"][-5:]]),
    ):
        if entries:
            lines += ["", title, *(f"  {entry}" for entry in entries)]
    return "\n".join(lines)


def _vitals(status: dict[str, Any], now: float) -> str:
    up = sum(kdamond["up"] for kdamond in status["kdamonds"])
    age = max(0.0, now - status["at"])
    stale = status["refreshed_seconds_ago"]
    counters = "no counters yet" if stale is None else f"counters {stale + age:.0f} s old"
    return (
        f"on {status['machine']}, mode {status['mode']}; "
        f"{up} of {len(status['kdamonds'])} kdamonds run; sample {age:.0f} s old, {counters}"
    )


def _node_bar(node: dict[str, Any]) -> str:
    size, free = node["size_bytes"], node["free_bytes"]
    target = node["headroom_target_bytes"]
    goal = f", keeps {format_size(target)} free" if target is not None else ""
    return (
        f"  node{node['numa_node']:<3} [{bar((size - free) / size)}] {format_size(size)}, "
        f"{format_size(free)} free{goal}  ({node['tier']})"
    )


def _scheme_row(scheme: dict[str, Any]) -> tuple[str, ...]:
    effective = scheme["quota_effective_bytes"]
    quota = "?" if effective is None else format_size(effective)
    return (
        scheme["scheme"],
        format_size(scheme["applied_bytes_total"]),
        format_size(scheme["tried_bytes_total"]),
        format_rate(scheme["applied_bytes_per_s"]),
        f"{quota} of {format_size(scheme['quota_bytes_max'])}",
        str(scheme["quota_exceeded_total"]),
    )


def _goal_line(goal: dict[str, Any]) -> str:
    now, target = format_percent(goal["current_bp"]), format_percent(goal["target_bp"])
    return f"goal {goal['goal']}: {now}, aims at {target}"


def event_line(event: Mapping[str, Any]) -> str:
    """When, what and why."""
    moment = datetime.fromtimestamp(event["at"], UTC).strftime("%H:%M:%SZ")
    return f"{moment} {event['event']}" + (f": {event['text']}" if event["text"] else "")
