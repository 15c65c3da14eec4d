"""What the machine is doing at one moment: nodes, watermarks, schemes, pressure, counters.

Only reads. What a kdamond shows is as old as its last update_schemes_stats, which is a command
and so the caller's to give. Whole or nothing: a file that cannot be read spoils the sample.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tierd.errors import TierdError
from tierd.machine.discovery import NODES
from tierd.machine.observe import KDAMONDS
from tierd.machine.zoneinfo import PATH as ZONEINFO
from tierd.machine.zoneinfo import Zone, parse_zones
from tierd.sysfs import Sysfs, optional
from tierd.topology import Topology

VMSTAT = "proc/vmstat"
PRESSURE = "proc/pressure/memory"

_MEMINFO = re.compile(r"^Node \d+ (MemTotal|MemFree|AnonHugePages): +(\d+) kB$", re.MULTILINE)
_NODE_COUNTER = re.compile(r"^(pgpromote_\w+|pgdemote_\w+) (\d+)$", re.MULTILINE)
_COUNTER = re.compile(r"^(pgmigrate_success|pgmigrate_fail|allocstall_\w+) (\d+)$", re.MULTILINE)
_PSI = re.compile(r"^(some|full) .*total=(\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Watermarks:
    """A node's zone watermarks, summed, without the passing boost.

    kswapd wakes below `low`, stops at `high` or, with NUMA balancing's tiering, at `promo`;
    an allocation stalls below `min`.
    """

    node: int
    min_bytes: int
    low_bytes: int
    high_bytes: int
    promo_bytes: int
    reserve_bytes: int
    """Kept free in the lower zones whatever happens: pages of programs never get these."""

    @property
    def floor_bytes(self) -> int:
        """What the kernel keeps free by itself: a goal below this is never reached."""
        return self.high_bytes + self.reserve_bytes


@dataclass(frozen=True, slots=True)
class NodeSample:
    """A node's fill, and its counters since boot, in pages."""

    node: int
    total_bytes: int
    free_bytes: int
    counters: tuple[tuple[str, int], ...]
    """pgpromote_* and pgdemote_*, by the kernel's names; the set differs between kernels."""
    huge_bytes: int = 0
    """In transparent huge pages of programs; 0 where the kernel has none."""

    @property
    def used_bytes(self) -> int:
        return self.total_bytes - self.free_bytes


@dataclass(frozen=True, slots=True)
class SchemeSample:
    """A scheme's statistics since its kdamond was turned on, and its quota in force."""

    index: int
    nr_tried: int
    sz_tried: int
    nr_applied: int
    sz_applied: int
    qt_exceeds: int
    effective_bytes: int
    sz_ops_filter_passed: int | None


@dataclass(frozen=True, slots=True)
class KdamondSample:
    """One of our kdamonds."""

    index: int
    state: str
    pid: int
    schemes: tuple[SchemeSample, ...]
    sensed: Mapping[int, int] = field(default_factory=dict)
    """The sz_tried of schemes that only count, by their index."""


@dataclass(frozen=True, slots=True)
class Pressure:
    """Time that tasks lost to memory since boot."""

    some_us: int
    full_us: int


@dataclass(frozen=True, slots=True)
class Sample:
    """Everything at one moment; counters are raw, so rates are the reader's to take."""

    monotonic_s: float
    nodes: tuple[NodeSample, ...]
    watermarks: tuple[Watermarks, ...]
    kdamonds: tuple[KdamondSample, ...]
    pressure: Pressure | None
    """None where the kernel keeps no pressure figures."""
    pgmigrate_success: int
    pgmigrate_fail: int
    allocstall: int
    """Allocations that had to reclaim for themselves, over all zones."""

    def node(self, node_id: int) -> NodeSample:
        return next(node for node in self.nodes if node.node == node_id)


def sample(
    sysfs: Sysfs,
    topology: Topology,
    kdamonds: Mapping[int, Iterable[int]],
    now: float,
    known: tuple[Watermarks, ...] | None = None,
) -> Sample:
    """The machine at `now`, and kdamonds: each by its index, with the schemes that only count.

    Watermarks change with hotplug and sysctls only, and /proc/zoneinfo is the longest file here:
    a caller that samples often passes those it knows.
    """
    counters = dict(_COUNTER.findall(sysfs.reread(VMSTAT)))
    return Sample(
        monotonic_s=now,
        nodes=tuple(_node(sysfs, node.id) for node in topology.nodes),
        watermarks=watermarks(sysfs, topology) if known is None else known,
        kdamonds=tuple(
            _kdamond(sysfs, index, frozenset(sensors)) for index, sensors in kdamonds.items()
        ),
        pressure=_pressure(sysfs),
        pgmigrate_success=_counter(counters, "pgmigrate_success"),
        pgmigrate_fail=_counter(counters, "pgmigrate_fail"),
        allocstall=sum(int(n) for key, n in counters.items() if key.startswith("allocstall")),
    )


def watermarks(sysfs: Sysfs, topology: Topology) -> tuple[Watermarks, ...]:
    """The watermarks of every node with memory."""
    zones = parse_zones(sysfs.reread(ZONEINFO))
    return tuple(sum_watermarks(node.id, zones, topology.page_bytes) for node in topology.nodes)


def sum_watermarks(node: int, zones: Iterable[Zone], page_bytes: int) -> Watermarks:
    """One node's watermarks from all of its zones that hand out pages."""
    mine = [zone for zone in zones if zone.node == node and zone.populated]
    if not mine:
        raise TierdError(f"/{ZONEINFO}: node {node} has memory, but no zone that hands it out")
    # __setup_per_zone_wmarks() spaces low, high and promo evenly; kernels that do not print
    # promo have it all the same.
    promo = sum(
        2 * zone.high_pages - zone.low_pages if zone.promo_pages is None else zone.promo_pages
        for zone in mine
    )
    boost = sum(zone.boost_pages for zone in mine)
    return Watermarks(
        node=node,
        min_bytes=(sum(zone.min_pages for zone in mine) - boost) * page_bytes,
        low_bytes=(sum(zone.low_pages for zone in mine) - boost) * page_bytes,
        high_bytes=(sum(zone.high_pages for zone in mine) - boost) * page_bytes,
        promo_bytes=(promo - boost) * page_bytes,
        reserve_bytes=sum(min(z.reserve_pages, z.managed_pages) for z in mine) * page_bytes,
    )


def free_bytes(sysfs: Sysfs, node: int) -> int:
    """What is free on a node now."""
    return int(_meminfo(sysfs, node)["MemFree"]) * 1024


def _meminfo(sysfs: Sysfs, node: int) -> Mapping[str, str]:
    path = f"{NODES}/node{node}/meminfo"
    figures = dict(_MEMINFO.findall(sysfs.reread(path)))
    if not {"MemTotal", "MemFree"} <= figures.keys():
        raise TierdError(f"/{path}: expected MemTotal and MemFree, found {sorted(figures)}")
    return figures


def _node(sysfs: Sysfs, node: int) -> NodeSample:
    figures = _meminfo(sysfs, node)
    counters = _NODE_COUNTER.findall(sysfs.reread(f"{NODES}/node{node}/vmstat"))
    return NodeSample(
        node=node,
        total_bytes=int(figures["MemTotal"]) * 1024,
        free_bytes=int(figures["MemFree"]) * 1024,
        counters=tuple((name, int(count)) for name, count in counters),
        huge_bytes=int(figures.get("AnonHugePages", "0")) * 1024,
    )


def _kdamond(sysfs: Sysfs, index: int, sensors: frozenset[int]) -> KdamondSample:
    folder = f"{KDAMONDS}/{index}"
    schemes = f"{folder}/contexts/0/schemes"
    count = int(sysfs.reread(f"{schemes}/nr_schemes"))
    return KdamondSample(
        index=index,
        state=sysfs.reread(f"{folder}/state"),
        pid=int(sysfs.reread(f"{folder}/pid")),
        schemes=tuple(
            _scheme(sysfs, f"{schemes}/{scheme}", scheme)
            for scheme in range(count)
            if scheme not in sensors
        ),
        # Of what only counts a single file is read: there are several to a node, and each tick
        # reads them all.
        sensed={
            scheme: int(sysfs.reread(f"{schemes}/{scheme}/stats/sz_tried"))
            for scheme in sorted(sensors)
            if scheme < count
        },
    )


def _scheme(sysfs: Sysfs, folder: str, index: int) -> SchemeSample:
    passed = optional(sysfs, f"{folder}/stats/sz_ops_filter_passed")
    return SchemeSample(
        index=index,
        nr_tried=int(sysfs.reread(f"{folder}/stats/nr_tried")),
        sz_tried=int(sysfs.reread(f"{folder}/stats/sz_tried")),
        nr_applied=int(sysfs.reread(f"{folder}/stats/nr_applied")),
        sz_applied=int(sysfs.reread(f"{folder}/stats/sz_applied")),
        qt_exceeds=int(sysfs.reread(f"{folder}/stats/qt_exceeds")),
        effective_bytes=int(sysfs.reread(f"{folder}/quotas/effective_bytes")),
        sz_ops_filter_passed=None if passed is None else int(passed),
    )


def _pressure(sysfs: Sysfs) -> Pressure | None:
    text = optional(sysfs, PRESSURE)
    if text is None:
        return None
    totals = dict(_PSI.findall(text))
    if len(totals) != 2:
        raise TierdError(f"/{PRESSURE}: expected a total of `some` and `full`, found {text!r}")
    return Pressure(some_us=int(totals["some"]), full_us=int(totals["full"]))


def _counter(counters: dict[str, str], name: str) -> int:
    if name not in counters:
        raise TierdError(
            f"/{VMSTAT}: no {name}", "the kernel must be built with CONFIG_MIGRATION=y"
        )
    return int(counters[name])
