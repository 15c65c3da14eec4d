"""Switches how memory waits in a guest with slow memory, and marks moments for its counters.

The plugin tests/vm/slow.c sees which lines of two pages a program touches.
"""

import ctypes
import mmap
from enum import IntEnum

from bench.errors import BenchError

# The same addresses as in slow.c: a page whose lines are marks, and a page whose lines are modes.
MARKS = 0x6D61_726B_0000
PAGE_BYTES = 4096
MODES = MARKS + PAGE_BYTES
LINE_BYTES = 64

MAP_FIXED_NOREPLACE = 0x100000


class Mode(IntEnum):
    """How accesses of user code wait for memory. The numbers are lines of the page of modes."""

    slow = 0
    """As the machine's figures say."""
    even = 1
    """On all nodes as on the fastest one."""
    off = 2
    """Not at all. The data of a program is filled in sooner."""


class Switch:
    """The two pages, in the memory of this process."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
            ctypes.c_long,
        ]  # fmt: skip
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_FIXED_NOREPLACE
        found = libc.mmap(MARKS, 2 * PAGE_BYTES, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if found != MARKS:
            raise BenchError(
                f"the pages of slow.c cannot be mapped at {MARKS:#x}: errno {ctypes.get_errno()}"
            )

    def set(self, mode: Mode) -> None:
        _touch(MODES + mode * LINE_BYTES)

    def mark(self, number: int) -> None:
        _touch(MARKS + number * LINE_BYTES % PAGE_BYTES)


def _touch(address: int) -> None:
    ctypes.c_char.from_address(address).value = b"\1"
