"""The schemes of a machine are as expected, and no input leads to unsafe ones."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.pages import PAGE_BYTES
from tests.fixtures.tiers import GIB, machine
from tierd import policy
from tierd.configuration.config import Config, Mode, Tuner
from tierd.errors import TierdError, Unsupported
from tierd.machine.features import Capabilities, Feature
from tierd.plans import sampling, visits
from tierd.plans.damon import (
    Action,
    FilterType,
    Goal,
    GoalTuner,
    Intervals,
    Metric,
    Quota,
    Scheme,
    Weights,
)
from tierd.plans.plan import (
    CLOSED_INPUT,
    TARGET,
    Controller,
    Direction,
    Migration,
    Plan,
    Sense,
    Visit,
)
from tierd.plans.rates import QUOTA_PER_RATE_MAX, TRIED_PER_RATE_MAX
from tierd.plans.sampling import (
    DEMAND_COLD_AGE,
    DEMAND_COLD_US_MIN,
    DEMAND_SAMPLE_US_MAX,
    FIRST_LAG_SAMPLES,
)
from tierd.topology import Topology

ALL = Capabilities(frozenset(Feature))


def without(*features: Feature) -> Capabilities:
    return Capabilities(frozenset(Feature) - set(features))


KERNEL = Config(tuner=Tuner.kernel)
# The demand tuner without visits to pages.
REGIONS = Config(cost_bp=0)

TWO = machine((0,), (1,))
THREE = machine((0,), (1,), (2,))


def schemes(plan: Plan) -> list[Scheme]:
    return [scheme for kdamond in plan.kdamonds for scheme in kdamond.context.schemes]


def test_two_tiers_get_one_scheme_each_way() -> None:
    plan = policy.plan(TWO, ALL, KERNEL)
    assert [item.id for item in plan.migrations] == ["demote-0-1", "promote-1-0"]
    assert [scheme.target_nid for scheme in schemes(plan)] == [1, 0]
    assert plan.nodes == (0, 1)


def test_a_middle_node_promotes_first_in_one_context() -> None:
    plan = policy.plan(THREE, ALL, KERNEL)
    middle = plan.kdamonds[1].context.schemes
    assert [scheme.action for scheme in middle] == [Action.migrate_hot, Action.migrate_cold]
    assert [item.id for item in plan.migrations if item.source_node == 1] == [
        "promote-1-0",
        "demote-1-2",
    ]


def test_sockets_pair_with_their_nearest() -> None:
    far = frozenset({(0, 3), (1, 2)})
    plan = policy.plan(machine((0, 1), (2, 3), far=far), ALL, REGIONS)
    ids = {item.id for item in plan.migrations if not item.fallback}
    assert ids == {
        *("demote-0-2", "demote-1-3", "promote-2-0", "promote-3-1", "evict-2", "evict-3")
    }


def test_equally_near_targets_share_the_rate() -> None:
    asked = replace(KERNEL, rate_max_bytes_per_s=100_000_000)
    plan = policy.plan(machine((0,), (1, 2)), ALL, asked)
    shares = [
        i.quota_bytes_max * 10**6 // i.window_us for i in plan.migrations if i.source_node == 0
    ]
    assert shares == [50_000_000, 50_000_000]
    assert [i.rate_max_bytes_per_s for i in plan.migrations if i.source_node == 0] == [50e6, 50e6]


def test_goals_are_on_the_fast_side() -> None:
    plan = policy.plan(TWO, ALL, KERNEL)
    demote, promote = schemes(plan)
    assert demote.quota.goals[0].metric is Metric.node_mem_free_bp
    assert promote.quota.goals[0].metric is Metric.node_mem_used_bp
    assert [s.quota.goals[0].nid for s in (demote, promote)] == [0, 0]
    assert [s.quota.goals[0].target_value for s in (demote, promote)] == [50, 9970]


def test_without_node_goals_the_law_is_emulated_and_the_plan_says_so() -> None:
    plan = policy.plan(TWO, without(Feature.node_goals), KERNEL)
    assert plan.tuner.loop is Controller.emulated
    goals = [scheme.quota.goals for scheme in schemes(plan)]
    assert goals == [(user_input(50),), (user_input(9970),)]
    assert any("node_goals" in reason for reason in plan.degraded)


def user_input(target: int) -> Goal:
    """Return a goal that is just met, so the quota stays at one byte until tierd measures."""
    return Goal(Metric.user_input, target, current_value=target)


def told_apart(plan: Plan, kdamond: int) -> tuple[list[Scheme], Scheme]:
    """Return the schemes of a kdamond that only count, and the one that exchanges pages."""
    schemes = plan.kdamonds[kdamond].context.schemes
    (mover,) = [one.scheme for one in exchanges(plan) if one.kdamond == kdamond]
    mine = [one.scheme for one in plan.sensors if one.kdamond == kdamond]
    return [schemes[scheme] for scheme in mine], schemes[mover]


def exchanges(plan: Plan) -> list[Migration]:
    return [one for one in plan.of_regions if one.direction is not Direction.evict]


@pytest.mark.parametrize("tuner", [Tuner.auto, Tuner.demand])
def test_demand_senses_and_moves_by_a_goal_of_its_own(tuner: Tuner) -> None:
    plan = policy.plan(TWO, ALL, replace(REGIONS, tuner=tuner))
    assert plan.tuner.loop is Controller.demand
    for index, sense in enumerate((Sense.cold, Sense.hot)):
        sensing, mover = told_apart(plan, index)
        assert {one.action for one in sensing} == {Action.stat}
        assert {one.quota for one in sensing} == {Quota(bytes_max=0)}
        (same,) = [s.scheme for s in plan.sensors if (s.kdamond, s.sense) == (index, sense)]
        assert plan.kdamonds[index].context.schemes[same].pattern == mover.pattern
        assert mover.quota.goals == (user_input(10_000),)
        assert mover.quota.bytes_max > 0
    # A node in the middle has all sensors.
    middle = [one for one in policy.plan(THREE, ALL, Config()).sensors if one.node == 1]
    assert {one.sense for one in middle} == set(Sense)


@pytest.mark.parametrize("config", [Config(), REGIONS, Config(mode=Mode.observe)])
@pytest.mark.parametrize("topology", [TWO, THREE])
def test_sensors_come_first_but_last_where_a_region_is_split_again_and_again(
    topology: Topology, config: Config
) -> None:
    """Schemes that move reset ages. With fail_charge they also split regions all the time."""
    for capabilities, last in ((ALL, True), (without(Feature.fail_charge), False)):
        plan = policy.plan(topology, capabilities, config)
        for index, kdamond in enumerate(plan.kdamonds):
            mine = [one.scheme for one in plan.sensors if one.kdamond == index]
            whole = len(kdamond.context.schemes)
            first = whole - len(mine) if last else 0
            assert mine == list(range(first, first + len(mine)))
            movers = {one.scheme for one in plan.migrations if one.kdamond == index}
            sweeps = {one.scheme for one in plan.sweeps if one.kdamond == index}
            assert len(movers | sweeps | set(mine)) == whole


@pytest.mark.parametrize("least_bp", [1, 500, 3_000, 10_000])
def test_the_weights_of_heat_add_up_to_the_share_of_hits(least_bp: int) -> None:
    plan = policy.plan(TWO, ALL, Config(hot_accesses_min_bp=least_bp))
    found = [
        (plan.kdamonds[0].context.schemes[one.scheme].pattern.nr_accesses.min, one.weight)
        for one in plan.sensors
        if one.kdamond == 0 and one.weight
    ]
    samples = plan.kdamonds[0].context.intervals.samples
    least = max(1, -(-samples * least_bp // 10_000))
    assert found[0][0] == least
    assert sum(weight for _, weight in found) == pytest.approx(1)
    for hits in range(least, samples + 1):
        heat = sum(weight for bound, weight in found if hits >= bound)
        assert abs(heat - hits / samples) <= 0.31


def test_demand_checks_each_page_for_promotion_only() -> None:
    demote, promote = (told_apart(policy.plan(TWO, ALL, REGIONS), index)[1] for index in (0, 1))
    assert not demote.filters
    assert [one.type for one in promote.filters] == [FilterType.young]
    assert demote.pattern.age.min > promote.pattern.age.min


def test_each_node_is_visited_by_what_it_has_a_neighbour_for() -> None:
    found = {
        node: [one.visit for one in policy.plan(THREE, ALL, Config()).sweeps if one.node == node]
        for node in range(3)
    }
    assert found == {
        0: [Visit.demote, Visit.age, Visit.relieve],
        1: [Visit.promote, Visit.demote, Visit.clear, Visit.age, Visit.relieve],
        2: [Visit.promote, Visit.clear],
    }


@pytest.mark.parametrize(
    ("gib", "sample_ms", "samples"), [(1, 5, 1), (4, 6, 2), (16, 20, 2), (512, 20, 4)]
)
def test_the_window_of_sweeps_is_short_where_regions_are_few(
    gib: int, sample_ms: int, samples: int
) -> None:
    fast, slow = TWO.nodes
    (first,) = fast.ranges
    large = replace(first, end=first.start + (gib << 30))
    nodes = (replace(fast, size_bytes=gib << 30, ranges=(large,)), slow)
    for can, windows in ((ALL, samples), (without(Feature.fail_charge), FIRST_LAG_SAMPLES)):
        plan = policy.plan(replace(TWO, nodes=nodes), can, Config())
        mine = [one for one in plan.sweeps if one.node == fast.id]
        assert plan.kdamonds[0].context.intervals.sample_us == sample_ms * 1000
        assert {one.window_us for one in mine} == {1000 * sample_ms * windows}
        lags_us = {one.first_lag_us for one in plan.sweeps}
        assert lags_us == {1000 * sample_ms * FIRST_LAG_SAMPLES}
        assert all(one.window_us > max(lags_us) for one in plan.of_regions)


def test_a_window_of_sweeps_is_no_longer_than_that_of_regions() -> None:
    few = Config(sample_us=50_000, aggr_us=100_000, auto_intervals=False)
    for can in (ALL, without(Feature.fail_charge)):
        plan = policy.plan(TWO, can, few)
        longest = max(one.window_us for one in plan.of_regions)
        assert longest < FIRST_LAG_SAMPLES * few.sample_us
        assert all(one.window_us <= one.first_lag_us == longest for one in plan.sweeps)


def test_a_sweep_is_closed_at_first_and_limited() -> None:
    for can, gated in ((ALL, False), (without(Feature.fail_charge), True)):
        plan = policy.plan(TWO, can, Config())
        for sweep in plan.sweeps:
            scheme = plan.kdamonds[sweep.kdamond].context.schemes[sweep.scheme]
            assert sweep.gated is scheme.gated is gated
            assert scheme.quota.bytes_max == sweep.quota_bytes > 0
            assert sweep.quota_bytes % PAGE_BYTES == 0
            charge = scheme.quota.fail_charge
            assert (charge is not None) is sweep.passes_cheaply
            assert sweep.passes_cheaply is (sweep.visit is Visit.relieve and not gated)
            assert scheme.quota.weights == Weights(0, 0, 0)
            goals = (Goal(Metric.user_input, TARGET, current_value=CLOSED_INPUT),)
            assert scheme.quota.goals == (() if gated else goals)


@pytest.mark.parametrize(
    ("can", "config", "relieves"),
    [
        (ALL, Config(), True),
        (ALL, Config(measures_latency=False), False),
        # There a commit opens all sweeps for a moment.
        (without(Feature.fail_charge), Config(), False),
    ],
    ids=["can", "off", "gated"],
)
def test_hot_pages_go_down_only_where_nothing_else_opens_their_sweep(
    can: Capabilities, config: Config, relieves: bool
) -> None:
    visits = {one.visit for one in policy.plan(TWO, can, config).sweeps}
    assert (Visit.relieve in visits) is relieves


def test_a_sweep_that_clears_moves_no_page() -> None:
    plan = policy.plan(TWO, ALL, Config())
    for sweep in plan.sweeps:
        filters = plan.kdamonds[sweep.kdamond].context.schemes[sweep.scheme].filters
        kinds = [(one.type, one.matching, one.allow) for one in filters]
        rejects_all = {(FilterType.anon, True, False), (FilterType.anon, False, False)}
        assert (rejects_all <= set(kinds)) is not sweep.moves
        takes_young = sweep.visit in (Visit.promote, Visit.relieve)
        assert kinds[0] == (FilterType.young, not takes_young, False)


@pytest.mark.parametrize(
    "config",
    [Config(cost_bp=0), Config(mode=Mode.observe), KERNEL],
    ids=["cost", "observe", "kernel"],
)
def test_a_plan_may_have_no_sweeps(config: Config) -> None:
    assert policy.plan(TWO, ALL, config).sweeps == ()


def test_samples_seldom_come_to_the_same_page_of_a_node_that_is_visited() -> None:
    for size in (1 << 29, 16 << 30, 1 << 40):
        seldom = sampling.demand_regions(
            size, PAGE_BYTES, Intervals(5_000, 100_000, 1), visits=True
        )
        often = sampling.demand_regions(
            size, PAGE_BYTES, Intervals(5_000, 100_000, 1), visits=False
        )
        assert seldom.max <= often.max
        each_s = size / PAGE_BYTES / (seldom.max / 5e-3)
        assert each_s >= sampling.SAMPLED_S or seldom.max == sampling.NR_REGIONS_MIN


def test_demand_samples_often_enough_to_see_new_hot_memory() -> None:
    for asked in (REGIONS, KERNEL):
        goal = policy.plan(TWO, ALL, asked).kdamonds[0].context.intervals.goal
        assert goal is not None
        longest = DEMAND_SAMPLE_US_MAX if asked == REGIONS else asked.sample_us_max
        assert goal.max_sample_us == longest
    slow = policy.plan(TWO, ALL, replace(REGIONS, sample_us=50_000, aggr_us=1_000_000))
    assert slow.kdamonds[0].context.intervals.goal is not None
    assert slow.kdamonds[0].context.intervals.goal.max_sample_us == 50_000


def test_demand_waits_longer_for_cold_memory_with_fixed_intervals() -> None:
    def age(plan: Plan) -> int:
        cold = next(one for one in schemes(plan) if one.action is Action.migrate_cold)
        return cold.pattern.age.min

    fixed = without(Feature.intervals_goal)
    assert age(policy.plan(TWO, ALL, REGIONS)) == DEMAND_COLD_AGE
    assert age(policy.plan(TWO, fixed, Config())) * Config().aggr_us == DEMAND_COLD_US_MIN
    long = Config(sample_us=50_000, aggr_us=1_000_000)
    assert age(policy.plan(TWO, fixed, long)) == DEMAND_COLD_AGE


def test_the_temporal_tuner_is_used_only_where_a_quota_of_zero_is_safe() -> None:
    assert schemes(policy.plan(TWO, ALL, KERNEL))[0].quota.goal_tuner is GoalTuner.temporal
    early = policy.plan(TWO, without(Feature.fail_charge), KERNEL)
    assert schemes(early)[0].quota.goal_tuner is GoalTuner.consist


def test_observe_counts_the_memory_that_manage_would_move() -> None:
    watched = schemes(policy.plan(TWO, ALL, replace(KERNEL, mode=Mode.observe)))
    moved = schemes(policy.plan(TWO, ALL, KERNEL))
    assert [replace(scheme, action=Action.stat) for scheme in moved] == watched


def test_ages_need_fixed_intervals() -> None:
    plan = policy.plan(TWO, ALL, replace(REGIONS, cold_age_ms_min=30_000, hot_age_ms_min=150))
    assert plan.kdamonds[0].context.intervals.goal is None
    demote, promote = (told_apart(plan, index)[1] for index in (0, 1))
    assert (demote.pattern.age.min, promote.pattern.age.min) == (300, 2)


def test_settings_outside_of_damon_are_listed() -> None:
    plan = policy.plan(TWO, ALL, Config(manage_demotion_enabled=True))
    assert [knob.id for knob in plan.knobs] == ["damon-stat", "demotion-enabled"]
    assert not policy.plan(TWO, ALL, Config(manage_damon_stat=False)).knobs


def test_the_settings_are_part_of_the_fingerprint() -> None:
    one = policy.plan(TWO, ALL, Config())
    other = policy.plan(TWO, ALL, Config(manage_damon_stat=False))
    assert one.writes == other.writes
    assert one.fingerprint != other.fingerprint


@pytest.mark.parametrize(
    ("topology", "capabilities", "config", "says"),
    [
        (machine((0,)), ALL, Config(), "nowhere to move"),
        (TWO, without(Feature.migrate), Config(), "cannot be moved"),
        (
            replace(TWO, nodes=(replace(TWO.nodes[0], ranges=()), TWO.nodes[1])),
            ALL,
            Config(),
            "node 0",
        ),
    ],
)
def test_a_plan_names_the_missing_features(
    topology: Topology, capabilities: Capabilities, config: Config, says: str
) -> None:
    with pytest.raises(Unsupported, match=says):
        policy.plan(topology, capabilities, config)


@pytest.mark.parametrize("config", [Config(), KERNEL], ids=["demand", "kernel"])
def test_unsafe_settings_are_refused(config: Config) -> None:
    """The config reader refuses these settings too, but the plan does not rely on that."""
    for unsafe in ({"regions": (1, 10)}, {"rate_max_bytes_per_s": 1 << 80}):
        with pytest.raises(TierdError, match="refusing kdamond 0"):
            policy.plan(TWO, ALL, replace(config, **unsafe))


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    ids = draw(st.lists(st.integers(0, 40), min_size=2, max_size=8, unique=True))
    cuts = draw(st.lists(st.integers(1, len(ids) - 1), min_size=1, max_size=3, unique=True))
    edges = [0, *sorted(cuts), len(ids)]
    tiers = [tuple(sorted(ids[a:b])) for a, b in pairwise(edges)]
    pairs = [(a, b) for a in ids for b in ids if a < b]
    far = draw(st.sets(st.sampled_from(pairs)))
    return machine(*tiers, far=frozenset(far))


configs = st.builds(
    Config,
    mode=st.sampled_from(Mode),
    tuner=st.sampled_from(Tuner),
    headroom_bp=st.integers(1, 5000),
    used_bp=st.integers(5001, 9999),
    rate_max_bytes_per_s=st.integers(1, 10**12),
    cost_bp=st.integers(0, 10_000),
    window_ms=st.integers(1, 60_000),
    hot_accesses_min_bp=st.integers(0, 10_000),
    hot_age_ms_min=st.integers(0, 10**7),
    cold_age_ms_min=st.integers(0, 10**7),
)
capabilities = st.sets(st.sampled_from(Feature)).map(
    lambda some: Capabilities(
        frozenset(some) | {Feature.sysfs, Feature.paddr, Feature.migrate, Feature.user_input_goal}
    )
)


def require_targets(plan: Plan, topology: Topology, config: Config, *, swaps: bool) -> None:
    """Require a migration for each target, and none more."""
    last = topology.tiers[-1].nodes if plan.tuner.loop is Controller.demand else ()
    wanted = {
        Direction.promote: {
            (n.id, to) for n in topology.nodes for to in topology.promotion_targets(n.id)
        },
        Direction.demote: {
            (n.id, to) for n in topology.nodes for to in topology.demotion_targets(n.id)
        },
        Direction.evict: {(node, node) for node in last if topology.promotion_targets(node)},
    }
    further = {
        Direction.promote: {
            (n.id, to) for n in topology.nodes for to in topology.promotion_fallbacks(n.id)
        },
        Direction.demote: {
            (n.id, to) for n in topology.nodes for to in topology.demotion_fallbacks(n.id)
        },
        Direction.evict: set(),
    }
    falls_back = plan.tuner.loop is Controller.demand and config.mode is Mode.manage
    evicts = [one for one in plan.migrations if one.direction is Direction.evict]
    assert {one.files_only for one in evicts} <= {not swaps}
    for direction, ways in wanted.items():
        for fallback, pairs in ((False, ways), (True, further[direction] if falls_back else set())):
            found = {
                (i.source_node, i.target_node)
                for i in plan.migrations
                if i.direction is direction and i.fallback is fallback
            }
            assert found == pairs


@given(topologies(), capabilities, configs, st.integers(0, 2 * GIB), st.booleans())
def test_every_plan_is_whole_and_within_bounds(
    topology: Topology,
    can: Capabilities,
    config: Config,
    floor: int,
    swaps: bool,
) -> None:
    floors = {node.id: floor for node in topology.nodes}
    plan = policy.plan(topology, can, config, free_floors=floors, swaps=swaps)
    assert len({item.id for item in plan.migrations}) == len(plan.migrations)
    require_targets(plan, topology, config, swaps=swaps)
    for node in topology.nodes:
        for direction in Direction:
            mine = [
                i for i in plan.of_regions if (i.source_node, i.direction) == (node.id, direction)
            ]
            rate = config.rate_max_bytes_per_s or 0
            most = rate * mine[0].window_us // 10**6 if mine else 0
            if plan.tuner.loop is Controller.demand:
                charged = not can.has(Feature.fail_charge)
                most *= TRIED_PER_RATE_MAX if charged else QUOTA_PER_RATE_MAX
            nearest = [item for item in mine if not item.fallback]
            assert sum(item.quota_bytes_max for item in nearest) <= max(most, len(nearest))
            # A fallback may use what the nearest leave of the rate: all of it, if they are full.
            assert all(item.quota_bytes_max <= max(most, 1) for item in mine)
    rates = {one.id: one.rate_max_bytes_per_s for one in plan.of_regions}
    for sweep in plan.sweeps:
        if sweep.moves and sweep.quota_bytes > 1:
            beside = rates[sweep.beside]
            longest = sweep.round_bytes / visits.NOT_LONG_ROUND_S
            long = min(visits.VISITED_PER_RATE_MAX * beside, longest)
            assert sweep.bytes_per_s <= max(visits.VISITED_PER_RATE * beside, long)
    moving = [scheme for scheme in schemes(plan) if scheme.quota.goals or scheme.gated]
    assert len(moving) == len(plan.of_regions) + len(plan.sweeps)
    assert all(scheme.quota.bytes_max >= 1 for scheme in moving)
    assert all(scheme in moving or scheme.action is Action.stat for scheme in schemes(plan))
    assert [watch.node for watch in plan.watches] == sorted(watch.node for watch in plan.watches)
    paths = [write.path for write in plan.writes]
    assert len(set(paths)) == len(paths)
    assert [path.endswith("/state") for path in paths] == sorted(
        p.endswith("/state") for p in paths
    )
