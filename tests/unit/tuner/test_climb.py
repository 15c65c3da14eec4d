"""A climb clears pages, visits them a lag later, waits for room, and comes to rest."""

from dataclasses import replace
from math import inf, log

import pytest

from tierd.plans.plan import Visit
from tierd.tuner import climbing
from tierd.tuner.climb import (
    AHEAD_SHARE_MIN,
    APART,
    APART_ROUNDS_MAX,
    IDLE_PER_LAG,
    NEXT_ROUND,
    RESUME_SHARE,
    Climb,
    Stage,
)
from tierd.tuner.climb_heat import ClimbHeat
from tierd.tuner.climbing import (
    CHECKED_ROUND_S,
    LAP_LAGS,
    LAP_S,
    LEFT_WINDOWS,
    TELLS_SHARE,
)
from tierd.tuner.descent import IDLE_S_MAX
from tierd.tuner.distance import FAR, SHORT_WINDOWS
from tierd.tuner.gain import PIECE_S_MIN, Gain
from tierd.tuner.gate import CLOSED, OPEN, Gate, Room, Seen
from tierd.tuner.lag import GROWTH
from tierd.tuner.series import Series
from tierd.tuner.touches import Touches

MIB = 1 << 20
ROUND = 1000 * MIB
SPEED = 100 * MIB
IDLE_S = 8.0
CHECKED = int(CHECKED_ROUND_S * SPEED)  # A round of so much is checked in its middle.
SEEN = Seen(seconds=0.5, window_s=0.1, round_bytes=ROUND, bytes_per_s=SPEED)
ROOM = Room(0, total_bytes=500 * MIB, free_bytes=60 * MIB, floor_bytes=30 * MIB, headroom_bytes=0)
FULL = replace(ROOM, free_bytes=ROOM.floor_bytes)
# Nothing is free beyond the headroom.
USED = replace(ROOM, headroom_bytes=ROOM.free_bytes)


def visited(cleared: float = 0, behind: float = 10 * MIB, moved: int = 0, heat: float = 0) -> Seen:
    return replace(
        SEEN,
        behind_bytes=behind,
        heat=heat,
        visited_bytes={Visit.clear: int(cleared), Visit.promote: int(cleared)},
        moved_bytes={Visit.promote: moved},
    )


# Heat that a round was judged by.
JUDGED = ClimbHeat(100.0, least=100.0)


def taking(**changes: object) -> Climb:
    """Return a climb in the middle of a round."""
    base = Climb(lag_s=0.1, stage=Stage.takes, yield_share=0.02, heat=ClimbHeat(100.0))
    return replace(base, **changes)  # type: ignore[arg-type]


def came(came_bytes: int) -> Touches:
    """Return what is known of a round in which so much came up."""
    return Touches(came_bytes=came_bytes)


def ended(before: Climb, heat: float) -> Climb:
    """Return a climb after it has ended a round with this heat."""
    felt = replace(before.heat, lately=heat)
    last = replace(before, stage=Stage.drains, stage_ends_s=0.0, heat=felt, cleared_bytes=ROUND)
    after, _ = climbing.step(last, visited(heat=heat), USED, IDLE_S)
    assert after.stage is Stage.rests
    assert after.rounds == before.rounds + 1
    return after


def closes(gate: Gate, after_s: float) -> None:
    """Check that a sweep is open, and closes after so many seconds."""
    assert gate.is_open
    assert not gate.then_open
    assert gate.after_s == pytest.approx(after_s)


def test_a_round_begins_with_clearing_and_promotes_a_lag_later() -> None:
    after, gates = climbing.step(Climb(lag_s=0.3), replace(SEEN, behind_bytes=0), ROOM, IDLE_S)
    assert after.stage is Stage.clears
    assert gates[Visit.clear] == OPEN
    assert not gates[Visit.promote].is_open
    assert gates[Visit.promote].then_open
    assert gates[Visit.promote].after_s == pytest.approx(0.3 + SEEN.window_s)


def test_the_lag_is_a_window_at_least() -> None:
    _, gates = climbing.step(Climb(), replace(SEEN, behind_bytes=0), ROOM, IDLE_S)
    assert gates[Visit.promote].after_s == pytest.approx(2 * SEEN.window_s)


def test_in_a_long_round_the_lag_grows_after_each_lap() -> None:
    lag_s = 0.1
    seen = replace(visited(behind=10 * MIB), round_bytes=100 * ROUND)
    before = taking(lag_s=lag_s, lap_s=LAP_S)
    after, gates = climbing.step(before, seen, ROOM, IDLE_S)
    assert after.stage is Stage.clears
    assert after.lag_s == pytest.approx(GROWTH * lag_s)
    assert gates[Visit.clear] == OPEN
    assert not gates[Visit.promote].is_open
    assert gates[Visit.promote].after_s == pytest.approx((GROWTH - 1) * lag_s)
    assert (after.lap_s, after.lap_waited_s) == (0, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"lap_s": LAP_S, "lap_waited_s": LAP_S},
        {"lap_s": LAP_S, "rest_s": 2.0, "brought": True},
        {"lap_s": LAP_S - 2 * SEEN.seconds},
    ],
    ids=["waited", "in vain", "too early"],
)
def test_the_lag_stays_after_a_lap_that_waited_and_after_a_round_in_vain(
    change: dict[str, float],
) -> None:
    after, _ = climbing.step(taking(lag_s=0.1, **change), visited(behind=10 * MIB), ROOM, IDLE_S)
    assert after.stage is Stage.takes
    assert after.lag_s == 0.1


def test_a_round_in_vain_that_brought_little_lets_the_lag_grow() -> None:
    """It says little: what a longer lag finds may help."""
    vain = taking(lag_s=0.1, lap_s=LAP_S, rest_s=2.0)
    after, _ = climbing.step(vain, visited(behind=10 * MIB), ROOM, IDLE_S)
    assert after.lag_s == GROWTH * 0.1
    least = AHEAD_SHARE_MIN * USED.ahead_bytes
    for came_bytes, lag_s in ((least, 0.1), (least + 1, 0.05)):
        now = replace(taking(lag_s=0.1, touches=came(int(came_bytes))), heat=JUDGED)
        after = ended(now, heat=100.0)
        assert after.in_vain
        assert (after.lag_s, after.brought) == (lag_s, came_bytes > least)


def test_a_lap_takes_some_lags() -> None:
    early = taking(lag_s=LAP_S, lap_s=2 * LAP_S)
    after, _ = climbing.step(early, visited(behind=10 * MIB), ROOM, 100 * IDLE_S)
    assert after.lag_s == LAP_S
    late = replace(early, lap_s=LAP_LAGS * LAP_S)
    after, _ = climbing.step(late, visited(behind=10 * MIB), ROOM, 100 * IDLE_S)
    assert after.lag_s == GROWTH * LAP_S


def test_the_lag_is_never_longer_than_the_idle_time_allows() -> None:
    after, _ = climbing.step(Climb(lag_s=1.0), SEEN, FULL, 4.0)
    assert after.lag_s == 4.0 / IDLE_PER_LAG


def test_a_sweep_that_is_too_far_behind_comes_closer_first() -> None:
    seen = replace(SEEN, behind_bytes=0.35 * SPEED)
    after, gates = climbing.step(Climb(lag_s=0.1), seen, ROOM, IDLE_S)
    assert after.stage is Stage.takes
    assert gates[Visit.promote] == OPEN
    assert not gates[Visit.clear].is_open
    assert gates[Visit.clear].then_open
    assert gates[Visit.clear].after_s == pytest.approx(0.35 - FAR * 0.1)


def test_no_round_begins_without_room() -> None:
    little = ROOM.floor_bytes + int(RESUME_SHARE * ROOM.ahead_bytes)
    for room in (FULL, replace(ROOM, free_bytes=little), replace(ROOM, stopped="pressure")):
        after, gates = climbing.step(Climb(lag_s=0.1), SEEN, room, IDLE_S)
        assert after.stage is Stage.rests
        assert not gates


def test_a_sweep_that_is_behind_by_less_than_the_lag_follows_sooner() -> None:
    seen = replace(SEEN, behind_bytes=0.1 * SPEED)
    _, gates = climbing.step(Climb(lag_s=0.3), seen, ROOM, IDLE_S)
    assert gates[Visit.promote].after_s == pytest.approx(0.2 + SEEN.window_s)
    far = replace(SEEN, behind_bytes=0.3 * SPEED)
    after, gates = climbing.step(Climb(lag_s=0.3), far, ROOM, IDLE_S)
    assert after.stage is Stage.takes
    assert gates == {Visit.promote: OPEN, Visit.clear: OPEN}


def test_a_sweep_that_is_far_behind_waits_until_all_is_cleared_again() -> None:
    """What lies between the two was cleared long ago, so all of it would look young."""
    seen = replace(SEEN, behind_bytes=5 * SPEED)
    now, gates = climbing.step(Climb(lag_s=0.3), seen, ROOM, IDLE_S)
    lacks = (0.3 - 5 + SEEN.window_s) * SPEED + ROUND
    assert now.follows_at_bytes == pytest.approx(lacks - 0.3 * SPEED)
    assert gates == {Visit.promote: CLOSED, Visit.clear: OPEN}
    # The sweep runs at three quarters of its speed.
    ran = {Visit.clear: int(0.75 * SPEED * SEEN.seconds)}
    seen = replace(SEEN, visited_bytes=ran, behind_bytes=-3 * SPEED)
    while now.stage_ends_s == inf:
        assert gates[Visit.promote] == CLOSED
        now, gates = climbing.step(now, seen, ROOM, IDLE_S)
    left_s = (lacks - now.cleared_bytes) / (0.75 * SPEED)
    assert gates[Visit.promote] == Gate(is_open=False, then_open=True, after_s=left_s)
    assert 0 <= left_s <= SEEN.seconds


def test_a_sweep_that_caught_up_falls_behind_again() -> None:
    after, gates = climbing.step(taking(), visited(behind=0), ROOM, IDLE_S)
    assert after.stage is Stage.clears
    assert not gates[Visit.promote].is_open
    assert gates[Visit.promote].then_open


def test_when_there_is_no_room_the_sweep_that_clears_stops_first() -> None:
    """The other one goes on nearly to the same place. What it visits beyond would look young."""
    behind = 40 * MIB
    after, gates = climbing.step(taking(), visited(behind=behind), FULL, IDLE_S)
    assert after.stage is Stage.drains
    assert gates[Visit.clear] == CLOSED
    closes(gates[Visit.promote], behind / SPEED - SHORT_WINDOWS * SEEN.window_s)
    ended = replace(after, stage_s=after.stage_ends_s)
    more = 2 * LEFT_WINDOWS * SEEN.window_bytes
    after, gates = climbing.step(ended, visited(behind=int(more)), FULL, IDLE_S)
    assert after.stage is Stage.drains
    closes(gates[Visit.promote], more / SPEED - SHORT_WINDOWS * SEEN.window_s)
    after, gates = climbing.step(ended, visited(behind=10 * MIB), FULL, IDLE_S)
    assert (after.stage, gates) == (Stage.waits, {})
    after, gates = climbing.step(after, visited(behind=0), ROOM, IDLE_S)
    assert after.stage is Stage.clears
    assert gates[Visit.clear] == OPEN
    assert not gates[Visit.promote].is_open


def test_a_sweep_that_has_caught_up_does_not_visit_what_was_not_cleared() -> None:
    _, gates = climbing.step(taking(), visited(behind=-MIB), FULL, IDLE_S)
    assert gates[Visit.promote] == CLOSED


def test_after_a_wait_the_lag_is_shorter() -> None:
    after, _ = climbing.step(taking(lag_s=0.8), visited(), FULL, IDLE_S)
    assert after.lag_s == 0.4
    regions = replace(FULL, reserved_bytes=MIB)
    assert climbing.step(taking(lag_s=0.8), visited(), regions, IDLE_S)[0].lag_s == 0.8


def test_there_must_be_room_for_what_was_cleared() -> None:
    """What is between the two sweeps comes up in any case."""
    behind, share = 40 * MIB, 0.5
    room = replace(ROOM, free_bytes=ROOM.floor_bytes + int(share * behind))
    after, _ = climbing.step(taking(yield_share=share), visited(behind=behind), room, IDLE_S)
    assert after.stage is Stage.drains


def test_both_close_before_the_next_tick_if_the_room_will_be_used_up() -> None:
    spare, behind = 10 * MIB, 10 * MIB
    room = replace(ROOM, free_bytes=ROOM.floor_bytes + spare)
    after, gates = climbing.step(taking(yield_share=0.5), visited(behind=behind), room, IDLE_S)
    lasts_s = (spare - after.yield_share * behind) / (after.yield_share * SPEED)
    drain_s = behind / SPEED - SHORT_WINDOWS * SEEN.window_s
    assert after.stage is Stage.takes
    assert lasts_s < SEEN.seconds
    closes(gates[Visit.clear], lasts_s)
    closes(gates[Visit.promote], lasts_s + drain_s)


def test_a_round_that_waits_too_long_is_given_up() -> None:
    enough = int(TELLS_SHARE * ROUND)
    waits = replace(taking(took_s=3.0), stage=Stage.waits, waited_s=IDLE_S, cleared_bytes=enough)
    after, _ = climbing.step(waits, visited(), FULL, IDLE_S)
    assert after.stage is Stage.rests
    longer = replace(waits, took_s=3 * IDLE_S)
    assert climbing.step(longer, visited(), FULL, IDLE_S)[0].stage is Stage.waits


def test_a_part_of_a_round_says_nothing_however_long_it_waits() -> None:
    """If it counted as in vain, demotion would slow down, and there would never be room."""
    part = int(TELLS_SHARE * ROUND) - MIB
    now = replace(taking(took_s=3.0, cleared_bytes=part), stage=Stage.waits, heat=JUDGED)
    for _ in range(200):
        now, _ = climbing.step(now, visited(heat=100.0), FULL, IDLE_S)
    assert now.stage is Stage.waits
    assert not now.in_vain
    after, _ = climbing.step(now, visited(heat=100.0), ROOM, IDLE_S)
    assert after.stage in (Stage.clears, Stage.takes)


def test_a_round_ends_when_all_was_cleared_and_the_other_has_followed() -> None:
    almost = taking(cleared_bytes=ROUND - MIB)
    after, gates = climbing.step(almost, visited(cleared=MIB, behind=20 * MIB), ROOM, IDLE_S)
    assert after.stage is Stage.drains
    assert gates[Visit.clear] == CLOSED
    closes(gates[Visit.promote], 20 * MIB / SPEED - SHORT_WINDOWS * SEEN.window_s)
    after, _ = climbing.step(after, visited(), ROOM, IDLE_S)
    assert after.stage is Stage.rests


def test_a_round_ends_in_the_middle_if_what_comes_up_gains_nothing() -> None:
    vain = Gain(in_vain=True, rest_s=120.0)
    after, gates = climbing.step(taking(gain=vain), visited(behind=20 * MIB), ROOM, IDLE_S)
    assert after.stage is Stage.drains
    assert gates[Visit.clear] == CLOSED
    after, _ = climbing.step(after, visited(), USED, IDLE_S)
    assert (after.stage, after.rest_s) == (Stage.rests, 120.0)
    assert after.in_vain
    waits = replace(taking(gain=vain), stage=Stage.waits)
    assert climbing.step(waits, visited(), USED, IDLE_S)[0].stage is Stage.rests


def test_the_next_round_after_such_a_rest_is_a_whole_one() -> None:
    rested = replace(ended(taking(gain=Gain(in_vain=True, rest_s=120.0)), 100.0), stage_s=120.0)
    after, _ = climbing.step(rested, visited(heat=100.0), ROOM, IDLE_S)
    assert after.stage is not Stage.rests
    assert not after.gain.in_vain
    assert after.gain.rest_s == 120.0


def test_a_rest_after_moves_in_vain_ends_when_programs_turn_to_other_memory() -> None:
    before = Series(count=60, average=0.8)
    vain = Gain(in_vain=True, rest_s=120.0, before=before)
    now = replace(taking(gain=vain), stage=Stage.rests, rest_s=120.0, stage_ends_s=120.0)
    ticks = 0
    while now.gain.in_vain and ticks < 200:
        seen = replace(visited(heat=100.0), heat_above=50.0, round_bytes=CHECKED)
        now, _ = climbing.step(now, seen, FULL, IDLE_S)
        ticks += 1
    assert ticks == pytest.approx(PIECE_S_MIN / SEEN.seconds, abs=1)
    assert (now.rest_s, now.stage_ends_s, now.calm) == (0.0, 0.0, False)


def test_heat_is_compared_while_a_round_is_under_way() -> None:
    seen = visited(cleared=MIB, moved=MIB // 2, heat=100.0)
    seen = replace(seen, heat_above=300.0, round_bytes=CHECKED)
    after, _ = climbing.step(taking(), seen, ROOM, IDLE_S)
    assert after.gain.shares.average == 0.75
    assert after.gain.came_bytes == MIB // 2
    rests = replace(taking(), stage=Stage.rests, stage_ends_s=9.0)
    assert climbing.step(rests, seen, ROOM, IDLE_S)[0].gain == Gain()
    short = replace(seen, round_bytes=CHECKED - MIB)
    assert climbing.step(taking(), short, ROOM, IDLE_S)[0].gain == Gain()
    without = replace(seen, heat=0.0, heat_above=0.0)
    assert climbing.step(taking(), without, ROOM, IDLE_S)[0].gain == Gain()


def test_a_round_that_helps_is_followed_by_another_at_once() -> None:
    after = ended(replace(taking(), heat=JUDGED, rest_s=16.0), heat=80.0)
    assert after.rest_s == after.stage_ends_s == 0
    assert after.calm
    assert not after.in_vain
    assert ended(after, heat=80.0).in_vain
    assert after.heat.least == pytest.approx(80, rel=0.1)


def test_a_round_helps_if_its_pages_are_touched_less_often_than_before() -> None:
    """Scattered heat does not show in the heat of regions."""

    def after(young: float) -> Climb:
        last = taking(stage=Stage.drains, heat=JUDGED, cleared_bytes=ROUND, lag_s=1.0)
        last = replace(last, touches=Touches(least_hz=0.2 / SEEN.window_s))
        moved = {Visit.promote: int(young * ROUND)}
        seen = visited(behind=0, heat=100.0)
        seen = replace(seen, visited_bytes={Visit.promote: ROUND}, moved_bytes=moved)
        return climbing.step(last, seen, USED, IDLE_S)[0]

    colder = after(0.15)
    assert colder.stage is Stage.rests
    assert not colder.in_vain
    assert colder.touches.least_hz == pytest.approx(-log(1 - 0.15) / SEEN.window_s)
    as_before = after(0.17)
    assert as_before.in_vain
    assert as_before.touches.least_hz == pytest.approx(-log(1 - 0.17) / SEEN.window_s)
    assert as_before.lag_s == pytest.approx(colder.lag_s / 2)


def test_how_often_pages_are_touched_follows_from_how_far_the_sweeps_are_apart() -> None:
    for behind_s in (0.2, 0.4):
        moved = {Visit.promote: MIB}
        seen = visited(behind=int(behind_s * SPEED))
        seen = replace(seen, visited_bytes={Visit.promote: 2 * MIB}, moved_bytes=moved)
        after, _ = climbing.step(taking(), seen, ROOM, IDLE_S)
        assert after.touches.times_hz == pytest.approx(2 * MIB * log(2) / behind_s)


@pytest.mark.parametrize("stage", [Stage.rests, Stage.waits])
def test_what_lay_between_two_sweeps_that_had_stopped_does_not_count(stage: Stage) -> None:
    """It was cleared long before its visit, so most of it looks young, whatever the lag is."""
    stopped = taking(stage=stage, stage_ends_s=100.0)
    waits, _ = climbing.step(stopped, visited(behind=10 * MIB), FULL, IDLE_S)
    goes_on = replace(waits, stage=Stage.takes)
    seen = visited(behind=20 * MIB, cleared=50 * MIB, moved=12 * MIB)
    after, _ = climbing.step(goes_on, seen, ROOM, IDLE_S)
    assert after.touches.visited_bytes == 40 * MIB
    assert after.touches.came_bytes == 2 * MIB
    later, _ = climbing.step(replace(after, stage=Stage.takes), seen, ROOM, IDLE_S)
    assert later.touches.visited_bytes == 90 * MIB
    assert later.touches.came_bytes == 14 * MIB


def test_sweeps_that_stopped_far_apart_clear_what_is_between_them_again() -> None:
    stopped = taking(stage=Stage.waits)
    waits, _ = climbing.step(stopped, visited(behind=SPEED), FULL, IDLE_S)
    assert waits.left_bytes == 0


def test_the_lag_grows_until_too_many_pages_come_up() -> None:
    longer = ended(taking(lag_s=0.2, took_s=10, waited_s=1), heat=100)
    waited = ended(taking(lag_s=0.2, took_s=10, waited_s=10), heat=100)
    assert longer.lag_s == pytest.approx(0.2 * GROWTH)
    assert waited.lag_s == 0.2
    assert ended(taking(lag_s=10.0), heat=100).lag_s == IDLE_S / IDLE_PER_LAG


def test_each_round_that_brought_much_moves_the_bars_apart() -> None:
    least = AHEAD_SHARE_MIN * USED.ahead_bytes
    now, apart = Climb(), float(IDLE_PER_LAG)
    for _ in range(3):
        now = ended(replace(now, lag_s=10.0, took_s=10, touches=came(int(least) + 1)), heat=100)
        apart *= APART
        assert now.idle_per_lag == pytest.approx(apart)
    # The next round takes less heat than the idle time that it began with would allow.
    shorter, _ = climbing.step(replace(now, lag_s=10.0), SEEN, FULL, IDLE_S)
    assert shorter.lag_s == pytest.approx(IDLE_S / apart)


def test_a_round_that_brought_little_leaves_the_bars_where_they_are() -> None:
    least = AHEAD_SHARE_MIN * USED.ahead_bytes
    assert ended(taking(touches=came(int(least))), heat=100).idle_per_lag == IDLE_PER_LAG


def test_long_rounds_leave_the_bars_where_they_are() -> None:
    """There are few of them, and the heat of so much memory lasts."""
    much = taking(touches=came(int(USED.ahead_bytes)), cleared_bytes=ROUND)
    much = replace(much, stage=Stage.drains)
    after, _ = climbing.step(much, replace(visited(heat=100.0), is_long=True), USED, IDLE_S)
    assert after.stage is Stage.rests
    assert after.idle_per_lag == IDLE_PER_LAG


def test_the_bars_are_bounded() -> None:
    far = Climb(rounds_since_rise=10**9).idle_per_lag
    assert far == Climb(rounds_since_rise=APART_ROUNDS_MAX).idle_per_lag
    # With the shortest window, the idle time is beyond its longest value by then.
    assert far * 0.01 > IDLE_S_MAX


def test_the_room_ahead_is_what_the_next_round_will_need() -> None:
    most = ROOM.ahead_bytes
    assert Climb().ahead_bytes(ROOM.ahead_bytes) == most
    last = replace(taking(), stage=Stage.drains, stage_ends_s=0.0, cleared_bytes=ROUND)
    after, _ = climbing.step(replace(last, touches=came(3 * MIB)), visited(), ROOM, IDLE_S)
    assert after.ahead_bytes(ROOM.ahead_bytes) == NEXT_ROUND * 3 * MIB
    after, _ = climbing.step(last, visited(), ROOM, IDLE_S)
    assert after.ahead_bytes(ROOM.ahead_bytes) == AHEAD_SHARE_MIN * most
    waited = replace(last, took_s=1.0, waited_s=IDLE_S)
    after, _ = climbing.step(waited, visited(), ROOM, IDLE_S)
    assert after.ahead_bytes(ROOM.ahead_bytes) == most


def test_a_sweep_that_was_open_for_a_moment_says_little() -> None:
    short, long = visited(cleared=MIB), visited(cleared=50 * MIB)
    before = taking(yield_share=0.5)
    learned = [climbing.step(before, seen, ROOM, IDLE_S)[0].yield_share for seen in (short, long)]
    assert learned[0] > 0.49
    assert learned[1] < 0.35


def test_promotion_follows_when_the_lag_is_over_and_not_before() -> None:
    begun = taking(stage=Stage.clears, stage_ends_s=2.2 * SEEN.seconds)
    for expected in (Stage.clears, Stage.clears, Stage.takes):
        begun, gates = climbing.step(begun, visited(), ROOM, IDLE_S)
        assert (begun.stage, gates) == (expected, {})


@pytest.mark.parametrize("stage", Stage)
def test_pages_come_up_only_while_sweeps_run(stage: Stage) -> None:
    comes = taking(stage=stage, yield_share=0.5).comes_bytes_per_s(SEEN)
    assert comes == (SPEED / 2 if stage in (Stage.clears, Stage.takes, Stage.goes_round) else 0)
