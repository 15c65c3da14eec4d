"""Two fast nodes that are equally near to a slow one, and pressure that is elsewhere."""

import pytest

from tests.sim.loop import MIB, Disk, Loop, Script, cold, hot, loop
from tierd.configuration.config import Config, Tuner
from tierd.sim import zipf
from tierd.sim.machine_model import MachineModel, MachineNode
from tierd.sim.sim_kernel import SimKernel
from tierd.sim.workload import Scatter, Workload, WorkloadEvent

SLOW = 2
DEMAND = Config(tuner=Tuner.demand)
BY_REGION = Config(tuner=Tuner.demand, cost_bp=0)


def two_sockets(
    *happens: WorkloadEvent, config: Config = BY_REGION, cell_pages: int | None = None
) -> Loop:
    """Return a loop on two sockets with 256 MiB each, and 768 MiB behind a switch."""
    nodes = (
        MachineNode(0, 256, (0,), 0, 100, 200_000),
        MachineNode(1, 256, (1,), 1, 100, 200_000),
        MachineNode(SLOW, 768, (), 0, 250, 60_000),
    )
    distances = ((10, 20, 20), (20, 10, 20), (20, 20, 10))
    tiers = (("memory_tier4", (0, 1)), ("memory_tier22", (SLOW,)))
    machine = MachineModel("switch", "two sockets", nodes, distances, tiers, vm=False)
    kernel = SimKernel(
        "7.2",
        machine,
        seed=1,
        workload=Workload(list(happens), seed=1),
        block_pages=64,
        cell_pages=cell_pages,
    )
    kernel.advance(0.001)
    return Loop(kernel, Script(kernel), Disk(), config)


def test_hot_memory_comes_up_evenly_where_both_have_room() -> None:
    made = two_sockets(cold("a", 0, 220), cold("b", 1, 220), hot("hot", SLOW, 80))
    made.run(20)
    assert made.share("hot", SLOW) <= 0.05
    assert min(made.share("hot", node) for node in (0, 1)) >= 0.35


def test_it_comes_up_to_the_other_one_where_the_first_has_nothing_cold() -> None:
    made = two_sockets(hot("own", 0, 220), cold("b", 1, 220), hot("hot", SLOW, 60))
    made.run(20)
    assert made.share("hot", 1) >= 0.85
    assert made.share("own", 0) >= 0.95


def test_pages_come_up_to_the_other_one_where_the_first_has_nothing_cold() -> None:
    store = zipf.store("store", 600 * MIB, skew=0.99, mean_hz=1.0)
    events = (hot("own", 0, 220), Scatter(store.sets, (1, SLOW)))
    made = two_sockets(*events, config=DEMAND, cell_pages=2048)
    made.run(1)
    first = store.served(made.kernel.memory, 1)
    made.run(30)
    assert store.served(made.kernel.memory, 1) >= first + 0.2
    assert made.share("own", 0) >= 0.95


@pytest.mark.parametrize("first_s", [3, 4])
def test_what_came_up_stays_where_rounds_go_to_two_nodes_in_turn(first_s: int) -> None:
    """One after the other is the target of a round. The sweep to the other one must be closed."""
    store = zipf.store("store", 600 * MIB, skew=0.99, mean_hz=1.0)
    events = (hot("own", 0, 220), Scatter(store.sets, (1, SLOW)))
    made = two_sockets(*events, config=DEMAND, cell_pages=2048)
    made.run(first_s)
    served: list[float] = []
    for second in range(16, 31):
        made.do(first_s + second, lambda: served.append(store.served(made.kernel.memory, 1)))
    made.run(first_s + 31)
    assert len(served) == 15
    assert min(served) >= 0.68
    assert made.kernel.memory.counters.pgmigrate_success * 4096 <= 400 * MIB


def test_who_waits_elsewhere_does_not_stop_promotion() -> None:
    """The kernel counts stalls for the whole machine, and the fast node has room."""
    made = loop("7.2", "two-tier", cold("cold", 0, 300), hot("hot", 1, 94), config=BY_REGION)

    def stalls() -> None:
        made.kernel.memory.counters.allocstall += 100

    for tenth in range(200):
        made.do(tenth / 10, stalls)
    made.run(20)
    assert made.share("hot", 0) >= 0.95
