"""Three tiers that are full, and swap: what is exchanged, and what is swapped out of which node."""

from dataclasses import dataclass

import pytest

from tests.contract.sets import PAGE as PAGE_BYTES
from tests.sim.loop import MIB, Loop, cold, hot, loop
from tierd.configuration.config import Config
from tierd.sim.memory import PageSet
from tierd.sim.workload import Shift, WorkloadEvent

# The nodes of the machine `three-tier`, fastest first.
FASTEST, MIDDLE, SLOWEST = 1, 0, 2
SWAP_BYTES = 512 * MIB
HOT_BYTES = 48 * MIB
SHIFT_S = 60
END_S = 110

# Free on the slowest node: a little above its headroom.
ROOM_BYTES = 85 * MIB


@dataclass(frozen=True)
class Seen:
    """What was done until a second, in bytes."""

    demoted: int
    swapped: dict[int, int]
    above: int
    """How much of the hot set is not on the slowest node."""


def looked(made: Loop) -> Seen:
    memory = made.kernel.memory
    return Seen(
        sum(
            one.applied_bytes_total for one in made.snapshots[-1].schemes if one.action == "demote"
        ),
        {n: one.counters.nr_vmscan_write * PAGE_BYTES for n, one in memory.nodes.items()},
        sum(memory.pages_of_set("hot", node) for node in (FASTEST, MIDDLE)) * PAGE_BYTES,
    )


def exchange(series: str, *, full: bool) -> tuple[Loop, list[Seen]]:
    """Run the loop while a hot set on the slowest node turns to other pages once."""
    events: list[WorkloadEvent] = [
        cold("cold-fastest", FASTEST, 210),
        cold("cold-middle", MIDDLE, 385),
        cold("cold", SLOWEST, 300),
        hot("hot", SLOWEST, HOT_BYTES // MIB),
        Shift("hot", "cold", 1.0, at_us=SHIFT_S * 1_000_000),
    ]
    made = loop(series, "three-tier", *events, config=Config())
    memory = made.kernel.memory
    memory.swap_pages = SWAP_BYTES // PAGE_BYTES
    memory.demotion_enabled = True

    def fill() -> None:
        memory.add_set(PageSet("fill"))
        pages = memory.free_pages(SLOWEST) - ROOM_BYTES // PAGE_BYTES
        memory.populate("fill", pages, (SLOWEST,))

    if full:
        made.do(0.01, fill)
    seen: list[Seen] = []
    for second in range(1, END_S):
        made.do(second, lambda: seen.append(looked(made)))
    made.run(END_S)
    return made, seen


def arrived_s(seen: list[Seen], begin_s: int) -> int:
    return next(at for at in range(begin_s, END_S) if seen[at].above >= 0.9 * HOT_BYTES) - begin_s


def test_with_every_tier_full_the_exchange_goes_on() -> None:
    """On 6.18 the exchange goes on too, but a tick moves more than it was to: up to a quarter of
    what is demoted was swapped out there.
    """
    made, seen = exchange("7.2", full=True)
    _, roomy = exchange("7.2", full=False)
    # With room below, half of the set comes up at once, into room that was made ahead.
    assert arrived_s(seen, SHIFT_S) <= 2 * arrived_s(roomy, SHIFT_S) + 1
    demoted = seen[-1].demoted - seen[SHIFT_S - 2].demoted
    gone = seen[-1].swapped[SLOWEST] - seen[SHIFT_S - 2].swapped[SLOWEST]
    assert demoted >= HOT_BYTES / 2
    # The first turn makes the headroom of the fast nodes, which has to come from somewhere. The bar
    # is 1 % and is missed: docs/benchmarks/missed.md.
    assert gone <= 0.1 * demoted
    assert made.kernel.memory.pages_of_set("hot", SLOWEST) == 0


@pytest.mark.parametrize("series", ["6.12", "7.2"])
def test_only_the_slowest_node_swaps(series: str) -> None:
    made, seen = exchange(series, full=True)
    assert seen[-1].swapped[FASTEST] == seen[-1].swapped[MIDDLE] == 0
    assert seen[-1].swapped[SLOWEST] > 0
    assert not [one for one in made.events if one.event == "inversion"]


def test_without_swap_only_page_cache_is_evicted() -> None:
    """Cold anonymous memory fills the slowest node, and can go nowhere."""
    made = loop("7.2", "three-tier", hot("hot", SLOWEST, 16), config=Config())
    memory = made.kernel.memory

    def fill() -> None:
        memory.add_set(PageSet("cold"))
        memory.populate("cold", memory.free_pages(SLOWEST), (SLOWEST,))

    made.do(0.01, fill)
    made.run(20)
    (evicts,) = (one for one in made.snapshots[-1].schemes if one.action == "evict")
    assert (evicts.scheme, evicts.applied_bytes_total) == ("evict-2", 0)


def test_pages_that_are_swapped_in_vain_are_an_event_once() -> None:
    """Reclaim may not demote, and a program takes more than the headroom of a fast node."""
    made = loop("7.2", "three-tier", cold("cold", MIDDLE, 400), config=Config())
    memory = made.kernel.memory
    memory.swap_pages = SWAP_BYTES // PAGE_BYTES

    def burst(name: str) -> None:
        memory.add_set(PageSet(name))
        memory.populate(name, 60 * MIB // PAGE_BYTES, (MIDDLE,), made.kernel.now_us)
        memory.run_kswapd(made.kernel.now_us)

    made.do(10, lambda: burst("first"))
    made.do(20, lambda: burst("second"))
    made.run(30)
    told = [one.text for one in made.events if one.event == "inversion"]
    assert len(told) == 1
    assert "swapped out of node 0 with " in told[0]
    assert "of room on node 2. reclaim may not demote" in told[0]


def test_nothing_is_evicted_while_there_is_room() -> None:
    made = loop("7.2", "three-tier", cold("cold", SLOWEST, 300), config=Config())
    made.kernel.memory.swap_pages = SWAP_BYTES // PAGE_BYTES
    made.run(20)
    assert made.kernel.memory.counters.pswpout == 0


@pytest.mark.parametrize("series", ["6.12", "6.18", "7.2", "7.3"])
def test_page_cache_that_fills_the_slowest_node_makes_room(series: str) -> None:
    """Without swap. DAMON's migration does not reclaim, so nothing could go down."""
    events = (
        cold("cold-fastest", FASTEST, 210),
        cold("cold-middle", MIDDLE, 385),
        hot("hot", SLOWEST, HOT_BYTES // MIB),
    )
    made = loop(series, "three-tier", *events, config=Config())
    memory = made.kernel.memory

    def fill() -> None:
        memory.add_set(PageSet("cache", anon=False, mapped=False))
        memory.populate("cache", memory.free_pages(SLOWEST), (SLOWEST,))
        assert memory.free_pages(SLOWEST) < memory.nodes[SLOWEST].zones[-1].spec.high_pages

    made.do(0.01, fill)
    made.run(40)
    above = sum(memory.pages_of_set("hot", node) for node in (FASTEST, MIDDLE))
    assert above * PAGE_BYTES >= 0.9 * HOT_BYTES
    # What counts as demoted has really left its node.
    went = HOT_BYTES // PAGE_BYTES - above
    for name, node in (("cold-fastest", FASTEST), ("cold-middle", MIDDLE)):
        went += sum(memory.pages_of_set(name, other) for other in memory.nodes if other != node)
    demoted = looked(made).demoted / PAGE_BYTES
    assert 0 < demoted <= 2 * went
    # Only as much was dropped as had to be.
    dropped = sum(
        one.applied_bytes_total for one in made.snapshots[-1].schemes if one.action == "evict"
    )
    assert 0 < dropped <= 3 * HOT_BYTES


@pytest.mark.parametrize("swap_bytes", [0, SWAP_BYTES])
def test_only_nodes_that_demote_report_a_headroom(swap_bytes: int) -> None:
    """Alerts treat each node that reports a headroom as a fast node."""
    made = loop("7.2", "three-tier", cold("cold", SLOWEST, 300), config=Config())
    made.kernel.memory.swap_pages = swap_bytes // PAGE_BYTES
    made.run(20)
    last = made.snapshots[-1]
    assert "evict-2" in [one.scheme for one in last.schemes]
    headroom = {one.numa_node: one.headroom_target_bytes for one in last.nodes}
    assert headroom[SLOWEST] is None
    assert all(headroom[node] for node in (FASTEST, MIDDLE))
