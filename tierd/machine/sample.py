"""Reads a Sample: the counters of nodes, schemes and memory pressure at one moment.

Only reads. A kdamond's statistics are as old as the last command update_schemes_stats, which the
caller gives. All or nothing: if one file cannot be read, there is no sample.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tierd import figures
from tierd.errors import TierdError
from tierd.machine.discovery import NODES
from tierd.machine.features import KDAMONDS
from tierd.machine.neighbours import COUNT_MAX
from tierd.machine.zoneinfo import PATH as ZONEINFO
from tierd.machine.zoneinfo import Zone, parse_zones
from tierd.sysfs import Sysfs, optional
from tierd.topology import Topology
from tierd.units import VALUE_MAX

VMSTAT = "proc/vmstat"
PRESSURE = "proc/pressure/memory"

_MEMINFO = re.compile(r"^Node [0-9]+ (MemTotal|MemFree|AnonHugePages): +(\S+) kB$", re.MULTILINE)
_NODE_COUNTER = re.compile(r"^(pgpromote_\w+|pgdemote_\w+) (\S+)$", re.MULTILINE)
_COUNTER = re.compile(r"^(pgmigrate_success|pgmigrate_fail|allocstall_\w+) (\S+)$", re.MULTILINE)
_PSI = re.compile(r"^(some|full) .*total=(\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The sum of a node's zone watermarks, without the temporary boost.

    Below `low` kswapd starts. It stops at `high`, or at `promo` in NUMA balancing's tiering mode.
    Below `min` an allocation has to wait.
    """

    node: int
    min_bytes: int
    low_bytes: int
    high_bytes: int
    promo_bytes: int
    reserve_bytes: int
    """The memory in the lower zones that the kernel always keeps free; programs never get it."""

    @property
    def floor_bytes(self) -> int:
        """The bytes that the kernel keeps free by itself: a smaller goal cannot be reached."""
        return self.high_bytes + self.reserve_bytes


@dataclass(frozen=True, slots=True)
class NodeSample:
    """A node's size and free memory in bytes, and its counters since boot in pages."""

    node: int
    total_bytes: int
    free_bytes: int
    counters: tuple[tuple[str, int], ...]
    """pgpromote_* and pgdemote_*, with the kernel's names, which differ between kernels."""
    huge_bytes: int = 0
    """The bytes in transparent huge pages of programs; 0 if the kernel has none."""

    @property
    def used_bytes(self) -> int:
        return self.total_bytes - self.free_bytes


@dataclass(frozen=True, slots=True)
class SchemeSample:
    """A scheme's statistics since its kdamond was turned on, and its current quota."""

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
    """One of tierd's kdamonds."""

    index: int
    state: str
    pid: int
    schemes: tuple[SchemeSample, ...]
    sensed: Mapping[int, int] = field(default_factory=dict)
    """The sz_tried of the schemes that only count memory, by their index."""


@dataclass(frozen=True, slots=True)
class Pressure:
    """The time that tasks have waited for memory since boot."""

    some_us: int
    full_us: int


@dataclass(frozen=True, slots=True)
class Sample:
    """All counters at one moment; the caller computes rates from two samples."""

    monotonic_s: float
    nodes: tuple[NodeSample, ...]
    watermarks: tuple[Watermarks, ...]
    kdamonds: tuple[KdamondSample, ...]
    pressure: Pressure | None
    """None if the kernel does not measure pressure (PSI)."""
    pgmigrate_success: int
    pgmigrate_fail: int
    allocstall: int
    """The allocations that had to reclaim memory themselves, in all zones."""

    def node(self, node_id: int) -> NodeSample:
        return next(node for node in self.nodes if node.node == node_id)


def sample(
    sysfs: Sysfs,
    topology: Topology,
    kdamonds: Mapping[int, Iterable[int]],
    now: float,
    known: tuple[Watermarks, ...] | None = None,
) -> Sample:
    """Return a sample at `now`. `kdamonds` has, by index, the schemes that only count memory.

    A caller that samples often passes the `known` watermarks: they change only with hotplug and
    sysctls, and /proc/zoneinfo is a long file.
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
        allocstall=sum(
            _counter(counters, name) for name in counters if name.startswith("allocstall")
        ),
    )


def watermarks(sysfs: Sysfs, topology: Topology) -> tuple[Watermarks, ...]:
    """Return the watermarks of every node with memory."""
    zones = parse_zones(sysfs.reread(ZONEINFO))
    return tuple(sum_watermarks(node.id, zones, topology.page_bytes) for node in topology.nodes)


def sum_watermarks(node: int, zones: Iterable[Zone], page_bytes: int) -> Watermarks:
    """Return one node's watermarks, from all of its zones that have pages to allocate."""
    mine = [zone for zone in zones if zone.node == node and zone.populated]
    if not mine:
        raise TierdError(f"/{ZONEINFO}: node {node} has memory, but no zone to allocate it from")
    # __setup_per_zone_wmarks() sets low, high and promo at equal distances. Kernels that do not
    # print promo have it too.
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
    """Return the free bytes of a node."""
    return _meminfo(sysfs, node)["MemFree"]


def _meminfo(sysfs: Sysfs, node: int) -> Mapping[str, int]:
    """Return the node's figures in bytes, by the kernel's names."""
    path = f"{NODES}/node{node}/meminfo"
    found = {
        name: figures.number(path, kib, most=figures.KIB_MAX) * 1024
        for name, kib in _MEMINFO.findall(sysfs.reread(path))
    }
    if not {"MemTotal", "MemFree"} <= found.keys():
        raise TierdError(f"/{path}: expected MemTotal and MemFree, found {sorted(found)}")
    # If the node's memory was just removed, MemTotal is less until the topology is read again.
    if found["MemFree"] > found["MemTotal"]:
        raise figures.Garbled(path, "no more free than there is", str(found))
    return found


def _node(sysfs: Sysfs, node: int) -> NodeSample:
    found = _meminfo(sysfs, node)
    path = f"{NODES}/node{node}/vmstat"
    counters = _NODE_COUNTER.findall(sysfs.reread(path))
    return NodeSample(
        node=node,
        total_bytes=found["MemTotal"],
        free_bytes=found["MemFree"],
        counters=tuple((name, figures.number(path, count)) for name, count in counters),
        huge_bytes=found.get("AnonHugePages", 0),
    )


def _kdamond(sysfs: Sysfs, index: int, sensors: frozenset[int]) -> KdamondSample:
    folder = f"{KDAMONDS}/{index}"
    schemes = f"{folder}/contexts/0/schemes"
    count = _number(sysfs, f"{schemes}/nr_schemes", most=COUNT_MAX)
    return KdamondSample(
        index=index,
        state=sysfs.reread(f"{folder}/state"),
        pid=_number(sysfs, f"{folder}/pid", -1, figures.PID_MAX),
        schemes=tuple(
            _scheme(sysfs, f"{schemes}/{scheme}", scheme)
            for scheme in range(count)
            if scheme not in sensors
        ),
        # For a scheme that only counts, one file is read: a node has several such schemes, and each
        # tick reads them all.
        sensed={
            scheme: _number(sysfs, f"{schemes}/{scheme}/stats/sz_tried")
            for scheme in sorted(sensors)
            if scheme < count
        },
    )


def _scheme(sysfs: Sysfs, folder: str, index: int) -> SchemeSample:
    passed = f"{folder}/stats/sz_ops_filter_passed"
    return SchemeSample(
        index=index,
        nr_tried=_number(sysfs, f"{folder}/stats/nr_tried"),
        sz_tried=_number(sysfs, f"{folder}/stats/sz_tried"),
        nr_applied=_number(sysfs, f"{folder}/stats/nr_applied"),
        sz_applied=_number(sysfs, f"{folder}/stats/sz_applied"),
        qt_exceeds=_number(sysfs, f"{folder}/stats/qt_exceeds"),
        effective_bytes=_number(sysfs, f"{folder}/quotas/effective_bytes"),
        sz_ops_filter_passed=figures.optional(passed, optional(sysfs, passed)),
    )


def _number(sysfs: Sysfs, path: str, least: int = 0, most: int = VALUE_MAX) -> int:
    return figures.number(path, sysfs.reread(path), least, most)


def _pressure(sysfs: Sysfs) -> Pressure | None:
    text = optional(sysfs, PRESSURE)
    if text is None:
        return None
    totals = dict(_PSI.findall(text))
    if len(totals) != 2:
        raise TierdError(f"/{PRESSURE}: expected a total of `some` and `full`, found {text!r}")
    some, full = (figures.number(PRESSURE, totals[name]) for name in ("some", "full"))
    return Pressure(some_us=some, full_us=full)


def _counter(counters: dict[str, str], name: str) -> int:
    if name not in counters:
        raise TierdError(
            f"/{VMSTAT}: no {name}", "the kernel must be built with CONFIG_MIGRATION=y"
        )
    return figures.number(VMSTAT, counters[name])
