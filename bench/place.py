"""Finds the two nodes of the benchmark: a fast one, and the slow one that it demotes to."""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.errors import BenchError
from tierd.errors import TierdError
from tierd.machine import discovery
from tierd.sysfs import Sysfs


@dataclass(frozen=True, slots=True)
class Place:
    """A pair of nodes, and the physical ranges of each."""

    fast: int
    slow: int
    fast_bytes: int
    ranges: Mapping[int, tuple[tuple[int, int], ...]]


def find(sysfs: Sysfs) -> Place:
    """Return the first node of this machine that has a slower neighbour, and that neighbour."""
    try:
        topology = discovery.discover(sysfs, None)
    except TierdError as error:
        raise BenchError(f"this machine has no second tier: {error}") from error
    for node in topology.nodes:
        targets = topology.demotion_targets(node.id)
        if targets and node.cpus:
            both = (node, topology.node(targets[0]))
            ranges = {one.id: tuple((r.start, r.end) for r in one.ranges) for one in both}
            return Place(node.id, targets[0], node.size_bytes, ranges)
    raise BenchError("this machine has no node with processors and a slower neighbour")
