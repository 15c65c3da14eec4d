"""Draws numbers by Zipf's law, permuted: those that are drawn often lie anywhere. Pure."""

import random
from bisect import bisect
from collections.abc import Callable
from itertools import accumulate

THETA = 0.99


def drawer(count: int, seed: int) -> Callable[[], int]:
    """Return a function that draws a number below `count`; rank r in proportion to 1 / r^0.99."""
    chance = random.Random(seed)
    sums = list(accumulate(rank**-THETA for rank in range(1, count + 1)))
    order = list(range(count))
    chance.shuffle(order)

    def draw() -> int:
        return order[min(count - 1, bisect(sums, chance.random() * sums[-1]))]

    return draw
