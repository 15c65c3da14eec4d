"""What the real damo and HMSDK's real generator wrote becomes settings and remarks."""

import re
from collections.abc import Sequence

import pytest

from tests.unit.importing import policies
from tests.unit.importing.real import ORIGINALS, folder
from tierd.importing import imported
from tierd.importing.imported import Document
from tierd.importing.remarks import Kind

TIERS = {"tiers": "[[0], [1]]"}
DEMOTING = {"demotion.min_age": "30s"}
PROMOTING = {"promotion.min_accesses": "5%"}
HMSDK_LOOKS = {
    "monitoring.auto_intervals": "off",
    "monitoring.sample": "100ms",
    "monitoring.aggregation": "2s",
    "monitoring.regions": "100-10000",
    "loop.window": "2s",
}
IN_GROUP = {"cgroups": "{hmsdk: {include: [/hmsdk]}}"}
HMSDK = {**TIERS, **PROMOTING, **DEMOTING, **HMSDK_LOOKS}

TUNED = {
    "headroom": "0.5%",
    "rate_limit": "200MiB/s",
    **TIERS,
    "promotion.min_accesses": "5%",
    "promotion.fill": "99.7%",
    "monitoring.auto_intervals": "on",
    "monitoring.accesses_seen": "4%",
    "monitoring.sample": "5ms",
    "monitoring.sample_max": "10s",
    "monitoring.aggregation": "100ms",
    "loop.window": "1s",
}
DEMOTES_FIXED = {
    "rate_limit": "64MiB/s",
    "cgroups": "{redis.slice: {exclude: [/redis.slice]}}",
    "demotion.min_age": "1min",
    "monitoring.auto_intervals": "off",
    "monitoring.sample": "10ms",
    "monitoring.aggregation": "200ms",
    "monitoring.regions": "20-500",
    "loop.window": "500ms",
}
FIXED = {
    **DEMOTES_FIXED,
    **TIERS,
    "promotion.min_accesses": "10%",
    "promotion.min_age": "3s",
}
# damo writes nanoseconds with --raw, and reads them as microseconds.
FIXED_RAW = {name: value for name, value in FIXED.items() if "min_age" not in name}
del FIXED_RAW["rate_limit"]
FIXED_RAW["promotion.min_age"] = "50min"

SETTINGS = {
    "hmsdk-4.0-demote.yaml": {**DEMOTING, **HMSDK_LOOKS, **IN_GROUP},
    "hmsdk-4.0-promote-global.yaml": {**PROMOTING, **HMSDK_LOOKS},
    "hmsdk-4.0-demote-promote.yaml": {**HMSDK, **IN_GROUP},
    "hmsdk-4.0-migrate.yaml": {**HMSDK, **IN_GROUP},
    "hmsdk-4.0-migrate-global.yaml": HMSDK,
    "hmsdk-4.0-migrate-pieces.yaml": {**PROMOTING, **DEMOTING, **HMSDK_LOOKS, **IN_GROUP},
    "hmsdk-4.0-two-sockets.yaml": {**HMSDK, **IN_GROUP, "tiers": "[[0, 1], [2, 3]]"},
    # No node is larger than the pieces.
    "hmsdk-4.0-two-sockets-global.yaml": {**HMSDK, "tiers": "[[0, 1], [2, 3]]"},
    "hmsdk-3.0-demote-promote.yaml": {**HMSDK, **IN_GROUP},
    "hmsdk-3.0-global.yaml": HMSDK,
    "damo-2.6.3-fixed": DEMOTES_FIXED,
    "damo-2.8.9-fixed": FIXED,
    "damo-2.8.9-fixed-raw": FIXED_RAW,
    "damo-2.8.9-tuned": TUNED,
    "damo-2.8.9-tuned-short": TUNED,
    "damo-2.8.9-reported.json": TUNED,
    "damo-3.4.3-fixed": FIXED,
    "damo-3.4.3-fixed-raw": FIXED_RAW,
    "damo-3.4.3-tuned": TUNED,
    "damo-3.4.3-tuned-short": TUNED,
    "damo-3.4.3-reported": TUNED,
    "damo-3.4.3-new": {"headroom": "1%", "rate_limit": "100MiB/s"},
}

# What is to be said of the real files beside the settings: kind, and the words of the policy.
HMSDK_TOLD = {
    ("improved", "regions"),
    ("improved", "filter_type young"),
    ("changed", "filter_type young"),
    ("changed", "aggr_us 2 s"),
    ("lost", "sz_permil 0 %, nr_accesses_permil 0 %, age_permil 1 %"),
    ("lost", "ops_update_us 20 s"),
}
TOLD = {
    "hmsdk-4.0-demote.yaml": (HMSDK_TOLD - {("improved", "filter_type young")})
    | {
        ("improved", "sz_bytes 50.000 GiB, time_ms 1 s"),
        ("improved", "memcg_path /hmsdk"),
        ("improved", "action migrate_cold"),
        ("carried", "nr_accesses.max 0 %"),
        # Only one direction, so nobody says which node is fast.
        ("changed", "action migrate_cold"),
        ("changed", "target_nid 1"),
        ("changed", "sample_us 100 ms, aggr_us 2 s"),
    },
    "hmsdk-4.0-migrate-pieces.yaml": HMSDK_TOLD
    | {
        ("improved", "sz_bytes 50.000 GiB, time_ms 1 s, time_ms 2 s"),
        ("improved", "memcg_path /hmsdk"),
        ("improved", "action migrate_cold, action migrate_hot"),
        ("carried", "nr_accesses.max 0 %"),
        ("changed", "target_nid 1, target_nid 0"),
        ("changed", "sample_us 100 ms, aggr_us 2 s"),
    },
    "damo-2.8.9-fixed.json": {
        ("improved", "regions"),
        ("improved", "action migrate_cold, action migrate_hot"),
        ("improved", "memcg_path /redis.slice"),
        ("carried", "nr_accesses.max 0 %"),
        ("changed", "sample_us 10 ms, aggr_us 200 ms"),
        ("lost", "time_ms 10 ms"),
        ("lost", "sz_permil 0 %, nr_accesses_permil 0.3 %, age_permil 0.7 %"),
        ("lost", "sz_bytes.min 2.000 MiB"),
        ("lost", "age.max 10 m"),
        ("lost", "ops_update_us 2 s"),
        ("lost", "filter_type anon"),
        ("lost", "metric free_mem_rate"),
    },
    "damo-3.4.3-reported.yaml": {
        ("improved", "regions"),
        ("improved", "filter_type young"),
        ("changed", "filter_type young"),
        (
            "improved",
            "metric node_mem_free_bp, target_value 50, metric node_mem_used_bp, target_value 9,970",
        ),
        ("improved", "nr_regions.min 10, nr_regions.max 1,000"),
        ("improved", "action migrate_cold, action migrate_hot"),
        ("carried", "nr_accesses.max 0 samples"),
        ("lost", "sz_permil 0.1 %, nr_accesses_permil 0.1 %, age_permil 0.1 %"),
    },
    "damo-3.4.3-new.json": {
        ("improved", "regions"),
        ("improved", "metric node_mem_used_bp, target_value 9,900, goal_tuner temporal"),
        ("improved", "sample_us 5 ms, aggr_us 100 ms"),
        ("improved", "action migrate_cold, action migrate_hot"),
        ("improved", "nr_regions.min 10, nr_regions.max 1,000"),
        ("changed", "target_nid 1, id 0, id 1"),
        ("changed", "metric node_mem_used_bp, target_value 9,900"),
        ("changed", "nr_accesses.min 0 %"),
        ("changed", "nr_accesses.max 18,446,744,073,709,551,615 %"),
        ("lost", "sz_permil 0.1 %, nr_accesses_permil 0.1 %, age_permil 0.1 %"),
        ("lost", "metric node_memcg_used_bp, target_value 5,000"),
        ("lost", "filter_type hugepage_size"),
        ("lost", "filter_type unmapped"),
        ("lost", "refresh_ms 500.0"),
        ("lost", "fail_charge_denom 4,096"),
        ("lost", "id 0, id 1"),
    },
}


def of(name: str) -> Document:
    return imported.read(name, (folder() / name).read_text())


def files() -> list[str]:
    return sorted(path.name for path in folder().iterdir() if path.suffix in (".json", ".yaml"))


def stem(name: str) -> str:
    return name if name in SETTINGS else name.rpartition(".")[0]


@pytest.mark.parametrize("name", files())
def test_the_settings(name: str) -> None:
    assert policies.values(of(name)) == SETTINGS[stem(name)]


def test_every_file_is_there() -> None:
    assert {stem(name) for name in files()} == set(SETTINGS)
    assert set(ORIGINALS) <= set(files())


@pytest.mark.parametrize("name", TOLD)
def test_what_is_told(name: str) -> None:
    told = {
        (str(one.kind), ", ".join(one.given))
        for one in of(name).remarks
        if one.kind is not Kind.carried or one.setting is None
    }
    assert told == TOLD[name]


@pytest.mark.parametrize("name", [name for name in files() if name.endswith(".yaml")])
def test_json_and_yaml_say_the_same(name: str) -> None:
    twin = name.replace(".yaml", ".json")
    if not (folder() / twin).exists() or "reported" in name:
        assert name.startswith("hmsdk") or "reported" in name
        return
    ours, theirs = of(name), of(twin)
    assert ours.config == theirs.config
    assert [(one.kind, one.setting, one.value, plain(one.given)) for one in ours.remarks] == [
        (one.kind, one.setting, one.value, plain(one.given)) for one in theirs.remarks
    ]


def plain(given: Sequence[str]) -> list[str]:
    """Return the words without zeros behind the point, which damo writes in one of the formats."""
    return [re.sub(r"\.0+\b", "", one) for one in given]
