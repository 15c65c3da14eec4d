"""With a long lag both sweeps stop where they are, and go on there soon after."""

from dataclasses import replace

import pytest

from tests.unit.tuner.test_climb import FULL, IDLE_S, MIB, ROOM, SPEED, taking, visited
from tierd.plans.plan import Visit
from tierd.plans.visits import VISITED_PER_RATE_MAX
from tierd.tuner import climbing
from tierd.tuner.climb import Climb, Stage
from tierd.tuner.climbing import FEW_SHARE, HELD_LAGS
from tierd.tuner.distance import CLOSE_S, FAR
from tierd.tuner.gate import CLOSED, OPEN, Gate, Room, Seen

LAG_S = 3.0
BEHIND = LAG_S * SPEED
BOTH_CLOSED = {Visit.clear: CLOSED, Visit.promote: CLOSED}
STOPPED = replace(ROOM, stopped="tasks wait for memory")
OVER = replace(ROOM, stopped="it has moved more than its rate allows", over_rate=True)
USED_UP = replace(ROOM, stopped="its processor time is used up", used_up=True)


def rated(behind: float = BEHIND) -> Seen:
    """Return what is seen where a round is long. A sweep is faster than the rate limit there."""
    seen = replace(visited(behind=behind), is_long=True)
    return replace(seen, allowed_bytes=SPEED * seen.seconds / VISITED_PER_RATE_MAX)


def held(seen: Seen | None = None) -> Climb:
    seen = seen or visited(behind=BEHIND)
    return climbing.step(taking(lag_s=LAG_S), seen, STOPPED, 100 * IDLE_S)[0]


def test_a_long_drain_is_not_made_when_nothing_may_come_up() -> None:
    before, seen = taking(lag_s=LAG_S), visited(behind=BEHIND)
    after, gates = climbing.step(before, seen, STOPPED, 100 * IDLE_S)
    assert (after.stage, gates) == (Stage.holds, BOTH_CLOSED)
    assert not after.is_running


@pytest.mark.parametrize("room", [FULL, USED_UP], ids=["no room", "used up"])
@pytest.mark.parametrize(("hot", "stage"), [(0.9, Stage.drains), (1.1, Stage.holds)])
def test_a_long_drain_is_made_if_the_rate_makes_it_little_longer(
    hot: float, stage: Stage, room: Room
) -> None:
    before = taking(lag_s=LAG_S, yield_share=hot * FAR / VISITED_PER_RATE_MAX)
    assert climbing.step(before, rated(), room, 100 * IDLE_S)[0].stage is stage


@pytest.mark.parametrize("room", [FULL, USED_UP], ids=["no room", "used up"])
@pytest.mark.parametrize(("hot", "stage"), [(0.9, Stage.drains), (1.1, Stage.holds)])
def test_where_a_round_is_short_a_long_drain_must_be_slower_than_the_rate(
    hot: float, stage: Stage, room: Room
) -> None:
    """There a hold costs little: fewer pages are between the sweeps."""
    before = taking(lag_s=LAG_S, yield_share=hot / VISITED_PER_RATE_MAX)
    assert climbing.step(before, visited(behind=BEHIND), room, 100 * IDLE_S)[0].stage is stage


@pytest.mark.parametrize("times", [0.5, 1.0, 1.5])
def test_a_drain_keeps_to_the_rate(times: float) -> None:
    """It is open for a part of each tick, if it would move more than the rate allows."""
    before = taking(lag_s=LAG_S, yield_share=times / VISITED_PER_RATE_MAX)
    seen = rated()
    after, gates = climbing.step(before, seen, FULL, 100 * IDLE_S)
    for _ in range(3):
        assert after.stage is Stage.drains
        promote = gates[Visit.promote]
        assert (promote.is_open, promote.then_open) == (True, False)
        opens_s = min(seen.seconds, promote.after_s)
        moves = before.yield_share * SPEED * opens_s
        assert moves == pytest.approx(min(times, 1.0) * seen.allowed_bytes)
        after, gates = climbing.step(after, seen, FULL, 100 * IDLE_S)


def test_room_for_a_drain_is_kept() -> None:
    """Else both sweeps would have to stop with many pages between them."""
    share = 1 / VISITED_PER_RATE_MAX
    before, between = taking(lag_s=LAG_S, yield_share=share), share * BEHIND
    for more, stage in ((-MIB, Stage.drains), (8 * MIB, Stage.takes)):
        room = replace(ROOM, free_bytes=ROOM.floor_bytes + round(between) + more)
        assert climbing.step(before, rated(), room, 100 * IDLE_S)[0].stage is stage


def test_both_sweeps_are_held_while_what_was_too_much_is_paid_back() -> None:
    """That takes a tick or two. A drain would take the whole lag, and the next round as much."""
    before = taking(lag_s=LAG_S, yield_share=0.5 / VISITED_PER_RATE_MAX)
    after, gates = climbing.step(before, rated(), OVER, 100 * IDLE_S)
    assert (after.stage, gates) == (Stage.holds, BOTH_CLOSED)
    assert climbing.step(after, rated(), ROOM, 100 * IDLE_S)[0].stage is Stage.takes


@pytest.mark.parametrize("room", [STOPPED, OVER], ids=["stopped", "over rate"])
def test_a_drain_ends_when_it_has_moved_too_much(room: Room) -> None:
    before = taking(lag_s=LAG_S, stage=Stage.drains, stage_ends_s=LAG_S)
    after, gates = climbing.step(before, visited(behind=BEHIND), room, 100 * IDLE_S)
    assert (after.stage, gates) == (Stage.holds, BOTH_CLOSED)
    short = visited(behind=CLOSE_S * SPEED)
    assert climbing.step(before, short, STOPPED, 100 * IDLE_S)[0].stage is Stage.drains


def test_a_rate_that_is_the_limit_makes_the_lag_shorter() -> None:
    """Hotter pages should use it up first."""
    many, few = taking(lag_s=LAG_S, yield_share=1.0), taking(lag_s=LAG_S, yield_share=0.02)
    seen = rated()
    assert climbing.step(many, seen, OVER, 100 * IDLE_S)[0].lag_s == LAG_S / 2
    assert climbing.step(many, seen, STOPPED, 100 * IDLE_S)[0].lag_s == LAG_S
    # What comes up by regions has used it up, which says nothing about pages.
    assert climbing.step(few, seen, OVER, 100 * IDLE_S)[0].lag_s == LAG_S
    regions = replace(OVER, reserved_bytes=MIB)
    assert climbing.step(many, seen, regions, 100 * IDLE_S)[0].lag_s == LAG_S


def test_a_short_drain_is_made() -> None:
    seen = visited(behind=CLOSE_S * SPEED)
    after, gates = climbing.step(taking(lag_s=CLOSE_S), seen, STOPPED, IDLE_S)
    assert after.stage is Stage.drains
    assert gates[Visit.promote].is_open


def test_both_go_on_where_they_are() -> None:
    seen = visited(behind=BEHIND)
    after, gates = climbing.step(held(), seen, ROOM, 100 * IDLE_S)
    assert (after.stage, after.lag_s) == (Stage.takes, LAG_S)
    assert gates == {Visit.clear: OPEN, Visit.promote: OPEN}


def test_they_go_on_for_as_long_as_the_rate_allows() -> None:
    before = replace(held(), yield_share=1.0)
    seen = replace(visited(behind=BEHIND), allowed_bytes=0.1 * SPEED)
    after, gates = climbing.step(before, seen, ROOM, 100 * IDLE_S)
    short = Gate(is_open=True, then_open=False, after_s=0.1)
    assert (after.stage, gates) == (Stage.takes, {Visit.clear: short, Visit.promote: short})
    # In the next ticks too, both stop at the same time.
    _, gates = climbing.step(after, seen, ROOM, 100 * IDLE_S)
    assert gates == {Visit.clear: short, Visit.promote: short}


def test_a_lag_that_has_become_shorter_brings_them_closer() -> None:
    shorter = replace(held(), lag_s=LAG_S / 10)
    after, gates = climbing.step(shorter, visited(behind=BEHIND), ROOM, 100 * IDLE_S)
    assert after.stage is Stage.takes
    assert (gates[Visit.promote], gates[Visit.clear].is_open) == (OPEN, False)


def test_in_the_end_they_go_around_the_node_first() -> None:
    seen = few_between()
    longest_s = max(HELD_LAGS * LAG_S, seen.round_s)
    almost = replace(held(seen), stage_s=0.9 * longest_s - seen.seconds)
    assert climbing.step(almost, seen, STOPPED, 100 * IDLE_S)[0].stage is Stage.holds
    longer = replace(almost, stage_s=longest_s)
    waits, gates = climbing.step(longer, seen, STOPPED, 100 * IDLE_S)
    assert (waits.stage, gates) == (Stage.waits, {})
    after, gates = climbing.step(waits, seen, ROOM, 100 * IDLE_S)
    assert after.stage is Stage.clears
    assert gates[Visit.promote] == CLOSED
    assert after.follows_at_bytes > seen.round_bytes - LAG_S * seen.bytes_per_s


def test_they_go_around_sooner_if_many_pages_were_cleared_long_ago() -> None:
    """In a lag and as much time again, far more pages look young."""
    many = visited(behind=BEHIND)
    between_s = BEHIND / SPEED
    assert FEW_SHARE * many.round_bytes < BEHIND
    for held_s, seen, stage in (
        (0.5 * between_s, many, Stage.takes),
        (1.5 * between_s, many, Stage.waits),
        (1.5 * between_s, few_between(), Stage.takes),
    ):
        before = replace(held(), stage_s=held_s)
        assert climbing.step(before, seen, ROOM, 100 * IDLE_S)[0].stage is stage


def few_between() -> Seen:
    """Return what is seen on a node that is much larger than what lies between the sweeps."""
    return replace(visited(behind=BEHIND), round_bytes=round(2 * BEHIND / FEW_SHARE))


def test_no_room_is_kept_for_a_drain_that_is_not_made() -> None:
    room = replace(ROOM, free_bytes=ROOM.floor_bytes + 30 * MIB)
    few = taking(lag_s=LAG_S, yield_share=0.11)
    assert climbing.step(few, rated(), room, 100 * IDLE_S)[0].stage is Stage.drains
    many = replace(few, yield_share=0.9)
    assert climbing.step(many, rated(), room, 100 * IDLE_S)[0].stage is Stage.takes
