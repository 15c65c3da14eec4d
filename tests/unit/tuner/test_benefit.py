"""Promotion without benefit stops for a while. Promotion with benefit goes on."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.readings import DOWN, LIMITS, MIB, RATE, UP, reading
from tierd.tuner import benefit, demand
from tierd.tuner.benefit import (
    CHANGED_S,
    CHECK_S,
    CHECK_SHARE,
    COST_SHARE,
    FIRST_COST_SHARE,
    HOLD_OFF_S_MAX,
    WAITING_SHARE,
    Check,
    Moves,
)
from tierd.tuner.demand import ControllerState, Decision

GIB = 1 << 30
N = 512 * MIB


def run(
    hot: Sequence[float],
    moved: float,
    memory: ControllerState | None = None,
    *,
    arrives: float = 1.0,
) -> tuple[ControllerState, Decision]:
    """Promote `moved` bytes a second, with as much demoted, while so much is hot below."""
    memory, decision = memory or ControllerState(), Decision({}, {})
    for one in hot:
        moves = {UP.id: int(moved), DOWN.id: int(moved * arrives)}
        seen = reading(hot=max(0, int(one)), free=200 * MIB, moved=moves)
        memory, decision = demand.decide(memory, seen, LIMITS)
    return memory, decision


def parked(decision: Decision) -> bool:
    return "parked for" in decision.wants[UP.id].reason


# At 20 MB/s a quarter of 300 MiB comes up in less than CHECK_S. A round before it is the first one.
ROUNDS = int(CHECK_S) + 2


def test_moving_that_does_not_help_ends() -> None:
    memory, decision = run([300 * MIB] * ROUNDS, RATE)
    assert "as much waits as before" in decision.wants[UP.id].reason
    assert decision.wants[UP.id].bytes_per_s == 0
    stopped_s = memory.nodes[0].check.hold_off_s
    assert CHECK_S / FIRST_COST_SHARE <= stopped_s <= (CHECK_S + 2) / FIRST_COST_SHARE


def test_moving_that_does_not_help_again_ends_for_long() -> None:
    memory, _ = run([300 * MIB] * ROUNDS, RATE)
    again = int(memory.nodes[0].check.hold_off_s) + ROUNDS
    memory, decision = run([300 * MIB] * again, RATE, memory)
    assert parked(decision)
    stopped_s = memory.nodes[0].check.hold_off_s
    assert (CHECK_S - 2) / COST_SHARE <= stopped_s <= (CHECK_S + 2) / COST_SHARE


def test_it_is_not_judged_before_the_check_is_complete() -> None:
    assert not parked(run([300 * MIB] * (int(CHECK_S) - 1), RATE)[1])


def test_the_end_of_a_promotion_that_helped_may_be_in_vain_once() -> None:
    """The last of it comes up slowly, and its regions stay hot."""
    helped = [450 * MIB - RATE * second for second in range(18)]
    memory, _ = run(helped, RATE)
    assert memory.nodes[0].check.gained_bytes > 0
    rest = [helped[-1]] * ROUNDS
    memory, decision = run(rest, RATE / 8, memory)
    assert not parked(decision)
    _, decision = run(rest * 3, RATE / 8, memory)
    assert parked(decision)


def test_pages_that_do_not_arrive_end_it_too() -> None:
    """The node is no fuller, although pages were counted as promoted and none as demoted."""
    _, decision = run([300 * MIB] * ROUNDS, RATE, arrives=0.0)
    assert "did not arrive" in decision.wants[UP.id].reason
    assert decision.wants[UP.id].bytes_per_s == 0


@pytest.mark.parametrize(("share", "ends"), [(0.4, True), (0.6, False)])
def test_what_arrives_in_part_counts_if_it_is_most(share: float, ends: bool) -> None:
    hot = [400 * MIB - second * RATE for second in range(ROUNDS)]
    _, decision = run(hot, RATE, arrives=share)
    assert ("did not arrive" in decision.wants[UP.id].reason) is ends


@pytest.mark.parametrize(("share", "ends"), [(0.45, True), (0.55, False)])
def test_half_of_what_came_up_must_wait_no_more(share: float, ends: bool) -> None:
    hot = [400 * MIB - share * RATE * second for second in range(ROUNDS)]
    assert parked(run(hot, RATE)[1]) is ends


def test_moving_that_helps_goes_on_until_all_is_up() -> None:
    memory, decision = run([450 * MIB - RATE * second for second in range(20)], RATE)
    assert decision.wants[UP.id].bytes_per_s > 0
    assert memory.nodes[0].check.hold_off_s == 0


def test_it_is_tried_again_at_a_hundredth_of_the_cost() -> None:
    """In two hours: each check in vain is followed by a stop that is a hundred times as long."""
    memory, moving_s, seconds = ControllerState(), 0, 2 * 3600
    for _ in range(seconds):
        idle = memory.nodes and memory.nodes[0].check.hold_off_s > 0
        memory, decision = run([300 * MIB], 0 if idle else RATE, memory)
        moving_s += not parked(decision)
    assert CHECK_S < moving_s <= CHECK_S + 2 + 2 * COST_SHARE * seconds


def test_a_stop_is_an_hour_at_most() -> None:
    """A check of a node of 1 TiB with a rate of 200 MB/s takes twenty minutes."""
    known = moves(GIB, waiting=1024 * GIB, total=1024 * GIB, promoted=200_000_000)
    state = benefit.begin(known)
    for _ in range(1500):
        state = benefit.check(state, known)
        if state.hold_off_s:
            break
    assert state.hold_off_s == HOLD_OFF_S_MAX


def moves(
    used: int = 0, *, waiting: int, total: int = N, promoted: int, rate: float = 2e8
) -> Moves:
    return Moves(1.0, waiting, used, total, promoted, promoted, rate)


@pytest.mark.parametrize("times", [1, 10, 1000])
def test_it_is_the_same_on_a_node_of_any_size(times: int) -> None:
    """With a rate that grows with the node, a check takes the same time and has the same result."""
    size, rate = times * 80 * GIB, times * 200_000_000
    ends = {}
    for helps in (0.0, 1.0):
        state = benefit.begin(moves(waiting=size, total=size, promoted=0, rate=rate))
        for second in range(1, 200):
            waiting = size - int(helps * rate * second)
            one = moves(waiting=max(0, waiting), total=size, promoted=rate, rate=rate)
            state = benefit.check(state, one)
            if state.hold_off_s:
                ends[helps] = second
                break
    assert list(ends) == [0.0]
    assert ends[0.0] == pytest.approx(CHECK_SHARE * size / rate, abs=2)


@pytest.mark.parametrize(
    ("off_by", "wrong_max"),
    [
        pytest.param(0.03, 0, id="contiguous"),
        # Of 200 runs. By chance it would be 100.
        pytest.param(0.18, 5, id="uniform"),
    ],
)
def test_readings_that_vary_do_not_hide_what_helps_or_what_does_not(
    off_by: float, wrong_max: int
) -> None:
    """As on 64 + 512 GiB: 103 GiB are hot, and there are two readings a second."""
    wrong = 0
    for seed in range(100):
        for helps in (0.0, 1.0):
            random, size, rate = Random(seed), 64 * GIB, 200_000_000
            state = Check()
            for tick in range(1, 2 * int(benefit.UNSURE_S_MAX) + 10):
                hot = (103 * GIB - helps * rate * tick / 2) * random.gauss(1, off_by)
                one = Moves(0.5, int(hot), 0, size, rate // 2, rate // 2, rate)
                state = benefit.check(state, one) if tick > 1 else benefit.begin(one)
                if state.hold_off_s:
                    break
            wrong += bool(state.hold_off_s) is bool(helps)
    assert wrong <= wrong_max


def test_a_check_whose_readings_vary_more_than_what_came_up_ends_in_the_end() -> None:
    """Every other reading is 40 GiB higher, and little comes up. Nothing is judged before."""
    state, ends = Check(), []
    for tick in range(1, 500):
        hot = 100 * GIB + (40 * GIB if tick % 2 else 0)
        one = Moves(0.5, hot, 0, 4 * GIB, 10_000_000, 10_000_000, 20_000_000)
        state = benefit.check(state, one) if tick > 1 else benefit.begin(one)
        if state.hold_off_s:
            ends.append(tick / 2)
            break
    assert ends == [pytest.approx(benefit.UNSURE_S_MAX, abs=1)]


@pytest.mark.parametrize(
    ("share", "off_by", "helps"),
    [
        pytest.param(1.0, 0.0, True, id="all of it is used above"),
        pytest.param(0.6, 0.0, True, id="more than half"),
        pytest.param(0.4, 0.0, False, id="less than half"),
        pytest.param(-1.0, 0.0, False, id="less is used above than before"),
        pytest.param(1.0, 2.0, False, id="the heat above varies by more"),
    ],
)
def test_heat_above_shows_a_gain_that_what_waits_hides(
    share: float, off_by: float, helps: bool
) -> None:
    """A half of the samples finds what waits in use. Its readings vary by far more than moves."""
    random, rate, waiting = Random(1), 20_000_000, 100 * GIB
    state, ends = Check(), []
    for tick in range(1, 500):
        chance = random.gauss(0, off_by) * rate * benefit.UNSURE_S_MAX
        reading = waiting + (40 * GIB if tick % 2 else 0)
        one = replace(
            moves(waiting=reading, promoted=rate // 2, rate=rate),
            seconds=0.5,
            total_bytes=4 * GIB,
            waiting_heat_bytes=reading // 2,
            heat_above_bytes=GIB + round(share * rate * tick / 4 + chance),
        )
        state = benefit.check(state, one) if tick > 1 else benefit.begin(one)
        if state.hold_off_s:
            ends.append(tick / 2)
            break
    assert ends == ([] if helps else [pytest.approx(benefit.UNSURE_S_MAX, abs=1)])


def test_a_few_readings_of_any_size_do_not_count_where_there_are_enough() -> None:
    half = benefit.Half()
    for number in range(benefit.BATCH * benefit.BATCHES_MIN):
        assert not half.batches.count or half.waiting_bytes > 2 * GIB
        waiting = 300 * GIB if number % benefit.BATCH == 0 else 2 * GIB
        half = half.with_round(moves(waiting=waiting, promoted=0), 0, 0)
    assert half.waiting_bytes == 2 * GIB
    assert half.noise_bytes == 0


def test_where_little_waits_nothing_is_to_be_gained_by_an_end() -> None:
    """A little hot memory is always below."""
    little = WAITING_SHARE * N
    assert not parked(run([little - MIB] * ROUNDS, MIB)[1])
    assert parked(run([little + MIB] * ROUNDS, MIB)[1])


@pytest.mark.parametrize("joins", [True, False])
def test_what_joins_from_a_third_tier_does_not_say_that_moves_were_in_vain(joins: bool) -> None:
    """As much hot memory comes up to the middle node as goes up from it. So as much waits."""
    rate = 200_000_000
    one = replace(
        moves(waiting=64 * GIB, total=64 * GIB, promoted=rate), joined_bytes=rate if joins else 0
    )
    state, ends = benefit.begin(one), []
    for second in range(200):
        state = benefit.check(state, one)
        if state.hold_off_s:
            ends.append(second)
            break
    assert bool(ends) is not joins


def test_a_trickle_is_not_worth_a_check() -> None:
    """It costs less than the tries after a stop would."""
    assert not parked(run([300 * MIB] * 300, 0.9 * COST_SHARE * RATE)[1])


def test_a_check_begins_when_something_comes_up() -> None:
    """Hot memory appears after a rest, and comes up. What waited during the rest does not count."""
    memory, _ = run([0.0] * 60, 0)
    _, decision = run([400 * MIB - RATE * second for second in range(20)], RATE, memory)
    assert decision.wants[UP.id].bytes_per_s > 0


def test_programs_that_turn_to_other_memory_in_the_middle_of_a_check_are_no_reason_to_stop() -> (
    None
):
    hot = [100 * MIB - RATE * 0.3 * second for second in range(9)]
    hot += [400 * MIB - RATE * second for second in range(9)]
    assert not parked(run(hot, RATE)[1])


RECORDED = Path(__file__).parents[2] / "fixtures" / "turning-7.2.txt"


def stops_in(recorded: str, *, heat_above: bool) -> int:
    """Return how many stops begin in recorded rounds of a guest, with its heat above or without."""
    state: Check | None = None
    stops = 0
    for line in recorded.splitlines():
        if line.startswith("#"):
            continue
        seconds, *kib = line.split()
        waiting, promoted, demoted, waiting_heat, above, used = (int(one) << 10 for one in kib)
        one = replace(
            moves(used, waiting=waiting, total=460 * MIB, promoted=promoted, rate=RATE),
            seconds=float(seconds),
            demoted_bytes=demoted,
            waiting_heat_bytes=waiting_heat,
            heat_above_bytes=above if heat_above else 0,
        )
        after = benefit.begin(one) if state is None else benefit.check(state, one)
        stops += state is not None and after.hold_off_s > state.hold_off_s
        state = after
    return stops


def test_programs_that_turn_again_and_again_are_no_reason_to_stop() -> None:
    """Real rounds. After each turn as much waits as before, so bytes alone would stop promotion."""
    recorded = RECORDED.read_text()
    assert stops_in(recorded, heat_above=True) == 0
    assert stops_in(recorded, heat_above=False) == 1


@pytest.mark.parametrize(("share", "ends"), [(0.2, True), (0.7, False), (3.0, False)])
def test_a_stop_ends_when_what_is_above_is_not_used_any_more(share: float, ends: bool) -> None:
    """Programs have turned to other memory below. As much waits there as before."""
    one = replace(
        moves(waiting=300 * MIB, promoted=int(RATE), rate=RATE),
        waiting_heat_bytes=300 * MIB,
        heat_above_bytes=200 * MIB,
    )
    state = benefit.begin(one)
    while not state.hold_off_s:
        state = benefit.check(state, one)
    later = replace(one, promoted_bytes=0, heat_above_bytes=int(share * 200 * MIB))
    for _ in range(int(3 * CHECK_S)):
        state = benefit.check(state, later)
    assert bool(state.hold_off_s) is not ends


def test_another_demand_ends_the_stop() -> None:
    memory, _ = run([300 * MIB] * ROUNDS, RATE)
    _, decision = run([90 * MIB] * (int(CHANGED_S) + 2), 0, memory)
    assert decision.wants[UP.id].bytes_per_s > 0


def test_one_odd_reading_does_not() -> None:
    memory, _ = run([300 * MIB] * ROUNDS, RATE)
    for hot in (90, 300, 300, 300):
        memory, decision = run([hot * MIB], 0, memory)
        assert parked(decision)


def test_memory_that_is_hot_now_and_then_ends_one_stop_and_not_each() -> None:
    memory, _ = run([300 * MIB] * ROUNDS, RATE)
    memory, decision = run([90 * MIB] * (int(CHANGED_S) + 2), 0, memory)
    assert not parked(decision)
    memory, decision = run([300 * MIB] * 2 * ROUNDS, RATE, memory)
    assert parked(decision)
    memory, decision = run([90 * MIB] * 20, 0, memory)
    assert parked(decision)


@pytest.mark.parametrize(("later_gib", "ends"), [(8, 0), (80, 20)])
def test_readings_of_any_size_do_not_end_a_long_stop_and_a_change_does(
    later_gib: int, ends: int
) -> None:
    """As uniform heat on 64 + 512 GiB: now and then half of the node looks hot for a moment."""
    ended = 0
    for seed in range(20):
        random = Random(seed)
        one = moves(waiting=8 * GIB, total=16 * GIB, promoted=10_000_000, rate=20_000_000)
        one = replace(one, seconds=0.5)
        state, rounds, later = benefit.begin(one), 0, 0
        while later < 400 and rounds < 4000:
            rounds += 1
            later += bool(later or state.hold_off_s)
            usual = random.gauss(later_gib if later else 8, 1)
            waiting = int(GIB * (300 if random.random() < 0.05 else usual))
            state = benefit.check(state, replace(one, waiting_bytes=waiting))
        assert later == 400
        ended += not state.hold_off_s or state.ended_by_change
    assert ended == ends


def test_after_a_check_that_passes_a_change_counts_again() -> None:
    memory, _ = run([300 * MIB] * ROUNDS, RATE)
    node = memory.nodes[0]
    noted = replace(node.check, ended_by_change=True, hold_off_s=0.0)
    memory = replace(memory, nodes={0: replace(node, check=noted)})
    memory, _ = run([450 * MIB - RATE * second for second in range(20)], RATE, memory)
    assert memory.nodes[0].check.ended_by_change is False


@given(
    st.lists(
        st.tuples(st.integers(0, 2**41), st.integers(0, 2**33), st.floats(0.1, 10)), max_size=60
    )
)
def test_a_stop_has_bounds_whatever_is_seen(rounds: list[tuple[int, int, float]]) -> None:
    state = Check()
    for waiting, promoted, seconds in rounds:
        one = replace(moves(waiting=waiting, promoted=promoted), seconds=seconds)
        state = benefit.check(state, one)
        assert 0 <= state.hold_off_s <= HOLD_OFF_S_MAX
        assert bool(state.hold_off_s) <= bool(state.held_because)
