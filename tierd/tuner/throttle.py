"""Steers a quota that only multiplies: from the bytes wanted to the input that brings them about.

DAMON has no "set the quota to so much". With a `user_input` goal each quota window multiplies the
quota by 2 - input / target, at most doubling it and never below a byte
(damon_feed_loop_next_input()), and goes on doing so until another input comes. Such an input is
committed without touching anything else of the kdamond, on every kernel, so that is the handle.

Rules of this file:
1. Growth is given for a counted number of windows and then taken back, so that a tierd that dies
   leaves, at most moments, a quota that shrinks; `aftermath` sees to the others.
2. A quota at rest is below a page: no kernel moves anything by that, and a quarter of a page is
   half as many doublings from a rate as a byte is.
3. A quota that may be far beyond its limit, which nobody can see, begins at a byte again: to be
   shrunk it would stay at its limit meanwhile.
"""

from dataclasses import dataclass
from math import ceil, log, log2

from tierd.plans.damon import PAGE_BYTES

TARGET = 10_000
"""The goal's target_value; an input of the same keeps the quota as it is."""

# One doubling too many, as a late writer makes it, is still below a page.
PARKED_BYTES = PAGE_BYTES // 4

# What a quota in use loses per window, unless somebody renews it: of windows of 100 ms half of it
# in 7 s, and the last page of a quota of 20 MB in 85 s.
DECAY = 100

# A quota is corrected when it is off by this much: twice what it loses between two ticks of half a
# second.
TOLERANCE = 0.1


@dataclass(frozen=True, slots=True)
class Input:
    """Write `value`, and after so many windows `then`; 0 windows: `value` is to stay."""

    value: int
    then: int
    windows: int = 0


# A quota shrinks by at most this factor per window, though it could at once: an input that stays
# for a window too long would else take all that it takes ten windows to grow again.
SHRINK_MAX = 4

# Growth takes at least so many windows: how many there are until it is taken back is one too few or
# too many now and then, and of a single one that is nothing or the square of what was wanted.
GROW_WINDOWS_MIN = 2

KEEP = Input(TARGET, TARGET)
FADE = Input(TARGET + DECAY, TARGET + DECAY)
RESET = Input(2 * TARGET, TARGET + DECAY, 1)
"""Back to a byte with the next window, from wherever it is."""

# The kernel keeps a quota in basis points of a byte, in 64 bits.
BELIEVED_MAX_BYTES = (1 << 64) // 10_000
DOUBLINGS_MAX = 64


def grown(quota_bytes: int, value: int, windows: float) -> int:
    """A quota after so many windows of an input, whatever its limit lets be seen of it."""
    factor = max(0.0, 2 - value / TARGET)
    if factor > 1:
        windows = min(windows, DOUBLINGS_MAX)
    times: float = factor**windows
    return min(BELIEVED_MAX_BYTES, max(1, round(quota_bytes * times)))


def throttle(quota_bytes: int, wanted_bytes: int, limit_bytes: int) -> Input:
    """What takes a quota from where it is to what is wanted; less than a page is none."""
    quota_bytes = max(1, quota_bytes)
    if quota_bytes > SHRINK_MAX * limit_bytes:
        return RESET
    parks = wanted_bytes < PAGE_BYTES
    then = TARGET if parks else TARGET + DECAY
    ratio = (PARKED_BYTES if parks else wanted_bytes) / quota_bytes
    if parks and PARKED_BYTES / 2 < quota_bytes < PAGE_BYTES:
        return KEEP
    if not parks and abs(ratio - 1) <= TOLERANCE:
        return FADE
    if ratio > 1:
        windows = max(GROW_WINDOWS_MIN, ceil(log2(ratio)))
    else:
        windows = max(1, ceil(-log(ratio, SHRINK_MAX)))
    factor = ratio ** (1 / windows)
    return Input(max(0, round(TARGET * (2 - factor))), then, windows)
