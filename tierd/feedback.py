"""Turn a measurement into inputs for the quota goals of the kernel.

Rules of this file:
1. Pure: `step(state, measurement, limits) -> (state, adjustment)`. Time is passed in as seconds.
2. Every controller steers through one `user_input` goal per scheme and the command
   `commit_schemes_quota_goals`. Every kernel since 6.8 has it, and it changes nothing else.
3. Every figure has its reason in words beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tierd.plans.damon import PAGE_BYTES, Metric
from tierd.plans.plan import Controller
from tierd.tuner import demand, throttle
from tierd.tuner.demand import READY_BYTES, ControllerState, Decision, Want
from tierd.tuner.measurement import Limits, Measurement
from tierd.tuner.throttle import Input
from tierd.units import format_percent

__all__ = [
    "Adjustment",
    "ControllerState",
    "Limits",
    "Measurement",
    "begin",
    "glance",
    "safe",
    "step",
]


@dataclass(frozen=True, slots=True)
class Adjustment:
    """The input of the goal of each scheme, and the reason for it."""

    inputs: Mapping[str, Input] = field(default_factory=dict)
    wants: Mapping[str, Want] = field(default_factory=dict)
    headroom_bytes: Mapping[int, int] = field(default_factory=dict)
    parked: frozenset[str] = frozenset()
    """Schemes whose quota is parked. It stays so, and need not be read again."""


def step(
    state: ControllerState, measurement: Measurement, limits: Limits
) -> tuple[ControllerState, Adjustment]:
    """Return what to remember, and the next inputs."""
    match limits.controller:
        case Controller.kernel:
            return state, Adjustment()
        case Controller.emulated:
            return state, _emulated(measurement, limits)
        case Controller.demand:
            return _demanded(*demand.decide(state, measurement, limits), measurement, limits)


def glance(
    state: ControllerState, measurement: Measurement, limits: Limits
) -> tuple[ControllerState, Adjustment]:
    """Decide between two steps, by free memory alone. Only large changes give new inputs."""
    before = {name: habit.quota_bytes for name, habit in state.habits.items()}
    state, adjustment = _demanded(*demand.again(state, measurement, limits), measurement, limits)
    inputs = {
        name: one
        for name, one in adjustment.inputs.items()
        if _differ(before[name], adjustment.wants[name].quota_bytes)
    }
    kept = {
        name: habit if name in inputs else replace(habit, quota_bytes=before[name])
        for name, habit in state.habits.items()
    }
    return replace(state, habits=kept), replace(adjustment, inputs=inputs)


def _differ(before: int, after: int) -> bool:
    """True if one is twice the other or more, as after one window more."""
    less, more = sorted((max(PAGE_BYTES, before), max(PAGE_BYTES, after)))
    return more >= 2 * less


def _demanded(
    state: ControllerState, decision: Decision, measurement: Measurement, limits: Limits
) -> tuple[ControllerState, Adjustment]:
    inputs = {
        way.id: throttle.throttle(
            measurement.ways[way.id].quota_bytes,
            decision.wants[way.id].quota_bytes,
            way.quota_bytes_max,
        )
        for way in limits.ways
    }
    parked = frozenset(name for name, one in inputs.items() if one == throttle.KEEP)
    return state, Adjustment(inputs, decision.wants, decision.headroom_bytes, parked)


def begin(quotas: Mapping[str, int], limits: Limits) -> Mapping[str, Input]:
    """Return inputs for when only the quotas in force are known. They make the quotas ready."""
    if limits.controller is not Controller.demand:
        return safe(limits)
    return {
        way.id: throttle.throttle(quotas[way.id], READY_BYTES, way.quota_bytes_max)
        for way in limits.ways
        if way.id in quotas
    }


def safe(limits: Limits) -> Mapping[str, Input]:
    """Return inputs with which no quota grows, for when nobody corrects them any more."""
    match limits.controller:
        case Controller.kernel:
            return {}
        case Controller.emulated:
            # The input is the target, so the quota stays until the next measurement.
            return {way.id: Input(way.aim.target_bp, way.aim.target_bp) for way in limits.ways}
        case Controller.demand:
            return {way.id: throttle.FADE for way in limits.ways}


def _emulated(measurement: Measurement, limits: Limits) -> Adjustment:
    """Measure the goal of the kernel's own law here. The kernel computes the quota from it.

    damos_quota_score() uses input / target for a `user_input` goal in the same way as for the share
    of a node, so the integer arithmetic after it is the same.
    """
    inputs, wants = {}, {}
    for way in limits.ways:
        node = measurement.nodes[way.aim.node]
        current = way.aim.measured_bp(node.total_bytes, node.free_bytes)
        inputs[way.id] = Input(current, current)
        name = "used" if way.aim.metric is Metric.node_mem_used_bp else "free"
        shares = f"{format_percent(current)} {name}, aims at {format_percent(way.aim.target_bp)}"
        wants[way.id] = Want(0, f"node {way.aim.node} is {shares}")
    return Adjustment(inputs, wants)
