"""How far the sweep that promotes is behind the one that clears."""

import pytest

from tierd.frozen import replace
from tierd.plans.plan import Visit
from tierd.tuner import climbing, distance
from tierd.tuner.climb import Climb, Stage
from tierd.tuner.climb_heat import ClimbHeat
from tierd.tuner.distance import (
    CLOSE_S,
    CORRECTED_SHARE,
    FAR,
    NEAR_SHARE,
    SLOWER_MAX,
)
from tierd.tuner.gate import CLOSED, OPEN, Room, Seen

MIB = 1 << 20
SPEED = 100 * MIB
ROUND = 1000 * MIB
LAG_S = 0.2
# Commits open its sweeps.
SEEN = Seen(seconds=0.5, window_s=0.02, round_bytes=ROUND, bytes_per_s=SPEED, gated=True)
ROOM = Room(0, total_bytes=500 * MIB, free_bytes=60 * MIB, floor_bytes=30 * MIB, headroom_bytes=0)
FULL = replace(ROOM, free_bytes=ROOM.floor_bytes)
IDLE_S = 8.0


def behind(behind_s: float, **changes: object) -> Seen:
    return replace(SEEN, behind_bytes=behind_s * SPEED, **changes)  # type: ignore[arg-type]


def taking(**changes: object) -> Climb:
    base = Climb(lag_s=LAG_S, stage=Stage.takes, yield_share=0.02, heat=ClimbHeat(100.0))
    return replace(base, **changes)  # type: ignore[arg-type]


def slower(seen: Seen) -> tuple[float, float]:
    """Return by which share the sweep that promotes is slower, and the one that clears."""
    gates = distance.kept(LAG_S, seen, promote=OPEN, clear=OPEN)
    assert all(gate.is_open and gate.then_open for gate in gates.values())
    return gates[Visit.promote].slower, gates[Visit.clear].slower


def test_the_sweep_that_is_too_far_ahead_becomes_slower() -> None:
    more_s = 0.1
    share = CORRECTED_SHARE * more_s / SEEN.seconds
    assert slower(behind(LAG_S + more_s)) == pytest.approx((0.0, share))
    assert slower(behind(LAG_S - more_s)) == pytest.approx((share, 0.0))


def test_a_distance_that_is_about_right_is_left_alone() -> None:
    for sign in (-1, 1):
        assert slower(behind(LAG_S * (1 + sign * 0.99 * NEAR_SHARE))) == (0.0, 0.0)
        assert slower(behind(LAG_S * (1 + sign * 1.01 * NEAR_SHARE))) != (0.0, 0.0)
    # A lag is a window at least, and so is the error of what is read.
    short = distance.kept(0.0, behind(1.9 * SEEN.window_s), promote=OPEN, clear=OPEN)
    assert set(short.values()) == {OPEN}


def test_no_sweep_nearly_stops() -> None:
    assert slower(behind(LAG_S + 0.99 * CLOSE_S, seconds=0.1)) == (0.0, SLOWER_MAX)


def test_where_goals_open_sweeps_none_becomes_slower() -> None:
    assert slower(behind(LAG_S + 0.9 * CLOSE_S, gated=False)) == (0.0, 0.0)


def test_where_a_round_takes_long_gates_are_exact_enough() -> None:
    seen = behind(LAG_S + 0.9 * CLOSE_S, is_long=True)
    assert slower(seen) == (0.0, 0.0)
    over = taking(cleared_bytes=ROUND)
    assert climbing.step(over, seen, ROOM, IDLE_S)[0].stage is Stage.drains


def test_gates_correct_what_is_more_than_they_are_late() -> None:
    assert slower(behind(LAG_S + 0.99 * CLOSE_S)) != (0.0, 0.0)
    assert slower(behind(LAG_S + 1.01 * CLOSE_S)) == (0.0, 0.0)
    # The one that clears waits until it is no more than FAR lags ahead.
    gates = distance.opened(LAG_S, behind(FAR * LAG_S + 1.1 * CLOSE_S), OPEN)
    assert not gates[Visit.clear].is_open
    assert gates[Visit.clear].after_s == pytest.approx(1.1 * CLOSE_S)
    # A lag that doubles to seconds is given by a gate too.
    before = taking(lap_s=60.0, lag_s=1.0)
    after, gates = climbing.step(before, behind(1.0), ROOM, 60.0)
    assert after.stage is Stage.clears
    assert not gates[Visit.promote].is_open


def test_both_open_together_only_if_the_lag_is_about_as_short() -> None:
    waiting = taking(stage=Stage.waits, lag_s=0.1 + 0.99 * CLOSE_S)
    after, _ = climbing.step(waiting, behind(0.1), ROOM, 60.0)
    assert after.stage is Stage.takes
    after, gates = climbing.step(
        replace(waiting, lag_s=0.1 + 1.01 * CLOSE_S), behind(0.1), ROOM, 60.0
    )
    assert after.stage is Stage.clears
    assert not gates[Visit.promote].is_open


def test_the_distance_comes_to_the_lag_and_stays() -> None:
    """Each correction takes effect a tick late."""
    at_s, told = 0.45, (0.0, 0.0)
    seen_s = []
    for _ in range(30):
        promote, clear = told
        told = slower(behind(at_s))
        at_s += (promote - clear) * SEEN.seconds
        seen_s.append(at_s)
    assert all(abs(one - LAG_S) <= NEAR_SHARE * LAG_S for one in seen_s[6:])
    assert min(seen_s) >= SEEN.window_s


def test_one_commit_opens_both_where_they_wait() -> None:
    waiting = taking(stage=Stage.waits)
    after, gates = climbing.step(waiting, behind(LAG_S), ROOM, IDLE_S)
    assert after.stage is Stage.takes
    assert gates == {Visit.promote: OPEN, Visit.clear: OPEN}


def test_without_a_distance_the_other_one_opens_later() -> None:
    """Else all that it visits was cleared a round ago, and looks young."""
    for seen in (behind(0.0), behind(0.9 * SEEN.window_s), behind(-0.1)):
        after, gates = climbing.step(taking(stage=Stage.waits), seen, ROOM, IDLE_S)
        assert after.stage is Stage.clears
        assert gates[Visit.clear] == OPEN
        assert not gates[Visit.promote].is_open


def test_one_commit_closes_both_when_there_is_no_room() -> None:
    after, gates = climbing.step(taking(), behind(LAG_S), FULL, IDLE_S)
    assert after.stage is Stage.waits
    assert gates == {Visit.promote: CLOSED, Visit.clear: CLOSED}
    # What lies between them will look young.
    after, _ = climbing.step(after, behind(LAG_S), FULL, IDLE_S)
    assert after.left_bytes == LAG_S * SPEED


def test_one_commit_closes_both_when_a_round_is_over() -> None:
    over = taking(cleared_bytes=ROUND)
    after, gates = climbing.step(over, behind(LAG_S), ROOM, IDLE_S)
    assert (after.stage, after.rounds) == (Stage.rests, over.rounds + 1)
    assert gates == {Visit.promote: CLOSED, Visit.clear: CLOSED}


def test_what_is_far_apart_drains() -> None:
    seen = behind(1.5 * CLOSE_S)
    over = taking(cleared_bytes=ROUND)
    after, gates = climbing.step(over, seen, ROOM, IDLE_S)
    assert after.stage is Stage.drains
    assert gates[Visit.clear] == CLOSED
    assert gates[Visit.promote].is_open


def test_a_longer_lag_makes_the_sweep_that_promotes_slower() -> None:
    """It is not closed for that: to open it again takes a commit more."""
    before = taking(lap_s=60.0)
    after, gates = climbing.step(before, behind(LAG_S), ROOM, IDLE_S)
    assert after.stage is Stage.takes
    assert after.lag_s > before.lag_s
    assert gates[Visit.promote].slower > 0
    assert gates[Visit.promote].is_open


def test_both_close_at_once_before_the_next_tick_if_room_will_be_used_up() -> None:
    tight = replace(ROOM, free_bytes=ROOM.floor_bytes + MIB)
    _, gates = climbing.step(taking(yield_share=0.5), behind(LAG_S), tight, IDLE_S)
    assert gates[Visit.promote] == gates[Visit.clear]
    assert gates[Visit.promote].is_open
    assert not gates[Visit.promote].then_open
    assert 0 < gates[Visit.promote].after_s < SEEN.seconds


def test_without_speeds_the_one_that_clears_waits_until_the_other_is_near() -> None:
    far_s = 0.1
    seen = behind(FAR * LAG_S + far_s, gated=False)
    gates = distance.opened(LAG_S, seen, OPEN)
    assert gates[Visit.promote] == OPEN
    assert not gates[Visit.clear].is_open
    assert gates[Visit.clear].then_open
    assert gates[Visit.clear].after_s == pytest.approx(far_s)
    soon_closed = replace(OPEN, then_open=False, after_s=0.1)
    assert distance.opened(LAG_S, seen, soon_closed) == {
        Visit.promote: soon_closed,
        Visit.clear: CLOSED,
    }
    assert distance.opened(LAG_S, behind(LAG_S, gated=False), soon_closed) == {
        Visit.promote: soon_closed,
        Visit.clear: soon_closed,
    }
