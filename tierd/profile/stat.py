"""How hot memory is, from what the kernel's module damon_stat exports. Pure.

It has 101 percentiles of the time for which memory was idle, and one figure for all touches
together. Like a sensor it counts regions. It does not say how the touches are spread over the
memory that is touched.
"""

from collections.abc import Sequence

from tierd.errors import TierdError
from tierd.frozen import dataclass
from tierd.profile.rates import CLASSES, HOTTEST, class_of

PERCENTILES = 101
MS_PER_S = 1000.0
# Memory that was idle for longer has class 0, as in a panel of a minute.
MINUTE_MS = 60_000
# No figure of the kernel has more digits.
DIGITS_MAX = 20


@dataclass(frozen=True, slots=True)
class Stat:
    """What damon_stat says at one moment."""

    idle_ms: tuple[int, ...]
    """The percentiles. Not above 0: in use. Newer kernels say for how long, as a negative time."""
    bytes_per_s: int
    """Each region that was touched in a sample counts as a whole."""


def parse(name: str, idle: str, bandwidth: str) -> Stat:
    """Return what the two files say; `name` is the folder, for errors."""
    words = idle.split(",")
    numbers = [_number(f"{name}/memory_idle_ms_percentiles", word) for word in words]
    if len(numbers) != PERCENTILES:
        raise TierdError(
            f"{name}/memory_idle_ms_percentiles: expected {PERCENTILES} numbers, "
            f"found {len(numbers)}"
        )
    total = _number(f"{name}/estimated_memory_bandwidth", bandwidth)
    if total < 0:
        raise TierdError(f"{name}/estimated_memory_bandwidth: expected no less than 0: {total}")
    return Stat(tuple(numbers), total)


def _number(path: str, text: str) -> int:
    word = text.strip()
    if len(word) > DIGITS_MAX or not word.removeprefix("-").isdecimal() or not word.isascii():
        raise TierdError(f"{path}: expected a number, found {word[:DIGITS_MAX]!r}")
    return int(word)


def says_nothing(stat: Stat) -> bool:
    """Return whether the module has not looked yet: all is zero, also what is never zero."""
    return not stat.bytes_per_s and not any(stat.idle_ms)


def classes(stats: Sequence[Stat], size_bytes: int) -> tuple[float, ...]:
    """Return the mean bytes in each class of `rates` on a machine of this size.

    In the first minute of damon_stat no memory was idle for a minute. So memory that nobody touches
    has class 1 or 2 then.
    """
    found = [0.0] * CLASSES
    for stat in stats:
        each = size_bytes / PERCENTILES / len(stats)
        touched = sum(one <= 0 for one in stat.idle_ms)
        # A region counts whole, so a byte has as many touches per second as its page.
        rate = stat.bytes_per_s / (touched / PERCENTILES * size_bytes) if touched else 0.0
        found[min(HOTTEST, max(1, class_of(rate)))] += each * touched
        for idle_ms in (one for one in stat.idle_ms if one > 0):
            found[0 if idle_ms >= MINUTE_MS else class_of(MS_PER_S / idle_ms)] += each
    return tuple(found)
