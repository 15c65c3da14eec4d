"""Descriptions of machines: nodes, CPUs, distances and tiers.

There is one JSON file per machine in `machines/`. Virtual machines and the simulated kernel both
use it, so that the contract tests compare equal machines. A machine that is too large for a
virtual machine has `"vm": false`.
"""

import json
from importlib.resources import files
from typing import Any

from tierd.errors import ExitCode, TierdError
from tierd.frozen import dataclass

# The size of a page, if the machine does not say it.
PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class MachineNode:
    """A NUMA node; `latency_ns` and `bandwidth_mbps` are its HMAT figures, if it has any.

    A `plugged` node is a memory module that a virtual machine can unplug as a whole. A `cxl` node
    is a CXL type 3 device of a virtual machine: drivers have to bring its memory online.
    """

    id: int
    size_mib: int
    cpus: tuple[int, ...]
    initiator: int
    latency_ns: int | None
    bandwidth_mbps: int | None
    plugged: bool = False
    cxl: bool = False


@dataclass(frozen=True, slots=True)
class MachineModel:
    """A machine, and the tiers that a kernel makes of it (name, nodes), fastest first.

    `block_pages` is the number of pages that the simulated kernel keeps as one block. It is 1
    unless the machine is too large to keep every page. `page_bytes` is the size of a page; with
    larger ones than 4096 the simulated machine stays as QEMU's q35 arranges it otherwise.
    """

    name: str
    about: str
    nodes: tuple[MachineNode, ...]
    distances: tuple[tuple[int, ...], ...]
    tiers: tuple[tuple[str, tuple[int, ...]], ...]
    vm: bool = True
    block_pages: int = 1
    page_bytes: int = PAGE_BYTES


class NoSuchMachine(TierdError):
    """There is no machine of this name."""

    exit_code = ExitCode.usage


def all_names() -> tuple[str, ...]:
    """Return the names of all machines that ship."""
    found = (entry.name for entry in (files("tierd.sim") / "machines").iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in found if name.endswith(".json")))


def names() -> tuple[str, ...]:
    """Return the names of the machines that also run as virtual machines."""
    return tuple(name for name in all_names() if load(name).vm)


def load(name: str) -> MachineModel:
    """Return the machine of this name."""
    if name not in all_names():
        raise NoSuchMachine(f"there is no machine {name!r}", f"there are: {', '.join(all_names())}")
    return parse(name, (files("tierd.sim") / "machines" / f"{name}.json").read_text())


def parse(name: str, text: str) -> MachineModel:
    """Parse a machine from its JSON text."""
    try:
        return _machine(name, json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise TierdError(
            f"machine {name}: not the description of a machine: {error!r}",
            "those in tierd/sim/machines are examples",
        ) from error


def _machine(name: str, raw: dict[str, Any]) -> MachineModel:
    nodes = tuple(
        MachineNode(
            id=node["id"],
            size_mib=node["size_mib"],
            cpus=tuple(node["cpus"]),
            initiator=node["initiator"],
            latency_ns=node.get("latency_ns"),
            bandwidth_mbps=node.get("bandwidth_mbps"),
            plugged=node.get("plugged", False),
            cxl=node.get("cxl", False),
        )
        for node in raw["nodes"]
    )
    return MachineModel(
        name=name,
        about=raw["about"],
        nodes=nodes,
        distances=tuple(tuple(row) for row in raw["distances"]),
        tiers=tuple((tier["name"], tuple(tier["nodes"])) for tier in raw["tiers"]),
        vm=raw.get("vm", True),
        block_pages=raw.get("block_pages", 1),
        page_bytes=raw.get("page_bytes", PAGE_BYTES),
    )
