"""Makes the plan: which schemes run on which node, with which numbers, and why.

Rules of this file:
1. Pure: the same machine, kernel and config give the same plan.
2. Each item of the plan has a reason in plain words. What the kernel lacks is listed in `degraded`.
3. The defaults are those of the cover letter of DAMON's self-tuned tiering (mm/damon: "introduce
   new quota goal metrics for memory node utilization"). A comment says why where they are not.
"""

from collections.abc import Iterator, Mapping
from functools import partial

from tierd.configuration.config import Config, Mode
from tierd.errors import Unsupported
from tierd.frozen import dataclass, replace
from tierd.machine.cgroups import NO_CGROUPS, Cgroups
from tierd.machine.features import Capabilities, Feature, require_migration
from tierd.machine.interleave import Interleave
from tierd.machine.numa_balancing import NumaBalancing
from tierd.plans import aims, eviction, groups, promoters, reasons, sampling, sensing, visits
from tierd.plans.damon import (
    UINT_MAX,
    AccessPattern,
    Action,
    Context,
    FailCharge,
    Filter,
    FilterType,
    Intervals,
    Kdamond,
    Operations,
    Quota,
    Scheme,
    Span,
    Weights,
    writes,
)
from tierd.plans.groups import NO_ROLES, Group, Roles, Scopes
from tierd.plans.knobs import knobs
from tierd.plans.plan import (
    ACTIONS,
    Controller,
    Direction,
    Migration,
    Plan,
    PromoterChoice,
    Sensor,
    Sweep,
    TunerChoice,
    Visit,
    Watch,
)
from tierd.plans.rates import cost_bp, quota_bytes, rate
from tierd.plans.safety import require_safe
from tierd.plans.scope import NOTHING, Scope, scope
from tierd.plans.ways import ways
from tierd.topology import Node, Topology
from tierd.tuner import tuners
from tierd.tuner.sensor_patterns import SensorPattern, sensor_patterns, sure_accesses
from tierd.units import format_rate

# The part of a page's size that a failed try costs: 4 bytes per page. Free and pinned memory looks
# coldest; charged in full, it would use up the quota for pages that can move.
FAIL_CHARGE = FailCharge(1, 1024)


@dataclass(frozen=True, slots=True)
class _Sources:
    """The input from which every scheme is made."""

    topology: Topology
    capabilities: Capabilities
    config: Config
    intervals: Intervals
    scope: Scope
    tuner: TunerChoice
    promoter: PromoterChoice
    free_floors: Mapping[int, int]
    swaps: bool
    shared: tuple[Group, ...]
    """The groups of cgroups that share the fastest tier."""
    scopes: Scopes
    """Whose memory moves where they do."""
    careful: bool
    """Whether commits that name cgroups should be few."""

    def is_shared(self, direction: Direction, source: int, target: int) -> bool:
        """Return whether groups share what a migration moves."""
        end = {Direction.promote: target, Direction.demote: source}.get(direction)
        return end is not None and self.shares(self.topology.node(end))

    def shares(self, node: Node) -> bool:
        """Return whether groups share a node: one of the fastest tier."""
        return bool(self.shared) and node.id in self.topology.tiers[0].nodes

    def scope_of(self, direction: Direction, source: int, target: int) -> Scope:
        """Return the filters of a migration."""
        if not self.shared:
            return self.scope
        fastest = self.is_shared(direction, source, target)
        return self.scopes.of(up=direction is Direction.promote, fastest=fastest)

    @property
    def hints(self) -> bool:
        """Whether hint faults promote. With `observe` schemes only count, so tierd has them all."""
        return self.promoter.hints and self.config.mode is Mode.manage

    @property
    def falls_back(self) -> bool:
        """Whether memory may go to other nodes than the nearest. Shares are for the nearest ones,
        and `observe` says what is hot and cold, and not who has no room."""
        demands = self.tuner.loop is Controller.demand
        return demands and self.config.mode is Mode.manage and not self.shared

    @property
    def window_us(self) -> int:
        newer = self.capabilities.has(Feature.intervals_goal)
        return sampling.window_us(self.config, self.tuner.loop, self.intervals, newer=newer)


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of a plan that is about one node."""

    kdamond: Kdamond
    watch: Watch
    sensors: tuple[Sensor, ...]
    migrations: tuple[Migration, ...]
    sweeps: tuple[Sweep, ...]
    replaced: tuple[Migration, ...]
    """What hint faults do in place of tierd's schemes."""


def plan(
    topology: Topology,
    capabilities: Capabilities,
    config: Config,
    *,
    cgroups: Cgroups = NO_CGROUPS,
    free_floors: Mapping[int, int] | None = None,
    swaps: bool = False,
    weights: Interleave | None = None,
    roles: Roles = NO_ROLES,
    numa_balancing: NumaBalancing | None = None,
    careful: bool = False,
) -> Plan:
    """Return the plan for this machine. Raise Unsupported, with what is missing, if there is none.

    `cgroups` are those in the subtrees of the cgroup classes. `free_floors` are the bytes that the
    kernel itself keeps free, by node: a goal below that would never be reached. With `swaps` the
    machine has swap that is not in memory. `weights` are the weights of weighted interleave now.
    `roles` say whose memory moves now, where groups of cgroups share the fast memory.
    `numa_balancing` is needed if that may promote. If `careful`, commits that name cgroups are few:
    they have failed lately, or a kdamond has ended.
    """
    require_migration(capabilities)
    tuner = tuners.choose(capabilities, config)
    shared = groups.match(config.shares, cgroups.own_bytes)
    sources = _Sources(
        topology,
        capabilities,
        config,
        sampling.intervals(capabilities, config, tuner.loop),
        scope(config.cgroups, cgroups, capabilities),
        tuner,
        promoters.choose(config, topology, tuner.loop, numa_balancing),
        free_floors or {},
        swaps,
        shared,
        groups.scopes(shared, roles, cgroups, capabilities),
        careful,
    )
    if _visits(sources) and sampling.wants_tuning(config):
        most = max(_nr_regions(sources, node).max for node in topology.nodes if node.ranges)
        sources = replace(sources, intervals=sampling.steady(config, most))
    parts = _parts(sources)
    kdamonds = tuple(part.kdamond for part in parts)
    migrations = tuple(one for part in parts for one in part.migrations)
    _require_any(migrations)
    hinted = promoters.hint_faults(
        sources.promoter, topology, (one for part in parts for one in part.replaced)
    )
    require_safe(kdamonds, frozenset(node.id for node in topology.nodes), capabilities)
    return Plan(
        mode=config.mode,
        tuner=tuner,
        kdamonds=kdamonds,
        watches=tuple(part.watch for part in parts),
        migrations=migrations,
        sensors=tuple(one for part in parts for one in part.sensors),
        sweeps=tuple(one for part in parts for one in part.sweeps),
        knobs=knobs(config, topology, weights, hinted, numa_balancing),
        writes=writes(kdamonds, capabilities),
        nodes=tuple(sorted(part.watch.node for part in parts)),
        page_bytes=topology.page_bytes,
        cost_bp=cost_bp(topology, config),
        degraded=tuple(_degraded(sources)),
        cgroups=sources.scope.matches,
        groups=shared,
        promoter=sources.promoter,
        hint_faults=hinted,
    )


def _parts(sources: _Sources) -> list[_Part]:
    parts: list[_Part] = []
    for node in sources.topology.nodes:
        part = _part(sources, node, len(parts))
        if part is not None:
            parts.append(part)
    return parts


def _require_any(migrations: tuple[Migration, ...]) -> None:
    if not migrations:
        raise Unsupported(
            "no node has a faster or slower neighbour: there is nowhere to move pages to",
            "tierd needs two tiers of memory; `tierd tiers` shows what the kernel sees, and "
            "`tiers:` in the config overrides it",
        )


def _part(sources: _Sources, node: Node, index: int) -> _Part | None:
    """Return the part of the kdamond `index`, or None if pages of the node can go nowhere."""
    sensed = _sensed(sources, node)
    sensors_last = sensing.comes_last(sources.capabilities)
    first = 0 if sensors_last else len(sensed)
    way = partial(_migrations, sources, node, index, first)
    possible = tuple(way(Direction.promote, Direction.demote))
    if not possible:
        return None
    mine = tuple(way(Direction.demote)) if sources.hints else possible
    sweeps = _sweeps(sources, node, mine)
    evicts = tuple(_evictions(sources, node, possible[0], first + len(mine) + len(sweeps)))
    moving = (
        *(_scheme(sources, migration) for migration in mine),
        *(visits.scheme(sweep, _visited(sources, sweep)) for sweep in sweeps),
        *(_scheme(sources, one) for one in evicts),
    )
    counting = tuple(_counting(sources, sense.pattern) for sense in sensed)
    return _Part(
        _kdamond(sources, node, moving + counting if sensors_last else counting + moving),
        Watch(
            f"watch-{node.id}",
            index,
            node.id,
            reasons.watched(
                sources.config, sources.capabilities, sources.intervals, node, possible
            ),
        ),
        tuple(
            Sensor(one.sense, node.id, index, scheme, one.weight, one.pattern.nr_accesses.min)
            for scheme, one in enumerate(sensed, len(moving) if sensors_last else 0)
        ),
        (*mine, *visits.migrations(mine, sweeps), *evicts),
        sweeps,
        promoters.nearest_ups(possible) if sources.hints else (),
    )


def _migrations(
    sources: _Sources, source: Node, kdamond: int, first_scheme: int, *directions: Direction
) -> Iterator[Migration]:
    """Yield the migrations from a node, promotion first. Equal targets share the rate equally.

    The first scheme that moves pages resets the age of their regions, and hot pages matter more.
    """
    topology, config, loop = sources.topology, sources.config, sources.tuner.loop
    found = ways(topology, source.id, directions, falls_back=sources.falls_back)
    for scheme, way in enumerate(found, first_scheme):
        direction, target = way.direction, way.target
        most = rate(topology, config, direction, source, way.nearest)
        mine = most.bytes_per_s / way.sharing
        aim = aims.aim(config, sources.free_floors, direction, source, topology.node(target))
        yield Migration(
            id=f"{direction}-{source.id}-{target}",
            direction=direction,
            source_node=source.id,
            target_node=target,
            kdamond=kdamond,
            scheme=scheme,
            aim=aim,
            rate_max_bytes_per_s=mine,
            quota_bytes_max=quota_bytes(
                mine, sources.window_us, loop, direction, sources.capabilities
            ),
            window_us=sources.window_us,
            reason=reasons.where(config, source.id, way)
            + f", at most {format_rate(mine)}{most.note}{way.beside}"
            + reasons.until(loop, direction, aim),
            fallback=way.fallback,
        )


def _evictions(sources: _Sources, node: Node, like: Migration, scheme: int) -> Iterator[Migration]:
    """Yield the eviction of a node that has no slower one."""
    slowest = not sources.topology.demotion_targets(node.id)
    if slowest and sources.tuner.loop is Controller.demand:
        config, can, swaps = sources.config, sources.capabilities, sources.swaps
        aim = aims.aim(config, sources.free_floors, Direction.evict, node, node)
        most = config.rate_max_bytes_per_s
        yield eviction.migration(like, can, scheme=scheme, aim=aim, rate_max=most, swaps=swaps)


def _nr_regions(sources: _Sources, node: Node) -> Span:
    by_size = sampling.regions(node.size_bytes)
    if sources.tuner.loop is Controller.demand:
        by_size = sampling.demand_regions(
            node.size_bytes,
            sources.topology.page_bytes,
            sources.intervals,
            visits=_visits(sources),
        )
    configured = sources.config.regions
    span = by_size if configured is None else Span(*configured)
    return Span(span.min, max(span.max, 2 * len(node.addresses())))


def _kdamond(sources: _Sources, node: Node, schemes: tuple[Scheme, ...]) -> Kdamond:
    ranges = node.addresses()
    context = Context(
        operations=Operations.paddr,
        intervals=sources.intervals,
        nr_regions=_nr_regions(sources, node),
        ranges=ranges,
        schemes=schemes,
    )
    # The kernel refreshes statistics by timer only if each kdamond has its own (7.3 on): a shared
    # one starves some kdamonds. A tuner of tierd needs them fresh, so it asks for them itself.
    each = (
        sources.capabilities.has(Feature.refresh_each) and sources.tuner.loop is Controller.kernel
    )
    return Kdamond(context, refresh_ms=sources.config.tick_ms if each else 0)


def _sensed(sources: _Sources, node: Node) -> tuple[SensorPattern, ...]:
    """Return the sensors of a node: for its heat, and for cold memory if it has a slower node."""
    if sources.tuner.loop is not Controller.demand:
        return ()
    goes_down = bool(sources.topology.demotion_targets(node.id))
    return tuple(
        sensor_patterns(
            _pattern(sources, Direction.promote),
            _pattern(sources, Direction.demote) if goes_down else None,
            sources.intervals.samples,
        )
    )


def _pattern(sources: _Sources, direction: Direction) -> AccessPattern:
    page_bytes = sources.topology.page_bytes
    return sampling.access_pattern(
        sources.config, page_bytes, sources.intervals, sources.tuner.loop, direction
    )


def _moved_pattern(sources: _Sources, direction: Direction) -> AccessPattern:
    """Return the regions that a scheme moves. With sweeps, single hits are not enough to promote:
    the sweeps find out which pages of such a region are hot.
    """
    pattern = _pattern(sources, direction)
    if direction is not Direction.promote or not _visits(sources):
        return pattern
    least = max(pattern.nr_accesses.min, sure_accesses(sources.intervals.samples))
    return replace(pattern, nr_accesses=Span(least, UINT_MAX))


def _counting(sources: _Sources, pattern: AccessPattern) -> Scheme:
    node = sources.topology.nodes[0].id
    return sensing.scheme(pattern, target_nid=node, window_us=sources.window_us)


def _scheme(sources: _Sources, migration: Migration) -> Scheme:
    config, loop, direction = sources.config, sources.tuner.loop, migration.direction
    return Scheme(
        action=Action.stat if config.mode is Mode.observe else ACTIONS[direction],
        target_nid=migration.target_node,
        pattern=_moved_pattern(sources, direction),
        apply_interval_us=migration.window_us,
        quota=Quota(
            bytes_max=migration.quota_bytes_max,
            goals=(tuners.goal(loop, migration.aim),),
            weights=_weights(sources, migration),
            goal_tuner=tuners.goal_tuner(sources.capabilities, loop),
            fail_charge=FAIL_CHARGE if sources.capabilities.has(Feature.fail_charge) else None,
        ),
        filters=_filters(sources, migration),
    )


def _weights(sources: _Sources, migration: Migration) -> Weights:
    """Return how a scheme ranks regions.

    Where groups share the fast memory, whole groups may have to wait. Regions of theirs that rank
    first would use up every window, and those of others would have no turn. Without fail_charge
    (7.2) it is the other way round: what is tried is charged, and each window begins at the first
    address. There the ages of regions, which a try resets, give each its turn.
    """
    ends = migration.direction, migration.source_node, migration.target_node
    shared = sources.is_shared(*ends) and sources.capabilities.has(Feature.fail_charge)
    return visits.IN_ORDER if shared else Weights()


def _visited(sources: _Sources, sweep: Sweep) -> Scope:
    """Return whose pages a sweep moves."""
    if sweep.visit is Visit.push:
        return sources.scopes.pushed
    way = Direction.promote if sweep.visit is Visit.promote else Direction.demote
    return sources.scope_of(way, sweep.node, sweep.target_node)


def _visits(sources: _Sources) -> bool:
    """Return whether the plan has sweeps. `observe` moves nothing, and a scope may be empty."""
    moves = sources.config.mode is Mode.manage and sources.scope.before != NOTHING
    able = not (_commits_cgroups(sources) or _hides_touches(sources))
    return moves and _wants_visits(sources) and able


def _wants_visits(sources: _Sources) -> bool:
    return sources.tuner.loop is Controller.demand and sources.config.cost_bp != 0


def _hides_touches(sources: _Sources) -> bool:
    config, topology = sources.config, sources.topology
    return any(
        sampling.hides_touches(config, node.size_bytes, topology.page_bytes)
        for node in topology.nodes
        if node.ranges
    )


def _commits_cgroups(sources: _Sources) -> bool:
    """Return whether opening a sweep would commit filters of cgroups, where that is not safe now.

    Such a commit fails if one of the cgroups has gone, and anybody may remove his own.
    """
    filtered = bool(sources.scope.before or sources.scope.after or sources.shared)
    return sources.careful and filtered and not tuners.has_temporal(sources.capabilities)


def _sweeps(sources: _Sources, node: Node, by_region: tuple[Migration, ...]) -> tuple[Sweep, ...]:
    if not by_region or not _visits(sources):
        return ()
    # Without `temporal` a quota could only grow step by step.
    gated = not tuners.has_temporal(sources.capabilities)
    shares = sources.shares(node)
    sample_us, regions = sources.intervals.sample_us, _nr_regions(sources, node).max
    window_us = sampling.sweep_window_us(sample_us, regions, gated=gated)
    return visits.sweeps(
        by_region,
        page_bytes=sources.topology.page_bytes,
        round_bytes=sum(part.end - part.start for part in node.addresses()),
        window_us=min(sources.window_us, window_us),
        first_lag_us=min(sources.window_us, sampling.first_lag_us(sample_us)),
        samples_per_s=sampling.rate_hz(regions, sample_us),
        gated=gated,
        also=visits.takes_hot(sources.config, shares=shares, hints=sources.hints, gated=gated),
    )


def _filters(sources: _Sources, migration: Migration) -> tuple[Filter, ...]:
    """Return the filters of a scheme: its own check of each page, and those of the cgroup classes.

    Only young pages are promoted, and only others demoted. The kernel stops at the first filter
    that decides, so a filter that allows stands after the check of the page.
    """
    direction = migration.direction
    limits = sources.scope_of(direction, migration.source_node, migration.target_node)
    # Demotion by demand goes by the age of the region alone. A page that was never checked still
    # has the mark of its first access, so the filter would reject all of a cold node once; and
    # some kernels charge that to the quota. A filter would also make pages old that a sweep is
    # about to visit.
    if direction is not Direction.promote and sources.tuner.loop is Controller.demand:
        of_files = eviction.filters(migration, sources.capabilities)
        return (*limits.before, *of_files, *limits.after)
    # DAMON samples one page per region; this filter checks each page.
    young = Filter(FilterType.young, matching=direction is Direction.demote)
    return (*limits.before, young, *limits.after)


def _degraded(sources: _Sources) -> Iterator[str]:
    """Yield what cannot be done of the plan."""
    yield from reasons.lacking(sources.config, sources.capabilities, sources.tuner)
    if _wants_visits(sources) and _commits_cgroups(sources):
        yield reasons.VISITS_COMMIT_CGROUPS
    if _wants_visits(sources) and _hides_touches(sources):
        yield reasons.SAMPLES_HIDE_TOUCHES
    if sources.hints and sources.config.cgroups:
        yield promoters.NO_CLASSES
    yield from sources.scope.degraded
    if sources.shared and not _visits(sources):
        yield reasons.NOTHING_IS_PUSHED
    yield from groups.unmatched(sources.shared)
    yield from dict.fromkeys(text for one in sources.scopes.all for text in one.degraded)
