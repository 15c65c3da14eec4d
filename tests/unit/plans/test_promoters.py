"""What promotes: tierd's schemes, or hint faults; and the settings that this takes."""

from dataclasses import replace

import pytest

from tests.fixtures.tiers import machine
from tierd import policy
from tierd.configuration.config import (
    CgroupClass,
    CgroupMode,
    Config,
    Mode,
    Promoter,
    ShareClass,
    Tuner,
)
from tierd.errors import Unsupported
from tierd.machine.features import Capabilities, Feature
from tierd.machine.neighbours import NUMA_BALANCING
from tierd.machine.numa_balancing import PROMOTE_RATE_LIMIT, NumaBalancing, fast_nodes
from tierd.plans.plan import Direction, Plan, Visit
from tierd.topology import Tier, Topology

ALL = Capabilities(frozenset(Feature))
TWO = machine((0,), (1,))
HINTED = Config(promoter=Promoter.numa_balancing)
AUTO = Config(promoter=Promoter.auto)
FOUND = NumaBalancing(mode=1, limits_rate=True, fast_nodes=frozenset({0}))


def plan(
    config: Config = HINTED, found: NumaBalancing | None = FOUND, topology: Topology = TWO
) -> Plan:
    return policy.plan(topology, ALL, config, numa_balancing=found)


def settings(made: Plan) -> dict[str, str]:
    wanted = (NUMA_BALANCING, PROMOTE_RATE_LIMIT)
    return {knob.path: knob.value for knob in made.knobs if knob.path in wanted}


def test_by_default_schemes_promote_and_no_setting_changes() -> None:
    made = policy.plan(TWO, ALL, Config())
    assert made.promoter.promoter is Promoter.damon
    assert not made.hint_faults
    assert not settings(made)
    assert made.writes == plan(AUTO).writes


def test_with_hint_faults_no_scheme_and_no_sweep_promotes() -> None:
    made = plan()
    assert {one.direction for one in made.migrations} == {Direction.demote, Direction.evict}
    assert {one.visit for one in made.sweeps} == {Visit.demote, Visit.age}
    (hinted,) = made.hint_faults
    assert (hinted.node, hinted.sources, hinted.rate_max_bytes_per_s) == (0, (1,), 200e6)
    # The slow node is watched too: its sensors say what is hot there.
    assert made.nodes == (0, 1)
    assert {one.node for one in made.sensors} == {0, 1}


def test_the_limit_is_the_least_of_all_nodes_and_is_set_first() -> None:
    made = plan(replace(HINTED, rate_max_bytes_per_s=20_000_000))
    assert settings(made) == {PROMOTE_RATE_LIMIT: "19", NUMA_BALANCING: "2"}
    assert [knob.path for knob in made.knobs][-2:] == [PROMOTE_RATE_LIMIT, NUMA_BALANCING]


def test_a_small_limit_is_not_nothing() -> None:
    made = plan(replace(HINTED, rate_max_bytes_per_s=1_000_000))
    assert settings(made)[PROMOTE_RATE_LIMIT] == "1"


@pytest.mark.parametrize(
    ("sockets", "mode", "wanted"),
    [(1, 0, "2"), (1, 1, "2"), (1, 3, "3"), (2, 0, "2"), (2, 1, "3"), (2, 3, "3")],
)
def test_the_bit_for_several_sockets_stays_where_there_are_several(
    sockets: int, mode: int, wanted: str
) -> None:
    topology = TWO if sockets == 1 else machine((0, 1), (2, 3), far=frozenset({(0, 3), (1, 2)}))
    found = replace(FOUND, mode=mode, fast_nodes=frozenset(topology.tiers[0].nodes))
    assert settings(plan(found=found, topology=topology))[NUMA_BALANCING] == wanted


def test_three_tiers_have_a_middle_node_that_only_demotes() -> None:
    made = plan(topology=machine((0,), (1,), (2,)))
    assert [one.id for one in made.of_regions] == ["demote-0-1", "demote-1-2", "evict-2"]
    assert [one.node for one in made.hint_faults] == [0]


def test_the_slowest_node_still_evicts_to_swap() -> None:
    made = policy.plan(TWO, ALL, HINTED, numa_balancing=FOUND, swaps=True)
    assert "evict-1" in {one.id for one in made.migrations}


NO_CPUS = replace(TWO, nodes=tuple(replace(node, cpus=()) for node in TWO.nodes))


@pytest.mark.parametrize(
    ("found", "topology", "said"),
    [
        (None, TWO, "built without CONFIG_NUMA_BALANCING"),
        (replace(FOUND, limits_rate=False), TWO, "promote_rate_limit_MBps is missing"),
        (replace(FOUND, fast_nodes=frozenset({0, 1})), TWO, "takes node 1 for fast memory"),
        (FOUND, NO_CPUS, "node 0 of the fastest tier has no processors"),
    ],
)
def test_what_cannot_be_is_refused_and_auto_falls_back(
    found: NumaBalancing | None, topology: Topology, said: str
) -> None:
    with pytest.raises(Unsupported, match=said) as caught:
        plan(found=found, topology=topology)
    assert "promoter: damon" in caught.value.hint
    promotes = found and replace(found, mode=2)
    made = plan(AUTO, promotes, topology)
    assert made.promoter.promoter is Promoter.damon
    assert not settings(made)
    if found is not None:
        assert said in made.promoter.reason


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_auto_takes_what_the_operator_has_set(mode: int) -> None:
    made = plan(AUTO, replace(FOUND, mode=mode))
    assert made.promoter.hints == (mode in (2, 3))
    assert "kernel.numa_balancing" in made.promoter.reason
    if made.promoter.hints:
        assert settings(made)[NUMA_BALANCING] == str(mode), "the mode stays as it is"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (replace(AUTO, tuner=Tuner.emulated), "makes no room"),
        (replace(AUTO, shares=(ShareClass("a", ("/a",)),)), "every cgroup alike"),
    ],
)
def test_auto_is_damon_where_hint_faults_would_break_another_setting(
    config: Config, said: str
) -> None:
    made = plan(config, replace(FOUND, mode=2))
    assert not made.promoter.hints
    assert said in made.promoter.reason


def test_observe_counts_both_ways_and_changes_nothing() -> None:
    made = plan(replace(HINTED, mode=Mode.observe))
    assert {one.direction for one in made.migrations} == set(Direction)
    assert not made.hint_faults
    assert not settings(made)


def test_cgroup_classes_limit_only_what_goes_down_and_the_plan_says_so() -> None:
    classes = (CgroupClass("a", CgroupMode.exclude, ("/a",)),)
    assert any("every cgroup" in text for text in plan(replace(HINTED, cgroups=classes)).degraded)


def tiers(*listed: tuple[int, ...]) -> tuple[Tier, ...]:
    return tuple(Tier(f"memory_tier{rank}", rank, nodes) for rank, nodes in enumerate(listed))


@pytest.mark.parametrize(
    ("listed", "cpus", "fast"),
    [
        (tiers((0,), (1,)), {0}, {0}),
        (tiers((0, 1)), {0}, {0, 1}),
        (tiers((2,), (0,), (1,)), {0}, {0, 2}),
        (tiers((0,), (1,)), {0, 1}, {0, 1}),
        (tiers((0,)), {0}, {0, 1}),
        ((), {0}, {0, 1}),
    ],
)
def test_fast_nodes_are_those_of_the_kernel(
    listed: tuple[Tier, ...], cpus: set[int], fast: set[int]
) -> None:
    """A node without a tier counts as fast (node_is_toptier())."""
    known = {node for tier in listed for node in tier.nodes} | {0, 1}
    assert fast_nodes(listed, known, frozenset(cpus)) == fast
