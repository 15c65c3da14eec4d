"""The files of NUMA nodes and memory tiers: sys/devices/system/node and memory_tiering.

The text is made at each read and follows drivers/base/node.c and mm/vmstat.c. The names of the
lines and their widths were recorded from each kernel series.
"""

from collections.abc import Iterable

from tierd.sim.file_tree import READ_WRITE, Directory, Fixed, Live
from tierd.sim.kernel_series import KernelSeries
from tierd.sim.machine_model import MachineModel, MachineNode
from tierd.sim.memory import Memory

NODES = "sys/devices/system/node"
TIERS = "sys/devices/virtual/memory_tiering"

_NUMASTAT = (
    "numa_hit",
    "numa_miss",
    "numa_foreign",
    "interleave_hit",
    "local_node",
    "other_node",
)


def id_list(ids: Iterable[int]) -> str:
    """Return ids as the kernel's "%*pbl" prints them, such as 0-1,3."""
    runs: list[list[int]] = []
    for known in sorted(ids):
        if runs and known == runs[-1][-1] + 1:
            runs[-1].append(known)
        else:
            runs.append([known])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def node_figures(memory: Memory, nid: int) -> dict[str, int]:
    """Return the node's counters in pages, by their names in vmstat. All others are 0."""
    counters = memory.nodes[nid].counters
    anon = [known for known in memory.sets if known.anon]
    file = [known for known in memory.sets if not known.anon]
    # There are no LRU lists: a page counts as active if its set is accessed at all.
    figures = {
        "nr_free_pages": memory.free_pages(nid),
        "nr_active_anon": sum(memory.pages_of_set(s.name, nid) for s in anon if s.rate_hz > 0),
        "nr_inactive_anon": sum(memory.pages_of_set(s.name, nid) for s in anon if s.rate_hz <= 0),
        "nr_active_file": sum(memory.pages_of_set(s.name, nid) for s in file if s.rate_hz > 0),
        "nr_inactive_file": sum(memory.pages_of_set(s.name, nid) for s in file if s.rate_hz <= 0),
        "pgpromote_success": counters.pgpromote_success,
        "pgpromote_candidate": counters.pgpromote_candidate,
        "pgdemote_kswapd": counters.pgdemote_kswapd,
        "pgdemote_direct": counters.pgdemote_direct,
        "pgdemote_khugepaged": counters.pgdemote_khugepaged,
        "nr_vmscan_write": counters.nr_vmscan_write,
    }
    figures["nr_anon_pages"] = figures["nr_active_anon"] + figures["nr_inactive_anon"]
    figures["nr_file_pages"] = figures["nr_active_file"] + figures["nr_inactive_file"]
    figures |= {
        f"nr_zone_{name}": figures[f"nr_{name}"]
        for name in ("active_anon", "inactive_anon", "active_file", "inactive_file")
    }
    return figures


def meminfo_figures(memory: Memory, nids: Iterable[int]) -> dict[str, int]:
    """Return the lines of a meminfo file that are not 0, in KiB."""
    pages: dict[str, int] = {}
    total = free = 0
    for nid in nids:
        total += memory.managed_pages(nid)
        free += memory.free_pages(nid)
        for name, value in node_figures(memory, nid).items():
            pages[name] = pages.get(name, 0) + value
    figures = {
        "MemTotal": total,
        "MemFree": free,
        "MemUsed": total - free,
        "Active(anon)": pages["nr_active_anon"],
        "Inactive(anon)": pages["nr_inactive_anon"],
        "Active(file)": pages["nr_active_file"],
        "Inactive(file)": pages["nr_inactive_file"],
        "Active": pages["nr_active_anon"] + pages["nr_active_file"],
        "Inactive": pages["nr_inactive_anon"] + pages["nr_inactive_file"],
        "AnonPages": pages["nr_anon_pages"],
        "FilePages": pages["nr_file_pages"],
    }
    return {name: value * memory.page_bytes // 1024 for name, value in figures.items()}


class Nodes:
    """The directory of each node, and the files that list nodes."""

    def __init__(self, machine: MachineModel, memory: Memory, series: KernelSeries) -> None:
        self._machine = machine
        self._memory = memory
        self._series = series
        self._ids = [node.id for node in machine.nodes]

    def with_memory(self) -> list[int]:
        """Return the nodes of N_MEMORY: those that have pages to allocate."""
        return [nid for nid in self._ids if self._memory.managed_pages(nid)]

    def install(self, root: Directory) -> None:
        """Create the files."""
        folder = root.make(NODES)
        every = Fixed(id_list(self._ids))
        memory = Live(lambda: id_list(self.with_memory()))
        folder.put("online", every)
        folder.put("possible", every)
        folder.put("has_memory", memory)
        folder.put("has_normal_memory", memory)
        folder.put("has_cpu", Fixed(id_list(n.id for n in self._machine.nodes if n.cpus)))
        folder.put("has_generic_initiator", Fixed(""))
        for node in self._machine.nodes:
            self._install_node(folder.make(f"node{node.id}"), node)
        self.install_tiers(root)

    def install_tiers(self, root: Directory) -> None:
        """Create the tiers again; a tier without nodes does not exist."""
        folder = root.make(TIERS)
        folder.entries.clear()
        folder.put("uevent", Fixed("", READ_WRITE))
        folder.make("power")
        present = set(self.with_memory())
        for name, nodes in self._machine.tiers:
            if present & set(nodes):
                folder.put(f"{name}/nodelist", Fixed(id_list(present & set(nodes))))
                folder.put(f"{name}/uevent", Fixed("", READ_WRITE))
                folder.make(f"{name}/power")

    def _install_node(self, folder: Directory, node: MachineNode) -> None:
        order = self._ids.index(node.id)
        distances = " ".join(str(figure) for figure in self._machine.distances[order])
        folder.put("cpulist", Fixed(id_list(node.cpus)))
        folder.put("cpumap", Fixed(f"{sum(1 << cpu for cpu in node.cpus):x}"))
        folder.put("distance", Fixed(distances))
        folder.put("meminfo", Live(lambda: self._meminfo(node.id)))
        folder.put("vmstat", Live(lambda: self._vmstat(node.id)))
        folder.put("numastat", Fixed("\n".join(f"{name} 0" for name in _NUMASTAT)))
        folder.put("uevent", Fixed("", READ_WRITE))
        for name in ("power", "memory_failure", "hugepages"):
            folder.make(name)
        for cpu in node.cpus:
            folder.make(f"cpu{cpu}")
        if node.latency_ns is not None or node.bandwidth_mbps is not None:
            # hmat_register_target_perf(): class 0 is the best initiator of any kind, class 1 the
            # best one with CPUs. Both are the same on a machine without generic initiators.
            for access in ("access0", "access1"):
                self._install_access(folder.make(f"{access}/initiators"), node)
                targets = folder.make(f"{access}/targets")
                for other in self._machine.nodes:
                    if other.initiator == node.id and other.latency_ns is not None:
                        targets.make(f"node{other.id}")

    def _install_access(self, folder: Directory, node: MachineNode) -> None:
        folder.make(f"node{node.initiator}")
        for way in ("read", "write"):
            folder.put(f"{way}_latency", Fixed(str(node.latency_ns or 0)))
            folder.put(f"{way}_bandwidth", Fixed(str(node.bandwidth_mbps or 0)))

    def _meminfo(self, nid: int) -> str:
        figures = meminfo_figures(self._memory, [nid])
        return "\n".join(
            f"Node {nid} {known.line(figures.get(known.name, 0))}"
            for known in self._series.node_meminfo
        )

    def _vmstat(self, nid: int) -> str:
        figures = node_figures(self._memory, nid)
        return "\n".join(f"{name} {figures.get(name, 0)}" for name in self._series.node_vmstat)
