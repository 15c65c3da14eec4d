"""kill -9 at any moment: no quota is unlimited, and the next start or `restore` works."""

import pytest

from tests.e2e.boots import told
from tests.e2e.kills import KILLS
from tierd.sim import machine_model

pytestmark = pytest.mark.vm

MOVES = {"migrate_hot", "migrate_cold", "pageout"}


def test_a_kill_at_any_moment_leaves_nothing_unlimited_and_all_can_be_undone() -> None:
    facts = told("7.2", machine_model.load("two-tier"), "kills")
    kills = facts["kills"]
    assert len(kills) == KILLS
    # Some kills must fall while the kdamonds are made and some after, or the test proves nothing.
    assert any(-1 in kill["after"] for kill in kills if kill["nr"] != "0")
    assert any(kill["quotas"] for kill in kills)
    for kill in kills:
        assert kill["saved"] or kill["nr"] == "0", kill
        for action, quota, effective in kill["quotas"]:
            assert action in MOVES
            assert int(quota) > 0, kill
            assert int(effective) <= int(quota), kill
    for kill in kills[1::2]:
        assert kill["restored"] == 0
        assert kill["left"] == facts["neighbourhood_before"]
    growing = facts["growing"]
    assert {action for action, *_ in growing["grown"]} == MOVES
    assert growing["told"] == [0, "kdamonds with parked quotas until tierd is back: 0-1\n"]
    assert growing["pids"] == facts["pids_running"] == facts["pids_adopted"]
    assert -1 not in facts["pids_running"]
    assert facts["reason"] == "adopted as it runs"
    assert facts["diff"] == 0
    code, words = facts["restored"]
    assert code == 0
    assert "kdamonds removed" in words
    assert facts["neighbourhood_after"] == facts["neighbourhood_before"]
