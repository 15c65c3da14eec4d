"""tierd's emulation of the kernel's goals against a kernel that has them."""

import pytest

from tests.e2e.boots import told
from tierd.sim import machine

pytestmark = pytest.mark.vm

# The promise: so many windows, and no further apart.
WINDOWS_MIN = 60
APART_MAX = 0.01

# Below this a quota of whole bytes says nothing about a percent.
TELLING_BYTES = 200


def test_the_emulated_quota_follows_the_kernels_own() -> None:
    facts = told("6.18", machine.load("two-tier"), "emulate")
    native, ours = facts["kernel"], facts["emulated"]
    assert (native["tuner"], native["metric"]) == ("kernel", "node_mem_used_bp")
    assert (ours["tuner"], ours["metric"]) == ("emulated", "user_input")
    assert (native["exit"], ours["exit"]) == (0, 0)
    pairs = list(zip(native["values"], ours["values"], strict=False))
    assert len(pairs) >= WINDOWS_MIN
    apart = [abs(b - a) / a for a, b in pairs if a >= TELLING_BYTES]
    assert apart, pairs
    assert max(apart) <= APART_MAX, pairs
    # In the small values each is the same, or one beside it.
    assert all(abs(b - a) <= max(1, a * APART_MAX) for a, b in pairs), pairs
