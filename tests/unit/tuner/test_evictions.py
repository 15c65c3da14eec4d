"""Room below, and eviction for it: the demand tuner with and without swap."""

from dataclasses import replace

import pytest

from tests.fixtures.readings import (
    DOWN,
    HEADROOM,
    LIMITS,
    MARK,
    MIB,
    RATE,
    UP,
    N,
    decide,
    migration,
    reading,
)
from tierd.plans.plan import Direction
from tierd.tuner import demand
from tierd.tuner.demand import ControllerState
from tierd.tuner.demotion import AHEAD_SHARE_MAX
from tierd.tuner.evictions import LEAVES_SHARE, TRY_SHARE_MIN
from tierd.tuner.measurement import Limits, Measurement, SchemeMeasurement
from tierd.tuner.round import LATE_MAX, Want
from tierd.units import BP_MAX

OUT = migration(Direction.evict, 1, 1)
WITH_SWAP = replace(LIMITS, migrations=(DOWN, UP, OUT))
FILES_ONLY = replace(LIMITS, migrations=(DOWN, UP, replace(OUT, files_only=True)))
SLOW_BYTES = 2 * N
# What eviction keeps free on the slow node.
ROOM_BYTES = MARK + int(N * AHEAD_SHARE_MAX)


def below(
    free: int,
    *,
    lacks: int = 0,
    left: int = 0,
    evicted: tuple[int, int] = (0, 0),
) -> Measurement:
    """Return a reading with so much free on the slow node, where the fast one lacks headroom.

    `evicted` is what was tried, and what of it went to swap.
    """
    seen = reading(free=HEADROOM - lacks, moved={UP.id: left})
    slow = replace(seen.nodes[1], free_bytes=free, total_bytes=SLOW_BYTES)
    tried, applied = evicted
    return replace(
        seen,
        nodes={**seen.nodes, 1: slow},
        schemes={**seen.schemes, OUT.id: SchemeMeasurement(tried, applied, 1024, 0.1)},
    )


def test_what_is_evicted_leaves_a_node_and_comes_to_none() -> None:
    seen = below(ROOM_BYTES, left=4 * MIB, evicted=(3 * MIB, 2 * MIB))
    assert WITH_SWAP.moved_bytes(seen, source=1) == 6 * MIB
    assert WITH_SWAP.moved_bytes(seen, to=1) == 0
    assert WITH_SWAP.moved_bytes(seen, to=0) == 4 * MIB


def evicts(seen: Measurement) -> Want:
    return decide(seen, limits=WITH_SWAP).wants[OUT.id]


def demotes(seen: Measurement) -> Want:
    return decide(seen, limits=WITH_SWAP).wants[DOWN.id]


def test_what_lacks_of_the_headroom_is_evicted() -> None:
    assert evicts(below(ROOM_BYTES)).bytes_per_s == 0
    assert evicts(below(ROOM_BYTES - 4 * MIB)).bytes_per_s == 4 * MIB
    assert evicts(below(0)).bytes_per_s == RATE
    assert decide(below(0), limits=WITH_SWAP).headroom_bytes[1] == ROOM_BYTES


@pytest.mark.parametrize("seconds", [0.1, 1.0, 2.0, 5.0, 60.0])
def test_a_loop_that_comes_late_evicts_and_demotes_more_slowly(seconds: float) -> None:
    """A scheme goes on in each window, so what it moves until the next look is bounded."""
    lacks = 4 * MIB
    out = evicts(replace(below(ROOM_BYTES - lacks), seconds=seconds))
    down = demotes(replace(below(2 * N, lacks=lacks), seconds=seconds))
    for want in (out, down):
        assert want.bytes_per_s * seconds <= LATE_MAX * lacks * 1.001
        assert want.bytes_per_s <= lacks
        # Up to twice the usual time nothing changes.
        assert seconds > LATE_MAX or want.bytes_per_s == pytest.approx(lacks)


def test_free_memory_above_counts_as_room_until_the_mark() -> None:
    lacks = 4 * MIB
    seen = below(ROOM_BYTES - lacks, lacks=-lacks)
    assert evicts(seen).bytes_per_s == 0
    # All of what lacks of the headroom is free above, so only the mark counts.
    above = replace(seen.nodes[0], free_bytes=HEADROOM + ROOM_BYTES)
    seen = replace(seen, nodes={**seen.nodes, 0: above})
    under = replace(seen.nodes[1], free_bytes=MARK - 8 * MIB)
    assert evicts(replace(seen, nodes={**seen.nodes, 1: under})).bytes_per_s == 8 * MIB


def test_what_cannot_be_swapped_out_is_tried_seldom() -> None:
    lacks = 4 * MIB
    seen = below(ROOM_BYTES - lacks, evicted=(1000 * MIB, 0))
    state, wants = ControllerState(), []
    for _ in range(20):
        state, decision = demand.decide(state, seen, WITH_SWAP)
        wants.append(decision.wants[OUT.id].bytes_per_s)
    assert wants[-1] == pytest.approx(lacks * TRY_SHARE_MIN)


@pytest.mark.parametrize("room", [1 * MIB, 7 * MIB])
def test_no_more_is_demoted_than_fits_below(room: int) -> None:
    want = demotes(below(MARK + room, lacks=8 * MIB))
    assert want.bytes_per_s == room
    assert "as there is room on the slower node" in want.reason


def test_half_of_what_left_the_slower_node_counts_as_room() -> None:
    seen = below(MARK + MIB, lacks=8 * MIB, left=6 * MIB)
    assert demotes(seen).bytes_per_s == MIB + LEAVES_SHARE * 6 * MIB


def test_without_room_demotion_waits() -> None:
    want = demotes(below(MARK, lacks=8 * MIB))
    assert (want.bytes_per_s, want.quota_bytes) == (0, 0)
    assert "waits: the slower node has no room; node 0 lacks 8 MiB" in want.reason


@pytest.mark.parametrize("limits", [WITH_SWAP, FILES_ONLY])
def test_with_page_cache_alone_demotion_waits_for_room_too(limits: Limits) -> None:
    """A kernel may copy pages to the node that they are on, where no room is."""
    for room in (0, 3 * MIB):
        decision = decide(below(MARK + room, lacks=8 * MIB), limits=limits)
        assert decision.wants[DOWN.id].bytes_per_s == room
        assert decision.wants[OUT.id].bytes_per_s > 0


def test_only_with_swap_headroom_is_kept_on_a_large_slow_node() -> None:
    """Page cache is worth more than free memory."""
    seen = below(0)
    large = replace(seen.nodes[1], total_bytes=1000 * N)
    seen = replace(seen, nodes={**seen.nodes, 1: large})
    kept = decide(seen, limits=WITH_SWAP).headroom_bytes[1]
    assert kept == MARK + 1000 * N * LIMITS.headroom_bp // BP_MAX
    assert kept > ROOM_BYTES
    assert decide(seen, limits=FILES_ONLY).headroom_bytes[1] == ROOM_BYTES


def test_without_eviction_the_room_below_does_not_count() -> None:
    seen = below(0, lacks=8 * MIB)
    assert decide(seen).wants[DOWN.id].bytes_per_s == 8 * MIB
