"""What a kernel shows of memory: tiers, nodes, distances, speeds, counters and their formats."""

from collections.abc import Mapping

from tests.contract.behaviour import behaviour, since
from tests.contract.context import FAST, SLOW, node_ranges
from tests.contract.staging import taken
from tests.contract.subject import Subject

NODES = "sys/devices/system/node"
TIERS = "sys/devices/virtual/memory_tiering"
DEMOTION = "sys/kernel/mm/numa/demotion_enabled"


@behaviour(
    cites="nodelist_show() of mm/memory-tiers.c, mt_perf_to_adistance()",
    expect={"memory_tier4": "0", "memory_tier67": "1"},
)
def tiers(subject: Subject) -> dict[str, str]:
    """A tier is a directory named after its distance, and its nodes are a list; the faster has
    the smaller number.
    """
    sysfs = subject.sysfs
    names = [name for name in sysfs.listdir(TIERS) if name.startswith("memory_tier")]
    return {name: sysfs.read(f"{TIERS}/{name}/nodelist") for name in names}


@behaviour(
    cites="node_states[] of drivers/base/node.c",
    expect={
        "online": "0-1",
        "possible": "0-1",
        "has_memory": "0-1",
        "has_normal_memory": "0-1",
        "has_cpu": "0",
    },
)
def node_lists(subject: Subject) -> dict[str, str]:
    """Files list, as ranges, which nodes exist, which have memory, and which have CPUs."""
    names = ("online", "possible", "has_memory", "has_normal_memory", "has_cpu")
    return {name: subject.sysfs.read(f"{NODES}/{name}") for name in names}


@behaviour(cites="node_read_distance()", expect=["10 20", "20 10"])
def distances(subject: Subject) -> list[str]:
    """A node's distances to every node, itself included, on one line."""
    return [subject.sysfs.read(f"{NODES}/node{nid}/distance") for nid in (FAST, SLOW)]


@behaviour(cites="node_read_cpumap_list()", expect=["0-1", ""])
def cpus(subject: Subject) -> list[str]:
    """A node's CPUs are listed as ranges; the list is empty if it has none."""
    return [subject.sysfs.read(f"{NODES}/node{nid}/cpulist") for nid in (FAST, SLOW)]


@behaviour(
    cites="hmat_register_target_perf(), node_set_perf_attrs()",
    expect=[
        {"read_latency": "100", "write_latency": "100", "read_bandwidth": "50000",
         "write_bandwidth": "50000", "initiators": ["node0"]},
        {"read_latency": "300", "write_latency": "300", "read_bandwidth": "10000",
         "write_bandwidth": "10000", "initiators": ["node0"]},
    ],
)  # fmt: skip
def speeds(subject: Subject) -> list[dict[str, str | list[str]]]:
    """The firmware's figures for a node's memory, from its initiator, in nanoseconds and MB/s."""
    sysfs = subject.sysfs
    seen: list[dict[str, str | list[str]]] = []
    for nid in (FAST, SLOW):
        folder = f"{NODES}/node{nid}/access0/initiators"
        names = sysfs.listdir(folder)
        figures: dict[str, str | list[str]] = {
            name: sysfs.read(f"{folder}/{name}")
            for name in names
            if name.endswith(("_latency", "_bandwidth"))
        }
        seen.append({**figures, "initiators": [name for name in names if name.startswith("node")]})
    return seen


@behaviour(
    cites="demotion_enabled_show(), demotion_enabled_store()",
    expect={"at boot": "false", "1": "true", "0": "false", "true": "true", "x": "EINVAL",
            "false": "false"},
)  # fmt: skip
def demotion_enabled(subject: Subject) -> Mapping[str, str]:
    """demotion_enabled reads as true or false, takes any boolean, and is off at boot."""
    seen = {"at boot": subject.sysfs.read(DEMOTION)}
    for value in ("1", "0", "true", "x", "false"):
        refusal = taken(subject, DEMOTION, value)
        seen[value] = subject.sysfs.read(DEMOTION) if refusal == "ok" else refusal
    return seen


MEMINFO = ("MemTotal", "MemFree", "MemUsed", "Active(anon)", "Inactive(anon)", "Active(file)",
           "Inactive(file)", "AnonPages", "FilePages")  # fmt: skip


@behaviour(
    cites="node_read_meminfo()",
    expect={
        "names": list(MEMINFO),
        "used is the rest": True,
        "free is nr_free_pages": True,
    },
)
def meminfo(subject: Subject) -> dict[str, bool | list[str]]:
    """A node's meminfo has lines `Node N Name: value kB`; used is total minus free."""
    kib: dict[str, int] = {}
    for line in subject.sysfs.read(f"{NODES}/node{SLOW}/meminfo").splitlines():
        node, nid, name, value, *unit = line.split()
        if (node, nid, unit) == ("Node", str(SLOW), ["kB"]):
            kib[name.removesuffix(":")] = int(value)
    events = _pairs(subject.sysfs.read(f"{NODES}/node{SLOW}/vmstat"))
    free_kib = events["nr_free_pages"] * 4
    return {
        "names": [name for name in MEMINFO if name in kib],
        "used is the rest": kib["MemUsed"] == kib["MemTotal"] - kib["MemFree"],
        # Two files are read at two moments, but almost nothing changes on this node.
        "free is nr_free_pages": abs(free_kib - kib["MemFree"]) <= kib["MemTotal"] // 100,
    }


_COUNTERS = ("pgpromote_success", "pgpromote_candidate", "pgdemote_kswapd", "pgdemote_direct",
             "pgdemote_khugepaged", "pgdemote_proactive")  # fmt: skip


@behaviour(
    cites="vmstat_text[], node_read_vmstat()",
    expect=since({"6.12": list(_COUNTERS[:-1]), "6.16": list(_COUNTERS)}),
)
def node_counters(subject: Subject) -> list[str]:
    """A node counts promotions and demotions in its vmstat, one name and number on a line."""
    events = _pairs(subject.sysfs.read(f"{NODES}/node{SLOW}/vmstat"))
    return [name for name in _COUNTERS if name in events]


@behaviour(
    cites="vmstat_text[]",
    expect=["machine", "machine"],
)
def migration_counters(subject: Subject) -> list[str]:
    """Migrated pages are counted for the whole machine, not by node."""
    node = _pairs(subject.sysfs.read(f"{NODES}/node{SLOW}/vmstat"))
    machine = _pairs(subject.sysfs.read("proc/vmstat"))
    names = ("pgmigrate_success", "pgmigrate_fail")
    return ["machine" if name in machine and name not in node else "elsewhere" for name in names]


@behaviour(
    cites="zoneinfo_show_print()",
    expect={
        "zones of node 0": ["DMA", "DMA32", "Normal", "Movable", "Device"],
        "with memory": {"0": ["DMA", "DMA32"], "1": ["DMA32"]},
        "marks": ["min", "low", "high", "promo", "spanned", "present", "managed"],
    },
)
def zoneinfo(subject: Subject) -> dict[str, list[str] | dict[str, list[str]]]:
    """Every zone of every node has watermarks, even a zone without memory."""
    zones: dict[tuple[str, str], dict[str, int]] = {}
    marks: dict[str, int] = {}
    for line in subject.sysfs.read("proc/zoneinfo").splitlines():
        words = line.replace(",", " ").split()
        if words[:1] == ["Node"]:
            marks = zones.setdefault((words[1], words[3]), {})
        elif len(words) == 2 and words[1].isdigit():
            marks.setdefault(words[0], int(words[1]))
    wanted = ("min", "low", "high", "promo", "spanned", "present", "managed")
    return {
        "zones of node 0": [zone for nid, zone in zones if nid == "0"],
        "with memory": {
            nid: [zone for other, zone in zones if other == nid and zones[nid, zone]["managed"]]
            for nid in ("0", "1")
        },
        "marks": [name for name in wanted if all(name in known for known in zones.values())],
    }


@behaviour(
    cites="block_size_bytes_show(), register_mem_block_under_node()",
    expect={"block size": "8000000", "nodes": [512, 1024], "apart": True},
)
def memory_blocks(subject: Subject) -> dict[str, str | bool | list[int]]:
    """A node's memory is in blocks of one size, given in hexadecimal; together they are its size,
    and the hole below 4 GiB is between them.
    """
    ranges = [node_ranges(subject.sysfs, nid) for nid in (FAST, SLOW)]
    fast_end = ranges[0][-1][1]
    return {
        "block size": subject.sysfs.read("sys/devices/system/memory/block_size_bytes"),
        "nodes": [sum(end - start for start, end in parts) >> 20 for parts in ranges],
        "apart": all(start >= fast_end for start, _ in ranges[1]),
    }


@behaviour(cites="iomem_init(), for_each_mem_range()", expect=True)
def system_ram(subject: Subject) -> bool:
    """/proc/iomem lists System RAM, of which every node's blocks are made."""
    found: list[tuple[int, int]] = []
    for line in subject.sysfs.read("proc/iomem").splitlines():
        where, _, name = line.partition(" : ")
        if name == "System RAM":
            first, last = (int(part, 16) for part in where.split("-"))
            found.append((first, last + 1))
    blocks = [part for nid in (FAST, SLOW) for part in node_ranges(subject.sysfs, nid)]
    return all(
        any(start < ram_end and ram_start < end for ram_start, ram_end in found)
        for start, end in blocks
    )


@behaviour(
    cites="sysctl_numa_balancing(), psi_show()",
    expect={"numa_balancing": "1", "pressure": ["some", "full"], "swappiness": "60"},
)
def other_switches(subject: Subject) -> dict[str, str | list[str]]:
    """NUMA balancing is on by default on a machine of several nodes, and stalls are counted."""
    pressure = subject.sysfs.read("proc/pressure/memory").splitlines()
    return {
        "numa_balancing": subject.sysfs.read("proc/sys/kernel/numa_balancing"),
        "pressure": [line.split()[0] for line in pressure],
        "swappiness": subject.sysfs.read("proc/sys/vm/swappiness"),
    }


def _pairs(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in map(str.split, text.splitlines())}
