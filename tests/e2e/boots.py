"""Boots a guest for a scenario and returns the facts that it told."""

import json
from typing import Any

from tests.contract.guests import workload
from tests.vm import guest
from tierd.sim.machine import Machine

# A scenario takes half a minute to two on an idle machine; this is for one with much else to do.
SCENARIO_S_MAX = 600.0


def told(series: str, machine: Machine, scenario: str, *words: str, append: str = "") -> Any:
    argv = ("python3", "-B", "-m", f"tests.e2e.{scenario}", "--workload", "/job/workload", *words)
    files = {"workload": workload().read_bytes()}
    command = guest.Command(argv, timeout_s=SCENARIO_S_MAX)
    result = guest.run(series, machine, [command], files, append=append).results[0]
    assert result.status == 0, f"{scenario} on {series}: {result.status}\n{result.stderr}"
    return json.loads(result.stdout)
