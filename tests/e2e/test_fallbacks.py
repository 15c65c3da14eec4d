"""On a real kernel: memory goes to the other socket where the nearest slow node is full."""

import pytest

from tests.e2e import fallbacks
from tests.e2e.boots import told
from tierd.sim import machine_model

pytestmark = pytest.mark.vm


@pytest.mark.rare
def test_memory_goes_to_the_other_socket_where_a_node_is_full() -> None:
    facts = told("7.2", machine_model.load("two-socket"), "fallbacks")
    assert facts["up_bytes"] >= fallbacks.HOT_SHARE * fallbacks.HOT_BYTES, facts
    # The nearest slow node has no room, so cold memory of the fast one went to the other socket.
    assert facts["down_bytes"] >= fallbacks.DOWN_BYTES, facts
    down = sum(facts["applied"][f"demote{by}-0-3"] for by in ("", "-pages"))
    assert down >= facts["down_bytes"] * 0.9, facts
