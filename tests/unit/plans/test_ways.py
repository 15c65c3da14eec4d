"""Where memory of a node may go: the nearest nodes, then fallbacks."""

import pytest

from tests.fixtures.tiers import machine
from tierd import policy
from tierd.configuration.config import Config, Mode, Promoter, ShareClass, Tuner
from tierd.machine.cgroups import Cgroups
from tierd.machine.features import Capabilities, Feature
from tierd.machine.numa_balancing import NumaBalancing
from tierd.plans.plan import GROWING_INPUT, Direction, Grain, Plan, Visit
from tierd.plans.visits import VISITED_PER_RATE
from tierd.plans.ways import Way, ways

ALL = Capabilities(frozenset(Feature))
GATED = Capabilities(frozenset(Feature) - {Feature.goal_tuner})
FAR = frozenset({(0, 3), (1, 2), (2, 1), (3, 0)})
SOCKETS = machine((0, 1), (2, 3), far=FAR)
RATE = 100_000_000


def plan(can: Capabilities = ALL) -> Plan:
    return policy.plan(SOCKETS, can, Config(rate_max_bytes_per_s=RATE))


def fallbacks(made: Plan) -> set[str]:
    return {one.id for one in made.migrations if one.fallback}


def test_the_nearest_node_comes_first_and_then_the_other_socket() -> None:
    both = (Direction.promote, Direction.demote)
    assert list(ways(SOCKETS, 0, both, falls_back=True)) == [
        Way(Direction.demote, 2, (2,)),
        Way(Direction.demote, 3, (2,), fallback=True),
    ]
    assert list(ways(SOCKETS, 3, both, falls_back=True)) == [
        Way(Direction.promote, 1, (1,)),
        Way(Direction.promote, 0, (1,), fallback=True),
    ]
    assert [one.target for one in ways(SOCKETS, 0, both, falls_back=False)] == [2]


def test_equal_targets_share_the_rate_and_a_fallback_may_use_all_of_it() -> None:
    two_each = machine((0, 1), (2, 3, 4, 5), far=frozenset({(0, 4), (0, 5), (1, 2), (1, 3)}))
    made = policy.plan(two_each, ALL, Config(rate_max_bytes_per_s=RATE))
    rates = {one.id: one.rate_max_bytes_per_s for one in made.of_regions if one.source_node == 0}
    half = {"demote-0-2": RATE / 2, "demote-0-3": RATE / 2}
    assert rates == {**half, "demote-0-4": RATE, "demote-0-5": RATE}
    # One sweep makes pages old for those to all targets, so they are equally fast.
    sweeps = [
        one for one in made.sweeps if one.node == 0 and one.visit in (Visit.demote, Visit.age)
    ]
    assert len({one.bytes_per_s for one in sweeps}) == 1
    assert sweeps[0].bytes_per_s <= VISITED_PER_RATE * RATE / 2


def test_a_fallback_is_planned_by_region_and_by_page_and_says_what_it_is_for() -> None:
    made = plan()
    wanted = {"demote-0-3", "demote-1-2", "promote-2-1", "promote-3-0"}
    pages = {one.replace("-", "-pages-", 1) for one in wanted}
    assert fallbacks(made) == wanted | pages
    assert {one.id for one in made.sweeps if one.fallback} == pages
    reasons = {one.id: one.reason for one in made.migrations}
    assert (
        "node 3, next nearest of the next slower tier, for what node 2 has no room for"
        in (reasons["demote-0-3"])
    )
    assert "at most 100 MB/s together with node 2" in reasons["demote-0-3"]
    assert "with what goes to nearer nodes" in reasons["promote-pages-2-1"]
    assert "nearer" not in reasons["promote-pages-2-0"]


def test_a_fallback_moves_nothing_before_something_asks_for_it() -> None:
    """The quotas of other schemes grow at the start until they are ready."""
    made = plan()
    grows = {write.path for write in made.writes_at_start} & {
        write.path
        for write in made.writes_at_start
        if write.path.endswith("goals/0/current_value") and write.value == str(GROWING_INPUT)
    }
    ready = [one for one in made.of_regions if one.begins_ready]
    assert len(grows) == len(ready) == 4
    assert not any(one.fallback for one in ready)


@pytest.mark.parametrize(
    "config",
    [
        Config(mode=Mode.observe),
        Config(tuner=Tuner.kernel),
        Config(tuner=Tuner.emulated),
        Config(shares=(ShareClass("a", ("/a",)),)),
    ],
    ids=["observe", "kernel", "emulated", "shares"],
)
def test_only_the_demand_tuner_falls_back_and_not_beside_shares(config: Config) -> None:
    own = Cgroups({"/a": 1 << 20})
    assert not fallbacks(policy.plan(SOCKETS, ALL, config, cgroups=own))


def test_hint_faults_promote_from_the_nearest_nodes_and_demotion_falls_back() -> None:
    found = NumaBalancing(mode=1, limits_rate=True, fast_nodes=frozenset({0, 1}))
    config = Config(promoter=Promoter.numa_balancing, rate_max_bytes_per_s=RATE)
    made = policy.plan(SOCKETS, ALL, config, numa_balancing=found)
    assert [(one.node, one.sources) for one in made.hint_faults] == [(0, (2,)), (1, (3,))]
    assert {one.rate_max_bytes_per_s for one in made.hint_faults} == {RATE}
    assert {one.id for one in made.of_regions if one.fallback} == {"demote-0-3", "demote-1-2"}


def test_where_commits_open_sweeps_pages_come_up_to_the_nearest_nodes_only() -> None:
    """Each commit lets each sweep run for a window, and what was not cleared looks young."""
    made = plan(can=GATED)
    assert all(one.gated for one in made.sweeps)
    mine = [one for one in made.sweeps if one.fallback]
    assert {one.visit for one in mine} == {Visit.demote}
    assert {one.id for one in made.of_regions if one.fallback} == fallbacks(made) - {
        one.id for one in made.migrations if one.grain is Grain.pages
    }


def test_on_one_socket_nothing_falls_back() -> None:
    assert not fallbacks(policy.plan(machine((0,), (1,), (2,)), ALL, Config()))
