"""`tierd report --ab` on a real kernel where nothing is to be gained."""

import pytest

from tests.e2e import reported
from tests.e2e.boots import told
from tierd.sim import machine_model

pytestmark = pytest.mark.vm

# The kdamonds are not among them: they cost something, and nothing while tierd is paused.
ALIKE = ("served", "pressure", "major_faults")


@pytest.mark.rare
def test_an_idle_machine_shows_no_difference() -> None:
    facts = told("7.2", machine_model.load("two-tier"), "reported")
    assert facts["status"] == 0, facts["said"]
    report = facts["report"]
    assert len(report["slices"]) == 2 * reported.PAIRS
    verdicts = {one["measure"]: one["verdict"] for one in report["differences"]}
    assert set(verdicts) >= {*ALIKE, "kdamonds"}, verdicts
    better = {one: verdicts[one] for one in ALIKE if verdicts[one] in ("better", "worse")}
    assert not better, report
    # It has resumed tierd.
    assert (facts["state"], facts["exit"]) == ("active", 0)
