"""A line of a profile, from two moments of a machine."""

import pytest

from tests.fixtures.tiers import GIB, machine
from tierd.machine.sample import NodeSample, Pressure, Sample, VmEvents
from tierd.profile import minute
from tierd.profile.minute import Moment
from tierd.profile.rates import CLASSES

TOPOLOGY = machine((0,), (1,))


def moment(at_s: float, some_us: int, allocated: int, faults: int) -> Moment:
    nodes = tuple(NodeSample(node, GIB, GIB // 4, ()) for node in (0, 1))
    sample = Sample(at_s, nodes, (), (), Pressure(some_us), 0, 0, 0)
    return Moment(sample, VmEvents(allocated, faults))


BEFORE = moment(100.0, 1_000, 500, 7)


def test_counters_become_rates() -> None:
    found = minute.line(TOPOLOGY, BEFORE, moment(160.0, 3_001_000, 1100, 127), {}, 5)
    assert (found.minute, found.minutes) == (5, 1)
    assert found.pressure == pytest.approx(0.05)
    assert found.alloc_bytes_per_s == 10 * TOPOLOGY.page_bytes
    assert found.major_faults_per_s == pytest.approx(2.0)
    assert found.used == (0.75, 0.75)


def test_counters_that_began_anew_are_no_negative_rates() -> None:
    found = minute.line(TOPOLOGY, BEFORE, moment(160.0, 0, 0, 0), {}, 0)
    assert (found.pressure, found.alloc_bytes_per_s, found.major_faults_per_s) == (0.0, 0, 0.0)


def test_what_nobody_has_seen_hot_is_cold() -> None:
    """Also memory of a tier that nobody watches. The shares of a tier are never more than all."""
    seen = (2.0 * GIB, *(0.0,) * (CLASSES - 2), GIB / 4)
    hot, blind = minute.line(TOPOLOGY, BEFORE, BEFORE, {0: seen}, 0).heat
    assert hot == (0.75, *(0.0,) * (CLASSES - 2), 0.25)
    assert blind == (1.0, *(0.0,) * (CLASSES - 1))
