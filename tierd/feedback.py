"""Turn samples into inputs for the quota goals of the kernel.

Rules of this file:
1. Pure. `begin`, `step` and `glance` return the next state, and the inputs to write. Time is passed
   in as seconds. `loop/steering.py` writes, and says with `written` what it has written.
2. Every controller steers through one `user_input` goal per scheme and the command
   `commit_schemes_quota_goals`. Every kernel since 6.8 has it, and it changes nothing else.
3. The first input after a start, an adoption or a new start of a kdamond is safe: the quota
   shrinks, stays, or grows to READY_BYTES.
4. Every figure has its reason in words beside it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from math import inf

from tierd.frozen import dataclass, replace
from tierd.machine.sample import Sample
from tierd.plans.damon import Metric
from tierd.plans.plan import (
    CLOSED_INPUT,
    GROWING_INPUT,
    OPEN_INPUT,
    TARGET,
    Controller,
    Direction,
    Migration,
    Plan,
    Sweep,
    is_open,
)
from tierd.tuner import demand, throttle
from tierd.tuner.demand import ControllerState, Decision
from tierd.tuner.gate import Gate
from tierd.tuner.measurement import Limits, Measurement, measure, quotas
from tierd.tuner.round import READY_BYTES, Want
from tierd.tuner.shares import Shared
from tierd.tuner.throttle import Input, InputInForce, ScheduledInput
from tierd.units import format_percent

# On most kernels a command waits for a sample (20 ms at most), on 6.12 for an aggregation (0.1 s).
# SLOW_COMMAND_S lies between. Where commands are slow, a round takes a second, and a hundred
# megabytes may move in it. Free memory is read without a command. So while something is promoted,
# it is read every GLANCE_S between two rounds. A decision by it holds for BLIND_S, as long as a
# round on other kernels.
SLOW_COMMAND_S = 0.05
GLANCE_S = 0.15
BLIND_S = 0.5

# An input that is due this soon counts as due. Clocks have steps, and every window is longer.
EARLY_S = 0.001

Inputs = Mapping[str, Input]
"""The input of the goal of each scheme, by the id of its migration or sweep. That of a sweep says
whether it is open, also where watermarks open it."""

CLOSED = Input(CLOSED_INPUT, CLOSED_INPUT)


@dataclass(frozen=True, slots=True)
class Timing:
    """When a sample was taken, and what reading it cost."""

    now_s: float
    command_s: float = 0.0
    """The average time of one command to a kdamond."""
    quotas_s: Mapping[int, float] = field(default_factory=dict)
    """When each kdamond was asked for its quotas in force. They are of that moment."""
    cpu_s: Mapping[int, float] = field(default_factory=dict)
    """The processor time of the kdamond of each node, as far as it is known."""

    @property
    def slow(self) -> bool:
        return self.command_s > SLOW_COMMAND_S


@dataclass(frozen=True, slots=True)
class Tuning:
    """What the tuner remembers from tick to tick."""

    controller: ControllerState = field(default_factory=ControllerState)
    sample: Sample | None = None
    measurement: Measurement | None = None
    in_force: Mapping[str, InputInForce] = field(default_factory=dict)
    """The input in force of each scheme."""
    scheduled: Mapping[str, ScheduledInput] = field(default_factory=dict)
    glances: bool = False
    """True if free memory should be read between two rounds."""
    glance_s: float | None = None
    """When to read it next."""
    active: bool = True
    """True if something should move, now or when there is room. Also true if that is not known."""
    parked: frozenset[str] = frozenset()
    """Schemes whose quota was read as parked, and does not change."""
    wants: Mapping[str, Want] = field(default_factory=dict)
    """What each scheme should do, and why."""
    headroom_bytes: Mapping[int, int] = field(default_factory=dict)
    shared: Shared = field(default_factory=Shared)
    """The groups of cgroups that share the fast memory."""
    hint_units: int | None = None
    """The rate limit of hint faults that was written last, in the unit of the kernel."""

    @property
    def due_s(self) -> float | None:
        """When the next scheduled input has to be written, or None."""
        return min((scheduled.at_s for scheduled in self.scheduled.values()), default=None)

    def due(self, now_s: float) -> Inputs:
        """Return the scheduled inputs that are due."""
        return {
            name: Input(scheduled.value, scheduled.value)
            for name, scheduled in self.scheduled.items()
            if scheduled.at_s <= now_s + EARLY_S
        }

    def is_in_force(self, name: str, want: Input) -> bool:
        in_force = self.in_force.get(name)
        return in_force is not None and in_force.value == want.value

    def window_s(self, mover: Migration | Sweep) -> float:
        """Return the length of a scheme's windows: as learned, as measured, or as planned."""
        habit = self.controller.habits.get(mover.id)
        if habit:
            return habit.window_s
        swept = self.measurement.sweeps.get(mover.id) if self.measurement else None
        return swept.window_s if swept else mover.window_us / 1e6


@dataclass(frozen=True, slots=True)
class Adjustment:
    """The input of each scheme, and what the controller wants with it."""

    inputs: Inputs = field(default_factory=dict)
    wants: Mapping[str, Want] = field(default_factory=dict)
    headroom_bytes: Mapping[int, int] = field(default_factory=dict)
    parked: frozenset[str] = frozenset()
    """Schemes whose quota is parked. It stays so, and need not be read again."""
    shared: Shared | None = None
    """The groups of cgroups that share the fast memory; None if they are as before."""


# The entries of the loop.


def begin(limits: Limits, grows_s: float | None) -> Tuning:
    """Return the first state. Quotas of new kdamonds grow from `grows_s` on, until they are ready.

    The first sample takes a second on some kernels. Half of the growth is done by then.
    """
    if grows_s is None:
        return Tuning()
    growing = InputInForce(grows_s, 1, GROWING_INPUT)
    ready = ready_inputs({one.id: 1 for one in limits.migrations}, limits)
    closed = InputInForce(grows_s, 1, CLOSED_INPUT)
    return Tuning(
        in_force={
            **dict.fromkeys(ready, growing),
            **dict.fromkeys((one.id for one in limits.sweeps), closed),
        },
        scheduled={
            one.id: ready[one.id].scheduled(grows_s, one.window_us / 1e6)
            for one in limits.migrations
            if one.id in ready
        },
    )


def step(
    tuning: Tuning, plan: Plan, limits: Limits, now: Sample, timing: Timing
) -> tuple[Tuning, Inputs]:
    """Decide by a new sample."""
    tuning = _with_quotas(tuning, plan, now, timing)
    measurement = measure(plan, tuning.sample, now)
    tuning = replace(
        tuning, sample=now, measurement=measurement, active=True, parked=frozenset(), glances=False
    )
    if measurement is None:
        running = quotas(plan, now)
        known = {name: one.quota_bytes for name, one in tuning.in_force.items() if name in running}
        unknown = {one.id: CLOSED for one in limits.sweeps if one.id not in tuning.in_force}
        return tuning, {**ready_inputs(known, limits), **unknown}
    if limits.controller is Controller.demand:
        again_s = BLIND_S if timing.slow and _comes_up(tuning, limits) else inf
        measurement = replace(measurement, again_s=again_s, cpu_s=timing.cpu_s)
        # Kdamonds get their inputs one after another.
        kdamonds = dict.fromkeys(one.kdamond for one in limits.migrations)
        moments_s = {
            one: timing.now_s + turn * timing.command_s for turn, one in enumerate(kdamonds)
        }
        measurement = _by_then(measurement, tuning, limits, moments_s)
    controller, adjustment = adjust(tuning.controller, measurement, limits)
    tuning = _after(replace(tuning, measurement=measurement), controller, adjustment)
    return replace(tuning, glances=timing.slow and _comes_up(tuning, limits)), adjustment.inputs


def glance(
    tuning: Tuning, limits: Limits, free_bytes: Mapping[int, int], now_s: float
) -> tuple[Tuning, Inputs]:
    """Decide again between two rounds, by the memory that is free now."""
    seen = tuning.measurement
    if seen is None:
        return replace(tuning, glances=False), {}
    nodes = {
        node: replace(one, free_bytes=free_bytes.get(node, one.free_bytes))
        for node, one in seen.nodes.items()
    }
    moments_s = {one.kdamond: now_s for one in limits.migrations}
    seen = _by_then(replace(seen, nodes=nodes), tuning, limits, moments_s)
    controller, adjustment = adjust_again(tuning.controller, seen, limits)
    # These quotas change, so they have to be read again.
    parked = tuning.parked - adjustment.inputs.keys()
    tuning = replace(_after(tuning, controller, adjustment), parked=parked)
    return replace(tuning, glances=_comes_up(tuning, limits)), adjustment.inputs


def written(
    tuning: Tuning,
    wants: Iterable[tuple[Migration | Sweep, Input]],
    since_s: float,
    done_s: float,
) -> Tuning:
    """Return the state after inputs were written. It schedules what follows them.

    The kdamond takes them between two moments: when the command began, and when it was done.
    """
    in_force, scheduled = dict(tuning.in_force), dict(tuning.scheduled)
    for one, want in wants:
        window_s, before = tuning.window_s(one), in_force.get(one.id)
        if not tuning.is_in_force(one.id, want):
            quota = before.quota_by(since_s, window_s) if before else 1
            in_force[one.id] = InputInForce(since_s, quota, want.value)
        scheduled.pop(one.id, None)
        if want.windows:
            then = want.scheduled(since_s, window_s)
            was_open = before is not None and before.value is not None and is_open(before.value)
            if isinstance(one, Sweep) and is_open(want.value) and not was_open:
                # A sweep begins with its next window. If it closed before, it would not run at all.
                then = replace(then, at_s=max(then.at_s, done_s + window_s))
            scheduled[one.id] = then
    return replace(tuning, in_force=in_force, scheduled=scheduled)


def safe(limits: Limits) -> Inputs:
    """Return inputs with which no quota grows, for when nobody corrects them any more."""
    match limits.controller:
        case Controller.kernel:
            return {}
        case Controller.emulated:
            # The input is the target, so the quota stays until the next measurement.
            return {
                one.id: Input(one.aim.target_bp, one.aim.target_bp) for one in limits.migrations
            }
        case Controller.demand:
            fades = {one.id: throttle.FADE for one in limits.migrations}
            return {**fades, **{one.id: CLOSED for one in limits.sweeps}}


# The controllers.


def adjust(
    state: ControllerState, measurement: Measurement, limits: Limits
) -> tuple[ControllerState, Adjustment]:
    """Return what the controller remembers, and the next inputs."""
    match limits.controller:
        case Controller.kernel:
            return state, Adjustment()
        case Controller.emulated:
            return state, _emulated(measurement, limits)
        case Controller.demand:
            state, decision = demand.decide(state, measurement, limits)
            return state, _demanded(decision, measurement, limits)


def adjust_again(
    state: ControllerState, measurement: Measurement, limits: Limits
) -> tuple[ControllerState, Adjustment]:
    """Decide again without learning. Only large changes give new inputs."""
    before = {name: habit.quota_bytes for name, habit in state.habits.items()}
    state, decision = demand.again(state, measurement, limits)
    adjustment = _demanded(decision, measurement, limits)
    inputs = {
        name: one
        for name, one in adjustment.inputs.items()
        if _differ(before[name], adjustment.wants[name].quota_bytes, limits.page_bytes)
    }
    kept = {
        name: habit if name in inputs else replace(habit, quota_bytes=before[name])
        for name, habit in state.habits.items()
    }
    return replace(state, habits=kept), replace(adjustment, inputs=inputs)


def ready_inputs(quotas_bytes: Mapping[str, int], limits: Limits) -> Inputs:
    """Return inputs for when only the quotas in force are known.

    They make quotas ready. One of eviction is parked, because nothing asks for it yet.
    """
    if limits.controller is not Controller.demand:
        return safe(limits)
    return {
        one.id: throttle.throttle(
            quotas_bytes[one.id],
            READY_BYTES if one.begins_ready else 0,
            one.quota_bytes_max,
            limits.page_bytes,
        )
        for one in limits.migrations
        if one.id in quotas_bytes
        and (one.begins_ready or quotas_bytes[one.id] >= limits.page_bytes)
    }


def _differ(before: int, after: int, page_bytes: int) -> bool:
    """True if one is twice the other or more, as after one window more."""
    less, more = sorted((max(page_bytes, before), max(page_bytes, after)))
    return more >= 2 * less


def _demanded(decision: Decision, measurement: Measurement, limits: Limits) -> Adjustment:
    inputs = {
        one.id: throttle.throttle(
            measurement.schemes[one.id].quota_bytes,
            decision.wants[one.id].quota_bytes,
            one.quota_bytes_max,
            limits.page_bytes,
        )
        for one in limits.migrations
    }
    parked = frozenset(name for name, one in inputs.items() if one == throttle.KEEP)
    swept = {one.id: _swept(one, decision, measurement) for one in limits.sweeps if one.moves}
    gates = {
        one.id: _gated(decision.sweeps.gates[one.id], measurement.sweeps[one.id].window_s)
        for one in limits.sweeps
        if one.id in decision.sweeps.gates
    }
    return Adjustment(
        {**inputs, **gates},
        {**decision.wants, **swept},
        decision.headroom_bytes,
        parked,
        decision.shared,
    )


def _gated(gate: Gate, window_s: float) -> Input:
    """Return the input that opens or closes a sweep, and what follows."""
    opened = OPEN_INPUT + round(gate.slower * TARGET)
    now, then = (opened if opens else CLOSED_INPUT for opens in (gate.is_open, gate.then_open))
    windows = max(1, round(gate.after_s / window_s)) if now != then else 0
    return Input(now, then, windows)


def _swept(sweep: Sweep, decision: Decision, measurement: Measurement) -> Want:
    """Return what a sweep does, for those who read it: how fast it moves now, and why."""
    moved = measurement.sweeps[sweep.id].applied_bytes / measurement.seconds
    busy = sweep.id in decision.sweeps.busy
    reason = decision.sweeps.reasons.get(sweep.id, "closed: it is another sweep's turn")
    bar = decision.sweeps.bars.get(sweep.id)
    return Want(moved, reason, sweep.quota_bytes if busy else 0, bar=bar)


def _emulated(measurement: Measurement, limits: Limits) -> Adjustment:
    """Measure the goal of the kernel's own law here. The kernel computes the quota from it.

    damos_quota_score() uses input / target for a `user_input` goal in the same way as for the share
    of a node, so the integer arithmetic after it is the same.
    """
    inputs, wants = {}, {}
    for one in limits.migrations:
        aim, node = one.aim, measurement.nodes[one.aim.node]
        current = aim.measured_bp(node.total_bytes, node.free_bytes)
        inputs[one.id] = Input(current, current)
        name = "used" if aim.metric is Metric.node_mem_used_bp else "free"
        shares = f"{format_percent(current)} {name}, aims at {format_percent(aim.target_bp)}"
        wants[one.id] = Want(0, f"node {aim.node} is {shares}")
    return Adjustment(inputs, wants)


# What is known of quotas.


def _with_quotas(tuning: Tuning, plan: Plan, now: Sample, timing: Timing) -> Tuning:
    """Return the state with the quotas of a sample. Quotas that are known to stay are kept."""
    read, in_force = quotas(plan, now), dict(tuning.in_force)
    for one in plan.migrations:
        before = in_force.get(one.id)
        if one.id not in read or (before and one.id in tuning.parked):
            continue
        at_s = timing.quotas_s.get(one.kdamond, timing.now_s)
        before = before or InputInForce(at_s, 1, None)
        quota = before.read_as(read[one.id], one.quota_bytes_max, at_s, tuning.window_s(one))
        in_force[one.id] = InputInForce(at_s, quota, before.value)
    return replace(tuning, in_force=in_force)


def _by_then(
    seen: Measurement, tuning: Tuning, limits: Limits, moments_s: Mapping[int, float]
) -> Measurement:
    """Return the measurement with each quota as it will be when its input is written."""
    schemes = dict(seen.schemes)
    for one in limits.migrations:
        in_force = tuning.in_force.get(one.id)
        if in_force:
            quota = in_force.quota_by(moments_s[one.kdamond], tuning.window_s(one))
            schemes[one.id] = replace(schemes[one.id], quota_bytes=quota)
    return replace(seen, schemes=schemes)


def _comes_up(tuning: Tuning, limits: Limits) -> bool:
    """Return whether something is promoted, or will be when there is room."""
    known = tuning.controller.habits
    return any(
        one.id in known and known[one.id].quota_bytes >= limits.page_bytes
        for one in limits.migrations
        if one.direction is Direction.promote
    )


def _after(tuning: Tuning, controller: ControllerState, adjustment: Adjustment) -> Tuning:
    return replace(
        tuning,
        controller=controller,
        active=any(want.quota_bytes for want in adjustment.wants.values()),
        parked=adjustment.parked,
        wants={**tuning.wants, **adjustment.wants},
        headroom_bytes=adjustment.headroom_bytes,
        shared=tuning.shared if adjustment.shared is None else adjustment.shared,
    )
