"""Decide how much each scheme should move now, and why.

Rules of this file:
1. Pure. `decide` is one round. Figures are in bytes, or in bytes per second.
2. Demotion is decided before promotion, because promotion uses the room that demotion makes.
3. The result is checked. If promotion does not reduce the heat below, it stops for a while, and for
   longer each time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tierd.tuner import demotion, heat, node_state, promotion
from tierd.tuner.average import moving
from tierd.tuner.habit import Habit, learn
from tierd.tuner.heat import Heat
from tierd.tuner.measurement import Limits, Measurement
from tierd.tuner.node_state import NodeState
from tierd.tuner.round import Want, fast_nodes

# Seconds over which memory pressure is averaged. A kswapd that works for a fifth of a second now
# and then does not stop promotion.
PRESSURE_S = 10.0


@dataclass(frozen=True, slots=True)
class ControllerState:
    """What is kept from round to round."""

    nodes: Mapping[int, NodeState] = field(default_factory=dict)
    habits: Mapping[str, Habit] = field(default_factory=dict)
    """The habit of each scheme."""
    heats: Mapping[int, Heat] = field(default_factory=dict)
    """The heat of each node."""
    pressure: float = 0.0
    """Share of the time that tasks waited for memory, lately."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What each scheme should do, and the headroom of each node."""

    wants: Mapping[str, Want]
    headroom_bytes: Mapping[int, int]


def decide(
    state: ControllerState, measurement: Measurement, limits: Limits
) -> tuple[ControllerState, Decision]:
    """Learn from a measurement, and decide."""
    return again(_learned(state, measurement, limits), measurement, limits)


def again(
    state: ControllerState, measurement: Measurement, limits: Limits
) -> tuple[ControllerState, Decision]:
    """Decide by what is known, without learning."""
    wants: dict[str, Want] = {}
    headroom: dict[int, int] = {}
    habits = dict(state.habits)
    for node in fast_nodes(measurement, limits, state.habits, state.heats, state.pressure):
        known = state.nodes[node.id]
        headroom[node.id] = node_state.headroom_bytes(known, node)
        coming = promotion.wanted_bytes_per_s(known, node)
        downs = demotion.demote(node, headroom[node.id], coming)
        wants |= downs | promotion.promote(known, node, headroom[node.id], downs)
        for flow in (*node.downs, *node.ups):
            name, rate_max = flow.migration.id, flow.rate_max_bytes_per_s
            limited = wants[name].bytes_per_s >= rate_max > 0
            habits[name] = replace(flow.habit, limited=limited, quota_bytes=wants[name].quota_bytes)
    return replace(state, habits=habits), Decision(wants, headroom)


def _learned(state: ControllerState, measurement: Measurement, limits: Limits) -> ControllerState:
    seconds = measurement.seconds
    habits = {
        one.id: learn(state.habits.get(one.id), one, measurement.schemes[one.id], seconds)
        for one in limits.migrations
    }
    heats = {
        node: heat.learn(state.heats.get(node), now, seconds)
        for node, now in measurement.nodes.items()
    }
    pressure = moving(state.pressure, measurement.pressure, seconds, PRESSURE_S)
    nodes = {
        node.id: node_state.learn(state.nodes.get(node.id), node, heats[node.id].all_bytes)
        for node in fast_nodes(measurement, limits, habits, heats, pressure)
    }
    return ControllerState(nodes, habits, heats, pressure)
