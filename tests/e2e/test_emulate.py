"""tierd's emulation of the kernel's goals beside a kernel that has them."""

import pytest

from tests.e2e.boots import told
from tierd.plans.damon import PAGE_BYTES
from tierd.sim import machine

pytestmark = pytest.mark.vm

# The promise: so many windows, of which each look is one or more, and no further apart.
LOOKS_MIN = 60
APART_MAX = 0.01

# A quota of whole bytes says nothing about a percent below this. One window grows it by a tenth,
# and the two may be read on both sides of a window.
TELLING_BYTES = 200


def test_the_emulated_quota_follows_the_kernels_own() -> None:
    looks = told("6.18", machine.load("two-tier"), "emulate")["looks"]
    native, ours = ([look[who] for look in looks] for who in ("native", "ours"))
    # From a byte to beyond a page: the range in which nothing moves yet, and where it begins to.
    assert native[0] <= TELLING_BYTES
    assert native[-1] > PAGE_BYTES
    apart = [abs(b - a) / a for a, b in zip(native, ours, strict=True) if a >= TELLING_BYTES]
    assert len(apart) >= LOOKS_MIN
    assert max(apart) <= APART_MAX, looks
    small = [abs(b - a) for a, b in zip(native, ours, strict=True) if a < TELLING_BYTES]
    assert max(small) <= 2, looks
