"""A little hot memory in much that is cold: how much of it the sensors of regions find."""

import pytest

from bench import heats
from bench.heats import COLD, HOT, HOT_HZ, Heat, Size
from tests.sim.loop import Disk, Loop, Script
from tierd.configuration.config import Config, Mode
from tierd.sim.memory import PageSet
from tierd.sim.page_groups import GroupMemory
from tierd.sim.sim_kernel import SimKernel
from tierd.sim.workload import Place, Workload

GB = 10**9
# A region is hot if so many of 20 samples found it in use.
HITS = 3
SECONDS = 20.0


@pytest.mark.parametrize(
    ("size", "hot_bytes"),
    [
        (Size((32,), 160), GB // 5),
        (Size((128,), 512), GB),
        (Size((1024,), 5120), 10 * GB),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_little_hot_memory_is_found_on_a_node_of_any_size(size: Size, hot_bytes: int) -> None:
    slow = (size.slow_node,)
    places = [
        Place(PageSet(COLD), size.slow_bytes // 3, slow),
        Place(PageSet(HOT, HOT_HZ), hot_bytes, slow),
        Place(PageSet(COLD), size.slow_bytes // 3, slow),
    ]
    cells = heats.cell_pages(size, Heat("found", lambda _size: iter(places)))
    machine = heats.machine(size)
    kernel = SimKernel("7.3", machine, 1, workload=Workload(places, seed=1), cell_pages=cells)
    kernel.advance(0.001)
    memory = kernel.memory
    assert isinstance(memory, GroupMemory)
    where = [cell * memory.cell_bytes for cell, _, _ in memory.groups(memory.set_index(HOT))]
    first, end = min(where), max(where) + memory.cell_bytes
    made = Loop(kernel, Script(kernel), Disk(), Config(mode=Mode.observe))
    found: list[tuple[int, int]] = []

    def look() -> None:
        for kdamond in kernel.scheduler.kdamonds:
            for region in kdamond.regions()[0]:
                if region.nr_accesses >= HITS:
                    found.append((region.start, region.end))

    made.do(SECONDS, look)
    made.run(SECONDS + 1)
    inside = sum(max(0, min(end, last) - max(first, begin)) for begin, last in found)
    assert inside >= 0.9 * (end - first), "recall"
    assert inside >= 0.9 * sum(last - begin for begin, last in found), "precision"
