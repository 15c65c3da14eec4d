"""How late the memory of a node answers now, under the load of this moment.

The processors near a fast node follow a few pointers on it, and on each node that its memory comes
up from. A chain is built at one reading and followed at the next one. When it is built, other
memory is read, so that nothing of it stays in the caches of its processor. Where bandwidth is
scarce, programs push it out of the cache that they share with that processor. Where they read
little, a chain may be read from a cache: then all nodes answer alike, and far sooner than any
memory does.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from tierd.errors import TierdError
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

# Seconds from one reading to the next, at least. A reading takes 1.5 ms of a processor, most of it
# for the memory that pushes the chains out.
EVERY_S = 1.0

# The memory that is read to push the chains out, as a multiple of the second-level cache; and the
# size of that cache if the kernel does not tell, which is more than most have.
PUSHES = 2
L2_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class _Built:
    """A chain that is followed at the next reading, by the processors near a fast node."""

    near: int
    cpus: tuple[int, ...]
    memory: BoundMemory
    lead: Chain
    """It is followed first, and not counted."""
    chain: Chain


class LatencyProbe:
    """Reads latencies. It has state because a chain must lie still for a while."""

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
        self._built: tuple[_Built, ...] = ()
        self._built_s = 0.0

    def read(self, topology: Topology, asked: Mapping[int, tuple[int, ...]]) -> tuple[Latency, ...]:
        """Return the latencies that can be read now; nothing at the first time.

        `asked` has the slower nodes of each fast node. If it is empty, nothing is built.
        """
        if not asked or not self._may:
            self.end()
            return ()
        now_s = self._monotonic_s()
        if self._built and now_s < self._built_s + EVERY_S:
            return ()
        try:
            found = tuple(one for built in self._built for one in _followed(built))
            self.end()
            self._build(topology, asked)
        except TierdError as error:
            self._may = False
            self.end()
            self._refused(error)
            return ()
        self._built_s = self._monotonic_s()
        return found

    def end(self) -> None:
        """Give all memory back."""
        for one in self._built:
            give_back(one.memory)
        self._built = ()

    def _build(self, topology: Topology, asked: Mapping[int, tuple[int, ...]]) -> None:
        allowed = frozenset(os.sched_getaffinity(0))
        for near, slower in asked.items():
            # One processor, because each has a cache of its own.
            cpus = topology.nearest_cpus(topology.node(near), allowed)[:1]
            if not cpus:
                continue
            with running_on(cpus):
                for node in (near, *slower):
                    memory = take(node, CHAIN_BYTES)
                    # The order only has to be one that no processor foresees.
                    lines = Random(node).sample(range(LINES + LEAD_LINES), LINES + LEAD_LINES)
                    lead = memory.chain(lines[:LEAD_LINES])
                    chain = memory.chain(lines[LEAD_LINES:])
                    self._built += (_Built(near, cpus, memory, lead, chain),)
                self._push_out(near, cpus[0])

    def _push_out(self, near: int, cpu: int) -> None:
        """Read so much memory that nothing else stays in the caches of the processor alone."""
        other = take(near, PUSHES * caches.sizes(self._sysfs, cpu).get(2, L2_BYTES))
        other.read()
        give_back(other)


def _followed(built: _Built) -> tuple[Latency, ...]:
    """Return the latency, or nothing if the memory is not where it should be.

    DAMON moves it like all memory. Where a node is full, it never was there.
    """
    if not _is_there(built.memory):
        return ()
    with running_on(built.cpus):
        built.lead.walk_s()
        took_s = built.chain.walk_s()
    if not _is_there(built.memory):
        return ()
    return (Latency(built.near, built.memory.node, took_s / LINES * 1e9),)


def _is_there(memory: BoundMemory) -> bool:
    step = os.sysconf("SC_PAGE_SIZE")
    pages = range(memory.address, memory.address + memory.size_bytes, step)
    return all(node_of(page) == memory.node for page in pages)
