"""Heat from damon_stat's figures, with answers worked out by hand."""

from dataclasses import replace

import pytest

from tests.unit.profile.test_from_profile import minute
from tests.unit.profile.test_profile import HEADER
from tierd.errors import TierdError
from tierd.profile import curve, from_profile, stat
from tierd.profile.load import Heat, Load
from tierd.profile.profile import Profile, Source
from tierd.profile.rates import CLASSES
from tierd.profile.stat import Stat

GIB = 1 << 30
# 21 of 101 are in use, 40 have been idle for 3 s, and 40 for an hour.
IDLE_MS = (*(-5000,) * 21, *(3000,) * 40, *(3_600_000,) * 40)
SIZE = 101 * GIB


def text(idle_ms: tuple[int, ...] = IDLE_MS) -> str:
    return ",".join(map(str, idle_ms)) + "\n"


def test_percentiles_become_classes() -> None:
    # 21 GiB, each page of them 2.8 times a second.
    found = stat.classes([Stat(IDLE_MS, int(2.8 * 21 * GIB))], SIZE)
    expected = [0.0] * CLASSES
    expected[0], expected[3], expected[5] = 40 * GIB, 40 * GIB, 21 * GIB
    assert found == pytest.approx(expected)


def test_older_kernels_say_zero_for_what_is_in_use() -> None:
    older = tuple(max(0, one) for one in IDLE_MS)
    touches = int(2.8 * 21 * GIB)
    assert stat.classes([Stat(older, touches)], SIZE) == pytest.approx(
        stat.classes([Stat(IDLE_MS, touches)], SIZE)
    )


def test_several_looks_are_averaged() -> None:
    idle = Stat((3_600_000,) * 101, 0)
    found = stat.classes([Stat(IDLE_MS, int(2.8 * 21 * GIB)), idle], SIZE)
    assert found[5] == pytest.approx(10.5 * GIB)
    assert sum(found) == pytest.approx(SIZE)


def test_the_files_are_read_as_the_kernel_writes_them() -> None:
    assert stat.parse("/p", text(), "1234\n") == Stat(IDLE_MS, 1234)
    assert stat.says_nothing(stat.parse("/p", text((0,) * 101), "0\n"))
    assert not stat.says_nothing(stat.parse("/p", text(), "0\n"))


@pytest.mark.parametrize(
    ("idle", "bandwidth", "complaint"),
    [
        (text(IDLE_MS[1:]), "1", "percentiles: expected 101 numbers, found 100"),
        (text().replace("3000", "3s"), "1", "percentiles: expected a number, found '3s'"),
        (text(), "", "bandwidth: expected a number, found ''"),
        (text(), "-1", "bandwidth: expected no less than 0"),
    ],
)
def test_other_texts_are_refused(idle: str, bandwidth: str, complaint: str) -> None:
    with pytest.raises(TierdError, match=complaint):
        stat.parse("/p", idle, bandwidth)


def test_regions_are_trusted_less_than_single_pages() -> None:
    """The interval reaches from heat that is level to heat that is in a few pages."""
    lines = (minute(0.25),)
    by_page = from_profile.work(Profile(HEADER, lines), "p")
    by_region = from_profile.work(
        Profile(replace(HEADER, source=Source.sensors, pages=0), lines), "p"
    )
    assert (by_page.doubt, by_page.level, by_page.dense) == ("", (), ())
    assert "Regions were counted" in by_region.doubt
    size = 24 * GIB
    sure, unsure = (curve.guess(one, 0.5, size, (0.5,)) for one in (by_page, by_region))
    assert unsure.low < sure.low - 0.1
    assert unsure.high > sure.high + 0.1


def test_level_heat_is_spread_over_what_is_not_surely_hot_and_not_surely_idle() -> None:
    load = Load((Heat(30.0, GIB), Heat(2.0, 3 * GIB), Heat(0.0, 9 * GIB)))
    assert from_profile.level(load, idle_is_sure=False).heats == (
        Heat(30.0, GIB),
        Heat(0.5, 12 * GIB),
    )
    assert from_profile.level(load, idle_is_sure=True).heats == load.heats
    assert from_profile.level(load, idle_is_sure=False).touches_hz == load.touches_hz


def test_dense_heat_has_the_same_touches_in_fewer_pages() -> None:
    load = Load((Heat(5.0, 10 * GIB), Heat(0.0, 10 * GIB)))
    found = from_profile.dense(load)
    assert found.heats == (Heat(50.0, GIB), Heat(0.0, 19 * GIB))
    assert found.touches_hz == load.touches_hz
