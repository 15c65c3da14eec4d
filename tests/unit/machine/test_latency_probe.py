"""Latencies are read from memory that really lies on its node, and all of it is given back."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from tests.fixtures import machines
from tierd.errors import TierdError
from tierd.machine import bound_memory, caches, discovery, latency_probe
from tierd.machine.bound_memory import BoundMemory, bound
from tierd.machine.latency_probe import CHAIN_BYTES, EVERY_S, L2_BYTES, PUSHES, LatencyProbe
from tierd.topology import Topology

ASKED: dict[int, tuple[int, ...]] = {0: (1,)}
CPUS = tuple(os.sched_getaffinity(0))


class Probe:
    """A probe whose time is set by the test, and what it was refused."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.refused: list[TierdError] = []
        self.probe = LatencyProbe(
            machines.load("two-tier-7.2").sysfs, lambda: self.now_s, self.refused.append
        )

    def nodes(self, asked: dict[int, tuple[int, ...]], after_s: float = EVERY_S) -> list[int]:
        """Return the nodes that were read."""
        self.now_s += after_s
        found = self.probe.read(machine(), asked)
        assert all(one.near in asked and one.ns >= 0 for one in found)
        return [one.node for one in found]


def machine() -> Topology:
    """Return two tiers with the processors of this machine."""
    topology = discovery.survey(machines.load("two-tier-7.2").sysfs, None)
    nodes = tuple(replace(one, cpus=CPUS) if one.id == 0 else one for one in topology.nodes)
    return replace(topology, nodes=nodes)


@dataclass
class Nodes:
    """Two nodes that are really node 0 of this machine."""

    taken: dict[int, int] = field(default_factory=dict)
    """For which node each piece of memory was taken, by its address."""
    lies_on: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 1})
    """Where the memory that was taken for a node lies."""

    sizes: list[int] = field(default_factory=list)
    """The sizes of all memory that was ever taken."""

    def take(self, node: int, size_bytes: int) -> BoundMemory:
        self.sizes.append(size_bytes)
        memory = replace(bound_memory.take(0, size_bytes), node=node)
        self.taken[memory.address] = node
        return memory

    def give_back(self, memory: BoundMemory) -> None:
        del self.taken[memory.address]
        bound_memory.give_back(memory)

    def node_of(self, address: int) -> int:
        (node,) = (n for at, n in self.taken.items() if at <= address < at + CHAIN_BYTES)
        return self.lies_on[node]


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    try:
        with bound(0, CHAIN_BYTES):
            pass
    except TierdError as error:
        pytest.skip(f"this machine does not let us bind memory: {error}")
    found = Nodes()
    for name in ("take", "give_back", "node_of"):
        monkeypatch.setattr(latency_probe, name, getattr(found, name))
    yield found
    assert not found.taken, "memory was kept"


def test_a_chain_is_followed_at_the_next_reading(nodes: Nodes) -> None:
    one = Probe()
    assert one.nodes(ASKED) == []
    assert one.nodes(ASKED, after_s=EVERY_S / 2) == []
    assert one.nodes(ASKED) == [0, 1]
    before = dict(nodes.taken)
    assert one.nodes(ASKED) == [0, 1]
    # Two chains, and what pushes them out of the caches. All of it stays.
    assert nodes.taken == before
    assert len(before) == 3
    one.probe.end()


def test_other_memory_pushes_the_chains_out_of_the_caches(nodes: Nodes) -> None:
    one = Probe()
    one.nodes(ASKED)
    # This captured machine does not tell the sizes of its caches.
    assert nodes.sizes == [CHAIN_BYTES, CHAIN_BYTES, PUSHES * L2_BYTES]
    one.probe.end()


def test_nothing_is_kept_when_nobody_asks(nodes: Nodes) -> None:
    one = Probe()
    one.nodes(ASKED)
    assert nodes.taken
    assert one.nodes({}) == []
    assert not nodes.taken
    # It begins anew.
    assert one.nodes(ASKED) == []
    assert one.nodes(ASKED) == [0, 1]
    one.probe.end()


def test_memory_that_was_moved_tells_nothing(nodes: Nodes) -> None:
    one = Probe()
    one.nodes(ASKED)
    nodes.lies_on[1] = 0
    before = len(nodes.sizes)
    assert one.nodes(ASKED) == [0]
    assert nodes.sizes[before:] == [CHAIN_BYTES], "other memory is taken for node 1"
    nodes.lies_on[1] = 1
    assert one.nodes(ASKED) == [0, 1]
    one.probe.end()


def test_a_node_that_is_no_longer_asked_about_is_given_back(nodes: Nodes) -> None:
    one = Probe()
    one.nodes({0: (1, 2)})
    assert sorted(nodes.taken.values()) == [0, 0, 1, 2]
    assert one.nodes(ASKED) == [0, 1]
    assert sorted(nodes.taken.values()) == [0, 0, 1]
    one.probe.end()


def test_more_memory_pushes_out_of_a_larger_cache(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Probe()
    one.nodes(ASKED)
    monkeypatch.setattr(Topology, "nearest_cpus", lambda *_: (max(CPUS),))
    monkeypatch.setattr(caches, "sizes", lambda *_: {2: 2 * L2_BYTES})
    one.probe._l2_bytes.clear()
    assert one.nodes(ASKED) == [0, 1]
    assert nodes.sizes[-2:] == [PUSHES * L2_BYTES, 2 * PUSHES * L2_BYTES]
    assert len(nodes.taken) == 3
    one.probe.end()


def test_a_sandbox_that_forbids_it_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def take(node: int, _size_bytes: int) -> BoundMemory:
        calls.append(node)
        raise TierdError("mbind for node 0: Operation not permitted")

    monkeypatch.setattr(latency_probe, "take", take)
    one = Probe()
    assert one.nodes(ASKED) == one.nodes(ASKED) == []
    assert (len(calls), len(one.refused)) == (1, 1)


def test_a_refusal_in_the_middle_keeps_no_memory(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(node: int, size_bytes: int) -> BoundMemory:
        if node == 1:
            raise TierdError("mbind for node 1: Invalid argument")
        return nodes.take(node, size_bytes)

    monkeypatch.setattr(latency_probe, "take", take)
    one = Probe()
    assert one.nodes(ASKED) == []
    assert len(one.refused) == 1
    assert not nodes.taken


def test_a_node_without_processors_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {10_000})
    one = Probe()
    assert one.nodes(ASKED) == one.nodes(ASKED) == []
    assert not one.refused
