"""Reads the machine's Topology from sysfs and /proc/zoneinfo.

Rules of this file:
1. If a node or a memory block is added or removed during the reading, an error is raised, and the
   caller reads everything again.
2. A file that some kernels do not have is None if it is absent (ENOENT). Any other error raises.
3. An address belongs to a node only if the kernel says so. Else DAMON would move pages of another
   node.
4. Only files that look the same to every reader are read. /proc/iomem shows zeros to a service
   without capabilities, so its plan would differ from the plan of root. So DAMON watches the holes
   in a memory block too; it finds no page to move there (damon_get_folio()).
"""

import re

from tierd import figures
from tierd.errors import TierdError, Unsupported
from tierd.frozen import dataclass, replace
from tierd.machine import resctrl
from tierd.machine.override import (
    LEFT_OUT,
    Bandwidths,
    Override,
    check_override,
    require_tiers,
    with_bandwidth,
)
from tierd.machine.unsuited import unsuited, without
from tierd.machine.zoneinfo import PATH as ZONEINFO
from tierd.machine.zoneinfo import Zone, page_bytes, parse_zones
from tierd.ranges import Range, Ranges, intersect, merge, subtract, total_bytes
from tierd.sysfs import Sysfs, optional
from tierd.topology import EmptyNode, Node, Performance, Tier, Topology
from tierd.units import format_ids

TIERING = "sys/devices/virtual/memory_tiering"
NODES = "sys/devices/system/node"
BLOCKS = "sys/devices/system/memory"
BLOCK_SIZE = f"{BLOCKS}/block_size_bytes"

_TIER = re.compile(r"memory_tier([0-9]{1,9})")
_BLOCK = re.compile(r"memory([0-9]{1,9})")
_INITIATOR = re.compile(r"node([0-9]{1,9})")
_MEM_TOTAL = re.compile(r"^Node [0-9]+ MemTotal: +(\S+) kB$", re.MULTILINE)

# Bytes: today a memory block has 16 MiB to 2 GiB. With this limit an address has less than 64 bits.
BLOCK_BYTES_MIN = 1 << 20
BLOCK_BYTES_MAX = 1 << 34

# The states of a memory block (memory_block_state_show()). Only `online` memory may be used.
BLOCK_STATES = ("online", "offline", "going-offline")

# A distance is a byte of the ACPI's SLIT.
DISTANCE_MAX = 255

# Figures of HMAT are unsigned ints (struct access_coordinate).
UINT_MAX = 2**32 - 1

LEFT_OUT_BY_OVERRIDE = "left out by the override"


def discover(
    sysfs: Sysfs, override: Override | None, bandwidths: Bandwidths | None = None
) -> Topology:
    """Return the topology. Raise Unsupported, with the reason, if tierd cannot manage the machine.

    `bandwidths` replace those of firmware.
    """
    topology = survey(sysfs, override, bandwidths)
    require_tiers(topology)
    return topology


def nodes(sysfs: Sysfs) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the nodes with memory, and all online nodes; None if the kernel has no NUMA."""
    nodelist = optional(sysfs, f"{NODES}/has_memory")
    if nodelist is None:
        return None
    with_memory = figures.ids(f"{NODES}/has_memory", nodelist)
    present = _ids(sysfs, f"{NODES}/online")
    if not set(with_memory) <= set(present):
        raise figures.Garbled(f"{NODES}/has_memory", f"some of {format_ids(present)}", nodelist)
    return with_memory, present


def survey(
    sysfs: Sysfs, override: Override | None, bandwidths: Bandwidths | None = None
) -> Topology:
    """Return the topology of any machine, even if it has a single tier.

    `bandwidths` replace those of firmware.
    """
    known = nodes(sysfs)
    if known is None:
        raise Unsupported(
            f"this kernel has no NUMA nodes: there is no /{NODES}/has_memory",
            "tierd needs a kernel built with CONFIG_NUMA=y, and memory on two nodes",
        )
    with_memory, present = known
    by_kernel = kernel_tiers(sysfs, with_memory)
    if override is not None:
        check_override(override, with_memory, present)
    tiers = by_kernel if override is None else override_tiers(override)
    zones = parse_zones(sysfs.read(ZONEINFO))
    memory = _Memory.read(sysfs, present, with_memory, zones)
    listed = tuple(
        _node(sysfs, node, present, memory, tier_origin(node, tiers, by_kernel))
        for node in with_memory
    )
    left_out = {} if override is not None else unsuited(listed, tiers)
    listed = tuple(with_bandwidth(node, dict(bandwidths or ())) for node in listed)
    return Topology(
        nodes=tuple(
            replace(node, tier_origin=f"{LEFT_OUT}{left_out[node.id]} ({node.tier_origin})")
            if node.id in left_out
            else node
            for node in listed
        ),
        tiers=without(tiers, left_out),
        empty_nodes=tuple(
            EmptyNode(
                id=node,
                cpus=_ids(sysfs, f"{NODES}/node{node}/cpulist"),
                offline_bytes=memory.offline_bytes[node],
            )
            for node in present
            if node not in with_memory
        ),
        page_bytes=memory.page_bytes,
    )


def parse_tiers(nodelists: dict[str, str], with_memory: tuple[int, ...]) -> tuple[Tier, ...]:
    """Return the tiers, fastest first, from the nodelists of memory_tierN; a smaller N is "
    "faster."""
    numbered = []
    for name, nodelist in nodelists.items():
        match = _TIER.fullmatch(name)
        if match:
            listed = figures.ids(f"{TIERING}/{name}/nodelist", nodelist)
            nodes = tuple(node for node in listed if node in with_memory)
            numbered.append((int(match[1]), name, nodes))
    kept = [(name, nodes) for _, name, nodes in sorted(numbered) if nodes]
    every = [node for _, nodes in kept for node in nodes]
    if len(set(every)) < len(every):
        shown = "; ".join(f"{name}: {format_ids(nodes)}" for name, nodes in kept)
        raise TierdError(f"/{TIERING}: a node is in two tiers ({shown})")
    return tuple(Tier(name, rank, nodes) for rank, (name, nodes) in enumerate(kept))


def override_tiers(override: Override) -> tuple[Tier, ...]:
    """Return the tiers that the configuration sets."""
    return tuple(
        Tier(f"override{rank}", rank, tuple(sorted(nodes))) for rank, nodes in enumerate(override)
    )


def tier_origin(node: int, tiers: tuple[Tier, ...], by_kernel: tuple[Tier, ...]) -> str:
    """Return the text that says how a node got its tier."""
    kernel = next((tier.name for tier in by_kernel if node in tier.nodes), None)
    kernel_says = f"the kernel's {kernel}" if kernel else "in no tier of the kernel"
    if tiers is by_kernel:
        return kernel_says
    mine = next((tier.rank for tier in tiers if node in tier.nodes), None)
    if mine is None:
        return f"{LEFT_OUT_BY_OVERRIDE} ({kernel_says})"
    return f"tier {mine} of the override ({kernel_says})"


def parse_distances(path: str, text: str, present: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return pairs of (node, distance); the kernel prints a distance for each online node."""
    words = text.split()
    if len(words) != len(present):
        raise TierdError(
            f"/{path}: {len(words)} distances for {len(present)} nodes: a node was added or "
            "removed at this moment"
        )
    distances = (figures.number(path, word, most=DISTANCE_MAX) for word in words)
    return tuple(zip(present, distances, strict=True))


def parse_mem_total(path: str, text: str) -> int:
    """Return the bytes of MemTotal in nodeN/meminfo."""
    match = _MEM_TOTAL.search(text)
    if match is None:
        raise TierdError(f"/{path}: no MemTotal line")
    return figures.number(path, match[1], least=1, most=figures.KIB_MAX) * 1024


@dataclass(frozen=True, slots=True)
class _Memory:
    """The size and the addresses of each node's memory."""

    page_bytes: int
    size_bytes: dict[int, int]
    ranges: dict[int, Ranges]
    offline_bytes: dict[int, int]

    @staticmethod
    def read(
        sysfs: Sysfs,
        present: tuple[int, ...],
        with_memory: tuple[int, ...],
        zones: tuple[Zone, ...],
    ) -> "_Memory":
        paths = {node: f"{NODES}/node{node}/meminfo" for node in with_memory}
        size_bytes = {n: parse_mem_total(path, sysfs.read(path)) for n, path in paths.items()}
        managed = sum(zone.managed_pages for zone in zones)
        page = page_bytes(sum(size_bytes.values()), managed)
        spans = node_spans(zones, page)
        size = optional(sysfs, BLOCK_SIZE)
        if size is None:
            return _Memory(
                page, size_bytes, ranges_by_span(spans, with_memory), dict.fromkeys(present, 0)
            )
        block_bytes = figures.hexadecimal(BLOCK_SIZE, size, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX)
        blocks = _read_blocks(sysfs, present, block_bytes)
        return _Memory(
            page,
            size_bytes,
            ranges_by_block(blocks.online, spans, with_memory),
            {node: total_bytes(blocks.offline[node]) for node in present},
        )


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The memory blocks of each node; a block with memory of two nodes is in both lists."""

    online: dict[int, Ranges]
    offline: dict[int, Ranges]


def node_spans(zones: tuple[Zone, ...], page: int) -> dict[int, Ranges]:
    """Return the range from the first to the last page of each zone, by node.

    Memory of another node may be inside such a range.
    """
    spans: dict[int, list[Range]] = {}
    for zone in zones:
        if zone.present_pages and zone.start_pfn is not None:
            start = zone.start_pfn * page
            spans.setdefault(zone.node, []).append(Range(start, start + zone.spanned_pages * page))
    return {node: merge(parts) for node, parts in spans.items()}


def ranges_by_block(
    online: dict[int, Ranges], spans: dict[int, Ranges], nodes: tuple[int, ...]
) -> dict[int, Ranges]:
    """Return the address ranges of each node's online blocks.

    A block at the border of two nodes is in both lists (register_mem_block_under_node_early()).
    Of such a block a node gets the part that only its own zones span. A part that the zones of both
    span goes to no node, because the kernel does not say whose it is.
    """
    found = {}
    for node in nodes:
        mine = online[node]
        for other in nodes:
            shared = intersect(online[node], online[other]) if other != node else ()
            if shared:
                own = subtract(spans.get(node, ()), spans.get(other, ()))
                mine = merge((*subtract(mine, shared), *intersect(intersect(mine, shared), own)))
        found[node] = mine
    return _none_empty(found)


def ranges_by_span(spans: dict[int, Ranges], nodes: tuple[int, ...]) -> dict[int, Ranges]:
    """Return the ranges of each node's zones, for a kernel without memory blocks."""
    found = {node: spans.get(node, ()) for node in nodes}
    for node in nodes:
        for other in nodes:
            both = intersect(found[node], found[other]) if other > node else ()
            if both:
                raise Unsupported(
                    f"this kernel has no /{BLOCKS}, and the memory of nodes {node} and {other} "
                    f"overlaps at {both[0].start:#x}: nothing says which node owns a page there",
                    "use a kernel built with CONFIG_MEMORY_HOTPLUG",
                )
    return _none_empty(found)


def _none_empty(found: dict[int, Ranges]) -> dict[int, Ranges]:
    for node, ranges in found.items():
        if not ranges:
            raise TierdError(
                f"node {node} has memory, but no physical address is known to be its own",
                f"compare /{NODES}/node{node}/memory* and /{ZONEINFO}",
            )
    return found


def _node(sysfs: Sysfs, node: int, present: tuple[int, ...], memory: _Memory, origin: str) -> Node:
    folder = f"{NODES}/node{node}"
    cpus = _ids(sysfs, f"{folder}/cpulist")
    return Node(
        id=node,
        size_bytes=memory.size_bytes[node],
        cpus=cpus,
        ranges=memory.ranges[node],
        distances=parse_distances(f"{folder}/distance", sysfs.read(f"{folder}/distance"), present),
        performance=_performance(sysfs, f"{folder}/access0/initiators"),
        cpu_performance=_performance(sysfs, f"{folder}/access1/initiators"),
        initiators=_initiators(sysfs, f"{folder}/access0/initiators"),
        tier_origin=origin,
        caches=resctrl.caches(sysfs, cpus) if resctrl.is_there(sysfs) else (),
    )


def _performance(sysfs: Sysfs, folder: str) -> Performance | None:
    known = {}
    for name in ("read_latency", "write_latency", "read_bandwidth", "write_bandwidth"):
        path = f"{folder}/{name}"
        # The kernel prints 0 if firmware gave no figure.
        known[name] = figures.optional(path, optional(sysfs, path), most=UINT_MAX) or None
    if all(figure is None for figure in known.values()):
        return None
    return Performance(
        read_latency_ns=known["read_latency"],
        write_latency_ns=known["write_latency"],
        read_bandwidth_mbps=known["read_bandwidth"],
        write_bandwidth_mbps=known["write_bandwidth"],
    )


def _ids(sysfs: Sysfs, path: str) -> tuple[int, ...]:
    return figures.ids(path, sysfs.read(path))


def _initiators(sysfs: Sysfs, folder: str) -> tuple[int, ...]:
    if not sysfs.exists(folder):
        return ()
    matches = (_INITIATOR.fullmatch(name) for name in sysfs.listdir(folder))
    return tuple(sorted(int(match[1]) for match in matches if match))


def kernel_tiers(sysfs: Sysfs, with_memory: tuple[int, ...]) -> tuple[Tier, ...]:
    """Return the tiers of the kernel, fastest first; none if it does not tell them."""
    if not sysfs.exists(TIERING):
        return ()
    names = [name for name in sysfs.listdir(TIERING) if _TIER.fullmatch(name)]
    return parse_tiers({n: sysfs.read(f"{TIERING}/{n}/nodelist") for n in names}, with_memory)


def _read_blocks(sysfs: Sysfs, present: tuple[int, ...], block_bytes: int) -> _Blocks:
    online: dict[int, Ranges] = {}
    offline: dict[int, Ranges] = {}
    for node in present:
        by_state: dict[bool, list[Range]] = {True: [], False: []}
        for name in sysfs.listdir(f"{NODES}/node{node}"):
            match = _BLOCK.fullmatch(name)
            if match:
                start = int(match[1]) * block_bytes
                path = f"{BLOCKS}/{name}/state"
                state = sysfs.read(path)
                if state not in BLOCK_STATES:
                    raise figures.Garbled(path, f"one of {', '.join(BLOCK_STATES)}", state)
                by_state[state == "online"].append(Range(start, start + block_bytes))
        online[node], offline[node] = merge(by_state[True]), merge(by_state[False])
    return _Blocks(online, offline)
