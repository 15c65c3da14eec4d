from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures import machines
from tests.fixtures.pages import PAGE_BYTES
from tierd.errors import TierdError
from tierd.machine.discovery import survey
from tierd.ranges import Range, intersect, total_bytes
from tierd.topology import FALLBACKS_MAX, Node, Performance, Tier, Topology
from tierd.units import format_ids

SIZE_BYTES = 1 << 30


def node(node_id: int, distances: tuple[int, ...], cpus: tuple[int, ...] = ()) -> Node:
    return Node(
        id=node_id,
        size_bytes=SIZE_BYTES,
        cpus=cpus,
        ranges=(Range(node_id * SIZE_BYTES, (node_id + 1) * SIZE_BYTES),),
        distances=tuple(enumerate(distances)),
        performance=None,
    )


def topology(distances: list[list[int]], tiers: list[list[int]], cpus: set[int]) -> Topology:
    return Topology(
        nodes=tuple(
            node(i, tuple(row), (i,) if i in cpus else ()) for i, row in enumerate(distances)
        ),
        tiers=tuple(
            Tier(f"memory_tier{rank}", rank, tuple(nodes)) for rank, nodes in enumerate(tiers)
        ),
        page_bytes=PAGE_BYTES,
    )


# The three machines in the comment of mm/memory-tiers.c.
def test_two_sockets_demote_each_to_its_own() -> None:
    machine = topology(
        [[10, 20, 30, 40], [20, 10, 40, 30], [30, 40, 10, 40], [40, 30, 40, 10]],
        [[0, 1], [2, 3]],
        {0, 1},
    )
    assert [machine.demotion_targets(i) for i in range(4)] == [(2,), (3,), (), ()]
    assert [machine.promotion_targets(i) for i in range(4)] == [(), (), (0,), (1,)]


def test_one_tier_demotes_nowhere() -> None:
    machine = topology([[10, 20, 30], [20, 10, 30], [30, 30, 10]], [[0, 1, 2]], {0, 1})
    assert [machine.demotion_targets(i) for i in range(3)] == [(), (), ()]
    assert [machine.promotion_targets(i) for i in range(3)] == [(), (), ()]


def test_a_middle_tier_has_both_neighbours() -> None:
    machine = topology([[10, 20, 30], [20, 10, 40], [30, 40, 10]], [[1], [0], [2]], {0})
    assert [machine.demotion_targets(i) for i in range(3)] == [(2,), (0,), ()]
    assert [machine.promotion_targets(i) for i in range(3)] == [(1,), (), (0,)]


def test_every_node_at_the_least_distance_is_preferred() -> None:
    machine = topology(
        [[10, 20, 20, 30], [20, 10, 20, 20], [20, 20, 10, 20], [30, 20, 20, 10]],
        [[0], [1, 2, 3]],
        {0},
    )
    assert machine.demotion_targets(0) == (1, 2)


def test_a_node_with_cpus_or_below_the_source_counts_as_further() -> None:
    # From node 2, node 0 is at 20. It has CPUs and is below, which makes it 22. Node 3 is at 21.
    machine = topology(
        [[10, 20, 20, 20], [20, 10, 20, 20], [20, 20, 10, 21], [20, 20, 21, 10]],
        [[2], [0, 3]],
        {0},
    )
    assert machine.demotion_targets(2) == (3,)


def test_each_socket_falls_back_to_the_other_one() -> None:
    machine = topology(
        [[10, 20, 30, 40], [20, 10, 40, 30], [30, 40, 10, 40], [40, 30, 40, 10]],
        [[0, 1], [2, 3]],
        {0, 1},
    )
    assert [machine.demotion_fallbacks(i) for i in range(4)] == [(3,), (2,), (), ()]
    assert [machine.promotion_fallbacks(i) for i in range(4)] == [(), (), (1,), (0,)]


def test_a_node_falls_back_by_one_distance_and_to_few_nodes() -> None:
    """Sockets 0 to 3 have a slow node each: 4 to 7. So has a fifth one, which is far away."""
    near = [[10 if a == b else 20 for b in range(4)] for a in range(4)]
    slow = [[14 if a == b else 24 for b in range(4)] for a in range(4)]
    rows = [[*near[a], *slow[a], 50] for a in range(4)]
    rows += [[*slow[a], *(10 if a == b else 28 for b in range(4)), 50] for a in range(4)]
    machine = topology([*rows, [50] * 8 + [10]], [[0, 1, 2, 3], [4, 5, 6, 7, 8]], {0, 1, 2, 3})
    found = [machine.demotion_fallbacks(i) for i in range(4)]
    # Each slow node is the fallback of as many.
    assert found == [(5, 6), (6, 7), (7, 4), (4, 5)]
    assert {len(one) for one in found} == {FALLBACKS_MAX}
    assert machine.promotion_fallbacks(4) == (1, 2)
    assert machine.promotion_targets(8) == (0, 1, 2, 3)
    assert machine.promotion_fallbacks(8) == ()


@pytest.mark.parametrize(
    ("fast_ns", "slow_ns", "found"),
    [(100, 250, (1,)), (60, 100, ()), (None, 100, (1,)), (100, None, (1,))],
    ids=["CXL", "HBM beside DRAM", "unknown", "unknown below"],
)
def test_memory_of_another_socket_must_be_faster_than_slow_memory_of_this_one(
    fast_ns: int | None, slow_ns: int | None, found: tuple[int, ...]
) -> None:
    machine = topology(
        [[10, 20, 14, 24], [20, 10, 24, 14], [14, 24, 10, 28], [24, 14, 28, 10]],
        [[0, 1], [2, 3]],
        {0, 1},
    )
    told = {rank: Performance(ns, ns, 1, 1) for rank, ns in enumerate((fast_ns, slow_ns))}
    nodes = tuple(replace(one, performance=told[one.id // 2]) for one in machine.nodes)
    machine = replace(machine, nodes=nodes)
    assert machine.promotion_fallbacks(2) == found
    assert machine.demotion_fallbacks(0) == (3,)


def test_a_node_left_out_is_nobodys_target() -> None:
    machine = topology([[10, 20, 15], [20, 10, 20], [15, 20, 10]], [[0], [1]], {0})
    assert machine.tier_of(2) is None
    assert machine.demotion_targets(2) == machine.promotion_targets(2) == ()
    assert machine.demotion_targets(0) == (1,)


def test_unknown_nodes_and_distances_are_errors() -> None:
    machine = topology([[10]], [[0]], {0})
    with pytest.raises(TierdError, match="node 7 has no memory"):
        machine.node(7)
    with pytest.raises(TierdError, match="node 0 has no distance to node 7"):
        machine.node(0).distance(7)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    count = draw(st.integers(1, 8))
    ids = draw(st.permutations(range(count)))
    cuts = sorted(draw(st.sets(st.integers(1, count - 1)))) if count > 1 else []
    tiers = [sorted(ids[a:b]) for a, b in zip([0, *cuts], [*cuts, count], strict=True)]
    figure = st.sampled_from([11, 14, 20, 21, 30])
    distances = [[10 if i == j else draw(figure) for j in range(count)] for i in range(count)]
    return topology(distances, tiers, draw(st.sets(st.integers(0, count - 1))))


@given(topologies())
def test_targets_stand_in_the_adjacent_tier(machine: Topology) -> None:
    for source in machine.nodes:
        tier = machine.tier_of(source.id)
        assert tier is not None
        down = {machine.tier_of(t) for t in machine.demotion_targets(source.id)}
        up = {machine.tier_of(t) for t in machine.promotion_targets(source.id)}
        last = tier.rank == len(machine.tiers) - 1
        assert down == (set() if last else {machine.tiers[tier.rank + 1]})
        assert up == (set() if tier.rank == 0 else {machine.tiers[tier.rank - 1]})


@given(topologies())
def test_fallbacks_are_the_next_nearest_of_the_same_tier(machine: Topology) -> None:
    for source in machine.nodes:
        for targets, fallbacks in (
            (machine.demotion_targets(source.id), machine.demotion_fallbacks(source.id)),
            (machine.promotion_targets(source.id), machine.promotion_fallbacks(source.id)),
        ):
            assert not set(targets) & set(fallbacks)
            tiers = {machine.tier_of(one) for one in (*targets, *fallbacks)}
            assert len(tiers) <= 1
            assert len(fallbacks) <= FALLBACKS_MAX
            assert len({source.distance(one) for one in fallbacks}) <= 1
            others = {one for tier in tiers if tier for one in tier.nodes} - {*targets, *fallbacks}
            for one in fallbacks:
                assert all(source.distance(one) <= source.distance(other) for other in others)


@given(topologies())
def test_each_step_down_leads_to_the_slowest_tier(machine: Topology) -> None:
    for source in machine.nodes:
        at, steps = source.id, 0
        while machine.demotion_targets(at):
            at, steps = machine.demotion_targets(at)[0], steps + 1
            assert steps < len(machine.tiers)
        assert machine.tier_of(at) == machine.tiers[-1]


@given(topologies())
def test_preferred_targets_are_equally_near(machine: Topology) -> None:
    for source in machine.nodes:
        preferred = machine.demotion_targets(source.id)
        assert len({source.distance(target) for target in preferred}) <= 1


# What real kernels report.
@pytest.mark.parametrize("name", machines.names())
def test_demotion_targets_are_those_the_kernel_printed(name: str) -> None:
    captured = machines.load(name)
    machine = survey(captured.sysfs, None)
    # After the preferred nodes the kernel prints its fallback nodes. tierd does not need them.
    printed = tuple(line.partition(", fallback")[0] for line in captured.demotion_lines)
    assert printed == tuple(demotion_line(machine, source.id) for source in machine.nodes)


def demotion_line(machine: Topology, source: int) -> str:
    """Return the line that dump_demotion_targets() prints."""
    preferred = machine.demotion_targets(source)
    if not preferred:
        return f"Demotion targets for Node {source}: null"
    return f"Demotion targets for Node {source}: preferred: {format_ids(preferred)}"


def test_the_kernel_itself_counts_cpus_as_distance() -> None:
    # Node 0 is the nearest to node 1, at 20 instead of 21, but the kernel takes the others.
    captured = machines.load("cpu-penalty-7.2")
    machine = survey(captured.sysfs, None)
    assert machine.node(1).distances == ((0, 20), (1, 10), (2, 21), (3, 21))
    assert machine.demotion_targets(1) == (2, 3)
    assert captured.demotion_lines[1].endswith("preferred: 2-3, fallback: 0,2-3")


@pytest.mark.parametrize("name", machines.names())
def test_captured_ranges_are_the_nodes_own_and_hold_its_memory(name: str) -> None:
    machine = survey(machines.load(name).sysfs, None)
    for one, other in combinations(machine.nodes, 2):
        assert not intersect(one.ranges, other.ranges)
    for one in machine.nodes:
        assert total_bytes(one.ranges) >= one.size_bytes
        assert one.distance(one.id) == 10
