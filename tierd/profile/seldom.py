"""How often memory is touched that is touched seldom: less than a few times in a minute. Pure.

In one minute such a page shows one touch or none, by chance. Taken at its word, that minute says
that a few pages have all these touches, and the others none. But the panel also tells how much
memory was not touched for several minutes in a row. From that follows which rates it has: those
that make what was seen most likely (expectation and maximisation).
"""

from collections.abc import Sequence
from math import exp, inf

from tierd.profile.load import Heat
from tierd.profile.rates import BOUNDS_HZ

# The rates that memory may have, beside none at all: each is half of the one before. The first is
# that of pages that most minutes show, the last that of pages that one panel in two shows.
RATES_HZ = tuple(BOUNDS_HZ[0] / 2**step for step in range(7))

# More rounds change the shares by less than a panel of a thousand pages can tell.
ROUNDS = 100


def split(seen: Sequence[tuple[float, float]]) -> tuple[Heat, ...]:
    """Return memory by how often it is touched.

    `seen` has seconds, rising, and the bytes that were touched for the first time between the
    seconds before and these. The last seconds are infinite: bytes that were never touched.
    """
    rates = (*RATES_HZ, 0.0)
    total = sum(size for _, size in seen)
    likely = [
        [_untouched(rate, begin) - _untouched(rate, end) for rate in rates]
        for begin, (end, _) in zip((0.0, *(end for end, _ in seen)), seen, strict=False)
    ]
    sizes = [total / len(rates)] * len(rates)
    for _ in range(ROUNDS):
        after = [0.0] * len(rates)
        for (_, size), row in zip(seen, likely, strict=True):
            parts = [one * share for one, share in zip(sizes, row, strict=True)]
            whole = sum(parts)
            if size and whole:
                after = [one + size * part / whole for one, part in zip(after, parts, strict=True)]
        sizes = after
    return tuple(Heat(rate, size) for rate, size in zip(rates, sizes, strict=True))


def _untouched(rate_hz: float, seconds: float) -> float:
    """Return the share of pages of this rate that is not touched for so long."""
    if seconds == inf:
        return 0.0
    return exp(-rate_hz * seconds)
