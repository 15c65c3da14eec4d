"""While much room is free, one sweep goes around the node and brings up all that was touched."""

from dataclasses import replace

import pytest

from tests.fixtures.readings import SWEEP
from tests.unit.tuner.test_climb import IDLE_S, JUDGED, ROOM, ROUND, SEEN, SPEED, USED, visited
from tests.unit.tuner.test_lag import ROOMY_ROOM
from tierd.plans.plan import Visit
from tierd.tuner import climb_words, climbing
from tierd.tuner.climb import IDLE_PER_LAG, Climb, Stage
from tierd.tuner.gate import CLOSED, OPEN, Seen
from tierd.tuner.lag import LAG_SHARE_MAX, is_roomy
from tierd.tuner.touches import Touches

MIB = 1 << 20
ROUND_S = ROUND / SPEED
LONGEST_S = LAG_SHARE_MAX * ROUND_S

# A climb after a round that went over all pages with the longest lag.
DONE = Climb(
    lag_s=LONGEST_S, stage=Stage.rests, cleared_bytes=ROUND, rounds=1,
    touches=Touches(visited_bytes=ROUND), heat=JUDGED, yield_share=0.02,
)  # fmt: skip


def going(share: float, **changes: object) -> Climb:
    """Return a climb that has gone around this share of the node."""
    so_far = Touches(visited_bytes=int(share * ROUND))
    now = replace(DONE, stage=Stage.goes_round, cleared_bytes=0, touches=so_far)
    return replace(now, **changes)  # type: ignore[arg-type]


def passed(moved_bytes: int) -> Seen:
    """Return a tick in which only the sweep that promotes ran."""
    seen = visited(behind=-10 * MIB)
    visits = {Visit.promote: 10 * MIB}
    return replace(seen, visited_bytes=visits, moved_bytes={Visit.promote: moved_bytes})


def test_after_the_longest_lag_room_that_is_left_is_used_by_one_sweep() -> None:
    after, gates = climbing.step(DONE, visited(), ROOMY_ROOM, IDLE_S)
    assert after.stage is Stage.goes_round
    assert gates == {Visit.clear: CLOSED, Visit.promote: OPEN}
    assert after.touches.visited_bytes == 0
    assert after.bar_s(SEEN) == ROUND_S


@pytest.mark.parametrize(
    "before",
    [
        # A longer lag is tried first.
        replace(DONE, lag_s=LONGEST_S / 10),
        # Pages that no sweep has cleared would all look young.
        replace(DONE, cleared_bytes=ROUND - 1, touches=Touches()),
        # All that was touched in a long time would come up.
        replace(DONE, stage_s=2 * ROUND_S),
        replace(DONE, rest_s=4.0),
    ],
    ids=["short lag", "not cleared", "long ago", "in vain"],
)
def test_else_both_sweeps_run(before: Climb) -> None:
    after, gates = climbing.step(before, visited(), ROOMY_ROOM, IDLE_S)
    assert after.stage is Stage.clears
    assert gates[Visit.clear] == OPEN


def test_where_something_has_to_go_down_both_sweeps_run() -> None:
    after, _ = climbing.step(DONE, visited(), USED, IDLE_S)
    assert after.stage is not Stage.goes_round


# More room is free than the next round will need, but less than twice the most that it may need.
LITTLE = replace(ROOM, free_bytes=60 * MIB, floor_bytes=30 * MIB, headroom_bytes=30 * MIB)
EXPECTS = replace(DONE, expects_bytes=10 * MIB)
LONG_IDLE_S = IDLE_PER_LAG * LONGEST_S


def test_memory_that_is_idle_for_long_lets_it_use_all_but_what_will_be_needed() -> None:
    assert not is_roomy(LITTLE)
    after, gates = climbing.step(EXPECTS, visited(), LITTLE, LONG_IDLE_S)
    assert after.stage is Stage.goes_round
    assert gates[Visit.promote].is_open
    on, _ = climbing.step(going(0.5, expects_bytes=10 * MIB), passed(0), LITTLE, LONG_IDLE_S)
    assert on.stage is Stage.goes_round


@pytest.mark.parametrize(
    ("before", "idle_s"),
    [(EXPECTS, LONG_IDLE_S - 0.1), (replace(EXPECTS, expects_bytes=16 * MIB), LONG_IDLE_S)],
    ids=["not idle for so long", "expects more"],
)
def test_else_it_waits_for_more_room(before: Climb, idle_s: float) -> None:
    after, _ = climbing.step(before, visited(), LITTLE, idle_s)
    assert after.stage is not Stage.goes_round
    on = replace(before, stage=Stage.goes_round, touches=Touches(visited_bytes=ROUND // 2))
    ended, _ = climbing.step(on, passed(0), LITTLE, idle_s)
    assert ended.stage is not Stage.goes_round


def test_it_goes_on_until_it_has_been_everywhere() -> None:
    after, gates = climbing.step(going(0.5), passed(MIB), ROOMY_ROOM, IDLE_S)
    assert after.stage is Stage.goes_round
    assert gates[Visit.promote] == OPEN
    assert after.touches.came_bytes == MIB
    ended, gates = climbing.step(
        going(1.0, touches=Touches(ROUND, 40 * MIB)), passed(0), ROOMY_ROOM, IDLE_S
    )
    assert ended.stage is Stage.rests
    assert ended.rounds == DONE.rounds + 1
    assert gates[Visit.promote] == CLOSED
    # It was worth it, so the next one follows at once, by one sweep too.
    assert ended.stage_ends_s == 0
    assert ended.is_busy(ROOMY_ROOM)
    again, _ = climbing.step(ended, visited(), ROOMY_ROOM, IDLE_S)
    assert again.stage is Stage.goes_round


def test_it_ends_when_the_room_is_used() -> None:
    ended, gates = climbing.step(
        going(0.3, touches=Touches(ROUND // 3, 40 * MIB)), passed(MIB), USED, IDLE_S
    )
    assert ended.stage is Stage.rests
    assert gates[Visit.promote] == CLOSED


def test_if_it_is_stopped_both_sweeps_go_on_later_and_nothing_is_judged() -> None:
    stopped = replace(ROOMY_ROOM, stopped="its processor time is used up")
    waits, gates = climbing.step(going(0.3), passed(0), stopped, IDLE_S)
    assert waits.stage is Stage.waits
    assert gates == {Visit.promote: CLOSED}
    assert not waits.in_vain
    after, gates = climbing.step(waits, visited(behind=-0.3 * ROUND), ROOMY_ROOM, IDLE_S)
    assert after.stage is Stage.clears
    assert gates[Visit.clear] == OPEN


def test_a_round_that_brings_hardly_anything_is_followed_by_a_rest() -> None:
    ended, _ = climbing.step(
        going(1.0, touches=Touches(ROUND, least_hz=0.0)), passed(0), ROOMY_ROOM, IDLE_S
    )
    assert ended.in_vain
    again, _ = climbing.step(replace(ended, stage=Stage.rests), visited(), ROOMY_ROOM, IDLE_S)
    assert again.stage is not Stage.goes_round


def test_a_page_that_is_young_was_touched_within_the_round() -> None:
    """Nobody cleared it since, so the lag is the time of a round."""
    after, _ = climbing.step(going(0.5), passed(5 * MIB), ROOMY_ROOM, IDLE_S)
    both, _ = climbing.step(
        replace(going(0.5), stage=Stage.takes), passed(5 * MIB), ROOMY_ROOM, IDLE_S
    )
    assert 0 < after.touches.times_hz < both.touches.times_hz


def test_what_it_does_is_told() -> None:
    sweep = replace(SWEEP, visit=Visit.promote, node=1, target_node=0, round_bytes=ROUND)
    told = climb_words.reason(going(0.25), sweep, ROOMY_ROOM)
    assert told == (
        "uses room that is free, 25% of the round: what was touched since the last round goes up, "
        "2.0% of those visited lately"
    )
