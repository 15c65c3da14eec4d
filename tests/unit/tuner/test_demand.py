"""The demand tuner: what it asks for, and which limits it keeps."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.pages import PAGE_BYTES
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
from tierd.plans.plan import Migration
from tierd.tuner import demand
from tierd.tuner.benefit import HOLD_OFF_S_MAX
from tierd.tuner.demand import ControllerState
from tierd.tuner.demotion import AHEAD_SHARE_MAX, PAYING_SHARE
from tierd.tuner.habit import CREDIT_S, USE_FIRST, USE_MIN, Habit
from tierd.tuner.measurement import Measurement
from tierd.tuner.node_state import (
    ALLOCATION_SHARE_MAX,
    IDLE_HEAT_MIN_BYTES,
    IDLE_HEAT_SHARE,
)
from tierd.tuner.promotion import ROOM_S
from tierd.tuner.round import (
    FAINT_CLEAR_S,
    HEAT_CLEAR_S,
    NEW_CLEAR_S,
    NEW_SHARE,
    READY_BYTES,
    Want,
)
from tierd.units import format_size


def test_with_nothing_hot_and_the_headroom_free_everything_is_parked() -> None:
    decision = decide(reading())
    assert rates(decision) == (0, 0)
    assert all(want.quota_bytes < PAGE_BYTES for want in decision.wants.values())
    assert all("parked" in want.reason for want in decision.wants.values())


def test_what_is_hot_is_wanted_up_to_the_rate() -> None:
    assert rates(decide(reading(hot=300 * MIB, free=200 * MIB)))[0] == RATE
    assert rates(decide(reading(hot=3 * MIB, free=200 * MIB)))[0] == 3 * MIB / HEAT_CLEAR_S


def test_a_small_share_of_all_heat_is_left_where_it_is() -> None:
    share = int(300 * MIB * IDLE_HEAT_SHARE)
    assert rates(decide(reading(hot=share, above=300 * MIB, free=200 * MIB)))[0] == 0
    assert rates(decide(reading(hot=2 * share, above=300 * MIB, free=200 * MIB)))[0] > 0


@pytest.mark.parametrize("times", [1, 1000])
def test_a_little_is_left_where_it_is_on_a_node_of_any_size(times: int) -> None:
    """The least heat is what always runs on a small node. It does not grow with the node."""

    def promoted(hot: int) -> float:
        seen = reading(hot=hot, free=200 * MIB)
        fast = replace(seen.nodes[0], total_bytes=times * N, free_bytes=times * 200 * MIB)
        return rates(decide(replace(seen, nodes={**seen.nodes, 0: fast})))[0]

    assert promoted(IDLE_HEAT_MIN_BYTES - 1) == 0
    assert promoted(IDLE_HEAT_MIN_BYTES + 1) > 0


def test_to_begin_again_takes_twice_as_much() -> None:
    share = int(1.5 * 300 * MIB * IDLE_HEAT_SHARE)
    memory, is_idle = demand.decide(
        ControllerState(), reading(above=300 * MIB, free=200 * MIB), LIMITS
    )
    _, again = demand.decide(memory, reading(hot=share, above=300 * MIB, free=200 * MIB), LIMITS)
    assert is_idle.wants[UP.id].bytes_per_s == again.wants[UP.id].bytes_per_s == 0
    memory, begun = demand.decide(memory, reading(hot=96 * MIB, free=200 * MIB), LIMITS)
    assert begun.wants[UP.id].bytes_per_s > 0
    _, goes_on = demand.decide(memory, reading(hot=share, above=300 * MIB, free=200 * MIB), LIMITS)
    assert goes_on.wants[UP.id].bytes_per_s > 0


def test_to_begin_again_it_must_last() -> None:
    memory, _ = demand.decide(ControllerState(), reading(above=300 * MIB, free=200 * MIB), LIMITS)
    much = reading(hot=int(3 * 300 * MIB * IDLE_HEAT_SHARE), above=300 * MIB, free=200 * MIB)
    begins = []
    for _ in range(8):
        memory, decision = demand.decide(memory, much, LIMITS)
        begins.append(decision.wants[UP.id].bytes_per_s > 0)
    assert begins == sorted(begins)
    assert (begins[0], begins[-1]) == (False, True)


def test_what_may_be_chance_is_believed_as_far_as_it_lasts() -> None:
    memory, _ = demand.decide(ControllerState(), reading(free=200 * MIB), LIMITS)
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
    memory, _ = demand.decide(ControllerState(), reading(hot=1 * MIB, free=200 * MIB), LIMITS)
    came = []
    for hot in (4, 4, 2):
        seen = reading(hot=hot * MIB, free=200 * MIB, seconds=0.5)
        memory, decision = demand.decide(memory, seen, LIMITS)
        came.append(rates(decision)[0])
    new = 1 * MIB / HEAT_CLEAR_S + 3 * MIB / NEW_CLEAR_S
    # Heat that falls is not new, so it moves at once.
    assert came == [new, 4 * MIB / HEAT_CLEAR_S, 2 * MIB / HEAT_CLEAR_S]


def test_a_large_set_that_becomes_hot_waits_for_one_more_reading() -> None:
    """One reading may show much heat by chance. It gets a part of the rate until the next one."""
    memory, _ = demand.decide(ControllerState(), reading(hot=1 * MIB, free=200 * MIB), LIMITS)
    large = reading(hot=96 * MIB, free=200 * MIB)
    memory, first = demand.decide(memory, large, LIMITS)
    _, second = demand.decide(memory, large, LIMITS)
    assert rates(first)[0] == pytest.approx(1 * MIB / HEAT_CLEAR_S + NEW_SHARE * RATE)
    assert rates(second)[0] >= RATE


# A second fast node, as near to the slow one as the first.
TWIN_UP = replace(UP, id="promote-1-2", target_node=2)
TWIN_DOWN = replace(DOWN, id="demote-2-1", source_node=2)
TWINS = replace(LIMITS, migrations=(*LIMITS.migrations, TWIN_DOWN, TWIN_UP))


def beside_a_twin(seen: Measurement) -> Measurement:
    """Return the reading of a machine with two equal fast nodes."""
    up, down = seen.schemes[UP.id], seen.schemes[DOWN.id]
    twins = {TWIN_UP.id: up, TWIN_DOWN.id: down}
    nodes = {**seen.nodes, 2: seen.nodes[0]}
    return replace(seen, nodes=nodes, schemes={**seen.schemes, **twins})


@pytest.mark.parametrize("heat", [{"hot": 3 * MIB}, {"faint": 64 * MIB}], ids=["sure", "faint"])
def test_targets_that_are_equally_near_share_what_waits(heat: dict[str, int]) -> None:
    """Hot memory comes up once, so two targets share it, and each makes room for its part."""
    seen = reading(**heat, free=200 * MIB)  # type: ignore[arg-type]
    wants = decide(beside_a_twin(seen), limits=TWINS).wants
    alone = decide(seen).wants[UP.id]
    assert wants[UP.id].bytes_per_s == wants[TWIN_UP.id].bytes_per_s == alone.bytes_per_s / 2
    assert f"{format_size(sum(heat.values()) // 2)} hot on node 1" in wants[UP.id].reason
    for came in (0, int(RATE)):
        full = reading(**heat, free=HEADROOM, moved={UP.id: came})  # type: ignore[arg-type]
        both = decide(beside_a_twin(full), limits=TWINS).wants
        room = decide(full).wants[DOWN.id].bytes_per_s
        assert both[DOWN.id].bytes_per_s == both[TWIN_DOWN.id].bytes_per_s
        assert 0 < both[DOWN.id].bytes_per_s == pytest.approx(room / 2)


def test_a_part_of_the_heat_that_is_too_little_rests_at_each_target() -> None:
    """Heat that is too little for a target stays there, even if both together have enough."""
    seen = reading(hot=int(1.5 * IDLE_HEAT_MIN_BYTES), free=200 * MIB)
    assert decide(seen).wants[UP.id].bytes_per_s > 0
    wants = decide(beside_a_twin(seen), limits=TWINS).wants
    assert wants[UP.id].bytes_per_s == wants[TWIN_UP.id].bytes_per_s == 0


def test_room_is_made_for_what_waits_and_used_as_it_comes() -> None:
    up, down = rates(decide(reading(hot=96 * MIB, free=MARK)))
    assert (up, down) == (0, RATE)
    up, down = rates(decide(reading(hot=96 * MIB, free=MARK + 3 * MIB)))
    assert 0 < up < RATE
    assert down == RATE


def test_what_waits_for_room_is_ready_to_go() -> None:
    want = decide(reading(hot=96 * MIB, free=MARK)).wants[UP.id]
    assert want.quota_bytes == READY_BYTES
    assert "below the mark" in want.reason


def test_demotion_that_is_under_way_is_room_already() -> None:
    waits = reading(hot=96 * MIB, free=MARK + 1 * MIB)
    freed = reading(hot=96 * MIB, free=MARK + 1 * MIB, moved={DOWN.id: int(RATE / 2)})
    assert rates(decide(freed))[0] > rates(decide(waits))[0] + RATE / 3
    # Demotion can make up for a small lack of free memory in time, but not for a large one.
    near = reading(hot=96 * MIB, free=MARK - 1 * MIB, moved={DOWN.id: int(RATE / 2)})
    assert 0 < rates(decide(near))[0] < RATE / 2
    far = reading(hot=96 * MIB, free=MARK - 8 * MIB, moved={DOWN.id: int(RATE / 2)})
    assert rates(decide(far))[0] == 0


def test_what_comes_up_for_want_of_room_does_not_start_from_rest() -> None:
    seen = reading(hot=96 * MIB, free=MARK + 64 * 1024)
    want = decide(seen).wants[UP.id]
    assert 0 < want.bytes_per_s < RATE / 20
    assert want.quota_bytes == READY_BYTES


def test_huge_pages_wait_for_room_of_their_size_and_not_with_a_quota() -> None:
    """Any quota from a page up moves a whole huge page in each window, in vain without room."""
    # Less than half of the hot memory below may be huge pages.
    small = decide(reading(hot=96 * MIB, huge=40 * MIB, free=MARK + 2 * MIB))
    huge = decide(reading(hot=96 * MIB, huge=64 * MIB, free=MARK + 2 * MIB))
    assert small.wants[UP.id].bytes_per_s > 0
    assert huge.wants[UP.id].bytes_per_s == huge.wants[UP.id].quota_bytes == 0
    assert "4 MiB below what a huge page needs" in huge.wants[UP.id].reason
    assert rates(decide(reading(hot=96 * MIB, huge=64 * MIB, free=MARK + 8 * MIB)))[0] > 0


@given(st.integers(MIB, 96 * MIB), st.integers(0, 64 * MIB))
def test_demotion_makes_the_room_that_huge_pages_wait_for(hot: int, free: int) -> None:
    """Even if little is hot. If not, huge pages would wait for ever."""
    found = decide(reading(hot=hot, huge=128 * MIB, free=free))
    assert any(rates(found))


def test_it_is_ready_for_no_more_than_what_is_to_come() -> None:
    """A scan leaves little heat, and the quota that waits for room is small too."""
    seen = reading(faint=8 * MIB, above=8 * MIB, free=MARK)
    pace = 8 * MIB / FAINT_CLEAR_S
    waits = decide(seen).wants[UP.id]
    assert waits.quota_bytes == int(pace * seen.schemes[UP.id].window_s) < READY_BYTES
    room = decide(replace(seen, nodes={**seen.nodes, 0: replace(seen.nodes[0], free_bytes=N // 2)}))
    assert room.wants[DOWN.id].quota_bytes == waits.quota_bytes


def test_demotion_that_pays_back_is_ready_to_go_on() -> None:
    seen = reading(hot=96 * MIB, free=MARK, moved={DOWN.id: int(3 * RATE)})
    want = decide(seen).wants[DOWN.id]
    assert want.bytes_per_s == 0
    share = want.quota_bytes / seen.schemes[DOWN.id].window_s / RATE
    assert want.quota_bytes >= PAGE_BYTES
    assert share <= PAYING_SHARE
    # One huge page in each window may be more than the rate.
    nodes = {**seen.nodes, 0: replace(seen.nodes[0], huge_bytes=64 * MIB)}
    assert decide(replace(seen, nodes=nodes)).wants[DOWN.id].quota_bytes == 0


def test_demotion_keeps_up_with_what_comes() -> None:
    """If there is enough room ahead, demotion moves as much as promotion brings."""
    room = HEADROOM + int(1.1 * AHEAD_SHARE_MAX * N)
    still = decide(reading(hot=96 * MIB, free=room))
    comes = decide(reading(hot=96 * MIB, free=room, moved={UP.id: int(RATE)}))
    assert rates(still)[1] == 0
    assert RATE / 2 < rates(comes)[1] <= RATE


def test_no_more_room_is_made_than_there_is_to_come() -> None:
    room = HEADROOM + 8 * MIB
    ends = decide(reading(hot=3 * MIB, free=room, moved={UP.id: int(RATE)}))
    assert rates(ends)[1] == 0


def after_seconds(used: float, grown: float = 1.0, seconds: float = 1.0) -> Want:
    """Return the want after 20 rounds in which a scheme uses a share of each quota.

    It promotes as much as it may, and every page that moves is of use.
    """
    memory, hot = ControllerState(), 1200 * MIB
    want = Want(RATE, "", quota_bytes=int(RATE / 10))
    for _ in range(20):
        tried = int(used * 10 * want.quota_bytes * seconds)
        hot -= tried
        moved = {UP.id: tried, DOWN.id: tried}
        seen = reading(hot=hot, free=200 * MIB, moved=moved, seconds=seconds)
        now = replace(seen.schemes[UP.id], quota_bytes=int(grown * want.quota_bytes))
        seen = replace(seen, schemes={**seen.schemes, UP.id: now})
        memory, decision = demand.decide(memory, seen, LIMITS)
        want = decision.wants[UP.id]
        assert want.bytes_per_s > RATE / 2, "it goes on"
    return want


@pytest.mark.parametrize("seconds", [0.5, 1.0, 2.0])
def test_quotas_that_are_not_used_up_are_larger_until_the_rate_is_reached(seconds: float) -> None:
    want = after_seconds(used=2 / 3, seconds=seconds)
    assert want.quota_bytes * 10 * 2 / 3 == pytest.approx(want.bytes_per_s, rel=0.02)
    # There may be no more to move. Then a larger quota is of no use.
    want = after_seconds(used=0.1, seconds=seconds)
    assert want.quota_bytes * 10 == pytest.approx(want.bytes_per_s / USE_MIN, rel=0.01)


def test_nothing_is_learned_of_a_quota_that_still_grows() -> None:
    want = after_seconds(used=0.1, grown=0.2)
    assert want.quota_bytes * 10 == pytest.approx(want.bytes_per_s, rel=0.01)


def test_until_its_use_is_known_a_quota_is_larger_but_not_above_the_rate() -> None:
    unknown, known = Habit(window_s=0.1), Habit(window_s=0.1, share_used=0.8)
    assert unknown.quota_for(1e6, 2e6) == pytest.approx(1e5 / USE_FIRST)
    assert unknown.quota_for(1.8e6, 2e6) == pytest.approx(2e5)
    assert known.quota_for(2e6, 2e6) == pytest.approx(2.5e5)


def after_tries(one: Migration, share: float, rounds: int, charged: bool = True) -> int:
    """Return the quota of a scheme after rounds in which a share of the tried bytes moved."""
    both = tuple(replace(one, quota_bytes_max=1 << 30) for one in LIMITS.migrations)
    limits, memory = replace(LIMITS, migrations=both, charges_failures=charged), ControllerState()
    quota, tried = 0, 1 * MIB
    for _ in range(rounds):
        free = 200 * MIB if one is UP else HEADROOM - 40 * MIB
        moved, all_tried = {one.id: int(share * tried)}, {one.id: tried}
        # Rounds are short, so that the limit on the room until the next round does not matter.
        seen = reading(hot=96 * MIB, free=free, moved=moved, tried=all_tried, seconds=0.1)
        memory, decision = demand.decide(memory, seen, limits)
        quota = decision.wants[one.id].quota_bytes
    return quota


@pytest.mark.parametrize(("one", "times_max"), [(UP, 2), (DOWN, 8)], ids=["up", "down"])
def test_what_fails_is_tried_for_up_to_a_bound(one: Migration, times_max: int) -> None:
    """Here a failed try uses up quota. One bad round changes little, and ten change much."""
    plain = after_tries(one, 0.0, 1, charged=False)
    assert after_tries(one, 1.0, 10) <= plain * (1 + CREDIT_S)
    assert plain < after_tries(one, 0.0, 1) < 2 * plain
    assert after_tries(one, 0.0, 30) == pytest.approx(times_max * plain, rel=CREDIT_S)
    assert after_tries(one, 0.6, 30) == pytest.approx(plain / 0.6, rel=2 * CREDIT_S)


def test_a_quota_is_never_more_than_the_plan_allows() -> None:
    """Even if windows have become long."""
    seen = reading(hot=300 * MIB, free=200 * MIB, window_s=5.0)
    assert decide(seen).wants[UP.id].quota_bytes == UP.quota_bytes_max


def test_a_node_that_nothing_is_demoted_from_has_what_is_free() -> None:
    alone = replace(LIMITS, migrations=(UP,))
    assert decide(reading(hot=96 * MIB, free=200 * MIB), limits=alone).wants[UP.id].bytes_per_s
    full = decide(reading(hot=96 * MIB, free=MARK), limits=alone)
    assert full.wants[UP.id].bytes_per_s == 0


def test_demotion_that_may_begin_already_is_room_too() -> None:
    """Its quota has grown, but nothing that it moved is counted yet."""
    is_idle = reading(hot=96 * MIB, free=MARK + 1 * MIB)
    grown = replace(is_idle.schemes[DOWN.id], quota_bytes=DOWN.quota_bytes_max)
    ready = replace(is_idle, schemes={**is_idle.schemes, DOWN.id: grown})
    assert rates(decide(ready))[0] > rates(decide(is_idle))[0] + RATE / 2


def test_a_rate_of_next_to_nothing_has_no_quota_to_learn_from() -> None:
    """A scheme that pays back may have a rate of a few bytes per second: none in a window."""
    rate = 5 / (1 + CREDIT_S)
    both = (DOWN, replace(UP, rate_max_bytes_per_s=rate))
    limits, memory = replace(LIMITS, migrations=both), ControllerState()
    for _ in range(3):
        memory, decision = demand.decide(memory, reading(hot=96 * MIB, free=200 * MIB), limits)
        assert decision.wants[UP.id].bytes_per_s > 0
        assert decision.wants[UP.id].quota_bytes == 0


def test_windows_are_counted_over_seconds() -> None:
    """A tick sees whole windows only. Three and seven in half a second are ten in a second."""
    memory = ControllerState()
    for number in range(40):
        seen = reading(free=200 * MIB, seconds=0.5, window_s=0.5 / (3 if number % 2 else 7))
        memory, _ = demand.decide(memory, seen, LIMITS)
    assert memory.habits[UP.id].window_s == pytest.approx(0.1, rel=0.12)


def test_without_cold_memory_there_is_no_exchange() -> None:
    up, down = rates(decide(reading(hot=300 * MIB, cold=0, free=HEADROOM)))
    assert (up, down) == (0, 0)


def test_without_cold_memory_only_the_headroom_is_asked_for() -> None:
    """Free memory is not cold memory, so it cannot be demoted."""
    short = 5 * MIB
    seen = reading(hot=300 * MIB, cold=0, free=HEADROOM - short)
    assert rates(decide(seen)) == (0, short)


def test_room_ahead_is_no_more_than_what_is_hot_may_need() -> None:
    _, some = rates(decide(reading(hot=2 * MIB)))
    assert 0 < some <= 4 * MIB


def test_an_allocation_burst_raises_the_headroom_for_a_while() -> None:
    memory, quiet = demand.decide(ControllerState(), reading(free=200 * MIB), LIMITS)
    burst = quiet
    for left in (150, 100):
        memory, burst = demand.decide(memory, reading(free=left * MIB), LIMITS)
    assert quiet.headroom_bytes[0] == HEADROOM
    assert burst.headroom_bytes[0] == MARK + int(N * ALLOCATION_SHARE_MAX)
    for _ in range(60):
        memory, burst = demand.decide(memory, reading(free=100 * MIB), LIMITS)
    assert burst.headroom_bytes[0] == HEADROOM


def test_what_was_moved_there_is_no_allocation() -> None:
    memory, _ = demand.decide(ControllerState(), reading(free=200 * MIB), LIMITS)
    came = reading(free=150 * MIB, moved={UP.id: 50 * MIB})
    assert demand.decide(memory, came, LIMITS)[1].headroom_bytes[0] == HEADROOM


def test_what_is_counted_late_is_no_allocation() -> None:
    """A scheme's count is older than the node's, so some of it comes a round later."""
    memory, free = ControllerState(), 300 * MIB
    for late in (4 * MIB, -4 * MIB) * 5:
        free -= 10 * MIB
        came = reading(free=free, moved={UP.id: 10 * MIB - late}, seconds=0.5)
        memory, decision = demand.decide(memory, came, LIMITS)
        assert decision.headroom_bytes[0] <= HEADROOM + 4 * MIB


def test_where_failures_are_charged_the_quota_is_for_more_than_should_move() -> None:
    charged = replace(LIMITS, charges_failures=True)
    seen = reading(
        hot=96 * MIB,
        free=200 * MIB,
        moved={UP.id: 10 * MIB},
        tried={UP.id: 20 * MIB},
    )
    memory = ControllerState(habits={UP.id: Habit(0.1, share_moved=0.5)})
    plain = demand.decide(memory, seen, LIMITS)[1].wants[UP.id].quota_bytes
    assert demand.decide(memory, seen, charged)[1].wants[UP.id].quota_bytes == 2 * plain


def test_a_quota_of_tries_makes_no_more_than_twice_the_room_that_is_missing() -> None:
    """All of the next tries may succeed, even if almost none did before."""
    charged = replace(LIMITS, charges_failures=True)
    memory, short = ControllerState(habits={DOWN.id: Habit(0.1, share_moved=0.0)}), 4 * MIB
    for seconds in (0.5, 2.0):
        seen = reading(free=HEADROOM - short, seconds=seconds)
        want = demand.decide(memory, seen, charged)[1].wants[DOWN.id]
        windows = seconds / 0.1
        assert want.quota_bytes > 0
        assert want.quota_bytes * windows <= 2 * short


def test_who_looks_again_sooner_may_try_more_until_then() -> None:
    charged = replace(LIMITS, charges_failures=True)
    memory = ControllerState(habits={DOWN.id: Habit(0.1, share_moved=0.0)})
    seen = reading(free=HEADROOM - 4 * MIB, seconds=1.0)
    alone = demand.decide(memory, seen, charged)[1].wants[DOWN.id]
    glanced = demand.decide(memory, replace(seen, again_s=0.5), charged)[1].wants[DOWN.id]
    assert glanced.quota_bytes == pytest.approx(2 * alone.quota_bytes, abs=1)
    assert glanced.bytes_per_s == alone.bytes_per_s


def test_what_moved_beyond_the_rate_is_paid_back() -> None:
    over = reading(hot=96 * MIB, free=200 * MIB, moved={UP.id: int(2 * RATE)})
    memory, first = demand.decide(ControllerState(), over, LIMITS)
    assert first.wants[UP.id].bytes_per_s == 0
    _, second = demand.decide(memory, reading(hot=96 * MIB, free=200 * MIB), LIMITS)
    assert second.wants[UP.id].bytes_per_s == RATE


def test_a_quota_that_was_still_growing_may_catch_up_a_little() -> None:
    idle = reading(hot=96 * MIB, free=200 * MIB)
    memory, first = demand.decide(ControllerState(), idle, LIMITS)
    _, second = demand.decide(memory, idle, LIMITS)
    assert first.wants[UP.id].bytes_per_s == RATE
    assert second.wants[UP.id].bytes_per_s == RATE * (1 + CREDIT_S)
    # A scheme that was not told to move has nothing to catch up on.
    held, _ = demand.decide(ControllerState(), reading(hot=96 * MIB, free=0), LIMITS)
    assert demand.decide(held, idle, LIMITS)[1].wants[UP.id].bytes_per_s == RATE


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
def test_it_keeps_to_the_limits_whatever_it_sees(seen: list[Measurement], charges: bool) -> None:
    limits = replace(LIMITS, charges_failures=charges)
    memory = ControllerState()
    for one in seen:
        memory, decision = demand.decide(memory, one, limits)
        for migration in limits.migrations:
            want = decision.wants[migration.id]
            assert 0 <= want.bytes_per_s <= migration.rate_max_bytes_per_s * (1 + CREDIT_S)
            assert 0 <= want.quota_bytes <= migration.quota_bytes_max
            assert want.reason
        assert decision.headroom_bytes[0] <= MARK + N * 0.05 + N * 0.005
        made = one.schemes[DOWN.id].applied_bytes / one.seconds * ROOM_S
        if one.nodes[0].free_bytes + made <= MARK:
            assert decision.wants[UP.id].bytes_per_s == 0
        if one.stalls and one.nodes[0].free_bytes < MARK:
            assert decision.wants[UP.id].bytes_per_s == 0
        assert 0 <= memory.nodes[0].check.hold_off_s <= HOLD_OFF_S_MAX
