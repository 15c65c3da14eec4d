"""Measures how fast processors reach the memory of each node (`tierd doctor --measure`).

For each node this takes memory on it, and lets the nearest processors read it. It takes some
seconds, and then the memory is given back. It changes no setting of the kernel.

* Bandwidth: every processor reads a part of the memory, all at once.
* Latency: one processor follows pointers from line to line, in random order. Before, other memory
  pushed these lines out of the caches. What one step costs in the cache is subtracted.
"""

from collections.abc import Sequence
from random import Random

from tierd.doctor.speeds import Speed
from tierd.errors import TierdError
from tierd.machine import caches
from tierd.machine.bound_memory import LINE_BYTES, BoundMemory, bound, running_on
from tierd.machine.sample import Watermarks
from tierd.machine.sample_reader import free_bytes
from tierd.sysfs import Sysfs
from tierd.topology import Node, Topology
from tierd.units import format_size

MIB = 1 << 20

# The memory in which the pointers are. Its lines are far more than a processor can prefetch.
CHAIN_BYTES = 64 * MIB
CHAIN_LINES = 1 << 15

# The memory that is read, as a multiple of the last-level cache: less would be read from the cache.
CACHES = 4

# If the kernel does not tell the size of a cache, this is taken, which is more than most have.
CACHE_BYTES = 64 * MIB

# Memory is taken only if the node has so many times as much above the watermark where the kernel
# begins to reclaim: programs need room meanwhile, and a bound allocation must not run out.
ROOM = 2

# A chain that stays in the fastest cache (16 KiB), and how often it is walked.
WARM_LINES = 256
WARM_TIMES = 64

# Other programs can only make a round slower, so the best of some rounds counts.
ROUNDS = 5

# More threads are not faster: so many fill the bandwidth of any node.
THREADS_MAX = 32

# Seconds that one reading should take at least, so that the start of the threads does not count.
READ_S_MIN = 0.05
PASSES_MAX = 64


def measure(
    sysfs: Sysfs, topology: Topology, marks: Sequence[Watermarks], allowed: frozenset[int]
) -> tuple[Speed, ...]:
    """Return how fast each node is, from the nearest of the allowed processors."""
    high = {mark.node: mark.high_bytes for mark in marks}
    return tuple(
        _measured(sysfs, node, topology.nearest_cpus(node, allowed), high.get(node.id, 0))
        for node in topology.nodes
    )


def room_needed(cache_bytes: int) -> int:
    """Return how much memory is taken on a node."""
    return CHAIN_BYTES + max(CHAIN_BYTES, CACHES * cache_bytes)


def _measured(sysfs: Sysfs, node: Node, cpus: tuple[int, ...], high_bytes: int) -> Speed:
    if not cpus:
        return Speed(node.id, refused="this process may run on no processor near it")
    size = room_needed(max(caches.sizes(sysfs, cpus[0]).values(), default=CACHE_BYTES))
    free = free_bytes(sysfs, node.id) - high_bytes
    if free < ROOM * size:
        return Speed(
            node.id,
            refused=f"no room: it takes {format_size(size)}, and {format_size(ROOM * size)} must "
            f"be free; {format_size(max(0, free))} is",
        )
    try:
        with running_on(cpus), bound(node.id, size) as memory:
            mbps = _read_mbps(memory, min(len(cpus), THREADS_MAX))
            return Speed(node.id, cpus, _latency_ns(memory), mbps)
    except TierdError as error:
        return Speed(node.id, refused=f"{error}; {error.hint}" if error.hint else str(error))


def _read_mbps(memory: BoundMemory, threads: int) -> float:
    size = (memory.size_bytes - CHAIN_BYTES) // threads * threads
    start = CHAIN_BYTES
    once_s = memory.read_s(start, start + size, threads, 1)
    passes = min(PASSES_MAX, max(1, round(READ_S_MIN / max(once_s, 1e-9))))
    best_s = min(memory.read_s(start, start + size, threads, passes) for _ in range(ROUNDS))
    return size * passes / best_s / 1e6


def _latency_ns(memory: BoundMemory) -> float:
    # The order only has to be one that no processor foresees.
    order = Random(memory.node).sample(range(CHAIN_BYTES // LINE_BYTES), CHAIN_LINES)
    chain = memory.chain(order)
    walks_s = []
    for _ in range(ROUNDS):
        memory.read_s(CHAIN_BYTES, memory.size_bytes, 1, 1)
        walks_s.append(chain.walk_s())
    warm = memory.chain(Random(0).sample(range(WARM_LINES), WARM_LINES))
    warm_s = min(warm.walk_s(WARM_TIMES) for _ in range(ROUNDS))
    step_s = warm_s / (WARM_TIMES * WARM_LINES)
    return max(0.0, min(walks_s) / CHAIN_LINES - step_s) * 1e9
