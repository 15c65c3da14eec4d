"""What a round knows of a node that memory is promoted to."""

from dataclasses import replace

import pytest

from tests.fixtures.readings import DOWN, LIMITS, MIB, UP, migration, reading
from tierd.plans.plan import Direction, Migration
from tierd.tuner.measurement import NodeMeasurement
from tierd.tuner.round import FastNode

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
