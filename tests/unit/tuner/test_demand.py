"""The demand tuner: what it asks for, and what it never does."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.readings import (
    DOWN,
    HEADROOM,
    LIMITS,
    MARK,
    MIB,
    RATE,
    UP,
    N,
    decide,
    rates,
    reading,
)
from tierd.plans.damon import PAGE_BYTES
from tierd.tuner import demand
from tierd.tuner.benefit import HOLD_OFF_S_MAX
from tierd.tuner.demand import (
    FAINT_CLEAR_S,
    HEAT_CLEAR_S,
    NEW_CLEAR_S,
    REST_HEAT_MIN,
    REST_HEAT_MIN_BYTES,
    REST_HEAT_SHARE,
    Memory,
    Want,
)
from tierd.tuner.habit import CREDIT_S, USE_FIRST, USE_MIN, Habit
from tierd.tuner.reading import Reading


def test_with_nothing_hot_and_the_headroom_free_everything_is_parked() -> None:
    decision = decide(reading())
    assert rates(decision) == (0, 0)
    assert all(want.quota_bytes < PAGE_BYTES for want in decision.wants.values())
    assert all("parked" in want.reason for want in decision.wants.values())


def test_what_is_hot_is_wanted_up_to_the_rate() -> None:
    assert rates(decide(reading(hot=300 * MIB, free=200 * MIB)))[0] == RATE
    assert rates(decide(reading(hot=3 * MIB, free=200 * MIB)))[0] == 3 * MIB / HEAT_CLEAR_S


def test_a_small_share_of_all_heat_is_left_where_it_is() -> None:
    share = int(300 * MIB * REST_HEAT_SHARE)
    assert rates(decide(reading(hot=share, above=300 * MIB, free=200 * MIB)))[0] == 0
    assert rates(decide(reading(hot=2 * share, above=300 * MIB, free=200 * MIB)))[0] > 0


@pytest.mark.parametrize("times", [1, 100])
def test_however_little_is_hot_so_much_is_left_where_it_is(times: int) -> None:
    """A share of a large node; of a small one what a few programs touch that are always there."""

    def promoted(hot: int) -> float:
        seen = reading(hot=hot, free=200 * MIB)
        nodes = {0: replace(seen.nodes[0], total_bytes=times * N), 1: seen.nodes[1]}
        return rates(decide(replace(seen, nodes=nodes)))[0]

    least = max(REST_HEAT_MIN_BYTES, int(times * N * REST_HEAT_MIN))
    assert promoted(least - 1) == 0
    assert promoted(least + 1) > 0


def test_to_begin_again_takes_twice_as_much() -> None:
    share = int(1.5 * 300 * MIB * REST_HEAT_SHARE)
    memory, rests = demand.decide(Memory(), reading(above=300 * MIB, free=200 * MIB), LIMITS)
    _, again = demand.decide(memory, reading(hot=share, above=300 * MIB, free=200 * MIB), LIMITS)
    assert rests.wants[UP.id].bytes_per_s == again.wants[UP.id].bytes_per_s == 0
    memory, begun = demand.decide(memory, reading(hot=96 * MIB, free=200 * MIB), LIMITS)
    assert begun.wants[UP.id].bytes_per_s > 0
    _, goes_on = demand.decide(memory, reading(hot=share, above=300 * MIB, free=200 * MIB), LIMITS)
    assert goes_on.wants[UP.id].bytes_per_s > 0


def test_to_begin_again_it_must_last() -> None:
    memory, _ = demand.decide(Memory(), reading(above=300 * MIB, free=200 * MIB), LIMITS)
    much = reading(hot=int(3 * 300 * MIB * REST_HEAT_SHARE), above=300 * MIB, free=200 * MIB)
    begins = []
    for _ in range(8):
        memory, decision = demand.decide(memory, much, LIMITS)
        begins.append(decision.wants[UP.id].bytes_per_s > 0)
    assert begins == sorted(begins)
    assert (begins[0], begins[-1]) == (False, True)


def test_what_may_be_chance_is_believed_as_far_as_it_lasts() -> None:
    memory, _ = demand.decide(Memory(), reading(free=200 * MIB), LIMITS)
    for _ in range(2):
        memory, _ = demand.decide(memory, reading(faint=32 * MIB, free=200 * MIB), LIMITS)
    memory, first = demand.decide(memory, reading(faint=32 * MIB, free=200 * MIB), LIMITS)
    assert 0 < first.wants[UP.id].bytes_per_s < 32 * MIB / FAINT_CLEAR_S / 2
    lasting = first
    for _ in range(60):
        memory, lasting = demand.decide(memory, reading(faint=32 * MIB, free=200 * MIB), LIMITS)
    assert lasting.wants[UP.id].bytes_per_s > 0.9 * 32 * MIB / FAINT_CLEAR_S
    _, gone = demand.decide(memory, reading(free=200 * MIB), LIMITS)
    assert gone.wants[UP.id].bytes_per_s == 0


def test_what_was_not_hot_a_moment_ago_has_time_to_show_whether_it_lasts() -> None:
    memory, _ = demand.decide(Memory(), reading(hot=1 * MIB, free=200 * MIB), LIMITS)
    came = []
    for hot in (4, 4, 2):
        seen = reading(hot=hot * MIB, free=200 * MIB, seconds=0.5)
        memory, decision = demand.decide(memory, seen, LIMITS)
        came.append(rates(decision)[0])
    new = 1 * MIB / HEAT_CLEAR_S + 3 * MIB / NEW_CLEAR_S
    # What is less than it was needs no proof.
    assert came == [new, 4 * MIB / HEAT_CLEAR_S, 2 * MIB / HEAT_CLEAR_S]


def test_a_large_set_that_becomes_hot_is_not_kept_waiting() -> None:
    memory, _ = demand.decide(Memory(), reading(hot=1 * MIB, free=200 * MIB), LIMITS)
    _, decision = demand.decide(memory, reading(hot=96 * MIB, free=200 * MIB), LIMITS)
    assert rates(decision)[0] == RATE


def test_room_is_made_for_what_waits_and_used_as_it_comes() -> None:
    up, down = rates(decide(reading(hot=96 * MIB, free=MARK)))
    assert (up, down) == (0, RATE)
    up, down = rates(decide(reading(hot=96 * MIB, free=MARK + 3 * MIB)))
    assert 0 < up < RATE
    assert down == RATE


def test_what_waits_for_room_is_ready_to_go() -> None:
    want = decide(reading(hot=96 * MIB, free=MARK)).wants[UP.id]
    assert want.quota_bytes == demand.READY_BYTES
    assert "below the mark" in want.reason


def test_demotion_that_is_under_way_is_room_already() -> None:
    waits = reading(hot=96 * MIB, free=MARK + 1 * MIB)
    freed = reading(hot=96 * MIB, free=MARK + 1 * MIB, moved={DOWN.id: int(RATE / 2)})
    assert rates(decide(freed))[0] > rates(decide(waits))[0] + RATE / 3
    # What is missing of the mark is there by the time that anything comes up, or it is not.
    near = reading(hot=96 * MIB, free=MARK - 1 * MIB, moved={DOWN.id: int(RATE / 2)})
    assert 0 < rates(decide(near))[0] < RATE / 2
    far = reading(hot=96 * MIB, free=MARK - 8 * MIB, moved={DOWN.id: int(RATE / 2)})
    assert rates(decide(far))[0] == 0


def test_what_comes_up_for_want_of_room_does_not_start_from_rest() -> None:
    seen = reading(hot=96 * MIB, free=MARK + 64 * 1024)
    want = decide(seen).wants[UP.id]
    assert 0 < want.bytes_per_s < RATE / 20
    assert want.quota_bytes == demand.READY_BYTES


def test_huge_pages_wait_for_room_of_their_size_and_not_with_a_quota() -> None:
    """Any quota of a page moves a whole huge page, in each window: 32 MiB in vain in 2 s (7.2)."""
    small = decide(reading(hot=96 * MIB, huge=2 * MIB, free=MARK + 2 * MIB))
    huge = decide(reading(hot=96 * MIB, huge=64 * MIB, free=MARK + 2 * MIB))
    assert small.wants[UP.id].bytes_per_s > 0
    assert huge.wants[UP.id].bytes_per_s == huge.wants[UP.id].quota_bytes == 0
    assert "4 MiB below what a huge page needs" in huge.wants[UP.id].reason
    assert rates(decide(reading(hot=96 * MIB, huge=64 * MIB, free=MARK + 8 * MIB)))[0] > 0


@given(st.integers(MIB, 96 * MIB), st.integers(0, 64 * MIB))
def test_demotion_makes_the_room_that_huge_pages_wait_for(hot: int, free: int) -> None:
    """However little is hot: else they would wait for good."""
    found = decide(reading(hot=hot, huge=128 * MIB, free=free))
    assert any(rates(found))


def test_it_is_ready_for_no_more_than_what_is_to_come() -> None:
    """What a scan leaves behind is little, and waits for room like anything else."""
    seen = reading(faint=8 * MIB, above=8 * MIB, free=MARK)
    pace = 8 * MIB / FAINT_CLEAR_S
    waits = decide(seen).wants[UP.id]
    assert waits.quota_bytes == int(pace * seen.ways[UP.id].window_s) < demand.READY_BYTES
    room = decide(replace(seen, nodes={**seen.nodes, 0: replace(seen.nodes[0], free_bytes=N // 2)}))
    assert room.wants[DOWN.id].quota_bytes == waits.quota_bytes


def test_demotion_keeps_up_with_what_comes() -> None:
    """With as much room as is to lie ahead, as much goes down as came up."""
    room = HEADROOM + int(1.1 * demand.AHEAD_SHARE_MAX * N)
    still = decide(reading(hot=96 * MIB, free=room))
    comes = decide(reading(hot=96 * MIB, free=room, moved={UP.id: int(RATE)}))
    assert rates(still)[1] == 0
    assert RATE / 2 < rates(comes)[1] <= RATE


def test_no_more_room_is_made_than_there_is_to_come() -> None:
    room = HEADROOM + 8 * MIB
    ends = decide(reading(hot=3 * MIB, free=room, moved={UP.id: int(RATE)}))
    assert rates(ends)[1] == 0


def after_seconds(used: float, grown: float = 1.0) -> Want:
    """Of a scheme that is to promote all that it may, and uses up so much of its quotas each time;
    when twenty seconds of that are over."""
    memory = Memory()
    want = Want(RATE, "", quota_bytes=int(RATE / 10))
    for _ in range(20):
        tried = int(used * 10 * want.quota_bytes)
        seen = reading(hot=300 * MIB, free=200 * MIB, tried={UP.id: tried}, moved={UP.id: tried})
        now = replace(seen.ways[UP.id], quota_bytes=int(grown * want.quota_bytes))
        seen = replace(seen, ways={**seen.ways, UP.id: now})
        memory, decision = demand.decide(memory, seen, LIMITS)
        want = decision.wants[UP.id]
    return want


def test_quotas_that_are_not_used_up_are_larger_until_the_rate_is_reached() -> None:
    want = after_seconds(used=2 / 3)
    assert want.quota_bytes * 10 * 2 / 3 == pytest.approx(want.bytes_per_s, rel=0.01)
    # There may be no more to move: then a larger quota is of no use.
    want = after_seconds(used=0.1)
    assert want.quota_bytes * 10 == pytest.approx(want.bytes_per_s / USE_MIN, rel=0.01)


def test_nothing_is_learned_of_a_quota_that_still_grows() -> None:
    want = after_seconds(used=0.1, grown=0.2)
    assert want.quota_bytes * 10 == pytest.approx(want.bytes_per_s / USE_FIRST, rel=0.01)


def test_a_rate_of_next_to_nothing_has_no_quota_to_learn_from() -> None:
    """What is paid back may leave a few bytes a second, and those none in a window."""
    rate = 5 / (1 + CREDIT_S)
    ways = (DOWN, replace(UP, rate_max_bytes_per_s=rate))
    limits, memory = replace(LIMITS, ways=ways), Memory()
    for _ in range(3):
        memory, decision = demand.decide(memory, reading(hot=96 * MIB, free=200 * MIB), limits)
        assert decision.wants[UP.id].bytes_per_s > 0
        assert decision.wants[UP.id].quota_bytes == 0


def test_windows_are_counted_over_seconds() -> None:
    """A tick sees whole windows only: three and seven of them in half a second are ten a second."""
    memory = Memory()
    for number in range(40):
        seen = reading(free=200 * MIB, seconds=0.5, window_s=0.5 / (3 if number % 2 else 7))
        memory, _ = demand.decide(memory, seen, LIMITS)
    assert memory.habits[UP.id].window_s == pytest.approx(0.1, rel=0.12)


def test_without_cold_memory_there_is_no_exchange() -> None:
    up, down = rates(decide(reading(hot=300 * MIB, cold=0, free=HEADROOM)))
    assert (up, down) == (0, 0)


def test_without_cold_memory_only_the_headroom_is_asked_for() -> None:
    """Free memory is none that could leave: it is not cold memory."""
    short = 5 * MIB
    seen = reading(hot=300 * MIB, cold=0, free=HEADROOM - short)
    assert rates(decide(seen)) == (0, short)


def test_room_ahead_is_no_more_than_what_is_hot_may_need() -> None:
    _, some = rates(decide(reading(hot=2 * MIB)))
    assert 0 < some <= 4 * MIB


def test_an_allocation_burst_raises_the_headroom_for_a_while() -> None:
    memory, quiet = demand.decide(Memory(), reading(free=200 * MIB), LIMITS)
    burst = quiet
    for left in (150, 100):
        memory, burst = demand.decide(memory, reading(free=left * MIB), LIMITS)
    assert quiet.headroom_bytes[0] == HEADROOM
    assert burst.headroom_bytes[0] == MARK + int(N * demand.ALLOCATION_SHARE_MAX)
    for _ in range(60):
        memory, burst = demand.decide(memory, reading(free=100 * MIB), LIMITS)
    assert burst.headroom_bytes[0] == HEADROOM


def test_what_was_moved_there_is_no_allocation() -> None:
    memory, _ = demand.decide(Memory(), reading(free=200 * MIB), LIMITS)
    came = reading(free=150 * MIB, moved={UP.id: 50 * MIB})
    assert demand.decide(memory, came, LIMITS)[1].headroom_bytes[0] == HEADROOM


def test_what_is_counted_late_is_no_allocation() -> None:
    """A scheme's count is a little older than the node's: what is missing comes a round later."""
    memory, free = Memory(), 300 * MIB
    for late in (4 * MIB, -4 * MIB) * 5:
        free -= 10 * MIB
        came = reading(free=free, moved={UP.id: 10 * MIB - late}, seconds=0.5)
        memory, decision = demand.decide(memory, came, LIMITS)
        assert decision.headroom_bytes[0] <= HEADROOM + 4 * MIB


def test_tasks_that_wait_for_memory_stop_promotion_but_not_demotion() -> None:
    stalled = decide(reading(hot=96 * MIB, free=MARK - 5 * MIB, stalls=3))
    up, down = rates(stalled)
    assert up == 0
    assert down > 0
    waits = reading(hot=96 * MIB, free=200 * MIB, pressure=0.2)
    memory, once = demand.decide(Memory(), waits, LIMITS)
    assert once.wants[UP.id].bytes_per_s > 0
    lasting = once
    for _ in range(5):
        memory, lasting = demand.decide(memory, waits, LIMITS)
    assert lasting.wants[UP.id].bytes_per_s == 0
    assert "tasks wait for memory" in lasting.wants[UP.id].reason


def test_where_failures_are_charged_the_quota_is_for_more_than_should_move() -> None:
    charged = replace(LIMITS, charges_failures=True)
    seen = reading(
        hot=96 * MIB,
        free=200 * MIB,
        moved={UP.id: 10 * MIB},
        tried={UP.id: 20 * MIB},
    )
    memory = Memory(habits={UP.id: Habit(0.1, share_moved=0.5)})
    plain = demand.decide(memory, seen, LIMITS)[1].wants[UP.id].quota_bytes
    assert demand.decide(memory, seen, charged)[1].wants[UP.id].quota_bytes == 2 * plain


def test_a_quota_of_tries_makes_no_more_than_twice_the_room_that_is_missing() -> None:
    """The next memory that is tried may all move, though hardly any did before."""
    charged = replace(LIMITS, charges_failures=True)
    memory, short = Memory(habits={DOWN.id: Habit(0.1, share_moved=0.0)}), 4 * MIB
    for seconds in (0.5, 2.0):
        seen = reading(free=HEADROOM - short, seconds=seconds)
        want = demand.decide(memory, seen, charged)[1].wants[DOWN.id]
        windows = seconds / 0.1
        assert want.quota_bytes > 0
        assert want.quota_bytes * windows <= 2 * short


def test_who_looks_again_sooner_may_try_more_until_then() -> None:
    charged = replace(LIMITS, charges_failures=True)
    memory = Memory(habits={DOWN.id: Habit(0.1, share_moved=0.0)})
    seen = reading(free=HEADROOM - 4 * MIB, seconds=1.0)
    alone = demand.decide(memory, seen, charged)[1].wants[DOWN.id]
    glanced = demand.decide(memory, replace(seen, again_s=0.5), charged)[1].wants[DOWN.id]
    assert glanced.quota_bytes == pytest.approx(2 * alone.quota_bytes, abs=1)
    assert glanced.bytes_per_s == alone.bytes_per_s


def test_what_moved_beyond_the_rate_is_paid_back() -> None:
    over = reading(hot=96 * MIB, free=200 * MIB, moved={UP.id: int(2 * RATE)})
    memory, first = demand.decide(Memory(), over, LIMITS)
    assert first.wants[UP.id].bytes_per_s == 0
    _, second = demand.decide(memory, reading(hot=96 * MIB, free=200 * MIB), LIMITS)
    assert second.wants[UP.id].bytes_per_s == RATE


def test_a_quota_that_was_still_growing_may_catch_up_a_little() -> None:
    idle = reading(hot=96 * MIB, free=200 * MIB)
    memory, first = demand.decide(Memory(), idle, LIMITS)
    _, second = demand.decide(memory, idle, LIMITS)
    assert first.wants[UP.id].bytes_per_s == RATE
    assert second.wants[UP.id].bytes_per_s == RATE * (1 + CREDIT_S)
    # What did not want to move has nothing to catch up on.
    rested, _ = demand.decide(Memory(), reading(free=200 * MIB), LIMITS)
    assert demand.decide(rested, idle, LIMITS)[1].wants[UP.id].bytes_per_s == RATE


READINGS = st.builds(
    reading,
    hot=st.integers(0, 2 * N),
    faint=st.integers(0, N),
    above=st.integers(0, N),
    cold=st.integers(0, N),
    free=st.integers(0, N),
    moved=st.fixed_dictionaries({UP.id: st.integers(0, N), DOWN.id: st.integers(0, N)}),
    pressure=st.floats(0, 1),
    stalls=st.integers(0, 3),
    seconds=st.floats(0.1, 100),
)


@given(st.lists(READINGS, min_size=1, max_size=20), st.booleans())
def test_it_keeps_to_the_limits_whatever_it_sees(seen: list[Reading], charges: bool) -> None:
    limits = replace(LIMITS, charges_failures=charges)
    memory = Memory()
    for one in seen:
        memory, decision = demand.decide(memory, one, limits)
        for way in limits.ways:
            want = decision.wants[way.id]
            assert 0 <= want.bytes_per_s <= way.rate_max_bytes_per_s * (1 + CREDIT_S)
            assert 0 <= want.quota_bytes <= way.quota_bytes_max
            assert want.reason
        assert decision.headroom_bytes[0] <= MARK + N * 0.05 + N * 0.005
        made = one.ways[DOWN.id].applied_bytes / one.seconds * demand.ROOM_S
        if one.nodes[0].free_bytes + made <= MARK:
            assert decision.wants[UP.id].bytes_per_s == 0
        if one.stalls:
            assert decision.wants[UP.id].bytes_per_s == 0
        assert 0 <= memory.nodes[0].check.hold_off_s <= HOLD_OFF_S_MAX
