"""Which nodes are left alone unless the configuration lists them."""

from dataclasses import replace

import pytest

from tests.fixtures import topologies
from tests.fixtures.pages import PAGE_BYTES
from tierd.errors import Unsupported
from tierd.machine import discovery
from tierd.machine.unsuited import unsuited, without
from tierd.ranges import Range
from tierd.topology import Node, Performance, Tier, Topology

GIB = 1 << 30


def node(number: int, *, cpus: bool, latency_ns: int | None, initiator: int | None = 0) -> Node:
    told = Performance(latency_ns, latency_ns, 1000, 1000) if latency_ns is not None else None
    return Node(
        id=number,
        size_bytes=GIB,
        cpus=(number,) if cpus else (),
        ranges=(Range(number * GIB, (number + 1) * GIB),),
        distances=tuple((other, 10 if other == number else 20) for other in range(3)),
        performance=told,
        cpu_performance=told,
        initiators=() if initiator is None else (initiator,),
    )


DRAM = node(0, cpus=True, latency_ns=100)
HBM_ABOVE = (Tier("memory_tier1", 0, (1,)), Tier("memory_tier4", 1, (0,)))


def test_hbm_that_answers_later_than_dram_is_left_alone() -> None:
    found = unsuited((DRAM, node(1, cpus=False, latency_ns=101)), HBM_ABOVE)
    assert set(found) == {1}
    assert "101 ns" in found[1]
    assert "100 ns" in found[1]


@pytest.mark.parametrize("latency_ns", [99, 100, None])
def test_hbm_that_answers_as_soon_is_used(latency_ns: int | None) -> None:
    assert unsuited((DRAM, node(1, cpus=False, latency_ns=latency_ns)), HBM_ABOVE) == {}


def test_a_slower_tier_may_answer_later() -> None:
    below = (Tier("memory_tier4", 0, (0,)), Tier("memory_tier9", 1, (1,)))
    assert unsuited((DRAM, node(1, cpus=False, latency_ns=300)), below) == {}


def test_what_processors_see_counts_and_not_what_a_device_sees() -> None:
    hbm = node(1, cpus=False, latency_ns=300)
    near = replace(hbm, performance=Performance(50, 50, 1000, 1000))
    assert set(unsuited((DRAM, near), HBM_ABOVE)) == {1}


def test_memory_of_a_device_is_left_alone() -> None:
    below = (Tier("memory_tier4", 0, (0,)), Tier("memory_tier9", 1, (1, 2)))
    gpu = node(1, cpus=False, latency_ns=300, initiator=1)
    cxl = node(2, cpus=False, latency_ns=300)
    assert set(unsuited((DRAM, gpu, cxl), below)) == {1}
    # One with CPUs that is as near makes it memory for programs of the CPUs too.
    shared = replace(gpu, initiators=(0, 1))
    assert unsuited((DRAM, shared, cxl), below) == {}
    # Without figures nothing is known.
    assert unsuited((DRAM, replace(gpu, initiators=()), cxl), below) == {}


def test_a_tier_without_nodes_is_no_tier() -> None:
    assert without(HBM_ABOVE, {1: "why"}) == (Tier("memory_tier4", 0, (0,)),)
    three = (*HBM_ABOVE, Tier("memory_tier9", 2, (2,)))
    assert [tier.rank for tier in without(three, {0: "why"})] == [0, 1]


def test_the_reason_is_shown_and_a_configuration_overrules_it() -> None:
    sysfs = topologies.load("09-gpu-memory").sysfs()
    machine = discovery.survey(sysfs, None)
    assert machine.tier_of(1) is None
    assert "memory of a device" in machine.node(1).tier_origin
    with pytest.raises(Unsupported, match="at least two tiers") as caught:
        discovery.discover(sysfs, None)
    assert "node 1 is left out" in caught.value.hint
    asked = discovery.discover(sysfs, ((0,), (1,)))
    assert asked.demotion_targets(0) == (1,)


def test_hbm_is_a_target_if_it_is_configured() -> None:
    sysfs = topologies.load("07-hbm-slower-to-answer").sysfs()
    assert discovery.survey(sysfs, None).promotion_targets(0) == ()
    asked: Topology = discovery.survey(sysfs, ((1,), (0,), (2,)))
    assert asked.promotion_targets(0) == (1,)
    assert asked.page_bytes == PAGE_BYTES
