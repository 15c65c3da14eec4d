"""The slow node's memory leaves and comes back while tierd runs, and tierd follows."""

from dataclasses import replace

import pytest

from tests.contract.sets import PAGE
from tests.e2e.boots import told
from tests.e2e.hotplug import HOT_BYTES
from tierd.sim import machine_model

pytestmark = pytest.mark.vm

TWO_TIER = machine_model.load("two-tier")
FAST, SLOW = TWO_TIER.nodes
MACHINE = replace(TWO_TIER, nodes=(FAST, replace(SLOW, plugged=True)))

# Only memory that is brought online as movable can leave again.
APPEND = "memhp_default_state=offline"


def test_it_follows_memory_that_leaves_and_comes_back() -> None:
    facts = told("7.2", MACHINE, "hotplug", append=APPEND)
    for name in ("refused", "half_refused", "half_back_refused", "all_refused", "back_refused"):
        assert facts[name] == [], name

    assert facts["half"]["followed"]
    assert facts["half"]["state"] == "active"
    assert facts["half"]["slow_bytes"] < facts["half_back"]["slow_bytes"]
    assert facts["half_back"]["followed"]

    # Without a second tier there is nothing to do, and no scheme may aim at the node that left.
    assert facts["noticed"]
    assert "tier" in facts["gone"]["reason"]
    assert facts["gone_tree"] == "0"

    assert facts["back"]["followed"]
    assert facts["back"]["state"] == "active"
    assert facts["hot"].get("0", 0) >= 0.9 * HOT_BYTES / PAGE
    assert facts["exit"] == 0
    assert facts["neighbourhood_after"] == facts["neighbourhood_before"]
