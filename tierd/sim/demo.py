"""The demonstration machine: cold data on the fast node, hot data on the slow node."""

from dataclasses import dataclass

from tierd.sim import machine_model
from tierd.sim.context_spec import PAGE_BYTES
from tierd.sim.memory import PageSet
from tierd.sim.sim_kernel import SimKernel
from tierd.sim.workload import Place, Shift, Workload

# The newest series has every feature that tierd can use.
PROFILE = "7.3"

# 50 accesses a second are hot at every sampling interval. One access in 1,000 s is almost never
# seen.
HOT_HZ = 50.0
COLD_HZ = 0.001

# The program turns to other data at this interval, so that tierd has something to do again.
SHIFT_EVERY_S = 60

HOT = "hot"
COLD = "cold"


@dataclass(frozen=True, slots=True)
class Demo:
    """The machine at work, its name, and the nodes of its fastest tier."""

    kernel: SimKernel
    name: str
    fast_nodes: tuple[int, ...]

    def hot_share_fast(self) -> float:
        """Return the share of the hot set that is on the fastest tier."""
        memory = self.kernel.memory
        pages = {nid: memory.pages_of_set(HOT, nid) for nid in memory.nodes}
        total = sum(pages.values())
        return sum(pages[nid] for nid in self.fast_nodes) / total if total else 0.0


def demo(name: str) -> Demo:
    """Return the machine at work: the fast tier is 80 % full of cold data, hot data is below."""
    machine = machine_model.load(name)
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
    # With 64 pages in a block the simulation has 64 times less to do.
    kernel = SimKernel(PROFILE, machine, seed=1, workload=workload, block_pages=64)
    # The workload fills the memory in the first microseconds.
    kernel.advance(0.001)
    return Demo(kernel, name, fast)
