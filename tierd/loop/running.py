"""What the loop holds between two ticks, and the Snapshot that it makes of it."""

from collections.abc import Mapping
from dataclasses import field
from math import inf, isinf

from tierd import __version__
from tierd.configuration.config import Config, Mode
from tierd.feedback import Tuning
from tierd.frozen import dataclass
from tierd.kdamonds.applied import Applied
from tierd.loop.supervise import Debounce, Pace, Refresh, Retry
from tierd.machine.cputime import CpuTotal
from tierd.machine.features import Capabilities
from tierd.machine.neighbours import Rival
from tierd.machine.sample import KdamondSample, NodeSample, Sample, SchemeSample, Watermarks
from tierd.plans.groups import NO_ROLES, Roles, bytes_by_group
from tierd.plans.plan import (
    OPEN_INPUT,
    Aim,
    Direction,
    Grain,
    HintFaults,
    Migration,
    Visit,
    is_open,
)
from tierd.record.scheme_totals import Passed, Series, Totals
from tierd.record.snapshot import (
    EventStatus,
    GoalStatus,
    GroupStatus,
    HintFaultsStatus,
    KdamondStatus,
    NodeStatus,
    SchemeStatus,
    Snapshot,
    State,
)
from tierd.topology import Topology
from tierd.units import BP_MAX

# What the kernel says of each scheme, by the indices of its kdamond and of the scheme.
_Schemes = Mapping[tuple[int, int], SchemeSample]


@dataclass(frozen=True, slots=True)
class Identity:
    """What does not change while the daemon runs."""

    pid: int
    started_at: float
    machine: str
    page: str | None = None
    """The address of the web page; None if it is not served."""


@dataclass(frozen=True, slots=True)
class Running:
    """The state of the loop. `applied` is None while nothing can run; `trouble` says why."""

    config: Config
    topology: Topology
    capabilities: Capabilities
    applied: Applied | None = None
    paused: bool = False
    trouble: str = ""
    counters: Totals = field(default_factory=Totals)
    cpu_before_s: Mapping[int, float] = field(default_factory=dict)
    """The processor time that the kdamonds of a node had used at the first tick of this daemon."""
    watermarks: tuple[Watermarks, ...] = ()
    before: Sample | None = None
    sample: Sample | None = None
    conflicts: tuple[Rival, ...] = ()
    retries: Mapping[int, Retry] = field(default_factory=dict)
    """Retries by kdamond. WHOLE is the key for the start of the whole plan."""
    restarts: Mapping[int, int] = field(default_factory=dict)
    refresh: Refresh = field(default_factory=Refresh)
    pace: Pace = field(default_factory=Pace)
    tuning: Tuning = field(default_factory=Tuning)
    hotplug: Debounce = field(default_factory=Debounce)
    rescan_s: float = 0.0
    counters_saved_s: float = 0.0
    roles: Roles = NO_ROLES
    """The groups of cgroups whose memory waits, stays or is pushed by the plan in force."""
    follow_s: float = 0.0
    """When to look next whether these groups have other cgroups."""
    commit_s: float = 0.0
    """How long it took to commit the filters of groups the last time."""
    careful_s: float = -inf
    """When a kdamond had last ended by itself, or commits had failed again and again because
    cgroups go."""
    inverted_s: float = -inf
    """When it was last reported that pages were swapped in vain."""
    events: tuple[EventStatus, ...] = ()


# The key of Running.retries for starting the whole plan, beside the kdamonds from 0 up.
WHOLE = -1


def state_of(running: Running) -> State:
    """Return the word for what tierd does now."""
    if running.trouble:
        return State.degraded
    if running.paused:
        return State.paused
    if running.applied is None:
        return State.starting
    return State.observing if running.config.mode is Mode.observe else State.active


def reason_of(running: Running) -> str:
    """Return the sentence that explains the state."""
    if running.trouble or running.applied is None:
        return running.trouble or "nothing runs yet"
    return running.applied.how


def picture(running: Running, who: Identity, at: float, loop_s: float) -> Snapshot:
    """Return the snapshot of now, which has everything that a reader may ask for."""
    applied, sample = running.applied, running.sample
    tuner = applied.plan.tuner if applied else None
    now, before = _by_scheme(sample), _by_scheme(running.before)
    return Snapshot(
        at=at,
        version=__version__,
        pid=who.pid,
        started_at=who.started_at,
        state=state_of(running),
        reason=reason_of(running),
        mode=running.config.mode,
        tuner=tuner.loop if tuner else "",
        tuner_reason=tuner.reason if tuner else "",
        machine=who.machine,
        nodes=tuple(_node(running, node) for node in sample.nodes) if sample else (),
        schemes=tuple(_scheme(running, one, now, before) for one in applied.plan.migrations)
        if applied
        else (),
        goals=_goals(running, sample) if sample else (),
        groups=_groups(running),
        kdamonds=_kdamonds(running),
        degraded=applied.plan.degraded if applied else (),
        conflicts=tuple(rival.text for rival in running.conflicts),
        conflict_owners=tuple(sorted({rival.owner for rival in running.conflicts})),
        pgmigrate_success=sample.pgmigrate_success if sample else None,
        pgmigrate_fail=sample.pgmigrate_fail if sample else None,
        events=running.events,
        loop_duration_seconds=loop_s,
        page=who.page,
        promoter=applied.plan.promoter.promoter if applied else "",
        promoter_reason=applied.plan.promoter.reason if applied else "",
        hint_faults=tuple(_hint_faults(running, one) for one in applied.plan.hint_faults)
        if applied
        else (),
        refreshed_seconds_ago=max(0.0, sample.monotonic_s - running.refresh.at_s)
        if sample and running.refresh.at_s >= 0
        else None,
    )


def _groups(running: Running) -> tuple[GroupStatus, ...]:
    sweeps = running.applied.plan.sweeps if running.applied else ()
    pushes = any(one.visit is Visit.push for one in sweeps)
    sizes = bytes_by_group(running.sample.groups) if running.sample else {}
    tiers, totals = running.topology.tiers, running.counters.groups
    return tuple(
        GroupStatus(
            group=one.name,
            fast_bytes=one.fast_bytes,
            slow_bytes=one.slow_bytes,
            share_bytes=round(one.share_bytes),
            floor_bytes=round(one.floor_bytes),
            ceiling_bytes=None if isinf(one.ceiling_bytes) else round(one.ceiling_bytes),
            asks=one.asks,
            waits=one.name in running.roles.waits,
            gives=pushes and one.name in running.roles.gives,
            moves=one.moves,
            bytes_by_tier=tuple(
                (tier.name, sum(sizes.get(one.name, {}).get(node, 0) for node in tier.nodes))
                for tier in tiers
            ),
            up_bytes_total=totals.get(one.name, Passed()).up_bytes,
            down_bytes_total=totals.get(one.name, Passed()).down_bytes,
        )
        for one in running.tuning.shared.shares
    )


def _node(running: Running, node: NodeSample) -> NodeStatus:
    tier = running.topology.tier_of(node.node)
    seen = running.tuning.measurement
    sensed = seen.nodes.get(node.node) if seen else None
    return NodeStatus(
        numa_node=node.node,
        tier=tier.name if tier else "",
        size_bytes=node.total_bytes,
        free_bytes=node.free_bytes,
        headroom_target_bytes=_headroom_bytes(running, node),
        hot_bytes=sensed.hot_bytes if sensed else None,
        cold_bytes=sensed.cold_bytes if sensed else None,
        vmstat=node.counters,
        heat_bytes=sensed.heat_bytes if sensed and _has_sensors(running, node.node) else None,
    )


def _has_sensors(running: Running, node: int) -> bool:
    sensors = running.applied.plan.sensors if running.applied else ()
    return any(one.node == node for one in sensors)


def _headroom_bytes(running: Running, node: NodeSample) -> int | None:
    """Return what demotion keeps free on a node, or None if nothing is demoted from it."""
    for one in running.applied.plan.migrations if running.applied else ():
        if one.direction is Direction.demote and one.source_node == node.node:
            planned = node.total_bytes * one.aim.target_bp // BP_MAX
            return running.tuning.headroom_bytes.get(node.node, planned)
    return None


def _scheme(running: Running, one: Migration, samples: _Schemes, earlier: _Schemes) -> SchemeStatus:
    name = running.applied.plan.series(one) if running.applied else one.id
    series = running.counters.series.get(name, Series())
    at = one.kdamond, one.scheme
    now, want = samples.get(at), running.tuning.wants.get(one.id)
    quota_bytes = _quota_bytes(running, one, now) if now else None
    return SchemeStatus(
        scheme=one.id,
        action=one.direction,
        source_node=one.source_node,
        target_node=one.target_node,
        tried_bytes_total=series.total.sz_tried,
        applied_bytes_total=series.total.sz_applied,
        quota_exceeded_total=series.total.qt_exceeds,
        quota_effective_bytes=quota_bytes,
        quota_bytes_max=one.quota_bytes_max,
        applied_bytes_per_s=_rate(running, now, earlier.get(at)),
        wanted_bytes_per_s=want.bytes_per_s if want else None,
        reason=want.reason if want else one.reason,
        parked=quota_bytes is not None and quota_bytes < running.topology.page_bytes,
        bar_seconds=want.bar.seconds if want and want.bar else None,
        bar_share=want.bar.share if want and want.bar else None,
    )


def _quota_bytes(running: Running, one: Migration, now: SchemeSample) -> int:
    """Return the quota in force. A sweep that is closed has none, whatever its file says."""
    in_force = running.tuning.in_force.get(one.id)
    value = in_force.value if in_force else OPEN_INPUT
    closed = one.grain is Grain.pages and (value is None or not is_open(value))
    return 0 if closed else now.effective_bytes


def _by_scheme(sample: Sample | None) -> _Schemes:
    listed = sample.kdamonds if sample else ()
    return {(kdamond.index, one.index): one for kdamond in listed for one in kdamond.schemes}


def _kdamond_sample(sample: Sample | None, index: int) -> KdamondSample | None:
    listed = sample.kdamonds if sample else ()
    return next((kdamond for kdamond in listed if kdamond.index == index), None)


def _rate(running: Running, now: SchemeSample | None, before: SchemeSample | None) -> float:
    """Return the bytes per second between the last two samples; 0 if a kdamond started between."""
    if now is None or before is None or running.sample is None or running.before is None:
        return 0.0
    seconds = running.sample.monotonic_s - running.before.monotonic_s
    return max(0, now.sz_applied - before.sz_applied) / seconds if seconds > 0 else 0.0


def _hint_faults(running: Running, one: HintFaults) -> HintFaultsStatus:
    want, page_bytes = running.tuning.wants.get(one.id), running.topology.page_bytes
    seen = running.tuning.measurement
    now = running.sample.node(one.node) if running.sample else None
    return HintFaultsStatus(
        hint_faults=one.id,
        numa_node=one.node,
        promoted_bytes_total=now.promoted_pages * page_bytes if now else 0,
        promoted_bytes_per_s=seen.nodes[one.node].hinted_bytes / seen.seconds if seen else 0.0,
        rate_max_bytes_per_s=want.bytes_per_s if want else 0.0,
        reason=want.reason if want else one.reason,
    )


def _goals(running: Running, sample: Sample) -> tuple[GoalStatus, ...]:
    """Return every aim once, with the share that its node has now."""
    aims = {one.aim: one for one in running.applied.plan.migrations} if running.applied else {}
    return tuple(_goal(aim, sample.node(aim.node)) for aim in aims)


def _goal(aim: Aim, node: NodeSample) -> GoalStatus:
    return GoalStatus(
        goal=f"{aim.metric}:{aim.node}",
        current_bp=aim.measured_bp(node.total_bytes, node.free_bytes),
        target_bp=aim.target_bp,
    )


def _kdamonds(running: Running) -> tuple[KdamondStatus, ...]:
    if running.applied is None:
        return ()
    found = []
    for watch, pid in zip(running.applied.plan.watches, running.applied.pids, strict=True):
        now = _kdamond_sample(running.sample, watch.index)
        found.append(
            KdamondStatus(
                numa_node=watch.node,
                # Before the first sample: it was alive when the plan was put in force.
                up=now is None or (now.state == "on" and now.pid == pid),
                pid=pid,
                restarts_total=running.restarts.get(watch.index, 0),
                cpu_seconds_total=running.counters.cpu.get(watch.node, CpuTotal()).total_s,
                cpu_seconds_before=running.cpu_before_s.get(watch.node, 0.0),
                cpu_known=watch.node in running.counters.cpu,
            )
        )
    return tuple(found)


def moved_bytes(running: Running, direction: Direction) -> int:
    """Return the bytes moved in one direction since the totals began."""
    if running.applied is None:
        return 0
    return sum(
        running.counters.total(running.applied.plan.series(one)).sz_applied
        for one in running.applied.plan.migrations
        if one.direction is direction
    )
