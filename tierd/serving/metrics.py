"""Every metric there is, in one table: its name, what it means, and how a snapshot gives it.

What is scraped, the documentation and the tests of dashboard and alerts come from this table.
Rules: names, labels and base units are promises; a value that is not known is left out, a
counter that has not counted yet is 0; nothing here reads anything but its arguments.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tierd.configuration.config import Mode
from tierd.machine.neighbours import Owner
from tierd.plans.plan import Direction
from tierd.record.snapshot import NodeStatus, SchemeStatus, Snapshot, State
from tierd.record.tally import Tally
from tierd.units import BP_MAX

PREFIX = "tierd_"

# Events that an alert may wait for begin at 0, so that the first one is an increase. A test holds
# this list to what the loop says.
EVENTS = (
    "degraded",
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
# What DAMON answers with, by tests/contract.
WRITE_ERRORS = ("EBUSY", "EINVAL", "ENOENT", "ENOMEM", "EPERM")

# The kernel's names (mm/vmstat.c, vmstat_text[]); which of them a node has differs by kernel.
NODE_VMSTAT = {
    "pgpromote_success": "promoted by NUMA balancing",
    "pgpromote_candidate": "that NUMA balancing found hot on the node",
    "pgpromote_candidate_nrl": "of these, past its rate limit",
    "pgdemote_kswapd": "demoted by kswapd",
    "pgdemote_direct": "demoted by allocations that had to reclaim",
    "pgdemote_khugepaged": "demoted by khugepaged",
    "pgdemote_proactive": "demoted because a program asked for reclaim",
}

Values = Iterable[tuple[tuple[str, ...], float]]
"""Label values, in the order of the metric's labels, and the value."""


class Kind(StrEnum):
    """How Prometheus may use a value; the word stands in the TYPE line."""

    gauge = "gauge"
    counter = "counter"


@dataclass(frozen=True, slots=True)
class Seen:
    """All that a metric may be made of."""

    snapshot: Snapshot
    tally: Tally


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: a line of the table."""

    name: str
    kind: Kind
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
    """A scheme that only observes is another one: what it would have moved was not moved."""

    def values(seen: Seen) -> Iterator[tuple[tuple[str, ...], float]]:
        mode = seen.snapshot.mode
        for scheme in seen.snapshot.schemes:
            found = value(scheme)
            name = scheme.scheme if mode == Mode.manage else f"{scheme.scheme}:{mode}"
            if found is not None:
                yield (name, str(scheme.source_node), str(scheme.target_node)), found

    return values


def _moved(direction: Direction) -> Callable[[Seen], Values]:
    """What went one way, per pair of nodes; who only observes moves nothing."""
    return lambda seen: (
        ((str(scheme.source_node), str(scheme.target_node)), scheme.applied_bytes_total)
        for scheme in seen.snapshot.schemes
        if scheme.action == direction and seen.snapshot.mode != Mode.observe
    )


def _node_vmstat(name: str) -> Metric:
    return Metric(
        f"node_vmstat_{name}_total",
        Kind.counter,
        ("numa_node",),
        f"Pages {NODE_VMSTAT[name]}, since boot (/sys/devices/system/node/nodeN/vmstat).",
        _per_node(lambda node: dict(node.vmstat).get(name)),
    )


def _vmstat(name: str, what: str, value: Callable[[Snapshot], int | None]) -> Metric:
    def values(seen: Seen) -> Values:
        found = value(seen.snapshot)
        return () if found is None else (((), found),)

    doc = f"Pages that {what}, by anybody on the whole machine, since boot (/proc/vmstat)."
    return Metric(f"vmstat_{name}_total", Kind.counter, (), doc, values)


def _states(seen: Seen) -> Values:
    return (((state,), state == seen.snapshot.state) for state in State)


def _counts(
    known: Iterable[str], counts: Callable[[Tally], Iterable[tuple[str, int]]]
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
        Kind.gauge,
        ("version", "tuner", "mode"),
        "Always 1: the version, who steers the quotas, and whether memory moves.",
        lambda seen: (((seen.snapshot.version, seen.snapshot.tuner, seen.snapshot.mode), 1),),
    ),
    Metric(
        "state",
        Kind.gauge,
        ("state",),
        "1 for what the daemon does now, 0 for the other states.",
        _states,
    ),
    Metric(
        "node_memory_bytes",
        Kind.gauge,
        ("numa_node", "tier"),
        "Memory of the node (MemTotal of /sys/devices/system/node/nodeN/meminfo).",
        _per_tier_node(lambda node: node.size_bytes),
    ),
    Metric(
        "node_memory_free_bytes",
        Kind.gauge,
        ("numa_node", "tier"),
        "Free memory of the node (MemFree of /sys/devices/system/node/nodeN/meminfo).",
        _per_tier_node(lambda node: node.free_bytes),
    ),
    Metric(
        "node_headroom_target_bytes",
        Kind.gauge,
        _NODE,
        "What demotion keeps free on the node; absent where there is no slower node.",
        _per_node(lambda node: node.headroom_target_bytes),
    ),
    Metric(
        "hot_bytes",
        Kind.gauge,
        _NODE,
        "Hot memory on the node that could go to a faster one; absent where nobody senses it.",
        _per_node(lambda node: node.hot_bytes),
    ),
    Metric(
        "cold_bytes",
        Kind.gauge,
        _NODE,
        "Memory of the node that nobody accesses and that could go to a slower one, free memory "
        "included; absent where nobody senses it.",
        _per_node(lambda node: node.cold_bytes),
    ),
    Metric(
        "promoted_bytes_total",
        Kind.counter,
        _PAIR,
        "Memory moved to a faster node, as the kernel says (schemes/N/stats/sz_applied).",
        _moved(Direction.promote),
    ),
    Metric(
        "demoted_bytes_total",
        Kind.counter,
        _PAIR,
        "Memory moved to a slower node, as the kernel says (schemes/N/stats/sz_applied).",
        _moved(Direction.demote),
    ),
    Metric(
        "scheme_tried_bytes_total",
        Kind.counter,
        _SCHEME,
        "Memory that the scheme tried to move (schemes/N/stats/sz_tried).",
        _per_scheme(lambda scheme: scheme.tried_bytes_total),
    ),
    Metric(
        "scheme_applied_bytes_total",
        Kind.counter,
        _SCHEME,
        "Memory that the scheme moved (schemes/N/stats/sz_applied).",
        _per_scheme(lambda scheme: scheme.applied_bytes_total),
    ),
    Metric(
        "scheme_quota_exceeded_total",
        Kind.counter,
        _SCHEME,
        "Windows in which the quota ran out (schemes/N/stats/qt_exceeds).",
        _per_scheme(lambda scheme: scheme.quota_exceeded_total),
    ),
    Metric(
        "scheme_quota_effective_bytes",
        Kind.gauge,
        _SCHEME,
        "What the scheme may move per window now (schemes/N/quotas/effective_bytes).",
        _per_scheme(lambda scheme: scheme.quota_effective_bytes),
    ),
    Metric(
        "goal_current_ratio",
        Kind.gauge,
        ("goal",),
        "The share of the node that the goal is about, now.",
        lambda seen: (((goal.goal,), goal.current_bp / BP_MAX) for goal in seen.snapshot.goals),
    ),
    Metric(
        "goal_target_ratio",
        Kind.gauge,
        ("goal",),
        "The share of the node that the goal aims at.",
        lambda seen: (((goal.goal,), goal.target_bp / BP_MAX) for goal in seen.snapshot.goals),
    ),
    Metric(
        "kdamond_up",
        Kind.gauge,
        _NODE,
        "1 while the kernel thread that watches the node runs.",
        lambda seen: (((str(one.numa_node),), one.up) for one in seen.snapshot.kdamonds),
    ),
    Metric(
        "kdamond_cpu_seconds_total",
        Kind.counter,
        _NODE,
        "Processor time of the kernel threads that watch the node (/proc/PID/stat).",
        lambda seen: (
            ((str(one.numa_node),), one.cpu_seconds_total) for one in seen.snapshot.kdamonds
        ),
    ),
    *map(_node_vmstat, NODE_VMSTAT),
    _vmstat("pgmigrate_success", "were moved", lambda snapshot: snapshot.pgmigrate_success),
    _vmstat("pgmigrate_fail", "could not be moved", lambda snapshot: snapshot.pgmigrate_fail),
    Metric(
        "conflicts",
        Kind.gauge,
        ("owner",),
        "1 while somebody else holds DAMON or moves pages too; `tierd status` says how.",
        lambda seen: (((owner,), owner in seen.snapshot.conflict_owners) for owner in Owner),
    ),
    Metric(
        "loop_duration_seconds",
        Kind.gauge,
        (),
        "How long the last round of the loop took.",
        _one(lambda seen: seen.snapshot.loop_duration_seconds),
    ),
    Metric(
        "loop_last_success_timestamp_seconds",
        Kind.gauge,
        (),
        "When the last round without trouble was, in seconds since the epoch.",
        _one(lambda seen: seen.tally.succeeded_at),
    ),
    Metric(
        "kernel_write_errors_total",
        Kind.counter,
        ("errno",),
        "Writes that the kernel refused for good, by its answer.",
        _counts(WRITE_ERRORS, lambda tally: tally.write_errors.items()),
    ),
    Metric(
        "config_last_reload_successful",
        Kind.gauge,
        (),
        "1 if the configuration read last is in force, 0 if it was refused.",
        _one(lambda seen: seen.tally.reload_ok),
    ),
    Metric(
        "config_last_reload_success_timestamp_seconds",
        Kind.gauge,
        (),
        "When a configuration was last taken into force, in seconds since the epoch.",
        _one(lambda seen: seen.tally.reloaded_at),
    ),
    Metric(
        "events_total",
        Kind.counter,
        ("event",),
        "Events, by kind; `tierd status` and the journal have their text.",
        _counts(EVENTS, lambda tally: tally.events.items()),
    ),
)


def table() -> str:
    """The metrics as a table in Markdown."""
    rows = (
        f"| `{one.full_name}` | {one.kind} | {', '.join(f'`{name}`' for name in one.labels)} "
        f"| {one.doc} |"
        for one in METRICS
    )
    return "\n".join(("| metric | type | labels | meaning |", "|---|---|---|---|", *rows)) + "\n"
