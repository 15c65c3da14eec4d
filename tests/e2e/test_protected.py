"""On a real kernel idle memory goes down although it is protected, but not if it is bound."""

from typing import Any

import pytest

from tests.contract.sets import PAGE
from tests.e2e.boots import told
from tests.e2e.protected import ARRIVED_SHARE, BOUND_BYTES, FAST, HOT_BYTES, IDLE_BYTES, SLOW
from tierd.sim import machine_model

pytestmark = [pytest.mark.vm, pytest.mark.rare]

# At least as much of the idle memory makes room as the hot set needs, less what else was free.
MOVED_BYTES = HOT_BYTES / 2

Facts = dict[str, Any]


@pytest.fixture(scope="module", params=["6.12", "7.2"])
def facts(request: pytest.FixtureRequest) -> Facts:
    found: Facts = told(request.param, machine_model.load("two-tier"), "protected")
    return {**found, "series": request.param}


def on(counts: Facts, node: int) -> int:
    return int(counts["anon"].get(f"N{node}", 0))


def test_the_kernel_alone_takes_memory_of_others(facts: Facts) -> None:
    """Reclaim heeds memory.min: what it may demote is other memory."""
    assert on(facts["before"], FAST) >= 0.95 * IDLE_BYTES
    assert on(facts["kernel"], SLOW) == on(facts["before"], SLOW)
    assert facts["kernel"]["other"][str(SLOW)] > 0


def test_with_tierd_idle_protected_memory_makes_room_for_hot_memory(facts: Facts) -> None:
    assert on(facts["after"], SLOW) >= MOVED_BYTES
    assert facts["after"]["hot"].get(str(FAST), 0) >= ARRIVED_SHARE * HOT_BYTES / PAGE


def test_what_a_cpuset_binds_stays(facts: Facts) -> None:
    assert facts["bound_before"] == {str(FAST): BOUND_BYTES // PAGE}
    assert facts["bound"] == facts["bound_before"]


def test_none_of_it_is_reclaimed(facts: Facts) -> None:
    after = facts["after"]
    assert after["counts"] == dict.fromkeys(after["counts"], 0)
    # 6.12 does not count pswpout for a cgroup.
    counted = {"pgsteal"} if facts["series"] == "6.12" else {"pswpout", "pgsteal"}
    assert counted <= after["counts"].keys()
    assert after["swap"] == 0
    assert after["current"] >= facts["before"]["current"]
    # Every page is on a node, and still holds what was written to it.
    assert sum(after["idle"].values()) * PAGE == IDLE_BYTES
    assert int(facts["checked"]) * PAGE == IDLE_BYTES
    assert facts["exit"] == 0
