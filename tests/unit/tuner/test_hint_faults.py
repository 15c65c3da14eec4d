"""What hint faults may promote, and the room that is made for them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.pages import PAGE_BYTES
from tests.fixtures.readings import DOWN, HEADROOM, LIMITS, MARK, MIB, N, decide, reading
from tierd.plans.knobs import RATE_UNIT_BYTES
from tierd.plans.plan import HintFaults
from tierd.tuner import demand
from tierd.tuner.demand import ControllerState, Decision
from tierd.tuner.demotion import AHEAD_SHARE_MAX
from tierd.tuner.gate import AHEAD_S
from tierd.tuner.hint_faults import (
    CHECK_S,
    CHECK_SHARE,
    ROOM_S,
    STEP_SHARE,
    Hinted,
    next_units,
)
from tierd.tuner.measurement import Measurement
from tierd.tuner.node_state import ALLOCATION_S
from tierd.tuner.round import HUGE_ROOM_PAGES, Want

HINTED = HintFaults("hint-faults-0", 0, (1,), 100e6, "")
LIMITED = replace(LIMITS, migrations=(DOWN,), hint_faults=(HINTED,))
FREE = MARK + 20 * MIB


def seen(
    *,
    came: int = 0,
    asked: int = 0,
    free: int = FREE,
    below: int = 0,
    above: int = 0,
    huge: int = 0,
    stalls: int = 0,
) -> Measurement:
    read = reading(hot=below, above=above, free=free, huge=huge, stalls=stalls)
    fast = replace(read.nodes[0], hinted_bytes=came, hint_asked_bytes=asked)
    return replace(read, nodes={**read.nodes, 0: fast})


def after(*readings: Measurement) -> tuple[ControllerState, Decision]:
    state, decision = ControllerState(), Decision({}, {})
    for one in readings:
        state, decision = demand.decide(state, one, LIMITED)
    return state, decision


def limit(decision: Decision) -> Want:
    return decision.wants[HINTED.id]


def test_they_may_use_the_free_memory_above_the_mark() -> None:
    _, decision = after(seen())
    assert limit(decision).bytes_per_s == pytest.approx(20 * MIB / ROOM_S)
    assert "as there is room on node 0" in limit(decision).reason


def test_they_may_use_no_more_than_the_rate() -> None:
    _, decision = after(seen(free=N))
    assert limit(decision).bytes_per_s == HINTED.rate_max_bytes_per_s


@pytest.mark.parametrize("free", [0, MARK])
def test_without_room_nothing_comes_up(free: int) -> None:
    """The kernel would wake reclaim, which sends down what it finds first."""
    _, decision = after(seen(free=free))
    assert limit(decision).bytes_per_s == 0
    assert limit(decision).reason.startswith("waits: ")


def test_a_huge_page_needs_room_of_its_size() -> None:
    room = HUGE_ROOM_PAGES * 2 * MIB
    _, decision = after(seen(free=MARK + room, huge=N))
    assert limit(decision).bytes_per_s == 0


def test_nothing_comes_up_while_allocations_wait() -> None:
    _, decision = after(seen(free=MARK + MIB, stalls=3))
    assert limit(decision).bytes_per_s == 0
    assert limit(decision).reason.startswith("parked: 3 allocations had to wait")


def test_room_is_made_for_what_they_ask_for() -> None:
    quiet, asks = seen(free=HEADROOM), seen(free=HEADROOM, asked=10 * MIB)
    assert after(quiet)[1].wants[DOWN.id].bytes_per_s == 0
    state, decision = after(*[asks] * 20)
    known = state.nodes[0].hinted
    assert known.asks_bytes_per_s == pytest.approx(10 * MIB, rel=0.05)
    wanted = AHEAD_S * known.asks_bytes_per_s
    assert decision.wants[DOWN.id].bytes_per_s == pytest.approx(min(20e6, wanted), rel=0.1)


def test_the_room_is_a_small_share_of_the_node() -> None:
    state, decision = after(*[seen(free=HEADROOM, asked=400 * MIB)] * 20)
    assert state.nodes[0].hinted.asks_bytes_per_s > AHEAD_SHARE_MAX * N
    assert decision.wants[DOWN.id].bytes_max <= 2.001 * AHEAD_SHARE_MAX * N


def test_what_comes_up_is_no_allocation_of_a_program() -> None:
    """Else the headroom would grow by what is promoted."""
    calm, comes = [seen(free=HEADROOM)], []
    for tick in range(10):
        calm.append(seen(free=HEADROOM))
        comes.append(seen(free=HEADROOM - tick * MIB, came=MIB if tick else 0))
    headroom = [after(*listed)[1].headroom_bytes[0] for listed in (calm, comes)]
    assert abs(headroom[0] - headroom[1]) <= ALLOCATION_S * PAGE_BYTES


def checked(*below_mib: int, came: int = 8 * MIB) -> list[Hinted]:
    """Return what is known after each check, in each of which the heat below is so much."""
    states = []
    state = ControllerState()
    for below in below_mib:
        for _ in range(int(CHECK_S)):
            one = seen(came=came, asked=came, below=below * MIB, above=300 * MIB)
            state, _ = demand.decide(state, one, LIMITED)
        states.append(state.nodes[0].hinted)
    return states


def test_what_comes_up_helps_while_the_heat_below_falls() -> None:
    falls = [one.in_vain for one in checked(200, 150, 100, 100)]
    assert falls == [True, False, False, True]


def test_it_is_not_judged_while_little_comes_up() -> None:
    little = int(CHECK_SHARE * N / CHECK_S / 2)
    assert not any(one.in_vain for one in checked(200, 200, 200, came=little))


def test_new_heat_below_ends_a_time_in_vain() -> None:
    states = checked(100, 100, 200)
    assert [one.in_vain for one in states[:2]] == [True, True]
    assert not states[2].in_vain or states[2].least_heat > states[1].least_heat


def test_what_comes_up_in_vain_gets_no_room_beyond_what_it_takes() -> None:
    asks = replace(Hinted(), came_bytes_per_s=1e6, asks_bytes_per_s=9e6, in_vain=True)
    state, _ = after(seen(free=HEADROOM))
    node = replace(state.nodes[0], hinted=asks)
    _, decision = demand.again(replace(state, nodes={0: node}), seen(free=HEADROOM), LIMITED)
    assert decision.wants[DOWN.id].bytes_per_s <= AHEAD_S * 1e6
    assert "did not cool" in limit(decision).reason


def test_without_hint_faults_in_the_plan_nothing_is_said_of_them() -> None:
    decision = decide(seen(came=MIB, asked=MIB))
    assert HINTED.id not in decision.wants


def wants(*mib: float) -> list[Want]:
    return [Want(one * RATE_UNIT_BYTES, "") for one in mib]


@pytest.mark.parametrize(
    ("in_force", "now", "written"),
    [
        (None, [0.5], 0),
        (None, [7], 7),
        (0, [0.9], None),
        (0, [1], 1),
        (1, [0], 0),
        (100, [100 * (1 + STEP_SHARE)], None),
        (100, [200], 200),
        (100, [20], 20),
        (8, [0, 20], 20),
        (8, [], None),
    ],
)
def test_the_limit_is_written_if_it_changes_by_much(
    in_force: int | None, now: list[float], written: int | None
) -> None:
    assert next_units(in_force, wants(*now)) == written


@given(
    st.integers(0, N),
    st.integers(0, N),
    st.integers(0, N),
    st.integers(0, N),
    st.integers(0, 5),
)
def test_no_limit_is_more_than_the_rate_or_the_room(
    free: int, came: int, asked: int, below: int, stalls: int
) -> None:
    one = seen(free=free, came=came, asked=asked, below=below, stalls=stalls)
    state, decision = after(one, one, one)
    rate = limit(decision).bytes_per_s
    assert 0 <= rate <= min(HINTED.rate_max_bytes_per_s, max(0, free - MARK) / ROOM_S)
    known = state.nodes[0].hinted
    assert known.asks_bytes_per_s >= known.came_bytes_per_s >= 0
