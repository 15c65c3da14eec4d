from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierd.ranges import Range, Ranges, intersect, merge, parse_iomem, subtract, total_bytes

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


IOMEM = """\
00000000-00000fff : Reserved
00001000-0009fbff : System RAM
00100000-1fffffff : System RAM
  01000000-01fffabc : Kernel code
  02200000-0227d0ff : Kernel data
  10000000-17ffffff : Crash kernel
100000000-13fffffff : Soft Reserved
  100000000-13fffffff : dax0.0
    100000000-137ffffff : System RAM (kmem)
140000000-147ffffff : System RAM (virtio_mem)
"""


def test_iomem_gives_whole_pages_that_programs_may_get_at_any_depth() -> None:
    assert parse_iomem(IOMEM, 4096) == (
        Range(0x1000, 0x9F000),
        Range(0x100000, 0x1000000),
        Range(0x2000000, 0x2200000),
        Range(0x227E000, 0x10000000),
        Range(0x18000000, 0x20000000),
        Range(0x100000000, 0x138000000),
        Range(0x140000000, 0x148000000),
    )


def test_iomem_hidden_from_the_unprivileged() -> None:
    assert parse_iomem("00000000-00000000 : System RAM\n", 4096) is None
