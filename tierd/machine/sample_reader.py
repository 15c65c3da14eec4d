"""Reads a Sample: the counters of nodes, schemes and memory pressure at one moment.

Only reads. A kdamond's statistics are as old as the last command update_schemes_stats, which the
caller gives. All or nothing: if one file cannot be read, there is no sample.
"""

import re
from collections.abc import Iterable, Mapping

from tierd import figures
from tierd.errors import TierdError
from tierd.machine import resctrl
from tierd.machine.discovery import NODES
from tierd.machine.features import KDAMONDS
from tierd.machine.neighbours import COUNT_MAX
from tierd.machine.sample import (
    KdamondSample,
    NodeSample,
    Pressure,
    Sample,
    SchemeSample,
    Traffic,
    VmEvents,
    Watermarks,
)
from tierd.machine.zoneinfo import PATH as ZONEINFO
from tierd.machine.zoneinfo import Zone, parse_zones
from tierd.sysfs import Sysfs, optional
from tierd.topology import Node, Topology
from tierd.units import VALUE_MAX

VMSTAT = "proc/vmstat"
PRESSURE = "proc/pressure/memory"

_MEMINFO = re.compile(r"^Node [0-9]+ (MemTotal|MemFree|AnonHugePages): +(\S+) kB$", re.MULTILINE)
_NODE_COUNTER = re.compile(r"^(pgpromote_\w+|pgdemote_\w+|nr_vmscan_write) (\S+)$", re.MULTILINE)
_COUNTER = re.compile(r"^(pgmigrate_success|pgmigrate_fail|allocstall_\w+) (\S+)$", re.MULTILINE)
_EVENT = re.compile(r"^(pgalloc_\w+|pgmajfault) (\S+)$", re.MULTILINE)
_PSI = re.compile(r"^some .*total=(\S+)$", re.MULTILINE)


def read_sample(
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
        nodes=node_samples(sysfs, topology),
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


def vm_events(sysfs: Sysfs) -> VmEvents:
    """Return the counts of allocations and of major faults."""
    counters = dict(_EVENT.findall(sysfs.reread(VMSTAT)))
    return VmEvents(
        allocated_pages=sum(
            _counter(counters, name) for name in counters if name.startswith("pgalloc_")
        ),
        major_faults=_counter(counters, "pgmajfault") if "pgmajfault" in counters else 0,
    )


def node_samples(sysfs: Sysfs, topology: Topology) -> tuple[NodeSample, ...]:
    """Return the memory and the counters of every node with memory."""
    return tuple(_node(sysfs, node) for node in topology.nodes)


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


def _node(sysfs: Sysfs, node: Node) -> NodeSample:
    found = _meminfo(sysfs, node.id)
    path = f"{NODES}/node{node.id}/vmstat"
    counters = _NODE_COUNTER.findall(sysfs.reread(path))
    return NodeSample(
        node=node.id,
        total_bytes=found["MemTotal"],
        free_bytes=found["MemFree"],
        counters=tuple((name, figures.number(path, count)) for name, count in counters),
        huge_bytes=found.get("AnonHugePages", 0),
        traffic=_traffic(sysfs, node),
    )


def _traffic(sysfs: Sysfs, node: Node) -> Traffic | None:
    told = node.cpu_performance or node.performance
    if not node.caches or told is None or not told.read_bandwidth_mbps:
        return None
    total = resctrl.local_bytes(sysfs, node.caches) if resctrl.is_there(sysfs) else None
    return None if total is None else Traffic(total, told.read_bandwidth_mbps * 10**6)


def _kdamond(sysfs: Sysfs, index: int, sensors: frozenset[int]) -> KdamondSample:
    folder = f"{KDAMONDS}/{index}"
    schemes = f"{folder}/contexts/0/schemes"
    count = _number(sysfs, f"{schemes}/nr_schemes", most=COUNT_MAX)
    counting = sorted(one for one in sensors if one < count)
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
        sensed={one: _number(sysfs, f"{schemes}/{one}/stats/sz_tried") for one in counting},
        counted_regions=(
            _number(sysfs, f"{schemes}/{counting[0]}/stats/nr_tried") if counting else 0
        ),
    )


def _scheme(sysfs: Sysfs, folder: str, index: int) -> SchemeSample:
    return SchemeSample(
        index=index,
        sz_tried=_number(sysfs, f"{folder}/stats/sz_tried"),
        sz_applied=_number(sysfs, f"{folder}/stats/sz_applied"),
        qt_exceeds=_number(sysfs, f"{folder}/stats/qt_exceeds"),
        effective_bytes=_number(sysfs, f"{folder}/quotas/effective_bytes"),
    )


def _number(sysfs: Sysfs, path: str, least: int = 0, most: int = VALUE_MAX) -> int:
    return figures.number(path, sysfs.reread(path), least, most)


def _pressure(sysfs: Sysfs) -> Pressure | None:
    text = optional(sysfs, PRESSURE, often=True)
    if text is None:
        return None
    totals = _PSI.findall(text)
    if len(totals) != 1:
        raise TierdError(f"/{PRESSURE}: expected a total of `some`, found {text!r}")
    return Pressure(some_us=figures.number(PRESSURE, totals[0]))


def _counter(counters: dict[str, str], name: str) -> int:
    if name not in counters:
        raise TierdError(
            f"/{VMSTAT}: no {name}", "the kernel must be built with CONFIG_MIGRATION=y"
        )
    return figures.number(VMSTAT, counters[name])
