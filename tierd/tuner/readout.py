"""Make a measurement per node and per scheme from two samples and the plan."""

from collections.abc import Mapping

from tierd.machine.sample import KdamondSample, Sample, SchemeSample
from tierd.plans.plan import Direction, Item, Plan, Sense, Sensor
from tierd.tuner.measurement import Limits, Measurement, NodeMeasurement, Way, WayMeasurement

Counts = Mapping[Sensor, float]
"""What each sensor counted: the mean of the windows since the last sample."""


def limits(plan: Plan, headroom_bp: int, *, charges_failures: bool) -> Limits:
    """Return the limits, which stay the same for a plan."""
    return Limits(
        controller=plan.tuner.loop,
        ways=tuple(
            Way(
                id=item.id,
                direction=item.direction,
                source=item.source_node,
                target=item.target_node,
                rate_max_bytes_per_s=item.rate_max_bytes_per_s,
                quota_bytes_max=item.quota_bytes_max,
                aim=item.aim,
            )
            for item in plan.items
        ),
        headroom_bp=headroom_bp,
        charges_failures=charges_failures,
    )


def reading(plan: Plan, before: Sample | None, now: Sample) -> Measurement | None:
    """Return what changed between two samples, or None if a kdamond has started between them."""
    if before is None or now.monotonic_s <= before.monotonic_s or not _same(before, now):
        return None
    seconds = now.monotonic_s - before.monotonic_s
    windows = {one.index: _windows(plan, before, now, one.index) for one in now.kdamonds}
    counts = {
        sensor: _tried(before, now, sensor.kdamond, sensor.scheme) / windows[sensor.kdamond]
        for sensor in plan.sensors
        if windows[sensor.kdamond]
    }
    return Measurement(
        seconds=seconds,
        nodes={node.node: _node(plan, now, counts, node.node) for node in now.nodes},
        ways={
            item.id: _way(before, now, item, seconds, windows[item.kdamond]) for item in plan.items
        },
        pressure=_some_us(before, now) / (seconds * 1e6),
        stalls=_stalls(now) - _stalls(before),
    )


def quotas(plan: Plan, now: Sample) -> dict[str, int]:
    """Return the quota in force of each scheme whose kdamond runs."""
    running = {one.index for one in now.kdamonds if one.state == "on"}
    return {
        item.id: _scheme(now, item.kdamond, item.scheme).effective_bytes
        for item in plan.items
        if item.kdamond in running
    }


def _same(before: Sample, now: Sample) -> bool:
    """Return whether the same kdamonds run in both. If not, counters have started again."""
    return _who(before) == _who(now) and all(one.state == "on" for one in now.kdamonds)


def _who(sample: Sample) -> list[tuple[int, int, int, int]]:
    return [(one.index, one.pid, len(one.schemes), len(one.sensed)) for one in sample.kdamonds]


def _node(plan: Plan, now: Sample, counts: Counts, node: int) -> NodeMeasurement:
    seen = now.node(node)
    mine = {sensor: count for sensor, count in counts.items() if sensor.node == node}
    goes_up = any(
        item.direction is Direction.promote and item.source_node == node for item in plan.items
    )
    marks = next((marks for marks in now.watermarks if marks.node == node), None)
    return NodeMeasurement(
        total_bytes=seen.total_bytes,
        free_bytes=seen.free_bytes,
        mark_bytes=marks.floor_bytes if marks else 0,
        hot_bytes=_sensed(mine, Sense.hot) if goes_up else None,
        cold_bytes=_sensed(mine, Sense.cold),
        heat_bytes=round(sum(sensor.weight * count for sensor, count in mine.items())),
        faint_bytes=_faint(mine),
        huge_bytes=seen.huge_bytes,
    )


def _sensed(mine: Counts, sense: Sense) -> int | None:
    """Return the bytes that fit a pattern, or None if no sensor has counted them."""
    return next((round(count) for sensor, count in mine.items() if sensor.sense is sense), None)


def _faint(mine: Counts) -> int:
    """Return the heat of regions in which only one or two samples hit."""
    levels = [(sensor.weight, count) for sensor, count in mine.items() if sensor.weight]
    if len(levels) < 2:
        return 0
    (weight, all_hot), (_, hotter) = levels[:2]
    return round(weight * (all_hot - hotter))


def _windows(plan: Plan, before: Sample, now: Sample, kdamond: int) -> float:
    """Return the number of windows. The sensor that matches everything counts all of it in each."""
    clock = next((s for s in plan.sensors if (s.kdamond, s.sense) == (kdamond, Sense.all)), None)
    if clock is None:
        return 0.0
    watched = sum(part.end - part.start for part in plan.kdamonds[kdamond].context.ranges)
    return _tried(before, now, kdamond, clock.scheme) / watched


def _tried(before: Sample, now: Sample, kdamond: int, sensor: int) -> int:
    return _kdamond(now, kdamond).sensed[sensor] - _kdamond(before, kdamond).sensed[sensor]


def _way(before: Sample, now: Sample, item: Item, seconds: float, windows: float) -> WayMeasurement:
    was, seen = (_scheme(sample, item.kdamond, item.scheme) for sample in (before, now))
    window_s = item.window_us / 1e6
    return WayMeasurement(
        tried_bytes=seen.sz_tried - was.sz_tried,
        applied_bytes=seen.sz_applied - was.sz_applied,
        quota_bytes=seen.effective_bytes,
        # A kdamond's work makes a window longer, and a sample may make it a little shorter. The
        # first window after a start or a change of intervals is not reliable.
        window_s=max(window_s / 2, seconds / windows) if windows >= 1 else window_s,
    )


def _scheme(sample: Sample, kdamond: int, scheme: int) -> SchemeSample:
    return next(one for one in _kdamond(sample, kdamond).schemes if one.index == scheme)


def _kdamond(sample: Sample, index: int) -> KdamondSample:
    return next(one for one in sample.kdamonds if one.index == index)


def _some_us(before: Sample, now: Sample) -> int:
    if before.pressure is None or now.pressure is None:
        return 0
    return now.pressure.some_us - before.pressure.some_us


def _stalls(sample: Sample) -> int:
    direct = sum(
        count for node in sample.nodes for name, count in node.counters if name == "pgdemote_direct"
    )
    return sample.allocstall + direct
