"""A measurement is made from two samples, and only from what changed between them."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.fixtures.tiers import GIB, machine
from tierd import policy
from tierd.configuration.config import Config
from tierd.machine.features import Capabilities, Feature
from tierd.machine.sample import (
    KdamondSample,
    NodeSample,
    Pressure,
    Sample,
    SchemeSample,
    Watermarks,
)
from tierd.plans.plan import Sense
from tierd.tuner import measurement
from tierd.tuner.measurement import Measurement

MIB = 1 << 20
PLAN = policy.plan(machine((0,), (1,)), Capabilities(frozenset(Feature)), Config(cost_bp=0))
WINDOW_S = PLAN.migrations[0].window_us / 1e6


def sample(
    at_s: float = 0.0,
    windows: float = 0.0,
    *,
    sensed: Mapping[tuple[int, Sense], int] | None = None,
    counted: Mapping[int, int] | None = None,
    moved: Mapping[str, tuple[int, int]] | None = None,
    some_us: int = 0,
    allocstall: int = 0,
    direct: Mapping[int, int] | None = None,
) -> Sample:
    """Return a sample after some windows, with what sensors and schemes have counted.

    In each window the sensors of node 1 counted `counted`, by the index of their scheme.
    """
    sensed, counted, moved, direct = sensed or {}, counted or {}, moved or {}, direct or {}
    tried: dict[int, dict[int, int]] = {index: {} for index in range(len(PLAN.kdamonds))}
    for one in PLAN.sensors:
        each = sensed.get((one.node, one.sense), 0)
        if one.node == 1:
            each = counted.get(one.scheme, each)
        tried[one.kdamond][one.scheme] = round(windows * (GIB if one.sense is Sense.all else each))
    schemes = {
        index: tuple(
            SchemeSample(item.scheme, *moved.get(item.id, (0, 0)), 0, 4096)
            for item in PLAN.migrations
            if item.kdamond == index
        )
        for index in tried
    }
    return Sample(
        monotonic_s=at_s,
        nodes=tuple(
            NodeSample(
                node,
                GIB,
                100 * MIB,
                (("pgdemote_direct", direct.get(node, 0)), ("pgdemote_kswapd", 9)),
            )
            for node in (0, 1)
        ),
        watermarks=(Watermarks(0, 1 * MIB, 2 * MIB, 3 * MIB, 4 * MIB, 5 * MIB),),
        kdamonds=tuple(
            KdamondSample(
                index,
                "on",
                100 + index,
                schemes[index],
                tried[index],
                counted_regions=round(windows * (50 + index)),
            )
            for index in tried
        ),
        pressure=Pressure(some_us),
        pgmigrate_success=0,
        pgmigrate_fail=0,
        allocstall=allocstall,
    )


def read(before: Sample, now: Sample) -> Measurement:
    found = measurement.measure(PLAN, before, now)
    assert found is not None
    return found


def test_whoever_had_to_make_room_for_itself_is_a_stall() -> None:
    """Reclaim is counted for the machine, demotion for the node that it leaves."""
    for before, now, expected in (
        (sample(), sample(1.0, 10, allocstall=1), (1, 0, 0)),
        (sample(), sample(1.0, 10, direct={1: 1}), (0, 0, 1)),
        (
            sample(allocstall=1, direct={0: 1}),
            sample(1.0, 10, allocstall=1, direct={0: 1}),
            (0,) * 3,
        ),
    ):
        found = read(before, now)
        assert (found.stalls, *(one.stalls for one in found.nodes.values())) == expected


def test_the_least_free_memory_is_that_of_both_samples() -> None:
    less = sample(1.0, 10)
    less = replace(less, nodes=tuple(replace(one, free_bytes=MIB) for one in less.nodes))
    for before, now in ((less, sample(2.0, 20)), (sample(), less)):
        assert read(before, now).nodes[0].least_free_bytes == MIB


def test_background_demotion_is_no_stall() -> None:
    busy = sample(1.0, 10)
    counters = (("pgdemote_direct", 0), ("pgdemote_kswapd", 500), ("pgpromote_success", 7))
    busy = replace(busy, nodes=tuple(replace(one, counters=counters) for one in busy.nodes))
    found = read(sample(), busy)
    assert found.stalls == found.nodes[0].stalls == 0


def test_what_is_sensed_is_per_window() -> None:
    """The result does not depend on the number of windows, or on earlier counts."""
    seen = {(1, Sense.hot): 96 * MIB, (0, Sense.cold): 300 * MIB}
    for windows in (3, 10, 50):
        found = read(sample(0.0, 7, sensed=seen), sample(1.0, 7 + windows, sensed=seen))
        assert found.nodes[1].hot_bytes == 96 * MIB
        assert found.nodes[0].cold_bytes == 300 * MIB


def test_nobody_waits_on_the_fastest_node_and_nothing_is_cold_on_the_slowest() -> None:
    found = read(sample(), sample(1.0, 10, sensed={(0, Sense.hot): 96 * MIB}))
    assert found.nodes[0].hot_bytes is None
    assert found.nodes[1].cold_bytes is None
    # Its heat is known anyway. It is needed to tell which heat below is worth a move.
    assert found.nodes[0].heat_bytes > 0


def test_what_is_hot_in_all_samples_is_heat_in_full_and_no_chance() -> None:
    levels = {one.scheme: 64 * MIB for one in PLAN.sensors if one.node == 1 and one.weight}
    found = read(sample(), sample(1.0, 10, counted=levels))
    assert found.nodes[1].heat_bytes == pytest.approx(64 * MIB, abs=1)
    assert found.nodes[1].faint_bytes == 0


def test_what_a_sample_or_two_has_hit_is_faint() -> None:
    """Faint heat is the lowest level without the next one, multiplied by its weight."""
    first, second = [one for one in PLAN.sensors if one.node == 1 and one.weight][:2]
    found = read(
        sample(), sample(1.0, 10, counted={first.scheme: 100 * MIB, second.scheme: 40 * MIB})
    )
    assert found.nodes[1].faint_bytes == round(first.weight * 60 * MIB)
    assert found.nodes[1].sure_bytes > 0


def test_each_region_counts_once_in_each_window() -> None:
    """The fixture has 50 regions on node 0 and 51 on node 1."""
    found = read(sample(0.0, 7), sample(1.0, 17))
    assert {at: one.counted_regions for at, one in found.nodes.items()} == {0: 500, 1: 510}


def test_without_a_window_nothing_was_sensed() -> None:
    found = read(sample(0.0, 7), sample(0.05, 7, sensed={(1, Sense.hot): 96 * MIB}))
    assert found.nodes[1].hot_bytes is None
    assert found.nodes[1].heat_bytes == 0


def test_a_scheme_is_read_by_what_it_did_since() -> None:
    before = sample(moved={"promote-1-0": (5000, 4000)})
    found = read(before, sample(2.0, 20, moved={"promote-1-0": (9000, 7000)}))
    one = found.schemes["promote-1-0"]
    assert (one.tried_bytes, one.applied_bytes, one.quota_bytes) == (4000, 3000, 4096)
    assert found.schemes["demote-0-1"].tried_bytes == 0


@pytest.mark.parametrize("windows", [5, 10, 19])
def test_windows_are_as_long_as_they_were(windows: int) -> None:
    found = read(sample(), sample(10 * WINDOW_S, windows))
    assert found.schemes["promote-1-0"].window_s == pytest.approx(10 * WINDOW_S / windows)


def test_a_window_is_never_much_shorter_than_planned_nor_told_from_a_part_of_one() -> None:
    assert read(sample(), sample(WINDOW_S, 100)).schemes["promote-1-0"].window_s == WINDOW_S / 2
    assert read(sample(), sample(10.0, 0.9)).schemes["promote-1-0"].window_s == WINDOW_S


def test_pressure_is_a_share_of_the_time() -> None:
    assert read(sample(), sample(2.0, 10, some_us=500_000)).pressure == 0.25
    unknown = replace(sample(2.0, 10), pressure=None)
    assert read(sample(), unknown).pressure == 0
    assert read(replace(sample(), pressure=None), sample(2.0, 10, some_us=9)).pressure == 0


def test_a_node_is_as_it_is_now() -> None:
    node = read(sample(), sample(1.0, 10)).nodes[0]
    assert (node.total_bytes, node.free_bytes) == (GIB, 100 * MIB)
    # The watermark at which kswapd stops, and the reserve that programs never get.
    assert node.mark_bytes == 8 * MIB


def test_counters_that_began_anew_are_no_reading() -> None:
    """A kdamond may have died, been rebuilt or be off. Its counters then start at zero."""
    then, now = sample(), sample(1.0, 10)
    for index, one in enumerate(now.kdamonds):
        for changed in (
            replace(one, pid=999),
            replace(one, state="off"),
            replace(one, schemes=()),
            replace(one, sensed={}),
        ):
            mixed = tuple(changed if i == index else other for i, other in enumerate(now.kdamonds))
            assert measurement.measure(PLAN, then, replace(now, kdamonds=mixed)) is None
    assert measurement.measure(PLAN, None, now) is None
    assert measurement.measure(PLAN, now, now) is None, "no time went by"


def test_quotas_are_of_kdamonds_that_run() -> None:
    now = sample()
    up, down = {"promote-1-0": 4096, "evict-1": 4096}, {"demote-0-1": 4096}
    assert measurement.quotas(PLAN, now) == up | down
    first, second = now.kdamonds
    off = replace(now, kdamonds=(replace(first, state="off"), second))
    assert measurement.quotas(PLAN, off) == up
