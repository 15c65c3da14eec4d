"""How late the memory of a node answers now, under the load of this moment.

The processors near a fast node follow a few pointers on it, and on each node that its memory comes
up from. After each reading other memory is read, so that nothing of these chains stays in the
caches of their processor. Where bandwidth is scarce, programs push them out of the cache that they
share with that processor. Where programs read little, a chain may be read from a cache: then all
nodes answer alike, and far sooner than any memory does.
"""

import os
from collections.abc import Callable, Container, Iterator, Mapping
from functools import cache
from random import Random

from tierd.errors import TierdError
from tierd.frozen import dataclass
from tierd.machine import caches
from tierd.machine.bound_memory import (
    LINE_BYTES,
    BoundMemory,
    Chain,
    give_back,
    node_of,
    running_on,
    take,
)
from tierd.machine.sample import Latency
from tierd.sysfs import Sysfs
from tierd.topology import Topology

# The lines of a chain. On metal they take 25 to 100 us, which is long beside the call itself and
# short beside a time slice.
LINES = 240

# So many lines are followed first and not counted. What is followed first pays for all that is
# cold: the code, the translations of addresses, a processor that was asleep. That would always be
# the fast node.
LEAD_LINES = 16

# Four pages of 4 KiB, so next to nothing is taken from a full node.
CHAIN_BYTES = (LINES + LEAD_LINES) * LINE_BYTES

# Seconds from one reading to the next, at least. A reading takes 0.3 ms of a processor, most of it
# for the memory that pushes the chains out.
EVERY_S = 1.0

# The memory that is read to push the chains out, as a multiple of the second-level cache; and the
# size of that cache if the kernel does not tell, which is more than most have.
PUSHES = 2
L2_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class _Built:
    """A chain on a node."""

    memory: BoundMemory
    lead: Chain
    """It is followed first, and not counted."""
    chain: Chain


class LatencyProbe:
    """Reads latencies. Its state is memory, which is kept from one reading to the next."""

    def __init__(
        self,
        sysfs: Sysfs,
        monotonic_s: Callable[[], float],
        refused: Callable[[TierdError], None],
    ) -> None:
        """`refused` is called once, if this process may not bind memory."""
        self._sysfs = sysfs
        self._monotonic_s = monotonic_s
        self._refused = refused
        self._may = True
        self._built: dict[tuple[int, int], _Built] = {}
        """Chains, by the fast node whose processors follow them, and by the node they are on."""
        self._pusher: BoundMemory | None = None
        """What pushes the chains out of the caches. It holds only zeros."""
        self._l2_bytes: dict[int, int] = {}
        """The sizes of second-level caches, by CPU."""
        self._read_s = 0.0

    def read(self, topology: Topology, asked: Mapping[int, tuple[int, ...]]) -> tuple[Latency, ...]:
        """Return the latencies that can be read now; nothing at the first time.

        `asked` has the slower nodes of each fast node. If it is empty, nothing is built.
        """
        if not asked or not self._may:
            self.end()
            return ()
        if self._built and self._monotonic_s() < self._read_s + EVERY_S:
            return ()
        try:
            found = tuple(self._readings(topology, asked))
        except TierdError as error:
            self._may = False
            self.end()
            self._refused(error)
            return ()
        self._read_s = self._monotonic_s()
        return found

    def end(self) -> None:
        """Give all memory back."""
        self._keep(())
        self._drop_pusher()

    def _keep(self, pairs: Container[tuple[int, int]]) -> None:
        """Give back the memory of all other chains."""
        for pair in [one for one in self._built if one not in pairs]:
            give_back(self._built.pop(pair).memory)

    def _readings(
        self, topology: Topology, asked: Mapping[int, tuple[int, ...]]
    ) -> Iterator[Latency]:
        self._keep({(near, node) for near, slower in asked.items() for node in (near, *slower)})
        allowed = frozenset(os.sched_getaffinity(0))
        for near, slower in asked.items():
            # One processor, because each has a cache of its own.
            cpus = topology.nearest_cpus(topology.node(near), allowed)[:1]
            if not cpus:
                continue
            with running_on(cpus):
                for node in (near, *slower):
                    yield from self._reading(near, node)
                self._push_out(near, cpus[0])

    def _reading(self, near: int, node: int) -> Iterator[Latency]:
        """Return the latency, or nothing if the memory is not where it should be.

        DAMON moves it like all memory. Where a node is full, it never was there. Then other memory
        is taken for the next reading.
        """
        pair = near, node
        built = self._built.get(pair)
        if built is not None:
            built.lead.walk_s()
            took_s = built.chain.walk_s()
            if _is_there(built.memory):
                yield Latency(near, node, took_s / LINES * 1e9)
                return
            give_back(self._built.pop(pair).memory)
        memory = take(node, CHAIN_BYTES)
        order = _order(node)
        lead, chain = memory.chain(order[:LEAD_LINES]), memory.chain(order[LEAD_LINES:])
        self._built[pair] = _Built(memory, lead, chain)

    def _push_out(self, near: int, cpu: int) -> None:
        """Read so much memory that nothing else stays in the caches of the processor alone."""
        if cpu not in self._l2_bytes:
            self._l2_bytes[cpu] = caches.sizes(self._sysfs, cpu).get(2, L2_BYTES)
        size_bytes = PUSHES * self._l2_bytes[cpu]
        if self._pusher is None or self._pusher.size_bytes < size_bytes:
            self._drop_pusher()
            self._pusher = take(near, size_bytes)
        self._pusher.read()

    def _drop_pusher(self) -> None:
        if self._pusher is not None:
            give_back(self._pusher)
            self._pusher = None


@cache
def _order(node: int) -> tuple[int, ...]:
    """Return the order of the lines. It only has to be one that no processor foresees."""
    return tuple(Random(node).sample(range(LINES + LEAD_LINES), LINES + LEAD_LINES))


def _is_there(memory: BoundMemory) -> bool:
    step = os.sysconf("SC_PAGE_SIZE")
    pages = range(memory.address, memory.address + memory.size_bytes, step)
    return all(node_of(page) == memory.node for page in pages)
