"""A round is worth it if far more is idle above than chance explains."""

from dataclasses import replace
from math import exp, expm1, inf

import pytest

from tests.unit.tuner.test_climb import (
    IDLE_S,
    JUDGED,
    MIB,
    ROUND,
    SEEN,
    USED,
    taking,
    visited,
)
from tierd.tuner import climbing, touches
from tierd.tuner.climb import Climb, Stage
from tierd.tuner.touches import Touches
from tierd.tuner.trade import WORTH_SHARE, Trade

# Pages of the store are touched as often as in any round before.
HZ, LAG_S = 1.0, 0.3


def found(idle_share: float, idle_s: float) -> Trade:
    return Trade(100 * MIB, int(idle_share * 100 * MIB), idle_s)


@pytest.mark.parametrize("hz", [0.01, 0.3, 1.0, 30.0])
@pytest.mark.parametrize("idle_s", [0.2, 1.0, 8.0])
def test_an_exchange_of_pages_that_are_used_alike_is_not_worth_it(hz: float, idle_s: float) -> None:
    by_chance = exp(-hz * idle_s)
    assert not found(by_chance, idle_s).is_worth_it(hz)
    assert not found(by_chance + WORTH_SHARE - 0.01, idle_s).is_worth_it(hz)


def test_memory_that_nobody_uses_is_worth_it_where_pages_below_are_used() -> None:
    """At once touches a second hardly a page would be idle for eight seconds."""
    assert found(0.8, 8.0).is_worth_it(1.0)
    assert not found(0.8, 8.0).is_worth_it(0.01)
    assert found(0.8, 200.0).is_worth_it(0.01)


def test_nothing_is_said_where_nothing_was_visited() -> None:
    assert Trade().plus(Trade(0, 0, 8.0)) == Trade()
    assert not Trade().is_worth_it(1.0)
    assert Trade().idle_s == inf


def test_the_shortest_idle_time_counts() -> None:
    both = found(0.8, 8.0).plus(found(0.8, 1.0))
    assert both == Trade(200 * MIB, 160 * MIB, 1.0)
    assert both.plus(Trade(0, 0, 0.1)).idle_s == 1.0


def round_ends(idle_share: float) -> Climb:
    """Return a climb after a round in which pages were touched as often as in the one before."""
    touched = touches.add(Touches(least_hz=1.0), ROUND, int(ROUND * -expm1(-HZ * LAG_S)), LAG_S)
    last = taking(stage=Stage.drains, heat=JUDGED, cleared_bytes=ROUND, touches=touched)
    seen = replace(
        visited(behind=0, heat=100.0),
        trade=found(idle_share, IDLE_S),
    )
    return climbing.step(last, seen, USED, IDLE_S)[0]


def test_a_round_helps_if_idle_memory_made_room_for_it() -> None:
    helped = round_ends(0.8)
    assert not helped.in_vain
    assert helped.vain_rounds == 0
    assert round_ends(0.1).in_vain


def test_each_round_has_a_trade_of_its_own() -> None:
    begun, _ = climbing.step(round_ends(0.8), SEEN, replace(USED, headroom_bytes=0), IDLE_S)
    assert begun.stage in (Stage.clears, Stage.takes)
    assert begun.trade == Trade()


def test_a_round_whose_pages_were_replaced_from_below_is_not_in_vain() -> None:
    """The node is as hot as before, because hot pages from below have come to it meanwhile."""

    def after(joined_bytes: int) -> Climb:
        touched = touches.add(Touches(least_hz=1e-6), ROUND, 20 * MIB, LAG_S)
        last = taking(stage=Stage.drains, heat=JUDGED, cleared_bytes=ROUND, touches=touched)
        seen = replace(visited(behind=0, heat=100.0), joined_bytes=joined_bytes)
        return climbing.step(replace(last, joined_bytes=10 * MIB), seen, USED, IDLE_S)[0]

    assert after(0).in_vain
    assert after(9 * MIB).in_vain
    assert not after(10 * MIB).in_vain
    assert after(0).joined_bytes == 10 * MIB
    begun, _ = climbing.step(after(10 * MIB), SEEN, replace(USED, headroom_bytes=0), IDLE_S)
    assert begun.stage is not Stage.rests
    assert begun.joined_bytes == 0
