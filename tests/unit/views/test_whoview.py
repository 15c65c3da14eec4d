"""The table of cgroups: its order, its width, and what is not known."""

from tierd.machine.process_memory import Active, Estimate, Mapped, Processes, ProcessMemory
from tierd.machine.residents import Resident, Residents
from tierd.topology import Node, Tier, Topology
from tierd.views import processview, whoview

MIB = 1 << 20


def node(number: int) -> Node:
    return Node(number, 1000 * MIB, (), (), ((0, 10), (1, 20)), None)


TOPOLOGY = Topology((node(0), node(1)), (Tier("fast", 0, (0,)), Tier("slow", 1, (1,))), 4096)

FOUND = Residents(
    (
        Resident("/all-fast", {0: 900 * MIB, 1: 0}, {0: 900 * MIB, 1: 0}),
        Resident("/some", {0: 10 * MIB, 1: 30 * MIB}, {0: 10 * MIB, 1: 7 * MIB}),
        Resident("/most", {0: 0, 1: 40 * MIB}, None),
    )
)


def document(found: Residents, *left_out: str) -> whoview.Document:
    return {
        "schema": whoview.SCHEMA,
        "cgroups": whoview.entries(found, TOPOLOGY),
        "cgroups_trouble": "",
        "left_out": list(left_out),
        "processes": None,
    }


def test_the_most_on_slow_nodes_comes_first() -> None:
    listed = whoview.entries(FOUND, TOPOLOGY)
    assert [one["cgroup"] for one in listed] == ["/most", "/some", "/all-fast"]
    assert listed[1]["slow_bytes"] == 30 * MIB
    assert listed[1]["slow_active_bytes"] == 7 * MIB
    assert listed[1]["fast_bytes"] == 10 * MIB
    assert listed[0]["slow_active_bytes"] is None
    drawn = whoview.text(document(FOUND, "/x: too many"), 80).splitlines()
    assert drawn[1].split() == ["40", "MiB", "?", "0", "B", "/most"]
    assert drawn[-1] == "  left out: /x: too many"


def test_a_long_list_is_cut_and_says_so() -> None:
    many = Residents(tuple(Resident(f"/{i}", {1: MIB}, None) for i in range(50)))
    drawn = whoview.text(document(many), 80).splitlines()
    assert len(drawn) == whoview.SHOWN_MAX + 2
    assert "30 more" in drawn[-1]
    assert whoview.text(document(Residents(())), 80) == "no cgroup below the root has memory"


def test_one_cgroup_with_its_processes() -> None:
    active = Active(8 * MIB, {1: Estimate(6 * MIB, 5 * MIB, 7 * MIB)})
    known = Mapped({0: 10 * MIB, 1: 30 * MIB}, 0, active)
    read = Processes((ProcessMemory(8, "redis", 40 * MIB, known),), (), knows_active=True)
    processes = processview.as_document(read, TOPOLOGY)
    drawn = whoview.one_text(FOUND.cgroups[1], processes, TOPOLOGY, ["said."], 80)
    rows = [line.split() for line in drawn.splitlines()]
    assert ["slow", "node1", "30", "MiB", "75%", "7", "MiB"] in rows
    assert ["30", "MiB", "~6", "MiB", "10", "MiB", "~2", "MiB", "40", "MiB", "8", "redis"] in rows
    assert "said." in drawn


def test_a_cgroup_without_processes_has_no_table_of_them() -> None:
    none = processview.as_document(Processes((), (), knows_active=True), TOPOLOGY)
    assert "process" not in whoview.one_text(FOUND.cgroups[1], none, TOPOLOGY, (), 80)
