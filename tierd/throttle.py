"""Steers a quota that only multiplies: from the bytes wanted to the input that brings them about.

DAMON has no "set the quota to so much". With a `user_input` goal each quota window multiplies the
quota by 2 - input / target, at most doubling it and never below a byte
(damon_feed_loop_next_input()), and goes on doing so until another input comes. Such an input is
committed without touching anything else of the kdamond, on every kernel, so that is the handle.

Rules of this file:
1. Growth is given for a counted number of windows and then taken back, so that a tierd that dies
   leaves a quota that shrinks.
2. A quota at rest is below a page: no kernel moves anything by that, and a quarter of a page is
   half as many doublings from a rate as a byte is.
"""

from dataclasses import dataclass
from math import ceil, log2

from tierd.damon import PAGE_BYTES

TARGET = 10_000
"""The goal's target_value; an input of the same keeps the quota as it is."""
STOP = 2 * TARGET
"""From here on the kernel's law falls to its floor, one byte, at once."""

# One doubling too many, as a late writer makes it, is still below a page.
PARKED_BYTES = PAGE_BYTES // 4

# What a quota in use loses per window, unless somebody renews it: of windows of 100 ms half of it
# in 7 s, and the last page of a quota of 20 MB in 85 s.
DECAY = 100

# A quota is corrected when it is off by this much: twice what it loses between two ticks of 1 s.
TOLERANCE = 0.2


@dataclass(frozen=True, slots=True)
class Input:
    """Write `value`, and after so many windows `then`; 0 windows: `value` is to stay."""

    value: int
    then: int
    windows: int = 0


KEEP = Input(TARGET, TARGET)
FADE = Input(TARGET + DECAY, TARGET + DECAY)


def throttle(quota_bytes: int, wanted_bytes: int) -> Input:
    """What takes a quota from where it is to what is wanted; less than a page is none."""
    quota_bytes = max(1, quota_bytes)
    if wanted_bytes < PAGE_BYTES:
        return _park(quota_bytes)
    ratio = wanted_bytes / quota_bytes
    if abs(ratio - 1) <= TOLERANCE:
        return FADE
    return _change(ratio, TARGET + DECAY)


def _park(quota_bytes: int) -> Input:
    if quota_bytes >= PAGE_BYTES:
        return Input(STOP, STOP)
    if quota_bytes >= PARKED_BYTES / (1 + TOLERANCE):
        return KEEP
    return _change(PARKED_BYTES / quota_bytes, TARGET)


def _change(ratio: float, then: int) -> Input:
    windows = max(1, ceil(log2(ratio)))
    factor = ratio ** (1 / windows)
    return Input(min(STOP - 1, max(0, round(TARGET * (2 - factor)))), then, windows)
