"""Steer a quota that can only be multiplied: find the input that brings it to the wanted bytes.

DAMON has no command to set a quota to a value. With a `user_input` goal each quota window
multiplies the quota by 2 - input / target: at most by two, and never below a byte
(damon_feed_loop_next_input()). This goes on until another input comes. On every kernel an input can
be committed without a change to the rest of the kdamond, so tierd uses inputs.

Rules of this file:
1. A quota grows for a counted number of windows, and then shrinks slowly. If tierd dies, most
   quotas shrink. `restore.park_quotas` handles the others.
2. A parked quota is below a page, so no kernel moves anything. A quarter of a page needs half as
   many doublings to a working rate as a byte does.
3. A quota may be far beyond its limit, and the kernel then shows the limit. Such a quota begins
   again at a byte, because shrinking it would leave it at its limit for too long.
"""

from math import ceil, log, log2

from tierd.frozen import dataclass
from tierd.plans.plan import TARGET

# A parked quota as a part of a page. If a late write causes one doubling too many, the quota is
# still below a page.
PARKED_PARTS = 4

# What a quota in use loses per window (1 %) if no new input comes. With windows of 100 ms it is
# half in 7 s, and a quota of 20 MB is below a page in 85 s.
DECAY = 100

# A quota is corrected if it is wrong by this share. This is twice what it loses between two ticks
# of half a second.
TOLERANCE = 0.1


# An input is written a little late, because the loop does other things too: on average by this
# share of a window.
LATE_WINDOWS = 0.25


@dataclass(frozen=True, slots=True)
class Input:
    """Write `value`, and after `windows` windows write `then`. With 0 windows `value` stays."""

    value: int
    then: int
    windows: int = 0

    def scheduled(self, since_s: float, window_s: float) -> "ScheduledInput":
        """Return what to write next, if this input was written at `since_s`."""
        return ScheduledInput(since_s + (self.windows - LATE_WINDOWS) * window_s, self.then)


@dataclass(frozen=True, slots=True)
class ScheduledInput:
    """An input, and when to write it."""

    at_s: float
    value: int


@dataclass(frozen=True, slots=True)
class InputInForce:
    """The input in the kernel (None if not known), and the quota at a moment.

    A quota at its limit goes on growing unseen, so this quota may be larger than the limit.
    """

    at_s: float
    quota_bytes: int
    value: int | None

    def quota_by(self, moment_s: float, window_s: float) -> int:
        """Return the quota at a later moment, if no other input is written."""
        windows = max(0.0, moment_s - self.at_s) / window_s
        return grown(self.quota_bytes, TARGET if self.value is None else self.value, windows)

    def read_as(self, quota_bytes: int, limit_bytes: int, at_s: float, window_s: float) -> int:
        """Return the quota that a reading stands for.

        A quota beyond its limit is read as the limit. It is then known by its input, if there is
        one.
        """
        if quota_bytes < limit_bytes:
            return quota_bytes
        if self.value is None:
            return BELIEVED_MAX_BYTES
        return max(quota_bytes, self.quota_by(at_s, window_s))


# A quota shrinks by at most this factor per window. If a stronger input stayed for a window too
# long, the quota would need ten windows to grow again.
SHRINK_MAX = 4

# Growth takes at least this many windows. An input may stay for one window too few or too many.
# With a single window the quota would then not grow at all, or grow by the square of the factor.
GROW_WINDOWS_MIN = 2

KEEP = Input(TARGET, TARGET)
FADE = Input(TARGET + DECAY, TARGET + DECAY)
RESET = Input(2 * TARGET, TARGET + DECAY, 1)
"""Takes any quota back to a byte in the next window."""

# The kernel keeps a quota in basis points of a byte, in 64 bits. So many doublings reach any quota.
BELIEVED_MAX_BYTES = (1 << 64) // 10_000
DOUBLINGS_MAX = 64


def grown(quota_bytes: int, value: int, windows: float) -> int:
    """Return a quota after some windows of an input, without the limit that the kernel shows."""
    factor = max(0.0, 2 - value / TARGET)
    if factor > 1:
        windows = min(windows, DOUBLINGS_MAX)
    times: float = factor**windows
    return min(BELIEVED_MAX_BYTES, max(1, round(quota_bytes * times)))


def throttle(quota_bytes: int, wanted_bytes: int, limit_bytes: int, page_bytes: int) -> Input:
    """Return the input that brings a quota to the wanted bytes. Less than a page parks it."""
    quota_bytes = max(1, quota_bytes)
    if quota_bytes > SHRINK_MAX * limit_bytes:
        return RESET
    parks, parked_bytes = wanted_bytes < page_bytes, page_bytes // PARKED_PARTS
    then = TARGET if parks else TARGET + DECAY
    ratio = (parked_bytes if parks else wanted_bytes) / quota_bytes
    if parks and parked_bytes / 2 < quota_bytes < page_bytes:
        return KEEP
    if not parks and abs(ratio - 1) <= TOLERANCE:
        return FADE
    if ratio > 1:
        windows = max(GROW_WINDOWS_MIN, ceil(log2(ratio)))
    else:
        windows = max(1, ceil(-log(ratio, SHRINK_MAX)))
    factor = ratio ** (1 / windows)
    return Input(max(0, round(TARGET * (2 - factor))), then, windows)
