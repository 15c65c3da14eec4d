"""What a tuner sees in a tick: the nodes now, and what each scheme did since the last tick.

Pure. `measure` makes a Measurement from two samples and the plan. `demand` and `feedback` decide by
it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import inf

from tierd.frozen import dataclass, replace
from tierd.machine.sample import (
    PROMOTED,
    PROMOTION_ASKED,
    GroupSample,
    KdamondSample,
    Latency,
    NodeSample,
    Sample,
    SchemeSample,
)
from tierd.plans.groups import NO_ROLES, Group, Roles
from tierd.plans.plan import (
    Controller,
    Direction,
    HintFaults,
    Migration,
    Plan,
    Sense,
    Sensor,
    Sweep,
)
from tierd.tuner import chance
from tierd.tuner.chance import Level


@dataclass(frozen=True, slots=True)
class Limits:
    """What stays the same from round to round."""

    controller: Controller
    migrations: tuple[Migration, ...]
    """Those that go by regions."""
    page_bytes: int
    headroom_bp: int
    charges_failures: bool
    """True if a byte that was tried and not moved uses up quota (before fail_charge, 7.2)."""
    sweeps: tuple[Sweep, ...] = ()
    cost_bp: int = 0
    """The share of a processor that the sweeps of each kdamond may use."""
    cold_s_min: float = 0.0
    """For how long memory must be cold at least, as configured."""
    groups: tuple[Group, ...] = ()
    """The groups of cgroups that share the memory of the fastest tier."""
    roles: Roles = NO_ROLES
    """Whose memory waits, stays or is pushed by the filters in force."""
    fast_nodes: tuple[int, ...] = ()
    """The nodes of the fastest tier, if groups share it."""
    hint_faults: tuple[HintFaults, ...] = ()
    """What hint faults bring up, if they promote."""

    @property
    def evicts(self) -> bool:
        """True if the slowest nodes evict memory to keep room."""
        return any(one.direction is Direction.evict for one in self.migrations)

    @property
    def swaps(self) -> bool:
        """True if they send memory to swap for that."""
        return any(
            one.direction is Direction.evict and not one.files_only for one in self.migrations
        )

    @property
    def falls_back(self) -> bool:
        """True if memory may go to other nodes than the nearest."""
        return any(one.fallback for one in self.migrations)

    def moved_bytes(
        self, seen: "Measurement", *, source: int | None = None, to: int | None = None
    ) -> int:
        """Return the bytes that left a node since the last round, or that came to another one."""
        by_region = sum(
            seen.schemes[one.id].applied_bytes
            for one in self.migrations
            if one.source_node == source or one.target_node == to != one.source_node
        )
        by_page = sum(
            seen.sweeps[one.id].applied_bytes
            for one in self.sweeps
            if (one.node == source or one.target_node == to != one.node) and one.moves
        )
        return by_region + by_page

    def rated_bytes(self, seen: "Measurement", one: Migration | Sweep) -> float:
        """Return what a scheme has moved since the last round, by the rate that it shares.

        The fallbacks of a node and its nearest nodes share one rate. So what moved to any of them
        counts for a fallback, and the nearest nodes share what moved to fallbacks.
        """
        if isinstance(one, Sweep):
            node, visit = one.node, one.visit
            sweeps = [two for two in self.sweeps if two.node == node and two.visit is visit]
            return _rated_bytes(one, sweeps, seen.sweeps)
        node, way = one.source_node, one.direction
        mine = [two for two in self.migrations if two.source_node == node and two.direction is way]
        return _rated_bytes(one, mine, seen.schemes)


@dataclass(frozen=True, slots=True)
class NodeMeasurement:
    """A node now. `hot_bytes` and `cold_bytes` are None if no sensor counts them."""

    total_bytes: int
    free_bytes: int
    mark_bytes: int
    """What the kernel keeps free by itself. It reclaims memory when less is free."""
    hot_bytes: int | None = None
    cold_bytes: int | None = None
    least_free_bytes: int | None = None
    """The free memory now or at the last tick, whichever is less. None if only one is known."""
    stalls: int = 0
    """Allocations that had to demote memory of this node before they could go on."""
    heat_bytes: int = 0
    """Bytes, weighted by how often they are accessed. Memory that is always in use counts whole."""
    sure_hot_bytes: int | None = None
    """The hot memory in regions in which three or more samples hit; None if no sensor tells."""
    faint_bytes: int = 0
    """The part of the heat that may be chance."""
    levels: tuple[Level, ...] = ()
    """The memory by how often samples hit it, as far as sensors tell."""
    samples: int = 1
    """How many samples a hit count is of."""
    counted_regions: int = 0
    """How many regions that is from: each counts once in each window."""
    huge_bytes: int = 0
    """Bytes in huge pages. A huge page moves as a whole."""
    bandwidth_used: float = 0.0
    """The share of its bandwidth that its processors use; 0 if that is not known."""
    hinted_bytes: int = 0
    """What hint faults brought up since the last round."""
    hint_asked_bytes: int = 0
    """What they would have brought up, with no limit and with room for all of it."""

    @property
    def sure_bytes(self) -> int:
        """The heat that is not chance."""
        return self.heat_bytes - self.faint_bytes

    @property
    def used_bytes(self) -> int:
        return self.total_bytes - self.free_bytes

    @property
    def hit_share(self) -> float | None:
        """The share of the memory in use that is in regions that samples hit, if that is known."""
        return chance.hit_share(self.levels, self.used_bytes)

    def beyond_chance(self, alike: float) -> "NodeMeasurement":
        """Return the node with what is hot beyond chance, if this share would be hit anyway.

        The rest is as little to be relied on as what one or two samples hit.
        """
        look = chance.Look(self.samples, self.counted_regions, self.used_bytes)
        found = chance.beyond(self.levels, alike, look)
        return replace(
            self,
            hot_bytes=round(max(one.bytes for one in found)),
            faint_bytes=self.heat_bytes - round(chance.heat_bytes(found)),
        )


@dataclass(frozen=True, slots=True)
class SchemeMeasurement:
    """A scheme since the last round; `quota_bytes` is its quota in force."""

    tried_bytes: int
    applied_bytes: int
    quota_bytes: int
    window_s: float
    """How long its windows really were, on average."""
    total_tried_bytes: int = 0
    """What it has tried since its kdamond began."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was seen since the last round."""

    seconds: float
    nodes: Mapping[int, NodeMeasurement]
    schemes: Mapping[str, SchemeMeasurement]
    """The scheme of each migration by regions, by the id of the migration."""
    sweeps: Mapping[str, SchemeMeasurement] = field(default_factory=dict)
    """Each sweep, by its id."""
    pressure: float = 0.0
    """Share of the time that some task waited for memory."""
    stalls: int = 0
    """Allocations that had to free memory of any node before they could go on."""
    cpu_s: Mapping[int, float] = field(default_factory=dict)
    """The processor time of the kdamond of each node, as far as it is known."""
    groups: tuple[GroupSample, ...] = ()
    """The memory of each group of cgroups, and then of all cgroups together."""
    latencies: tuple[Latency, ...] = ()
    """How late nodes answer, if it was read now."""
    again_s: float = inf
    """Seconds until free memory is read again, if that is before the next round."""

    @property
    def blind_s(self) -> float:
        """How long a decision holds before its effect is seen."""
        return min(self.seconds, self.again_s)


def _rated_bytes(
    one: Migration | Sweep,
    all_of_them: Sequence[Migration | Sweep],
    seen: Mapping[str, SchemeMeasurement],
) -> float:
    if one.fallback:
        return sum(seen[two.id].applied_bytes for two in all_of_them)
    fallbacks = [two for two in all_of_them if two.fallback]
    fallen = sum(seen[two.id].applied_bytes for two in fallbacks)
    return seen[one.id].applied_bytes + fallen / (len(all_of_them) - len(fallbacks))


def measure(plan: Plan, before: Sample | None, now: Sample) -> Measurement | None:
    """Return what changed between two samples, or None if a kdamond has started between them."""
    if before is None or now.monotonic_s <= before.monotonic_s or not _same(before, now):
        return None
    seconds = now.monotonic_s - before.monotonic_s
    pairs = {new.index: (old, new) for old, new in zip(before.kdamonds, now.kdamonds, strict=True)}
    windows = {
        sensor.kdamond: _tried(pairs, sensor) / plan.kdamonds[sensor.kdamond].context.bytes
        for sensor in plan.sensors
        if sensor.sense is Sense.all
    }
    # A kdamond that is late is so in all windows, whatever their length.
    late = {
        one.kdamond: _late(seconds, windows.get(one.kdamond, 0.0), one.window_us)
        for one in plan.of_regions
    }
    # The mean of the windows since the last sample.
    counts = {
        sensor: _tried(pairs, sensor) / windows[sensor.kdamond]
        for sensor in plan.sensors
        if windows.get(sensor.kdamond)
    }
    regions = {one.node: _regions(*pairs[one.kdamond]) for one in plan.sensors}
    marks = {one.node: one.floor_bytes for one in now.watermarks}
    goes_up = {one.source_node for one in plan.migrations if one.direction is Direction.promote}
    goes_up |= {node for one in plan.hint_faults for node in one.sources}
    return Measurement(
        seconds=seconds,
        nodes={
            one.node: _node(
                before.node(one.node),
                one,
                marks.get(one.node, 0),
                seconds,
                {sensor: count for sensor, count in counts.items() if sensor.node == one.node},
                goes_up=one.node in goes_up,
                page_bytes=plan.page_bytes,
                samples=plan.kdamonds[0].context.intervals.samples,
                counted_regions=regions.get(one.node, 0),
            )
            for one in now.nodes
        },
        schemes={
            one.id: _scheme(pairs[one.kdamond], one, late[one.kdamond]) for one in plan.of_regions
        },
        sweeps={one.id: _scheme(pairs[one.kdamond], one, late[one.kdamond]) for one in plan.sweeps},
        pressure=_some_us(before, now) / (seconds * 1e6),
        stalls=now.allocstall - before.allocstall,
        groups=now.groups,
        latencies=now.latencies,
    )


def quotas(plan: Plan, now: Sample) -> dict[str, int]:
    """Return the quota in force of each scheme whose kdamond runs, by the id of its migration."""
    running = {one.index: one for one in now.kdamonds if one.state == "on"}
    return {
        one.id: _scheme_sample(running[one.kdamond], one.scheme).effective_bytes
        for one in plan.of_regions
        if one.kdamond in running
    }


def _same(before: Sample, now: Sample) -> bool:
    """Return whether the same kdamonds run in both. If not, counters have started again."""
    who = [
        [(one.index, one.pid, len(one.schemes), len(one.sensed)) for one in sample.kdamonds]
        for sample in (before, now)
    ]
    return who[0] == who[1] and all(one.state == "on" for one in now.kdamonds)


def _tried(pairs: Mapping[int, tuple[KdamondSample, KdamondSample]], sensor: Sensor) -> int:
    before, now = pairs[sensor.kdamond]
    return now.sensed[sensor.scheme] - before.sensed[sensor.scheme]


def _regions(before: KdamondSample, now: KdamondSample) -> int:
    return now.counted_regions - before.counted_regions


def _node(
    before: NodeSample,
    now: NodeSample,
    mark_bytes: int,
    seconds: float,
    counts: Mapping[Sensor, float],
    *,
    goes_up: bool,
    page_bytes: int,
    samples: int,
    counted_regions: int,
) -> NodeMeasurement:
    """Return what the sensors of a node counted, and its memory. A missing count is None."""
    sensed = {sensor.sense: round(count) for sensor, count in counts.items()}
    # Sensors with a weight come in the order of their bounds. The first one counts all heat. What
    # the second does not count is in regions in which only one or two samples hit.
    levels = tuple(
        Level(sensor.accesses_min, count, sensor.weight)
        for sensor, count in counts.items()
        if sensor.weight
    )
    heat = chance.heat_bytes(levels)
    faint = heat - chance.heat_bytes(chance.sure(levels)) if len(levels) > 1 else 0
    return NodeMeasurement(
        total_bytes=now.total_bytes,
        free_bytes=now.free_bytes,
        mark_bytes=mark_bytes,
        hot_bytes=sensed.get(Sense.hot) if goes_up else None,
        cold_bytes=sensed.get(Sense.cold),
        heat_bytes=round(heat),
        sure_hot_bytes=round(levels[1].bytes) if goes_up and len(levels) > 1 else None,
        faint_bytes=round(faint),
        levels=levels,
        samples=samples,
        counted_regions=counted_regions,
        huge_bytes=now.huge_bytes,
        bandwidth_used=_bandwidth_used(before, now, seconds),
        least_free_bytes=min(before.free_bytes, now.free_bytes),
        stalls=_counted(before, now, "pgdemote_direct"),
        hinted_bytes=_counted(before, now, PROMOTED) * page_bytes,
        hint_asked_bytes=_counted(before, now, PROMOTION_ASKED) * page_bytes,
    )


def _bandwidth_used(before: NodeSample, now: NodeSample, seconds: float) -> float:
    if before.traffic is None or now.traffic is None:
        return 0.0
    # A group of tasks that was removed takes its counts with it.
    moved = max(0, now.traffic.total_bytes - before.traffic.total_bytes)
    return moved / seconds / now.traffic.most_bytes_per_s


def _scheme(
    pair: tuple[KdamondSample, KdamondSample], mover: Migration | Sweep, late: float
) -> SchemeMeasurement:
    before, now = (_scheme_sample(one, mover.scheme) for one in pair)
    return SchemeMeasurement(
        tried_bytes=now.sz_tried - before.sz_tried,
        applied_bytes=now.sz_applied - before.sz_applied,
        quota_bytes=now.effective_bytes,
        window_s=late * mover.window_us / 1e6,
        total_tried_bytes=now.sz_tried,
    )


def _late(seconds: float, windows: float, window_us: int) -> float:
    """Return how much longer the windows of a kdamond are than planned.

    Its work makes a window longer, and a sample may make it a little shorter. The first window
    after a start or a change of intervals is not reliable.
    """
    return max(0.5, seconds / windows * 1e6 / window_us) if windows >= 1 else 1.0


def _scheme_sample(kdamond: KdamondSample, scheme: int) -> SchemeSample:
    return next(one for one in kdamond.schemes if one.index == scheme)


def _some_us(before: Sample, now: Sample) -> int:
    if before.pressure is None or now.pressure is None:
        return 0
    return now.pressure.some_us - before.pressure.some_us


def _counted(before: NodeSample, now: NodeSample, name: str) -> int:
    """Return how much a counter of the node has grown. A kernel may lack it."""
    return dict(now.counters).get(name, 0) - dict(before.counters).get(name, 0)
