"""The table of processes: its order, its signs, and what is left out."""

from dataclasses import replace

from tests.unit.views.test_whoview import MIB, TOPOLOGY, node
from tierd.machine.process_memory import (
    Active,
    Estimate,
    LeftOut,
    Mapped,
    Processes,
    ProcessMemory,
    Why,
)
from tierd.topology import Tier, Topology
from tierd.views import processview
from tierd.views.processview import as_document, lines, notes


def exact(size: int) -> Estimate:
    return Estimate(size, size, size)


def process(pid: int, fast: int, slow: int, active: Active | None) -> ProcessMemory:
    mapped = Mapped({0: fast * MIB, 1: slow * MIB}, 0, active)
    return ProcessMemory(pid, f"p{pid}", (fast + slow) * MIB, mapped)


BUSY = process(1, 10, 20, Active(9 * MIB, {0: exact(MIB), 1: exact(8 * MIB)}))
CALM = process(2, 10, 30, Active(7 * MIB, {0: exact(7 * MIB)}))
FAST = process(3, 50, 0, Active(50 * MIB, {0: exact(50 * MIB)}))
MIXED = process(4, 5, 5, Active(4 * MIB, {0: Estimate(2, 0, 4), 1: Estimate(2 * MIB, 0, 4 * MIB)}))
HUGE = ProcessMemory(5, "huge", 80 << 30, None)


def read(*found: ProcessMemory) -> Processes:
    return Processes(found, (), knows_active=True)


def rows(found: processview.Document) -> list[str]:
    """Return the lines with one space between two words."""
    return [" ".join(line.split()) for line in lines(found, 80, 20)]


def test_what_is_in_use_on_slow_nodes_comes_first() -> None:
    found = as_document(read(HUGE, FAST, CALM, MIXED, BUSY), TOPOLOGY)["found"]
    assert [one["pid"] for one in found] == [1, 4, 2, 5, 3]


def test_without_lists_what_is_on_slow_nodes_comes_first() -> None:
    bare = [process(pid, fast, slow, None) for pid, fast, slow in ((1, 9, 5), (2, 1, 7), (3, 3, 6))]
    found = as_document(Processes(tuple(bare), (), knows_active=False), TOPOLOGY)
    assert [one["pid"] for one in found["found"]] == [2, 3, 1]
    assert rows(found)[1] == "7 MiB ? 1 MiB ? 8 MiB 2 p2"
    assert notes(found) == [processview.UNKNOWN]


def test_each_column_has_its_figure() -> None:
    assert rows(as_document(read(BUSY, MIXED, HUGE), TOPOLOGY)) == [
        "ON SLOW IN USE ON FAST IN USE RSS PID PROCESS",
        "20 MiB 8 MiB 10 MiB 1 MiB 30 MiB 1 p1",
        "5 MiB ~2 MiB 5 MiB ~2 MiB 10 MiB 4 p4",
        "- - - - 80 GiB 5 huge",
    ]


def test_a_sign_is_explained_if_it_is_there() -> None:
    assert notes(as_document(read(MIXED), TOPOLOGY)) == [processview.ABOUT]
    assert notes(as_document(read(BUSY), TOPOLOGY)) == []


def test_all_tiers_but_the_fastest_are_slow() -> None:
    tiers = tuple(Tier(f"t{rank}", rank, (rank,)) for rank in range(3))
    three = Topology(tuple(node(one) for one in range(3)), tiers, 4096)
    active = Active(9, {one: Estimate(one + 1, one, one + 2) for one in range(3)})
    mapped = Mapped({0: 100, 1: 10, 2: 1}, 7, active)
    (found,) = as_document(read(replace(BUSY, mapped=mapped)), three)["found"]
    assert found["memory"] == {
        "slow_bytes": 11,
        "fast_bytes": 100,
        "bytes_by_node": {"0": 100, "1": 10, "2": 1},
        "hugetlb_bytes": 7,
        "active": {
            "size_bytes": 9,
            "slow_bytes": 5,
            "slow_bytes_least": 3,
            "slow_bytes_most": 7,
        },
    }


def test_what_is_left_out_is_said_in_words() -> None:
    left = (
        LeftOut(Why.unreadable, 1, None),
        LeftOut(Why.too_large, 1, 80 << 30),
        LeftOut(Why.smaller, 7, MIB),
        LeftOut(Why.late, 2, MIB),
        LeftOut(Why.not_sized, 9, None),
    )
    assert {one.why for one in left} == {*Why}
    found = as_document(Processes((), left, knows_active=True), TOPOLOGY)
    assert lines(found, 80, 20) == [
        "  no process with memory was read",
        "  left out: 1 process that this user may not read",
        "  left out: 1 process with 80 GiB, too large to be read: the limit is 64 GiB",
        "  left out: 7 processes with 1 MiB that have less memory",
        "  left out: 2 processes with 1 MiB for which there was no time",
        "  left out: 9 processes that were not looked at: there are too many",
    ]
    assert notes(found) == []


def test_a_long_list_is_cut_and_says_so() -> None:
    many = as_document(read(*(process(pid, 1, 1, None) for pid in range(9))), TOPOLOGY)
    drawn = lines(many, 80, 4)
    assert len(drawn) == 6
    assert drawn[-1] == "  and 5 more; --json lists all"
