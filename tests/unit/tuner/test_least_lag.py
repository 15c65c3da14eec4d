"""The lag begins with some windows. It is shorter where pages are touched so often that all look
young."""

from dataclasses import replace
from math import inf

import pytest

from tests.fixtures.readings import SWEEP
from tierd.plans.plan import Visit
from tierd.tuner import climb_words, climbing
from tierd.tuner.climb import MANY_YOUNG, Climb, Stage
from tierd.tuner.climb_heat import ClimbHeat
from tierd.tuner.gate import Room, Seen
from tierd.tuner.lag import GROWTH

MIB = 1 << 20
IDLE_S = 8.0
FIRST_S = 0.02
SEEN = Seen(
    seconds=0.5,
    window_s=FIRST_S / 4,
    first_lag_s=FIRST_S,
    round_bytes=1000 * MIB,
    bytes_per_s=100 * MIB,
    behind_bytes=2 * MIB,
)
ROOM = Room(0, total_bytes=500 * MIB, free_bytes=60 * MIB, floor_bytes=30 * MIB, headroom_bytes=0)
FULL = replace(ROOM, free_bytes=ROOM.floor_bytes)
ROUNDS = Climb(
    stage=Stage.takes,
    yield_share=2 * MANY_YOUNG,
    rounds_since_rise=3,
    vain_rounds=1,
    heat=ClimbHeat(100.0),
)


def test_the_first_lag_is_longer_than_a_window() -> None:
    assert Climb().wants_lag_s(SEEN) == FIRST_S
    _, gates = climbing.step(Climb(), replace(SEEN, behind_bytes=0), ROOM, IDLE_S)
    assert gates[Visit.promote].after_s == pytest.approx(FIRST_S + SEEN.window_s)
    assert Climb().wants_lag_s(replace(SEEN, window_s=0.1)) == 0.1


def test_where_many_look_young_and_there_is_no_room_the_lag_is_halved_to_a_window() -> None:
    """What the rounds before found says nothing then."""
    now = ROUNDS
    for times in (2, 4):
        now, _ = climbing.step(replace(now, stage=Stage.takes), SEEN, FULL, IDLE_S)
        assert now.wants_lag_s(SEEN) == now.least_lag_s(SEEN) == pytest.approx(FIRST_S / times)
        assert (now.rounds_since_rise, now.vain_rounds) == (0, 0)
        now = replace(now, rounds_since_rise=2)
    after, _ = climbing.step(replace(now, stage=Stage.takes), SEEN, FULL, IDLE_S)
    assert after.wants_lag_s(SEEN) == SEEN.window_s
    assert after.rounds_since_rise == 2, "it can not be shorter, so the rounds count"


@pytest.mark.parametrize(
    ("changes", "room"),
    [({"yield_share": 0.9 * MANY_YOUNG}, FULL), ({}, ROOM), ({"lag_s": 2 * FIRST_S}, FULL)],
    ids=["few look young", "there is room", "the lag was longer"],
)
def test_else_the_first_lag_is_the_least(changes: dict[str, float], room: Room) -> None:
    before = replace(ROUNDS, **changes)  # type: ignore[arg-type]
    after, _ = climbing.step(before, SEEN, room, IDLE_S)
    assert after.least_s == inf
    assert after.least_lag_s(SEEN) == FIRST_S
    if room is FULL:
        assert after.wants_lag_s(SEEN) == FIRST_S
    assert after.rounds_since_rise == 3


def test_the_first_lag_grows_after_a_lap() -> None:
    """The sweep that promotes waits only for what the lag is longer by."""
    after, gates = climbing.step(replace(ROUNDS, lap_s=10.0), SEEN, ROOM, IDLE_S)
    assert after.lag_s == pytest.approx(GROWTH * FIRST_S)
    assert after.stage is Stage.clears
    assert gates[Visit.promote].after_s == pytest.approx((GROWTH - 1) * FIRST_S)


def test_after_a_hold_sweeps_that_are_the_first_lag_apart_go_on_at_once() -> None:
    assert pytest.approx(FIRST_S) == SEEN.behind_bytes / SEEN.bytes_per_s
    after, gates = climbing.step(replace(ROUNDS, stage=Stage.holds), SEEN, ROOM, IDLE_S)
    assert after.stage is Stage.takes
    assert gates[Visit.clear] == gates[Visit.promote]
    assert gates[Visit.clear].is_open


def test_a_shorter_lag_grows_from_where_it_is() -> None:
    short_s = SEEN.window_s
    before = replace(ROUNDS, least_s=short_s, lag_s=short_s, lap_s=10.0)
    after, _ = climbing.step(before, replace(SEEN, behind_bytes=MIB), ROOM, IDLE_S)
    assert after.lag_s == pytest.approx(GROWTH * short_s)


def test_the_lag_that_is_wanted_is_told() -> None:
    sweep = replace(SWEEP, visit=Visit.promote, window_us=5_000, first_lag_us=20_000)
    for now, told in (
        (ROUNDS, "within 20 ms"),
        (replace(ROUNDS, least_s=0.01, lag_s=0.01), "within 10 ms"),
        (replace(ROUNDS, least_s=0.001), "within 5 ms"),
        (replace(ROUNDS, lag_s=0.1), "within 100 ms"),
    ):
        assert told in climb_words.reason(now, sweep, ROOM)


def test_other_programs_begin_with_the_first_lag_again() -> None:
    calm = ClimbHeat(100.0, least=100.0, calm=100.0)
    before = replace(ROUNDS, stage=Stage.rests, least_s=SEEN.window_s, heat=calm)
    after, _ = climbing.step(before, replace(SEEN, heat=1000.0), FULL, IDLE_S)
    assert after.rounds_since_rise == 0
    assert after.least_s == inf
