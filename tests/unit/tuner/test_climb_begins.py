"""When the first round of promotion by page begins."""

from dataclasses import replace
from math import inf

from tests.unit.tuner.test_climb import IDLE_S, ROOM, SEEN, SPEED
from tierd.plans.plan import Visit
from tierd.tuner import climbing
from tierd.tuner.climb import AHEAD_SHARE_MIN, RESUME_SHARE, Climb, Stage
from tierd.tuner.gate import OPEN, Room


def with_room(share: float, *, opens_at_once: bool = True) -> Room:
    """Return this share of the room ahead, and a little more."""
    free = ROOM.floor_bytes + int(share * ROOM.ahead_bytes) + 1
    return replace(ROOM, free_bytes=free, opens_at_once=opens_at_once)


LITTLE = RESUME_SHARE * AHEAD_SHARE_MIN


def begins(now: Climb, room: Room) -> bool:
    return climbing.step(now, SEEN, room, IDLE_S)[0].stage is not Stage.rests


def test_a_little_room_is_enough_for_the_hottest_pages() -> None:
    assert begins(Climb(), with_room(LITTLE))
    assert not begins(Climb(), with_room(LITTLE - 0.01))


def test_after_the_first_lap_more_comes_up() -> None:
    lapped = Climb(lag_s=0.1)
    assert not begins(lapped, with_room(LITTLE))
    assert begins(lapped, with_room(RESUME_SHARE))


def test_where_a_commit_opens_sweeps_they_do_not_stop_and_go() -> None:
    assert not begins(Climb(), with_room(LITTLE, opens_at_once=False))
    assert begins(Climb(), with_room(RESUME_SHARE, opens_at_once=False))


def test_a_lag_that_becomes_shorter_is_waited_for_no_longer() -> None:
    """Heat may rise while one sweep goes around the node, and then the bars begin anew."""
    waits = Climb(lag_s=4.0, stage=Stage.clears, stage_ends_s=inf, follows_at_bytes=SPEED)
    seen = replace(SEEN, visited_bytes={Visit.clear: int(SPEED * SEEN.seconds)})
    cleared = replace(waits, cleared_bytes=int(2 * SPEED))
    assert climbing.step(cleared, seen, ROOM, 100 * IDLE_S)[0].stage is Stage.clears
    after, gates = climbing.step(replace(cleared, lag_s=1.0), seen, ROOM, 100 * IDLE_S)
    assert after.stage is Stage.takes
    assert gates[Visit.promote] == OPEN


def test_a_round_begins_with_all_the_room_that_there_will_be() -> None:
    """More comes only if something can go down: else pages below would wait for ever."""
    lapped, little = Climb(lag_s=0.1), with_room(LITTLE + 0.01)
    assert begins(lapped, replace(little, fits_bytes=0.0))
    short = RESUME_SHARE * ROOM.ahead_bytes - little.spare_bytes
    assert not begins(lapped, replace(little, fits_bytes=2 * short))
    assert begins(lapped, replace(little, fits_bytes=0.1 * short))
    assert not begins(lapped, replace(with_room(LITTLE - 0.01), fits_bytes=0.0))
