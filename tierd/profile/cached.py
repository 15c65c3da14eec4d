"""Which touches of memory never reach it, because caches of processors answer them. Pure.

A cache keeps what was touched last. So a page that is touched again within some time is still in
the caches, and this time is as long as it takes until other pages have filled them (Che's
approximation of caches that drop what was not used for longest). Nothing in a profile says how much
of each page programs use. So there are three answers: one as likely as any, and two for the ends of
what is common.
"""

from collections.abc import Sequence
from math import exp, inf

from tierd.profile.load import Heat

# The share of a page that is used while it is in a cache: 1/16 is four lines of 64 bytes in a page
# of 4 KiB, as in tables of pointers; all of it as where large values are read. The middle is the
# geometric mean.
USED_MIDDLE = 1 / 4
USED_ENDS = (1 / 16, 1.0)

# Halvings of the time: it is right to a millionth of the longest one.
HALVINGS = 60


def kept_s(heats: Sequence[Heat], cache_bytes: int, used: float) -> float:
    """Return for how long a page is in the caches after a touch; `inf` if all memory fits."""
    if not cache_bytes:
        return 0.0
    room = cache_bytes / used
    if sum(one.bytes for one in heats if one.rate_hz) <= room:
        return inf
    # No page is touched less often than the coldest one, so this is enough time.
    low, high = 0.0, 1.0
    while _filled(heats, high) < room:
        high *= 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _filled(heats, middle) < room else (low, middle)
    return high


def _filled(heats: Sequence[Heat], within_s: float) -> float:
    """Return how much memory is touched within a time."""
    return sum(one.bytes * (1 - exp(-one.rate_hz * within_s)) for one in heats)
