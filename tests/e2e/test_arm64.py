"""On arm64 kernels with pages of 4 and 16 KiB: what DAMON's files do, and `tierd run`."""

import json
from typing import Any

import pytest

from tests.contract import behaviour, guests
from tests.e2e.arm64 import ARRIVED_SHARE, FAST, PIECES, SLOW
from tests.vm import arm64
from tests.vm.guest import Command
from tierd.sim import machine_model

pytestmark = [pytest.mark.vm, pytest.mark.rare]

TWO_TIER = machine_model.load("two-tier")

# The areas of the contract that need no memory of known heat: that is held by a C program, which is
# built for x86-64 only.
AREAS = ("tree", "numbers", "lifecycle", "inputs", "features", "contention", "interleave")

# All behaviours take a minute of a guest, and a scenario takes two.
LIMIT_S = 900.0


@pytest.mark.parametrize("flavour", list(arm64.PAGE_BYTES))
def test_an_arm64_kernel_does_the_same(flavour: str) -> None:
    python = ("python3", "-m")
    listed = [f"{area}.*" for area in AREAS]
    commands = [
        # Without -B, so that later commands find the compiled modules.
        Command((*python, "tierd", "tiers"), LIMIT_S),
        Command((*python, "tests.e2e.arm64"), LIMIT_S),
        Command((*python, "tests.contract.run", "--workload", "/none", "--only", *listed), LIMIT_S),
    ]
    tiers, scenario, contract = arm64.run(flavour, TWO_TIER, commands).results
    assert tiers.status == 0, tiers.stderr
    assert scenario.status == 0, scenario.stderr
    assert contract.status == 0, contract.stderr
    check_scenario(flavour, tiers.stdout, json.loads(scenario.stdout))
    check_contract(contract.stdout)


def check_scenario(flavour: str, tiers: str, facts: dict[str, Any]) -> None:
    assert facts["kernel"].endswith(f"-{flavour}")
    assert facts["page_bytes"] == arm64.PAGE_BYTES[flavour]
    # The kernel made the tiers of the machine from HMAT.
    assert facts["tiers"] == [[name, list(nodes)] for name, nodes in TWO_TIER.tiers]
    assert "100 ns, 50 GB/s" in tiers
    assert facts["placed"] == {str(SLOW): PIECES}
    assert facts["arrived"].get(str(FAST), 0) >= ARRIVED_SHARE * PIECES
    assert facts["status"]["state"] == "active"
    assert facts["exit"] == 0
    assert facts["neighbourhood_after"] == facts["neighbourhood_before"]


def check_contract(text: str) -> None:
    seen = guests.parse(text)
    compared = [entry for entry in behaviour.table() if entry.area in AREAS]
    assert {entry.id for entry in compared} == set(seen.lines)
    problems = {
        entry.id: [said for line in seen.lines[entry.id] for said in entry.problems("7.2", line)]
        for entry in compared
    }
    assert {name: said for name, said in problems.items() if said} == {}
