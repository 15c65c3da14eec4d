"""Promotion by regions: what it says while it brings nothing up."""

from dataclasses import replace

from tests.fixtures.readings import LIMITS, UP, reading
from tierd.tuner import demand
from tierd.tuner.demand import ControllerState


def test_with_nothing_hot_promotion_does_not_wait_for_room() -> None:
    """While a group asks for its share, promotion is not idle, whatever is hot."""
    memory, _ = demand.decide(ControllerState(), reading(), LIMITS)
    asked = {number: replace(node, is_idle=False) for number, node in memory.nodes.items()}
    _, decision = demand.again(replace(memory, nodes=asked), reading(), LIMITS)
    assert decision.wants[UP.id].reason == "parked: nothing hot on node 1"
