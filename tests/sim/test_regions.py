"""The single steps on regions: nothing is lost, nothing overlaps, limits hold."""

from math import exp
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierd.sim.block_memory import BlockMemory
from tierd.sim.context_spec import Range
from tierd.sim.machine_model import load
from tierd.sim.memory import PageSet
from tierd.sim.regions import (
    Region,
    Sampler,
    count_ages,
    fitted,
    merge_similar,
    moving_accesses,
    split_at,
    split_randomly,
    split_to_limit,
)

PAGE = 4096


def covered(regions: list[Region]) -> list[tuple[int, int]]:
    """Return the ranges that the regions cover, joined."""
    ranges: list[tuple[int, int]] = []
    for region in regions:
        assert region.start < region.end
        start = region.start
        if ranges and ranges[-1][1] == start:
            start = ranges.pop()[0]
        assert not ranges or ranges[-1][1] < start
        ranges.append((start, region.end))
    return ranges


@st.composite
def region_lists(draw: st.DrawFn) -> list[Region]:
    at = 0
    found = []
    for gap, pages, accesses, last, age in draw(
        st.lists(
            st.tuples(
                st.integers(0, 2),
                st.integers(1, 500),
                st.integers(0, 20),
                st.integers(0, 20),
                st.integers(0, 1000),
            ),
            min_size=1,
            max_size=30,
        )
    ):
        at += gap * PAGE
        region = Region(at, at + pages * PAGE)
        region.nr_accesses, region.last_nr_accesses, region.age = accesses, last, age
        found.append(region)
        at = region.end
    return found


@given(region_lists(), st.integers(0, 20), st.integers(1, 2000))
def test_merging_covers_the_same_within_the_limit(
    regions: list[Region], threshold: int, limit_pages: int
) -> None:
    before = covered(regions)
    largest = max(region.size() for region in regions)
    bounds = min(r.nr_accesses for r in regions), max(r.nr_accesses for r in regions)
    merged = merge_similar(regions, threshold, limit_pages * PAGE)
    assert covered(merged) == before
    assert max(region.size() for region in merged) <= max(largest, limit_pages * PAGE)
    assert all(bounds[0] <= region.nr_accesses <= bounds[1] for region in merged)


@given(region_lists(), st.sampled_from([2, 3]), st.integers(0, 2**32), st.integers(1, 4))
def test_splitting_covers_the_same_in_more_pieces(
    regions: list[Region], pieces: int, seed: int, step: int
) -> None:
    before, count = covered(regions), len(regions)
    found = split_randomly(regions, pieces, PAGE, Random(seed), step=step)
    assert covered(found) == before
    assert count <= len(found) <= count * pieces
    assert all(region.size() % PAGE == 0 for region in found)


@given(region_lists(), st.integers(1, 300))
def test_splitting_to_a_limit(regions: list[Region], limit_pages: int) -> None:
    before = covered(regions)
    found = split_to_limit(regions, limit_pages * PAGE)
    assert covered(found) == before
    assert max(region.size() for region in found) <= limit_pages * PAGE


@given(region_lists(), st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=1))
def test_regions_are_fitted_to_ranges(regions: list[Region], parts: list[tuple[int, int]]) -> None:
    at = 0
    ranges = []
    for gap, pages in parts:
        at += gap * PAGE
        ranges.append(Range(at, at + pages * PAGE))
        at += pages * PAGE
    found = fitted(regions, ranges, PAGE)
    assert covered(found) == [(part.start, part.end) for part in ranges]


def test_what_is_split_off_knows_what_the_whole_knew() -> None:
    region = Region(0, 10 * PAGE)
    region.nr_accesses, region.last_nr_accesses, region.age, region.moving = 3, 4, 5, 6
    regions = [region]
    split_at(regions, 0, 3 * PAGE)
    rest = regions[1]
    assert (rest.start, rest.end) == (3 * PAGE, 10 * PAGE)
    assert (rest.nr_accesses, rest.last_nr_accesses, rest.age, rest.moving) == (3, 4, 5, 6)


def test_ages() -> None:
    def aged(now: int, last: int, *, zero_resets: bool) -> int:
        region = Region(0, PAGE)
        region.nr_accesses, region.last_nr_accesses, region.age = now, last, 7
        count_ages([region], 2, zero_resets=zero_resets)
        return region.age

    assert aged(5, 3, zero_resets=True) == 8
    assert aged(6, 3, zero_resets=True) == 0
    assert aged(0, 1, zero_resets=True) == 0
    assert aged(0, 1, zero_resets=False) == 8


@given(st.integers(0, 20), st.integers(0, 20), st.booleans())
def test_the_moving_sum_begins_at_the_last_window_and_ends_at_this_one(
    now: int, last: int, by_window: bool
) -> None:
    region = Region(0, PAGE)
    region.last_nr_accesses = last
    assert moving_accesses(region, 0, 20, by_window=by_window) == last
    region.nr_accesses = now
    assert moving_accesses(region, 20, 20, by_window=by_window) == now


@pytest.mark.parametrize(
    ("page_set", "share"),
    [
        (PageSet("warm", rate_hz=100.0), 0.5),
        (PageSet("warm", rate_hz=1_000.0), 1.0),
        (PageSet("warm", rate_hz=100.0, at_random=True), 1 - exp(-0.5)),
    ],
)
def test_samples_find_what_is_accessed(page_set: PageSet, share: float) -> None:
    memory = BlockMemory(load("two-tier"), Random(1))
    memory.add_set(page_set)
    memory.populate("warm", 4_000, [1])
    blocks = memory.find("warm", 4_000)
    start, end = blocks[0] * PAGE, (blocks[-1] + 1) * PAGE
    assert (end - start) // PAGE == 4_000
    sampler = Sampler(memory, Random(2))

    def mean(region_start: int, region_end: int) -> float:
        counts = []
        for _ in range(500):
            region = Region(region_start, region_end)
            sampler.check([region], 20, 5_000, 1)
            counts.append(region.nr_accesses)
        return sum(counts) / len(counts)

    assert mean(start, end) == pytest.approx(20 * share, rel=0.06)
    assert mean(start, end + (end - start)) == pytest.approx(10 * share, rel=0.06)
    assert mean(end, end + 100 * PAGE) == 0
