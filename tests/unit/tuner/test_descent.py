"""A descent visits pages when room is wanted, the idle time after they were made old."""

from dataclasses import replace
from math import exp, inf, log

import pytest

from tests.fixtures import readings
from tierd.plans.plan import Visit
from tierd.tuner import descent
from tierd.tuner.descent import (
    AHEAD_SHARE_MAX,
    BEGIN_SHARE,
    CALM_GROWTH,
    CLOSE_SHARE,
    FORGET_ROUNDS,
    FORGET_ROUNDS_GATED,
    GROWTH,
    IDLE_S_FIRST,
    IDLE_S_MAX,
    LONGER,
    OLD,
    PIECE_SHARE,
    YIELD_ENOUGH,
    Descent,
    Piece,
    Wanted,
)
from tierd.tuner.gate import CLOSED, OPEN, Seen

MIB = 1 << 20
ROUND = 500 * MIB
SPEED = 100 * MIB
SEEN = Seen(seconds=0.5, window_s=0.1, round_bytes=ROUND, bytes_per_s=SPEED)
LONG = replace(SEEN, round_bytes=1000 * ROUND, is_long=True)
HELD = "it is held"
SWEEP = replace(readings.SWEEP, quota_bytes=SPEED // 10, round_bytes=ROUND)


def wants(lacks: float, least: float = 0, held: str = "") -> Wanted:
    return Wanted(lacks, least, beyond_bytes=ROUND, held=held)


def visited(size: int, gone: int = 0) -> Seen:
    return replace(SEEN, visited_bytes={Visit.demote: size}, moved_bytes={Visit.demote: gone})


def test_it_opens_when_enough_is_lacking_and_closes_when_nothing_is() -> None:
    for lacks, opens in ((0, False), (10 * MIB, False), (11 * MIB, True)):
        after, gates = descent.follow(Descent(), LONG, wants(lacks, 10 * MIB))
        assert gates[Visit.age].is_open is after.is_open is opens
    goes_on = Descent(is_open=True)
    assert descent.follow(goes_on, SEEN, wants(MIB, 10 * MIB))[0].is_open
    closed = {Visit.age: CLOSED, Visit.demote: CLOSED}
    assert descent.follow(cleared(IDLE_S), ahead(AHEAD), wants(0, 10 * MIB))[1] == closed


def test_on_a_small_node_pages_are_made_old_before_room_is_wanted() -> None:
    most = AHEAD_SHARE_MAX * ROUND
    for behind, gate in ((0.0, OPEN), (most, CLOSED)):
        seen = replace(SEEN, behind_bytes=behind)
        after, gates = descent.follow(Descent(idle_s=100.0), seen, wants(0))
        assert gates == {Visit.age: gate, Visit.demote: CLOSED}
        assert not after.is_open


def test_what_waits_for_room_below_is_made_old_meanwhile() -> None:
    waits = replace(wants(ROUND), waits="no room on node 1")
    after, gates = descent.follow(cleared(IDLE_S), ahead(AHEAD / 2), waits)
    assert gates == {Visit.age: OPEN, Visit.demote: CLOSED}
    assert "no room on node 1" in descent.reason(after, SWEEP, waits, CLOSED)
    almost = cleared(BEGIN_SHARE * IDLE_S - 0.75)
    assert descent.follow(almost, ahead(0.1 * SPEED), waits)[1][Visit.demote] == CLOSED


def test_it_closes_before_the_next_tick_if_the_room_will_be_made() -> None:
    lacks = 30 * MIB
    gate = descent.follow(cleared(IDLE_S), ahead(AHEAD), wants(lacks))[1][Visit.demote]
    assert not gate.then_open
    assert gate.after_s == pytest.approx(lacks / SPEED)
    enough = wants(SPEED * SEEN.seconds)
    assert descent.follow(cleared(IDLE_S), ahead(AHEAD), enough)[1][Visit.demote] == OPEN


def test_memory_of_the_kernel_may_be_followed_by_memory_that_is_all_idle() -> None:
    """What goes down falls at once. What tierd is ready for falls later, and last where it is
    closed late."""
    for gated, rounds, falls_to in (
        (False, FORGET_ROUNDS, 0.3),
        (True, FORGET_ROUNDS_GATED, 0.05),
    ):
        now, part = cleared(IDLE_S), int(rounds * ROUND) // 30
        for _ in range(30):
            seen = replace(SEEN, behind_bytes=AHEAD, visited_bytes={Visit.demote: part})
            now, _ = descent.follow(now, replace(seen, gated=gated), wants(ROUND))
        assert now.yield_share < falls_to
        assert now.yield_most == pytest.approx(exp(-1), rel=0.01)
    _, gates = descent.follow(
        cleared(IDLE_S, yield_share=0.1, yield_most=0.5), ahead(AHEAD), wants(5 * MIB)
    )
    assert gates[Visit.demote].after_s == pytest.approx(10 * MIB / SPEED)
    found = replace(visited(MIB, MIB), behind_bytes=AHEAD)
    before = cleared(IDLE_S, yield_share=0.9, yield_most=0.4)
    again, _ = descent.follow(before, found, wants(ROUND))
    assert again.yield_most == again.yield_share > 0.9


def test_memory_that_was_cleared_later_is_idle_more_often() -> None:
    """A twenty-fifth of the pages was idle for 8 s, so a fifth of them may be for 4 s."""
    lacks, beyond = 3 * MIB, 2 * MIB
    wanted = Wanted(lacks, 0, beyond_bytes=beyond, owed_bytes=MIB)

    def closes_after(age_s: float = 8.0, most: float = 0.04, *, gated: bool = False) -> float:
        now = cleared(4.0, yield_share=0.04, yield_age_s=age_s, yield_most=most)
        now = replace(now, idle_s=4.0, follows=True)
        seen = replace(ahead(AHEAD), gated=gated)
        gate = descent.follow(now, seen, wanted)[1][Visit.demote]
        return gate.after_s if not gate.then_open else inf

    assert closes_after(age_s=4.0) == inf
    assert closes_after() == pytest.approx((lacks + beyond) / (0.04**0.5625 * SPEED))
    # A commit closes it late, so nothing is left over for chance.
    gated_s = closes_after(gated=True)
    assert gated_s == pytest.approx((lacks + MIB) / (0.04**0.5625 * SPEED))
    # What is expected anyway holds too.
    assert closes_after(most=1.0) == pytest.approx(lacks / SPEED)


def test_it_knows_for_how_long_what_it_visited_was_untouched() -> None:
    now = cleared(IDLE_S, yield_age_s=1.0)
    seen = replace(ahead(AHEAD), visited_bytes={Visit.demote: MIB})
    assert descent.follow(now, seen, wants(ROUND))[0].yield_age_s == IDLE_S
    assert descent.follow(now, ahead(AHEAD), wants(ROUND))[0].yield_age_s == 1.0


def test_only_what_is_reached_until_the_next_tick_is_asked_for_its_age() -> None:
    for near, expects in ((SPEED * SEEN.seconds / 2, 0.1**0.575), (2 * SPEED * SEEN.seconds, 0.1)):
        pieces = (Piece(near, 90.0), Piece(AHEAD - near, 95.0))
        now = cleared(10.0, cleared=pieces, yield_share=0.1, yield_age_s=10.0, yield_most=0.1)
        now = replace(now, idle_s=4.0, follows=True)
        seen = replace(ahead(AHEAD), gated=True)
        gate = descent.follow(now, seen, wants(MIB))[1][Visit.demote]
        assert gate.after_s == pytest.approx(MIB / (expects * SPEED))


def test_the_idle_time_may_double_while_most_of_what_is_visited_goes_down() -> None:
    """What is idle for twice as long is about the square of the share."""
    for share, times in ((1.0, LONGER), (0.6, LONGER), (0.4, log(0.25) / log(0.4)), (0.1, 1.0)):
        now = Descent(learned_s=4.0, yield_share=share)
        assert descent.may_be_s(now) == pytest.approx(4.0 * times)
    assert descent.may_be_s(Descent(learned_s=IDLE_S_MAX)) == IDLE_S_MAX
    assert descent.at_least(Descent(learned_s=4.0), 6.0).learned_s == 6.0
    assert descent.at_least(Descent(learned_s=4.0), 2.0).learned_s == 4.0


def test_it_learns_how_much_of_what_it_visits_goes_down() -> None:
    now = Descent(yield_share=1.0)
    for _ in range(60):
        now, _ = descent.follow(now, visited(50 * MIB, MIB), wants(ROUND))
    assert now.yield_share == pytest.approx(1 / 50, rel=0.05)
    assert now.found == pytest.approx(1 / 50)
    assert descent.follow(now, SEEN, wants(ROUND))[0].found is None


IDLE_S = 8.0
AHEAD = IDLE_S * SPEED


def ahead(size: float) -> Seen:
    """Return what is seen where the sweep that clears is ahead by so much."""
    return replace(LONG, behind_bytes=size)


def cleared(age_s: float, size: float = AHEAD, **changes: object) -> Descent:
    """Return a descent that has cleared some memory so long ago."""
    pieces = (Piece(size, 100.0 - age_s),)
    base = Descent(idle_s=IDLE_S, is_open=True, clock_s=100.0, cleared=pieces)
    return replace(base, **changes)  # type: ignore[arg-type]


def test_it_follows_a_sweep_that_clears_by_the_idle_time() -> None:
    now, gates = descent.follow(Descent(idle_s=IDLE_S), ahead(0), wants(ROUND))
    assert gates == {Visit.age: OPEN, Visit.demote: CLOSED}
    seconds = 0.0
    while not now.follows:
        assert not gates[Visit.demote].is_open
        seconds += SEEN.seconds
        now, gates = descent.follow(now, ahead(seconds * SPEED), wants(ROUND))
        assert seconds < 2 * IDLE_S
    assert seconds == pytest.approx(IDLE_S, abs=2 * SEEN.seconds)
    assert gates[Visit.demote] == OPEN


def test_what_is_cleared_together_is_one_piece() -> None:
    now = Descent(idle_s=IDLE_S)
    for tick in range(1, 31):
        now, _ = descent.follow(now, ahead(tick * MIB), wants(ROUND))
    assert sum(one.bytes for one in now.cleared) == 30 * MIB
    assert len(now.cleared) <= 30 * SEEN.seconds / (PIECE_SHARE * IDLE_S)
    assert descent.follow(now, ahead(-MIB), wants(ROUND))[0].cleared == ()


def test_what_is_visited_is_taken_off_and_what_is_cleared_meanwhile_comes_last() -> None:
    follows = cleared(IDLE_S)
    seen = replace(ahead(AHEAD), visited_bytes={Visit.demote: MIB})
    now, _ = descent.follow(follows, seen, wants(ROUND))
    assert now.cleared == (replace(follows.cleared[0], bytes=AHEAD - MIB), Piece(MIB, now.clock_s))


def test_it_waits_again_when_what_comes_next_was_cleared_later() -> None:
    follows = replace(cleared(CLOSE_SHARE * IDLE_S), follows=True)
    pieces = (*follows.cleared, Piece(MIB, follows.clock_s))
    follows = replace(follows, cleared=pieces)
    now, gates = descent.follow(follows, ahead(AHEAD + MIB), wants(ROUND))
    assert gates[Visit.demote].is_open
    seen = replace(ahead(MIB / 2), visited_bytes={Visit.demote: round(AHEAD + MIB / 2)})
    now, gates = descent.follow(now, seen, wants(ROUND))
    assert gates[Visit.demote] == CLOSED
    assert now.cleared == (Piece(MIB / 2, pieces[1].at_s),)
    almost = cleared(BEGIN_SHARE * IDLE_S - 1)
    assert not descent.follow(almost, ahead(AHEAD / 2), wants(ROUND))[0].follows, (
        "nearly the whole idle time"
    )


def test_no_more_is_cleared_than_the_room_needs() -> None:
    """What is cleared and not visited is idle for longer than it should be when it is visited."""
    little = AHEAD / 100
    now = cleared(0.0, yield_share=0.5)
    for behind, opens in ((0.0, True), (little, True), (2 * little, False)):
        gate = descent.follow(now, ahead(behind), wants(little))[1][Visit.age]
        assert gate.is_open is opens
    gate = descent.follow(now, ahead(little), wants(little))[1][Visit.age]
    assert gate.after_s == pytest.approx(little / SPEED)
    comes = replace(now, comes_bytes_per_s=SPEED)
    assert descent.follow(comes, ahead(2 * little), wants(little))[1][Visit.age] == OPEN


def test_how_fast_pages_come_up_is_averaged_over_the_idle_time() -> None:
    """The climb runs for some seconds, and then its processor time is used up."""
    now, wanted = cleared(0.0), Wanted(ROUND, 0, comes_bytes_per_s=SPEED)
    for _ in range(round(IDLE_S / SEEN.seconds)):
        now, _ = descent.follow(now, ahead(AHEAD), wanted)
    assert now.comes_bytes_per_s == pytest.approx(0.63 * SPEED, rel=0.05)


def test_the_sweep_that_clears_waits_where_it_is_too_far_ahead() -> None:
    old = cleared(2 * IDLE_S, size=2 * AHEAD)
    _, gates = descent.follow(old, ahead(2 * AHEAD), wants(ROUND))
    assert gates == {Visit.age: CLOSED, Visit.demote: OPEN}
    far = AHEAD_SHARE_MAX * LONG.round_bytes
    slow = cleared(0.0, idle_s=1e6, yield_share=0.0)
    _, gates = descent.follow(slow, ahead(far), wants(LONG.round_bytes))
    assert gates[Visit.age] == CLOSED, "however long the idle time is"


def test_both_sweeps_are_closed_while_it_is_held() -> None:
    follows = cleared(IDLE_S, follows=True)
    after, gates = descent.follow(follows, ahead(AHEAD), wants(ROUND, held=HELD))
    assert gates == {Visit.age: CLOSED, Visit.demote: CLOSED}
    assert not after.is_open


def test_it_does_not_wait_for_the_next_tick_if_little_is_visited_until_then() -> None:
    """More than what lacks could go down, and nobody would close the sweep."""
    almost = cleared(BEGIN_SHARE * IDLE_S - 0.75)
    for lacks, opens in ((SPEED / 2, True), (SPEED / 4 + 1, True), (SPEED / 5, False)):
        gate = descent.follow(almost, ahead(0.1 * SPEED), wants(lacks))[1][Visit.demote]
        assert not gate.is_open
        assert gate.then_open is opens
    gate = descent.follow(almost, ahead(0.1 * SPEED), wants(ROUND))[1][Visit.demote]
    assert gate.after_s == pytest.approx(0.25)
    early = cleared(BEGIN_SHARE * IDLE_S - 1.25)
    assert descent.follow(early, ahead(0.1 * SPEED), wants(ROUND))[1][Visit.demote] == CLOSED


def test_memory_was_cleared_at_least_as_long_ago_as_the_way_between_the_sweeps_takes() -> None:
    """A tick does not say when in it memory was cleared."""
    now = cleared(0.0, idle_s=1.0)
    assert descent.follow(now, ahead(0.85 * SPEED), wants(ROUND))[0].follows is False
    assert descent.follow(now, ahead(1.1 * SPEED), wants(ROUND))[0].follows is True


def test_what_was_cleared_long_ago_does_not_tell_what_the_idle_time_finds() -> None:
    seen = replace(ahead(0.1 * SPEED), visited_bytes={Visit.demote: MIB})
    for age_s, tells in ((IDLE_S, True), ((OLD + 1) * IDLE_S, False)):
        after, _ = descent.follow(cleared(age_s, size=2 * AHEAD), seen, wants(ROUND))
        assert (after.found is not None) is tells


def test_rounds_are_counted() -> None:
    last = Descent(is_open=True, follows=True, visited_bytes=LONG.round_bytes - MIB)
    seen = replace(ahead(AHEAD), visited_bytes={Visit.demote: MIB})
    after, _ = descent.follow(last, seen, wants(ROUND))
    assert (after.rounds, after.visited_bytes) == (1, 0)


@pytest.mark.parametrize(
    ("found", "in_vain", "learned_s"),
    [
        (2 * YIELD_ENOUGH, False, IDLE_S + GROWTH),
        (0.8 * YIELD_ENOUGH, False, IDLE_S),
        (0.2 * YIELD_ENOUGH, False, IDLE_S * 0.5 ** (1 / IDLE_S)),
        (None, False, IDLE_S),
        (None, True, IDLE_S + CALM_GROWTH),
        (0.0, True, IDLE_S + CALM_GROWTH),
    ],
)
def test_the_idle_time_grows_while_enough_goes_down(
    found: float | None, in_vain: bool, learned_s: float
) -> None:
    before = Descent(learned_s=IDLE_S, found=found)
    after = descent.learned(before, 1.0, 0.1, in_vain=in_vain)
    assert after.learned_s == pytest.approx(learned_s)


def test_the_idle_time_has_bounds() -> None:
    little = Descent(learned_s=1.0, found=0.0)
    assert descent.learned(little, 10.0, 0.4, in_vain=False).learned_s == 0.4
    assert descent.learned(Descent(), 0.5, 4.0, in_vain=False).learned_s == 4.0
    assert descent.learned(little, 1e6, 0.4, in_vain=True).learned_s == IDLE_S_MAX


def test_heat_that_rises_ends_a_long_idle_time_and_not_a_short_one() -> None:
    assert descent.woken(Descent(learned_s=400.0)).learned_s == IDLE_S_FIRST
    assert descent.woken(Descent(learned_s=0.2)).learned_s == 0.2


@pytest.mark.parametrize(
    ("now", "wanted", "says"),
    [
        (Descent(visited_bytes=ROUND - MIB), wants(MIB), "no room wanted now"),
        (Descent(), wants(0, held=HELD), "node 0 has its room"),
        (Descent(), wants(MIB, held=HELD), HELD),
        (
            Descent(is_open=True, idle_s=8.0),
            wants(MIB),
            "and visited 8.0 s later",
        ),
    ],
)
def test_it_says_why_it_is_closed(now: Descent, wanted: Wanted, says: str) -> None:
    assert says in descent.reason(now, SWEEP, wanted, CLOSED)


def test_it_tells_whether_room_is_wanted_also_while_it_is_held() -> None:
    for lacks, least in ((0, False), (10 * MIB, False), (11 * MIB, True)):
        assert descent.follow(Descent(), SEEN, wants(lacks, 10 * MIB))[0].lacks is least
        assert descent.follow(Descent(), SEEN, wants(lacks, 10 * MIB, HELD))[0].lacks is least
    full = replace(wants(11 * MIB), waits="no room below")
    assert not descent.follow(Descent(), SEEN, full)[0].lacks
