"""Where a benchmark can run, and its message where it cannot."""

import os

import pytest

from bench import machines, phase, place
from bench.errors import BenchError
from tierd.sim import machine_model
from tierd.sim.sim_kernel import SimKernel


def test_the_pair_is_a_node_with_processors_and_what_it_demotes_to() -> None:
    found = place.find(SimKernel("7.2", machine_model.load("two-tier")))
    assert (found.fast, found.slow) == (0, 1)
    assert 448 << 20 < found.fast_bytes <= 512 << 20, "less what the kernel keeps for itself"
    assert set(found.ranges) == {0, 1}
    assert all(start < end for ranges in found.ranges.values() for start, end in ranges)


def test_a_machine_with_one_tier_is_refused() -> None:
    with pytest.raises(BenchError, match="no second tier"):
        place.find(SimKernel("7.2", machine_model.load("one-tier")))


def test_without_root_nothing_is_begun_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BenchError, match="as root"):
        machines.here("none", (phase.BY_NAME["static"],), 20_000_000)
