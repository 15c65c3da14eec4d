"""A plan that is written for damo and imported again is the same plan."""

import json

import pytest

from tests.unit.importing.test_imported import config_of, planned
from tierd.importing import imported
from tierd.plans import damo_format

# damo knows no tuner of tierd's, so the goals are the kernel's.
GOALS = "tuner: kernel\n"


@pytest.mark.parametrize("machine", ["two-tier-6.18", "two-tier-7.2", "three-tier-7.2"])
@pytest.mark.parametrize(
    "settings",
    [
        "",
        "headroom: 2%\nrate_limit: 64MiB/s\n",
        "rate_limit: 100000007B/s\n",
        "cgroups: {hmsdk: {include: [/hmsdk]}}\n",
    ],
)
def test_a_plan_comes_back(settings: str, machine: str) -> None:
    plan = planned(config_of(GOALS + settings), machine)
    back = imported.read("p", json.dumps(damo_format.document(plan), indent=1))
    assert planned(config_of(GOALS + back.config), machine).writes == plan.writes
