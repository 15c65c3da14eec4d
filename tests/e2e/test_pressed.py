"""Promotion goes on while a real kernel says that tasks of a starved cgroup wait for memory."""

import pytest

from tests.contract.sets import PAGE
from tests.e2e.boots import told
from tests.e2e.pressed import ARRIVED_SHARE, HOT_BYTES
from tierd.sim import machine_model
from tierd.tuner.round import PRESSURE_MAX

pytestmark = [pytest.mark.vm, pytest.mark.rare]


def test_a_cgroup_that_waits_for_memory_does_not_stop_promotion() -> None:
    """The kernel tells the time of waiting for the whole machine. The fast node has room."""
    facts = told("7.2", machine_model.load("two-tier"), "pressed")
    pressed = facts["pressed"]
    assert pressed["waiting_share"] > PRESSURE_MAX * 100
    assert pressed["where"].get("0", 0) >= ARRIVED_SHARE * HOT_BYTES / PAGE, pressed
    assert "tasks wait for memory" not in pressed["why"], pressed
    assert facts["exit"] == 0
