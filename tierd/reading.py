"""What the tuner is told: two samples and the plan, made into figures per node and per scheme."""

from tierd.demand import Limits, NodeReading, Reading, Way, WayReading
from tierd.plan import Item, Plan, Sense
from tierd.sample import KdamondSample, Sample, SchemeSample


def limits(plan: Plan, headroom_bp: int, *, charges_failures: bool) -> Limits:
    """What holds for as long as the plan does."""
    return Limits(
        loop=plan.tuner.loop,
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


def reading(plan: Plan, before: Sample | None, now: Sample) -> Reading | None:
    """What happened between two samples; None if that cannot be told (a kdamond began anew)."""
    if before is None or now.monotonic_s <= before.monotonic_s or not _same(before, now):
        return None
    seconds = now.monotonic_s - before.monotonic_s
    return Reading(
        seconds=seconds,
        nodes={node.node: _node(plan, before, now, node.node) for node in now.nodes},
        ways={item.id: _way(plan, before, now, item) for item in plan.items},
        pressure=_some_us(before, now) / (seconds * 1e6),
        stalls=_stalls(now) - _stalls(before),
    )


def quotas(plan: Plan, now: Sample) -> dict[str, int]:
    """Each scheme's quota in force, where its kdamond runs."""
    running = {one.index for one in now.kdamonds if one.state == "on"}
    return {
        item.id: _scheme(now, item.kdamond, item.scheme).effective_bytes
        for item in plan.items
        if item.kdamond in running
    }


def _same(before: Sample, now: Sample) -> bool:
    """Whether both are of the same kdamonds, and those run: else counters began anew."""
    pids = [(one.index, one.pid, len(one.schemes)) for one in now.kdamonds]
    return pids == [(one.index, one.pid, len(one.schemes)) for one in before.kdamonds] and all(
        one.state == "on" for one in now.kdamonds
    )


def _node(plan: Plan, before: Sample, now: Sample, node: int) -> NodeReading:
    seen = now.node(node)
    marks = next((marks for marks in now.watermarks if marks.node == node), None)
    return NodeReading(
        total_bytes=seen.total_bytes,
        free_bytes=seen.free_bytes,
        mark_bytes=marks.floor_bytes if marks else 0,
        hot_bytes=_sensed(plan, before, now, node, Sense.hot),
        cold_bytes=_sensed(plan, before, now, node, Sense.cold),
    )


def _sensed(plan: Plan, before: Sample, now: Sample, node: int, sense: Sense) -> int | None:
    """The bytes that fit a sensor's pattern, on average over the windows since the last sample."""
    sensor = next((s for s in plan.sensors if (s.node, s.sense) == (node, sense)), None)
    if sensor is None:
        return None
    windows = _windows(plan, before, now, sensor.kdamond)
    if not windows:
        return None
    return round(_tried(before, now, sensor.kdamond, sensor.scheme) / windows)


def _windows(plan: Plan, before: Sample, now: Sample, kdamond: int) -> float:
    """How many windows there were: a scheme that fits everything tries all of it in each."""
    clock = next((s for s in plan.sensors if (s.kdamond, s.sense) == (kdamond, Sense.all)), None)
    if clock is None:
        return 0.0
    watched = sum(part.end - part.start for part in plan.kdamonds[kdamond].context.ranges)
    return _tried(before, now, kdamond, clock.scheme) / watched


def _tried(before: Sample, now: Sample, kdamond: int, scheme: int) -> int:
    return _scheme(now, kdamond, scheme).sz_tried - _scheme(before, kdamond, scheme).sz_tried


def _way(plan: Plan, before: Sample, now: Sample, item: Item) -> WayReading:
    was, seen = (_scheme(sample, item.kdamond, item.scheme) for sample in (before, now))
    windows = _windows(plan, before, now, item.kdamond)
    seconds = now.monotonic_s - before.monotonic_s
    window_s = item.window_us / 1e6
    return WayReading(
        tried_bytes=seen.sz_tried - was.sz_tried,
        applied_bytes=seen.sz_applied - was.sz_applied,
        quota_bytes=seen.effective_bytes,
        # A window is late by what the kdamond does in it, never early; the first after a start or
        # a tuning of intervals says nothing.
        window_s=max(window_s, seconds / windows) if windows >= 1 else window_s,
    )


def _scheme(sample: Sample, kdamond: int, scheme: int) -> SchemeSample:
    return _kdamond(sample, kdamond).schemes[scheme]


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
