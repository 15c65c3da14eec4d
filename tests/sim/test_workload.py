"""Workloads: heat moves between pages, and pages come and go, each at its time."""

from random import Random

from tierd.sim.block_memory import BlockMemory
from tierd.sim.machine_model import load
from tierd.sim.memory import PageSet
from tierd.sim.workload import ChangeRate, Place, Release, Shift, Workload, WorkloadEvent

MIB = 2**20
COLD, HOT = PageSet("cold"), PageSet("hot", rate_hz=100.0)


def ran(*events: WorkloadEvent, until_us: int, seed: int = 1) -> BlockMemory:
    memory = BlockMemory(load("two-tier"), Random(1))
    workload = Workload(events, seed)
    while workload.due_us is not None and workload.due_us <= until_us:
        workload.run(memory, workload.due_us)
    return memory


PLACED = (Place(COLD, 100 * MIB, (1,)), Place(HOT, 10 * MIB, (0,)))


def where(memory: BlockMemory, name: str) -> tuple[int, int]:
    return memory.pages_of_set(name, 0), memory.pages_of_set(name, 1)


def test_sets_are_placed_at_their_time() -> None:
    late = Place(PageSet("late"), MIB, (0,), at_us=100)
    memory = ran(*PLACED, late, until_us=99)
    assert where(memory, "cold") == (0, 100 * 256)
    assert where(memory, "hot") == (10 * 256, 0)
    assert len(memory.sets) == 2
    assert where(ran(*PLACED, late, until_us=100), "late") == (256, 0)


def test_a_jump_leaves_pages_where_they_are_and_moves_their_heat() -> None:
    memory = ran(*PLACED, Shift("hot", "cold", 1.0, at_us=10), until_us=10)
    assert where(memory, "hot") == (0, 10 * 256)
    assert where(memory, "cold") == (10 * 256, 90 * 256)


def test_drift_comes_again_and_again() -> None:
    drift = Shift("hot", "cold", 0.1, at_us=10, every_us=10)
    shares = [
        where(ran(*PLACED, drift, until_us=until), "hot")[0] / 2560 for until in (0, 10, 50, 200)
    ]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 1.0
    assert shares[1] == 0.9
    assert shares[-1] < 0.4
    assert sum(where(ran(*PLACED, drift, until_us=200), "hot")) == 2560


def test_the_seed_says_which_pages_heat_up() -> None:
    def hot(seed: int) -> list[int]:
        shift = Shift("hot", "cold", 1.0, at_us=10)
        return ran(*PLACED, shift, until_us=10, seed=seed).find("hot", 2560)

    assert hot(1) == hot(1)
    assert hot(1) != hot(2)


def test_memory_goes_and_rates_change() -> None:
    memory = ran(*PLACED, Release("cold", 40 * MIB, 5), ChangeRate("cold", 3.0, 6), until_us=6)
    assert where(memory, "cold") == (0, 60 * 256)
    assert memory.sets[0].rate_hz == 3.0


def test_a_forgotten_set_leaves_its_name_and_its_memory() -> None:
    memory = ran(*PLACED, until_us=0)
    free = memory.free_pages(1)
    memory.forget_set("cold")
    assert memory.free_pages(1) == free + 100 * 256
    memory.add_set(COLD)
    assert where(memory, "cold") == (0, 0)
    assert where(memory, "hot") == (10 * 256, 0)
