"""Reads the machine's Topology: sysfs where it says, /proc/iomem and /proc/zoneinfo where not.

Rules of this file:
1. Whole or nothing: what is read while a node or block comes or goes raises, and is read again.
2. A file that some kernels lack is None when absent (ENOENT); any other refusal is an error.
3. An address is given to a node only where the kernel says that the node owns it: DAMON would
   otherwise move another node's pages.
"""

import re
from dataclasses import dataclass

from tierd.errors import TierdError, Unsupported
from tierd.machine.override import Override, check_override, require_tiers
from tierd.machine.zoneinfo import PATH as ZONEINFO
from tierd.machine.zoneinfo import Zone, page_bytes, parse_zones
from tierd.ranges import Range, Ranges, intersect, merge, parse_iomem, subtract, total_bytes
from tierd.sysfs import Sysfs, optional
from tierd.topology import EmptyNode, Node, Performance, Tier, Topology
from tierd.units import parse_ids

TIERING = "sys/devices/virtual/memory_tiering"
NODES = "sys/devices/system/node"
BLOCKS = "sys/devices/system/memory"
IOMEM = "proc/iomem"

_TIER = re.compile(r"memory_tier(\d+)")
_BLOCK = re.compile(r"memory(\d+)")
_INITIATOR = re.compile(r"node(\d+)")
_MEM_TOTAL = re.compile(r"^Node \d+ MemTotal: +(\d+) kB$", re.MULTILINE)

LEFT_OUT = "left out by the override"


def discover(sysfs: Sysfs, override: Override | None) -> Topology:
    """The topology of a machine that can be managed; Unsupported says why another cannot."""
    topology = survey(sysfs, override)
    require_tiers(topology)
    return topology


def nodes(sysfs: Sysfs) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The nodes with memory, and all that are online; None where the kernel knows no nodes."""
    nodelist = optional(sysfs, f"{NODES}/has_memory")
    if nodelist is None:
        return None
    return parse_ids(nodelist), parse_ids(sysfs.read(f"{NODES}/online"))


def survey(sysfs: Sysfs, override: Override | None) -> Topology:
    """The topology of any machine, even one with a single tier."""
    known = nodes(sysfs)
    if known is None:
        raise Unsupported(
            f"this kernel knows no NUMA nodes: there is no /{NODES}/has_memory",
            "tierd needs a kernel built with CONFIG_NUMA=y, and memory on two nodes",
        )
    with_memory, present = known
    by_kernel = _kernel_tiers(sysfs, with_memory)
    if override is not None:
        check_override(override, with_memory, present)
    tiers = by_kernel if override is None else override_tiers(override)
    zones = parse_zones(sysfs.read(ZONEINFO))
    memory = _Memory.read(sysfs, present, with_memory, zones)
    return Topology(
        nodes=tuple(
            _node(sysfs, node, present, memory, tier_origin(node, tiers, by_kernel))
            for node in with_memory
        ),
        tiers=tiers,
        empty_nodes=tuple(
            EmptyNode(
                id=node,
                cpus=parse_ids(sysfs.read(f"{NODES}/node{node}/cpulist")),
                offline_bytes=memory.offline_bytes[node],
            )
            for node in present
            if node not in with_memory
        ),
        page_bytes=memory.page_bytes,
    )


def parse_tiers(nodelists: dict[str, str], with_memory: tuple[int, ...]) -> tuple[Tier, ...]:
    """Tiers, fastest first, from the nodelist of each memory_tierN: a smaller N is faster."""
    numbered = []
    for name, nodelist in nodelists.items():
        match = _TIER.fullmatch(name)
        if match:
            nodes = tuple(node for node in parse_ids(nodelist) if node in with_memory)
            numbered.append((int(match[1]), name, nodes))
    kept = [(name, nodes) for _, name, nodes in sorted(numbered) if nodes]
    return tuple(Tier(name, rank, nodes) for rank, (name, nodes) in enumerate(kept))


def override_tiers(override: Override) -> tuple[Tier, ...]:
    """Tiers as a person set them."""
    return tuple(
        Tier(f"override{rank}", rank, tuple(sorted(nodes))) for rank, nodes in enumerate(override)
    )


def tier_origin(node: int, tiers: tuple[Tier, ...], by_kernel: tuple[Tier, ...]) -> str:
    """How a node got its tier, in words."""
    kernel = next((tier.name for tier in by_kernel if node in tier.nodes), None)
    kernel_says = f"the kernel's {kernel}" if kernel else "in no tier of the kernel"
    if tiers is by_kernel:
        return kernel_says
    mine = next((tier.rank for tier in tiers if node in tier.nodes), None)
    if mine is None:
        return f"{LEFT_OUT} ({kernel_says})"
    return f"tier {mine} of the override ({kernel_says})"


def parse_distances(text: str, present: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Pairs of (node, distance); the kernel prints one figure for each node online."""
    figures = tuple(int(word) for word in text.split())
    if len(figures) != len(present):
        raise TierdError(
            f"{len(figures)} distances for {len(present)} nodes: a node came or went meanwhile"
        )
    return tuple(zip(present, figures, strict=True))


def parse_mem_total(text: str) -> int:
    """Bytes, from nodeN/meminfo."""
    match = _MEM_TOTAL.search(text)
    if match is None:
        raise TierdError("a node's meminfo has no MemTotal line")
    return int(match[1]) * 1024


@dataclass(frozen=True, slots=True)
class _Memory:
    """Where each node's memory lies."""

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
        size_bytes = {
            node: parse_mem_total(sysfs.read(f"{NODES}/node{node}/meminfo")) for node in with_memory
        }
        managed = sum(zone.managed_pages for zone in zones)
        page = page_bytes(sum(size_bytes.values()), managed)
        spans = node_spans(zones, page)
        iomem = optional(sysfs, IOMEM)
        ram = None if iomem is None else parse_iomem(iomem, page)
        block_bytes = optional(sysfs, f"{BLOCKS}/block_size_bytes")
        if block_bytes is None:
            return _Memory(
                page, size_bytes, ranges_by_span(spans, ram, with_memory), dict.fromkeys(present, 0)
            )
        blocks = _read_blocks(sysfs, present, int(block_bytes, 16))
        return _Memory(
            page,
            size_bytes,
            ranges_by_block(blocks.online, spans, ram, with_memory),
            {node: total_bytes(blocks.offline[node]) for node in present},
        )


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Memory blocks by node; one that holds memory of two nodes is listed with both."""

    online: dict[int, Ranges]
    offline: dict[int, Ranges]


def node_spans(zones: tuple[Zone, ...], page: int) -> dict[int, Ranges]:
    """From the first to the last page of each zone, by node; another node may lie between."""
    spans: dict[int, list[Range]] = {}
    for zone in zones:
        if zone.present_pages and zone.start_pfn is not None:
            start = zone.start_pfn * page
            spans.setdefault(zone.node, []).append(Range(start, start + zone.spanned_pages * page))
    return {node: merge(parts) for node, parts in spans.items()}


def ranges_by_block(
    online: dict[int, Ranges], spans: dict[int, Ranges], ram: Ranges | None, nodes: tuple[int, ...]
) -> dict[int, Ranges]:
    """Each node's online blocks, without the holes in them where /proc/iomem shows those.

    A block at the border of two nodes is listed with both (register_mem_block_under_node_early());
    there, a node gets what its own zones span and the other's do not. What both span belongs to
    nobody that the kernel names, and is left to nobody.
    """
    found = {}
    for node in nodes:
        mine = online[node]
        for other in nodes:
            shared = intersect(online[node], online[other]) if other != node else ()
            if shared:
                own = subtract(spans.get(node, ()), spans.get(other, ()))
                mine = merge((*subtract(mine, shared), *intersect(intersect(mine, shared), own)))
        found[node] = mine if ram is None else intersect(mine, ram)
    return _none_empty(found)


def ranges_by_span(
    spans: dict[int, Ranges], ram: Ranges | None, nodes: tuple[int, ...]
) -> dict[int, Ranges]:
    """System RAM split by the span of each node's zones, for a kernel without memory blocks."""
    if ram is None:
        raise Unsupported(
            f"this kernel has no /{BLOCKS}, and /{IOMEM} shows no addresses",
            "run tierd as root, which sees the addresses in /proc/iomem",
        )
    found = {node: intersect(spans.get(node, ()), ram) for node in nodes}
    for node in nodes:
        for other in nodes:
            both = intersect(found[node], found[other]) if other > node else ()
            if both:
                raise Unsupported(
                    f"this kernel has no /{BLOCKS}, and the memory of nodes {node} and {other} "
                    f"interleaves at {both[0].start:#x}: nothing says which node owns a page there",
                    "use a kernel built with CONFIG_MEMORY_HOTPLUG",
                )
    return _none_empty(found)


def _none_empty(found: dict[int, Ranges]) -> dict[int, Ranges]:
    for node, ranges in found.items():
        if not ranges:
            raise TierdError(
                f"node {node} has memory, but no physical address is known to be its own",
                f"compare /{NODES}/node{node}/memory*, /{IOMEM} and /{ZONEINFO}",
            )
    return found


def _node(sysfs: Sysfs, node: int, present: tuple[int, ...], memory: _Memory, origin: str) -> Node:
    folder = f"{NODES}/node{node}"
    return Node(
        id=node,
        size_bytes=memory.size_bytes[node],
        cpus=parse_ids(sysfs.read(f"{folder}/cpulist")),
        ranges=memory.ranges[node],
        distances=parse_distances(sysfs.read(f"{folder}/distance"), present),
        performance=_performance(sysfs, f"{folder}/access0/initiators"),
        cpu_performance=_performance(sysfs, f"{folder}/access1/initiators"),
        initiators=_initiators(sysfs, f"{folder}/access0/initiators"),
        tier_origin=origin,
    )


def _performance(sysfs: Sysfs, folder: str) -> Performance | None:
    figures = {
        name: _figure(sysfs, f"{folder}/{name}")
        for name in ("read_latency", "write_latency", "read_bandwidth", "write_bandwidth")
    }
    if all(figure is None for figure in figures.values()):
        return None
    return Performance(
        read_latency_ns=figures["read_latency"],
        write_latency_ns=figures["write_latency"],
        read_bandwidth_mbps=figures["read_bandwidth"],
        write_bandwidth_mbps=figures["write_bandwidth"],
    )


def _figure(sysfs: Sysfs, path: str) -> int | None:
    text = optional(sysfs, path)
    # The kernel prints 0 for a figure that firmware did not give.
    return None if text is None else int(text) or None


def _initiators(sysfs: Sysfs, folder: str) -> tuple[int, ...]:
    if not sysfs.exists(folder):
        return ()
    matches = (_INITIATOR.fullmatch(name) for name in sysfs.listdir(folder))
    return tuple(sorted(int(match[1]) for match in matches if match))


def _kernel_tiers(sysfs: Sysfs, with_memory: tuple[int, ...]) -> tuple[Tier, ...]:
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
                state = sysfs.read(f"{BLOCKS}/{name}/state")
                by_state[state == "online"].append(Range(start, start + block_bytes))
        online[node], offline[node] = merge(by_state[True]), merge(by_state[False])
    return _Blocks(online, offline)
