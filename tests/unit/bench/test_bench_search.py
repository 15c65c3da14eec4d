"""Random programs: the same number makes the same ones, and the best placement is the best."""

import pytest

from bench import search
from tests.sim.loop import MIB
from tierd.sim.machine_model import load
from tierd.sim.memory import PageSet
from tierd.sim.sim_kernel import SimKernel
from tierd.sim.workload import Place, Workload


def kernel_of(drawn: search.Draw) -> SimKernel:
    kernel = SimKernel(
        drawn.series, drawn.machine, seed=1, workload=Workload(drawn.events, seed=1), block_pages=64
    )
    kernel.advance(0.001)
    return kernel


def placed(*sets: tuple[str, float, int, int]) -> search.Draw:
    """Return sets on three tiers: name, rate, MiB, node. The fastest is node 1, then 0, then 2."""
    drawn = search.Draw(1, load("three-tier"), "7.3")
    for name, hz, mib, node in sets:
        drawn.events.append(Place(PageSet(name, hz), mib * MIB, (node,)))
        drawn.rates_hz[name] = hz
    return drawn


def test_a_number_makes_the_same_programs_each_time() -> None:
    assert search.draw(7) == search.draw(7)
    assert len({str(search.draw(number).words) for number in range(20)}) > 15


@pytest.mark.parametrize("number", range(12))
def test_programs_fit_on_their_machine(number: int) -> None:
    """But for a few pages: a set on a node that is full is a little smaller."""
    drawn = search.draw(number)
    memory = kernel_of(drawn).memory
    wanted = sum(event.bytes for event in drawn.events if isinstance(event, Place))
    found = sum(
        memory.pages_of_set(event.page_set.name, event.nodes[0])
        for event in drawn.events
        if isinstance(event, Place)
    )
    assert found * memory.page_bytes == pytest.approx(wanted, rel=0.05)


def test_an_access_is_worth_more_on_a_faster_node() -> None:
    for node, height in ((1, 1.0), (0, 0.5), (2, 0.0)):
        drawn = placed(("hot", 10.0, 16, node), ("idle", 0.0, 16, 2))
        assert search.worth(drawn, kernel_of(drawn).memory) == height


def test_the_best_placement_has_the_hottest_pages_on_the_fastest_node() -> None:
    few = placed(("hot", 10.0, 16, 2), ("warm", 1.0, 16, 2))
    assert search.best(few, kernel_of(few).memory) == 1.0
    # 256 MiB are the fastest node, with what the kernel uses; the rest is half as good.
    many = placed(("hot", 10.0, 600, 2))
    assert 0.65 < search.best(many, kernel_of(many).memory) < 0.72
    assert search.best(many, kernel_of(many).memory) > search.worth(many, kernel_of(many).memory)


def test_a_run_says_how_much_of_the_possible_gain_was_gained() -> None:
    drawn = placed(("hot", 60.0, 24, 2))
    found = search.run(drawn)
    assert found.begins == 0.0
    assert found.gains is not None
    assert found.gains[-1] > 0.95
    assert found.moved_bytes >= 24 * MIB
    assert search.line(found).startswith("1 three-tier 7.3: ")
    assert any(reason.startswith("promote-") for reason in found.reasons)


def test_where_nothing_can_be_gained_nothing_is_said() -> None:
    drawn = placed(("hot", 60.0, 24, 1))
    assert search.run(drawn).gains is None
