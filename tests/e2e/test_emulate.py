"""tierd's emulation of the kernel's goals, compared with a kernel that has them."""

import pytest

from tests.e2e.boots import told
from tests.fixtures.pages import PAGE_BYTES
from tierd.sim import machine_model

# The promise: over this many windows the two quotas differ by no more than this. There is at least
# one window between two looks.
LOOKS_MIN = 60
APART_MAX = 0.01
# The bound in bytes for quotas too small for a percentage. A change of the free memory that one of
# the two sees a window later makes this much.
SMALL_APART_MAX = 4

# Quotas are whole bytes, so that below this a percentage means nothing. One window grows a quota by
# a tenth, and a window may end between the two reads.
TELLING_BYTES = 200

# Two looks have the same fill if they differ by no more than this, in 1/10000 of the node. When the
# fill changes, the two quotas may see it in different windows, and then stay apart. The emulation
# is not at fault there, so the looks before and after are compared separately.
SAME_FILL_BP = 40
STRETCH_MIN = 20


@pytest.mark.vm
def test_the_emulated_quota_follows_the_kernels_own() -> None:
    looks = told("6.18", machine_model.load("two-tier"), "emulate")["looks"]
    # From a byte to more than a page: first nothing can move, then something can.
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
    """Split the looks into stretches of the same fill, and return those that are long enough."""
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
