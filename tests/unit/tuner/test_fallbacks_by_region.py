"""Two sockets, by regions: what goes to the other one, because the nearest node has no room."""

from dataclasses import replace

import pytest

from tests.fixtures.readings import HEADROOM, MARK, MIB, RATE, N, migration
from tests.fixtures.sockets import AHEAD, LIMITS, OUTS, UPS, after, decide, rate, reading
from tierd.plans.plan import Direction
from tierd.tuner import demand, evictions, fallbacks
from tierd.tuner.demand import ControllerState
from tierd.tuner.fallbacks import REFUSED_S
from tierd.tuner.habit import CREDIT_S
from tierd.tuner.measurement import Measurement, SchemeMeasurement
from tierd.tuner.round import Want, fast_nodes

# Demotion by regions.


def test_cold_memory_goes_to_the_nearest_node_while_that_has_room() -> None:
    decision = decide(reading(free={0: HEADROOM - 8 * MIB}))
    assert rate(decision, "demote-0-2") == 8 * MIB
    want = decision.wants["demote-0-3"]
    assert (want.bytes_per_s, want.quota_bytes) == (0, 0)
    assert "nearer nodes have no room" in want.reason


def test_what_the_nearest_node_has_no_room_for_goes_to_the_other_one() -> None:
    seen = reading(free={0: HEADROOM - 8 * MIB, 2: MARK + 3 * MIB})
    decision = decide(seen)
    assert rate(decision, "demote-0-2") == 3 * MIB
    assert rate(decision, "demote-0-3") == 5 * MIB
    full = decide(reading(free={0: HEADROOM - 8 * MIB, 2: MARK}))
    assert rate(full, "demote-0-2") == full.wants["demote-0-2"].quota_bytes == 0
    assert "no room" in full.wants["demote-0-2"].reason
    assert rate(full, "demote-0-3") == 8 * MIB


def test_both_together_keep_to_the_rate() -> None:
    seen = reading(free={0: 0, 2: MARK + 3 * MIB})
    decision = decide(seen)
    assert rate(decision, "demote-0-2") == 3 * MIB
    assert rate(decision, "demote-0-3") == pytest.approx(RATE - 3 * MIB)
    # The whole rate is there for the fallback if nothing goes to the nearest one.
    assert rate(decide(reading(free={0: 0, 2: MARK})), "demote-0-3") == RATE


def test_what_moved_too_much_to_a_fallback_is_paid_back_by_both() -> None:
    over = reading(
        free={0: 0, 2: MARK + 3 * MIB}, moved={"demote-0-3": int(1.5 * RATE), "promote-2-0": MIB}
    )
    decision = decide(over)
    together = rate(decision, "demote-0-2") + rate(decision, "demote-0-3")
    assert together == pytest.approx(0.5 * RATE)
    # With room below, the nearest one has to pay too.
    roomy = decide(reading(free={0: 0}, moved={"demote-0-3": int(1.5 * RATE)}))
    assert rate(roomy, "demote-0-2") == pytest.approx(0.5 * RATE)


def test_a_fallback_leaves_the_room_that_its_own_socket_needs() -> None:
    room = {0: HEADROOM - 8 * MIB, 2: MARK}
    assert rate(decide(reading(free={**room, 3: MARK + AHEAD})), "demote-0-3") == 0
    little = decide(reading(free={**room, 3: MARK + AHEAD + 2 * MIB}))
    assert rate(little, "demote-0-3") == pytest.approx(2 * MIB, rel=0.01)
    # The node to which it is the nearest may use all of it.
    mine = decide(reading(free={1: HEADROOM - 8 * MIB, 3: MARK + AHEAD}))
    assert rate(mine, "demote-1-3") == 8 * MIB


def test_equally_near_nodes_that_are_full_leave_their_part_to_the_others() -> None:
    twins = tuple(
        replace(migration(Direction.demote, 0, node), rate_max_bytes_per_s=RATE / 2)
        for node in (2, 3)
    )
    limits = replace(LIMITS, migrations=(*UPS[:1], *twins, *OUTS))
    seen = reading(free={0: HEADROOM - 8 * MIB, 2: MARK + 1 * MIB})
    wants = demand.decide(ControllerState(), seen, limits)[1].wants
    assert wants["demote-0-2"].bytes_per_s == MIB
    assert wants["demote-0-3"].bytes_per_s == 7 * MIB


def test_nothing_is_evicted_for_what_fits_on_another_slow_node() -> None:
    kept = MARK + AHEAD
    for other, evicts in ((N, False), (kept, True)):
        decision = decide(reading(free={2: MARK + MIB, 3: other}))
        assert (rate(decision, "evict-2") > 0) is evicts
    # Below the mark the kernel would reclaim.
    assert rate(decide(reading(free={2: MARK - 4 * MIB})), "evict-2") == 4 * MIB
    alone = tuple(one for one in LIMITS.migrations if not one.fallback)
    seen = reading(free={2: MARK + MIB})
    wants = demand.decide(ControllerState(), seen, replace(LIMITS, migrations=alone))[1].wants
    assert wants["evict-2"].bytes_per_s > 0


def test_a_slow_node_keeps_room_for_the_node_that_it_is_nearest_to() -> None:
    assert decide(reading()).headroom_bytes[3] == MARK + AHEAD


def test_with_swap_nothing_is_taken_that_would_have_to_be_swapped_out() -> None:
    """What eviction keeps free on the other slow node is kept once."""
    state = demand.decide(ControllerState(), reading(), LIMITS)[0]
    node = next(fast_nodes(reading(), LIMITS, state.habits, state.heats, 0.0, {}))
    kept = {3: MARK + 2 * AHEAD}
    assert evictions.fits_bytes(node)[3] == pytest.approx(N - MARK - AHEAD, abs=1)
    assert evictions.fits_bytes(node, kept)[3] == N - MARK - 2 * AHEAD


# Promotion by regions.


def hot_pair() -> Measurement:
    """Node 0 is full of hot memory, more of it waits on node 2, and node 1 has room."""
    return reading(hot={2: 96 * MIB}, cold={0: 0}, free={1: HEADROOM + 40 * MIB})


def test_heat_comes_up_to_the_other_socket_when_the_nearest_node_takes_nothing() -> None:
    short, long = (after(hot_pair(), times) for times in (3, int(REFUSED_S) + 2))
    assert rate(short, "promote-2-1") == 0
    assert "nearer nodes" in short.wants["promote-2-1"].reason
    assert rate(long, "promote-2-1") == pytest.approx(RATE, rel=CREDIT_S)
    assert "96 MiB hot on node 2" in long.wants["promote-2-1"].reason
    assert rate(long, "promote-2-0") == 0


def test_a_nearest_node_that_takes_something_is_not_full() -> None:
    seen = hot_pair()
    scheme = SchemeMeasurement(int(RATE / 4), int(RATE / 4), 1024, 0.1)
    seen = replace(seen, schemes={**seen.schemes, "promote-2-0": scheme})
    assert rate(after(seen, 12), "promote-2-1") == 0


def test_a_node_without_room_takes_nothing_from_the_other_socket() -> None:
    seen = hot_pair()
    full = replace(seen.nodes[1], free_bytes=MARK, cold_bytes=MARK)
    seen = replace(seen, nodes={**seen.nodes, 1: full})
    assert rate(after(seen, 12), "promote-2-1") == 0


def test_a_busy_node_counts_as_full() -> None:
    seen = hot_pair()
    busy = replace(seen.nodes[0], bandwidth_used=1.0, free_bytes=N // 2)
    seen = replace(seen, nodes={**seen.nodes, 0: busy})
    assert rate(after(seen, 12), "promote-2-1") == pytest.approx(RATE, rel=CREDIT_S)


def test_what_waits_near_comes_before_what_waits_far_away() -> None:
    """Room on node 1 is for node 3 first."""
    seen = reading(
        hot={2: 96 * MIB, 3: 96 * MIB}, cold={0: 0, 1: 0}, free={1: HEADROOM + int(RATE / 4)}
    )
    decision = after(seen, 12)
    assert rate(decision, "promote-3-1") == pytest.approx(RATE / 2, rel=0.01)
    assert rate(decision, "promote-2-1") == 0
    assert rate(decision, "promote-2-1") + rate(decision, "promote-2-0") <= RATE


def test_up_to_two_nodes_at_once_the_rate_is_kept() -> None:
    seen = hot_pair()
    state = ControllerState()
    for _ in range(12):
        state, decision = demand.decide(state, seen, LIMITS)
    some = SchemeMeasurement(int(RATE / 20), int(RATE / 20), 1024, 0.1)
    seen = replace(seen, schemes={**seen.schemes, "promote-2-0": some})
    _, decision = demand.decide(state, seen, LIMITS)
    before = rate(after(hot_pair(), 12), "promote-2-1")
    assert rate(decision, "promote-2-1") == pytest.approx(before - RATE / 20)


def test_heat_that_waits_elsewhere_says_nothing_of_a_node_that_does_not_take_it() -> None:
    """Neither the check for benefit nor the limit for little heat counts it."""
    seen = reading(hot={2: 96 * MIB})
    state = demand.decide(ControllerState(), seen, LIMITS)[0]
    assert state.nodes[1].is_idle
    assert not state.nodes[0].is_idle
    assert state.nodes[1].check.first.readings.last == 0


def test_a_node_is_judged_by_the_nodes_that_it_is_nearest_to() -> None:
    assert {one.id for one in fallbacks.judging(LIMITS.migrations)} == {
        "promote-2-0",
        "promote-3-1",
    }
    # With slow memory on one socket only, the other one is nearest to nothing.
    assert [one.id for one in fallbacks.judging(UPS[:1] + UPS[3:])] == [
        "promote-2-0",
        "promote-2-1",
    ]


def test_a_want_is_there_for_every_scheme() -> None:
    wants = decide(reading()).wants
    assert set(wants) == {one.id for one in LIMITS.migrations}
    assert all(isinstance(one, Want) for one in wants.values())
