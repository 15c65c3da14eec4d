"""Machines that only QEMU can be: the simulated kernel has no devices."""

from pathlib import Path

from tierd.sim import machine_model
from tierd.sim.machine_model import MachineModel

FOLDER = Path(__file__).parent


def load(name: str) -> MachineModel:
    """Return the machine of this name."""
    return machine_model.parse(name, (FOLDER / f"{name}.json").read_text())
