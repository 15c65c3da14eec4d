"""The table of all metrics: name, meaning, and how the value is taken from a snapshot.

The scraped text, the documentation, and the tests of dashboard and alerts use this table. Rules:
names, labels and base units are promises and do not change; a value that is not known is left out;
a counter that has not counted yet is 0; functions here read only their arguments.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from tierd.configuration.config import Mode
from tierd.frozen import dataclass
from tierd.machine.neighbours import Owner
from tierd.plans.plan import Direction
from tierd.record.daemon_counts import DaemonCounts
from tierd.record.snapshot import NodeStatus, SchemeStatus, Snapshot, State
from tierd.units import BP_MAX

PREFIX = "tierd_"

# The counters of these events begin at 0, so that an alert sees the first event as an increase. A
# test compares this list with the events that the loop sends.
EVENTS = (
    "bookkeeping_failed",
    "bookkeeping_recovered",
    "degraded",
    "given_up",
    "inversion",
    "kdamond_died",
    "kdamond_started",
    "kept",
    "left",
    "pause",
    "pause_failed",
    "recovered",
    "reload",
    "reload_failed",
    "replanned",
    "restore_failed",
    "restored",
    "resume",
    "resume_failed",
    "running",
    "stopping",
)
# tierd's own files. Tiering goes on if one of them cannot be written.
BOOKS = ("counters.json", "events.ring", "history.ring", "tally.json")
# The errors that DAMON gives, as tests/contract shows.
WRITE_ERRORS = ("EBUSY", "EINVAL", "ENOENT", "ENOMEM", "EPERM")

# Names from the kernel (mm/vmstat.c, vmstat_text[]). Not every kernel has all of them.
NODE_VMSTAT = {
    "pgpromote_success": "promoted by NUMA balancing",
    "pgpromote_candidate": "that NUMA balancing found hot on the node",
    "pgpromote_candidate_nrl": "promoted without a rate limit, as the faster node had room",
    "pgdemote_kswapd": "demoted by kswapd",
    "pgdemote_direct": "demoted by allocations that had to reclaim",
    "pgdemote_khugepaged": "demoted by khugepaged",
    "pgdemote_proactive": "demoted because a program asked the kernel to reclaim",
    "nr_vmscan_write": "swapped out",
}

Values = Iterable[tuple[tuple[str, ...], float]]
"""Pairs of label values, in the order of the metric's labels, and the value."""


class MetricType(StrEnum):
    """The type of a metric, as it stands in the TYPE line of the text format."""

    gauge = "gauge"
    counter = "counter"


@dataclass(frozen=True, slots=True)
class Seen:
    """The snapshot and the counts from which the values of metrics are taken."""

    snapshot: Snapshot
    tally: DaemonCounts


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: a line of the table."""

    name: str
    kind: MetricType
    labels: tuple[str, ...]
    doc: str
    values: Callable[[Seen], Values]

    @property
    def full_name(self) -> str:
        return PREFIX + self.name


def _one(value: Callable[[Seen], float]) -> Callable[[Seen], Values]:
    return lambda seen: (((), value(seen)),)


def _per_node(value: Callable[[NodeStatus], float | None]) -> Callable[[Seen], Values]:
    def values(seen: Seen) -> Iterator[tuple[tuple[str, ...], float]]:
        for node in seen.snapshot.nodes:
            found = value(node)
            if found is not None:
                yield (str(node.numa_node),), found

    return values


def _per_tier_node(value: Callable[[NodeStatus], float]) -> Callable[[Seen], Values]:
    return lambda seen: (
        ((str(node.numa_node), node.tier), value(node)) for node in seen.snapshot.nodes
    )


def _per_scheme(value: Callable[[SchemeStatus], float | None]) -> Callable[[Seen], Values]:
    """Return a value per scheme. In observe mode, where nothing moves, the label has the mode."""

    def values(seen: Seen) -> Iterator[tuple[tuple[str, ...], float]]:
        mode = seen.snapshot.mode
        for scheme in seen.snapshot.schemes:
            found = value(scheme)
            name = scheme.scheme if mode == Mode.manage else f"{scheme.scheme}:{mode}"
            if found is not None:
                yield (name, str(scheme.source_node), str(scheme.target_node)), found

    return values


def _moved(direction: Direction) -> Callable[[Seen], Values]:
    """Return what was moved in one direction, per pair of nodes; nothing in observe mode."""

    def values(seen: Seen) -> Values:
        moved: dict[tuple[str, ...], float] = {}
        for scheme in seen.snapshot.schemes:
            if scheme.action == direction and seen.snapshot.mode != Mode.observe:
                pair = (str(scheme.source_node), str(scheme.target_node))
                moved[pair] = moved.get(pair, 0) + scheme.applied_bytes_total
        yield from moved.items()

    return values


def _evicted(seen: Seen) -> Values:
    pairs = _moved(Direction.evict)(seen)
    return (((labels[0],), value) for labels, value in pairs)


def _node_vmstat(name: str) -> Metric:
    return Metric(
        f"node_vmstat_{name}_total",
        MetricType.counter,
        ("numa_node",),
        f"Pages {NODE_VMSTAT[name]}, since boot (/sys/devices/system/node/nodeN/vmstat).",
        _per_node(lambda node: dict(node.vmstat).get(name)),
    )


def _vmstat(name: str, what: str, value: Callable[[Snapshot], int | None]) -> Metric:
    def values(seen: Seen) -> Values:
        found = value(seen.snapshot)
        return () if found is None else (((), found),)

    doc = f"Pages that {what} on the whole machine, not only by tierd, since boot (/proc/vmstat)."
    return Metric(f"vmstat_{name}_total", MetricType.counter, (), doc, values)


def _counts(
    known: Iterable[str], counts: Callable[[DaemonCounts], Iterable[tuple[str, int]]]
) -> Callable[[Seen], Values]:
    def values(seen: Seen) -> Values:
        found = dict.fromkeys(known, 0) | dict(counts(seen.tally))
        return (((name,), count) for name, count in sorted(found.items()))

    return values


_NODE = ("numa_node",)
_PAIR = ("source_node", "target_node")
_SCHEME = ("scheme", *_PAIR)

METRICS = (
    Metric(
        "build_info",
        MetricType.gauge,
        ("version", "tuner", "mode"),
        "Always 1. The labels are the version, the tuner that sets the quotas, and the mode.",
        lambda seen: (((seen.snapshot.version, seen.snapshot.tuner, seen.snapshot.mode), 1),),
    ),
    Metric(
        "state",
        MetricType.gauge,
        ("state",),
        "1 for the state of the daemon now, 0 for the other states.",
        lambda seen: (((state,), state == seen.snapshot.state) for state in State),
    ),
    Metric(
        "node_memory_bytes",
        MetricType.gauge,
        ("numa_node", "tier"),
        "Memory of the node (MemTotal of /sys/devices/system/node/nodeN/meminfo).",
        _per_tier_node(lambda node: node.size_bytes),
    ),
    Metric(
        "node_memory_free_bytes",
        MetricType.gauge,
        ("numa_node", "tier"),
        "Free memory of the node (MemFree of /sys/devices/system/node/nodeN/meminfo).",
        _per_tier_node(lambda node: node.free_bytes),
    ),
    Metric(
        "node_headroom_target_bytes",
        MetricType.gauge,
        _NODE,
        "Memory that demotion keeps free on the node; absent if there is no slower node.",
        _per_node(lambda node: node.headroom_target_bytes),
    ),
    Metric(
        "hot_bytes",
        MetricType.gauge,
        _NODE,
        "Hot memory on the node that could be promoted; absent if it is not measured.",
        _per_node(lambda node: node.hot_bytes),
    ),
    Metric(
        "cold_bytes",
        MetricType.gauge,
        _NODE,
        "Memory of the node that is not accessed and could be demoted, free memory included; "
        "absent if it is not measured.",
        _per_node(lambda node: node.cold_bytes),
    ),
    Metric(
        "promoted_bytes_total",
        MetricType.counter,
        _PAIR,
        "Memory moved to a faster node, by the kernel's count (schemes/N/stats/sz_applied).",
        _moved(Direction.promote),
    ),
    Metric(
        "demoted_bytes_total",
        MetricType.counter,
        _PAIR,
        "Memory moved to a slower node, by the kernel's count (schemes/N/stats/sz_applied).",
        _moved(Direction.demote),
    ),
    Metric(
        "hint_fault_limit_bytes_per_second",
        MetricType.gauge,
        _NODE,
        "What hint faults of NUMA balancing may bring up to the node now; absent unless they "
        "promote (`promoter`). What they brought up is tierd_node_vmstat_pgpromote_success_total.",
        lambda seen: (
            ((str(one.numa_node),), one.rate_max_bytes_per_s) for one in seen.snapshot.hint_faults
        ),
    ),
    Metric(
        "evicted_bytes_total",
        MetricType.counter,
        ("numa_node",),
        "Memory of the slowest nodes that was evicted to make room for demotion: page cache was "
        "dropped, the rest went to swap (schemes/N/stats/sz_applied).",
        _evicted,
    ),
    Metric(
        "group_fast_bytes",
        MetricType.gauge,
        ("group",),
        "Memory of a group of cgroups (`shares`) on the fastest tier (memory.numa_stat).",
        lambda seen: (((one.group,), one.fast_bytes) for one in seen.snapshot.groups),
    ),
    Metric(
        "group_slow_bytes",
        MetricType.gauge,
        ("group",),
        "Memory of a group of cgroups on slower tiers (memory.numa_stat).",
        lambda seen: (((one.group,), one.slow_bytes) for one in seen.snapshot.groups),
    ),
    Metric(
        "group_memory_bytes",
        MetricType.gauge,
        ("group", "tier"),
        "Memory of a group of cgroups on each tier (memory.numa_stat).",
        lambda seen: (
            ((one.group, tier), size)
            for one in seen.snapshot.groups
            for tier, size in one.bytes_by_tier
        ),
    ),
    Metric(
        "group_up_bytes_total",
        MetricType.counter,
        ("group",),
        "Memory of a group of cgroups that came up to the fastest tier: observed from changes of "
        "memory.numa_stat, whoever moved it. What goes both ways between two looks is not seen.",
        lambda seen: (((one.group,), one.up_bytes_total) for one in seen.snapshot.groups),
    ),
    Metric(
        "group_down_bytes_total",
        MetricType.counter,
        ("group",),
        "Memory of a group of cgroups that went down from the fastest tier, observed in the same "
        "way.",
        lambda seen: (((one.group,), one.down_bytes_total) for one in seen.snapshot.groups),
    ),
    Metric(
        "group_share_bytes",
        MetricType.gauge,
        ("group",),
        "Fast memory that a group of cgroups gets if it needs it.",
        lambda seen: (((one.group,), one.share_bytes) for one in seen.snapshot.groups),
    ),
    Metric(
        "scheme_tried_bytes_total",
        MetricType.counter,
        _SCHEME,
        "Memory that the scheme tried to move (schemes/N/stats/sz_tried).",
        _per_scheme(lambda scheme: scheme.tried_bytes_total),
    ),
    Metric(
        "scheme_applied_bytes_total",
        MetricType.counter,
        _SCHEME,
        "Memory that the scheme moved (schemes/N/stats/sz_applied).",
        _per_scheme(lambda scheme: scheme.applied_bytes_total),
    ),
    Metric(
        "scheme_quota_exceeded_total",
        MetricType.counter,
        _SCHEME,
        "Windows in which the quota was used up (schemes/N/stats/qt_exceeds).",
        _per_scheme(lambda scheme: scheme.quota_exceeded_total),
    ),
    Metric(
        "scheme_quota_effective_bytes",
        MetricType.gauge,
        _SCHEME,
        "How much the scheme may move per window now (schemes/N/quotas/effective_bytes).",
        _per_scheme(lambda scheme: scheme.quota_effective_bytes),
    ),
    Metric(
        "goal_current_ratio",
        MetricType.gauge,
        ("goal",),
        "The share of the node that the goal measures, now.",
        lambda seen: (((goal.goal,), goal.current_bp / BP_MAX) for goal in seen.snapshot.goals),
    ),
    Metric(
        "goal_target_ratio",
        MetricType.gauge,
        ("goal",),
        "The share of the node that the goal aims at.",
        lambda seen: (((goal.goal,), goal.target_bp / BP_MAX) for goal in seen.snapshot.goals),
    ),
    Metric(
        "kdamond_up",
        MetricType.gauge,
        _NODE,
        "1 while the kernel thread that watches the node runs, else 0.",
        lambda seen: (((str(one.numa_node),), one.up) for one in seen.snapshot.kdamonds),
    ),
    Metric(
        "kdamond_cpu_seconds_total",
        MetricType.counter,
        _NODE,
        "CPU time of the kernel threads that watch the node (/proc/PID/stat); absent if /proc does "
        "not show these threads.",
        lambda seen: (
            ((str(one.numa_node),), one.cpu_seconds_total)
            for one in seen.snapshot.kdamonds
            if one.cpu_known
        ),
    ),
    *map(_node_vmstat, NODE_VMSTAT),
    _vmstat("pgmigrate_success", "were moved", lambda snapshot: snapshot.pgmigrate_success),
    _vmstat("pgmigrate_fail", "could not be moved", lambda snapshot: snapshot.pgmigrate_fail),
    Metric(
        "conflicts",
        MetricType.gauge,
        ("owner",),
        "1 while something else uses DAMON or moves pages; `tierd status` says what.",
        lambda seen: (((owner,), owner in seen.snapshot.conflict_owners) for owner in Owner),
    ),
    Metric(
        "loop_duration_seconds",
        MetricType.gauge,
        (),
        "How long the last round of the loop took.",
        _one(lambda seen: seen.snapshot.loop_duration_seconds),
    ),
    Metric(
        "loop_last_success_timestamp_seconds",
        MetricType.gauge,
        (),
        "When the last round of the loop without an error ended, in seconds since the epoch.",
        _one(lambda seen: seen.tally.succeeded_at),
    ),
    Metric(
        "kernel_write_errors_total",
        MetricType.counter,
        ("errno",),
        "Writes that the kernel refused, also when tried again, by error code.",
        _counts(WRITE_ERRORS, lambda tally: tally.write_errors.items()),
    ),
    Metric(
        "bookkeeping_errors_total",
        MetricType.counter,
        ("file",),
        "Failures to write or read tierd's own totals and history, by file; tiering goes on.",
        _counts(BOOKS, lambda tally: tally.bookkeeping_errors.items()),
    ),
    Metric(
        "config_last_reload_successful",
        MetricType.gauge,
        (),
        "1 if the configuration that was read last is in use, 0 if it was refused.",
        _one(lambda seen: seen.tally.reload_ok),
    ),
    Metric(
        "config_last_reload_success_timestamp_seconds",
        MetricType.gauge,
        (),
        "When a configuration was last put into use, in seconds since the epoch.",
        _one(lambda seen: seen.tally.reloaded_at),
    ),
    Metric(
        "events_total",
        MetricType.counter,
        ("event",),
        "Events, by kind; `tierd events` and the journal have their text.",
        _counts(EVENTS, lambda tally: tally.events.items()),
    ),
)


def table() -> str:
    """Return the metrics as a table in Markdown."""
    rows = (
        f"| `{one.full_name}` | {one.kind} | {', '.join(f'`{name}`' for name in one.labels)} "
        f"| {one.doc} |"
        for one in METRICS
    )
    return "\n".join(("| metric | type | labels | meaning |", "|---|---|---|---|", *rows)) + "\n"
