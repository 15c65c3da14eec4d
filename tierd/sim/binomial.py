"""Draws from the binomial distribution: how many of some alike things are so. Pure."""

from math import log, log1p
from random import Random

# With a larger variance the normal distribution is as good.
_VARIANCE_MAX = 12.0


def drawn(rng: Random, trials: int, chance: float) -> int:
    """Return how many of `trials` are so, if each is with this probability."""
    if trials <= 0 or chance <= 0.0:
        return 0
    if chance >= 1.0:
        return trials
    if chance > 0.5:
        return trials - drawn(rng, trials, 1.0 - chance)
    variance = trials * chance * (1.0 - chance)
    if variance > _VARIANCE_MAX:
        found = round(rng.gauss(trials * chance, variance**0.5))
        return 0 if found < 0 else min(trials, found)
    # The number of trials up to the next that is so has a geometric distribution.
    found, at, scale = 0, 0, 1.0 / log1p(-chance)
    while True:
        # With next to no chance this may be more than any integer.
        between = log(1.0 - rng.random()) * scale
        if between >= trials - at:
            return found
        at += int(between) + 1
        found += 1
