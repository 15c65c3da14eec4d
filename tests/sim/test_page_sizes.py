"""Pages of 16 and 64 KiB: tierd reads the size of a page, and every figure in pages follows it."""

from dataclasses import replace

import pytest

from tests.sim.loop import MIB, Disk, Loop, Script, cold, hot
from tierd.configuration.config import Config
from tierd.machine import discovery, features
from tierd.planning import plan_for
from tierd.plans.plan import Grain
from tierd.sim import machine_model
from tierd.sim.sim_kernel import SimKernel
from tierd.sim.workload import Workload, WorkloadEvent

KIB = 1 << 10
SIZES = (16 * KIB, 64 * KIB)
BLOCK_BYTES = 256 * KIB


def kernel(series: str, page_bytes: int, *happenings: WorkloadEvent) -> SimKernel:
    machine = replace(machine_model.load("two-tier"), page_bytes=page_bytes)
    return SimKernel(
        series,
        machine,
        seed=1,
        workload=Workload(list(happenings), seed=1),
        block_pages=BLOCK_BYTES // page_bytes,
    )


@pytest.mark.parametrize("page_bytes", SIZES)
def test_the_size_is_read_and_carried(page_bytes: int) -> None:
    sysfs = kernel("7.3", page_bytes)
    topology = discovery.discover(sysfs, None)
    assert topology.page_bytes == page_bytes
    plan = plan_for(sysfs, topology, features.probe(sysfs), Config())
    assert plan.page_bytes == page_bytes
    schemes = [scheme for kdamond in plan.kdamonds for scheme in kdamond.context.schemes]
    # A sensor of everything has no least size.
    assert {scheme.pattern.size_bytes.min for scheme in schemes} == {0, page_bytes}
    assert plan.sweeps
    assert all(sweep.quota_bytes % page_bytes == 0 for sweep in plan.sweeps)
    assert all(start.start % page_bytes == 0 for node in topology.nodes for start in node.ranges)


def test_the_rest_of_the_machine_stays_as_it_was() -> None:
    small, large = (discovery.discover(kernel("7.3", size), None) for size in (4096, 64 * KIB))
    for one, other in zip(small.nodes, large.nodes, strict=True):
        assert one.ranges == other.ranges
        assert other.size_bytes == pytest.approx(one.size_bytes, rel=0.02)


@pytest.mark.parametrize("page_bytes", SIZES)
@pytest.mark.parametrize("series", ["6.12", "7.3"])
def test_hot_memory_comes_up_and_then_everything_is_parked(series: str, page_bytes: int) -> None:
    happenings = (cold("cold", 0, 380), hot("hot", 1, 64), cold("other", 1, 100))
    machine = kernel(series, page_bytes, *happenings)
    machine.advance(0.001)
    # Without sweeps: regions see this heat, and a sweep has no quota to park.
    config = Config(regions=(50, 200), cost_bp=0)
    made = Loop(machine, Script(machine), Disk(), config)
    shares: list[float] = []
    made.do(44.0, lambda: shares.append(made.share("hot", 0)))
    made.run(45.0)
    assert shares[0] >= 0.95
    by_region = [one for one in made.before(44.9).schemes if one.action == "promote"]
    for one in by_region:
        assert one.parked
        assert (one.quota_effective_bytes or 0) < page_bytes
        assert one.applied_bytes_total % page_bytes == 0
        assert one.applied_bytes_total >= 0.9 * 64 * MIB


def test_a_quota_of_less_than_a_large_page_counts_as_parked() -> None:
    machine = kernel("7.3", 64 * KIB, cold("cold", 0, 100))
    machine.advance(0.001)
    made = Loop(machine, Script(machine), Disk(), Config(cost_bp=0))
    made.run(10.0)
    seen = made.before(9.9).schemes
    quotas = [one.quota_effective_bytes or 0 for one in seen]
    # The quota of a parked scheme is a quarter of a page: on this machine more than 4 KiB.
    assert all(one.parked for one in seen)
    assert all(4096 < quota < 64 * KIB for quota in quotas)


def test_pages_of_16_kib_are_visited_too() -> None:
    machine = kernel("7.3", 16 * KIB)
    plan = plan_for(machine, discovery.discover(machine, None), features.probe(machine), Config())
    assert {one.grain for one in plan.migrations} == {Grain.regions, Grain.pages}
