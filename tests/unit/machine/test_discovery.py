import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures import machines
from tests.fixtures.machines import TextSysfs
from tests.fixtures.machines.made import BLOCK_BYTES, MadeNode, make
from tierd.configuration.config import Config
from tierd.errors import ConfigError, ExitCode, TierdError, Unsupported
from tierd.machine.discovery import discover, survey
from tierd.machine.override import override_errors, suggest_override
from tierd.planning import plan_here
from tierd.plans.plan import Plan
from tierd.ranges import Range, intersect, total_bytes
from tierd.sim import machine_model
from tierd.sysfs import RealSysfs, SysfsError
from tierd.topology import EmptyNode


def blocks(first: int, last: int) -> Range:
    """Return the range from the start of block `first` to the end of block `last`."""
    return Range(first * BLOCK_BYTES, (last + 1) * BLOCK_BYTES)


TWO = (
    MadeNode(0, (0, 1, 2, 3), cpus="0-3", distances="10 20"),
    MadeNode(1, (4, 5, 6, 7, 8, 9), distances="20 10"),
)
TWO_TIERS = {"memory_tier4": "0", "memory_tier22": "1"}


def test_a_plain_machine() -> None:
    machine = discover(make(TWO, TWO_TIERS), None)
    assert [tier.name for tier in machine.tiers] == ["memory_tier4", "memory_tier22"]
    assert [tier.rank for tier in machine.tiers] == [0, 1]
    assert machine.page_bytes == 4096
    assert machine.node(0).cpus == (0, 1, 2, 3)
    assert machine.node(0).ranges == (blocks(0, 3),)
    assert machine.node(1).ranges == (blocks(4, 9),)
    assert machine.node(1).size_bytes == 6 * BLOCK_BYTES
    assert machine.node(1).tier_origin == "the kernel's memory_tier22"


def test_tiers_are_ordered_by_number_not_by_name() -> None:
    nodes = [MadeNode(i, (i,), distances="10 10 10 10") for i in range(4)]
    tiers = {"memory_tier4": "0", "memory_tier100": "3", "memory_tier22": "2", "memory_tier0": "1"}
    machine = discover(make(nodes, tiers), None)
    assert [tier.nodes for tier in machine.tiers] == [(1,), (0,), (2,), (3,)]


def test_a_node_without_memory_is_none_of_ours() -> None:
    machine = discover(make(three(MadeNode(2, (), cpus="4-7")), TWO_TIERS), None)
    assert [n.id for n in machine.nodes] == [0, 1]
    assert [(n.id, n.cpus, n.offline_bytes) for n in machine.empty_nodes] == [(2, (4, 5, 6, 7), 0)]


ROWS = ("10 20 30", "20 10 30", "30 30 10")


def three(third: MadeNode) -> tuple[MadeNode, ...]:
    return tuple(replace(n, distances=d) for n, d in zip((*TWO, third), ROWS, strict=True))


def test_holes_and_offline_blocks_are_left_out() -> None:
    slow = MadeNode(1, (4, 5, 8, 9, 10), distances="20 10", offline=(9,))
    machine = discover(make((TWO[0], slow), TWO_TIERS), None)
    assert machine.node(1).ranges == (blocks(4, 5), blocks(8, 8), blocks(10, 10))


def test_interleaved_nodes_get_each_their_own_blocks() -> None:
    even = MadeNode(0, (0, 2, 4), cpus="0", distances="10 20")
    odd = MadeNode(1, (1, 3, 5), distances="20 10")
    machine = discover(make((even, odd), TWO_TIERS), None)
    assert machine.node(0).ranges == (blocks(0, 0), blocks(2, 2), blocks(4, 4))
    assert machine.node(1).ranges == (blocks(1, 1), blocks(3, 3), blocks(5, 5))


def test_a_block_shared_by_two_nodes_is_split_where_their_zones_meet() -> None:
    # Both nodes list block 4. The zone of node 0 ends in its middle, and that of node 1 begins.
    border = 4 * BLOCK_BYTES + BLOCK_BYTES // 2
    made = make(TWO, TWO_TIERS)
    zones = str(made.files["proc/zoneinfo"])
    zones = zones.replace("spanned  131072", f"spanned  {border // 4096}")
    zones = zones.replace("start_pfn:           131072", f"start_pfn:           {border // 4096}")
    zones = zones.replace("spanned  196608", f"spanned  {(10 * BLOCK_BYTES - border) // 4096}")
    shared = replace(
        made,
        files={**made.files, "proc/zoneinfo": zones},
        folders=made.folders | {"sys/devices/system/node/node0/memory4"},
    )
    machine = discover(shared, None)
    assert machine.node(0).ranges == (Range(0, border),)
    assert machine.node(1).ranges == (Range(border, 10 * BLOCK_BYTES),)


def test_without_block_files_zones_split_the_ram() -> None:
    machine = discover(make(TWO, TWO_TIERS, block_files=False), None)
    assert machine.node(0).ranges == (blocks(0, 3),)
    assert machine.node(1).ranges == (blocks(4, 9),)


def test_without_block_files_interleaved_nodes_are_refused() -> None:
    even = MadeNode(0, (0, 2, 4), cpus="0", distances="10 20")
    odd = MadeNode(1, (1, 3, 5), distances="20 10")
    with pytest.raises(Unsupported, match="nodes 0 and 1 overlaps at 0x8000000") as caught:
        discover(make((even, odd), TWO_TIERS, block_files=False), None)
    assert "CONFIG_MEMORY_HOTPLUG" in caught.value.hint


def test_what_cannot_be_read_is_an_error_not_an_absence() -> None:
    made = make(TWO, TWO_TIERS)
    unreadable = replace(made, refused=frozenset({"sys/devices/system/memory/block_size_bytes"}))
    with pytest.raises(SysfsError) as caught:
        discover(unreadable, None)
    assert caught.value.exit_code is ExitCode.not_permitted
    for path in made.files:
        if path.endswith(("distance", "meminfo", "cpulist", "state", "zoneinfo", "nodelist")):
            files = {key: text for key, text in made.files.items() if key != path}
            with pytest.raises(TierdError):
                discover(replace(made, files=files), None)


def test_a_node_whose_memory_lies_nowhere_is_an_error() -> None:
    slow = replace(TWO[1], offline=TWO[1].blocks)
    made = make((TWO[0], slow), TWO_TIERS)
    nowhere = {
        **made.files,
        "sys/devices/system/node/has_memory": "0-1\n",
        "sys/devices/system/node/node1/meminfo": "Node 1 MemTotal: 1024 kB\n",
    }
    with pytest.raises(TierdError, match="node 1 has memory, but no physical address"):
        discover(replace(made, files=nowhere), None)


def test_a_node_that_came_meanwhile_is_noticed() -> None:
    made = make(TWO, TWO_TIERS)
    folder = "sys/devices/system/node/node1"
    with pytest.raises(TierdError, match="3 distances for 2 nodes"):
        discover(replace(made, files={**made.files, f"{folder}/distance": "20 10 20\n"}), None)
    with pytest.raises(TierdError, match="no MemTotal"):
        discover(replace(made, files={**made.files, f"{folder}/meminfo": "\n"}), None)


@st.composite
def made_machines(draw: st.DrawFn) -> tuple[TextSysfs, tuple[MadeNode, ...]]:
    count = draw(st.integers(1, 8))
    owners = draw(st.lists(st.integers(-1, count - 1), min_size=1, max_size=24))
    nodes = tuple(
        MadeNode(
            node_id,
            tuple(block for block, owner in enumerate(owners) if owner == node_id),
            cpus=str(node_id) if draw(st.booleans()) else "",
            offline=tuple(draw(st.sets(st.integers(0, 23), max_size=4))),
        )
        for node_id in range(count)
    )
    with_memory = [n.id for n in nodes if n.online]
    tiers = {f"memory_tier{4 + 9 * (i % 4)}": "" for i in with_memory}
    for name in tiers:
        tiers[name] = ",".join(
            str(i) for i in with_memory if f"memory_tier{4 + 9 * (i % 4)}" == name
        )
    return make(nodes, tiers), nodes


@given(made_machines())
def test_every_online_block_belongs_to_its_node_and_no_other(
    made: tuple[TextSysfs, tuple[MadeNode, ...]],
) -> None:
    sysfs, nodes = made
    if not any(n.online for n in nodes):
        with pytest.raises(TierdError):
            survey(sysfs, None)
        return
    machine = survey(sysfs, None)
    assert [n.id for n in machine.nodes] == [n.id for n in nodes if n.online]
    for seen in machine.nodes:
        owned = {
            block
            for part in seen.ranges
            for block in range(part.start // BLOCK_BYTES, -(-part.end // BLOCK_BYTES))
        }
        assert owned == set(nodes[seen.id].online)
        assert total_bytes(seen.ranges) == seen.size_bytes


# One tier, and `tiers:` in the configuration.
def test_one_tier_says_what_it_would_take() -> None:
    one_tier = make(TWO, {"memory_tier4": "0-1"})
    with pytest.raises(Unsupported) as caught:
        discover(one_tier, None)
    assert caught.value.exit_code is ExitCode.unsupported
    assert str(caught.value) == (
        "all memory is in one tier (memory_tier4: nodes 0-1); tierd needs at least two tiers"
    )
    assert caught.value.hint == (
        "node 1 has no CPUs: if they are slower, add this to the configuration: `tiers: [[0], [1]]`"
    )
    assert len(survey(one_tier, None).tiers) == 1


def test_the_suggested_override_is_accepted() -> None:
    one_tier = make(TWO, {"memory_tier4": "0-1"})
    found = suggest_override(survey(one_tier, None))
    assert found is not None
    machine = discover(one_tier, found[1])
    assert [tier.name for tier in machine.tiers] == ["override0", "override1"]
    assert machine.node(1).tier_origin == "tier 1 of the override (the kernel's memory_tier4)"


def test_latencies_speak_before_cpus() -> None:
    nodes = (replace(TWO[0], latency_ns=300), replace(TWO[1], latency_ns=60))
    found = suggest_override(survey(make(nodes, {"memory_tier4": "0-1"}), None))
    assert found == (
        "firmware's latencies differ (node 0: 300 ns, node 1: 60 ns)",
        ((1,), (0,)),
    )


def test_hints_for_machines_that_cannot_be_split() -> None:
    alike = (TWO[0], replace(TWO[1], cpus="4-7"))
    with pytest.raises(Unsupported) as caught:
        discover(make(alike, {"memory_tier4": "0-1"}), None)
    assert "do not differ" in caught.value.hint
    assert "tiers: [[0], [1]]" in caught.value.hint
    with pytest.raises(Unsupported) as caught:
        discover(make([MadeNode(0, (0, 1), cpus="0")], {"memory_tier4": "0"}), None)
    assert "memory on one node only" in caught.value.hint


def test_the_hint_names_offline_memory() -> None:
    slow = replace(TWO[1], offline=TWO[1].blocks)
    with pytest.raises(Unsupported) as caught:
        discover(make((TWO[0], slow), {"memory_tier4": "0"}), None)
    assert "memory is offline on node 1 (768 MiB)" in caught.value.hint
    assert "one node only" not in caught.value.hint


def test_a_kernel_without_tiers_needs_an_override() -> None:
    bare = make(TWO, {})
    with pytest.raises(Unsupported, match="the kernel shows no memory tiers"):
        discover(bare, None)
    machine = discover(bare, ((0,), (1,)))
    assert machine.node(0).tier_origin == "tier 0 of the override (in no tier of the kernel)"


def test_a_kernel_without_nodes_is_refused() -> None:
    with pytest.raises(Unsupported, match="has no NUMA nodes") as caught:
        discover(TextSysfs({}), None)
    assert "CONFIG_NUMA" in caught.value.hint


def test_an_override_may_leave_a_node_out() -> None:
    nodes = tuple(MadeNode(i, (i,), distances=row) for i, row in enumerate(ROWS))
    machine = discover(make(nodes, {"memory_tier4": "0-2"}), ((0,), (2,)))
    assert [n.id for n in machine.nodes] == [0, 1, 2]
    assert machine.tier_of(1) is None
    assert machine.node(1).tier_origin == "left out by the override (the kernel's memory_tier4)"


def test_an_impossible_override_is_refused_with_every_error() -> None:
    machine = make(three(MadeNode(2, (), cpus="4")), TWO_TIERS)
    with pytest.raises(ConfigError) as caught:
        discover(machine, ((0, 7), (), (2, 0)))
    assert caught.value.exit_code is ExitCode.config
    assert str(caught.value) == (
        "tiers: [[0, 7], [], [2, 0]]: "
        "node 7 does not exist, expected nodes with memory: 0-1; "
        "tier 1 is empty, expected the ids of its nodes; "
        "node 2 has no memory online, expected nodes with memory: 0-1; "
        "node 0 is given twice, expected each node once"
    )
    assert "has_memory" in caught.value.hint


@pytest.mark.parametrize("override", [(), ((0, 1),)])
def test_an_override_takes_two_tiers(override: tuple[tuple[int, ...], ...]) -> None:
    assert override_errors(override, (0, 1), (0, 1)) == (
        "expected at least two tiers, fastest first, as in [[0], [1]]",
    )


# Captured machines compared with the shapes that were booted.
SHAPES = {path.stem: path for path in (machines.HERE / "shapes").glob("*.json")}
BOOTED = [n for n in machines.names() if n.rpartition("-")[0] in (*machine_model.names(), *SHAPES)]


@pytest.mark.parametrize("name", BOOTED)
def test_a_captured_machine_is_the_one_that_was_booted(name: str) -> None:
    shape = name.rpartition("-")[0]
    booted = (
        machine_model.parse(shape, SHAPES[shape].read_text())
        if shape in SHAPES
        else machine_model.load(shape)
    )
    seen = survey(machines.load(name).sysfs, None)
    assert tuple((tier.name, tier.nodes) for tier in seen.tiers) == booted.tiers
    for node, made in zip(seen.nodes, booted.nodes, strict=True):
        assert (node.id, node.cpus) == (made.id, made.cpus)
        assert tuple(distance for _, distance in node.distances) == booted.distances[node.id]
        # Firmware reserves some pages of the first MiB and of the end.
        assert node.size_bytes <= total_bytes(node.ranges) <= made.size_mib << 20
        if made.latency_ns is None:
            assert node.performance is node.cpu_performance is None
            assert node.initiators == ()
        else:
            assert node.performance is not None
            assert node.performance.read_latency_ns == made.latency_ns
            assert node.performance.write_bandwidth_mbps == made.bandwidth_mbps
            assert node.initiators == (made.initiator,)
            assert node.cpu_performance == node.performance


@pytest.mark.parametrize("name", machines.names())
def test_a_service_without_capabilities_plans_as_root_does(name: str, tmp_path: Path) -> None:
    as_root = machines.load(name).sysfs
    iomem = as_root.read("proc/iomem")
    assert re.search(r"^[0-9a-f]*[1-9a-f]", iomem, re.MULTILINE), "captured without addresses"
    # r_show() prints zeros without CAP_SYS_ADMIN.
    zeroed = re.sub(r"^( *)[0-9a-f]+-[0-9a-f]+", r"\g<1>00000000-00000000", iomem, flags=re.M)
    as_unit = replace(as_root, files={**as_root.files, "proc/iomem": f"{zeroed}\n"})
    config = Config(tiers=((0,), (1,))) if name.startswith("one-tier") else Config()
    plans: list[Plan | str] = []
    for folder, sysfs in (("root", as_root), ("unit", as_unit)):
        machines.unpack(sysfs, tmp_path / folder)
        try:
            plans.append(plan_here(RealSysfs(tmp_path / folder), config))
        except Unsupported as error:
            assert name.startswith("slow-offline")
            plans.append(str(error))
    assert plans[0] == plans[1]


@pytest.mark.parametrize("series", ["6.12", "7.2"])
def test_two_sockets_pair_each_with_its_own(series: str) -> None:
    seen = discover(machines.load(f"two-socket-{series}").sysfs, None)
    assert [seen.demotion_targets(i) for i in range(4)] == [(2,), (3,), (), ()]
    assert [seen.promotion_targets(i) for i in range(4)] == [(), (), (0,), (1,)]


@pytest.mark.parametrize("series", ["6.12", "7.2"])
def test_one_tier_is_refused_and_its_hint_works(series: str) -> None:
    sysfs = machines.load(f"one-tier-{series}").sysfs
    with pytest.raises(Unsupported) as caught:
        discover(sysfs, None)
    assert "tiers: [[0], [1]]" in caught.value.hint
    assert discover(sysfs, ((0,), (1,))).demotion_targets(0) == (1,)


def test_blocks_that_a_kernel_set_offline_are_left_out() -> None:
    whole = discover(machines.load("two-tier-7.2").sysfs, None).node(1).ranges
    holed = discover(machines.load("holes-7.2").sysfs, None).node(1).ranges
    # The kernel's own memory is at another place in each machine, so only these blocks are
    # compared.
    for offline in (blocks(6, 7), blocks(9, 9)):
        assert not intersect((offline,), holed)
        assert intersect((offline,), whole)


def test_a_slow_node_that_is_wholly_offline() -> None:
    sysfs = machines.load("slow-offline-7.2").sysfs
    assert survey(sysfs, None).empty_nodes == (EmptyNode(1, (), 1 << 30),)
    with pytest.raises(Unsupported) as caught:
        discover(sysfs, None)
    assert "memory is offline on node 1 (1 GiB)" in caught.value.hint
    with pytest.raises(ConfigError, match="node 1 has no memory online"):
        discover(sysfs, ((0,), (1,)))


@pytest.mark.parametrize("name", ["two-tier-6.12", "eight-nodes-7.2"])
def test_files_below_a_root_show_the_same_machine(name: str, tmp_path: Path) -> None:
    sysfs = machines.load(name).sysfs
    machines.unpack(sysfs, tmp_path)
    assert survey(RealSysfs(tmp_path), None) == survey(sysfs, None)
