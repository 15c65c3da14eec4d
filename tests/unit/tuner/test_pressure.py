"""Promotion stops while somebody waits for memory of its node, and not for who waits elsewhere."""

from dataclasses import replace
from math import ceil

from tests.fixtures.readings import (
    HEADROOM,
    LIMITS,
    MARK,
    MIB,
    UP,
    N,
    decide,
    rates,
    reading,
)
from tierd.tuner import demand
from tierd.tuner.demand import ControllerState
from tierd.tuner.round import TIGHT_SHARE
from tierd.units import BP_MAX

# The free memory below which a node is tight.
TIGHT = MARK + ceil(TIGHT_SHARE * N * LIMITS.headroom_bp / BP_MAX)


def test_tasks_that_wait_for_memory_stop_promotion_but_not_demotion() -> None:
    short = 5 * MIB
    one = decide(reading(hot=96 * MIB, free=HEADROOM - short, stalls=1))
    # One stall is enough. Demotion then makes the headroom, but no room for promotion.
    assert rates(one) == (0, short)
    assert "1 allocations had to wait" in one.wants[UP.id].reason
    waits = reading(hot=96 * MIB, free=TIGHT - MIB, pressure=0.2)
    memory, once = demand.decide(ControllerState(), waits, LIMITS)
    assert once.wants[UP.id].bytes_per_s > 0
    lasting = once
    for _ in range(5):
        memory, lasting = demand.decide(memory, waits, LIMITS)
    assert lasting.wants[UP.id].bytes_per_s == 0
    assert "tasks wait for memory" in lasting.wants[UP.id].reason


def test_who_waits_elsewhere_does_not_stop_promotion_to_a_node_with_room() -> None:
    """A cgroup at its limit waits, or a program whose memory is bound to another node."""
    seen = reading(hot=96 * MIB, free=TIGHT, pressure=0.9, stalls=7)
    memory, last = demand.decide(ControllerState(), seen, LIMITS)
    for _ in range(30):
        memory, last = demand.decide(memory, seen, LIMITS)
        assert last.wants[UP.id].bytes_per_s > 0
    node = replace(seen.nodes[0], least_free_bytes=TIGHT - 1)
    fell = replace(seen, nodes={**seen.nodes, 0: node})
    assert demand.decide(memory, fell, LIMITS)[1].wants[UP.id].bytes_per_s == 0
    direct = replace(seen, nodes={**seen.nodes, 0: replace(seen.nodes[0], stalls=1)})
    last = demand.decide(memory, replace(direct, stalls=0), LIMITS)[1]
    assert "1 allocations had to wait" in last.wants[UP.id].reason
