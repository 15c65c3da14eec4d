"""A plan uses the monitoring settings of its config."""

from dataclasses import replace

import pytest

from tests.fixtures.pages import PAGE_BYTES
from tierd import policy
from tierd.configuration.config import Config, Tuner
from tierd.machine.features import Capabilities, Feature
from tierd.plans import reasons, sampling
from tierd.plans.damon import Context, Intervals, IntervalsGoal, Span
from tierd.plans.plan import Direction, Plan
from tierd.ranges import Range
from tierd.topology import Node, Tier, Topology

GIB = 1 << 30


def node(number: int, cpus: tuple[int, ...], size_bytes: int) -> Node:
    start = number << 40
    return Node(
        id=number,
        size_bytes=size_bytes,
        cpus=cpus,
        ranges=(Range(start, start + size_bytes),),
        distances=((number, 10), (1 - number, 20)),
        performance=None,
    )


def made(config: Config, *, size_bytes: int = GIB, lacking: str = "") -> Plan:
    topology = Topology(
        nodes=(node(0, (0, 1), size_bytes), node(1, (), size_bytes)),
        tiers=(Tier("memory_tier4", 0, (0,)), Tier("memory_tier67", 1, (1,))),
        page_bytes=PAGE_BYTES,
    )
    features = frozenset(feature for feature in Feature if feature != lacking)
    return policy.plan(topology, Capabilities(features), config)


def contexts(config: Config, *, size_bytes: int = GIB) -> list[Context]:
    return [kdamond.context for kdamond in made(config, size_bytes=size_bytes).kdamonds]


def test_the_default_is_that_of_the_cover_letter() -> None:
    for context in contexts(Config(tuner=Tuner.kernel)):
        assert context.intervals == Intervals(
            5_000, 100_000, 60_000_000, IntervalsGoal(400, 3, 5_000, 10_000_000)
        )
        assert context.nr_regions == Span(10, 1000)


@pytest.mark.parametrize(
    ("gib", "regions"),
    [
        (32, Span(50, 1_000)),
        (256, Span(50, 4_096)),
        (257, Span(50, 4_112)),
        (512, Span(81, 8_192)),
        (2048, Span(100, 10_000)),
    ],
)
def test_large_nodes_are_watched_in_more_regions(gib: int, regions: Span) -> None:
    for context in contexts(Config(), size_bytes=gib * GIB):
        assert context.nr_regions == regions


def test_a_node_in_pieces_has_two_regions_for_each_piece_at_least() -> None:
    """Each range has at least one region. DAMON splits a region in two to compare the parts."""
    pieces = tuple(Range(start << 24, (start << 24) + (1 << 20)) for start in range(1, 601))
    nodes = (replace(node(0, (0,), GIB), ranges=pieces), node(1, (), GIB))
    tiers = (Tier("memory_tier4", 0, (0,)), Tier("memory_tier67", 1, (1,)))
    config = Config(cost_bp=0)
    plan = policy.plan(Topology(nodes, tiers, PAGE_BYTES), Capabilities(frozenset(Feature)), config)
    in_pieces, whole = (kdamond.context.nr_regions.max for kdamond in plan.kdamonds)
    assert (in_pieces, whole) == (1200, 1000)


def test_configured_monitoring_is_used() -> None:
    config = Config(
        tuner=Tuner.kernel,
        sample_us=10_000,
        sample_us_max=50_000,
        aggr_us=200_000,
        access_bp=800,
        regions=(50, 500),
    )
    for context in contexts(config, size_bytes=512 * GIB):
        assert context.intervals == Intervals(
            10_000, 200_000, 60_000_000, IntervalsGoal(800, 3, 10_000, 50_000)
        )
        assert context.nr_regions == Span(50, 500)


@pytest.mark.parametrize(
    "change", [{"auto_intervals": False}, {"hot_age_ms_min": 1}, {"cold_age_ms_min": 1}]
)
def test_intervals_can_be_fixed(change: dict[str, int]) -> None:
    for context in contexts(replace(Config(), **change)):  # type: ignore[arg-type]
        assert context.intervals.goal is None


@pytest.mark.parametrize("asked", [True, False])
def test_only_wanted_features_are_reported_missing(asked: bool) -> None:
    plan = made(Config(auto_intervals=asked), lacking=Feature.intervals_goal)
    assert any("intervals_goal" in sentence for sentence in plan.degraded) is asked


@pytest.mark.parametrize(
    ("regions", "sample_ms"), [(32, 5), (250, 5), (300, 6), (1_000, 20), (10_000, 20)]
)
def test_with_more_regions_samples_are_less_frequent(regions: int, sample_ms: int) -> None:
    steady = sampling.steady(Config(), regions)
    assert steady.sample_us == sample_ms * 1000
    assert steady.samples == Config().aggr_us // Config().sample_us
    assert steady.goal is None


@pytest.mark.parametrize("lacking", ["", Feature.intervals_goal])
def test_where_pages_are_visited_intervals_stay_as_they_are(lacking: str) -> None:
    plan = made(Config(), lacking=lacking)
    assert plan.sweeps
    assert plan.kdamonds[0].context.intervals == sampling.steady(Config(), 50)


@pytest.mark.parametrize(("most", "visited"), [(100, True), (200, False), (1_000, False)])
def test_where_samples_come_too_often_nothing_is_visited(most: int, visited: bool) -> None:
    """A node of 512 MiB has 131,072 pages. 200 regions have 40,000 samples a second."""
    plan = made(Config(regions=(50, most)), size_bytes=GIB // 2)
    assert bool(plan.sweeps) is visited
    assert (reasons.SAMPLES_HIDE_TOUCHES in plan.degraded) is not visited
    promote = next(one for one in plan.migrations if one.direction is Direction.promote)
    scheme = plan.kdamonds[promote.kdamond].context.schemes[promote.scheme]
    # Regions with one hit are left to the visits, if there are any.
    assert (scheme.pattern.nr_accesses.min == 1) is not visited


def test_fixed_intervals_count_as_they_are() -> None:
    """With 1,000 regions tierd would sample every 20 ms; here it is every 5 ms."""
    for fixed in (False, True):
        config = Config(regions=(50, 1_000), auto_intervals=not fixed)
        assert sampling.hides_touches(config, GIB, PAGE_BYTES) is fixed


def test_what_is_configured_stays_as_it_is() -> None:
    config = Config(auto_intervals=False, regions=(10, 10_000))
    assert [one.intervals.sample_us for one in contexts(config)] == [5_000, 5_000]
