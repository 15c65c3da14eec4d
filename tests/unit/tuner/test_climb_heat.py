"""When heat counts as risen: by its share of all heat, and beyond its usual swing."""

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.unit.tuner.test_climb import FULL, IDLE_S, JUDGED, USED, ended, taking, visited
from tests.unit.tuner.test_climb_rests import rests
from tierd.tuner import climb_heat, climbing
from tierd.tuner.climb import IDLE_PER_LAG
from tierd.tuner.climb_heat import CALM_S, HELPS_SHARE, WAKES_SHARE, WAKES_TIMES, ClimbHeat
from tierd.tuner.gain import Gain

TICK_S = 0.5


def read(before: ClimbHeat, readings: Iterable[tuple[float, float]]) -> tuple[ClimbHeat, bool]:
    """Return the heat after readings of both nodes, and whether it has risen. Then it stops."""
    now, has_risen = before, False
    for heat, above in readings:
        now, has_risen = climb_heat.feel(now, heat, above, TICK_S)
        if has_risen:
            break
    return now, has_risen


def felt(before: ClimbHeat, heat: float, above: float, seconds: float) -> tuple[ClimbHeat, bool]:
    """Return the heat after some seconds of the same readings, and whether it has risen."""
    return read(before, [(heat, above)] * round(seconds / TICK_S))


def calm(heat: float, above: float) -> ClimbHeat:
    """Return the heat some time after a round."""
    return felt(felt(ClimbHeat(), heat, above, CALM_S)[0].ended(), heat, above, CALM_S)[0]


def test_the_first_reading_is_the_average() -> None:
    first, has_risen = climb_heat.feel(ClimbHeat(), 30.0, 70.0, TICK_S)
    assert (first.lately, first.above, first.average_share) == pytest.approx((30, 70, 0.3))
    assert (first.swing, has_risen) == (0.0, False)
    nothing, _ = climb_heat.feel(ClimbHeat(), 0.0, 0.0, TICK_S)
    assert nothing.average_share == 0.0


def test_heat_that_has_gone_down_is_noticed() -> None:
    """Programs have turned to memory of the slow node."""
    now, has_risen = felt(calm(10.0, 90.0), 60.0, 40.0, 20.0)
    assert has_risen
    assert now.anew().calm is None


def test_before_a_round_is_over_nothing_has_risen() -> None:
    assert not felt(felt(ClimbHeat(), 10.0, 90.0, 60.0)[0], 90.0, 10.0, 60.0)[1]


def test_more_load_everywhere_is_no_rise() -> None:
    """Programs do more of the same: what is hot is hot still."""
    assert not felt(calm(30.0, 70.0), 1.9 * 30.0, 1.9 * 70.0, 60.0)[1]


def test_a_share_that_grows_because_the_fast_node_cools_is_no_rise() -> None:
    assert not felt(calm(30.0, 70.0), 30.0, 0.0, 60.0)[1]


def test_where_nothing_was_used_shares_say_nothing() -> None:
    now = calm(1.0, 0.0)
    assert now.calm_share == 1.0
    assert felt(now, 1.5 * WAKES_TIMES, 0.0, 60.0)[1]
    assert not felt(now, 0.9 * WAKES_TIMES, 0.0, 60.0)[1]


def test_readings_that_swing_as_usual_are_no_rise_after_a_new_round() -> None:
    """What is known of the swing stays when a climb begins anew, and from round to round."""
    chance = random.Random(1)
    now = ClimbHeat()
    rises = 0
    for tick in range(4 * 600):
        wave = 1 if (tick // 20) % 2 else -1
        both = 100.0 * chance.uniform(0.8, 1.2)
        share = 0.6 + 0.07 * wave
        now, has_risen = climb_heat.feel(now, share * both, (1 - share) * both, TICK_S)
        if tick % 40 == 0:
            now = now.ended()
        # It is learned in the first minute.
        rises += has_risen and tick * TICK_S > CALM_S
        now = now.anew() if has_risen else now
    assert rises == 0
    assert now.swing > 0.02


def test_a_fall_is_no_swing() -> None:
    """Rounds that help cool the node, and the next rise must be noticed as soon as before."""
    now = calm(60.0, 40.0)
    fallen, _ = felt(now, 10.0, 90.0, 30.0)
    assert fallen.swing == 0.0
    assert felt(fallen.ended(), 60.0, 40.0, 20.0)[1]


def test_a_rise_that_goes_on_is_no_usual_swing() -> None:
    now, _ = felt(felt(ClimbHeat(), 10.0, 90.0, 60.0)[0], 60.0, 40.0, 300.0)
    assert now.swing < 2 * WAKES_SHARE


def swings(
    before: ClimbHeat, share: float, seconds: float, rng: random.Random
) -> tuple[ClimbHeat, bool]:
    """Return the heat after readings that vary by chance, and whether it has risen."""
    drawn = (rng.gauss(share, 0.15) for _ in range(round(seconds / TICK_S)))
    below = (100 * min(1.0, max(0.0, one)) for one in drawn)
    return read(before, ((heat, 100 - heat) for heat in below))


@pytest.mark.parametrize("early_s", [0, 1, 3, 8])
def test_a_rise_is_noticed_two_minutes_after_the_start(early_s: int) -> None:
    """In a guest nothing came up for 100 s after a store had turned to other keys.

    The first reading finds nothing hot. And a round may end while heat is rising.
    """
    for seed in range(30):
        rng = random.Random(seed)
        begun, _ = swings(climb_heat.feel(ClimbHeat(), 0.0, 0.0, TICK_S)[0], 0.15, CALM_S, rng)
        steady, too_early = swings(begun.ended(), 0.15, CALM_S, rng)
        assert not too_early
        rising, has_risen = swings(steady, 0.59, early_s, rng)
        assert has_risen or swings(rising.ended(), 0.59, 30, rng)[1]


def test_a_round_that_ends_while_heat_rises_changes_nothing_in_what_is_calm() -> None:
    rising, has_risen = felt(calm(20.0, 80.0), 40.0, 60.0, 3.0)
    assert not has_risen
    assert rising.lately > 21 > rising.calm  # type: ignore[operator]
    after = rising.ended()
    assert (after.calm, after.calm_share) == (rising.calm, rising.calm_share)


@pytest.mark.parametrize(("falls_by", "lowers"), [(0.9, False), (1.1, True)])
def test_only_a_clear_fall_lowers_what_is_calm(falls_by: float, lowers: bool) -> None:
    """Else chance would lower it from round to round, and heat would seem to rise."""
    before = replace(calm(30.0, 70.0), calm=30.0, above=70.0)
    # Both nodes together have this heat after the fall.
    both = 100 / (1 + falls_by * HELPS_SHARE)
    after = replace(before, lately=both - 70.0).ended()
    assert (after.calm, after.calm_share) == (
        (both - 70.0, after.below_share) if lowers else (30.0, before.calm_share)
    )


def test_heat_that_rises_ends_a_rest() -> None:
    now = replace(list(rests(5))[-1], rounds_since_rise=3, gain=Gain(in_vain=True, rest_s=9.0))
    assert now.calm
    for _ in range(4):
        now, gates = climbing.step(now, visited(heat=100.0), USED, IDLE_S)
        assert not gates
    steps = 0
    while now.calm:
        now, _ = climbing.step(now, visited(heat=400.0), FULL, IDLE_S)
        steps += 1
        assert steps < 20
    assert now.stage_ends_s == 0
    assert now.heat.least is None
    assert now.idle_per_lag == IDLE_PER_LAG
    assert now.gain == Gain()


def test_heat_that_rises_is_noticed_while_there_is_no_room() -> None:
    """Then the idle time begins anew, and there will be room."""
    now = ended(replace(taking(), heat=JUDGED), heat=50.0)
    steps = 0
    while now.calm:
        now, _ = climbing.step(now, visited(heat=300.0), FULL, IDLE_S)
        steps += 1
        assert steps < 10


def test_heat_that_swings_as_usual_does_not_end_a_rest() -> None:
    now = list(rests(6))[-1]
    for step in range(40):
        heat = 100.0 + (15 if step % 2 else -15)
        now, _ = climbing.step(now, visited(heat=heat), FULL, IDLE_S)
        assert now.calm


def test_a_rise_does_not_make_itself_usual() -> None:
    """The share of the heat below goes from a third to six tenths within half a minute.

    It is slower than a step, so it would become a usual swing before it is far enough.
    """
    now, has_risen = calm(30.0, 70.0), False
    for second in range(30):
        below = 30.0 + second
        now, has_risen = felt(now, below, 100.0 - below, 1.0)
        if has_risen:
            break
    assert has_risen
    assert now.swing > 0
    assert now.swing_before == 0
