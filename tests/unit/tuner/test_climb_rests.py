"""After rounds that did not help, a climb rests until what they moved is paid for."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.unit.tuner.test_climb import (
    IDLE_S,
    JUDGED,
    MIB,
    ROOM,
    ROUND,
    SEEN,
    USED,
    came,
    ended,
    taking,
    visited,
)
from tierd.tuner import climbing
from tierd.tuner.climb import LASTED_TIMES, REST_S_MIN, Climb, Stage
from tierd.tuner.climb_heat import HEAT_S
from tierd.tuner.gain import REST_S_MAX


def rests(count: int) -> Iterator[Climb]:
    """Yield a climb after each of some rounds that change nothing."""
    now = replace(taking(), heat=JUDGED)
    for _ in range(count):
        now = ended(now, heat=100.0)
        yield now


def test_the_rest_doubles_while_rounds_do_not_help() -> None:
    found = [one.rest_s for one in rests(10)]
    assert found[:4] == [REST_S_MIN, 2 * REST_S_MIN, 4 * REST_S_MIN, 8 * REST_S_MIN]
    assert found[-1] == REST_S_MAX


def in_vain(moved_mib: int, vain_rounds: int = 1, lasted_s: float = 1000.0) -> Climb:
    """Return a climb after a round that brought so much up and did not help."""
    before = taking(heat=JUDGED, touches=came(moved_mib * MIB), vain_rounds=vain_rounds)
    before = replace(before, lasted_s=lasted_s)
    return ended(before, heat=100)


def test_from_the_second_round_in_vain_on_the_rest_pays_for_what_moved() -> None:
    """One percent of the fast node a minute: 5 MiB up and 5 down are two minutes of it."""
    assert in_vain(5, vain_rounds=0).stage_ends_s == REST_S_MIN
    assert in_vain(5).stage_ends_s == pytest.approx(120)
    assert in_vain(10).stage_ends_s == pytest.approx(240)
    assert in_vain(400).stage_ends_s == REST_S_MAX
    assert in_vain(5).rest_s == REST_S_MIN


def test_soon_after_heat_has_risen_a_wrong_verdict_costs_little() -> None:
    soon = in_vain(400, lasted_s=30.0)
    assert soon.stage_ends_s == pytest.approx(LASTED_TIMES * (30 + SEEN.seconds))


def test_heat_that_rises_ends_what_is_paid() -> None:
    calm = in_vain(400)
    after, _ = climbing.step(calm, replace(SEEN, seconds=HEAT_S, heat=1000.0), USED, IDLE_S)
    assert not after.in_vain
    assert after.vain_rounds == 0
    assert after.lasted_s == pytest.approx(HEAT_S)
    assert after.stage is Stage.clears


def test_nothing_is_paid_for_free_room() -> None:
    """Where memory has become free, nothing goes down for what comes up."""
    paid = replace(in_vain(400), stage_s=REST_S_MIN)
    roomy = replace(ROOM, free_bytes=400 * MIB)
    later, _ = climbing.step(paid, visited(heat=100.0), USED, IDLE_S)
    assert later.stage is Stage.rests
    begun, _ = climbing.step(paid, visited(heat=100.0), roomy, IDLE_S)
    assert begun.stage in (Stage.clears, Stage.takes)


def test_a_round_that_uses_the_room_that_is_left_is_paid_for_too() -> None:
    fills = replace(in_vain(5), stage=Stage.drains, stage_ends_s=0.0, fills=True)
    fills = replace(fills, touches=came(5 * MIB))
    after, _ = climbing.step(fills, visited(behind=0, heat=100.0), USED, IDLE_S)
    assert after.stage is Stage.rests
    assert after.stage_ends_s == pytest.approx(240)


def test_a_round_that_uses_the_room_that_is_left_does_not_wait_for_more() -> None:
    """Nothing goes down for it, so no wait would end. It may have visited a small part only."""
    waits = replace(in_vain(5), stage=Stage.waits, fills=True, cleared_bytes=ROUND // 10)
    after, _ = climbing.step(waits, visited(), USED, IDLE_S)
    assert after.stage is Stage.rests
    assert not after.fills
    held = replace(USED, stopped="tasks wait for memory")
    assert climbing.step(waits, visited(), held, IDLE_S)[0].stage is Stage.waits


def test_where_rounds_take_long_the_check_for_gain_says_how_long_to_rest() -> None:
    last = taking(heat=JUDGED, touches=came(5 * MIB), vain_rounds=1, stage=Stage.drains)
    seen = replace(visited(behind=0, heat=100.0), is_long=True)
    after, _ = climbing.step(replace(last, cleared_bytes=ROUND), seen, USED, IDLE_S)
    assert after.vain_rounds == 1
    assert after.rest_s > 0
