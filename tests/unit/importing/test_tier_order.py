"""Which nodes are fast and which are slow, by where a policy moves memory."""

import pytest

from tests.unit.importing.policies import Json, down, of, of_command, told, up, values, without_goal
from tierd.importing.remarks import Kind


# The options of contexts on named nodes, and the tiers; None if they are left to the kernel.
def contexts(*ways: tuple[int, str, int]) -> str:
    options = [
        f"--numa_node {source} --damos_action migrate_{how} {to}" for source, how, to in ways
    ]
    ones = " ".join("1" for _ in ways)
    return f"{' '.join(options)} --nr_targets {ones} --nr_schemes {ones} --nr_ctxs {ones}"


@pytest.mark.parametrize(
    ("ways", "tiers"),
    [
        ([(0, "cold", 1), (1, "hot", 0)], "[[0], [1]]"),
        ([(0, "cold", 1)], "[[0], [1]]"),
        ([(1, "hot", 0)], "[[0], [1]]"),
        ([(0, "hot", 1), (1, "cold", 0)], "[[1], [0]]"),
        ([(0, "cold", 2), (1, "cold", 3), (2, "hot", 0), (3, "hot", 1)], "[[0, 1], [2, 3]]"),
        ([(0, "cold", 1), (1, "cold", 2), (2, "hot", 1), (1, "hot", 0)], "[[0], [1], [2]]"),
        ([(0, "cold", 1), (1, "cold", 2), (0, "cold", 2)], "[[0], [1], [2]]"),
        ([(0, "cold", 1), (1, "cold", 0)], None),
        ([(0, "cold", 0)], None),
    ],
)
def test_tiers_by_where_memory_goes(ways: list[tuple[int, str, int]], tiers: str | None) -> None:
    document = of_command(contexts(*ways))
    assert values(document).get("tiers") == tiers
    if tiers is None:
        one = told(document, "the policy does not say which nodes")
        assert (one.kind, one.setting) == (Kind.changed, "tiers")


def test_a_way_that_skips_a_tier() -> None:
    ways = [(0, "cold", 1), (1, "cold", 2), (0, "cold", 2)]
    assert told(of_command(contexts(*ways)), "skips a tier").kind is Kind.changed


@pytest.mark.parametrize(
    ("made", "tiers"),
    [
        ([without_goal(down(), 1), without_goal(up(), 0)], "[[0], [1]]"),
        # Node 0 is named by the goal.
        ([down(), up()], "[[0], [1]]"),
        ([down()], "[[0], [1]]"),
        # Only the target is known.
        ([without_goal(down(), 1)], None),
        ([without_goal(up(), 0)], None),
        # One of two demotions may come from a node that gets nothing.
        ([without_goal(down(), 2), without_goal(down(), 2), without_goal(up(), 0)], None),
        # Node 1 is both a target of promotion and of demotion.
        ([without_goal(down(), 1), without_goal(up(), 1)], None),
        # Node 0 is demoted from, but nothing is promoted to it.
        ([down(), without_goal(up(), 2)], None),
    ],
)
def test_tiers_of_a_file_without_nodes(made: list[Json], tiers: str | None) -> None:
    assert values(of(*made)).get("tiers") == tiers
