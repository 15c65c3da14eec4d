"""Parses numbers and keywords that are written to files, as the kernel's kstrto*() functions do.

This follows lib/kstrtox.c with base 0. A number that begins with "0x" is hexadecimal, one that
begins with 0 is octal. The text may end in one newline and nothing else may follow. A number that
is too large is ERANGE; every other error is EINVAL.
"""

import re
from collections.abc import Sequence
from errno import EINVAL, ERANGE

from tierd.sim.file_tree import Refused

_ULONG_MAX = 2**64 - 1
_INT_MAX = 2**31 - 1
_UINT_MAX = 2**32 - 1
_LLONG_MAX = 2**63 - 1

# _parse_integer_fixup_radix(); the callers handle the sign.
_HEX = re.compile(r"0[xX]([0-9a-fA-F]+)")
_OCTAL = re.compile(r"0[0-7]*")
_DECIMAL = re.compile(r"[1-9][0-9]*")


def ulong(text: str) -> int:
    """Return a number from 0 to 2^64 - 1 (kstrtoul())."""
    return _unsigned(text.removeprefix("+"))


def uint(text: str) -> int:
    """Return a number from 0 to 2^32 - 1 (kstrtouint())."""
    return _within(ulong(text), 0, _UINT_MAX)


def u8(text: str) -> int:
    """Return an unsigned number of 8 bits (kstrtou8())."""
    return _within(_unsigned(text), 0, 255)


def integer(text: str) -> int:
    """Return a number from -2^31 to 2^31 - 1 (kstrtoint())."""
    if text.startswith("-"):
        return _within(-_unsigned(text[1:]), -_INT_MAX - 1, 0)
    return _within(_within(ulong(text), 0, _LLONG_MAX), 0, _INT_MAX)


def boolean(text: str) -> bool:
    """Return a boolean (kstrtobool()).

    Only the first letter counts, but in "on" and "off" the second one too.
    """
    first, second = text[:1].lower(), text[1:2].lower()
    if first in ("y", "t", "1", "e") or (first == "o" and second == "n"):
        return True
    if first in ("n", "f", "0", "d") or (first == "o" and second == "f"):
        return False
    raise Refused(EINVAL)


def boolean_before_6_16(text: str) -> bool:
    """Return a boolean as kstrtobool() did before it knew "enable" and "disable"."""
    if text[:1].lower() in ("e", "d"):
        raise Refused(EINVAL)
    return boolean(text)


def keyword(text: str, known: Sequence[str]) -> str:
    """Return the keyword. sysfs_streq() compares it, so that it may end in one newline."""
    word = text.removesuffix("\n")
    if word not in known:
        raise Refused(EINVAL)
    return word


def _unsigned(text: str) -> int:
    if match := _HEX.match(text):
        value = int(match[1], 16)
    elif match := _OCTAL.match(text):
        value = int(match[0], 8)
    elif match := _DECIMAL.match(text):
        value = int(match[0])
    else:
        raise Refused(EINVAL)
    if value > _ULONG_MAX:
        raise Refused(ERANGE)
    if text[match.end() :] not in ("", "\n"):
        raise Refused(EINVAL)
    return value


def _within(value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise Refused(ERANGE)
    return value
