"""A CXL type 3 device of QEMU: device, region, dax, kmem, node, tier, and hot pages leave it."""

import json
from typing import Any

import pytest

from tests.contract.guests import workload
from tests.contract.sets import PAGE
from tests.e2e.boots import SCENARIO_S_MAX
from tests.e2e.cxl import ARRIVED_SHARE, DEVICE, DRAM, HOT_BYTES, MODULES, STEPS
from tests.vm import guest, kernels, machines
from tierd.sim.machine_model import MachineModel

pytestmark = [pytest.mark.vm, pytest.mark.rare]

SERIES = "7.2"
CXL = machines.load("cxl")

# Else the kernel brings the memory online at once, for itself.
APPEND = "memhp_default_state=offline"


def files() -> dict[str, bytes]:
    """Return the drivers, their order, and the program that holds memory."""
    loaded = kernels.modules(kernels.get(SERIES), MODULES)
    return {
        **{f"{name}.ko": module for name, module in loaded},
        "modules": "\n".join(name for name, _ in loaded).encode(),
        "workload": workload().read_bytes(),
    }


def steps(machine: MachineModel) -> dict[str, Any]:
    words = ("python3", "-B", "-m", "tests.e2e.cxl", "--workload", "/job/workload")
    commands = [guest.Command((*words, step), SCENARIO_S_MAX) for step in STEPS]
    results = guest.run(SERIES, machine, commands, files(), APPEND).results
    for step, result in zip(STEPS, results, strict=True):
        assert result.status == 0, f"{step}: {result.status}\n{result.stderr}"
    return {step: json.loads(result.stdout) for step, result in zip(STEPS, results, strict=True)}


def test_a_cxl_device_becomes_a_tier() -> None:
    facts = steps(CXL)
    check_appearance(facts["appear"])
    check_doctor(facts["appear"], facts["zone"])
    check_moves(facts["moves"])


def check_appearance(facts: dict[str, Any]) -> None:
    assert facts["objects"]["driver"] == "kmem"
    assert facts["states"] == ["offline"]
    code, words = facts["run_while_offline"]
    assert code == 69
    assert f"memory is offline on node {DEVICE} (4 GiB)" in words
    assert facts["refused"] == []
    # The kernel has put the device into a tier of its own, below DRAM.
    assert [line.split(":")[0] for line in facts["tiers"].splitlines() if "tier " in line] == [
        "tier 0 (fastest)",
        "tier 1",
    ]
    for name, nodes in CXL.tiers:
        assert name in facts["tiers"]
        assert f"node{nodes[0]}" in facts["tiers"]


def check_doctor(facts: dict[str, Any], zone: dict[str, Any]) -> None:
    """Check that each wrong setting is named. The last one is that of memmap alone."""
    said = {name: facts[name]["evidence"] for name in ("offline", "auto_online", "movable")}
    assert "memory that appears stays offline until somebody" in said["offline"]
    assert (
        "comes online as `online`, so the kernel may put its own data on it" in said["auto_online"]
    )
    assert "memhp_default_state=online_movable" in facts["auto_online"]["fix"]
    for name in ("auto_online", "movable"):
        assert "take 64 MiB of faster nodes" in said[name]
    assert facts["movable"]["fix"].startswith("boot with memory_hotplug.memmap_on_memory=1")
    assert "comes online as" not in said["movable"]
    assert zone["refused"] == []
    assert (
        f"the memory of node {DEVICE} came online as memory of the kernel"
        in (zone["doctor"]["evidence"])
    )


def check_moves(facts: dict[str, Any]) -> None:
    assert facts["placed"] == {str(DEVICE): HOT_BYTES // PAGE}
    assert facts["arrived"].get(str(DRAM), 0) >= ARRIVED_SHARE * HOT_BYTES / PAGE
    assert facts["status"]["state"] == "active"
    assert facts["exit"] == 0
    assert facts["unchanged"]
