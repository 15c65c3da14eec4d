"""Decides which schemes run where, with which numbers, and why.

Rules of this file:
1. Pure: the same machine, kernel and config make the same plan.
2. Every item says why in words that need no manual; what the kernel lacks is said, not hidden.
3. The defaults are those of the cover letter of DAMON's self-tuned tiering (mm/damon: "introduce
   new quota goal metrics for memory node utilization"), except where a comment says why not.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tierd.config import Config, Mode, Tuner
from tierd.damon import (
    PAGE_BYTES,
    UINT_MAX,
    ULONG_MAX,
    AccessPattern,
    Action,
    Context,
    FailCharge,
    Filter,
    FilterType,
    Goal,
    GoalTuner,
    Intervals,
    IntervalsGoal,
    Kdamond,
    Metric,
    Operations,
    Quota,
    Scheme,
    Span,
    writes,
)
from tierd.errors import Unsupported
from tierd.observe import MARKS, Capabilities, Feature, because, require_migration
from tierd.plan import Aim, Direction, Item, KdamondItem, Knob, Loop, Plan, TunerChoice
from tierd.ranges import merge
from tierd.safety import check
from tierd.scope import Scope, scope
from tierd.topology import Node, Topology
from tierd.units import BP_MAX, format_duration_us, format_percent, format_rate, format_size

# The sampling of the cover letter is the config's default: 20 samples per aggregation, of which it
# wants 4 % to see an access over 3 aggregations, by looking every 5 ms to 10 s. DAMON's own
# defaults are where it starts, and where it stays without the interval goal.
UPDATE_US = 60_000_000
INTERVALS_GOAL_AGGRS = 3

# DAMON's default bounds, and ten times these where a region would else be hundreds of megabytes
# (what HMSDK settled on for large nodes).
NR_REGIONS = Span(10, 1_000)
NR_REGIONS_LARGE = Span(100, 10_000)
LARGE_NODE_BYTES = 256 << 30

# A page that cannot be moved costs 4 bytes of quota: free and pinned memory looks coldest, and
# charged in full it uses up what was meant for pages that can move.
FAIL_CHARGE = FailCharge(1, 1024)

# The kernel stops making room once it has reached its own floor, so a goal must lie above it.
FLOOR_MARGIN_BP = 10

DAMON_STAT_ENABLED = "sys/module/damon_stat/parameters/enabled"
DEMOTION_ENABLED = "sys/kernel/mm/numa/demotion_enabled"


@dataclass(frozen=True, slots=True)
class _Sources:
    """What every scheme is made from."""

    topology: Topology
    capabilities: Capabilities
    config: Config
    intervals: Intervals
    scope: Scope
    tuner: TunerChoice
    free_floors: Mapping[int, int]

    @property
    def window_us(self) -> int:
        # The 6.12 series ranks regions by counts in progress, so a window is whole aggregations.
        aggr_us = self.intervals.aggr_us
        wanted_us = -(-self.config.window_ms * 1000 // aggr_us) * aggr_us
        goal = self.intervals.goal
        if goal is None:
            return wanted_us
        # Every tuning of the intervals starts every scheme's apply interval again
        # (damon_set_attrs()), just after the applies that were due. Fast sampling is tuned after
        # each `aggrs` aggregations, so a longer window than these would never come to its end.
        return min(wanted_us, goal.aggrs * self.intervals.samples * goal.min_sample_us)


def plan(
    topology: Topology,
    capabilities: Capabilities,
    config: Config,
    *,
    cgroups: tuple[str, ...] = (),
    free_floors: Mapping[int, int] | None = None,
) -> Plan:
    """The plan for this machine; Unsupported says what is missing.

    `cgroups` are the paths of all cgroups there are: classes name subtrees, and DAMON's filter
    knows single cgroups only. `free_floors` are the bytes that the kernel itself keeps free, by
    node: a goal below that would never be reached.
    """
    require_migration(capabilities)
    tuner = _tuner(capabilities, config)
    sources = _Sources(
        topology,
        capabilities,
        config,
        _intervals(capabilities, config),
        scope(config.cgroups, cgroups, capabilities),
        tuner,
        free_floors or {},
    )
    pairs = tuple(found for node in topology.nodes if (found := _targets(topology, node)))
    if not pairs:
        raise Unsupported(
            "no node has a faster or slower neighbour: there is nowhere to move pages to",
            "tierd needs two tiers of memory; `tierd tiers` shows what the kernel sees, and "
            "`tiers:` in the config overrides it",
        )
    items: list[Item] = []
    kdamonds: list[Kdamond] = []
    for index, targets in enumerate(pairs):
        schemes = tuple(_scheme(sources, target) for target in targets)
        items += (_item(sources, t, index, i, schemes[i]) for i, t in enumerate(targets))
        kdamonds.append(_kdamond(sources, targets[0].source, schemes))
    nodes = frozenset(node.id for node in topology.nodes)
    check(kdamonds, nodes, capabilities)
    return Plan(
        mode=config.mode,
        tuner=tuner,
        kdamonds=tuple(kdamonds),
        watches=tuple(
            KdamondItem(
                f"watch-{targets[0].source.id}", index, targets[0].source.id, _why(sources, targets)
            )
            for index, targets in enumerate(pairs)
        ),
        items=tuple(items),
        knobs=tuple(_knobs(config)),
        writes=writes(kdamonds, capabilities),
        nodes=tuple(sorted({n for item in items for n in (item.source_node, item.target_node)})),
        degraded=tuple(_degraded(sources)),
    )


@dataclass(frozen=True, slots=True)
class _Target:
    """One way that pages of a node can go; `share` of that many such ways."""

    direction: Direction
    source: Node
    target: Node
    share: int


def _targets(topology: Topology, node: Node) -> tuple[_Target, ...]:
    """Up first: a scheme that moves pages resets their age, and hot pages matter more."""
    ways = (
        (Direction.promote, topology.promotion_targets(node.id)),
        (Direction.demote, topology.demotion_targets(node.id)),
    )
    return tuple(
        _Target(direction, node, topology.node(target), len(targets))
        for direction, targets in ways
        for target in sorted(targets)
    )


def _tuner(capabilities: Capabilities, config: Config) -> TunerChoice:
    if config.tuner in (Tuner.emulated, Tuner.demand):
        raise Unsupported(f"this version has no tuner {config.tuner!r}", "use `tuner: auto`")
    asked = "as configured" if config.tuner is Tuner.kernel else "the best there is here"
    if not capabilities.has(Feature.node_goals):
        return TunerChoice(
            Loop.fixed, "quotas are fixed: every scheme may use its whole rate at any time"
        )
    if _goal_tuner(capabilities) is GoalTuner.consist:
        return TunerChoice(Loop.kernel, f"the kernel's node goals, slowly (consist); {asked}")
    return TunerChoice(Loop.kernel, f"the kernel's node goals, at once (temporal); {asked}")


def _goal_tuner(capabilities: Capabilities) -> GoalTuner:
    # `temporal` answers a goal reached with a quota of 0. damos_quota_is_full() knows that 0 as
    # nothing, where earlier code takes it for no limit; fail_charge came after that.
    known = capabilities.has(Feature.goal_tuner) and capabilities.has(Feature.fail_charge)
    return GoalTuner.temporal if known else GoalTuner.consist


def _intervals(capabilities: Capabilities, config: Config) -> Intervals:
    # Ages count aggregations. Tuned, one of these is 100 ms or 200 s, so that an age in time can
    # only be kept where intervals are fixed.
    tuned = capabilities.has(Feature.intervals_goal) and _wants_tuning(config)
    goal = IntervalsGoal(
        access_bp=config.access_bp,
        aggrs=INTERVALS_GOAL_AGGRS,
        min_sample_us=config.sample_us,
        max_sample_us=config.sample_us_max,
    )
    return Intervals(config.sample_us, config.aggr_us, UPDATE_US, goal if tuned else None)


def _wants_tuning(config: Config) -> bool:
    return config.auto_intervals and not _ages(config)


def _ages(config: Config) -> bool:
    return bool(config.hot_age_ms_min or config.cold_age_ms_min)


def _kdamond(sources: _Sources, node: Node, schemes: tuple[Scheme, ...]) -> Kdamond:
    ranges = merge(node.ranges)
    if not ranges:
        raise Unsupported(
            f"node {node.id}: its physical addresses are not known",
            "tierd reads them from /sys/devices/system/memory and, as root, /proc/iomem",
        )
    by_size = NR_REGIONS if node.size_bytes <= LARGE_NODE_BYTES else NR_REGIONS_LARGE
    configured = sources.config.regions
    span = by_size if configured is None else Span(*configured)
    context = Context(
        operations=Operations.paddr,
        intervals=sources.intervals,
        nr_regions=Span(span.min, max(span.max, 2 * len(ranges))),
        ranges=ranges,
        schemes=schemes,
    )
    # Until 7.3 all kdamonds share one refresh timer, and some starve: there tierd asks.
    each = sources.capabilities.has(Feature.refresh_each)
    return Kdamond(context, refresh_ms=sources.config.tick_ms if each else 0)


def _scheme(sources: _Sources, way: _Target) -> Scheme:
    config, intervals = sources.config, sources.intervals
    samples = intervals.samples
    if way.direction is Direction.promote:
        # At least one: a region that nobody was seen to touch is not hot at any threshold.
        least = max(1, -(-samples * config.hot_accesses_min_bp // BP_MAX))
        accesses, age_ms = Span(least, UINT_MAX), config.hot_age_ms_min
        action = Action.migrate_hot
    else:
        accesses, age_ms = Span(0, 0), config.cold_age_ms_min
        action = Action.migrate_cold
    age = 0 if intervals.goal else -(-age_ms * 1000 // intervals.aggr_us)
    aim = _aim(sources, way)
    goal = Goal(aim.metric, aim.target_bp, nid=aim.node)
    by_kernel = sources.tuner.loop is Loop.kernel
    return Scheme(
        action=Action.stat if config.mode is Mode.observe else action,
        target_nid=way.target.id,
        pattern=AccessPattern(Span(PAGE_BYTES, ULONG_MAX), accesses, Span(age, UINT_MAX)),
        apply_interval_us=sources.window_us,
        quota=Quota(
            bytes_max=_quota_bytes(sources, way),
            goals=(goal,) if by_kernel else (),
            goal_tuner=_goal_tuner(sources.capabilities) if by_kernel else GoalTuner.consist,
            fail_charge=FAIL_CHARGE if sources.capabilities.has(Feature.fail_charge) else None,
        ),
        filters=_filters(sources.scope, way.direction),
    )


def _quota_bytes(sources: _Sources, way: _Target) -> int:
    per_window = sources.config.rate_max_bytes_per_s * sources.window_us // 10**6
    # Never 0, which the kernel takes for no limit.
    return max(1, per_window // way.share)


def _filters(limits: Scope, direction: Direction) -> tuple[Filter, ...]:
    """Only pages that agree with their region: young ones go up, others go down.

    The first filter that decides ends the walk, so what allows stands after what checks the age.
    """
    return (*limits.before, _young(direction), *limits.after)


def _young(direction: Direction) -> Filter:
    """DAMON samples a page per region; this looks at each page. Rejecting is the same anywhere."""
    return Filter(FilterType.young, matching=direction is Direction.demote)


def _aim(sources: _Sources, way: _Target) -> Aim:
    """Promotion fills its target to one share, demotion frees its source to another.

    The two overlap, so that around them hot and cold pages trade places. Where the kernel itself
    keeps more free than the headroom asked for, both move up by the difference.
    """
    config = sources.config
    if way.direction is Direction.demote:
        node = way.source
        return Aim(Metric.node_mem_free_bp, node.id, _free_bp(sources, node))
    node = way.target
    raised = _free_bp(sources, node) - config.headroom_bp
    return Aim(Metric.node_mem_used_bp, node.id, max(1, config.used_bp - raised))


def _free_bp(sources: _Sources, node: Node) -> int:
    floor = sources.free_floors.get(node.id, 0)
    if not floor:
        return sources.config.headroom_bp
    floor_bp = -(-floor * BP_MAX // node.size_bytes) + FLOOR_MARGIN_BP
    return min(BP_MAX, max(sources.config.headroom_bp, floor_bp))


def _item(sources: _Sources, way: _Target, kdamond: int, scheme: int, built: Scheme) -> Item:
    return Item(
        id=f"{way.direction}-{way.source.id}-{way.target.id}",
        direction=way.direction,
        source_node=way.source.id,
        target_node=way.target.id,
        kdamond=kdamond,
        scheme=scheme,
        aim=_aim(sources, way),
        quota_bytes_max=built.quota.bytes_max,
        window_us=built.apply_interval_us,
        reason=_reason(sources, way, built),
    )


def _reason(sources: _Sources, way: _Target, built: Scheme) -> str:
    config, source, target = sources.config, way.source.id, way.target.id
    aim = _aim(sources, way)
    if way.direction is Direction.promote:
        what = f"what is accessed in {format_percent(config.hot_accesses_min_bp)} of the samples"
        where, stop = f"up to node {target}, nearest of the next faster tier", "used"
    else:
        what = "what nobody accesses"
        where, stop = f"down to node {target}, nearest of the next slower tier", "free"
    verb = "count" if config.mode is Mode.observe else "move"
    rate = format_rate(built.quota.bytes_max * 10**6 / built.apply_interval_us)
    shared = f" (one of {way.share} equally near)" if way.share > 1 else ""
    until = f" until node {aim.node} is {format_percent(aim.target_bp)} {stop}"
    if sources.tuner.loop is Loop.fixed:
        until = ""
    return f"{verb} {what} on node {source} {where}{shared}, at most {rate}{until}"


def _why(sources: _Sources, targets: tuple[_Target, ...]) -> str:
    node = targets[0].source
    directions = {way.direction for way in targets}
    if len(directions) == 2:
        place = "has faster and slower neighbours"
    elif Direction.promote in directions:
        place = "has a faster neighbour"
    else:
        place = "has a slower neighbour"
    intervals = sources.intervals
    if intervals.goal is not None:
        low, high = intervals.goal.min_sample_us, intervals.goal.max_sample_us
        how = f"sampling every {format_duration_us(low)} to {format_duration_us(high)}, as needed"
    else:
        how = f"sampling every {format_duration_us(intervals.sample_us)}"
    asked = sources.config.auto_intervals
    if asked and _ages(sources.config) and sources.capabilities.has(Feature.intervals_goal):
        how += " (not tuned, because a minimum age is configured)"
    return f"node {node.id} ({format_size(node.size_bytes)}) {place}; {how}"


def _knobs(config: Config) -> Iterator[Knob]:
    if config.manage_damon_stat:
        yield Knob(
            "damon-stat",
            DAMON_STAT_ENABLED,
            "N",
            "damon_stat only gathers statistics, but holds DAMON for itself while it runs",
        )
    if config.manage_demotion_enabled and config.mode is Mode.manage:
        yield Knob(
            "demotion-enabled",
            DEMOTION_ENABLED,
            "true",
            "reclaim demotes in a rush instead of swapping out (manage_demotion_enabled)",
        )


def _degraded(sources: _Sources) -> Iterator[str]:
    """What is lost of this plan; features that only cost tierd a command are no loss."""
    capabilities = sources.capabilities
    wanted = [Feature.node_goals, Feature.fail_charge]
    if _wants_tuning(sources.config):
        wanted.insert(0, Feature.intervals_goal)
    if sources.tuner.loop is Loop.kernel:
        wanted.append(Feature.goal_tuner)
    for feature in wanted:
        if feature in capabilities.unknown:
            yield f"cannot tell whether the kernel has {feature}: it has no type information (BTF)"
        elif feature is Feature.node_goals and not capabilities.has(feature):
            yield f"no {feature} (Linux {MARKS[feature].since}): {sources.tuner.reason}"
        elif not capabilities.has(feature):
            yield because(feature)
    yield from sources.scope.degraded
