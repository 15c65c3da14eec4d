"""Run the tuner: pass it readings, write its inputs to the kernel, and end growth in time.

Rules of this file:
1. `feedback` decides what to write. This file remembers what was written, and how the quotas have
   changed since. It writes nothing twice.
2. The first input after a start, an adoption or a new start of a kdamond is safe: the quota
   shrinks, stays, or grows to READY_BYTES.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import inf
from operator import attrgetter

from tierd import feedback
from tierd.feedback import Adjustment, ControllerState, Limits, Measurement
from tierd.kdamonds import apply
from tierd.kdamonds.applied import Applied
from tierd.kdamonds.kernel import Kernel
from tierd.loop.supervise import Refresh
from tierd.machine.sample import Sample
from tierd.plans.damon import PAGE_BYTES, Write, input_path
from tierd.plans.plan import GROWING_INPUT, Controller, Direction, Item
from tierd.tuner import readout, throttle
from tierd.tuner.throttle import TARGET, Input

# An input is written a little late, because the loop does other things too: on average by this
# share of a window.
LATE_WINDOWS = 0.25

# If one command takes this long, a round takes a second. A hundred megabytes may move in it. Free
# memory is read without a command. So while something is promoted, it is read at this interval
# between two rounds. A decision by it then holds no longer than a round on other kernels.
SLOW_COMMAND_S = 0.05
GLANCE_S = 0.15
BLIND_S = 0.5

# An input that is due this soon counts as due. Clocks have steps, and every window is longer.
EARLY_S = 0.001


@dataclass(frozen=True, slots=True)
class ScheduledInput:
    """An input, and when to write it."""

    at_s: float
    value: int


@dataclass(frozen=True, slots=True)
class InputInForce:
    """The input in the kernel (None if not known), and the quota at a moment.

    A quota at its limit goes on growing unseen, so this quota may be larger than the limit.
    """

    at_s: float
    quota_bytes: int
    value: int | None

    def quota_by(self, moment_s: float, window_s: float) -> int:
        """Return the quota at a later moment, if no other input is written."""
        windows = max(0.0, moment_s - self.at_s) / window_s
        value = TARGET if self.value is None else self.value
        return throttle.grown(self.quota_bytes, value, windows)


@dataclass(frozen=True, slots=True)
class Tuning:
    """What the tuner remembers."""

    controller: ControllerState = field(default_factory=ControllerState)
    seen: Sample | None = None
    reading: Measurement | None = None
    in_force: Mapping[str, InputInForce] = field(default_factory=dict)
    """The input in force, by scheme."""
    scheduled: Mapping[str, ScheduledInput] = field(default_factory=dict)
    glance_s: float | None = None
    """When to read free memory between two rounds."""
    active: bool = True
    """True if something should move, now or when there is room. Also true if that is not known."""
    parked: frozenset[str] = frozenset()
    """Schemes whose quota was read as parked, and does not change."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    wanted_bytes_per_s: Mapping[str, float] = field(default_factory=dict)
    headroom_bytes: Mapping[int, int] = field(default_factory=dict)

    @property
    def due_s(self) -> float | None:
        """Return when `settle` has to write next, or None."""
        return min((scheduled.at_s for scheduled in self.scheduled.values()), default=None)

    def is_due(self, now_s: float) -> bool:
        return self.due_s is not None and self.due_s <= now_s + EARLY_S


def follow(
    kernel: Kernel,
    applied: Applied,
    tuning: Tuning,
    limits: Limits,
    now: Sample,
    refresh: Refresh,
) -> Tuning:
    """Do one round with a new sample. `refresh` says when and how its statistics were read."""
    began_s = kernel.clock.monotonic()
    tuning = _read(applied, tuning, now, refresh, began_s)
    # Kdamonds get their inputs one after another.
    kdamonds = dict.fromkeys(item.kdamond for item in applied.plan.items)
    moments_s = {one: began_s + turn * refresh.command_s for turn, one in enumerate(kdamonds)}
    slow = refresh.command_s > SLOW_COMMAND_S
    again_s = BLIND_S if slow and _comes_up(tuning, limits) else inf
    tuning, inputs = _round(applied, tuning, limits, now, moments_s, again_s)
    tuning = _write(kernel, applied, tuning, inputs)
    return _next_glance(kernel, tuning, limits) if slow else replace(tuning, glance_s=None)


def _comes_up(tuning: Tuning, limits: Limits) -> bool:
    """Return whether something is promoted, or will be when there is room."""
    ups = (way.id for way in limits.ways if way.direction is Direction.promote)
    known = tuning.controller.habits
    return any(name in known and known[name].quota_bytes >= PAGE_BYTES for name in ups)


def glance(
    kernel: Kernel,
    applied: Applied,
    tuning: Tuning,
    limits: Limits,
    free_bytes: Mapping[int, int],
) -> Tuning:
    """Decide again between two rounds, by the memory that is free now."""
    seen, now_s = tuning.reading, kernel.clock.monotonic()
    if seen is None:
        return replace(tuning, glance_s=None)
    nodes = {
        name: replace(node, free_bytes=free_bytes.get(name, node.free_bytes))
        for name, node in seen.nodes.items()
    }
    moments_s = dict.fromkeys((item.kdamond for item in applied.plan.items), now_s)
    seen = _by_then(replace(seen, nodes=nodes), applied, tuning, moments_s)
    controller, adjustment = feedback.glance(tuning.controller, seen, limits)
    # These quotas change, so they have to be read again.
    parked = tuning.parked - adjustment.inputs.keys()
    tuning = replace(_after(tuning, controller, adjustment), parked=parked)
    tuning = _write(kernel, applied, tuning, adjustment.inputs)
    return _next_glance(kernel, tuning, limits)


def _next_glance(kernel: Kernel, tuning: Tuning, limits: Limits) -> Tuning:
    """Set the time of the next glance, if something is promoted and there was a reading."""
    glances = tuning.reading is not None and _comes_up(tuning, limits)
    return replace(tuning, glance_s=kernel.clock.monotonic() + GLANCE_S if glances else None)


def watch(applied: Applied, tuning: Tuning, limits: Limits, now: Sample) -> Tuning:
    """Do one round in observe mode. Decisions are reported and not written."""
    return _round(applied, tuning, limits, now, {}, inf)[0]


def _round(
    applied: Applied,
    tuning: Tuning,
    limits: Limits,
    now: Sample,
    moments_s: Mapping[int, float],
    again_s: float,
) -> tuple[Tuning, Mapping[str, Input]]:
    seen = readout.reading(applied.plan, tuning.seen, now)
    if seen is not None and limits.controller is Controller.demand:
        seen = _by_then(replace(seen, again_s=again_s), applied, tuning, moments_s)
    tuning = replace(tuning, seen=now, reading=seen, active=True, parked=frozenset())
    if seen is None:
        running = readout.quotas(applied.plan, now)
        quotas = {
            name: in_force.quota_bytes
            for name, in_force in tuning.in_force.items()
            if name in running
        }
        return tuning, feedback.begin(quotas, limits)
    controller, adjustment = feedback.step(tuning.controller, seen, limits)
    return _after(tuning, controller, adjustment), adjustment.inputs


def _after(tuning: Tuning, controller: ControllerState, adjustment: Adjustment) -> Tuning:
    return replace(
        tuning,
        controller=controller,
        active=any(want.quota_bytes for want in adjustment.wants.values()),
        parked=adjustment.parked,
        reasons={name: want.reason for name, want in adjustment.wants.items()},
        wanted_bytes_per_s={name: want.bytes_per_s for name, want in adjustment.wants.items()},
        headroom_bytes=adjustment.headroom_bytes,
    )


def _read(applied: Applied, tuning: Tuning, now: Sample, refresh: Refresh, now_s: float) -> Tuning:
    """Return the state with the quotas of a sample. Quotas that are known to stay are kept."""
    quotas, in_force = readout.quotas(applied.plan, now), dict(tuning.in_force)
    for item in applied.plan.items:
        before = in_force.get(item.id)
        if item.id not in quotas or (before and item.id in tuning.parked):
            continue
        asked_s = refresh.quotas_s.get(item.kdamond, now_s)
        quota = quotas[item.id]
        if quota >= item.quota_bytes_max:
            quota = max(quota, _behind(tuning, item, before, asked_s))
        in_force[item.id] = InputInForce(asked_s, quota, before.value if before else None)
    return replace(tuning, in_force=in_force)


def _behind(tuning: Tuning, item: Item, before: InputInForce | None, asked_s: float) -> int:
    """Return the size of a quota that is read as its limit: by its input, if that is known."""
    if before is None or before.value is None:
        return throttle.BELIEVED_MAX_BYTES
    return before.quota_by(asked_s, _window_s(tuning, item))


def _by_then(
    seen: Measurement, applied: Applied, tuning: Tuning, moments_s: Mapping[int, float]
) -> Measurement:
    """Return the measurement with each quota as it will be when its input is written."""
    ways = dict(seen.ways)
    for item in applied.plan.items:
        in_force = tuning.in_force.get(item.id)
        if in_force and item.kdamond in moments_s:
            quota = in_force.quota_by(moments_s[item.kdamond], _window_s(tuning, item))
            ways[item.id] = replace(ways[item.id], quota_bytes=quota)
    return replace(seen, ways=ways)


def begin(applied: Applied, limits: Limits) -> Tuning:
    """Return the first state. Quotas of new kdamonds grow already, until they are ready.

    The first sample takes a second on some kernels. Half of the growth is done by then.
    """
    since_s = applied.grows_s
    if since_s is None:
        return Tuning()
    inputs = feedback.begin(dict.fromkeys((way.id for way in limits.ways), 1), limits)
    scheduled = {
        item.id: _then(inputs[item.id], since_s, _window_s(Tuning(), item))
        for item in applied.plan.items
    }
    return Tuning(
        in_force=dict.fromkeys(scheduled, InputInForce(since_s, 1, GROWING_INPUT)),
        scheduled=scheduled,
    )


def _then(want: Input, since_s: float, window_s: float) -> ScheduledInput:
    """Return what to write after an input that is for a number of windows."""
    return ScheduledInput(since_s + (want.windows - LATE_WINDOWS) * window_s, want.then)


def settle(kernel: Kernel, applied: Applied, tuning: Tuning) -> Tuning:
    """Write the inputs that are due."""
    now_s = kernel.clock.monotonic()
    due = {
        name: scheduled
        for name, scheduled in tuning.scheduled.items()
        if scheduled.at_s <= now_s + EARLY_S
    }
    inputs = {name: Input(scheduled.value, scheduled.value) for name, scheduled in due.items()}
    return _write(kernel, applied, tuning, inputs)


def make_safe(kernel: Kernel, applied: Applied, tuning: Tuning, limits: Limits) -> None:
    """Write inputs with which quotas are safe without tierd."""
    _write(kernel, applied, tuning, feedback.safe(limits))


def _write(kernel: Kernel, applied: Applied, tuning: Tuning, inputs: Mapping[str, Input]) -> Tuning:
    in_force, scheduled = dict(tuning.in_force), dict(tuning.scheduled)
    for _, items in groupby(applied.plan.items, key=attrgetter("kdamond")):
        wants = [(item, inputs[item.id]) for item in items if item.id in inputs]
        # A kdamond uses the input from its next sample. Some kernels return from the command much
        # later.
        since_s = kernel.clock.monotonic()
        new = [
            (item, want) for item, want in wants if not _is_in_force(in_force.get(item.id), want)
        ]
        if new:
            apply.tune(kernel, applied, tuple(_goal(item, want) for item, want in new))
        for item, want in new:
            before, window_s = in_force.get(item.id), _window_s(tuning, item)
            quota = before.quota_by(since_s, window_s) if before else 1
            in_force[item.id] = InputInForce(since_s, quota, want.value)
        for item, want in wants:
            scheduled.pop(item.id, None)
            if want.windows:
                scheduled[item.id] = _then(want, since_s, _window_s(tuning, item))
    return replace(tuning, in_force=in_force, scheduled=scheduled)


def _is_in_force(in_force: InputInForce | None, want: Input) -> bool:
    return in_force is not None and in_force.value == want.value


def _goal(item: Item, want: Input) -> Write:
    return Write(input_path(item.kdamond, item.scheme), str(want.value))


def _window_s(tuning: Tuning, item: Item) -> float:
    habit = tuning.controller.habits.get(item.id)
    return habit.window_s if habit else item.window_us / 1e6
