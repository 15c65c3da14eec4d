"""What a node's schemes may move, and visits may cost: as configured, or by the machine."""

from dataclasses import replace

import pytest

from tests.fixtures.tiers import machine
from tierd import policy
from tierd.configuration.config import Config
from tierd.machine.features import Capabilities, Feature
from tierd.plans.plan import Direction
from tierd.plans.rates import COST_BP_MIN, RATE_MIN_BYTES_PER_S, cost_bp, rate
from tierd.topology import EmptyNode, Performance, Topology
from tierd.views import planned

GB = 1000**3
ALL = Capabilities(frozenset(Feature))


def sized(fast_bytes: int, *, mbps: int | None = None, fast: int = 1) -> Topology:
    """Return a machine of equal fast nodes and one slow node, with a bandwidth if it is told."""
    made = machine(tuple(range(fast)), (fast,))
    told = Performance(100, 100, mbps, mbps) if mbps is not None else None
    nodes = (
        *(replace(node, size_bytes=fast_bytes) for node in made.nodes[:-1]),
        replace(made.nodes[-1], performance=told),
    )
    return replace(made, nodes=nodes)


def up(topology: Topology, config: Config | None = None) -> tuple[float, str]:
    slow = topology.nodes[-1]
    targets = topology.promotion_targets(slow.id)
    found = rate(topology, config or Config(), Direction.promote, slow, targets)
    return found.bytes_per_s, found.because


def down(topology: Topology) -> tuple[float, str]:
    targets = topology.demotion_targets(0)
    found = rate(topology, Config(), Direction.demote, topology.node(0), targets)
    return found.bytes_per_s, found.because


@pytest.mark.parametrize("fast_bytes", [GB // 2, 4 * GB, 80 * GB])
def test_small_machines_have_one_rate(fast_bytes: int) -> None:
    assert up(sized(fast_bytes)) == down(sized(fast_bytes)) == (RATE_MIN_BYTES_PER_S, "")


def test_the_rate_of_a_large_machine_grows_with_its_fast_node() -> None:
    assert up(sized(400 * GB)) == (GB, "0.25% of node 0 per second")
    assert down(sized(400 * GB)) == (GB, "0.25% of node 0 per second")


def test_it_leaves_most_of_the_bandwidth_of_the_slow_node() -> None:
    bound = sized(400 * GB, mbps=10_000)
    assert up(bound) == down(bound) == (GB / 2, "5% of the bandwidth of node 1")
    assert up(sized(400 * GB, mbps=60_000)) == (GB, "0.25% of node 0 per second")


def test_a_low_bandwidth_does_not_make_it_slower_than_a_small_machine() -> None:
    assert up(sized(400 * GB, mbps=1_000))[0] == RATE_MIN_BYTES_PER_S


@pytest.mark.parametrize("mbps", [None, 0])
def test_a_bandwidth_that_is_not_told_is_no_bound(mbps: int | None) -> None:
    assert up(sized(400 * GB, mbps=mbps))[0] == GB


def test_each_of_several_fast_nodes_has_its_own_rate() -> None:
    twins = sized(400 * GB, fast=2)
    assert up(twins) == (2 * GB, "0.25% of node 0 and 1 per second")
    assert down(twins) == (GB, "0.25% of node 0 per second")
    rates = {
        one.id: one.rate_max_bytes_per_s for one in policy.plan(twins, ALL, Config()).migrations
    }
    assert rates["promote-2-0"] == rates["promote-2-1"] == rates["demote-0-2"] == GB


def test_the_configuration_wins_at_every_size() -> None:
    for fast_bytes in (GB // 2, 4000 * GB):
        asked = Config(rate_max_bytes_per_s=20_000_000)
        assert up(sized(fast_bytes, mbps=1), asked) == (20_000_000, "")


def test_the_plan_says_where_a_rate_comes_from() -> None:
    large, small = (policy.plan(sized(size), ALL, Config()) for size in (400 * GB, 4 * GB))
    told = [one.reason for one in large.of_regions if one.direction is not Direction.evict]
    assert all("at most 1 GB/s (0.25% of node 0 per second)" in one for one in told)
    assert all("at most 200 MB/s," in one.reason for one in small.of_regions)


@pytest.mark.parametrize(
    ("cpus", "expected_bp"), [(2, COST_BP_MIN), (20, COST_BP_MIN), (64, 640), (2000, 10_000)]
)
def test_visits_may_cost_more_where_there_are_many_processors(cpus: int, expected_bp: int) -> None:
    made = machine((0,), (1,))
    nodes = (
        replace(made.nodes[0], cpus=tuple(range(cpus // 2))),
        *(replace(node, cpus=()) for node in made.nodes[1:]),
    )
    # A socket without memory of its own has processors too.
    socket = EmptyNode(2, tuple(range(cpus // 2, cpus)), 0)
    topology = replace(made, nodes=nodes, empty_nodes=(socket,))
    assert cost_bp(topology, Config()) == expected_bp
    assert cost_bp(topology, Config(cost_bp=0)) == 0
    assert cost_bp(topology, Config(cost_bp=500)) == 500


@pytest.mark.parametrize(("config", "says"), [(Config(), "2%"), (Config(cost_bp=550), "5.5%")])
def test_the_plan_says_what_visits_may_take(config: Config, says: str) -> None:
    text = " ".join(planned.as_text(policy.plan(sized(4 * GB), ALL, config), 80).split())
    assert f"and visits take at most {says} of a processor in each" in text
    without = planned.as_text(policy.plan(sized(4 * GB), ALL, Config(cost_bp=0)), 80)
    assert "visits take" not in without
