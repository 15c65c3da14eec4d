"""How hot memory is, as the sensors of a running plan have counted it. Pure.

A sensor counts regions. A region that is touched in a third of the samples may be memory that is
touched now and then, or memory of which a third is touched all the time. So this is trusted less
than a panel: `from_profile` says what follows if the one is true, and what if the other is.
"""

from collections.abc import Iterator, Sequence
from math import sqrt

from tierd.machine.sample import KdamondSample, Sample
from tierd.plans.damon import Context, Intervals
from tierd.plans.plan import Plan, Sense, Sensor
from tierd.profile.rates import CLASSES, class_of, rate_hz
from tierd.topology import Topology

# Fewer windows say little: a minute has six hundred, or sixty where they are long.
WINDOWS_MIN = 10


def heat_bytes(
    plan: Plan, topology: Topology, before: Sample, now: Sample
) -> dict[int, tuple[float, ...]] | None:
    """Return the mean bytes in each class of `rates`, by the rank of the tier.

    None if nothing counts heat, or if a kdamond has stopped or started since the first sample.
    """
    if not plan.sensors or _runs(before) != _runs(now):
        return None
    found: dict[int, list[float]] = {}
    pairs = {new.index: (old, new) for old, new in zip(before.kdamonds, now.kdamonds, strict=True)}
    for watch in plan.watches:
        mine = [one for one in plan.sensors if one.kdamond == watch.index]
        context = plan.kdamonds[watch.index].context
        classes = _node(mine, context, pairs[watch.index])
        if classes is None:
            return None
        sums = found.setdefault(topology.rank_of(watch.node), [0.0] * CLASSES)
        for kind, size in enumerate(classes):
            sums[kind] += size
    return {rank: tuple(sums) for rank, sums in found.items()}


def _runs(sample: Sample) -> list[tuple[int, int]] | None:
    """Return who runs, or None if one of them does not."""
    if any(one.state != "on" for one in sample.kdamonds):
        return None
    return [(one.index, one.pid) for one in sample.kdamonds]


def _node(
    sensors: Sequence[Sensor], context: Context, pair: tuple[KdamondSample, KdamondSample]
) -> list[float] | None:
    before, now = pair
    tried = {one: now.sensed[one.scheme] - before.sensed[one.scheme] for one in sensors}
    windows = sum(tried[one] for one in sensors if one.sense is Sense.all) / context.bytes
    if windows < WINDOWS_MIN:
        return None
    classes = [0.0] * CLASSES
    for rate, size in _steps([one for one in sensors if one.weight], tried, context):
        classes[class_of(rate)] += max(0.0, size / windows)
    classes[0] = max(0.0, context.bytes - sum(classes[1:]))
    return classes


def _steps(
    levels: Sequence[Sensor], tried: dict[Sensor, int], context: Context
) -> Iterator[tuple[float, int]]:
    """Yield the rate of each step of heat, and what was counted in it and in no hotter one."""
    samples = context.intervals.samples
    bounds = [context.schemes[one.scheme].pattern.nr_accesses.min for one in levels]
    for one, after, low, high in zip(
        levels, (*levels[1:], None), bounds, (*bounds[1:], samples), strict=True
    ):
        middle = (low + max(low, high - 1)) / 2
        rate = rate_hz(middle, samples, sample_us(context.intervals))
        yield rate, tried[one] - (tried[after] if after is not None else 0)


def sample_us(intervals: Intervals) -> int:
    """Return the time between two samples. Where the kernel tunes it: the middle of its bounds."""
    goal = intervals.goal
    if goal is None:
        return intervals.sample_us
    return round(sqrt(goal.min_sample_us * goal.max_sample_us))
