"""Loads from profiles, with answers worked out by hand."""

import statistics
from dataclasses import replace
from random import Random

import pytest

from tests.unit.profile.test_profile import HEADER, LINE
from tierd.profile import curve, from_profile
from tierd.profile.load import Heat, Load
from tierd.profile.panel import LAGS, Kept
from tierd.profile.profile import Line, Profile, Source
from tierd.profile.rates import BOUNDS_HZ, CLASSES

GIB = 1 << 30


def minute(hot_share: float, minute: int = 0, minutes: int = 10) -> Line:
    """Return a line of which a share of the slow tier is in the class of 2.8 touches a second."""
    cold = (1.0, *(0.0,) * (CLASSES - 1))
    slow = [0.0] * CLASSES
    slow[0], slow[5] = 1 - hot_share, hot_share
    heat = (cold, tuple(slow))
    return replace(
        LINE, minute=minute, minutes=minutes, heat=heat, used=(0.5, 0.5), close=(),
        idle=(None,) * len(LAGS),
    )  # fmt: skip


def test_memory_in_use_that_is_not_touched_is_cold_and_free_memory_is_not_there() -> None:
    (stretch,) = from_profile.work(Profile(HEADER, (minute(0.25),)), "p").stretches
    load = stretch.load
    assert load.bytes == pytest.approx(128 * GIB)
    assert load.heats[-1].rate_hz == 0.0
    assert load.heats[-1].bytes == pytest.approx(80 * GIB)
    hot = [one for one in load.heats if one.rate_hz]
    assert sum(one.bytes for one in hot) == pytest.approx(48 * GIB)
    assert all(BOUNDS_HZ[3] < one.rate_hz < BOUNDS_HZ[4] for one in hot)


def test_memory_that_one_minute_does_not_show_is_not_cold() -> None:
    """Of 80 GiB in use that a minute does not show, half is touched within ten minutes."""
    line = minute(0.25)
    free = 0.5
    idle = tuple(free + share * GIB * 80 / (256 * GIB) for share in (0.9, 0.75, 0.5))
    (stretch,) = from_profile.work(
        Profile(HEADER, (minute(0.25), replace(line, idle=idle))), "p"
    ).stretches
    seldom = [one for one in stretch.load.heats if 0 < one.rate_hz < BOUNDS_HZ[0]]
    cold = sum(one.bytes for one in stretch.load.heats if not one.rate_hz)
    assert stretch.load.bytes == pytest.approx(128 * GIB)
    assert 40 * GIB < sum(one.bytes for one in seldom) < 80 * GIB
    assert cold < 40 * GIB


def test_the_calm_and_the_busy_part_of_a_day_are_two_stretches() -> None:
    lines = [minute(0.1, number * 10) for number in range(90)]
    lines += [minute(0.3, 900 + number * 10) for number in range(9)]
    lines.append(minute(0.5, 990))
    found = from_profile.work(Profile(HEADER, tuple(lines)), "p")
    assert [one.share for one in found.stretches] == pytest.approx([0.9, 0.09, 0.01])
    needs = [one.load.needed_bytes(1.0) / GIB for one in found.stretches]
    assert needs == pytest.approx([19.2, 57.6, 96.0])
    assert found.minutes == 1000


def test_a_steady_day_is_one_stretch() -> None:
    lines = tuple(minute(0.1 + 0.001 * (n % 3), n * 10) for n in range(144))
    assert len(from_profile.work(Profile(HEADER, lines), "p").stretches) == 1


@pytest.mark.parametrize(
    ("near", "piece"),
    [
        ((Kept(100, 12), Kept(100, 10), Kept(100, 9)), 0),
        ((Kept(100, 90), Kept(100, 12), Kept(100, 9)), 256 << 10),
        ((Kept(100, 90), Kept(100, 80), Kept(100, 9)), 4 << 20),
        ((Kept(100, 90), Kept(100, 80), Kept(100, 70)), 64 << 20),
        # Too few pairs to say anything.
        ((Kept(10, 10), Kept(100, 80), Kept(100, 70)), 0),
    ],
)
def test_pieces_are_as_large_as_hot_pages_have_hot_neighbours(
    near: tuple[Kept, ...], piece: int
) -> None:
    line = replace(LINE, hot=Kept(1000, 100), near=near)
    assert from_profile.piece_bytes([line]) == piece


def test_pages_of_64_kib_have_no_neighbours_within_64_kib() -> None:
    line = replace(LINE, hot=Kept(1000, 100), near=(Kept(), Kept(100, 80), Kept(100, 9)))
    assert from_profile.piece_bytes([line], 64 << 10) == 4 << 20
    assert from_profile.piece_bytes([line], 16 << 10) == 0


def test_where_most_pages_are_hot_a_hot_neighbour_says_little() -> None:
    line = replace(LINE, hot=Kept(1000, 900), near=(Kept(900, 850), Kept(), Kept()))
    assert from_profile.piece_bytes([line]) == 0


def test_drift_is_what_is_lost_after_the_first_minute() -> None:
    # A tenth is lost by chance at once, and then 2 % each minute.
    later = 900 * 0.98**8
    line = replace(LINE, lasting=(Kept(1000, 900), Kept(1000, 865), Kept(1000, round(later))))
    assert from_profile.drift_per_minute([line]) == pytest.approx(0.02, rel=0.02)
    steady = replace(LINE, lasting=(Kept(1000, 900), Kept(1000, 900), Kept(1000, 905)))
    assert from_profile.drift_per_minute([steady]) == 0.0


def test_drift_is_not_guessed_from_a_few_pages() -> None:
    line = replace(LINE, lasting=(Kept(40, 40), Kept(40, 1), Kept(40, 0)))
    assert from_profile.drift_per_minute([line]) == 0.0


def zipf_classes(pages: int, mean_hz: float, page_bytes: int = 4096) -> tuple[float, ...]:
    """Return the bytes in each class of a store of one value per page, by Zipf's law."""
    heats = [1 / (rank + 1) for rank in range(pages)]
    scale = pages * mean_hz / sum(heats)
    found = [0.0] * CLASSES
    for heat in heats:
        rate = heat * scale
        found[1 + sum(rate >= bound for bound in BOUNDS_HZ)] += page_bytes
    return tuple(found)


def test_the_curve_of_a_zipf_store_is_right_within_three_points() -> None:
    """Most touches are of pages that are too hot to be told apart: the tail follows the rest."""
    pages, mean_hz = 200_000, 1.0
    load = Load(from_profile.spread(zipf_classes(pages, mean_hz)))
    heats = [1 / (rank + 1) for rank in range(pages)]
    for share in (0.1, 0.25, 0.5, 0.75):
        truth = sum(heats[: int(pages * share)]) / sum(heats)
        assert load.best(share * pages * 4096) == pytest.approx(truth, abs=0.03)


def test_no_part_of_a_tail_is_less_than_a_page() -> None:
    """The hottest page of a store of 64 KiB pages is one page, and not 16 that are ever hotter."""
    pages, page_bytes, mean_hz = 12_500, 64 << 10, 1.0
    classes = zipf_classes(pages, mean_hz, page_bytes)
    heats = from_profile.spread(classes, page_bytes=page_bytes)
    assert min(one.bytes for one in heats if one.rate_hz > BOUNDS_HZ[-1]) >= page_bytes
    # As many pages of 4 KiB are a sixteenth of the memory, and as hot.
    small = from_profile.spread(zipf_classes(pages, mean_hz))
    assert [one.rate_hz for one in heats] == [one.rate_hz for one in small]
    # The same memory in 16 times as many pages has some that are hotter.
    assert from_profile.spread(classes)[0].rate_hz > heats[0].rate_hz
    header = replace(HEADER, page_bytes=page_bytes)
    line = replace(LINE, heat=(tuple(one / sum(classes) for one in classes),) * 2, close=())
    line = replace(line, used=(1.0, 1.0))
    sizes = replace(header, tier_bytes=(pages * page_bytes // 2,) * 2, pages=pages)
    (stretch,) = from_profile.work(Profile(sizes, (line,)), "p").stretches
    assert stretch.load.heats[0].rate_hz == pytest.approx(heats[0].rate_hz)


def test_hot_pages_that_no_panel_has_seen_follow_from_those_below() -> None:
    """Of the hottest hundred pages, which have half the touches, a panel sees one or none."""
    pages, seen = 200_000, 2000
    classes = zipf_classes(pages, 1.0)
    whole, part = sum(classes), 0.1
    heats = [1 / (rank + 1) for rank in range(pages)]
    truth = sum(heats[: int(part * pages)]) / sum(heats)
    off: dict[float, list[float]] = {0.0: [], whole / seen: []}
    for seed in range(20):
        panel = Random(seed).choices(range(CLASSES), classes, k=seen)
        shown = [whole / seen * panel.count(kind) for kind in range(CLASSES)]
        for each_bytes, found in off.items():
            load = Load(from_profile.spread(shown, each_bytes=each_bytes))
            found.append(abs(load.best(part * whole) - truth))
    blind, follows = (statistics.fmean(found) for found in off.values())
    assert follows < 0.06
    assert follows < 0.7 * blind


def test_where_enough_pages_were_seen_of_each_class_nothing_follows_from_others() -> None:
    classes = zipf_classes(200_000, 1.0)
    few = sum(classes) / 1e6
    assert from_profile.spread(classes, each_bytes=few) == from_profile.spread(classes)


def test_memory_that_is_used_alike_has_no_tail_whatever_was_seen() -> None:
    classes = (10.0 * GIB, 0.0, 0.0, 0.0, 90.0 * GIB, 1.0 * GIB, 0.0, 0.0, 0.0)
    assert from_profile.spread(classes, each_bytes=GIB / 10) == from_profile.spread(classes)


def test_memory_that_saturates_all_together_has_no_tail() -> None:
    classes = (100.0 * GIB, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 10.0 * GIB)
    load = Load(from_profile.spread(classes))
    assert [one.bytes / GIB for one in load.heats] == [10.0, 100.0]


def test_how_hot_the_hottest_memory_is_follows_from_the_closer_look() -> None:
    classes = (100.0 * GIB, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 10.0 * GIB)
    close = (0.9, 0.0, 0.0, 0.1, 0.0, 0.0, 0.0)
    load = Load(from_profile.spread(classes, close))
    assert [one.rate_hz for one in load.heats] == [120.0, 24.0, 0.0]
    assert [one.bytes / GIB for one in load.heats] == pytest.approx([1.0, 9.0, 100.0])
    # Without it 10 GiB might have 20 touches a second or many more.
    rates = [from_profile.spread(classes, tail=tail)[0].rate_hz for tail in (True, False)]
    assert rates == [80.0, 20.0]


def test_a_closer_look_at_a_few_pages_says_nothing() -> None:
    few = replace(LINE, close=(10, 0, 0, 0, 0, 0, 0))
    assert from_profile.close_shares([few]) == ()
    assert from_profile.close_shares([few, replace(LINE, close=()), few])[0] == 1.0


def test_beyond_the_closer_look_the_tail_goes_on() -> None:
    classes = (0.0,) * (CLASSES - 1) + (10.0 * GIB,)
    close = (0.3, 0.2, 0.15, 0.12, 0.1, 0.07, 0.06)
    heats = from_profile.spread(classes, close)
    assert heats[0].rate_hz > 2000
    assert sum(one.bytes for one in heats) == pytest.approx(10 * GIB)
    assert from_profile.spread(classes, close, tail=False)[0].rate_hz == 500.0


def test_that_the_tail_was_not_seen_widens_the_interval_downwards() -> None:
    slow = [0.0] * CLASSES
    slow[0], slow[6], slow[7], slow[8] = 0.9, 0.06, 0.03, 0.01
    line = replace(minute(0.25), heat=(tuple(slow), tuple(slow)), used=(1.0, 1.0))
    work = from_profile.work(Profile(HEADER, (line,)), "p")
    assert work.capped
    open_below = curve.guess(work, 0.8, 2 * GIB, (0.8,))
    seen = curve.guess(replace(work, capped=()), 0.8, 2 * GIB, (0.8,))
    assert open_below.low < seen.low - 0.1
    assert open_below.high == seen.high


def test_where_nothing_saturates_there_is_no_doubt_about_a_tail() -> None:
    assert not from_profile.work(Profile(HEADER, (minute(0.25),)), "p").capped


def test_only_the_hottest_memory_of_a_record_lies_in_pieces() -> None:
    """Half of the touches are of one class, and its whole class lies in pieces."""
    hot, warm, cold = Heat(30.0, GIB), Heat(3.0, 4 * GIB), Heat(0.0, 8 * GIB)
    load = Load((hot, Heat(20.0, GIB), warm, cold), 64 << 20, pieces_share=0.5)
    assert load.is_in_pieces() == (True, True, False, False)
    assert replace(load, pieces_share=1.0).is_in_pieces() == (True,) * 4
    # Most touches are of warm memory here, so it lies in pieces too.
    level = Load((Heat(30.0, GIB // 64), warm, cold), 64 << 20, pieces_share=0.5)
    assert level.is_in_pieces() == (True, True, False)


def test_regions_are_pieces_all_of_them() -> None:
    header = replace(HEADER, source=Source.sensors, pages=0)
    (stretch,) = from_profile.work(Profile(header, (minute(0.25),)), "p").stretches
    assert (stretch.load.piece_bytes, stretch.load.pieces_share) == (4 << 20, 1.0)
    (of_pages,) = from_profile.work(Profile(HEADER, (minute(0.25),)), "p").stretches
    assert of_pages.load.pieces_share == 0.5
