"""What comes up by page must be used more than what goes down, or it stops for a while."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierd.tuner import gain
from tierd.tuner.gain import (
    GAIN_MIN,
    PIECE_S_MIN,
    PIECE_SHARE,
    REST_S_MAX,
    REST_TIMES,
    Gain,
)

NODE = 1 << 30
PIECE = int(PIECE_SHARE * NODE)
TICK_S = 1.0


def moves(now: Gain, shares: Iterable[float], came_bytes: int) -> Gain:
    """Return the gain after one tick for each share, in which so much came up together."""
    listed = list(shares)
    for share in listed:
        now = gain.step(now, TICK_S, -(-came_bytes // len(listed)), share, NODE)
    return now


def piece(now: Gain, share: float, times: int = 1) -> Gain:
    """Return the gain after a piece in which so many eighths of the node came up."""
    return moves(now, [share] * round(PIECE_S_MIN), times * PIECE)


FIRST = piece(Gain(), 0.5)


def test_the_first_piece_says_nothing() -> None:
    assert Gain(before=FIRST.before) == FIRST
    assert FIRST.before is not None
    assert FIRST.before.average == pytest.approx(0.5)


@pytest.mark.parametrize("times", [1, 4])
def test_each_eighth_of_the_node_must_gain_its_share(times: int) -> None:
    enough = 0.5 + 1.01 * times * GAIN_MIN
    assert not piece(FIRST, enough, times).in_vain
    assert piece(FIRST, 0.5 + 0.99 * times * GAIN_MIN, times).in_vain


def test_a_piece_lasts_until_an_eighth_came_up_and_for_half_a_minute() -> None:
    slow = moves(FIRST, [0.5] * 10 * round(PIECE_S_MIN), PIECE // 2)
    assert not slow.in_vain
    assert slow.before == FIRST.before
    quick = moves(FIRST, [0.5] * (round(PIECE_S_MIN) - 1), 8 * PIECE)
    assert quick.before == FIRST.before
    assert gain.step(quick, TICK_S, 0, 0.5, NODE).in_vain


def test_rests_double_while_pieces_are_in_vain_and_begin_anew_after_one_that_gained() -> None:
    now, rests = FIRST, []
    for _ in range(5):
        now = piece(now, 0.5)
        rests.append(now.rest_s)
    first = REST_TIMES * PIECE_S_MIN
    assert rests == [first, 2 * first, 4 * first, REST_S_MAX, REST_S_MAX]
    gained = piece(now, 0.6)
    assert (gained.in_vain, gained.rest_s) == (False, 0.0)
    assert piece(gained, 0.6).rest_s == first


def test_moves_go_on_when_programs_turn_to_other_memory() -> None:
    """Less is served than before, by more than the readings vary."""
    after = piece(FIRST, 0.3)
    assert not after.in_vain
    assert after.before is not None
    assert after.before.average == pytest.approx(0.3)


def test_readings_that_vary_are_no_turn_to_other_memory() -> None:
    varies = [0.5, 0.7, 0.3] * 10
    before = moves(Gain(), varies, PIECE)
    assert moves(before, [0.48, 0.68, 0.28] * 10, PIECE).in_vain


@given(st.lists(st.floats(0, 1), min_size=1, max_size=200), st.integers(0, PIECE))
def test_a_rest_is_bounded(shares: list[float], came_bytes: int) -> None:
    now = Gain()
    for share in shares:
        now = gain.step(now, 10.0, came_bytes, share, NODE)
        assert 0 <= now.rest_s <= REST_S_MAX
        assert (now.rest_s > 0) or not now.in_vain
