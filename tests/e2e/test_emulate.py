"""tierd's emulation of the kernel's goals beside a kernel that has them."""

import pytest

from tests.e2e.boots import told
from tierd.plans.damon import PAGE_BYTES
from tierd.sim import machine

# The promise: so many windows, of which each look is one or more, and no further apart.
LOOKS_MIN = 60
APART_MAX = 0.01
# Below what a percent can be said of, in bytes: as much as one fill seen a window late makes there.
SMALL_APART_MAX = 4

# A quota of whole bytes says nothing about a percent below this. One window grows it by a tenth,
# and the two may be read on both sides of a window.
TELLING_BYTES = 200

# The same fill, in 1/10000 of the node. A window that one of the two has seen with another fill
# sets them apart by as much, for good: that is the machine's doing, and what they did before and
# after is compared apart.
SAME_FILL_BP = 40
STRETCH_MIN = 20


@pytest.mark.vm
def test_the_emulated_quota_follows_the_kernels_own() -> None:
    looks = told("6.18", machine.load("two-tier"), "emulate")["looks"]
    # From a byte to beyond a page: the range in which nothing moves yet, and where it begins to.
    assert looks[0]["native"] <= TELLING_BYTES
    assert looks[-1]["native"] > PAGE_BYTES
    small = [look for look in looks if look["native"] < TELLING_BYTES]
    assert max(abs(look["ours"] - look["native"]) for look in small) <= SMALL_APART_MAX, looks
    telling = stretches([look for look in looks if look["native"] >= TELLING_BYTES])
    assert sum(map(len, telling)) >= LOOKS_MIN, looks
    for stretch in telling:
        ahead = [look["ours"] / look["native"] for look in stretch]
        assert max(abs(one / ahead[0] - 1) for one in ahead) <= APART_MAX, looks


def stretches(looks: list[dict[str, int]]) -> list[list[dict[str, int]]]:
    """Those on end with the same fill, as far as they are long enough to tell."""
    found: list[list[dict[str, int]]] = [[]]
    for look in looks:
        fills = [one["input"] for one in (*found[-1], look)]
        if max(fills) - min(fills) > SAME_FILL_BP:
            found.append([])
        found[-1].append(look)
    return [stretch for stretch in found if len(stretch) >= STRETCH_MIN]


def test_stretches_are_of_one_fill() -> None:
    looks = [
        {"native": 1, "ours": 1, "input": fill}
        for fill in (*[8000] * 30, *[8100] * 5, *[8000] * 25)
    ]
    assert [len(stretch) for stretch in stretches(looks)] == [30, 25]
