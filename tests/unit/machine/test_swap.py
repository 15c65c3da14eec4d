"""Swap areas: the kernel's table."""

import pytest

from tierd.errors import TierdError
from tierd.machine.swap import SwapArea, has_backing, parse

HEADING = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
FILE = "/swap\\040file                           file\t\t524284\t\t1024\t\t-2\n"
ZRAM = "/dev/zram0                              partition\t2048\t\t0\t\t100\n"


def test_the_table_of_a_kernel() -> None:
    found = parse(HEADING + FILE + ZRAM)
    assert found == (
        SwapArea("/swap\\040file", 524284 << 10, 1024 << 10),
        SwapArea("/dev/zram0", 2048 << 10, 0),
    )
    assert [area.in_memory for area in found] == [False, True]


def test_swap_that_is_in_memory_itself_backs_nothing() -> None:
    assert not has_backing(parse(HEADING))
    assert not has_backing(parse(HEADING + ZRAM))
    assert has_backing(parse(HEADING + ZRAM + FILE))


@pytest.mark.parametrize("line", ["/swap file 1 2", "/swap file x 2 -1", "/swap file -1 2 -1"])
def test_a_line_that_no_kernel_writes(line: str) -> None:
    with pytest.raises(TierdError, match="proc/swaps"):
        parse(HEADING + line)
