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
    TURNED,
    Gain,
    Reading,
)

NODE = 1 << 30
MIB = 1 << 20
PIECE = int(PIECE_SHARE * NODE)
TICK_S = 1.0
LATELY_S = 8.0


def reading(share: float, lately: float | None = None) -> Reading:
    return Reading(TICK_S, share, share if lately is None else lately, LATELY_S)


def moves(now: Gain, shares: Iterable[float], came_bytes: int) -> Gain:
    """Return the gain after one tick for each share, in which so much came up together."""
    listed = list(shares)
    average = sum(listed) / len(listed)
    for share in listed:
        now = gain.step(now, reading(share, average), -(-came_bytes // len(listed)), NODE)
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
    assert gain.step(quick, reading(0.5), 0, NODE).in_vain


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


def test_a_turn_to_other_memory_at_the_end_of_a_piece_is_seen() -> None:
    """The average of the piece hides it."""
    almost = moves(FIRST, [0.5] * (round(PIECE_S_MIN) - 1), PIECE)
    for lately, in_vain in ((0.5, True), (0.3, False)):
        assert gain.step(almost, reading(0.5, lately), MIB, NODE).in_vain is in_vain


def test_readings_that_vary_are_no_turn_to_other_memory() -> None:
    varies = [0.5, 0.7, 0.3] * 10
    before = moves(Gain(), varies, PIECE)
    assert moves(before, [0.48, 0.68, 0.28] * 10, PIECE).in_vain


def rests(now: Gain, shares: Iterable[float]) -> Gain:
    for share in shares:
        now = gain.rest(now, reading(share))
    return now


def test_a_rest_ends_when_less_is_served_than_chance_explains() -> None:
    varies = [0.5, 0.7, 0.3] * 10
    vain = moves(moves(Gain(), varies, PIECE), varies, PIECE)
    assert vain.in_vain
    assert vain.before is not None
    noise = 2**0.5 * vain.before.noise
    for less, turned in ((0.9 * TURNED * noise, False), (1.1 * TURNED * noise, True)):
        after = rests(vain, [share - less for share in varies])
        assert after.in_vain is not turned
        assert (after == Gain()) is turned
    # It is asked again and again, each time with new readings.
    calm = rests(vain, varies * 3)
    assert (calm.in_vain, calm.rest_s, calm.before) == (True, vain.rest_s, vain.before)
    assert rests(calm, [share - 0.3 for share in varies]) == Gain()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=200), st.integers(0, PIECE))
def test_a_rest_is_bounded(shares: list[float], came_bytes: int) -> None:
    now = Gain()
    for share in shares:
        now = gain.step(now, Reading(10.0, share, share, LATELY_S), came_bytes, NODE)
        assert 0 <= now.rest_s <= REST_S_MAX
        assert (now.rest_s > 0) or not now.in_vain
