"""The demonstration machine: a program that uses its memory in five ways, one after the other.

Each way shows something else of tierd. After the last one comes the first again.
"""

from itertools import accumulate

from tierd.frozen import dataclass
from tierd.sim import machine_model
from tierd.sim.machine_model import MachineModel
from tierd.sim.memory import PageSet
from tierd.sim.sim_kernel import SimKernel
from tierd.sim.workload import ChangeRate, Place, Release, Shift, Shuffle, Workload, WorkloadEvent
from tierd.views.scene import Act, Scene

# The newest series has every feature that tierd can use.
PROFILE = "7.3"

# 50 accesses a second are hot at every sampling interval. One access in 1,000 s is almost never
# seen.
HOT_HZ = 50.0
COLD_HZ = 0.001

# The data of the burst is used a little, so that it is neither hot nor cold.
BURST_HZ = 1.0

PROGRAM = "/system.slice/program.service"
VISITOR = "/system.slice/visitor.service"

HOT = "hot"
COLD = "cold"
BURST = "burst"

# Each act lasts about twice as long as tierd needs for it on the machine `two-tier`.
ACTS = (
    Act("one piece", "its hot data lies in one piece, in slow memory", 25),
    Act("jump", "it turns to other data, and leaves the old data alone", 25),
    Act("scatter", "its hot pages are mixed at random with cold ones", 30),
    Act("burst", "it takes much more memory at once, and frees it at the end", 20),
    Act("idle", "it waits: nothing is hot", 20),
)
BEGINS_S = tuple(accumulate((act.lasts_s for act in ACTS), initial=0))
ROUND_S = BEGINS_S[-1]


@dataclass(frozen=True, slots=True)
class Demo:
    """The machine at work, its name, and the nodes of its fastest tier."""

    kernel: SimKernel
    name: str
    fast_nodes: tuple[int, ...]

    def scene(self) -> Scene:
        """Return what the program does now, and where its hot data is."""
        rounds, second = divmod(self.kernel.now_us / 1e6, ROUND_S)
        at = max(index for index in range(len(ACTS)) if BEGINS_S[index] <= second)
        memory = self.kernel.memory
        is_hot = any(known.name == HOT and known.rate_hz == HOT_HZ for known in memory.sets)
        return Scene(
            act=ACTS[at],
            number=at + 1,
            acts=len(ACTS),
            round=int(rounds) + 1,
            left_s=BEGINS_S[at + 1] - second,
            hot_bytes=tuple(
                (nid, memory.pages_of_set(HOT, nid) * memory.page_bytes if is_hot else 0)
                for nid in memory.nodes
            ),
            fast_nodes=self.fast_nodes,
        )


def demo(name: str) -> Demo:
    """Return the machine at work: the fast tier is 80 % full of cold data, hot data is below."""
    machine = machine_model.load(name)
    workload = Workload(_events(machine), seed=1)
    # With 64 pages in a block the simulation has 64 times less to do.
    kernel = SimKernel(PROFILE, machine, seed=1, workload=workload, block_pages=64)
    for path in ("/system.slice", PROGRAM, VISITOR):
        kernel.add_cgroup(path)
    # The workload fills the memory in the first microseconds.
    kernel.advance(0.001)
    return Demo(kernel, name, machine.tiers[0][1])


def _events(machine: MachineModel) -> list[WorkloadEvent]:
    fast, slow = machine.tiers[0][1], machine.tiers[-1][1]
    sizes = {node.id: node.size_mib << 20 for node in machine.nodes}
    hot_bytes = sum(sizes[node] for node in fast) // 4 // machine.page_bytes * machine.page_bytes
    whole_us = ROUND_S * 1_000_000
    piece, jump, scatter, burst, idle, end = (second * 1_000_000 for second in BEGINS_S)
    # When data cools down, its pages change the set, but not the program that they belong to.
    hot, cold = PageSet(HOT, HOT_HZ, cgroup=PROGRAM), PageSet(COLD, COLD_HZ, cgroup=PROGRAM)
    burst_set = PageSet(BURST, BURST_HZ, cgroup=VISITOR)
    return [
        *(Place(cold, sizes[node] * 8 // 10, (node,)) for node in fast),
        Place(hot, hot_bytes, slow),
        Place(cold, hot_bytes, slow),
        Shift(HOT, COLD, 1.0, jump, whole_us, heats_on=slow[0]),
        Shuffle((HOT, COLD), scatter, whole_us),
        Place(burst_set, hot_bytes, (*fast, *slow), burst, whole_us),
        Release(BURST, hot_bytes, idle, whole_us),
        ChangeRate(HOT, COLD_HZ, idle, whole_us),
        # Another program begins: its data is in one piece on the slowest node.
        ChangeRate(HOT, HOT_HZ, end + piece, whole_us),
        Shift(HOT, COLD, 1.0, end + piece, whole_us, heats_on=slow[0]),
    ]
