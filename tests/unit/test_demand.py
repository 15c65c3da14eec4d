"""The demand tuner: what it asks for, and what it never does."""

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tierd import demand
from tierd.damon import PAGE_BYTES, Metric
from tierd.demand import (
    CHECK_S,
    DEAD_SHARE,
    HOLD_OFF_S_MIN,
    STRIKES_MAX,
    Decision,
    Limits,
    Memory,
    NodeReading,
    Reading,
    Way,
    WayReading,
)
from tierd.plan import Aim, Direction, Loop

MIB = 1 << 20
N = 512 * MIB
MARK = 28 * MIB
RATE = 20e6
AIM = Aim(Metric.node_mem_free_bp, 0, 600)
UP = Way("promote-1-0", Direction.promote, 1, 0, RATE, 8_000_000, AIM)
DOWN = Way("demote-0-1", Direction.demote, 0, 1, RATE, 8_000_000, AIM)
LIMITS = Limits(Loop.demand, (DOWN, UP), headroom_bp=50, charges_failures=False)
HEADROOM = MARK + N * 50 // 10_000


def reading(
    *,
    hot: int = 0,
    cold: int = 400 * MIB,
    free: int = HEADROOM,
    moved: Mapping[str, int] | None = None,
    tried: Mapping[str, int] | None = None,
    pressure: float = 0.0,
    stalls: int = 0,
    seconds: float = 1.0,
) -> Reading:
    moved = moved or {}
    tried = tried or moved
    return Reading(
        seconds=seconds,
        nodes={
            0: NodeReading(N, free, MARK, cold_bytes=cold + free),
            1: NodeReading(2 * N, N, MARK, hot_bytes=hot),
        },
        ways={
            way.id: WayReading(tried.get(way.id, 0), moved.get(way.id, 0), 1024, 0.1)
            for way in (UP, DOWN)
        },
        pressure=pressure,
        stalls=stalls,
    )


def decide(seen: Reading, memory: Memory | None = None, limits: Limits = LIMITS) -> Decision:
    return demand.decide(memory or Memory(), seen, limits)[1]


def rates(decision: Decision) -> tuple[float, float]:
    return decision.wants[UP.id].bytes_per_s, decision.wants[DOWN.id].bytes_per_s


def test_with_nothing_hot_and_the_headroom_free_everything_is_parked() -> None:
    decision = decide(reading())
    assert rates(decision) == (0, 0)
    assert all(want.quota_bytes < PAGE_BYTES for want in decision.wants.values())
    assert all("parked" in want.reason for want in decision.wants.values())


def test_what_is_hot_is_wanted_up_to_the_rate() -> None:
    assert rates(decide(reading(hot=300 * MIB, free=200 * MIB)))[0] == RATE
    assert rates(decide(reading(hot=3 * MIB, free=200 * MIB)))[0] == 3 * MIB


def test_less_than_the_dead_band_is_no_demand() -> None:
    assert rates(decide(reading(hot=int(N * DEAD_SHARE) - 1, free=200 * MIB)))[0] == 0


def test_room_is_made_for_what_waits_and_used_as_it_comes() -> None:
    up, down = rates(decide(reading(hot=96 * MIB, free=MARK)))
    assert (up, down) == (0, RATE)
    up, down = rates(decide(reading(hot=96 * MIB, free=MARK + 7 * MIB)))
    assert 0 < up < RATE
    assert down == RATE


def test_what_waits_for_room_is_ready_to_go() -> None:
    want = decide(reading(hot=96 * MIB, free=MARK)).wants[UP.id]
    assert want.quota_bytes == demand.READY_BYTES
    assert "below the mark" in want.reason


def test_without_cold_memory_there_is_no_exchange() -> None:
    up, down = rates(decide(reading(hot=300 * MIB, cold=0, free=HEADROOM)))
    assert (up, down) == (0, 0)
    assert "nothing is cold" in decide(reading(hot=N, cold=0)).wants[DOWN.id].reason


def test_free_memory_is_not_cold_memory() -> None:
    assert rates(decide(reading(hot=300 * MIB, cold=0, free=MARK)))[1] == 0


def test_an_allocation_burst_raises_the_headroom_for_a_while() -> None:
    memory, quiet = demand.decide(Memory(), reading(free=200 * MIB), LIMITS)
    memory, burst = demand.decide(memory, reading(free=150 * MIB), LIMITS)
    assert quiet.headroom_bytes[0] == HEADROOM
    assert burst.headroom_bytes[0] == MARK + int(N * demand.ALLOCATION_SHARE_MAX)
    for _ in range(60):
        memory, burst = demand.decide(memory, reading(free=150 * MIB), LIMITS)
    assert burst.headroom_bytes[0] == HEADROOM


def test_what_was_moved_there_is_no_allocation() -> None:
    memory, _ = demand.decide(Memory(), reading(free=200 * MIB), LIMITS)
    came = reading(free=150 * MIB, moved={UP.id: 50 * MIB})
    assert demand.decide(memory, came, LIMITS)[1].headroom_bytes[0] == HEADROOM


def test_tasks_that_wait_for_memory_stop_promotion_but_not_demotion() -> None:
    for seen in (
        reading(hot=96 * MIB, free=MARK - 5 * MIB, pressure=0.05),
        reading(hot=96 * MIB, free=MARK - 5 * MIB, stalls=3),
    ):
        up, down = rates(decide(seen))
        assert up == 0
        assert down > 0


def test_where_failures_are_charged_the_quota_is_for_more_than_should_move() -> None:
    charged = replace(LIMITS, charges_failures=True)
    seen = reading(
        hot=96 * MIB,
        free=200 * MIB,
        moved={UP.id: 10 * MIB},
        tried={UP.id: 20 * MIB},
    )
    memory = Memory(yields={UP.id: 0.5, DOWN.id: 1.0})
    plain = demand.decide(memory, seen, LIMITS)[1].wants[UP.id].quota_bytes
    assert demand.decide(memory, seen, charged)[1].wants[UP.id].quota_bytes == 2 * plain


def test_what_moved_beyond_the_rate_is_paid_back() -> None:
    over = reading(hot=96 * MIB, free=200 * MIB, moved={UP.id: int(2 * RATE)})
    memory, first = demand.decide(Memory(), over, LIMITS)
    assert first.wants[UP.id].bytes_per_s == 0
    _, second = demand.decide(memory, reading(hot=96 * MIB, free=200 * MIB), LIMITS)
    assert second.wants[UP.id].bytes_per_s == RATE


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
    assert 0 < memory.nodes[0].hold_off_s <= HOLD_OFF_S_MIN
    memory, decision = in_vain(memory, HOLD_OFF_S_MIN + CHECK_S + 2)
    assert HOLD_OFF_S_MIN < memory.nodes[0].hold_off_s <= 2 * HOLD_OFF_S_MIN


def test_pages_that_do_not_arrive_end_it_too() -> None:
    """The node is as full as before, though pages are said to have come and none to have left."""
    _, decision = in_vain(Memory(), CHECK_S * STRIKES_MAX + 2, arrives=False)
    assert "did not arrive" in decision.wants[UP.id].reason
    assert decision.wants[UP.id].bytes_per_s == 0


def test_another_demand_ends_the_hold_off() -> None:
    memory, _ = in_vain(Memory(), CHECK_S * STRIKES_MAX + 2)
    _, decision = demand.decide(memory, reading(hot=90 * MIB, free=200 * MIB), LIMITS)
    assert decision.wants[UP.id].bytes_per_s > 0


def test_moving_that_helps_goes_on() -> None:
    memory, hot = Memory(), 450 * MIB
    for _ in range(20):
        moved = {UP.id: int(RATE), DOWN.id: int(RATE)}
        seen = reading(hot=hot, free=200 * MIB, moved=moved)
        memory, decision = demand.decide(memory, seen, LIMITS)
        assert decision.wants[UP.id].bytes_per_s > 0
        hot -= int(RATE)


READINGS = st.builds(
    reading,
    hot=st.integers(0, 2 * N),
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
            assert 0 <= want.bytes_per_s <= way.rate_max_bytes_per_s
            assert 0 <= want.quota_bytes <= way.quota_bytes_max
            assert want.reason
        assert decision.headroom_bytes[0] <= MARK + N * 0.05 + N * 0.005
        if one.nodes[0].free_bytes <= MARK:
            assert decision.wants[UP.id].bytes_per_s == 0
        if one.stalls:
            assert decision.wants[UP.id].bytes_per_s == 0
        assert 0 <= memory.nodes[0].hold_off_s <= demand.HOLD_OFF_S_MAX
