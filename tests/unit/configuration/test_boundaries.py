"""The last allowed value and the first wrong value of each comparison."""

import pytest

from tests.unit.configuration.test_config import errors, parse

# Settings that are wrong together: the last allowed pair, and the first wrong pair.
TOGETHER = [
    ("headroom: 2%\npromotion: {fill: 98.01%}", "headroom: 2%\npromotion: {fill: 98%}"),
    (
        "monitoring: {sample: 20ms, aggregation: 100ms}",
        "monitoring: {sample: 20ms, aggregation: 99ms}",
    ),
    (
        "monitoring: {sample: 5ms, sample_max: 5ms}",
        "monitoring: {sample: 5ms, sample_max: 4999us}",
    ),
    (
        "monitoring: {aggregation: 300ms}\nloop: {window: 300ms}",
        "monitoring: {aggregation: 301ms}\nloop: {window: 300ms}",
    ),
    ("loop: {window: 200ms, tick: 2s}", "loop: {window: 200ms, tick: 2001ms}"),
]

# Single settings, at the lower and at the upper bound.
ALONE = [
    ("headroom: 0.01%", "headroom: 0%"),
    ("headroom: 50%", "headroom: 50.01%"),
    ("promotion: {min_accesses: 1%}", "promotion: {min_accesses: 0.99%}"),
    ("promotion: {min_accesses: 100%}", "promotion: {min_accesses: 100.01%}"),
    ("promotion: {min_age: 1h}", "promotion: {min_age: 3600001ms}"),
    ("demotion: {min_age: 1h}", "demotion: {min_age: 3600001ms}"),
    ("headroom: 50%\npromotion: {fill: 50.01%}", "headroom: 50%\npromotion: {fill: 49.99%}"),
    ("monitoring: {accesses_seen: 0.01%}", "monitoring: {accesses_seen: 0%}"),
    ("monitoring: {sample: 100us}", "monitoring: {sample: 99us}"),
    ("monitoring: {aggregation: 1ms, sample: 100us}", "monitoring: {aggregation: 999us}"),
    ("monitoring: {sample_max: 1h}", "monitoring: {sample_max: 3600001ms}"),
    ("monitoring: {regions: 3-3}", "monitoring: {regions: 2-3}"),
    ("monitoring: {regions: 3-100000}", "monitoring: {regions: 3-100001}"),
    ("monitoring: {regions: 10-10}", "monitoring: {regions: 11-10}"),
    ("loop: {window: 100ms}\nmonitoring: {aggregation: 50ms}", "loop: {window: 99ms}"),
    ("loop: {window: 1min}", "loop: {window: 60001ms}"),
    ("loop: {tick: 100ms}", "loop: {tick: 99ms}"),
    ("loop: {window: 1min, tick: 1min}", "loop: {window: 1min, tick: 60001ms}"),
    ("metrics: {address: 127.0.0.1:65535}", "metrics: {address: 127.0.0.1:65536}"),
    ("tiers: [[0], [1]]", "tiers: [[0]]"),
    ("bandwidths: {0: 1MB/s}", "bandwidths: {0: 999kB/s}"),
    ("bandwidths: {0: 100TB/s}", "bandwidths: {0: 100001GB/s}"),
    (
        f"tiers: {[[rank] for rank in range(64)]}",
        f"tiers: {[[rank] for rank in range(65)]}",
    ),
    (f"cgroups: {{a: {{include: /{'x' * 3999}}}}}", f"cgroups: {{a: {{include: /{'x' * 4000}}}}}"),
    (f"metrics: {{textfile: /{'x' * 3994}.prom}}", f"metrics: {{textfile: /{'x' * 3995}.prom}}"),
    ("#" * 64 * 1024, "#" * (64 * 1024 + 1)),
]


@pytest.mark.parametrize(
    ("last", "first"), TOGETHER + ALONE, ids=[a[:60] for a, _ in TOGETHER + ALONE]
)
def test_the_last_is_taken_and_the_next_is_not(last: str, first: str) -> None:
    parse(last)
    assert len(errors(first)) >= 1
