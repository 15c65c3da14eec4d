"""Check values from the JSON files of tierd: type and bound. A wrong value is a ValueError.

Only tierd writes these files, but disks fail and people edit. The values are used in sums, names of
metrics and paths, and a wrong type there would fail far from its cause.
"""

import json
import math
from typing import Any

# As the kernel's counters: an unsigned long of 64 bits.
WHOLE_MAX = (1 << 64) - 1
# Seconds since the epoch of the year 33,658, or as much processor time.
SECONDS_MAX = 1e12
ENTRIES_MAX = 4_096
# The kernel's own bounds: PID_MAX_LIMIT of <linux/threads.h>, MAX_NUMNODES with NODES_SHIFT=10.
PID_MAX = 1 << 22
NODE_MAX = 1 << 10
NAME_CHARS_MAX = 256


def document(text: str | bytes) -> dict[str, Any]:
    """Return the JSON object of a text."""
    try:
        return table(json.loads(text), ENTRIES_MAX)
    except RecursionError as error:
        raise ValueError("lists within lists within lists") from error


def table(value: object, entries_max: int = ENTRIES_MAX) -> dict[str, Any]:
    if not isinstance(value, dict) or len(value) > entries_max:
        raise ValueError(f"expected an object of at most {entries_max} fields")
    return value


def rows(value: object, entries_max: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > entries_max:
        raise ValueError(f"expected a list of at most {entries_max} entries")
    return value


def whole(value: object, most: int = WHOLE_MAX) -> int:
    """Return a whole number from 0 up. JSON's `true` is not one."""
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"expected a whole number up to {most}")
    return value


def pid(value: object) -> int:
    return whole(value, PID_MAX)


def node(key: str) -> int:
    """Return the id of a node from a key, which is a text."""
    return whole(int(key), NODE_MAX)


def seconds(value: object) -> float:
    if type(value) not in (int, float) or not isinstance(value, int | float):
        raise ValueError("expected seconds")
    # An int may be too large for any float.
    if not 0 <= value <= SECONDS_MAX or math.isnan(value):
        raise ValueError(f"expected seconds up to {SECONDS_MAX:.0f}")
    return float(value)


def truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("expected true or false")
    return value


def text(value: object, chars_max: int) -> str:
    """Return a text that can be encoded. JSON can also spell surrogates, which cannot."""
    if not isinstance(value, str) or len(value) > chars_max:
        raise ValueError(f"expected text of at most {chars_max} characters")
    value.encode("utf-8")
    return value


def name(value: object) -> str:
    """Return the name of a scheme, an event, an errno or a file."""
    return text(value, NAME_CHARS_MAX)
