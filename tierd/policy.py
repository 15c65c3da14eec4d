"""Decides which schemes run where, with which numbers, and why.

Rules of this file:
1. Pure: the same machine, kernel and config make the same plan.
2. Every item says why in words that need no manual; what the kernel lacks is said, not hidden.
3. The defaults are those of the cover letter of DAMON's self-tuned tiering (mm/damon: "introduce
   new quota goal metrics for memory node utilization"), except where a comment says why not.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tierd.configuration.config import Config, Mode, Tuner
from tierd.errors import Unsupported
from tierd.machine.observe import MARKS, Capabilities, Feature, because, require_migration
from tierd.plans import looks
from tierd.plans.damon import (
    AccessPattern,
    Action,
    Context,
    FailCharge,
    Filter,
    FilterType,
    Intervals,
    Kdamond,
    Metric,
    Operations,
    Quota,
    Scheme,
    Span,
    writes,
)
from tierd.plans.plan import (
    Aim,
    Direction,
    Item,
    KdamondItem,
    Knob,
    Loop,
    Plan,
    Sensor,
    TunerChoice,
)
from tierd.plans.safety import check
from tierd.plans.scope import Scope, scope
from tierd.ranges import merge
from tierd.topology import Node, Topology
from tierd.tuner import tuners
from tierd.tuner.sensors import Sensed, sensors
from tierd.units import BP_MAX, format_duration_us, format_percent, format_rate, format_size

# The demand tuner's window: a quota at most doubles in each, and from rest to a rate it takes
# twelve. It is as long as the shortest aggregation: two windows in one go by the same
# counts, and half as long moved a quarter more than was hot on 7.2, for a fifth less time.
DEMAND_WINDOW_US = 100_000

# How much more than the rate a window may take at most. A window lasts for a number of samples,
# and a kdamond that works is late for each: up to three times as late on emulated processors.
# Where a kernel charges what it could not move, the quota of demotion is of tries, and half of them
# fail. tierd keeps to the rate by what it sees moved; this is what holds if it is gone.
QUOTA_PER_RATE_MAX = 4
TRIED_PER_RATE_MAX = 8

# DAMON's default bounds, and ten times these where a region would else be hundreds of megabytes
# (what HMSDK settled on for large nodes).
NR_REGIONS = Span(10, 1_000)
NR_REGIONS_LARGE = Span(100, 10_000)
LARGE_NODE_BYTES = 256 << 30

# The demand tuner takes a region's hits for heat, and moves all of it that was ever accessed since
# it was filled: with regions of a tenth of a node, a third more than was hot (7.2). It looks more
# often for it, at a page per region and sample.
DEMAND_NR_REGIONS = Span(50, 1_000)

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
        asked_us = self.config.window_ms * 1000
        if self.tuner.loop is Loop.demand:
            asked_us = min(asked_us, DEMAND_WINDOW_US)
        wanted_us = -(-asked_us // aggr_us) * aggr_us
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
    tuner = tuners.choose(capabilities, config)
    sources = _Sources(
        topology,
        capabilities,
        config,
        looks.intervals(capabilities, config, tuner.loop),
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
    sensing: list[Sensor] = []
    for index, targets in enumerate(pairs):
        sensed = _senses(sources, targets)
        # First, so that they see regions before a scheme that moves pages resets their age.
        schemes = (
            *(_sensing(sources, sense.pattern) for sense in sensed),
            *(_scheme(sources, target) for target in targets),
        )
        sensing += (
            Sensor(one.sense, targets[0].source.id, index, i, one.weight)
            for i, one in enumerate(sensed)
        )
        items += (
            _item(sources, target, index, i, schemes[i])
            for i, target in enumerate(targets, len(sensed))
        )
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
        sensors=tuple(sensing),
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


def _kdamond(sources: _Sources, node: Node, schemes: tuple[Scheme, ...]) -> Kdamond:
    ranges = merge(node.ranges)
    if not ranges:
        raise Unsupported(
            f"node {node.id}: its physical addresses are not known",
            "tierd reads them from /sys/devices/system/memory and, as root, /proc/iomem",
        )
    small = DEMAND_NR_REGIONS if sources.tuner.loop is Loop.demand else NR_REGIONS
    by_size = small if node.size_bytes <= LARGE_NODE_BYTES else NR_REGIONS_LARGE
    configured = sources.config.regions
    span = by_size if configured is None else Span(*configured)
    context = Context(
        operations=Operations.paddr,
        intervals=sources.intervals,
        nr_regions=Span(span.min, max(span.max, 2 * len(ranges))),
        ranges=ranges,
        schemes=schemes,
    )
    # Until 7.3 all kdamonds share one refresh timer, and some starve: there tierd asks. Who steers
    # asks too: statistics that are as old as a timer happens to make them are no reading.
    each = sources.capabilities.has(Feature.refresh_each) and sources.tuner.loop is Loop.kernel
    return Kdamond(context, refresh_ms=sources.config.tick_ms if each else 0)


def _senses(sources: _Sources, targets: tuple[_Target, ...]) -> tuple[Sensed, ...]:
    """What is sensed on a node: its heat, and cold memory if it could go down."""
    if sources.tuner.loop is not Loop.demand:
        return ()
    goes_down = any(way.direction is Direction.demote for way in targets)
    return tuple(
        sensors(
            _pattern(sources, Direction.promote),
            _pattern(sources, Direction.demote) if goes_down else None,
            sources.intervals.samples,
        )
    )


def _pattern(sources: _Sources, direction: Direction) -> AccessPattern:
    return looks.pattern(sources.config, sources.intervals, sources.tuner.loop, direction)


def _sensing(sources: _Sources, pattern: AccessPattern) -> Scheme:
    """A scheme that only counts: of action `stat`, and therefore without a quota."""
    return Scheme(
        action=Action.stat,
        # It moves nothing, but a number that is no node's is not given to any kernel.
        target_nid=sources.topology.nodes[0].id,
        pattern=pattern,
        apply_interval_us=sources.window_us,
        quota=Quota(bytes_max=0),
    )


def _scheme(sources: _Sources, way: _Target) -> Scheme:
    config, loop = sources.config, sources.tuner.loop
    promotes = way.direction is Direction.promote
    action = Action.migrate_hot if promotes else Action.migrate_cold
    return Scheme(
        action=Action.stat if config.mode is Mode.observe else action,
        target_nid=way.target.id,
        pattern=_pattern(sources, way.direction),
        apply_interval_us=sources.window_us,
        quota=Quota(
            bytes_max=_quota_bytes(sources, way),
            goals=(tuners.goal(loop, _aim(sources, way)),),
            goal_tuner=tuners.goal_tuner(sources.capabilities, loop),
            fail_charge=FAIL_CHARGE if sources.capabilities.has(Feature.fail_charge) else None,
        ),
        filters=_filters(sources, way.direction),
    )


def _rate(sources: _Sources, way: _Target) -> float:
    return sources.config.rate_max_bytes_per_s / way.share


def _quota_bytes(sources: _Sources, way: _Target) -> int:
    per_window = int(_rate(sources, way) * sources.window_us) // 10**6
    if sources.tuner.loop is Loop.demand:
        charged = not sources.capabilities.has(Feature.fail_charge)
        tries = charged and way.direction is Direction.demote
        per_window *= TRIED_PER_RATE_MAX if tries else QUOTA_PER_RATE_MAX
    # Never 0, which the kernel takes for no limit.
    return max(1, per_window)


def _filters(sources: _Sources, direction: Direction) -> tuple[Filter, ...]:
    """Only pages that agree with their region: young ones go up, others go down.

    The first filter that decides ends the walk, so what allows stands after what checks the age.
    """
    limits = sources.scope
    if _asks_age(sources, direction):
        return (*limits.before, _young(direction), *limits.after)
    return (*limits.before, *limits.after)


def _asks_age(sources: _Sources, direction: Direction) -> bool:
    """Whether each page is looked at once more.

    A page that nobody has looked at since it was filled still bears the mark of that, and fails
    once: a first round over a node of cold memory would be in vain, and where failures are charged
    use up a quota for as long as it takes to move all of it. For demotion by demand the region's
    age alone stands in.
    """
    return direction is Direction.promote or sources.tuner.loop is not Loop.demand


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
        rate_max_bytes_per_s=_rate(sources, way),
        quota_bytes_max=built.quota.bytes_max,
        window_us=built.apply_interval_us,
        reason=_reason(sources, way),
    )


def _reason(sources: _Sources, way: _Target) -> str:
    config, source, target = sources.config, way.source.id, way.target.id
    aim = _aim(sources, way)
    if way.direction is Direction.promote:
        what = f"what is accessed in {format_percent(config.hot_accesses_min_bp)} of the samples"
        where, stop = f"up to node {target}, nearest of the next faster tier", "used"
    else:
        what = "what nobody accesses"
        where, stop = f"down to node {target}, nearest of the next slower tier", "free"
    verb = "count" if config.mode is Mode.observe else "move"
    rate = format_rate(_rate(sources, way))
    shared = f" (one of {way.share} equally near)" if way.share > 1 else ""
    until = f" until node {aim.node} is {format_percent(aim.target_bp)} {stop}"
    if sources.tuner.loop is Loop.demand:
        until = f", as much as is hot and node {aim.node} has room for"
        if way.direction is Direction.demote:
            until = f", to keep {format_percent(aim.target_bp)} of node {aim.node} free"
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
    tunes = sources.config.auto_intervals and sources.capabilities.has(Feature.intervals_goal)
    if tunes and looks.asks_ages(sources.config):
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
    wanted = [Feature.fail_charge]
    if looks.wants_tuning(sources.config):
        wanted.insert(0, Feature.intervals_goal)
    if sources.config.tuner is Tuner.kernel:
        wanted += [Feature.node_goals, Feature.goal_tuner]
    for feature in wanted:
        if feature in capabilities.unknown:
            yield f"cannot tell whether the kernel has {feature}: it has no type information (BTF)"
        elif feature is Feature.node_goals and not capabilities.has(feature):
            yield f"no {feature} (Linux {MARKS[feature].since}): {sources.tuner.reason}"
        elif not capabilities.has(feature):
            yield because(feature)
    yield from sources.scope.degraded
