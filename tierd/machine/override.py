"""Checks the tiers that a user sets, and explains what to do on a machine with fewer than two.

Also puts the bandwidths that a user sets in place of those of firmware.
"""

from collections.abc import Mapping

from tierd.errors import ConfigError, Unsupported
from tierd.frozen import replace
from tierd.topology import Node, Performance, Topology
from tierd.units import format_ids, format_size

Override = tuple[tuple[int, ...], ...]

Bandwidths = tuple[tuple[int, int], ...]
"""Pairs of a node and its bytes per second."""

LEFT_OUT = "left out: "

_NOTHING_TOLD = Performance(None, None, None, None)


def with_bandwidth(node: Node, bandwidths: Mapping[int, int]) -> Node:
    """Return the node with the bandwidth that is set for it, for reads and writes alike."""
    if node.id not in bandwidths:
        return node
    mbps = bandwidths[node.id] // 10**6
    told = replace(
        node.performance or _NOTHING_TOLD, read_bandwidth_mbps=mbps, write_bandwidth_mbps=mbps
    )
    # What firmware tells for processors is asked first, so it must not contradict.
    by_cpu = node.cpu_performance and replace(
        node.cpu_performance, read_bandwidth_mbps=mbps, write_bandwidth_mbps=mbps
    )
    return replace(node, performance=told, cpu_performance=by_cpu)


def override_errors(
    override: Override, with_memory: tuple[int, ...], present: tuple[int, ...]
) -> tuple[str, ...]:
    """Return what is wrong with a `tiers` override on this machine, as sentences."""
    errors: list[str] = []
    if len(override) < 2:
        errors.append("expected at least two tiers, fastest first, as in [[0], [1]]")
    seen: set[int] = set()
    for rank, tier in enumerate(override):
        if not tier:
            errors.append(f"tier {rank} is empty, expected the ids of its nodes")
        for node in tier:
            error = node_error(node, with_memory, present)
            if node in seen:
                errors.append(f"node {node} is given twice, expected each node once")
            elif error:
                errors.append(error)
            seen.add(node)
    return tuple(errors)


def node_error(node: int, with_memory: tuple[int, ...], present: tuple[int, ...]) -> str:
    """Return why this node cannot hold pages, as a sentence for the user; empty if it can."""
    if node in with_memory:
        return ""
    why = "has no memory online" if node in present else "does not exist"
    return f"node {node} {why}, expected nodes with memory: {format_ids(with_memory)}"


def check_override(
    override: Override, with_memory: tuple[int, ...], present: tuple[int, ...]
) -> None:
    """Raise ConfigError, with every error, if this override does not fit the nodes."""
    errors = override_errors(override, with_memory, present)
    if errors:
        shown = str([list(tier) for tier in override])
        raise ConfigError(
            f"tiers: {shown}: {'; '.join(errors)}",
            "/sys/devices/system/node/has_memory lists the nodes with memory; correct `tiers`, or "
            "remove it to use the tiers of the kernel",
        )


def require_tiers(topology: Topology) -> None:
    """Raise Unsupported if there are fewer than two tiers, and say how to get them."""
    if len(topology.tiers) > 1:
        return
    if not topology.tiers:
        seen = "the kernel shows no memory tiers"
    else:
        tier = topology.tiers[0]
        nodes = "node" if len(tier.nodes) == 1 else "nodes"
        seen = f"all memory is in one tier ({tier.name}: {nodes} {format_ids(tier.nodes)})"
    raise Unsupported(f"{seen}; tierd needs at least two tiers", _how_to_get_tiers(topology))


def _how_to_get_tiers(topology: Topology) -> str:
    parts = []
    offline = [node for node in topology.empty_nodes if node.offline_bytes]
    if offline:
        shown = ", ".join(f"node {node.id} ({format_size(node.offline_bytes)})" for node in offline)
        parts.append(
            f"memory is offline on {shown}: bring it online with `daxctl online-memory`, or by "
            "writing to /sys/devices/system/memory/memory*/state"
        )
    left_out = [
        f"node {node.id} is {node.tier_origin}; to use it nevertheless, list all tiers in the "
        "configuration, as in `tiers: [[0], [1]]`, fastest first"
        for node in topology.nodes
        if topology.tier_of(node.id) is None and node.tier_origin.startswith(LEFT_OUT)
    ]
    parts += left_out
    split = None if left_out else suggest_override(topology)
    if split is not None:
        why, tiers = split
        shown = str([list(tier) for tier in tiers])
        parts.append(f"{why}: if they are slower, add this to the configuration: `tiers: {shown}`")
    elif len(topology.nodes) > 1 and not left_out:
        parts.append(
            f"nodes {format_ids(node.id for node in topology.nodes)} do not differ in anything that"
            " firmware shows; if some are slower, list the tiers in the configuration, as in "
            "`tiers: [[0], [1]]`, fastest first"
        )
    elif not offline and not left_out:
        parts.append(
            "this machine has memory on one node only; tierd needs a second node with slower "
            "memory, such as CXL or PMEM"
        )
    return "; ".join(parts)


def suggest_override(topology: Topology) -> tuple[str, Override] | None:
    """Return the evidence for two tiers, and the tiers; None if the nodes do not differ."""
    latencies = {
        node.id: node.performance.read_latency_ns if node.performance else None
        for node in topology.nodes
    }
    known = {node: latency for node, latency in latencies.items() if latency is not None}
    if len(known) == len(latencies) and len(set(known.values())) > 1:
        fast = tuple(node for node in known if known[node] == min(known.values()))
        why = "firmware's latencies differ (" + ", ".join(
            f"node {node}: {latency} ns" for node, latency in known.items()
        )
        return f"{why})", (fast, tuple(node for node in known if node not in fast))
    with_cpus = tuple(node.id for node in topology.nodes if node.cpus)
    without = tuple(node.id for node in topology.nodes if not node.cpus)
    if with_cpus and without:
        nodes = "node" if len(without) == 1 else "nodes"
        verb = "has" if len(without) == 1 else "have"
        return f"{nodes} {format_ids(without)} {verb} no CPUs", (with_cpus, without)
    return None
