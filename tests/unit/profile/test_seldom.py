"""How often memory is touched follows from how much of it was not touched for how long."""

from collections.abc import Sequence
from math import exp, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierd.profile import seldom
from tierd.profile.load import Heat, Load, ordered

GIB = float(1 << 30)
LOOKS_S = (60.0, 120.0, 240.0, 600.0)


def seen(memory: Sequence[Heat], looks_s: Sequence[float] = LOOKS_S) -> list[tuple[float, float]]:
    """Return what looks at these seconds show of memory that is touched at random."""
    found, before = [], 0.0
    for until in (*looks_s, inf):
        found.append((until, sum(one.bytes * _first(one.rate_hz, before, until) for one in memory)))
        before = until
    return found


def _first(rate_hz: float, begin: float, end: float) -> float:
    return exp(-rate_hz * begin) - (exp(-rate_hz * end) if end < inf else 0.0)


@pytest.mark.parametrize("rate_hz", [0.03, 0.01, 0.004, 0.0015])
def test_memory_of_one_rate_has_about_that_rate(rate_hz: float) -> None:
    found = ordered(seldom.split(seen([Heat(rate_hz, GIB)])))
    near = sum(one.bytes for one in found if rate_hz / 2.1 < one.rate_hz < rate_hz * 2.1)
    assert near > 0.9 * GIB


def test_memory_that_is_never_touched_is_cold() -> None:
    found = seldom.split(seen([Heat(0.0, 3 * GIB), Heat(0.03, GIB)]))
    cold = sum(one.bytes for one in found if not one.rate_hz)
    assert cold == pytest.approx(3 * GIB, rel=0.02)


@pytest.mark.parametrize("rate_hz", [0.02, 0.004, 0.002])
def test_touches_are_neither_lost_nor_found(rate_hz: float) -> None:
    memory = [Heat(rate_hz, GIB), Heat(rate_hz / 4, GIB), Heat(0.0, GIB)]
    found = sum(one.touches_hz for one in seldom.split(seen(memory)))
    assert found == pytest.approx(sum(one.touches_hz for one in memory), rel=0.1)


def test_one_minute_at_its_word_would_promise_too_much() -> None:
    """A gigabyte is touched each 250 s. A quarter of it then serves a quarter of the touches."""
    memory = [Heat(0.004, GIB)]
    shown = seen(memory)
    at_its_word = Load(ordered([Heat(0.03, shown[0][1]), Heat(0.0, GIB - shown[0][1])]))
    assert at_its_word.best(GIB / 4) == 1.0
    assert Load(ordered(seldom.split(shown))).best(GIB / 4) == pytest.approx(0.35, abs=0.1)


def test_a_short_record_says_what_it_can() -> None:
    """After four minutes nobody knows if the rest is touched at all."""
    memory = [Heat(0.01, GIB), Heat(0.0, GIB)]
    found = seldom.split(seen(memory, LOOKS_S[:3]))
    assert sum(one.touches_hz for one in found) == pytest.approx(0.01 * GIB, rel=0.25)
    assert sum(one.bytes for one in found if one.rate_hz < 0.002) == pytest.approx(GIB, rel=0.25)


def test_nothing_is_nothing() -> None:
    assert ordered(seldom.split([(60.0, 0.0), (inf, 0.0)])) == ()


@given(st.lists(st.floats(0, 1e12), min_size=5, max_size=5))
def test_no_memory_is_lost(sizes: list[float]) -> None:
    found = seldom.split(list(zip((*LOOKS_S, inf), sizes, strict=True)))
    assert all(one.bytes >= 0 for one in found)
    assert sum(one.bytes for one in found) == pytest.approx(sum(sizes), rel=1e-6, abs=1e-3)
