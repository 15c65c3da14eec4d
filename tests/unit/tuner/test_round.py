"""What a round knows of a node that memory is promoted to."""

from dataclasses import replace

import pytest

from tests.fixtures.readings import DOWN, LIMITS, MIB, RATE, SWEEP, UP, migration, reading
from tierd.plans.plan import Direction, Migration
from tierd.plans.visits import LONG_ROUND_S, VISITED_PER_RATE
from tierd.tuner.habit import Habit
from tierd.tuner.heat import Heat
from tierd.tuner.measurement import NodeMeasurement
from tierd.tuner.round import FastNode, fast_nodes

# Node 2 promotes to node 1, as in three tiers, or to node 0 besides, as below two sockets.
LAST_UP = migration(Direction.promote, 2, 1)
BESIDE = migration(Direction.promote, 2, 0)


@pytest.mark.parametrize(
    ("migrations", "node", "above_mib"),
    [
        pytest.param((UP, DOWN), 0, 10, id="two tiers"),
        pytest.param((UP, LAST_UP), 0, 10, id="three tiers, the fastest"),
        pytest.param((LAST_UP, UP), 1, 30, id="three tiers, the middle"),
        pytest.param((LAST_UP, BESIDE), 1, 20, id="two sockets"),
    ],
)
def test_the_heat_above_is_that_of_the_node_and_of_where_its_memory_goes_up_to(
    migrations: tuple[Migration, ...], node: int, above_mib: int
) -> None:
    nodes = {
        number: NodeMeasurement(512 * MIB, 0, 0, heat_bytes=(number + 1) * 10 * MIB)
        for number in range(3)
    }
    seen = replace(reading(), nodes=nodes)
    limits = replace(LIMITS, migrations=migrations)
    known = FastNode(node, nodes[node], (), (), seen, limits, 0.0)
    assert known.heat_above_bytes == above_mib * MIB


@pytest.mark.parametrize(("rounds", "goes"), [(0.9, True), (1.1, False)])
@pytest.mark.parametrize("times", [1, 4])
def test_visits_make_room_where_a_round_at_twice_the_rate_is_short(
    rounds: float, goes: bool, times: int
) -> None:
    """However fast the sweep is: one that is faster is closed more of the time."""
    round_bytes = int(rounds * LONG_ROUND_S * VISITED_PER_RATE * RATE)
    quota_bytes = int(times * VISITED_PER_RATE * RATE / 10)
    sweep = replace(SWEEP, quota_bytes=quota_bytes, round_bytes=round_bytes, samples_per_s=1.0)
    limits = replace(LIMITS, sweeps=(sweep,))
    habits = {one.id: Habit(0.1) for one in (UP, DOWN)}
    heats = dict.fromkeys((0, 1), Heat(0, 0.0, 0.0))
    (node,) = fast_nodes(reading(), limits, habits, heats, 0.0, {})
    assert node.goes_by_page({1: round_bytes}) is goes


@pytest.mark.parametrize(
    ("total_bytes", "cold_bytes", "share"),
    [
        pytest.param(512 * MIB, 128 * MIB, 0.25, id="a quarter is cold"),
        pytest.param(512 * MIB, None, None, id="no sensor counts it"),
        pytest.param(0, 0, None, id="all memory is unplugged"),
    ],
)
def test_the_cold_share_is_known_only_where_there_is_memory(
    total_bytes: int, cold_bytes: int | None, share: float | None
) -> None:
    now = NodeMeasurement(total_bytes, 0, 0, cold_bytes=cold_bytes)
    seen = replace(reading(), nodes={0: now})
    node = FastNode(0, now, (), (), seen, LIMITS, 0.0)
    assert node.cold_share == share
