"""The heat above rises by what came up, if that is used there."""

from collections.abc import Iterable
from itertools import repeat
from random import Random

import pytest

from tierd.tuner import shown
from tierd.tuner.shown import SHOWN_MIN, Shown

MIB = 1 << 20
SET = 100 * MIB
PART = SET // 10


def after(rounds: Iterable[tuple[int, float]], seen: Shown | None = None) -> Shown:
    """Return what is seen after rounds of a second: what came up, and the heat above then.

    A half of the samples finds what waits in use.
    """
    seen = seen or Shown()
    for came, heat in rounds:
        seen = shown.step(seen, 1.0, came, SET, SET // 2, round(heat))
    return seen


def coming(share: float, *, delay: int = 0, rounds: int = 10) -> list[tuple[int, float]]:
    """Return rounds in which parts come up, of whose heat a share shows so many rounds later."""
    return [
        (PART * (second < rounds), share * PART / 2 * max(0, min(second + 1 - delay, rounds)))
        for second in range(-1, rounds + delay)
    ]


@pytest.mark.parametrize("delay", [0, 1, 2])
def test_what_comes_up_and_shows_above_is_used(delay: int) -> None:
    assert after(coming(1.0, delay=delay)).is_used


@pytest.mark.parametrize(("share", "used"), [(0.95, True), (1.05, False)])
def test_more_than_half_of_it_must_show(share: float, used: bool) -> None:
    part = SHOWN_MIN / share
    assert after([(0, 0.0), *coming(part)[1:]]).is_used is used


def test_heat_that_rises_without_what_came_is_no_use() -> None:
    assert not after([(PART, 0.0), *((0, 0.0),) * 30, *((0, second * PART) for second in range(9))
    ]).is_used  # fmt: skip


def test_what_came_explains_no_more_than_its_own_heat() -> None:
    """The heat above rises tenfold for another reason."""
    seen = after([(0, 0.0), (PART, 50 * PART)])
    assert seen.rose_bytes == PART / 2


def test_programs_that_turn_to_other_memory_do_not_hide_the_use() -> None:
    """Each set comes up, shows, and is then left for the next one. The averages stay the same."""
    turn = [*coming(1.0), *repeat((0, SET / 2), 8), *repeat((0, 0.0), 2)]
    seen = after(turn * 4)
    assert seen.is_used
    assert seen.rose_bytes > 3.5 * SET / 2


@pytest.mark.parametrize("rounds", [15, 30, 150])
def test_chance_is_hardly_ever_taken_for_use(rounds: int) -> None:
    """The heat above varies, whatever comes up. At worst the next check decides."""
    wrong = 0
    for seed in range(200):
        random = Random(seed)
        chances = ((PART, max(0.0, random.gauss(5, 1)) * PART) for _ in range(rounds))
        wrong += after(chances).is_used
    assert wrong <= 2


@pytest.mark.parametrize("rounds", [15, 60])
def test_heat_that_is_above_now_and_then_is_no_use(rounds: int) -> None:
    """It comes and goes by itself, while a little comes up all the time."""
    for period in (2, 3, 6, 12):
        came = ((PART, SET * (second % period < period / 2)) for second in range(rounds))
        assert not after(came).is_used


def test_where_nothing_came_nothing_is_used() -> None:
    assert not Shown().is_used
    assert not after(repeat((0, 0.0), 5)).is_used
