"""The output of `tierd tiers`, and the tables, times and event lines that other views use."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from tierd.units import format_ids, format_size

if TYPE_CHECKING:
    # `status` uses this module; loading the topology as well would make it slower.
    from tierd.topology import EmptyNode, Node, Performance, Topology


TIERS_SCHEMA = "tierd.tiers/1"


def table(rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Return the rows as lines with aligned columns; the first row holds the headings."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        (
            indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def tiers_text(topology: "Topology") -> str:
    """Return the text of `tierd tiers`: each node, its tier, and where its pages may move."""
    lines = []
    for tier in topology.tiers:
        speed = " (fastest)" if tier.rank == 0 else ""
        nodes = [topology.node(node) for node in tier.nodes]
        lines.append(f"tier {tier.rank}{speed}: {tier.name}{_shared_origin(nodes)}")
        rows: list[tuple[str, ...]] = [
            ("NODE", "SIZE", "CPUS", "HMAT", "DEMOTES TO", "PROMOTES TO", "TIER FROM")
        ]
        rows += [_node_row(topology, node) for node in nodes]
        if _shared_origin(nodes):
            rows = [row[:-1] for row in rows]
        lines += [*table(rows), ""]
    outside = [node for node in topology.nodes if topology.tier_of(node.id) is None]
    lines += [
        f"not managed: node {node.id} ({format_size(node.size_bytes)}): {node.tier_origin}"
        for node in outside
    ]
    for empty in topology.empty_nodes:
        lines.append(f"no memory: node {empty.id} ({_instead(empty)})")
    if len(topology.tiers) == 1:
        lines.append("there is one tier only: pages cannot be moved to another")
    return "\n".join(lines).rstrip() + "\n"


def _instead(node: "EmptyNode") -> str:
    """Return what a node without memory has."""
    if node.offline_bytes:
        return f"{format_size(node.offline_bytes)} offline"
    return "has CPUs only" if node.cpus else "memory may appear later"


def _shared_origin(nodes: "Sequence[Node]") -> str:
    """Return the origin that all nodes of a tier share; it saves a column in the table."""
    origins = {node.tier_origin for node in nodes}
    return f", from {origins.pop()}" if len(origins) == 1 else ""


def _node_row(topology: "Topology", node: "Node") -> tuple[str, ...]:
    return (
        f"node{node.id}",
        format_size(node.size_bytes),
        format_ids(node.cpus) or "-",
        _performance(node.performance),
        _targets(topology.demotion_targets(node.id)),
        _targets(topology.promotion_targets(node.id)),
        node.tier_origin,
    )


def _performance(performance: "Performance | None") -> str:
    if performance is None:
        return "-"
    latency = performance.read_latency_ns
    bandwidth = performance.read_bandwidth_mbps
    return f"{latency if latency is not None else '?'} ns, " + (
        f"{bandwidth / 1000:g} GB/s" if bandwidth is not None else "? GB/s"
    )


def _targets(nodes: tuple[int, ...]) -> str:
    return ", ".join(f"node{node}" for node in nodes) or "-"


class RangeDocument(TypedDict):
    """A range of physical addresses; `end` is the first address after it."""

    start: int
    end: int


class NodeDocument(TypedDict):
    """A node with memory."""

    id: int
    size_bytes: int
    cpus: list[int]
    ranges: list[RangeDocument]
    distances: dict[str, int]
    """By the id of the other node, from the firmware; the distance to the node itself is 10."""
    read_latency_ns: int | None
    """From the firmware's HMAT; null if the HMAT has no value."""
    write_latency_ns: int | None
    read_bandwidth_mbps: int | None
    write_bandwidth_mbps: int | None
    demotion_targets: list[int]
    promotion_targets: list[int]
    tier_from: str
    """How the node got its tier, in words."""


class TierDocument(TypedDict):
    """Nodes of about the same speed."""

    name: str
    rank: int
    """0 is the fastest."""
    nodes: list[NodeDocument]


class EmptyNodeDocument(TypedDict):
    """A node without memory now."""

    id: int
    cpus: list[int]
    offline_bytes: int


class InterleaveDocument(TypedDict):
    """The kernel's weights of weighted interleave."""

    auto: bool | None
    """True if the kernel computes them; null if it cannot (before 6.16)."""
    weights: dict[str, int]
    """By the id of the node."""
    by_bandwidth: dict[str, int] | None
    """Those that fit firmware's bandwidths; null if firmware does not tell one for each node."""


class TiersDocument(TypedDict):
    """The topology, as `tierd tiers --json` prints it."""

    schema: str
    page_bytes: int
    tiers: list[TierDocument]
    """Fastest first."""
    unmanaged_nodes: list[NodeDocument]
    empty_nodes: list[EmptyNodeDocument]
    interleave: InterleaveDocument | None
    """Null if the kernel has no weighted interleave (before 6.9)."""


def tiers_document(
    topology: "Topology", weights: InterleaveDocument | None = None
) -> TiersDocument:
    """Return the document that `tierd tiers --json` prints."""
    return {
        "schema": TIERS_SCHEMA,
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
        "interleave": weights,
    }


def _node_document(topology: "Topology", node: "Node") -> NodeDocument:
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


def event_line(event: Mapping[str, Any]) -> str:
    """Return an event as one line: time, kind, text; line ends in the text become spaces."""
    text = " ".join(str(event["text"]).split())
    return f"{moment(event['at'])} {event['event']}" + (f": {text}" if text else "")


def day(at: float) -> str:
    """Return the day of a time, in UTC: `2026-11-21`."""
    return time.strftime("%Y-%m-%d", time.gmtime(at))


def moment(at: float) -> str:
    """Return the time of day, in UTC: `18:04:05Z`."""
    return time.strftime("%H:%M:%SZ", time.gmtime(at))
