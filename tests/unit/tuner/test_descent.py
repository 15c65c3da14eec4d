"""A descent visits pages when room is wanted, and no page twice within the idle time."""

from dataclasses import replace

import pytest

from tierd.plans.plan import Sweep, Visit
from tierd.tuner import descent
from tierd.tuner.descent import (
    AHEAD_SHARE_MAX,
    CLOSE_SHARE,
    HURRY_MIN,
    IDLE_S_MIN,
    OLD,
    PIECE_SHARE,
    SHRINK_S,
    YIELD_ENOUGH,
    Descent,
    Piece,
    Wanted,
)
from tierd.tuner.gate import CLOSED, OPEN, YIELD_MIN, Seen

MIB = 1 << 20
ROUND = 500 * MIB
SPEED = 100 * MIB
SEEN = Seen(seconds=0.5, window_s=0.1, round_bytes=ROUND, bytes_per_s=SPEED)
HELD = "it is held"
SWEEP = Sweep(
    id="demote-pages-0-1",
    visit=Visit.demote,
    node=0,
    target_node=1,
    kdamond=0,
    scheme=0,
    quota_bytes=SPEED // 10,
    window_us=100_000,
    page_bytes=4096,
    round_bytes=ROUND,
    samples_per_s=0.0,
    gated=False,
)


def wants(lacks: float, least: float = 0, held: str = "") -> Wanted:
    return Wanted(lacks, least, beyond_bytes=ROUND, held=held)


def visited(size: int, gone: int = 0) -> Seen:
    return replace(SEEN, visited_bytes={Visit.demote: size}, moved_bytes={Visit.demote: gone})


def test_it_opens_when_enough_is_lacking_and_closes_when_nothing_is() -> None:
    for lacks, opens in ((0, False), (10 * MIB, False), (11 * MIB, True)):
        after, gate = descent.step(Descent(), SEEN, wants(lacks, 10 * MIB))
        assert gate.is_open is after.is_open is opens
    goes_on = Descent(is_open=True)
    assert descent.step(goes_on, SEEN, wants(MIB, 10 * MIB))[1].is_open
    assert descent.step(goes_on, SEEN, wants(0, 10 * MIB))[1] == CLOSED


def test_it_does_not_open_while_it_is_held() -> None:
    assert descent.step(Descent(), SEEN, wants(ROUND, held=HELD))[1] == CLOSED


def test_after_a_round_it_waits_for_the_idle_time() -> None:
    early = Descent(is_open=True, round_s=IDLE_S_MIN - 2, visited_bytes=ROUND - MIB)
    after, gate = descent.step(early, visited(MIB), wants(ROUND))
    assert (after.rounds, gate) == (0, CLOSED)
    late = replace(after, round_s=IDLE_S_MIN - SEEN.seconds)
    after, gate = descent.step(late, SEEN, wants(ROUND))
    assert (after.rounds, after.visited_bytes, after.round_s) == (1, 0, 0)
    assert gate.is_open


def test_it_closes_before_the_next_tick_if_the_room_will_be_made() -> None:
    known = Descent(yield_share=1.0)
    lacks = 30 * MIB
    _, gate = descent.step(known, SEEN, wants(lacks))
    assert not gate.then_open
    assert gate.after_s == pytest.approx(lacks / SPEED)
    assert descent.step(known, SEEN, wants(SPEED * SEEN.seconds))[1] == OPEN


def test_it_learns_how_much_of_what_it_visits_goes_down() -> None:
    now = Descent(yield_share=1.0)
    for _ in range(60):
        now, _ = descent.step(now, visited(50 * MIB, MIB), wants(ROUND))
    assert now.yield_share == pytest.approx(1 / 50, rel=0.05)
    _, gate = descent.step(Descent(yield_share=0.0), SEEN, wants(MIB / 2))
    assert gate.after_s == pytest.approx(MIB / 2 / (YIELD_MIN * SPEED))


LONG = replace(SEEN, round_bytes=1000 * ROUND)
AHEAD = IDLE_S_MIN * SPEED


def ahead(size: float) -> Seen:
    """Return what is seen where the sweep that clears is ahead by so much."""
    return replace(LONG, behind_bytes=size)


def cleared(age_s: float, size: float = AHEAD, **changes: object) -> Descent:
    """Return a descent that has cleared some memory so long ago."""
    base = Descent(is_open=True, clock_s=100.0, cleared=(Piece(size, 100.0 - age_s),))
    return replace(base, **changes)  # type: ignore[arg-type]


def test_on_a_large_node_it_follows_a_sweep_that_clears_by_the_idle_time() -> None:
    now, gates = descent.follow(Descent(), ahead(0), wants(ROUND))
    assert gates == {Visit.clear: OPEN, Visit.demote: CLOSED}
    seconds = 0.0
    while not now.follows:
        assert gates[Visit.demote] == CLOSED
        seconds += SEEN.seconds
        now, gates = descent.follow(now, ahead(seconds * SPEED), wants(ROUND))
        assert seconds < 2 * IDLE_S_MIN
    assert seconds == pytest.approx(IDLE_S_MIN, abs=2 * SEEN.seconds)
    assert gates[Visit.demote] == OPEN


def test_what_is_cleared_together_is_one_piece() -> None:
    now = Descent()
    for tick in range(1, 31):
        now, _ = descent.follow(now, ahead(tick * MIB), wants(ROUND))
    assert sum(one.bytes for one in now.cleared) == 30 * MIB
    assert len(now.cleared) <= 30 * SEEN.seconds / (PIECE_SHARE * IDLE_S_MIN)
    assert descent.follow(now, ahead(-MIB), wants(ROUND))[0].cleared == ()


def test_what_is_visited_is_taken_off_and_what_is_cleared_meanwhile_comes_last() -> None:
    follows = cleared(IDLE_S_MIN)
    seen = replace(ahead(AHEAD), visited_bytes={Visit.demote: MIB})
    now, _ = descent.follow(follows, seen, wants(ROUND))
    assert now.cleared == (replace(follows.cleared[0], bytes=AHEAD - MIB), Piece(MIB, now.clock_s))


def test_it_waits_again_when_what_comes_next_was_cleared_later() -> None:
    follows = replace(cleared(CLOSE_SHARE * IDLE_S_MIN), follows=True)
    pieces = (*follows.cleared, Piece(MIB, follows.clock_s))
    follows = replace(follows, cleared=pieces)
    now, gates = descent.follow(follows, ahead(AHEAD + MIB), wants(ROUND))
    assert gates[Visit.demote].is_open
    seen = replace(ahead(MIB / 2), visited_bytes={Visit.demote: round(AHEAD + MIB / 2)})
    now, gates = descent.follow(now, seen, wants(ROUND))
    assert gates[Visit.demote] == CLOSED
    assert now.cleared == (Piece(MIB / 2, pieces[1].at_s),)
    almost = cleared(IDLE_S_MIN - 1)
    assert not descent.follow(almost, ahead(AHEAD), wants(ROUND))[0].follows, "the whole idle time"


def test_no_more_is_cleared_than_the_room_needs() -> None:
    """What is cleared and not visited is idle for longer than it should be when it is visited."""
    little = AHEAD / 100
    now = cleared(0.0, yield_share=0.5)
    for behind, opens in ((0.0, True), (little, True), (2 * little, False)):
        gate = descent.follow(now, ahead(behind), wants(little))[1][Visit.clear]
        assert gate.is_open is opens
    gate = descent.follow(now, ahead(little), wants(little))[1][Visit.clear]
    assert gate.after_s == pytest.approx(little / SPEED)
    comes = replace(now, comes_bytes_per_s=SPEED)
    assert descent.follow(comes, ahead(2 * little), wants(little))[1][Visit.clear] == OPEN


def test_how_fast_pages_come_up_is_averaged_over_the_idle_time() -> None:
    """The climb runs for some seconds, and then its processor time is used up."""
    now, wanted = cleared(0.0), Wanted(ROUND, 0, comes_bytes_per_s=SPEED)
    for _ in range(round(IDLE_S_MIN / SEEN.seconds)):
        now, _ = descent.follow(now, ahead(AHEAD), wanted)
    assert now.comes_bytes_per_s == pytest.approx(0.63 * SPEED, rel=0.05)


def test_the_sweep_that_clears_waits_where_it_is_too_far_ahead() -> None:
    old = cleared(2 * IDLE_S_MIN, size=2 * AHEAD)
    _, gates = descent.follow(old, ahead(2 * AHEAD), wants(ROUND))
    assert gates == {Visit.clear: CLOSED, Visit.demote: OPEN}
    far = AHEAD_SHARE_MAX * LONG.round_bytes
    slow = cleared(0.0, idle_s=1e6, yield_share=0.0)
    _, gates = descent.follow(slow, ahead(far), wants(LONG.round_bytes))
    assert gates[Visit.clear] == CLOSED, "however long the idle time is"


def test_both_sweeps_are_closed_while_it_is_held() -> None:
    follows = cleared(IDLE_S_MIN, follows=True)
    after, gates = descent.follow(follows, ahead(AHEAD), wants(ROUND, held=HELD))
    assert gates == {Visit.clear: CLOSED, Visit.demote: CLOSED}
    assert not after.is_open


def test_what_is_cleared_is_visited_in_time_although_no_room_is_wanted_any_more() -> None:
    """Later, hardly any page of it would be untouched."""
    early = cleared(IDLE_S_MIN - 1)
    after, gates = descent.follow(early, ahead(AHEAD), wants(0))
    assert gates == {Visit.clear: CLOSED, Visit.demote: CLOSED}
    assert not after.is_open
    after, gates = descent.follow(cleared(IDLE_S_MIN), ahead(MIB), wants(0))
    assert gates[Visit.clear] == CLOSED
    assert (gates[Visit.demote].is_open, gates[Visit.demote].then_open) == (True, False)
    assert gates[Visit.demote].after_s == pytest.approx(MIB / SPEED)
    enough = Wanted(-ROUND, 0, beyond_bytes=ROUND)
    _, gates = descent.follow(cleared(IDLE_S_MIN), ahead(AHEAD), enough)
    assert gates[Visit.demote] == CLOSED, "so much room lies unused"


def test_what_was_cleared_long_ago_does_not_tell_what_the_idle_time_finds() -> None:
    seen = replace(ahead(AHEAD), visited_bytes={Visit.demote: MIB})
    for age_s, changes in ((IDLE_S_MIN, True), ((OLD + 1) * IDLE_S_MIN, False)):
        after, _ = descent.follow(cleared(age_s, size=2 * AHEAD), seen, wants(ROUND))
        assert (after.yield_share != Descent().yield_share) is changes


def test_rounds_are_counted_where_it_follows_too() -> None:
    last = Descent(is_open=True, follows=True, visited_bytes=LONG.round_bytes - MIB)
    seen = replace(ahead(AHEAD), visited_bytes={Visit.demote: MIB})
    after, _ = descent.follow(last, seen, wants(ROUND))
    assert (after.rounds, after.visited_bytes) == (1, 0)


@pytest.mark.parametrize(
    ("found", "is_long", "in_vain", "calm_s"),
    [
        (2 * YIELD_ENOUGH, True, False, 120.0),
        (0.8 * YIELD_ENOUGH, True, False, 100.0),
        (0.2 * YIELD_ENOUGH, True, False, 50.0),
        (0.0, True, True, 120.0),
        (0.0, False, False, 120.0),
    ],
)
def test_in_a_long_round_the_idle_time_grows_while_enough_goes_down(
    found: float, is_long: bool, in_vain: bool, calm_s: float
) -> None:
    before = Descent(calm_s=100.0, follows=True, yield_share=found)
    after = descent.calmed(before, SHRINK_S, is_long=is_long, in_vain=in_vain)
    assert after.calm_s == calm_s


def test_the_idle_time_does_not_shrink_while_nothing_is_visited() -> None:
    before = Descent(calm_s=100.0, yield_share=0.0)
    assert descent.calmed(before, 5.0, is_long=True, in_vain=False).calm_s == 100.0


def rounds(wanted: Wanted, count: int, moved: int = 0) -> Descent:
    """Return a descent after some rounds in which so much went down."""
    now = Descent(calm_s=400.0)
    for _ in range(count):
        now = replace(now, round_s=now.idle_s, visited_bytes=ROUND - MIB, made_bytes=moved)
        now, _ = descent.step(now, visited(MIB), wanted)
    return now


def test_if_no_page_is_idle_for_so_long_the_idle_time_shrinks() -> None:
    found = rounds(Wanted(20 * MIB, 10 * MIB), 2)
    assert (found.hurry, found.calm_s) == (1 / 4, 100.0)
    assert rounds(Wanted(20 * MIB, 10 * MIB), 9).hurry == HURRY_MIN


@pytest.mark.parametrize(
    ("wanted", "moved"),
    [
        (Wanted(20 * MIB, 10 * MIB), 30 * MIB),
        (Wanted(5 * MIB, 10 * MIB), 0),
        (Wanted(20 * MIB, 10 * MIB, helps=False), 0),
    ],
    ids=["enough", "little", "in vain"],
)
def test_the_idle_time_does_not_shrink_for_nothing(wanted: Wanted, moved: int) -> None:
    found = rounds(wanted, 3, moved)
    assert (found.hurry, found.calm_s) == (1.0, 400.0)


def test_with_room_there_is_no_hurry_after_some_time() -> None:
    now = Descent(hurry=HURRY_MIN)
    for _ in range(int(4 * IDLE_S_MIN / SEEN.seconds)):
        now, _ = descent.step(now, SEEN, Wanted(0, 10 * MIB))
    assert now.hurry == 1.0


@pytest.mark.parametrize(
    ("now", "wanted", "says"),
    [
        (Descent(visited_bytes=ROUND, round_s=IDLE_S_MIN - 3), wants(MIB), "waits 3 s: each page"),
        (Descent(visited_bytes=ROUND - MIB), wants(MIB), "no room wanted now"),
        (Descent(), wants(0, held=HELD), "node 0 has its room"),
        (Descent(), wants(MIB, held=HELD), HELD),
        (Descent(is_open=True), wants(MIB), "pages are cleared, and visited 8 s later"),
    ],
)
def test_it_says_why_it_is_closed(now: Descent, wanted: Wanted, says: str) -> None:
    assert says in descent.reason(now, SWEEP, wanted, CLOSED)
