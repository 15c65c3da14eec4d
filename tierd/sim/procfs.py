"""The files of /proc about memory, memory pressure and kdamonds.

The text is made at each read and follows mm/vmstat.c and fs/proc. The names of the lines were
recorded from each kernel series.
"""

from collections.abc import Callable
from dataclasses import dataclass
from errno import EIO

from tierd.sim.context_spec import Range
from tierd.sim.damon_modules import bounded
from tierd.sim.file_tree import READ_WRITE, Directory, Fixed, Live, Refused
from tierd.sim.firmware import iomem
from tierd.sim.kdamond_threads import KdamondThreads
from tierd.sim.kernel_series import KernelSeries, Parameter
from tierd.sim.machine_model import MachineModel
from tierd.sim.memory import Memory, Zone
from tierd.sim.node_files import meminfo_figures, node_figures
from tierd.sim.zones import with_watermarks

_ZONES = ("DMA", "DMA32", "Normal", "Movable", "Device")
_RESERVE_RATIOS = {"DMA": 256, "DMA32": 256, "Normal": 32}
# __setup_per_zone_wmarks(): an empty movable zone still gets SWAP_CLUSTER_MAX pages.
_MOVABLE_MARK = 32
_INT_MAX = 2**31 - 1
_WATERMARK_SCALE_MAX = 3000
_NUMA_BALANCING_MAX = 4
_PROMOTE_RATE_LIMIT = 65536
# The settings below /proc/sys/vm that have a limit; all others take any number.
_SYSCTL_MAX = {"swappiness": 200}
_US_PER_TICK = 10_000  # USER_HZ is 100
# A kdamond of a small machine works one part in so many of the time.
_KDAMOND_CPU_SHARE = 200
# The approximate time that one direct reclaim costs its task.
_STALL_US = 1_000
# The time from the machine's boot to the begin of the simulation.
_BOOTED_US = 120_000_000


class ProcFile(Live):
    """A file of procfs: if it has no write operation, a write by root is EIO."""

    __slots__ = ()

    def write(self, text: str) -> None:
        if self._take is None:
            raise Refused(EIO)
        self._take(text)


@dataclass(slots=True)
class Sysctl:
    """A number of /proc/sys."""

    mode: int
    value: int
    least: int = 0
    most: int = _INT_MAX
    changed: Callable[[], None] | None = None

    def read(self) -> str:
        return str(self.value)

    def write(self, text: str) -> None:
        self.value = bounded(text, self.least, self.most)
        if self.changed is not None:
            self.changed()


class Procfs:
    """The files of proc/."""

    def __init__(
        self,
        machine: MachineModel,
        memory: Memory,
        series: KernelSeries,
        threads: KdamondThreads,
        now_us: Callable[[], int],
    ) -> None:
        self._memory = memory
        self._series = series
        self._threads = threads
        self._now_us = now_us
        self._cpus = sum(len(node.cpus) for node in machine.nodes)
        zones = [zone for node in memory.nodes.values() for zone in node.zones]
        min_free_kib = sum(zone.spec.min_pages for zone in zones) * memory.page_bytes // 1024
        self._min_free = Sysctl(READ_WRITE, min_free_kib, changed=self.set_watermarks)
        self._scale = Sysctl(READ_WRITE, 10, 1, _WATERMARK_SCALE_MAX, self.set_watermarks)

    def install(self, root: Directory, *, numa_balancing: int) -> None:
        """Create the files."""
        root.put("proc/zoneinfo", ProcFile(self._zoneinfo))
        root.put("proc/vmstat", ProcFile(self._vmstat))
        root.put("proc/meminfo", ProcFile(self._meminfo))
        root.put("proc/swaps", ProcFile(self._swaps))
        # The entries stay when their memory goes offline, so the text is fixed.
        lines = (f"{p.start:08x}-{p.end - 1:08x} : {name}" for p, name in iomem(self._memory))
        root.put("proc/iomem", Fixed("\n".join(lines)))
        root.put("proc/uptime", ProcFile(self._uptime))
        root.put("proc/pressure/memory", ProcFile(self._pressure))
        root.put("proc/sys/kernel/osrelease", Fixed(self._series.release))
        balancing = Sysctl(READ_WRITE, numa_balancing, 0, _NUMA_BALANCING_MAX)
        root.put("proc/sys/kernel/numa_balancing", balancing)
        # sysctl_numa_balancing_promote_rate_limit. No hint fault is simulated.
        limit = Sysctl(READ_WRITE, _PROMOTE_RATE_LIMIT)
        root.put("proc/sys/kernel/numa_balancing_promote_rate_limit_MBps", limit)
        for name, parameter in self._series.sysctl_vm.items():
            root.put(f"proc/sys/vm/{name}", _sysctl(name, parameter))
        root.put("proc/sys/vm/min_free_kbytes", self._min_free)
        root.put("proc/sys/vm/watermark_scale_factor", self._scale)

    def process(self, pid: int) -> Directory | None:
        """Return proc/PID of a kdamond; None if there is no such process."""
        thread = self._threads.running().get(pid)
        if thread is None:
            return None
        folder = Directory()
        folder.put("comm", Fixed(thread.name))
        folder.put("stat", Fixed(self._stat(pid, thread.name, thread.started_us)))
        return folder

    def set_watermarks(self) -> None:
        """Set the watermarks after settings or memory have changed (__setup_per_zone_wmarks())."""
        zones = [zone for node in self._memory.nodes.values() for zone in node.zones]
        specs = with_watermarks(
            tuple(zone.spec for zone in zones),
            self._memory.page_bytes,
            self._min_free.value,
            self._scale.value,
        )
        for zone, spec in zip(zones, specs, strict=True):
            zone.spec = spec

    def _stat(self, pid: int, name: str, started_us: int) -> str:
        """Return the stat file of a kernel thread (do_task_stat()). Only its times are real."""
        ran_us = self._threads.cpu_us(pid)
        if ran_us is None:
            ran_us = (self._now_us() - started_us) // _KDAMOND_CPU_SHARE
        start_ticks = (_BOOTED_US + started_us) // _US_PER_TICK
        before = f"{pid} ({name}) S 2 0 0 0 -1 2129984 0 0 0 0 0"
        return f"{before} {ran_us // _US_PER_TICK} 0 0 20 0 1 0 {start_ticks}" + " 0" * 30

    def _uptime(self) -> str:
        up_us = _BOOTED_US + self._now_us()
        return f"{up_us / 1e6:.2f} {up_us * self._cpus / 1e6:.2f}"

    def _pressure(self) -> str:
        total = self._memory.counters.allocstall * _STALL_US
        averages = "avg10=0.00 avg60=0.00 avg300=0.00"
        return f"some {averages} total={total}\nfull {averages} total={total}"

    def _meminfo(self) -> str:
        figures = meminfo_figures(self._memory, self._memory.nodes)
        figures["MemAvailable"] = figures["MemFree"]
        figures["VmallocTotal"] = 13_743_895_347_199
        figures["Hugepagesize"] = 2048
        return "\n".join(known.line(figures.get(known.name, 0)) for known in self._series.meminfo)

    def _swaps(self) -> str:
        """Return the table of swap areas (swap_show()); the simulated machine has one at most."""
        lines = ["Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority"]
        if self._memory.swap_pages:
            page_kib = self._memory.page_bytes // 1024
            pages = (self._memory.swap_pages, self._memory.counters.pswpout)
            size, used = (count * page_kib for count in pages)
            lines.append(f"/swapfile                               file\t\t{size}\t\t{used}\t\t-2")
        return "\n".join(lines)

    def _vmstat(self) -> str:
        counters = self._memory.counters
        figures: dict[str, int] = {}
        for nid in self._memory.nodes:
            for name, value in node_figures(self._memory, nid).items():
                figures[name] = figures.get(name, 0) + value
        figures |= {
            "pgmigrate_success": counters.pgmigrate_success,
            "pgmigrate_fail": counters.pgmigrate_fail,
            "pgalloc_normal": counters.pgalloc,
            "pgfree": counters.pgfree,
            "allocstall_movable": counters.allocstall,
            "pgscan_kswapd": counters.pgscan_kswapd,
            "pgsteal_kswapd": counters.pgsteal_kswapd,
            "pswpout": counters.pswpout,
        }
        return "\n".join(f"{name} {figures.get(name, 0)}" for name in self._series.vmstat)

    # /proc/zoneinfo.

    def _zoneinfo(self) -> str:
        return "".join(
            self._zone_text(nid, name) for nid in self._memory.nodes for name in _ZONES
        ).removesuffix("\n")

    def _zone_text(self, nid: int, name: str) -> str:
        zones = {zone.spec.name: zone for zone in self._memory.nodes[nid].zones}
        zone = zones.get(name)
        lines = [f"Node {nid}, zone {name:>8}"]
        if zone is not None and zone.spec.managed_pages:
            first = next(known for known in _ZONES if known in zones)
            if name == first:
                lines += self._node_stats(nid)
        lines += self._zone_marks(name, zone)
        lines.append(f"        protection: ({', '.join(map(str, _protection(name, zones)))})")
        if zone is not None and zone.spec.managed_pages:
            lines += self._zone_stats(zone)
        return "\n".join(lines) + "\n"

    def _node_stats(self, nid: int) -> list[str]:
        figures = node_figures(self._memory, nid)
        return [
            "  per-node stats",
            *(f"      {name:<12} {figures.get(name, 0)}" for name in self._series.zoneinfo.node),
        ]

    def _zone_marks(self, name: str, zone: Zone | None) -> list[str]:
        spec = None if zone is None else zone.spec
        mark = _MOVABLE_MARK if name == "Movable" else 0
        present = 0 if spec is None else spec.present_pages
        span = self._span(zone)
        figures = {
            "boost": 0,
            "min": mark if spec is None else spec.min_pages,
            "low": mark if spec is None else spec.low_pages,
            "high": mark if spec is None else spec.high_pages,
            "promo": mark if spec is None else spec.promo_pages,
            "spanned": (span.end - span.start) // self._memory.page_bytes,
            "present": present,
            "managed": 0 if spec is None else spec.managed_pages,
            "cma": 0,
        }
        free = 0 if zone is None else self._memory.zone_free_pages(zone)
        return [
            f"  pages free     {free}",
            *(f"        {key:<8} {value}" for key, value in figures.items()),
        ]

    def _span(self, zone: Zone | None) -> Range:
        """Return the range from the first to the last page that is present (shrink_zone_span())."""
        if zone is None:
            return Range(0, 0)
        parts = [
            (max(part.start, zone.spec.range.start), min(part.end, zone.spec.range.end))
            for part in self._memory.ranges[zone.spec.nid]
        ]
        inside = [(start, end) for start, end in parts if start < end]
        if not inside:
            return Range(0, 0)
        return Range(min(start for start, _ in inside), max(end for _, end in inside))

    def _zone_stats(self, zone: Zone) -> list[str]:
        zoneinfo = self._series.zoneinfo
        free = self._memory.zone_free_pages(zone)
        lines = [
            f"      {name:<12} {free if name == 'nr_free_pages' else 0}" for name in zoneinfo.zone
        ]
        lines.append("  pagesets")
        for cpu in range(self._cpus):
            lines += [f"    cpu: {cpu}", *zoneinfo.pageset, "  vm stats threshold: 0"]
        start = self._span(zone).start // self._memory.page_bytes
        tail = [line for line in zoneinfo.tail if not line.startswith("  start_pfn")]
        lines += [*tail[:1], f"  start_pfn:           {start}", *tail[1:]]
        return lines


def _protection(name: str, zones: dict[str, Zone]) -> list[int]:
    """Return the pages that allocations for each higher zone must leave free.

    This is setup_per_zone_lowmem_reserve().
    """
    at = _ZONES.index(name)
    found = [0] * (at + 1)
    above = 0
    for higher in _ZONES[at + 1 :]:
        above += zones[higher].spec.managed_pages if higher in zones else 0
        populated = name in zones and zones[name].spec.managed_pages
        found.append(above // _RESERVE_RATIOS[name] if populated and name in _RESERVE_RATIOS else 0)
    return found


def _sysctl(name: str, parameter: Parameter) -> Fixed | Sysctl:
    if parameter.mode & 0o200 and parameter.text.isdigit():
        most = _SYSCTL_MAX.get(name, _INT_MAX)
        return Sysctl(parameter.mode, int(parameter.text), most=most)
    return Fixed(parameter.text, parameter.mode)
