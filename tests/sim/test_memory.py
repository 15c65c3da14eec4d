"""Memory: sizes and watermarks of zones, and that no page is ever lost."""

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fixtures.pages import PAGE_BYTES
from tierd.machine.zoneinfo import Zone, parse_zones
from tierd.sim.block_memory import FREE, BlockMemory
from tierd.sim.context_spec import Filter, FilterType, Range
from tierd.sim.machine_model import MachineModel, MachineNode, all_names, load, names
from tierd.sim.memory import PageSet
from tierd.sim.zones import MIB, ZoneSpec, default_min_free_kbytes, node_ranges, with_watermarks

FIXTURES = Path(__file__).parent.parent / "fixtures" / "machines"
# The recorded files of virtual machines of each series, for the machines in machines/.
RECORDED = sorted(
    path
    for name in ("two-tier", "three-tier", "two-socket")
    for path in FIXTURES.glob(f"{name}-[67].*.json")
)

COLD, HOT = PageSet("cold"), PageSet("hot", rate_hz=100.0)


def memory(name: str = "two-tier", block_pages: int | None = None) -> BlockMemory:
    made = BlockMemory(load(name), Random(1), block_pages=block_pages)
    made.add_set(COLD)
    made.add_set(HOT)
    return made


def spec_of(zone: Zone) -> ZoneSpec:
    return ZoneSpec(zone.node, zone.name, Range(0, 0), zone.present_pages, zone.managed_pages)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_watermarks_are_what_a_kernel_made_of_the_same_zones(path: Path) -> None:
    files = json.loads(path.read_text())["files"]
    real = [zone for zone in parse_zones(files["proc/zoneinfo"]) if zone.managed_pages]
    ours = with_watermarks(
        tuple(map(spec_of, real)),
        PAGE_BYTES,
        int(files["proc/sys/vm/min_free_kbytes"]),
        int(files["proc/sys/vm/watermark_scale_factor"]),
    )
    for zone, made in zip(real, ours, strict=True):
        marks = (made.min_pages, made.low_pages, made.high_pages, made.promo_pages)
        # Boot memory that is freed later counts in the zones' sizes, but not in these figures.
        assert marks == pytest.approx(
            (zone.min_pages, zone.low_pages, zone.high_pages, zone.promo_pages), rel=0.02
        )


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_min_free_kbytes_is_what_a_kernel_chose_for_the_same_zones(path: Path) -> None:
    files = json.loads(path.read_text())["files"]
    real = tuple(spec_of(z) for z in parse_zones(files["proc/zoneinfo"]) if z.managed_pages)
    chosen = int(files["proc/sys/vm/min_free_kbytes"])
    assert default_min_free_kbytes(real, PAGE_BYTES, thp=True) == pytest.approx(chosen, rel=0.01)


def test_nodes_lie_one_behind_the_other_around_the_hole_for_devices() -> None:
    assert node_ranges(load("two-tier")) == {
        0: (Range(0, 512 * MIB),),
        1: (Range(512 * MIB, 1536 * MIB),),
    }
    large = MachineModel(
        "large",
        "",
        (MachineNode(0, 3072, (0,), 0, None, None), MachineNode(1, 1024, (), 0, None, None)),
        ((10, 20), (20, 10)),
        (("memory_tier4", (0,)), ("memory_tier22", (1,))),
    )
    assert node_ranges(large) == {
        0: (Range(0, 2048 * MIB), Range(4096 * MIB, 5120 * MIB)),
        1: (Range(5120 * MIB, 6144 * MIB),),
    }


def test_pages_go_to_the_first_node_with_room_above_its_low_watermark() -> None:
    mem = memory()
    asked = 600 * 256
    assert mem.populate("cold", asked, [0, 1]) == asked
    assert mem.pages_of_set("cold", 0) + mem.pages_of_set("cold", 1) == asked
    assert mem.pages_of_set("cold", 1) > 0
    for zone in mem.nodes[0].zones:
        assert mem.zone_free_pages(zone) == zone.spec.low_pages + zone.spec.reserve_pages
    assert not mem.nodes[0].kswapd_awake


def test_migration_may_go_down_to_min_and_wakes_kswapd() -> None:
    mem = memory()
    mem.populate("cold", 600 * 256, [0, 1])
    victims = mem.find("cold", 50_000, nid=1)
    moved = mem.migrate(victims, [0])
    assert 0 < moved < len(victims)
    for zone in mem.nodes[0].zones:
        assert mem.zone_free_pages(zone) == zone.spec.min_pages + zone.spec.reserve_pages
    assert mem.nodes[0].kswapd_awake
    assert mem.counters.pgmigrate_success == moved
    assert mem.counters.pgmigrate_fail == 1


def test_without_a_fixed_node_a_full_target_is_replaced_by_the_source() -> None:
    mem = memory()
    mem.populate("cold", 600 * 256, [0, 1])
    before = (mem.free_pages(0), mem.free_pages(1))
    victims = mem.find("cold", 1_000, nid=1)
    assert mem.migrate(victims, mem.fallback_order(0)) == 1_000
    assert (mem.free_pages(0), mem.free_pages(1)) == before


def test_kswapd_demotes_cold_pages_up_to_the_high_watermark() -> None:
    mem = memory()
    mem.demotion_enabled = True
    mem.populate("hot", 10_000, [0])
    mem.populate("cold", 600 * 256, [0, 1])
    mem.migrate(mem.find("cold", 50_000, nid=1), [0])
    mem.run_kswapd(1_000_000)
    assert mem.nodes[0].counters.pgdemote_kswapd > 0
    assert mem.pages_of_set("hot", 0) == 10_000
    assert any(
        mem.zone_free_pages(zone) >= zone.spec.high_pages + zone.spec.reserve_pages
        for zone in mem.nodes[0].zones
    )


def test_kswapd_does_nothing_where_demotion_is_off() -> None:
    mem = memory()
    mem.populate("cold", 600 * 256, [0, 1])
    mem.nodes[0].kswapd_awake = True
    free = mem.free_pages(0)
    mem.run_kswapd(1_000_000)
    assert mem.free_pages(0) == free


def test_demotion_goes_to_the_nearest_node_of_the_next_tier() -> None:
    sockets = memory("two-socket")
    assert [sockets.next_demotion_node(nid) for nid in range(4)] == [2, 3, None, None]
    tiers = memory("three-tier")
    assert [tiers.next_demotion_node(nid) for nid in range(3)] == [2, 0, None]


def test_young_is_cleared_by_asking_and_set_by_accesses_only() -> None:
    mem = memory()
    mem.populate("cold", 100, [0])
    mem.populate("hot", 100, [0])
    cold, hot = mem.find("cold", 100), mem.find("hot", 100)
    assert all(mem.test_and_clear_young(block, 0) for block in cold + hot)
    assert not any(mem.test_and_clear_young(block, 10**7) for block in cold)
    assert all(mem.test_and_clear_young(block, 10**7) for block in hot)
    assert not any(mem.test_and_clear_young(block, 10**7) for block in hot)


def test_what_sampling_cleared_is_not_young() -> None:
    mem = memory()
    mem.populate("cold", 100, [0])
    assert not any(mem.test_and_clear_young(b, 0, unsampled=0.0) for b in mem.find("cold", 100))


def test_visits_that_follow_one_another_visit_each_block_once() -> None:
    """A sweep may visit less than a block in a window."""
    mem = memory(block_pages=64)
    mem.populate("cold", 6_400, [0])
    young = (Filter(FilterType.young, matching=False, allow=False),)
    first, size = mem.find("cold", 1)[0] * mem.block_bytes, 100 * mem.block_bytes
    step = mem.block_bytes * 3 // 8
    starts = range(first, first + size, step)
    seen = [
        mem.pick(at, min(at + step, first + size), young, 0, 1.0, follows=at > first)
        for at in starts
    ]
    assert sum(one.looked_at for one in seen) == 6_400
    assert sum(one.pages for one in seen) == 6_400
    # A visit that follows no other one picks the block around its start.
    assert mem.pick(first + step, first + 2 * step, young, 0, 1.0).looked_at == 64


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["populate", "release", "migrate", "exchange", "kswapd"]),
        st.sampled_from(["cold", "hot"]),
        st.integers(0, 1),
        st.integers(0, 60_000),
    ),
    max_size=12,
)


@settings(max_examples=30, deadline=None)
@given(STEPS, st.sampled_from([1, 64]))
def test_no_page_is_lost_or_in_two_places(
    steps: list[tuple[str, str, int, int]], block_pages: int
) -> None:
    mem = memory(block_pages=block_pages)
    mem.demotion_enabled = True
    for now, (step, name, nid, count) in enumerate(steps):
        match step:
            case "populate":
                mem.populate(name, count, [nid, 1 - nid])
            case "release":
                mem.release(name, count, nid)
            case "migrate":
                mem.migrate(mem.find(name, count), [nid])
            case "exchange":
                mem.exchange(mem.find(name, count, nid), "cold")
            case _:
                mem.nodes[nid].kswapd_awake = True
                mem.run_kswapd(now * 1_000_000)
    free = [block for zone in mem.zones for block in zone.free]
    assert len(free) == len(set(free)) == mem.held.count(FREE)
    assert all(mem.held[block] == FREE for block in free)
    for zone in mem.zones:
        assert all(mem.nid_of(block) == zone.spec.nid for block in zone.free)
    for nid in mem.nodes:
        used = mem.managed_pages(nid) - mem.free_pages(nid)
        assert used >= mem.pages_of_set("cold", nid) + mem.pages_of_set("hot", nid)


def test_large_machines_are_kept_in_large_blocks() -> None:
    mem = memory(block_pages=64)
    assert mem.managed_pages(0) == memory().managed_pages(0)
    assert mem.populate("cold", 1, [0]) == 64
    assert mem.free_pages(0) + 64 == memory(block_pages=64).free_pages(0)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_nodes_are_about_as_large_as_a_kernel_finds_them(path: Path) -> None:
    """Equal except for kernel image and initrd, which are on a different node at each boot."""
    files = json.loads(path.read_text())["files"]
    mem = memory(path.stem.rsplit("-", 1)[0])
    real = parse_zones(files["proc/zoneinfo"])
    managed = {nid: sum(z.managed_pages for z in real if z.node == nid) for nid in mem.nodes}
    ours = {nid: mem.managed_pages(nid) for nid in mem.nodes}
    assert ours == pytest.approx(managed, rel=0.10)
    assert sum(ours.values()) == pytest.approx(sum(managed.values()), rel=0.01)


def test_a_machine_too_large_for_a_virtual_one_is_for_the_simulation_only() -> None:
    assert "cover-letter" in all_names()
    assert "cover-letter" not in names()
    mem = memory("cover-letter")
    assert mem.block_pages == 256
    assert mem.managed_pages(0) * 4096 > 240 * 2**30
    assert mem.populate("cold", 200 * 2**18, [0]) == 200 * 2**18


def test_who_asks_for_more_than_there_is_waits_for_kswapd() -> None:
    mem = memory()
    mem.populate("cold", mem.free_pages(0), [0])
    asked = 5_000
    mem.demotion_enabled = False
    assert mem.populate("hot", asked, [0]) < asked
    stalled = mem.counters.allocstall
    assert stalled > 0
    mem.demotion_enabled = True
    assert mem.populate("hot", asked, [0]) == asked
    assert mem.nodes[0].counters.pgdemote_kswapd > 0
