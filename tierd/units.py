"""Reads and formats sizes, rates, durations, percentages and lists of ids.

Reading is exact: without floats, with MB as 1000**2 and MiB as 1024**2. A quantity that is not
whole in its unit is refused. A refusal is a ValueError that says what was expected, with examples.
Formatting is for people, and rounds to three digits.
"""

import re
from collections.abc import Iterable

BYTES_PER_UNIT = {
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "tb": 1000**4,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
    "tib": 1024**4,
}
US_PER_UNIT = {
    "us": 1,
    "µs": 1,
    "ms": 1000,
    "s": 10**6,
    "min": 60 * 10**6,
    "m": 60 * 10**6,
    "h": 3600 * 10**6,
    "d": 86400 * 10**6,
}
BP_PER_PERCENT = 100
BP_MAX = 10000

# The kernel takes sizes and times as unsigned 64-bit numbers.
VALUE_MAX = 2**64 - 1
# The highest id of a node or processor. Kernels have at most 1,024 nodes and 8,192 processors; the
# bound keeps a mistyped "0-99999999999" from filling the memory.
ID_MAX = 65535

# Compiled at first use: most commands only format, and should start fast.
_NUMBER_AND_UNIT = r"([0-9]{1,20})(?:\.([0-9]{1,20}))? ?([a-zA-Zµ%]*)"
_ID_OR_SPAN = r"([0-9]{1,9})(?:-([0-9]{1,9}))?"


def parse_rate(text: str) -> int:
    """Return bytes per second: `200MB/s` is decimal, `64MiB/s` is binary."""
    expected = "a rate such as 200MB/s or 64MiB/s"
    size, slash, second = text.strip().rpartition("/")
    if not slash or second.strip() != "s":
        raise ValueError(f"expected {expected}, found {text!r}")
    return _quantity(size, BYTES_PER_UNIT, expected, "bytes")


def parse_size(text: str) -> int:
    """Return bytes. `64G` is 64 GiB, as memory is sold; `64GB` is decimal, as disks are."""
    short = {unit.removesuffix("ib"): size for unit, size in BYTES_PER_UNIT.items() if "i" in unit}
    return _quantity(text, BYTES_PER_UNIT | short, "a size such as 64G, 64GiB or 512MiB", "bytes")


def parse_duration_us(text: str) -> int:
    """Return microseconds from text such as `5ms`, `10s` or `1h`."""
    return _quantity(text, US_PER_UNIT, "a duration such as 5ms, 10s, 2min or 1h", "microseconds")


def parse_duration_ms(text: str) -> int:
    """Return milliseconds. A duration that is not whole in milliseconds is refused."""
    us = parse_duration_us(text)
    if us % 1000:
        raise ValueError(f"expected whole milliseconds, as in 5ms or 10s, found {text!r}")
    return us // 1000


def parse_percent(text: str) -> int:
    """Return basis points (1/10000): `0.5%` is 50."""
    bp = _quantity(text, {"%": BP_PER_PERCENT}, "a percentage such as 0.5% or 99.7%", "0.01% steps")
    if bp > BP_MAX:
        raise ValueError(f"expected a percentage from 0% to 100%, found {text!r}")
    return bp


def parse_ids(text: str) -> tuple[int, ...]:
    """Return node or processor ids, sorted, from a list such as `0-3,8`. Empty text has none."""
    ids: list[int] = []
    for part in text.strip().split(",") if text.strip() else ():
        match = re.fullmatch(_ID_OR_SPAN, part.strip())
        if match is None:
            raise ValueError(f"expected ids such as 0-3,8, found {text!r}")
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if last < first or last > ID_MAX:
            raise ValueError(
                f"expected rising ids up to {ID_MAX}, as in 0-3,8, found {part.strip()!r}"
            )
        ids.extend(range(first, last + 1))
        # Checked for each span, so that a list of many long spans ends early.
        if len(ids) > ID_MAX + 1:
            break
    if len(set(ids)) != len(ids):
        raise ValueError(f"expected each id once, as in 0-3,8, found {text!r}")
    return tuple(sorted(ids))


def format_ids(ids: Iterable[int]) -> str:
    """Return the ids in the kernel's list format: `0-3,8`."""
    spans: list[list[int]] = []
    for number in sorted(set(ids)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def format_size(size_bytes: int) -> str:
    """Return a size of memory in binary units: `1.5 GiB`."""
    return _scaled(size_bytes, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def format_rate(bytes_per_s: float) -> str:
    """Return a rate in decimal units, as in the configuration: `200 MB/s`."""
    return _scaled(bytes_per_s, 1000, ("B/s", "kB/s", "MB/s", "GB/s", "TB/s"))


def format_percent(bp: float) -> str:
    """Return basis points as a percentage: `99.7%`."""
    return f"{bp / BP_PER_PERCENT:.2f}".rstrip("0").rstrip(".") + "%"


def format_duration_us(us: int) -> str:
    """Return a duration, from one minute on in its two largest units: `3 h 5 min`, `1.5 s`."""
    if us < US_PER_UNIT["min"]:
        for unit in ("s", "ms"):
            if us >= US_PER_UNIT[unit]:
                return f"{_three_digits(us / US_PER_UNIT[unit])} {unit}"
        return f"{us} us"
    parts = []
    for unit in ("d", "h", "min", "s"):
        count, us = divmod(us, US_PER_UNIT[unit])
        parts.append((count, unit))
    first = next(index for index, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count)


def _quantity(text: str, units: dict[str, int], expected: str, whole: str) -> int:
    match = re.fullmatch(_NUMBER_AND_UNIT, text.strip())
    if match is None:
        raise ValueError(f"expected {expected}, found {text!r}")
    decimals, unit = match[2] or "", match[3].lower()
    number = int(match[1] + decimals)
    if not unit and number == 0:
        return 0
    if unit not in units:
        raise ValueError(f"expected {expected}, found {text!r}{_unit_advice(unit, units)}")
    scale: int = 10 ** len(decimals)
    value, part = divmod(number * units[unit], scale)
    if part:
        raise ValueError(f"expected {expected} that comes to whole {whole}, found {text!r}")
    if value > VALUE_MAX:
        raise ValueError(f"expected {expected} of less than 2^64 {whole}, found {text!r}")
    return value


def _unit_advice(unit: str, units: dict[str, int]) -> str:
    if not unit:
        return ", which has no unit"
    if f"{unit}ib" in units:
        letter = unit.upper()
        return f": {letter} can mean two things, write {letter}B (1000) or {letter}iB (1024)"
    return f", whose unit {unit!r} is none of {', '.join(_shown(units))}"


def _shown(units: dict[str, int]) -> list[str]:
    if "kib" not in units:
        return list(units)
    return [unit.upper().replace("IB", "iB").replace("KB", "kB") for unit in units]


def _scaled(value: float, base: int, units: tuple[str, ...]) -> str:
    scaled = float(value)
    for unit in units[:-1]:
        # A value that rounds up to the next unit is shown in that unit: 1023.9 KiB is 1 MiB.
        if round(abs(scaled)) < base:
            return f"{_three_digits(scaled)} {unit}"
        scaled /= base
    return f"{_three_digits(scaled)} {units[-1]}"


def _three_digits(value: float) -> str:
    decimals = max(0, 3 - len(str(int(abs(value)))))
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
