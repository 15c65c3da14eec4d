"""A round that uses the room that is left after a round in vain. Nothing goes down for it."""

from dataclasses import replace

from tests.unit.tuner.test_climb import (
    IDLE_S,
    JUDGED,
    MIB,
    ROOM,
    ROUND,
    USED,
    taking,
    visited,
)
from tierd.plans.plan import Visit
from tierd.tuner import climbing
from tierd.tuner.climb import IDLE_PER_LAG, Stage
from tierd.tuner.gate import CLOSED, OPEN
from tierd.tuner.lag import GROWTH
from tierd.tuner.touches import Calm, Touches


def test_after_a_round_in_vain_the_room_that_is_left_is_used_and_none_is_made() -> None:
    last = replace(taking(), heat=JUDGED, stage=Stage.drains, cleared_bytes=ROUND)
    seen = visited(behind=0, heat=100.0)
    fills, gates = climbing.step(last, seen, ROOM, IDLE_S)
    assert fills.in_vain
    assert fills.fills
    assert not fills.wants_room
    assert fills.stage is Stage.clears
    assert fills.rounds == last.rounds
    assert gates[Visit.clear] == OPEN
    full, gates = climbing.step(replace(fills, stage=Stage.takes), visited(), USED, IDLE_S)
    assert full.stage is Stage.drains
    assert gates[Visit.clear] == CLOSED
    after, _ = climbing.step(replace(full, stage_ends_s=0.0), seen, USED, IDLE_S)
    assert after.stage is Stage.rests
    assert after.stage_ends_s == fills.rest_s > 0
    assert not after.fills
    assert after.rounds == last.rounds + 1
    # A round that only uses what is left says nothing about the next one.
    assert after.touches.least_hz == fills.touches.least_hz
    assert after.expects_bytes == fills.expects_bytes
    nothing, _ = climbing.step(last, seen, USED, IDLE_S)
    assert nothing.stage is Stage.rests


def test_for_a_round_that_uses_the_room_that_is_left_the_idle_time_says_nothing() -> None:
    """Nothing goes down for it, so pages that are touched seldom may come up too."""
    lap = taking(lap_s=10.0, lag_s=IDLE_S / IDLE_PER_LAG)
    usual, _ = climbing.step(lap, visited(), ROOM, IDLE_S)
    assert usual.lag_s == IDLE_S / IDLE_PER_LAG
    fills, _ = climbing.step(replace(lap, fills=True), visited(), ROOM, IDLE_S)
    assert fills.lag_s == GROWTH * IDLE_S / IDLE_PER_LAG


def test_what_comes_up_in_a_round_that_uses_the_room_that_is_left_is_no_rise() -> None:
    """Its lag becomes much longer at once, so much more comes up of the same heat."""
    calm = Touches(calm=Calm(MIB, 0.1))
    much = replace(visited(ROUND / 4), moved_bytes={Visit.promote: ROUND // 8})
    for fills, rounds in ((False, 0), (True, 3)):
        now = taking(fills=fills, rounds_since_rise=3, touches=calm)
        after, _ = climbing.step(now, much, ROOM, IDLE_S)
        assert after.rounds_since_rise == rounds
