"""The daemon gets a new configuration, or another program turns its kdamonds off."""

from itertools import pairwise

import pytest

from tests.e2e.boots import told
from tests.e2e.care import DEATHS
from tierd.sim import machine_model

pytestmark = pytest.mark.vm


def test_it_takes_good_configurations_refuses_bad_ones_and_revives_kdamonds() -> None:
    facts = told("7.2", machine_model.load("two-tier"), "care")
    running = facts["neighbourhood_running"]
    assert (running["demotion_enabled"], running["damon_stat"]) == ("true", "N")
    code, words = facts["second"]
    assert (code, "another tierd" in words) == (75, True)

    reloads = facts["reloads"]
    assert reloads["good"][0] == 0
    assert 0 < reloads["good"][2] < reloads["at_first"]
    code, words, quota = reloads["bad"]
    assert (code, quota) == (78, reloads["good"][2])
    assert "tierd.yaml:1:1:" in words
    assert "rate_limit" in words
    assert reloads["bad_by_signal"] == [reloads["good"][2], None, "active"]
    assert 0 < reloads["good_by_signal"] < reloads["good"][2]
    assert reloads["pids_after"] == reloads["pids"]

    deaths = facts["deaths"]
    assert len(deaths["died"]) >= DEATHS
    assert deaths["kdamonds"][0]["restarts_total"] == DEATHS
    assert [kdamond["up"] for kdamond in deaths["kdamonds"]] == [True, True]
    assert [kdamond["pid"] for kdamond in deaths["kdamonds"]] == deaths["pids"]
    # The first start comes at once, the next ones at least 1 s, 2 s, … after the one before.
    gaps = [later - sooner for sooner, later in pairwise(deaths["started"])]
    assert len(gaps) >= DEATHS - 1
    assert all(gap >= 2**number for number, gap in enumerate(gaps)), gaps
    assert "kdamond_died: of node 0" in deaths["text"]
    assert deaths["diff"] == 0

    assert facts["exit"] == 0
    assert facts["neighbourhood_after"] == facts["neighbourhood_before"]
    assert facts["bad_start"][0] == 78
