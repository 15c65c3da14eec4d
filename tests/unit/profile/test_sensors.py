"""Heat from sensors, with answers worked out by hand."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.fixtures.tiers import GIB, machine
from tierd import policy
from tierd.configuration.config import Config
from tierd.machine.features import Capabilities, Feature
from tierd.machine.sample import KdamondSample, Sample
from tierd.plans.plan import Sense
from tierd.profile import sensors
from tierd.profile.rates import CLASSES

MIB = 1 << 20
TOPOLOGY = machine((0,), (1,))
# The kernel does not tune its intervals here: a sample every 5 ms, twenty in a count.
PLAN = policy.plan(
    TOPOLOGY, Capabilities(frozenset(Feature)), Config(cost_bp=0, auto_intervals=False)
)
LEVELS = [one.scheme for one in PLAN.sensors if one.node == 1 and one.weight]


def sample(windows: float, counted: Mapping[int, int], pid: int = 7, state: str = "on") -> Sample:
    """Return a sample after some windows, in each of which the sensors of node 1 counted this."""
    tried: dict[int, dict[int, int]] = {index: {} for index in range(len(PLAN.kdamonds))}
    for one in PLAN.sensors:
        each = counted.get(one.scheme, 0) if one.node == 1 else 0
        whole = PLAN.kdamonds[one.kdamond].context.bytes
        tried[one.kdamond][one.scheme] = round(
            windows * (whole if one.sense is Sense.all else each)
        )
    kdamonds = tuple(
        KdamondSample(index, state, pid, (), sensed) for index, sensed in tried.items()
    )
    return Sample(windows / 10, (), (), kdamonds, None, 0, 0, 0)


def test_the_steps_of_heat_become_classes_and_the_rest_is_cold() -> None:
    # Bounds of 1, 3, 8 and 14 hits of twenty: 100 MiB in the first step, 40 in the last.
    counted = dict(zip(LEVELS, (200 * MIB, 100 * MIB, 60 * MIB, 40 * MIB), strict=True))
    found = sensors.heat_bytes(PLAN, TOPOLOGY, sample(0, {}), sample(600, counted))
    assert found is not None
    slow = found[1]
    # 1.5 hits of twenty are 15.6 touches a second, 5 are 58, and so are those above.
    assert slow[6] == pytest.approx(100 * MIB)
    assert slow[8] == pytest.approx(100 * MIB)
    assert sum(slow) == pytest.approx(GIB)
    assert slow[0] == pytest.approx(GIB - 200 * MIB)
    assert found[0] == (GIB, *(0.0,) * (CLASSES - 1))


@pytest.mark.parametrize(
    "now",
    [
        sample(600, {}, pid=8),
        sample(600, {}, state="off"),
        # Too few windows to say anything.
        sample(5, {}),
    ],
    ids=["restarted", "off", "brief"],
)
def test_nothing_is_said_of_a_minute_that_was_interrupted(now: Sample) -> None:
    assert sensors.heat_bytes(PLAN, TOPOLOGY, sample(0, {}), now) is None


def test_without_sensors_nothing_is_known() -> None:
    blind = replace(PLAN, sensors=())
    assert sensors.heat_bytes(blind, TOPOLOGY, sample(0, {}), sample(600, {})) is None


def test_tuned_intervals_count_as_the_middle_of_their_bounds() -> None:
    tuned = policy.plan(TOPOLOGY, Capabilities(frozenset(Feature)), Config(cost_bp=0))
    intervals = tuned.kdamonds[0].context.intervals
    assert intervals.goal is not None
    assert sensors.sample_us(intervals) == 10_000
    assert sensors.sample_us(PLAN.kdamonds[0].context.intervals) == 5_000
