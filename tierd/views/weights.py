"""The weights of weighted interleave, as `tierd tiers` shows them."""

from collections.abc import Mapping

from tierd.machine import interleave
from tierd.machine.interleave import Interleave
from tierd.topology import Topology
from tierd.views.render import InterleaveDocument


def as_lines(topology: Topology, weights: Interleave) -> list[str]:
    """Return the weights of weighted interleave, and those that fit the bandwidths."""
    how = {True: " (by the kernel)", False: " (auto is off)", None: ""}[weights.auto]
    lines = [f"weighted interleave: {_listed(weights.weights)}{how}"]
    fitting = interleave.proposed(topology)
    if fitting is None and len(topology.nodes) == 1:
        return lines
    if fitting is None:
        return [
            *lines,
            "  by bandwidth: not known: firmware does not tell it for every node",
            "  `tierd doctor --measure` measures it, and prints a line for the configuration",
        ]
    if all(weights.weights.get(node) == weight for node, weight in fitting.items()):
        return [*lines, "  by bandwidth: the same"]
    return [
        *lines,
        f"  by bandwidth: {_listed(fitting)}",
        "  `neighbours: {interleave_weights: set}` in the configuration sets them",
    ]


def as_document(topology: Topology, weights: Interleave) -> InterleaveDocument:
    """Return what `tierd tiers --json` says of the weights."""
    fitting = interleave.proposed(topology)
    by_bandwidth = None if fitting is None else {str(node): one for node, one in fitting.items()}
    return {
        "auto": weights.auto,
        "weights": {str(node): weight for node, weight in weights.weights.items()},
        "by_bandwidth": by_bandwidth,
    }


def _listed(weights: Mapping[int, int]) -> str:
    return ", ".join(f"node{node} {weight}" for node, weight in weights.items()) or "no nodes"
