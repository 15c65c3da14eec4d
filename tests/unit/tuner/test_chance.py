"""What looks hot by chance does not count, and what is hot does."""

from dataclasses import replace
from math import comb, exp, lgamma, log
from random import Random

import pytest

from tests.fixtures.readings import HEADROOM, LIMITS, UP, decide, reading
from tests.fixtures.tiers import machine
from tierd import policy
from tierd.configuration.config import Config
from tierd.machine.features import Capabilities, Feature
from tierd.plans.plan import Sweep
from tierd.tuner import chance
from tierd.tuner.chance import SURE, TIMES, Level, Look
from tierd.tuner.measurement import NodeMeasurement, SchemeMeasurement

MIB = 1 << 20
SAMPLES = 20
BOUNDS = (1, 3, 8, 14)
WEIGHTS = (0.075, 0.175, 0.275, 0.475)


def levels(hits: list[int], region_bytes: int) -> tuple[Level, ...]:
    """Return the levels of regions with so many hits each."""
    return tuple(
        Level(bound, sum(region_bytes for one in hits if one >= bound), weight)
        for bound, weight in zip(BOUNDS, WEIGHTS, strict=True)
    )


def node(hits: list[int]) -> NodeMeasurement:
    """Return a node all of whose memory is in use, in regions of one MiB."""
    found = levels(hits, MIB)
    heat = round(sum(one.weight * one.bytes for one in found))
    whole = len(hits) * MIB
    return NodeMeasurement(
        whole,
        0,
        0,
        heat_bytes=heat,
        levels=found,
        samples=SAMPLES,
        counted_regions=len(hits),
    )


def alike(hz: float, regions: int, seed: int) -> list[int]:
    """Return the hits of regions whose pages are all touched so often, sampled every 20 ms."""
    rng, share = Random(seed), 1 - exp(-hz * 0.02)
    return [sum(rng.random() < share for _ in range(SAMPLES)) for _ in range(regions)]


def beyond(one: NodeMeasurement, above: NodeMeasurement) -> NodeMeasurement:
    assert one.hit_share is not None
    assert above.hit_share is not None
    return one.beyond_chance(min(one.hit_share, above.hit_share))


@pytest.mark.parametrize("hz", [0.1, 1.0, 3.0, 10.0, 60.0])
def test_two_nodes_that_are_used_alike_have_nothing_hot(hz: float) -> None:
    below, above = node(alike(hz, 2000, seed=1)), node(alike(hz, 2000, seed=2))
    found = beyond(below, above)
    assert found.hot_bytes == 0
    assert found.sure_bytes == 0
    # All of its heat is still heat, but none of it is sure.
    assert found.faint_bytes == found.heat_bytes == below.heat_bytes


@pytest.mark.parametrize("hz", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("hot", [20, 200, 1000])
def test_a_hot_part_counts_whatever_the_rest_is(hz: float, hot: int) -> None:
    below = node([SAMPLES] * hot + alike(hz, 2000 - hot, seed=3))
    found = beyond(below, node(alike(hz, 2000, seed=4)))
    assert (found.hot_bytes or 0) >= 0.95 * hot * MIB
    # What chance may have done is taken off twice, so a hundredth of a warm node loses a fifth.
    assert found.sure_bytes >= (0.75 if hot == 20 else 0.9) * hot * MIB


def test_memory_that_is_all_hot_counts_where_nobody_uses_what_is_above() -> None:
    """All of the slow node is alike, but the fast node is not."""
    found = beyond(node([SAMPLES] * 500), node([0] * 500))
    assert found.hot_bytes == 500 * MIB
    assert found.sure_bytes == 500 * MIB


def test_more_hits_count_where_few_are_chance() -> None:
    """A tenth of all samples hits everywhere. So three hits say nothing, and ten do."""
    warm = alike(5.0, 1500, seed=5)
    found = beyond(node([10] * 500 + warm), node(alike(5.0, 2000, seed=6)))
    assert found.hot_bytes == pytest.approx(500 * MIB, rel=0.1)
    assert found.sure_bytes == pytest.approx(WEIGHTS[2] * 500 * MIB, rel=0.1)


def test_so_many_times_what_chance_makes_hot_is_chance() -> None:
    """Three of four are hit in two samples, so each sample hits a half, and both a quarter."""
    whole = 1000 * MIB
    by_chance = round(TIMES * 0.25 * whole)

    def beyond_two_hits(two_hits: int, one_hit: int = whole // 2) -> int:
        both = Level(1, two_hits + one_hit, 0.5), Level(2, two_hits, 0.5)
        first, second = chance.beyond(both, 0.75, Look(2, 10**9, whole))
        # What has a hit or two is not sure.
        assert first.bytes == second.bytes
        return round(second.bytes)

    # There are so many regions that as many are hit as chance explains.
    assert beyond_two_hits(by_chance) == 0
    assert beyond_two_hits(by_chance + MIB) == pytest.approx(MIB, rel=0.2)
    # If half as much as should have one hit has one, half of the memory is used alike.
    assert beyond_two_hits(by_chance, whole // 4) == pytest.approx(by_chance // 2, rel=0.001)
    assert beyond_two_hits(by_chance, 0) == by_chance


@pytest.mark.parametrize("regions", [50, 100, 1000])
@pytest.mark.parametrize("hz", [0.5, 1.0, 3.0])
def test_few_large_regions_that_look_hot_are_chance(hz: float, regions: int) -> None:
    """Of 100 nodes whose regions are of different sizes, and are all used alike."""
    found = 0
    for seed in range(100):
        rng = Random(1000 + seed)
        sizes = [round(MIB * rng.expovariate(1)) + 1 for _ in range(regions)]
        hits = alike(hz, regions, seed)
        here = [
            replace(
                one, bytes=sum(size for size, hit in zip(sizes, hits, strict=True) if hit >= at)
            )
            for at, one in zip(BOUNDS, levels(hits, MIB), strict=True)
        ]
        used, expected = sum(sizes), 1 - exp(-hz * 0.02 * SAMPLES)
        left = chance.beyond(here, expected, Look(SAMPLES, regions, used))
        found += any(one.bytes > 0 for one in left)
    assert found <= 5


def test_one_hot_region_of_few_counts() -> None:
    warm = alike(1.0, 69, seed=7)
    found = beyond(node([SAMPLES, *warm]), node(alike(1.0, 70, seed=8)))
    assert found.hot_bytes == MIB


def test_the_number_of_regions_counts_for_the_part_that_is_used_alike() -> None:
    """Half of the memory is cold, so half as much is chance. Beside cold memory nothing is."""
    page = 1 - exp(-1.0 * 0.02)
    one_or_two = sum(comb(SAMPLES, n) * page**n * (1 - page) ** (SAMPLES - n) for n in (1, 2))
    hit = 1 - (1 - page) ** SAMPLES
    whole = 70 * MIB

    def taken_off(part: float) -> float:
        hot = Level(3, whole / 2, 0.2)
        both = Level(1, hot.bytes + part * one_or_two * whole, 0.1), hot
        return hot.bytes - chance.beyond(both, hit, Look(SAMPLES, 70, whole))[1].bytes

    assert taken_off(1.0) > 2 * MIB
    assert taken_off(0.5) == pytest.approx(taken_off(1.0) / 2, rel=0.01)
    assert taken_off(0.0) == 0


@pytest.mark.parametrize("average", [0.01, 0.5, 3.0, 30.0, 99.9, 100.1, 2000.0])
def test_more_events_than_the_most_are_seldom(average: float) -> None:
    """By the exact distribution, one more than that is as seldom, and one less is not."""
    most = chance.most_events(average)

    def above(number: int) -> float:
        terms = (exp(-average + n * log(average) - lgamma(n + 1)) for n in range(number + 1))
        return 1 - sum(terms)

    assert above(round(most)) < 1.5 * (1 - SURE)
    if most:
        assert above(round(most) - 1) > 0.7 * (1 - SURE)


@pytest.mark.parametrize("hits", [3, 10])
def test_a_set_that_is_hot_in_part_on_both_nodes_counts(hits: int) -> None:
    """Nothing has a hit or two, so nothing is used alike by chance."""
    both = node([hits] * 500 + [0] * 1500)
    assert beyond(both, both).hot_bytes == 500 * MIB
    assert beyond(both, both).sure_bytes == both.heat_bytes


def test_without_a_sensor_for_single_hits_it_is_not_known() -> None:
    found = levels([SAMPLES] * 10, MIB)
    assert chance.hit_share(found, 20 * MIB) == 0.5
    assert chance.hit_share(found, 0) == 1.0
    assert chance.hit_share(found[1:], 20 * MIB) is None
    assert chance.hit_share((), 20 * MIB) is None


def test_the_sensors_of_a_plan_tell_their_bounds() -> None:
    plan = policy.plan(machine((0,), (1,)), Capabilities(frozenset(Feature)), Config())
    bounds = [one.accesses_min for one in plan.sensors if one.kdamond == 1 and one.weight]
    assert bounds == list(BOUNDS)


def hot_below(sweeps: tuple[Sweep, ...]) -> float:
    """Return how fast memory should come up by regions where all memory is used alike."""
    seen = reading(cold=0, free=HEADROOM + 100 * MIB)
    warm = {at: node(alike(3.0, one.used_bytes // MIB, seed=at)) for at, one in seen.nodes.items()}
    nodes = {
        at: replace(
            one,
            heat_bytes=warm[at].heat_bytes,
            levels=warm[at].levels,
            samples=SAMPLES,
            counted_regions=warm[at].counted_regions,
            sure_hot_bytes=round(warm[at].levels[1].bytes) if at == 1 else None,
        )
        for at, one in seen.nodes.items()
    }
    visits = {one.id: SchemeMeasurement(0, 0, one.quota_bytes, 0.02) for one in sweeps}
    made = replace(seen, nodes=nodes, sweeps=visits)
    return decide(made, limits=replace(LIMITS, sweeps=sweeps)).wants[UP.id].bytes_per_s


def test_regions_leave_it_to_visits_if_those_are_quick() -> None:
    sweeps = policy.plan(machine((0,), (1,)), Capabilities(frozenset(Feature)), Config()).sweeps
    assert hot_below(sweeps) == 0
    slow = tuple(replace(one, gated=True) for one in sweeps)
    assert hot_below(slow) > 0
