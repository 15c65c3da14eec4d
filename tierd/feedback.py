"""One round of the loop around the kernel: from what is seen to the inputs of its quota goals.

Rules of this file:
1. Pure: `step(memory, reading, limits) -> (memory, adjustment)`; time comes in as seconds gone by.
2. Whoever steers, it is through one `user_input` goal per scheme and `commit_schemes_quota_goals`,
   which every kernel from 6.8 on has and which touches nothing else.
3. Every number that goes out has its reason in words beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tierd.plans.damon import PAGE_BYTES, Metric
from tierd.plans.plan import Loop
from tierd.tuner import demand, throttle
from tierd.tuner.demand import READY_BYTES, Decision, Memory, Want
from tierd.tuner.reading import Limits, Reading
from tierd.tuner.throttle import Input
from tierd.units import format_percent

__all__ = ["Adjustment", "Limits", "Memory", "Reading", "begin", "glance", "safe", "step"]


@dataclass(frozen=True, slots=True)
class Adjustment:
    """Per scheme the input of its goal, and what it is for."""

    inputs: Mapping[str, Input] = field(default_factory=dict)
    wants: Mapping[str, Want] = field(default_factory=dict)
    headroom_bytes: Mapping[int, int] = field(default_factory=dict)
    resting: frozenset[str] = frozenset()
    """Schemes whose quota is parked and stays so: it need not be read again."""


def step(memory: Memory, reading: Reading, limits: Limits) -> tuple[Memory, Adjustment]:
    """The next inputs, and what to remember."""
    match limits.loop:
        case Loop.kernel:
            return memory, Adjustment()
        case Loop.emulated:
            return memory, _emulated(reading, limits)
        case Loop.demand:
            return _demanded(*demand.decide(memory, reading, limits), reading, limits)


def glance(memory: Memory, reading: Reading, limits: Limits) -> tuple[Memory, Adjustment]:
    """Between two steps: what changes by free memory alone, with inputs only where it is much."""
    before = {name: habit.quota_bytes for name, habit in memory.habits.items()}
    memory, adjustment = _demanded(*demand.again(memory, reading, limits), reading, limits)
    inputs = {
        name: one
        for name, one in adjustment.inputs.items()
        if _differ(before[name], adjustment.wants[name].quota_bytes)
    }
    kept = {
        name: habit if name in inputs else replace(habit, quota_bytes=before[name])
        for name, habit in memory.habits.items()
    }
    return replace(memory, habits=kept), replace(adjustment, inputs=inputs)


def _differ(before: int, after: int) -> bool:
    """By a doubling, which is what one window more or less makes of a quota."""
    less, more = sorted((max(PAGE_BYTES, before), max(PAGE_BYTES, after)))
    return more >= 2 * less


def _demanded(
    memory: Memory, decision: Decision, reading: Reading, limits: Limits
) -> tuple[Memory, Adjustment]:
    inputs = {
        way.id: throttle.throttle(
            reading.ways[way.id].quota_bytes,
            decision.wants[way.id].quota_bytes,
            way.quota_bytes_max,
        )
        for way in limits.ways
    }
    resting = frozenset(name for name, one in inputs.items() if one == throttle.KEEP)
    return memory, Adjustment(inputs, decision.wants, decision.headroom_bytes, resting)


def begin(quotas: Mapping[str, int], limits: Limits) -> Mapping[str, Input]:
    """Inputs while nothing but the quotas in force is known: ready for what a reading may want."""
    if limits.loop is not Loop.demand:
        return safe(limits)
    return {
        way.id: throttle.throttle(quotas[way.id], READY_BYTES, way.quota_bytes_max)
        for way in limits.ways
        if way.id in quotas
    }


def safe(limits: Limits) -> Mapping[str, Input]:
    """Inputs to begin with, and to leave behind: no quota grows by them."""
    match limits.loop:
        case Loop.kernel:
            return {}
        case Loop.emulated:
            # On its target: as it is until somebody measures again.
            return {way.id: Input(way.aim.target_bp, way.aim.target_bp) for way in limits.ways}
        case Loop.demand:
            return {way.id: throttle.FADE for way in limits.ways}


def _emulated(reading: Reading, limits: Limits) -> Adjustment:
    """The kernel's own law: its goal is measured here, and the rest is the same code in the kernel.

    damos_quota_score() makes input / target of a user_input goal just as of a node's share, so the
    integer arithmetic after that is the kernel's own.
    """
    inputs, wants = {}, {}
    for way in limits.ways:
        node = reading.nodes[way.aim.node]
        current = way.aim.measured_bp(node.total_bytes, node.free_bytes)
        inputs[way.id] = Input(current, current)
        name = "used" if way.aim.metric is Metric.node_mem_used_bp else "free"
        shares = f"{format_percent(current)} {name}, aims at {format_percent(way.aim.target_bp)}"
        wants[way.id] = Want(0, f"node {way.aim.node} is {shares}")
    return Adjustment(inputs, wants)
