"""The simulated machine that a newcomer sees: cold data on the fast node, hot data on the slow."""

from dataclasses import dataclass

from tierd.sim import machine as machines
from tierd.sim.kernel import SimClock, SimKernel
from tierd.sim.memory import PageSet
from tierd.sim.spec import PAGE_BYTES
from tierd.sim.workload import Place, Shift, Workload

# The newest series: what it lacks, it lacks on no kernel.
PROFILE = "7.3"

# Every page of the hot set some tens of times a second is hot to any sampling; the cold set
# once in a quarter of an hour is noise.
HOT_HZ = 50.0
COLD_HZ = 0.001

# Every so often the program turns to other data, so that there is something to see again.
SHIFT_EVERY_S = 60

HOT = "hot"
COLD = "cold"


@dataclass(frozen=True, slots=True)
class Demo:
    """The machine, and what to look at."""

    kernel: SimKernel
    name: str
    fast_nodes: tuple[int, ...]

    @property
    def clock(self) -> SimClock:
        return SimClock(self.kernel)

    def hot_share_fast(self) -> float:
        """The share of the hot set that lies on the fastest tier."""
        memory = self.kernel.memory
        pages = {nid: memory.set_pages(HOT, nid) for nid in memory.nodes}
        total = sum(pages.values())
        return sum(pages[nid] for nid in self.fast_nodes) / total if total else 0.0


def demo(name: str) -> Demo:
    """A machine of that name at work: its fast tier 80 % full of cold data, all heat below."""
    machine = machines.load(name)
    fast, slow = machine.tiers[0][1], machine.tiers[-1][1]
    sizes = {node.id: node.size_mib << 20 for node in machine.nodes}
    fast_bytes = sum(sizes[node] for node in fast)
    hot_bytes = fast_bytes // 4 // PAGE_BYTES * PAGE_BYTES
    workload = Workload(
        [
            *(
                Place(PageSet(f"{COLD}{node}", COLD_HZ), sizes[node] * 8 // 10, (node,))
                for node in fast
            ),
            Place(PageSet(HOT, HOT_HZ), hot_bytes, slow),
            Place(PageSet(COLD, COLD_HZ), hot_bytes, slow),
            Shift(HOT, COLD, 1.0, SHIFT_EVERY_S * 1_000_000, SHIFT_EVERY_S * 1_000_000),
        ],
        seed=1,
    )
    # Blocks of 64 pages simulate a terabyte as fast as a gigabyte.
    kernel = SimKernel(PROFILE, machine, seed=1, workload=workload, block_pages=64)
    # The first instant fills the memory.
    kernel.advance(0.001)
    return Demo(kernel, name, fast)
