"""What was measured of each node, as text and JSON, beside the figures of firmware. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict

from tierd.configuration.valuetypes import bandwidths
from tierd.frozen import dataclass
from tierd.machine.interleave import weights_for
from tierd.topology import Node, Topology
from tierd.units import format_ids

# A measured ratio of two nodes differs from that of firmware if it is off by this factor. Idle
# latencies of one machine differ by a tenth from run to run.
DIFFERS = 1.5

# A node counts as slower than another if its latency is higher by this factor.
SLOWER = 1.25


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast one node was; `refused` is the reason if it was not measured."""

    node: int
    cpus: tuple[int, ...] = ()
    """The processors that measured it: those that are nearest."""
    latency_ns: float | None = None
    """From the end of one access to the end of the next that depends on it."""
    read_mbps: float | None = None
    refused: str = ""


class SpeedDocument(TypedDict):
    """How fast one node is, as `tierd doctor --measure` measured it."""

    numa_node: int
    cpus: list[int]
    """The processors that measured it."""
    latency_ns: float | None
    read_mbps: float | None
    """Bytes that all these processors together read per second, in 10^6."""
    firmware_latency_ns: int | None
    """From HMAT, for the same processors."""
    firmware_read_mbps: int | None
    refused: str
    """Why the node was not measured; empty if it was."""


def as_documents(speeds: Sequence[Speed], topology: Topology) -> list[SpeedDocument]:
    """Return what `tierd doctor --measure --json` adds to the findings."""
    return [
        {
            "numa_node": one.node,
            "cpus": list(one.cpus),
            "latency_ns": one.latency_ns and round(one.latency_ns, 1),
            "read_mbps": one.read_mbps and round(one.read_mbps, 1),
            "firmware_latency_ns": _told(topology.node(one.node))[0],
            "firmware_read_mbps": _told(topology.node(one.node))[1],
            "refused": one.refused,
        }
        for one in speeds
    ]


def as_rows(speeds: Sequence[Speed], topology: Topology) -> list[tuple[str, ...]]:
    """Return a table: each node with its figures, and those of firmware in brackets."""
    known = [one.latency_ns for one in speeds if one.latency_ns]
    rows: list[tuple[str, ...]] = [
        ("NODE", "CPUS", "LATENCY (HMAT)", "TIMES THE FASTEST", "READ BANDWIDTH (HMAT)")
    ]
    for one in speeds:
        latency, bandwidth = _told(topology.node(one.node))
        times = f"{one.latency_ns / min(known):.2f}" if one.latency_ns and known else "-"
        rows.append(
            (
                f"node{one.node}",
                format_ids(one.cpus) or "-",
                f"{_whole(one.latency_ns)} ns ({_whole(latency)})",
                times,
                f"{_giga(one.read_mbps)} GB/s ({_giga(bandwidth)})",
            )
        )
    return rows


def remarks(speeds: Sequence[Speed], topology: Topology) -> Iterator[str]:
    """Yield what the figures mean: nodes not measured, tiers in doubt, firmware in doubt."""
    yield from (f"node {one.node} was not measured: {one.refused}" for one in speeds if one.refused)
    known = {one.node: one.latency_ns for one in speeds if one.latency_ns}
    if not known:
        return
    fastest = min(known, key=lambda node: known[node])
    slower = [node for node in known if known[node] >= SLOWER * known[fastest]]
    if slower and len(topology.tiers) < 2:
        tiers = [[node for node in known if node not in slower], slower]
        yield (
            f"node {format_ids(slower)} answers later than node {fastest}, and all nodes are in "
            f"one tier: add this to the configuration: `tiers: {tiers}`"
        )
    yield from _out_of_order(known, topology)
    yield from _firmware_differs(known, fastest, topology)
    yield from _bandwidths(speeds, topology)


def _out_of_order(known: dict[int, float], topology: Topology) -> Iterator[str]:
    for above, below in zip(topology.tiers, topology.tiers[1:], strict=False):
        for fast in above.nodes:
            for slow in below.nodes:
                if slow in known and fast in known and SLOWER * known[slow] <= known[fast]:
                    yield (
                        f"node {slow} is in a slower tier than node {fast}, but answers sooner: "
                        "check `tierd tiers`, and set `tiers` in the configuration"
                    )


def _firmware_differs(known: dict[int, float], fastest: int, topology: Topology) -> Iterator[str]:
    base = _told(topology.node(fastest))[0]
    for node, latency in known.items():
        told = _told(topology.node(node))[0]
        if not base or not told or node == fastest:
            continue
        measured, said = latency / known[fastest], told / base
        if max(measured / said, said / measured) >= DIFFERS:
            yield (
                f"node {node} answers {measured:.1f} times as late as node {fastest}; firmware "
                f"says {said:.1f} times"
            )


def _bandwidths(speeds: Sequence[Speed], topology: Topology) -> Iterator[str]:
    """Yield the line of the configuration for what firmware does not tell, or tells wrong."""
    measured = {one.node: one.read_mbps for one in speeds if one.read_mbps}
    if len(measured) < 2 or len(measured) < len(topology.nodes):
        return
    told = {node: _told(topology.node(node))[1] for node in measured}
    widest = max(measured, key=lambda node: measured[node])
    silent = [node for node, mbps in told.items() if not mbps]
    wrong = [] if silent else [node for node in measured if _off(measured, told, node, widest)]
    if not silent and not wrong:
        return
    why = (
        f"firmware does not tell the bandwidth of node {format_ids(silent)}"
        if silent
        else f"the bandwidth of node {format_ids(wrong)}, compared with that of node {widest}, is "
        "not what firmware says"
    )
    rates = tuple((node, _three_digits(mbps) * 10**6) for node, mbps in measured.items())
    weights = weights_for(measured)
    yield (
        f"{why}: to use what was measured (weights of weighted interleave: "
        f"{', '.join(f'node{node} {weight}' for node, weight in weights.items())}), add this to "
        f"the configuration: `bandwidths: {bandwidths().write(rates)}`"
    )


def _off(
    measured: Mapping[int, float], told: Mapping[int, int | None], node: int, widest: int
) -> bool:
    """True if the ratio of two measured bandwidths is not that of firmware."""
    by_measure = measured[widest] / measured[node]
    by_firmware = (told[widest] or 0) / (told[node] or 1)
    return max(by_measure / by_firmware, by_firmware / by_measure) >= DIFFERS


def _three_digits(mbps: float) -> int:
    """Return whole MB/s of three digits: no measurement is more exact."""
    return max(1, int(float(f"{mbps:.3g}")))


def _told(node: Node) -> tuple[int | None, int | None]:
    """Return what firmware says of a node for processors: latency in ns, bandwidth in MB/s."""
    told = node.cpu_performance or node.performance
    return (told.read_latency_ns, told.read_bandwidth_mbps) if told else (None, None)


def _whole(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:.0f}"


def _giga(mbps: float | None) -> str:
    return "-" if mbps is None else f"{mbps / 1000:.3g}"
