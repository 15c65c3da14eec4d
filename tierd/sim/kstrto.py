"""Numbers and words as the kernel reads them from a written value, and refuses them.

After lib/kstrtox.c with base 0: "0x" is hexadecimal and a leading 0 octal, one newline may end
the text, nothing else may follow, and what does not fit is ERANGE rather than EINVAL.
"""

import re
from collections.abc import Sequence
from errno import EINVAL, ERANGE

from tierd.sim.tree import Refused

_ULONG_MAX = 2**64 - 1
_INT_MAX = 2**31 - 1
_UINT_MAX = 2**32 - 1
_LLONG_MAX = 2**63 - 1

# _parse_integer_fixup_radix(): the sign is the caller's.
_HEX = re.compile(r"0[xX]([0-9a-fA-F]+)")
_OCTAL = re.compile(r"0[0-7]*")
_DECIMAL = re.compile(r"[1-9][0-9]*")


def ulong(text: str) -> int:
    """kstrtoul(): 0 to 2^64 - 1."""
    return _unsigned(text.removeprefix("+"))


def uint(text: str) -> int:
    """kstrtouint(): 0 to 2^32 - 1."""
    return _within(ulong(text), 0, _UINT_MAX)


def integer(text: str) -> int:
    """kstrtoint(): -2^31 to 2^31 - 1."""
    if text.startswith("-"):
        return _within(-_unsigned(text[1:]), -_INT_MAX - 1, 0)
    return _within(_within(ulong(text), 0, _LLONG_MAX), 0, _INT_MAX)


def boolean(text: str) -> bool:
    """kstrtobool(): the first letter counts, and the second of "on" and "off"."""
    first, second = text[:1].lower(), text[1:2].lower()
    if first in ("y", "t", "1", "e") or (first == "o" and second == "n"):
        return True
    if first in ("n", "f", "0", "d") or (first == "o" and second == "f"):
        return False
    raise Refused(EINVAL)


def boolean_before_6_16(text: str) -> bool:
    """kstrtobool() before it knew "enable" and "disable"."""
    if text[:1].lower() in ("e", "d"):
        raise Refused(EINVAL)
    return boolean(text)


def keyword(text: str, known: Sequence[str]) -> str:
    """sysfs_streq() against each: one newline may end the word."""
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
