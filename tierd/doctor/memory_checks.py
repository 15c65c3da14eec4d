"""The checks of how memory came online, and of memory that cannot move."""

from collections.abc import Iterator

from tierd.doctor.facts import Facts, Unreadable
from tierd.doctor.findings import Check, Outcome, needed, ok, skip, warn
from tierd.machine.hotplug import Hotplug
from tierd.machine.processes import RSS_BYTES_MIN, Process
from tierd.topology import Node, Topology
from tierd.units import format_size

# Programs that are named; the others are counted.
NAMED_MAX = 5

# What to do so that memory that appears comes online as movable.
BOOT_LINE = "memhp_default_state=online_movable"
UDEV_LINE = (
    'SUBSYSTEM=="memory", ACTION=="add", ATTR{state}=="offline", ATTR{state}="online_movable"'
)
_ONLINE_FIX = (
    f"add {BOOT_LINE} to the kernel command line and boot, or put this into "
    f"/etc/udev/rules.d/99-memory.rules: {UDEV_LINE}; what is online already has to go "
    "offline first (`daxctl offline-memory`)"
)
MEMMAP_LINE = "memory_hotplug.memmap_on_memory=1"

# The kernel describes each page with so many bytes (struct page on 64 bits).
STRUCT_PAGE_BYTES = 64

# Descriptions that take this share of the fastest tier are worth a boot parameter. With pages of
# 4 KiB that is added memory of three times the fastest tier.
MEMMAP_SHARE = 0.05


def _hotplug(facts: Facts) -> Outcome:
    if isinstance(facts.topology, Unreadable):
        return skip("the nodes could not be read: see TD005")
    told = facts.hotplug
    if told is None:
        return ok("this kernel cannot add memory while it runs")
    found = needed(told)
    slow = [node for node in facts.topology.nodes if _is_slow(facts.topology, node)]
    fixed = [node.id for node in slow if not found.movable_bytes.get(node.id)]
    problems = []
    if found.by_driver and fixed:
        problems.append(
            f"the memory of node {', '.join(map(str, fixed))} came online as memory of the kernel "
            "(no ZONE_MOVABLE): the kernel puts its own data there, which is slow and never moves"
        )
    # Without a sign that memory is ever added, the setting does not matter.
    later = found.by_driver or any(not node.cpus for node in facts.topology.empty_nodes)
    if later and found.new_blocks in ("online", "online_kernel"):
        problems.append(
            f"memory that appears comes online as `{found.new_blocks}`, so the kernel may put its "
            "own data on it"
        )
    waits = [node for node in facts.topology.empty_nodes if node.offline_bytes]
    if found.new_blocks == "offline" and waits:
        problems.append("memory that appears stays offline until somebody brings it online")
    fixes = [_ONLINE_FIX] if problems else []
    described = _described_elsewhere(facts.topology, slow, found)
    if described:
        problems.append(described)
        fixes.append(f"boot with {MEMMAP_LINE}, so that new memory holds its own descriptions")
    if problems:
        return warn("; ".join(problems), "; ".join(fixes))
    zones = ", ".join(
        f"node {node.id}: {format_size(found.movable_bytes.get(node.id, 0))} movable of "
        f"{format_size(node.size_bytes)}"
        for node in slow
    )
    return ok("; ".join(one for one in (zones, *_notes(found)) if one) or "nothing to judge")


def _described_elsewhere(topology: Topology, slow: list[Node], found: Hotplug) -> str:
    """Return what the descriptions of added memory cost other nodes; empty if that is little."""
    if not found.by_driver or found.memmap_on_memory != "N":
        return ""
    added = sum(found.movable_bytes.get(node.id, 0) for node in slow)
    cost_bytes = added // topology.page_bytes * STRUCT_PAGE_BYTES
    fast_bytes = sum(topology.node(node).size_bytes for node in topology.tiers[0].nodes)
    if cost_bytes < MEMMAP_SHARE * fast_bytes:
        return ""
    return (
        f"the kernel's descriptions of the added memory take {format_size(cost_bytes)} of faster "
        f"nodes, {cost_bytes / fast_bytes:.0%} of the fastest tier (memmap_on_memory is N)"
    )


def _is_slow(topology: Topology, node: Node) -> bool:
    tier = topology.tier_of(node.id)
    return tier is not None and tier.rank > 0 and not node.cpus


def _notes(found: Hotplug) -> Iterator[str]:
    if found.new_blocks is not None:
        yield f"memory that appears: {found.new_blocks}"
    if found.memmap_on_memory in ("Y", "force"):
        yield (
            "memmap_on_memory: the descriptions of new memory (1.6 % of it) lie on the new node "
            "itself, which saves fast memory"
        )
    if found.online_policy == "auto-movable":
        yield "online_policy auto-movable: the kernel decides by a ratio what is movable"


def _pinned(facts: Facts) -> Outcome:
    listed = [process for process in needed(facts.processes) if process.pinned_bytes]
    large = [process for process in listed if process.pinned_bytes >= RSS_BYTES_MIN]
    if not large:
        return ok("no program has pinned a large part of its memory")
    shown = ", ".join(_who(process) for process in large[:NAMED_MAX])
    rest = f" and {len(large) - NAMED_MAX} more" if len(large) > NAMED_MAX else ""
    return warn(
        f"{shown}{rest}: this memory is in use by devices and cannot move, neither up nor down",
        "nothing, if it is on the node where it belongs; else start the program on that node, and "
        "leave out its cgroup, as in `cgroups: {pinned: {exclude: [/PATH]}}`, or "
        "`shares: {pinned: {paths: [/PATH], moves: none}}` where groups have shares",
    )


def _who(process: Process) -> str:
    return f"{process.name} (pid {process.pid}) has pinned {format_size(process.pinned_bytes)}"


CHECKS = (
    Check(
        "TD021",
        "hotplug",
        "Does memory that is added come online so that it can be a slow tier?",
        "CXL and PMEM memory comes online through hotplug. Memory of ZONE_NORMAL may hold data of "
        "the kernel: page tables and caches would then be on slow memory for ever, and the memory "
        "could not be removed again. Memory of ZONE_MOVABLE holds only what can move. "
        "/sys/devices/system/memory/auto_online_blocks, the boot parameter memhp_default_state or "
        "a udev rule decide. Memory that was there at boot is always of the kernel, and is not "
        "judged. memory_hotplug.memmap_on_memory says where the descriptions of the new pages "
        "lie: on the new memory, or on the memory that is there. They take 1.6 % of what they "
        "describe, so much added memory costs a good part of the fast memory.",
        _hotplug,
    ),
    Check(
        "TD022",
        "pinned memory",
        "Has a large program memory that cannot move?",
        "Programs pin memory for devices: network cards with RDMA, GPUs, virtual machines with "
        "passed-through devices. The kernel counts it as VmPin in /proc/PID/status. Such pages "
        "stay where they are, whatever their heat. If they are cold and on a fast node, that part "
        "of the node cannot be used for anything else.",
        _pinned,
    ),
)
