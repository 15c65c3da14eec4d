"""Numbers as damo reads them.

Rules of this file:
1. K, KB and KiB are all 1024 bytes, and so on: damo knows no powers of 1000.
2. A number without a unit is in the unit of its key; `min` is 0, and `max` is 2^64 - 1.
3. Commas between digits mean nothing. A time may have several parts: `1 m 30 s`.
4. A wrong text is a ValueError that says what was expected.
"""

import re
from fractions import Fraction

from tierd.configuration.yamltext import shown
from tierd.importing.foreign import MAX, Amount, Unit
from tierd.units import BP_MAX, ID_MAX

# 80 characters: the longest that damo writes is a time with six parts.
CHARACTERS_MAX = 80

_NUMBER = r"[0-9][0-9,]{0,40}(?:\.[0-9]{1,20})?"
_WITH_UNIT = re.compile(rf"({_NUMBER}) ?([A-Za-z_%]*)")

_BYTES = {"": 1, "B": 1} | {
    unit: 1024**power
    for power, letter in enumerate("KMGTPE", start=1)
    for unit in (letter, f"{letter}B", f"{letter}iB")
}
_NS = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}

PERCENT = Fraction(1, 100)
PERMIL = Fraction(1, 1000)
BP = Fraction(1, BP_MAX)


def size_bytes(text: str) -> int:
    """Return bytes: `4.000 KiB`, `200MB` (which is 200 MiB), `max`."""
    expected = "a size such as 4096, 4.000 KiB or max"
    value, unit = _quantity(text, expected)
    if unit not in _BYTES:
        raise ValueError(f"expected {expected}, found {shown(text)}")
    return min(MAX, int(value * _BYTES[unit]))


def duration_us(text: str, plain_us: int = 1) -> int:
    """Return microseconds, rounded down: `100 ms`, `1 m 30 s`, `max`; `plain_us` is the unit of a
    number without one."""
    expected = "a time such as 100 ms, 30 s or max"
    if text.strip() in ("min", "max"):
        return int(_quantity(text, expected)[0])
    parts = re.findall(rf"{_NUMBER} ?[A-Za-z_%]*", text) if len(text) <= CHARACTERS_MAX else []
    if not parts or "".join(parts).replace(" ", "") != text.replace(" ", ""):
        raise ValueError(f"expected {expected}, found {shown(text)}")
    ns = Fraction(0)
    for part in parts:
        value, unit = _quantity(part, expected)
        if unit not in _NS and (unit or len(parts) > 1):
            raise ValueError(f"expected {expected}, found {shown(text)}")
        ns += value * (_NS[unit] if unit else plain_us * 1000)
    return min(MAX, int(ns / 1000))


def duration_of_ms_us(text: str) -> int:
    """Return microseconds from a text whose plain number is milliseconds."""
    return duration_us(text, plain_us=1000)


def share(text: str, plain: Fraction) -> Fraction:
    """Return a share of one: `5 %`, `max`; `plain` is the unit of a number without one."""
    expected = "a percentage such as 5 %"
    value, unit = _quantity(text, expected)
    if unit not in ("", "%"):
        raise ValueError(f"expected {expected}, found {shown(text)}")
    return value * (PERCENT if unit else plain)


def share_bp(text: str) -> int:
    """Return basis points, rounded down; a plain number is basis points."""
    return int(share(text, BP) * BP_MAX)


def count(text: str) -> int:
    """Return a whole number: `1,000`, `max`."""
    expected = "a number such as 10 or 1,000"
    value, unit = _quantity(text, expected)
    if unit or value.denominator != 1:
        raise ValueError(f"expected {expected}, found {shown(text)}")
    return min(MAX, int(value))


def node_id(text: str) -> int:
    """Return the id of a node."""
    try:
        value = count(text)
    except ValueError:
        value = MAX
    if value > ID_MAX:
        raise ValueError(f"expected the id of a node, from 0 to {ID_MAX}, found {shown(text)}")
    return value


def accesses(text: str) -> Amount:
    """Return an access count: `5 %`, `3 samples`; a plain number is a percentage."""
    value, unit = _quantity(text, "accesses such as 5 % or 3 samples")
    if unit == "samples":
        return Amount(value, Unit.samples)
    # damo writes `max` as 18,446,744,073,709,551,615 %.
    return Amount(min(Fraction(1), share(text, PERCENT)), Unit.share)


def age(text: str) -> Amount:
    """Return an age: `30 s`, `10 aggr_intervals`; a plain number is microseconds."""
    if text.endswith("aggr_intervals"):
        value, _ = _quantity(text, "an age such as 10 aggr_intervals")
        return Amount(value, Unit.aggregations)
    return Amount(Fraction(duration_us(text)), Unit.us)


def switch(text: str) -> bool:
    """Return a switch in any spelling that damo takes."""
    known = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
    if text.lower() not in known:
        raise ValueError(f"expected true or false, found {shown(text)}")
    return known[text.lower()]


def _quantity(text: str, expected: str) -> tuple[Fraction, str]:
    bare = text.strip()
    if bare in ("min", "max"):
        return Fraction(0 if bare == "min" else MAX), ""
    match = _WITH_UNIT.fullmatch(bare) if len(bare) <= CHARACTERS_MAX else None
    if match is None:
        raise ValueError(f"expected {expected}, found {shown(text)}")
    return Fraction(match[1].replace(",", "")), match[2]
