"""Weights of weighted interleave: those of the kernel, and those that fit the bandwidths.

A program that asks for weighted interleave (MPOL_WEIGHTED_INTERLEAVE, Linux 6.9) spreads its pages
over nodes by these weights, so that it can use the bandwidth of all of them. Since 6.16 the kernel
computes the weights from firmware's bandwidths, while `auto` is on.
"""

import re
from collections.abc import Mapping
from math import gcd

from tierd import figures
from tierd.frozen import dataclass
from tierd.sysfs import Sysfs
from tierd.topology import Node, Topology

FOLDER = "sys/kernel/mm/mempolicy/weighted_interleave"
# The switch. In 6.18 the name went through a macro (`auto` is defined as `__auto_type`).
AUTO_NAMES = ("auto", "__auto_type")
AUTO_WORDS = {"true": True, "false": False}

# A weight is a u8, and 0 stands for the kernel's default.
WEIGHT_MAX = 255

# The sum of the weights before they are reduced, as in the kernel (weightiness). With a larger sum
# more pages in a row would go to one node, and little would be gained in precision.
WEIGHTINESS = 32

_NODE = re.compile(r"node([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Interleave:
    """The kernel's weights."""

    weights: Mapping[int, int]
    """By node."""
    auto: bool | None
    """True if the kernel computes the weights; None if it cannot (before 6.16)."""
    switch: str | None = None
    """The file that says so."""


def read(sysfs: Sysfs) -> Interleave | None:
    """Return the kernel's weights; None before 6.9, which has none."""
    if not sysfs.exists(FOLDER):
        return None
    weights: dict[int, int] = {}
    auto = switch = None
    for name in sysfs.listdir(FOLDER):
        path, match = f"{FOLDER}/{name}", _NODE.fullmatch(name)
        if match:
            weights[int(match[1])] = figures.number(path, sysfs.read(path), most=WEIGHT_MAX)
        elif name in AUTO_NAMES:
            text = sysfs.read(path)
            if text not in AUTO_WORDS:
                raise figures.Garbled(path, "true or false", text)
            auto, switch = AUTO_WORDS[text], path
    return Interleave(dict(sorted(weights.items())), auto, switch)


def proposed(topology: Topology) -> Mapping[int, int] | None:
    """Return weights by firmware's bandwidths; None if one of them is not known."""
    bandwidths = {node.id: bandwidth_mbps(node) for node in topology.nodes}
    known = {node: mbps for node, mbps in bandwidths.items() if mbps}
    return weights_for(known) if known.keys() == bandwidths.keys() else None


def weights_for(bandwidths: Mapping[int, float]) -> dict[int, int]:
    """Return the weights for some bandwidths, by the kernel's law (reduce_interleave_weights())."""
    total = sum(bandwidths.values())
    weights = {node: max(1, int(WEIGHTINESS * one / total)) for node, one in bandwidths.items()}
    divisor = gcd(*weights.values())
    return {node: weight // divisor for node, weight in weights.items()}


def bandwidth_mbps(node: Node) -> int | None:
    """Return what firmware says of a node for processors: reads or writes, whichever is less."""
    told = node.cpu_performance or node.performance
    both = (told.read_bandwidth_mbps, told.write_bandwidth_mbps) if told else ()
    return min((one for one in both if one), default=None)
