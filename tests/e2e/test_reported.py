"""`tierd report --ab` on a real kernel where nothing is to be gained."""

import pytest

from tests.e2e import reported
from tests.e2e.boots import told
from tierd.sim import machine_model

pytestmark = pytest.mark.vm

# All memory that programs use fits on the fast node, so it serves every touch. Nobody waits for
# memory, and less than a page per second is read from a disk. So turns are alike, and their
# interval is far below a point: not to be able to tell would be wrong too.
#
# What kdamonds cost is not among them: a paused kdamond looks at no page, so there is a difference.
# It is a few ticks of 10 ms in a turn, and whether six turns are enough to show it is chance.
ALIKE = ("served", "pressure", "major_faults")


@pytest.mark.rare
def test_an_idle_machine_shows_no_difference() -> None:
    facts = told("7.2", machine_model.load("two-tier"), "reported")
    assert facts["status"] == 0, facts["said"]
    report = facts["report"]
    assert len(report["slices"]) == 2 * reported.PAIRS
    verdicts = {one["measure"]: one["verdict"] for one in report["differences"]}
    assert set(verdicts) >= {*ALIKE, "kdamonds"}, verdicts
    alike = {one: verdicts[one] for one in ALIKE}
    assert alike == dict.fromkeys(ALIKE, "no difference"), report
    # It has resumed tierd.
    assert (facts["state"], facts["exit"]) == ("active", 0)
