"""Promotion without benefit stops for a while. Promotion with benefit goes on."""

from dataclasses import replace

import pytest

from tests.fixtures.readings import DOWN, LIMITS, MIB, RATE, UP, reading
from tierd.tuner import demand
from tierd.tuner.benefit import CHANGED_S, CHECK_S, HOLD_OFF_S_MIN, STRIKES_MAX
from tierd.tuner.demand import ControllerState, Decision


def in_vain(
    memory: ControllerState, seconds: float, *, arrives: bool = True
) -> tuple[ControllerState, Decision]:
    """Promote for some seconds, with as much cold memory demoted, and no less heat below."""
    decision = Decision({}, {})
    for _ in range(int(seconds)):
        moved = {UP.id: int(RATE), DOWN.id: int(RATE) if arrives else 0}
        seen = reading(hot=300 * MIB, free=200 * MIB, moved=moved)
        memory, decision = demand.decide(memory, seen, LIMITS)
    return memory, decision


def test_moving_that_does_not_help_ends_for_longer_and_longer() -> None:
    memory, decision = in_vain(ControllerState(), CHECK_S * STRIKES_MAX + 2)
    assert "as much waits as before" in decision.wants[UP.id].reason
    assert 0 < memory.nodes[0].check.hold_off_s <= HOLD_OFF_S_MIN
    memory, decision = in_vain(memory, HOLD_OFF_S_MIN + CHECK_S + 2)
    assert HOLD_OFF_S_MIN < memory.nodes[0].check.hold_off_s <= 2 * HOLD_OFF_S_MIN


def test_so_does_a_little_of_it_at_a_time() -> None:
    """At a fifth of the rate 25 MiB take longer than a check, and still count."""
    memory, decision = ControllerState(), Decision({}, {})
    moved = {UP.id: int(RATE / 5), DOWN.id: int(RATE / 5)}
    seen = reading(hot=300 * MIB, free=200 * MIB, moved=moved)
    for _ in range(30):
        memory, decision = demand.decide(memory, seen, LIMITS)
    assert "as much waits as before" in decision.wants[UP.id].reason


def test_pages_that_do_not_arrive_end_it_too() -> None:
    """The node is no fuller, although pages were counted as promoted and none as demoted."""
    _, decision = in_vain(ControllerState(), CHECK_S * STRIKES_MAX + 2, arrives=False)
    assert "did not arrive" in decision.wants[UP.id].reason
    assert decision.wants[UP.id].bytes_per_s == 0


def test_it_is_tried_again_after_two_minutes_and_then_later_and_later_up_to_ten() -> None:
    memory, held_s = ControllerState(), [0]
    seen = reading(hot=300 * MIB, free=200 * MIB, moved={UP.id: int(RATE), DOWN.id: int(RATE)})
    for second in range(2 * 3600):
        memory, decision = demand.decide(memory, seen, LIMITS)
        if decision.wants[UP.id].bytes_per_s == 0:
            # Before the first stop, three checks in a row find no benefit.
            assert second >= CHECK_S * STRIKES_MAX
            held_s[-1] += 1
        elif held_s[-1]:
            held_s.append(0)
    assert held_s[:6] == [120, 240, 480, 600, 600, 600]
    assert max(held_s) == 600


@pytest.mark.parametrize(("share", "ends"), [(0.22, True), (0.28, False)])
def test_a_quarter_of_what_came_up_must_wait_no_more(share: float, ends: bool) -> None:
    memory, decision, hot = ControllerState(), Decision({}, {}), float(300 * MIB)
    for _ in range(int(CHECK_S) * STRIKES_MAX + 2):
        moved = {UP.id: 6 * MIB, DOWN.id: 6 * MIB}
        memory, decision = demand.decide(
            memory, reading(hot=int(hot), free=200 * MIB, moved=moved), LIMITS
        )
        hot -= share * 6 * MIB
    assert ("as much waits as before" in decision.wants[UP.id].reason) is ends
    assert (decision.wants[UP.id].bytes_per_s == 0) is ends


@pytest.mark.parametrize(("share", "ends"), [(0.4, True), (0.6, False)])
def test_what_arrives_in_part_counts_if_it_is_most(share: float, ends: bool) -> None:
    """The heat below falls, so only the arrival of pages decides."""
    memory, decision, free = ControllerState(), Decision({}, {}), 500 * MIB
    # Enough moves in each check, and all of it fits into the free memory.
    moved = 6 * MIB
    for second in range(int(CHECK_S) * STRIKES_MAX + 2):
        seen = reading(hot=(400 - 2 * second) * MIB, free=free, moved={UP.id: moved})
        memory, decision = demand.decide(memory, seen, LIMITS)
        free -= int(share * moved)
    assert ("did not arrive" in decision.wants[UP.id].reason) is ends
    assert (decision.wants[UP.id].bytes_per_s == 0) is ends


def test_three_checks_in_a_row_must_be_in_vain() -> None:
    """A check with benefit starts the count again."""
    memory, hot = ControllerState(), 400 * MIB
    moved = {UP.id: int(RATE), DOWN.id: int(RATE)}
    for second in range(60):
        # Two of three checks find no benefit.
        hot -= int(RATE) if second % 15 >= 10 else 0
        seen = reading(hot=hot, free=200 * MIB, moved=moved)
        memory, decision = demand.decide(memory, seen, LIMITS)
        assert "parked" not in decision.wants[UP.id].reason


def test_a_check_is_of_what_moved_since_the_one_before() -> None:
    """Pages arrived in earlier checks, but not in the last three."""
    memory, decision, hot = ControllerState(), Decision({}, {}), 1000 * MIB
    for second in range(30 + int(CHECK_S) * STRIKES_MAX + 2):
        moved = {UP.id: int(RATE), DOWN.id: int(RATE) if second < 30 else 0}
        memory, decision = demand.decide(
            memory, reading(hot=hot, free=200 * MIB, moved=moved), LIMITS
        )
        assert second >= 30 or "parked" not in decision.wants[UP.id].reason
        hot -= int(RATE) if second < 30 else 0
    assert "did not arrive" in decision.wants[UP.id].reason


@pytest.mark.parametrize(("hot", "ends"), [(5 * MIB, False), (8 * MIB, True)])
def test_where_little_waits_nothing_is_to_be_gained_by_an_end(hot: int, ends: bool) -> None:
    """The bound is an eightieth of the node. A little less heat is always below."""
    memory, decision = ControllerState(), Decision({}, {})
    moved = {UP.id: 6 * MIB, DOWN.id: 6 * MIB}
    for _ in range(int(CHECK_S) * STRIKES_MAX + 2):
        memory, decision = demand.decide(memory, reading(hot=hot, moved=moved), LIMITS)
    assert ("as much waits as before" in decision.wants[UP.id].reason) is ends


def test_a_trickle_is_not_worth_a_check() -> None:
    """Nothing arrives, but so little moves that no check is done."""
    memory, seen = (
        ControllerState(),
        reading(hot=300 * MIB, free=200 * MIB, moved={UP.id: MIB // 2}),
    )
    for _ in range(120):
        memory, decision = demand.decide(memory, seen, LIMITS)
        assert "parked" not in decision.wants[UP.id].reason


def test_after_months_in_vain_it_is_still_ten_minutes() -> None:
    memory, _ = in_vain(ControllerState(), CHECK_S * STRIKES_MAX - 1)
    node = memory.nodes[0]
    often = replace(node, check=replace(node.check, hold_offs=5_000))
    memory, _ = in_vain(replace(memory, nodes={0: often}), 5)
    assert HOLD_OFF_S_MIN < memory.nodes[0].check.hold_off_s <= 600


def test_another_demand_ends_the_hold_off() -> None:
    memory, decision = in_vain(ControllerState(), CHECK_S * STRIKES_MAX + 2)
    for _ in range(int(CHANGED_S) + 2):
        memory, decision = demand.decide(memory, reading(hot=90 * MIB, free=200 * MIB), LIMITS)
    assert decision.wants[UP.id].bytes_per_s > 0


def test_one_odd_reading_does_not() -> None:
    memory, _ = in_vain(ControllerState(), CHECK_S * STRIKES_MAX + 2)
    for hot in (90, 300, 300, 300):
        memory, decision = demand.decide(memory, reading(hot=hot * MIB, free=200 * MIB), LIMITS)
        assert "parked for" in decision.wants[UP.id].reason


def test_moving_that_helps_goes_on() -> None:
    memory, hot = ControllerState(), 450 * MIB
    for _ in range(20):
        moved = {UP.id: int(RATE), DOWN.id: int(RATE)}
        seen = reading(hot=hot, free=200 * MIB, moved=moved)
        memory, decision = demand.decide(memory, seen, LIMITS)
        assert decision.wants[UP.id].bytes_per_s > 0
        hot -= int(RATE)
