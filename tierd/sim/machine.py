"""Machines as data: the nodes that a virtual machine boots with and the simulated kernel has.

One JSON file per machine in `machines/` serves both, so that the contract suite compares like
with like. Those that no virtual machine could hold say `"vm": false`.
"""

import json
from dataclasses import dataclass
from importlib.resources import files

from tierd.errors import TierdError


@dataclass(frozen=True, slots=True)
class MachineNode:
    """A NUMA node; `latency_ns` and `bandwidth_mbps` are what its HMAT says, if it says any.

    A `plugged` one is a memory module, which a virtual machine's kernel can part with whole.
    """

    id: int
    size_mib: int
    cpus: tuple[int, ...]
    initiator: int
    latency_ns: int | None
    bandwidth_mbps: int | None
    plugged: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine, and the tiers that a kernel makes of it (name, nodes), fastest first.

    `block_pages` is how many pages the simulated kernel keeps as one folio: 1 unless the machine
    is too large to keep page by page.
    """

    name: str
    about: str
    nodes: tuple[MachineNode, ...]
    distances: tuple[tuple[int, ...], ...]
    tiers: tuple[tuple[str, tuple[int, ...]], ...]
    vm: bool = True
    block_pages: int = 1


def all_names() -> tuple[str, ...]:
    """Every machine that ships."""
    found = (entry.name for entry in (files("tierd.sim") / "machines").iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in found if name.endswith(".json")))


def names() -> tuple[str, ...]:
    """The machines that a virtual machine can be: those that all kernels are compared on."""
    return tuple(name for name in all_names() if load(name).vm)


def load(name: str) -> Machine:
    """The machine of that name."""
    if name not in all_names():
        raise TierdError(f"no machine {name!r}", f"there are: {', '.join(all_names())}")
    return parse(name, (files("tierd.sim") / "machines" / f"{name}.json").read_text())


def parse(name: str, text: str) -> Machine:
    """A machine from its JSON text."""
    raw = json.loads(text)
    nodes = tuple(
        MachineNode(
            id=node["id"],
            size_mib=node["size_mib"],
            cpus=tuple(node["cpus"]),
            initiator=node["initiator"],
            latency_ns=node.get("latency_ns"),
            bandwidth_mbps=node.get("bandwidth_mbps"),
            plugged=node.get("plugged", False),
        )
        for node in raw["nodes"]
    )
    return Machine(
        name=name,
        about=raw["about"],
        nodes=nodes,
        distances=tuple(tuple(row) for row in raw["distances"]),
        tiers=tuple((tier["name"], tuple(tier["nodes"])) for tier in raw["tiers"]),
        vm=raw.get("vm", True),
        block_pages=raw.get("block_pages", 1),
    )
