"""Reads numbers from the text of kernel files, and refuses text that is not a possible number.

A file may hold anything: a captured machine is a folder that somebody copied, and a new kernel may
write a file in a new way. The error names the file. It comes before the number is used.
"""

import re

from tierd.errors import TierdError
from tierd.units import VALUE_MAX, parse_ids

# Characters of a wrong text that an error shows.
SHOWN_MAX = 60

# The largest pid: pids are positive ints. The kernel writes -1 for no pid.
PID_MAX = 2**31 - 1

# The kernel writes no number above 2^64, which has 20 digits.
DIGITS_MAX = 20
_NEGATIVE = re.compile(r"-[0-9]{1,20}")
_HEXADECIMAL = re.compile(r"[0-9a-f]{1,16}")

# Pages and KiB of memory: 2^62 bytes in pages of 64 KiB, and in KiB. No machine has as much, and a
# sum of four such sizes still fits into 64 bits.
PAGES_MAX = 2**46
KIB_MAX = 2**52


class Garbled(TierdError):
    """A file holds text that is not what the kernel writes there."""

    def __init__(self, path: str, expected: str, found: str) -> None:
        shown = repr(found if len(found) <= SHOWN_MAX else f"{found[:SHOWN_MAX]}...")
        super().__init__(
            f"/{path}: expected {expected}, found {shown}",
            "the file is damaged, or this kernel writes it in a new way: please report it",
        )
        self.path = path


def number(path: str, text: str, least: int = 0, most: int = VALUE_MAX) -> int:
    """Return the number in the text of a file, if it is within the bounds."""
    # Most numbers have no sign, and this test is quicker than the pattern.
    plain = text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX
    if plain or _NEGATIVE.fullmatch(text):
        value = int(text)
        if least <= value <= most:
            return value
    raise Garbled(path, f"a number from {least} to {most}", text)


def hexadecimal(path: str, text: str, least: int, most: int) -> int:
    """Return the hexadecimal number, without a prefix, in the text of a file."""
    if _HEXADECIMAL.fullmatch(text):
        value = int(text, 16)
        if least <= value <= most:
            return value
    raise Garbled(path, f"a hexadecimal number from {least:x} to {most:x}", text)


def optional(path: str, text: str | None, least: int = 0, most: int = VALUE_MAX) -> int | None:
    """Return the number in a file that some kernels lack; None if the text is None."""
    return None if text is None else number(path, text, least, most)


def ids(path: str, text: str) -> tuple[int, ...]:
    """Return the list of nodes or processors in the text of a file."""
    try:
        return parse_ids(text)
    except ValueError:
        raise Garbled(path, "ids such as 0-3,8", text) from None
