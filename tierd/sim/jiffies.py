"""The clock of the kernel that advances once per jiffy. Quotas of bytes and of time use it."""

from random import Random

# CONFIG_HZ is 250 in Debian's kernels.
JIFFY_US = 4_000
_JIFFY_NS = JIFFY_US * 1000


def coarse_ns(work_ns: int, rng: Random) -> int:
    """Return the time on this clock: mostly 0, rarely a jiffy."""
    whole, rest = divmod(work_ns, _JIFFY_NS)
    return (whole + (rng.random() * _JIFFY_NS < rest)) * _JIFFY_NS
