"""Promotion stops while a real kernel says that tasks wait for memory, and then goes on."""

import pytest

from tests.contract.sets import PAGE
from tests.e2e.boots import told
from tests.e2e.pressed import ARRIVED_SHARE, HOT_BYTES
from tierd.sim import machine_model
from tierd.tuner.round import PRESSURE_MAX

pytestmark = [pytest.mark.vm, pytest.mark.rare]

# Pressure is an average over seconds, so a little is promoted before tierd sees it.
STRAY_SHARE_MAX = 0.01


def test_nothing_is_promoted_while_tasks_wait_for_memory() -> None:
    facts = told("7.2", machine_model.load("two-tier"), "pressed")
    pressed, after = facts["pressed"], facts["after"]
    assert pressed["waiting_share"] > PRESSURE_MAX * 100
    assert "parked: tasks wait for memory" in pressed["why"], pressed
    assert pressed["where"].get("0", 0) <= STRAY_SHARE_MAX * HOT_BYTES / PAGE, pressed
    assert after["where"].get("0", 0) >= ARRIVED_SHARE * HOT_BYTES / PAGE, after
    assert facts["exit"] == 0
