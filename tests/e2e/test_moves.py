"""`tierd run` without a configuration moves what it should, on each machine, and leaves no trace.

Each test boots one guest, and asks everything while one daemon runs.
"""

from typing import Any

import pytest

from tests.contract.sets import PAGE
from tests.e2e import moves
from tests.e2e.boots import told
from tests.e2e.moves import DEMOTED_PAGES_MIN
from tierd.sim import machine_model

pytestmark = pytest.mark.vm

RUNS = [
    # The test with an override, below, is on 6.12 too.
    pytest.param("6.12", "two-tier", marks=pytest.mark.rare),
    pytest.param("6.16", "two-tier", marks=pytest.mark.rare),
    pytest.param("6.18", "two-tier", marks=pytest.mark.rare),
    ("7.2", "two-tier"),
    pytest.param("7.3", "two-tier", marks=pytest.mark.rare),
    ("7.2", "three-tier"),
    pytest.param("7.2", "two-socket", marks=pytest.mark.rare),
]

# Statistics lag by a moment, and a page may move twice.
CLAIM_ERROR_MAX = 0.1


@pytest.mark.parametrize(("series", "name"), RUNS)
def test_it_moves_hot_up_and_cold_down_and_leaves_no_trace(series: str, name: str) -> None:
    facts = told(series, machine_model.load(name), "moves")
    check(facts)


@pytest.mark.rare
@pytest.mark.parametrize("series", ["6.18", "7.2"])
def test_so_do_the_kernels_own_goals(series: str) -> None:
    facts = told(series, machine_model.load("two-tier"), "moves", "--kernel-tuner")
    assert facts["tuner"]["loop"] == "kernel"
    check(facts)


def test_it_manages_a_hidden_slow_node_by_override() -> None:
    facts = told("6.12", machine_model.load("one-tier"), "moves", "--override")
    code, words = facts["without_override"]
    assert code == 69
    assert "tiers:" in words
    check(facts)


def check(facts: dict[str, Any]) -> None:
    check_moves(facts)
    check_claims(facts)
    check_diff(facts)
    check_status(facts)
    check_end(facts)


def check_moves(facts: dict[str, Any]) -> None:
    """Check the moves that the workload counted. Pages may have gone on to a still faster tier."""
    for source, _ in facts["ups"]:
        assert any(set(where) == {str(source)} for where in facts["placed"].values())
    ups = [(source, target) for source, target in facts["ups"]]
    assert moves.arrived(ups, facts["promoted"]["where"]), facts["promoted"]
    for source, target in facts["downs"]:
        way = facts["demoted"][f"{source}-{target}"]
        # From a node in the middle some pages go on to the next node.
        assert way["where"].get(str(source), 0) + DEMOTED_PAGES_MIN <= way["pages"], way
        assert way["where"].get(str(target), 0) >= DEMOTED_PAGES_MIN, way
        # The kernel's goals are slow on 6.16 and 6.18, which only have `consist`. A quota that has
        # grown shows that they work. The pages above moved with a goal far away (moves.FAR_GOAL).
        assert not facts["slow"] or way["grown"] > 1, way


def check_claims(facts: dict[str, Any]) -> None:
    """Check the totals of tierd: its schemes moved at least the workload's pages that left a node.

    They move hot and cold pages of other programs too. So the upper bound is the kernel's own count
    of all moves.
    """
    for source, target in facts["ups"]:
        passed = moves.passed_bytes(facts["ups"], facts["counted"], source)
        claimed = facts["claims"][f"promote-{source}-{target}"]
        assert claimed >= (1 - CLAIM_ERROR_MAX) * passed, facts["claims"]
    assert sum(facts["claims"].values()) <= facts["migrated"], facts["claims"]
    for source, target in facts["downs"]:
        way = facts["demoted"][f"{source}-{target}"]
        # From a node in the middle some pages go up instead, while there is room.
        gone = way["where"][str(target)] * PAGE
        assert facts["late_claims"][f"demote-{source}-{target}"] >= (1 - CLAIM_ERROR_MAX) * gone


def check_diff(facts: dict[str, Any]) -> None:
    tampered = facts["tampered"]
    assert facts["first_diff"] == 0
    assert tampered["before"] == [0, ""]
    code, words = tampered["after"]
    assert code == 5
    assert words.startswith(f"{tampered['file']}: expected ")
    assert len(words.splitlines()) == 1
    assert tampered["again"] == [0, ""]


def check_status(facts: dict[str, Any]) -> None:
    status = facts["status"]
    assert (status["schema"], status["state"]) == ("tierd.status/1", "active")
    assert all(kdamond["up"] for kdamond in status["kdamonds"])
    assert facts["status_text"].startswith("ACTIVE: ")
    for source, target in facts["ups"]:
        assert f"promote-{source}-{target}" in facts["status_text"]
    moving = [scheme for scheme in facts["quotas"] if scheme["action"] != "stat"]
    assert len(moving) == facts["schemes_that_may_move"]
    for scheme in moving:
        assert int(scheme["quotas/bytes"]) > 0
        assert int(scheme["quotas/effective_bytes"]) <= int(scheme["quotas/bytes"])


def check_end(facts: dict[str, Any]) -> None:
    assert facts["exit"] == 0
    assert facts["neighbourhood_after"] == facts["neighbourhood_before"]
    assert facts["neighbourhood_after"]["nr_kdamonds"] == "0"
    assert facts["neighbourhood_after"]["state"] is None
