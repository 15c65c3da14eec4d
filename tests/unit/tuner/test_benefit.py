"""Moves in vain: they end for a while, and go on where they help."""

from tests.fixtures.readings import DOWN, LIMITS, MIB, RATE, UP, reading
from tierd.tuner import demand
from tierd.tuner.benefit import CHANGED_S, CHECK_S, HOLD_OFF_S_MIN, STRIKES_MAX
from tierd.tuner.demand import Decision, Memory


def in_vain(memory: Memory, seconds: float, *, arrives: bool = True) -> tuple[Memory, Decision]:
    """Pages come up all the time, cold ones leave for them, and as much as before waits below."""
    decision = Decision({}, {})
    for _ in range(int(seconds)):
        moved = {UP.id: int(RATE), DOWN.id: int(RATE) if arrives else 0}
        seen = reading(hot=300 * MIB, free=200 * MIB, moved=moved)
        memory, decision = demand.decide(memory, seen, LIMITS)
    return memory, decision


def test_moving_that_does_not_help_ends_for_longer_and_longer() -> None:
    memory, decision = in_vain(Memory(), CHECK_S * STRIKES_MAX + 2)
    assert "as much waits as before" in decision.wants[UP.id].reason
    assert 0 < memory.nodes[0].check.hold_off_s <= HOLD_OFF_S_MIN
    memory, decision = in_vain(memory, HOLD_OFF_S_MIN + CHECK_S + 2)
    assert HOLD_OFF_S_MIN < memory.nodes[0].check.hold_off_s <= 2 * HOLD_OFF_S_MIN


def test_so_does_a_little_of_it_at_a_time() -> None:
    """A fifth of the rate: 25 MiB take longer than a check, and count all the same."""
    memory, decision = Memory(), Decision({}, {})
    moved = {UP.id: int(RATE / 5), DOWN.id: int(RATE / 5)}
    seen = reading(hot=300 * MIB, free=200 * MIB, moved=moved)
    for _ in range(30):
        memory, decision = demand.decide(memory, seen, LIMITS)
    assert "as much waits as before" in decision.wants[UP.id].reason


def test_pages_that_do_not_arrive_end_it_too() -> None:
    """The node is as full as before, though pages are said to have come and none to have left."""
    _, decision = in_vain(Memory(), CHECK_S * STRIKES_MAX + 2, arrives=False)
    assert "did not arrive" in decision.wants[UP.id].reason
    assert decision.wants[UP.id].bytes_per_s == 0


def test_another_demand_ends_the_hold_off() -> None:
    memory, decision = in_vain(Memory(), CHECK_S * STRIKES_MAX + 2)
    for _ in range(int(CHANGED_S) + 2):
        memory, decision = demand.decide(memory, reading(hot=90 * MIB, free=200 * MIB), LIMITS)
    assert decision.wants[UP.id].bytes_per_s > 0


def test_one_odd_reading_does_not() -> None:
    memory, _ = in_vain(Memory(), CHECK_S * STRIKES_MAX + 2)
    for hot in (90, 300, 300, 300):
        memory, decision = demand.decide(memory, reading(hot=hot * MIB, free=200 * MIB), LIMITS)
        assert "parked for" in decision.wants[UP.id].reason


def test_moving_that_helps_goes_on() -> None:
    memory, hot = Memory(), 450 * MIB
    for _ in range(20):
        moved = {UP.id: int(RATE), DOWN.id: int(RATE)}
        seen = reading(hot=hot, free=200 * MIB, moved=moved)
        memory, decision = demand.decide(memory, seen, LIMITS)
        assert decision.wants[UP.id].bytes_per_s > 0
        hot -= int(RATE)
