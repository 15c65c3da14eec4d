"""Panels: which pages are picked, and what a look says of them."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from tests.fixtures import machines
from tierd.machine import discovery
from tierd.profile import panel
from tierd.profile.panel import Kept, Memory, Pair, Panel
from tierd.profile.rates import CLOSE_SAMPLES, SAMPLES
from tierd.ranges import merge
from tierd.topology import Topology

MIB = 1 << 20
HOT, WARM = SAMPLES, SAMPLES // 10


def topology(name: str) -> Topology:
    return discovery.survey(machines.load(name).sysfs, None)


def four(distance: int = 64 << 10) -> Panel:
    """Return a panel of two pairs: one in tier 0, one in tier 1. Each page stands for 1 MiB."""
    pairs = (Pair(0, 0, distance, distance), Pair(1, 1 << 30, (1 << 30) + distance, distance))
    pages = tuple(page for pair in pairs for page in pair.pages)
    return Panel(pairs, pages, (MIB,) * 4, 4096)


@pytest.mark.parametrize(
    "name", ["two-tier-7.2", "one-tier-6.12", "two-socket-7.2", "eight-nodes-7.2", "holes-7.2"]
)
def test_pages_are_of_the_machine_and_stand_for_all_of_it(name: str) -> None:
    machine = topology(name)
    made = panel.pick(machine, Random(1))
    ranges = merge(part for node in machine.nodes for part in node.ranges)
    # What DAMON refuses: ranges that are not in order, or touch.
    assert merge(made.ranges) == made.ranges
    assert all(
        any(part.start <= one.start and one.end <= part.end for part in ranges)
        for one in made.ranges
    )
    whole = sum(node.size_bytes for node in machine.nodes)
    assert sum(made.weight_bytes) == pytest.approx(whole)
    assert len(made.pages) == pytest.approx(panel.PAGES, rel=0.1)
    assert {pair.distance for pair in made.pairs} == set(panel.DISTANCES)


def test_pages_of_64_kib_do_not_touch() -> None:
    machine = replace(topology("two-tier-7.2"), page_bytes=64 << 10)
    made = panel.pick(machine, Random(1))
    assert merge(made.ranges) == made.ranges
    assert {pair.distance for pair in made.pairs} == set(panel.DISTANCES[1:])


def test_every_part_of_a_node_is_picked_equally_often() -> None:
    machine = topology("two-tier-7.2")
    node = machine.nodes[1]
    start, end = node.ranges[0].start, node.ranges[-1].end
    counts: Counter[int] = Counter()
    for seed in range(40):
        made = panel.pick(machine, Random(seed))
        counts.update((page - start) * 8 // (end - start) for page in made.pages if page >= start)
    mean = sum(counts.values()) / 8
    assert all(abs(count - mean) < 0.1 * mean for count in counts.values())


def test_another_panel_has_other_pages() -> None:
    machine = topology("two-tier-7.2")
    one, other = (set(panel.pick(machine, Random(seed)).pages) for seed in (1, 2))
    assert len(one & other) < len(one) / 20


def test_a_look_adds_up_by_tier_and_class() -> None:
    look, _ = panel.look(four(), [HOT, 0, WARM, 0], Memory(), SAMPLES)
    assert look.heat_bytes[0][0] == look.heat_bytes[0][8] == MIB
    assert look.heat_bytes[1][0] == look.heat_bytes[1][5] == MIB
    assert sum(map(sum, look.heat_bytes.values())) == 4 * MIB


def test_the_hot_pages_are_those_that_have_half_of_the_touches() -> None:
    look, memory = panel.look(four(), [HOT, 0, WARM, 0], Memory(), SAMPLES)
    assert look.hot == Kept(4, 1)
    assert memory.hot == (frozenset({0}),)


def test_what_is_beside_a_hot_page_is_counted_both_ways() -> None:
    both, _ = panel.look(four(), [HOT, HOT, 0, 0], Memory(), SAMPLES)
    one, _ = panel.look(four(), [HOT, 0, HOT, 0], Memory(), SAMPLES)
    assert both.near[0] == Kept(2, 2)
    assert one.near[0] == Kept(2, 0)
    assert one.near[1:] == (Kept(), Kept())


def test_how_long_heat_lasts_is_known_after_as_many_looks() -> None:
    memory = Memory()
    looks = []
    for hits in ([HOT, 0, 0, 0], [HOT, 0, 0, 0], [0, HOT, 0, 0], [0, HOT, 0, 0]):
        found, memory = panel.look(four(), hits, memory, SAMPLES)
        looks.append(found.lasting)
    one, three, nine = looks[-1]
    assert (one, three, nine) == (Kept(1, 1), Kept(1, 0), Kept())
    assert looks[0] == (Kept(), Kept(), Kept())


def test_a_page_is_idle_while_nobody_touches_it() -> None:
    memory, found = Memory(), None
    for hits in ([HOT, 0, 0, 0], [HOT, 0, 0, 1], [HOT, 0, 0, 0], [HOT, 1, 0, 0]):
        found, memory = panel.look(four(), hits, memory, SAMPLES)
    assert found is not None
    # Pages 2 and 3 were not touched in the last two looks, page 2 not in the last four.
    assert found.idle_bytes == (2 * MIB, MIB, None)


def test_when_nothing_is_touched_nothing_is_hot() -> None:
    look, _ = panel.look(four(), [0, 0, 0, 0], Memory(), SAMPLES)
    assert look.hot == Kept(4, 0)
    assert look.near[0] == Kept()


def test_a_closer_look_is_at_pages_of_the_hottest_class_only() -> None:
    chosen = panel.closer(four(), [SAMPLES, WARM, SAMPLES - 1, 0], SAMPLES, Random(1))
    assert chosen is not None
    assert chosen.pages == (four().pages[0], four().pages[2])
    assert panel.closer(four(), [0, WARM, 0, 0], SAMPLES, Random(1)) is None


def test_a_closer_look_counts_pages_by_their_rates() -> None:
    """At even intervals of 50 ms a page is touched in a tenth of the samples."""
    assert panel.close_counts([200, 200, CLOSE_SAMPLES]) == (2, 0, 0, 0, 0, 0, 1)
