"""tierd leaves the kdamonds of damo alone, unless the configuration tells it to take over."""

import pytest

from tests.e2e.boots import told
from tierd.sim import machine_model

pytestmark = pytest.mark.vm


def test_a_foreign_kdamond_is_never_touched_unless_it_may_be_taken_over() -> None:
    facts = told("7.2", machine_model.load("two-tier"), "foreign")
    for name, state in (("running", "on"), ("off", "off"), ("created", "off")):
        refused = facts[name]
        assert (refused["nr"], refused["state"]) == ("1", state)
        assert refused["code"] == 75, refused
        assert "DAMON is in use: kdamond 0" in refused["words"]
        assert "take_over" in refused["words"]
        assert refused["unchanged"], name
    assert "damo" in facts["running"]["words"]

    taken = facts["taken"]
    assert len(taken["theirs"]) == 1
    assert taken["theirs"][0] > 0
    assert len(taken["ours"]) == 2
    assert not set(taken["ours"]) & {*taken["theirs"], -1}
    assert taken["diff"] == 0
    assert "in place of 1 kdamonds of somebody else" in taken["reason"]
    assert facts["exit"] == 0
    assert facts["after"]["nr_kdamonds"] == "0"
    # It was off before tierd started.
    assert facts["after"]["damon_stat"] == "N"
