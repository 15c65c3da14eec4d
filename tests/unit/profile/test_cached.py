"""What caches answer, against a cache that really drops what was not used for longest."""

from collections import OrderedDict
from dataclasses import replace
from math import inf
from random import Random

import pytest

from tierd.profile import cached, curve, from_profile
from tierd.profile.load import Heat, Load, Stretch, Work, ordered
from tierd.profile.panel import Kept
from tierd.profile.profile import Header, Line, Profile, Source
from tierd.profile.rates import CLASSES

PAGE = 4096
GIB = 1 << 30
# 8 pages that are touched all the time, 100 that are hot, 4,000 that are lukewarm.
HEATS = (Heat(400.0, 8 * PAGE), Heat(8.0, 100 * PAGE), Heat(0.5, 4_000 * PAGE))


def missed(heats: tuple[Heat, ...], room_pages: int, touches: int) -> list[float]:
    """Return the touches of each heat that a cache of whole pages misses, as a share of all."""
    pages = [(kind, number) for kind, heat in enumerate(heats) for number in range(count(heat))]
    weights = [heats[kind].rate_hz for kind, _ in pages]
    cache: OrderedDict[tuple[int, int], None] = OrderedDict()
    found = [0] * len(heats)
    for number, page in enumerate(Random(1).choices(pages, weights, k=touches)):
        if page in cache:
            cache.move_to_end(page)
            continue
        cache[page] = None
        if len(cache) > room_pages:
            cache.popitem(last=False)
        # At first the cache is empty.
        if number >= touches // 2:
            found[page[0]] += 1
    return [one / (touches - touches // 2) for one in found]


def count(heat: Heat) -> int:
    return round(heat.bytes / PAGE)


@pytest.mark.parametrize("room_pages", [16, 64, 256, 1024])
def test_what_is_missed_is_what_a_cache_misses(room_pages: int) -> None:
    load = Load(HEATS, cached_s=cached.kept_s(HEATS, room_pages * PAGE, 1.0))
    truth = missed(HEATS, room_pages, 100_000)
    for heat, share in zip(HEATS, truth, strict=True):
        said = load.reaches_hz(heat.rate_hz) * heat.bytes / load.touches_hz
        assert said == pytest.approx(share, abs=0.01)


def test_the_less_of_a_page_is_used_the_more_pages_a_cache_holds() -> None:
    whole, quarter = (cached.kept_s(HEATS, 64 * PAGE, used) for used in (1.0, 0.25))
    assert quarter == pytest.approx(cached.kept_s(HEATS, 256 * PAGE, 1.0))
    assert quarter > whole


def test_no_caches_keep_nothing_and_large_ones_all() -> None:
    assert cached.kept_s(HEATS, 0, 1.0) == 0.0
    assert Load(HEATS).reach_hz == Load(HEATS).touches_hz
    assert cached.kept_s(HEATS, 4_108 * PAGE, 1.0) == inf
    assert Load(HEATS, cached_s=inf).reach_hz == 0.0
    assert Load(HEATS, cached_s=inf).best(PAGE) == 1.0


def test_fast_memory_is_for_what_reaches_memory() -> None:
    load = Load(HEATS, cached_s=cached.kept_s(HEATS, 64 * PAGE, 1.0))
    # The 8 hottest pages have half of all touches, and next to none that reach memory.
    assert Load(HEATS).best(8 * PAGE) == pytest.approx(0.53, abs=0.01)
    assert load.best(8 * PAGE) < 0.03
    assert load.needed_bytes(load.best(108 * PAGE)) == pytest.approx(108 * PAGE)


def profile(cache_bytes: int) -> Profile:
    """Return an hour in which 64 MiB of 4 GiB have most touches, and 1 GiB is lukewarm."""
    heat = [0.0] * CLASSES
    heat[-1], heat[3], heat[0] = 1 / 64, 1 / 4, 1 - 1 / 64 - 1 / 4
    line = Line(0, 60, (tuple(heat),), (1.0,), hot=Kept(1000, 16))
    return Profile(Header(Source.panel, 0.0, (4 * GIB,), 1000, cache_bytes), (line,))


def test_a_profile_of_a_machine_with_caches_asks_for_more_fast_memory() -> None:
    size = 128 << 20
    without, with_caches = (from_profile.work(profile(one), "w") for one in (0, 32 << 20))
    assert without.cached == ()
    assert len(with_caches.cached) == 2
    # Caches of 32 MiB hold a quarter of each page of 128 MiB.
    assert with_caches.best(size) < 0.5 < 0.8 < without.best(size)


def test_the_interval_holds_what_both_ends_of_use_would_be_served() -> None:
    work = from_profile.work(profile(16 << 20), "w")
    share = work.best(curve.USABLE * 256e6)
    found = curve.guess(work, share, 256e6)
    narrow = curve.guess(replace(work, cached=()), share, 256e6)
    ends = [Work("", one).best(curve.USABLE * 256e6) for one in work.cached]
    assert min(ends) < share < max(ends)
    assert found.low < min(min(ends), narrow.low)
    assert found.high > max(narrow.high, max(ends))


def test_a_draw_of_a_panel_keeps_what_caches_answer() -> None:
    load = Load(ordered(HEATS), cached_s=0.5)
    work = Work("w", (Stretch(load, 1.0),), pages=1000)
    no_caches = replace(work, stretches=(Stretch(replace(load, cached_s=0.0), 1.0),))
    size = 108 * PAGE / curve.USABLE
    assert curve.sampling_error(work, size) != curve.sampling_error(no_caches, size)
