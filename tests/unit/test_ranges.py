from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierd.ranges import Range, Ranges, intersect, merge, subtract, total_bytes

PAGES = st.integers(0, 60)


@st.composite
def range_sets(draw: st.DrawFn) -> Ranges:
    pairs = draw(st.lists(st.tuples(PAGES, PAGES), max_size=6))
    return merge(Range(min(pair), max(pair) + 1) for pair in pairs)


def members(ranges: Ranges) -> set[int]:
    return {address for part in ranges for address in range(part.start, part.end)}


@given(range_sets())
def test_merged_ranges_rise_and_do_not_touch(ranges: Ranges) -> None:
    assert all(a.end < b.start for a, b in pairwise(ranges))


@given(range_sets(), range_sets())
def test_sets_behave_as_sets(left: Ranges, right: Ranges) -> None:
    assert members(intersect(left, right)) == members(left) & members(right)
    assert members(subtract(left, right)) == members(left) - members(right)
    assert members(merge((*left, *right))) == members(left) | members(right)
    assert total_bytes(left) == len(members(left))


@pytest.mark.parametrize(("start", "end"), [(5, 5), (5, 4), (-1, 4)])
def test_what_is_not_a_range_is_refused(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="not a range"):
        Range(start, end)
