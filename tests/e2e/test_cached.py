"""On a real kernel without swap, page cache that fills the slow node does not stop the exchange."""

import pytest

from tests.contract.sets import PAGE
from tests.e2e.boots import told
from tests.e2e.cached import HOT_BYTES, SLOW
from tests.e2e.inside import MIB
from tierd.sim import machine_model

pytestmark = pytest.mark.vm

# The kernel lets page cache fill a node until about so much is free.
FULL_BYTES = 64 * MIB

# What has gone down was meant for the slow node. Up to this share of it may have been copied to the
# node that it was on.
IN_VAIN_SHARE = 0.25


@pytest.mark.rare
@pytest.mark.parametrize("series", ["6.12", "7.2"])
def test_a_hot_set_comes_up_although_page_cache_fills_the_slow_node(series: str) -> None:
    facts = told(series, machine_model.load("two-tier"), "cached")
    before, after, moved = facts["before"], facts["after"], facts["moved"]
    assert before["free"] < FULL_BYTES
    assert before["files"] > 2 * HOT_BYTES
    assert facts["arrived"], facts
    assert facts["cold"].get(str(SLOW), 0) * PAGE >= HOT_BYTES / 2
    assert after["missed"] - before["missed"] <= IN_VAIN_SHARE * moved["demote"], facts
    # No more was dropped than the exchange asked for.
    assert 0 < moved["evict"] <= 2 * HOT_BYTES, facts
    assert facts["exit"] == 0
