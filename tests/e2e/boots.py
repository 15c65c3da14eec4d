"""Boots a guest for a scenario, and returns the facts that the scenario printed."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.contract.guests import workload
from tests.vm import guest, rootfs
from tests.vm.slow import Slowness
from tierd.sim.machine_model import MachineModel

# A scenario takes half a minute to four minutes on an idle machine, and longer on a busy one.
SCENARIO_S_MAX = 1200.0


def told(
    series: str,
    machine: MachineModel,
    scenario: str,
    *words: str,
    append: str = "",
    suite: str = rootfs.SUITE,
    files: Mapping[str, bytes] | None = None,
    programs: Sequence[str] = (),
    slow: Slowness | None = None,
) -> Any:
    argv = ("python3", "-B", "-m", f"tests.e2e.{scenario}", "--workload", "/job/workload", *words)
    given = {"workload": workload().read_bytes(), **(files or {})}
    command = guest.Command(argv, timeout_s=SCENARIO_S_MAX)
    verdict = guest.run(series, machine, [command], given, append, suite, slow, programs)
    (result,) = verdict.results
    # pytest shows it beside a test that fails, and with -rP beside others.
    print(f"{scenario} on {series}:\n{result.stderr}")  # noqa: T201
    assert result.status == 0, f"{scenario} on {series}: {result.status}"
    return json.loads(result.stdout)
