"""What becomes of each part of a policy: a setting, a remark, or both."""

import json
from typing import Any

import pytest

from tests.unit.importing import policies
from tests.unit.importing.policies import (
    DOWN,
    UP,
    Json,
    changed,
    down,
    of,
    of_command,
    scheme_changed,
    told,
    up,
    values,
    without_goal,
)
from tierd.errors import ExitCode, Unsupported
from tierd.importing import imported
from tierd.importing.remarks import Kind


def test_a_policy_with_goals() -> None:
    document = of(down(), up())
    assert values(document) == {
        "headroom": "1%",
        "rate_limit": "100MiB/s",
        "tiers": "[[0], [1]]",
        "promotion.min_accesses": "5%",
        "promotion.fill": "99.5%",
        "monitoring.auto_intervals": "on",
        "monitoring.accesses_seen": "4%",
        "monitoring.sample": "5ms",
        "monitoring.sample_max": "10s",
        "monitoring.aggregation": "100ms",
        "loop.window": "1s",
    }
    kinds = {one.kind for one in document.remarks}
    assert kinds == set(Kind)


def test_every_setting_has_the_remark_that_says_where_it_is_from() -> None:
    document = of(down(), up())
    carried = {one.setting: one.value for one in document.remarks if one.kind is Kind.carried}
    assert carried.pop(None) is None
    assert carried == values(document)
    lines = policies.text(down(), up()).splitlines()
    for one in document.remarks:
        assert one.lines
        assert all(0 < line <= len(lines) for line in one.lines)


# A change of one context of the policy, the words that say it, the kind, and settings.
Case = tuple[Json, str, Kind, dict[str, str | None]]

QUOTAS = ("quotas",)
PATTERN = ("access_pattern",)
GOAL = ("quotas", "goals", 0)
INTERVALS = ("intervals",)
FIXED = {"access_bp": "0 %", "aggrs": "0", "min_sample_us": "0 ns", "max_sample_us": "0 ns"}


def fixed(sample: str, aggregation: str) -> Json:
    made = changed(down(), ("intervals", "intervals_goal"), FIXED)
    return changed(
        made, ("intervals",), {**made["intervals"], "sample_us": sample, "aggr_us": aggregation}
    )


CASES: dict[str, Case] = {
    "no limit": (
        scheme_changed(down(), (*QUOTAS, "sz_bytes"), "0 B"),
        "tierd always has one",
        Kind.changed,
        {"rate_limit": None},
    ),
    "a limit for ever": (
        scheme_changed(down(), (*QUOTAS, "reset_interval_ms"), "max"),
        "this is a limit for all time",
        Kind.changed,
        {"rate_limit": None},
    ),
    "a window is the apply interval": (
        scheme_changed(
            scheme_changed(down(), (*QUOTAS, "reset_interval_ms"), "0 ns"),
            ("apply_interval_us",),
            "500 ms",
        ),
        "reset_interval_ms 0 ns",
        Kind.carried,
        {"rate_limit": "200MiB/s", "loop.window": "500ms"},
    ),
    "a window is the aggregation": (
        scheme_changed(
            scheme_changed(down(), (*QUOTAS, "reset_interval_ms"), "0 ns"),
            ("apply_interval_us",),
            "0 ns",
        ),
        "reset_interval_ms 0 ns",
        Kind.carried,
        {"rate_limit": "1000MiB/s", "loop.window": None},
    ),
    "a rate that is too low": (
        scheme_changed(down(), (*QUOTAS, "sz_bytes"), "4 KiB"),
        "tierd takes auto, or 1MB/s to 1TB/s",
        Kind.changed,
        {"rate_limit": None},
    ),
    "time is the limit": (
        scheme_changed(down(), (*QUOTAS, "time_ms"), "1 ms"),
        "the limit of time was the real one",
        Kind.improved,
        {"rate_limit": None},
    ),
    "both are limits": (
        scheme_changed(down(), (*QUOTAS, "time_ms"), "20 ms"),
        "no limit of working time",
        Kind.lost,
        {"rate_limit": "100MiB/s"},
    ),
    "weights": (down(), "tierd has its own order", Kind.lost, {}),
    "no goal": (
        scheme_changed(down(), (*QUOTAS, "goals"), []),
        "the policy has no goal",
        Kind.improved,
        {"headroom": None},
    ),
    "a goal": (down(), "set `tuner: kernel`", Kind.improved, {"headroom": "1%", "tuner": None}),
    "a tuner of goals": (
        scheme_changed(down(), (*QUOTAS, "goal_tuner"), "temporal"),
        "goal_tuner temporal",
        Kind.improved,
        {"tuner": None},
    ),
    "a goal by hand": (
        scheme_changed(down(), (*GOAL, "metric"), "user_input"),
        "feed this goal by hand",
        Kind.lost,
        {"headroom": None},
    ),
    "a goal of pressure": (
        scheme_changed(down(), (*GOAL, "metric"), "some_mem_psi_us"),
        "tierd aims at the free and the used share",
        Kind.lost,
        {"headroom": None},
    ),
    "a goal in the other direction": (
        scheme_changed(down(), (*GOAL, "metric"), "node_mem_used_bp"),
        "promotes by the used share of a node, and demotes by the free share",
        Kind.lost,
        {"headroom": None},
    ),
    "a complement": (
        scheme_changed(down(), (*GOAL, "complement"), True),
        "no goals of a complement",
        Kind.lost,
        {"headroom": None},
    ),
    "too much headroom": (
        scheme_changed(down(), (*GOAL, "target_value"), "60 %"),
        "tierd takes 0.01% to 50%",
        Kind.changed,
        {"headroom": None},
    ),
    "warm memory goes down": (
        scheme_changed(down(), (*PATTERN, "nr_accesses", "max"), "10 %"),
        "only what had no access at all",
        Kind.changed,
        {},
    ),
    "cold memory goes down": (down(), "tierd demotes the same", Kind.carried, {}),
    "an upper limit of heat": (
        scheme_changed(up(), (*PATTERN, "nr_accesses", "max"), "50 %"),
        "without an upper limit",
        Kind.lost,
        {},
    ),
    "hot by samples": (
        scheme_changed(up(), (*PATTERN, "nr_accesses"), {"min": "2 samples", "max": "max"}),
        "2 samples",
        Kind.carried,
        {"promotion.min_accesses": "10%"},
    ),
    "everything is hot": (
        scheme_changed(up(), (*PATTERN, "nr_accesses", "min"), "0 %"),
        "tierd takes 1% to 100%",
        Kind.changed,
        {"promotion.min_accesses": None},
    ),
    "an age": (
        scheme_changed(down(), (*PATTERN, "age", "min"), "30 s"),
        "the kernel does not tune its sampling",
        Kind.carried,
        {"demotion.min_age": "30s", "promotion.min_age": None},
    ),
    "an age in aggregations": (
        scheme_changed(up(), (*PATTERN, "age", "min"), "20 aggr_intervals"),
        "20 aggr_intervals",
        Kind.carried,
        {"promotion.min_age": "2s", "demotion.min_age": None},
    ),
    "an age that is too long": (
        scheme_changed(down(), (*PATTERN, "age", "min"), "2 h"),
        "tierd takes 0s to 1h",
        Kind.changed,
        {"demotion.min_age": None},
    ),
    "a maximum age": (
        scheme_changed(down(), (*PATTERN, "age", "max"), "1 h"),
        "no maximum age",
        Kind.lost,
        {},
    ),
    "a size": (
        scheme_changed(down(), (*PATTERN, "sz_bytes", "min"), "2 MiB"),
        "regions of any size",
        Kind.lost,
        {},
    ),
    "fixed intervals": (
        fixed("10 ms", "400 ms"),
        "the policy has fixed intervals",
        Kind.changed,
        {
            "monitoring.auto_intervals": "off",
            "monitoring.sample": "10ms",
            "monitoring.aggregation": "400ms",
            "monitoring.accesses_seen": None,
        },
    ),
    "DAMON's intervals": (
        fixed("5 ms", "100 ms"),
        "tierd lets the kernel tune",
        Kind.improved,
        {"monitoring.sample": None, "monitoring.auto_intervals": None},
    ),
    "too few samples": (
        fixed("50 ms", "100 ms"),
        "tierd needs 5 samples",
        Kind.changed,
        {"monitoring.sample": None, "monitoring.auto_intervals": None},
    ),
    "intervals that are too long": (
        fixed("10 s", "200 s"),
        "no intervals of this length",
        Kind.changed,
        {"monitoring.sample": None, "monitoring.aggregation": None},
    ),
    "the shortest is the longest": (
        changed(down(), (*INTERVALS, "intervals_goal", "max_sample_us"), "1 ms"),
        "the longest interval is less than the shortest",
        Kind.changed,
        {"monitoring.sample": None},
    ),
    "a window longer than the apply interval": (
        fixed("100 ms", "2 s"),
        "must not be shorter than an aggregation",
        Kind.changed,
        {"loop.window": "2s"},
    ),
    "tuning over other aggregations": (
        changed(down(), (*INTERVALS, "intervals_goal", "aggrs"), "5"),
        "over 3 aggregations",
        Kind.lost,
        {"monitoring.auto_intervals": "on"},
    ),
    "an update interval": (
        changed(down(), (*INTERVALS, "ops_update_us"), "20 s"),
        "tierd always uses 60 s",
        Kind.lost,
        {},
    ),
    "DAMON's regions": (
        down(),
        "by the size of the node",
        Kind.improved,
        {"monitoring.regions": None},
    ),
    "regions": (
        changed(down(), ("nr_regions", "max"), "5,000"),
        "nr_regions.max 5,000",
        Kind.carried,
        {"monitoring.regions": "10-5000"},
    ),
    "too few regions": (
        changed(down(), ("nr_regions",), {"min": "1", "max": "2"}),
        "tierd takes 3 to 100000 regions",
        Kind.changed,
        {"monitoring.regions": None},
    ),
    "watermarks": (
        scheme_changed(down(), ("watermarks", "metric"), "free_mem_rate"),
        "it always keeps the headroom",
        Kind.lost,
        {},
    ),
    "addresses": (down(), "fixed when the policy was written", Kind.improved, {}),
    "one direction": (down(), "the policy only demotes", Kind.changed, {}),
    "a young filter of demotion": (down(), "without this filter", Kind.changed, {}),
    "a young filter of promotion": (up(), "tierd has this filter itself", Kind.improved, {}),
    "a young filter the other way": (
        scheme_changed(down(), ("filters", 0, "allow"), True),
        "moves the pages that tierd leaves",
        Kind.lost,
        {},
    ),
    "several targets": (
        scheme_changed(down(), ("dests",), [{"id": 2, "weight": 1}]),
        "no weights of target nodes",
        Kind.lost,
        {},
    ),
    "a scheme that counts": (
        changed(down(), ("schemes",), [down()["schemes"][0], {"action": "stat"}]),
        "`tierd observe` shows what would move",
        Kind.lost,
        {},
    ),
    "a scheme that reclaims": (
        changed(down(), ("schemes",), [down()["schemes"][0], {"action": "pageout"}]),
        "tierd only moves memory between nodes",
        Kind.lost,
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_becomes_of(name: str) -> None:
    context, words, kind, settings = CASES[name]
    document = of(context)
    assert told(document, words).kind is kind
    found = values(document)
    assert {key: found.get(key) for key in settings} == settings


@pytest.mark.parametrize("kind", ["anon", "active", "hugepage_size", "unmapped", "addr", "target"])
def test_filters_that_tierd_does_not_have(kind: str) -> None:
    document = of(scheme_changed(down(), ("filters",), [{"filter_type": kind, "matching": True}]))
    assert told(document, f"filter_type {kind}").kind is Kind.lost


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("--refresh_stat 1000", "tierd asks for statistics"),
        ("--damon_addr_unit 4096", "tierd counts addresses in bytes"),
        ("--pause_ctx 0", "use `tierd pause`"),
        ("--obsolete_targets 0", "tierd has no targets to remove"),
        ("--damos_max_nr_snapshots 5", "tierd works until it is stopped"),
        ("--damos_quota_fail_charge_ratio 1 4096", "tierd charges a failed try"),
        ("--probe_filter allow anon", "tierd uses no probes"),
        ("--exp_ops_cpus 0-3", "tierd lets DAMON look at page tables"),
        ("--damos_quota_space 1G", "damo itself ignores it"),
        ("\necho hello", "not read: only"),
    ],
)
def test_what_tierd_has_no_words_for(extra: str, words: str) -> None:
    assert told(of_command(f"{UP} {extra}"), words).kind is Kind.lost


def test_what_stands_beside_the_command() -> None:
    stop = "damo module stat write enabled N"
    on = "echo 1 > /sys/kernel/mm/numa/demotion_enabled"
    document = imported.read("p", f"{stop}\ndamo start {UP}\n{on}\n")
    assert values(document)["neighbours.damon_stat"] == "stop"
    assert values(document)["neighbours.demotion_enabled"] == "on"
    other = imported.read("p", f"{stop[:-1]}Y\ndamo start {UP}\n{on.replace('1', '0')}\n")
    assert not {"neighbours.damon_stat", "neighbours.demotion_enabled"} & set(values(other))
    assert told(other, "tierd cannot run beside damon_stat").kind is Kind.lost
    assert told(other, "tierd can switch it on, not off").kind is Kind.lost


def test_a_goal_of_another_node() -> None:
    quota = "--damos_quota_interval 1s --damos_quota_space 100M"
    aim = "--damos_quota_goal node_mem_free_bp 1% 3"
    document = of_command(f"--numa_node 0 {DOWN} {quota} {aim}")
    assert told(document, "tierd aims at node 0").kind is Kind.lost
    assert "headroom" not in values(document)


def used(share: str, free: str | None) -> Json:
    goal = {"metric": "node_mem_used_bp", "nid": "0", "target_value": share, "current_value": "0"}
    promoting = scheme_changed(up(), ("quotas", "goals"), [goal])
    demoting = (
        without_goal(down(), 1)
        if free is None
        else scheme_changed(down(), (*GOAL, "target_value"), free)
    )
    return demoting, promoting


@pytest.mark.parametrize(
    ("share", "free", "headroom", "fill"),
    [
        ("99.7 %", "0.5 %", "0.5%", "99.7%"),
        ("99.7 %", None, None, "99.7%"),
        ("95 %", None, "5%", None),
        ("95 %", "1 %", "1%", None),
        ("100 %", "1 %", "1%", "100%"),
        ("30 %", "1 %", "1%", None),
        ("50 %", None, "50%", None),
    ],
)
def test_headroom_and_fill_overlap(
    share: str, free: str | None, headroom: str | None, fill: str | None
) -> None:
    found = values(of(*used(share, free)))
    assert (found.get("headroom"), found.get("promotion.fill")) == (headroom, fill)


def test_what_differs_between_schemes_has_one_value() -> None:
    slow = scheme_changed(down(), ("quotas", "sz_bytes"), "50 MiB")
    document = of(slow, up())
    assert values(document)["rate_limit"] == "50MiB/s"
    assert told(document, "the lowest rate is taken").given == (
        "sz_bytes 100.000 MiB, reset_interval_ms 1 s",
    )
    without = scheme_changed(down(), ("quotas", "sz_bytes"), "0 B")
    assert told(of(without, up()), "the limit of the other schemes").value == "100MiB/s"


def test_the_shortest_intervals_are_taken() -> None:
    slow = changed(down(), ("intervals", "intervals_goal", "min_sample_us"), "20 ms")
    document = of(slow, up())
    assert values(document)["monitoring.sample"] == "5ms"
    assert told(document, "the same intervals on all nodes").kind is Kind.changed


def test_the_widest_bounds_of_regions_are_taken() -> None:
    other = changed(down(), ("nr_regions",), {"min": "50", "max": "5,000"})
    document = of(other, up())
    assert values(document)["monitoring.regions"] == "10-5000"
    assert told(document, "the widest are taken").kind is Kind.changed


def test_pieces_of_a_node_share_one_limit() -> None:
    """HMSDK's option --region-max-size makes a kdamond for each piece of a node."""
    document = of(*[down()] * 40, up())
    one = told(document, "up to 40 schemes move memory to the same node")
    assert one.kind is Kind.improved
    assert len(one.lines) == 40
    assert values(document)["rate_limit"] == "100MiB/s"
    assert len(document.remarks) < 30


@pytest.mark.parametrize(
    "options",
    [
        "--damos_action pageout",
        "--damos_action stat",
        "",
        f"--ops vaddr --target_pid 1 {UP}",
    ],
)
def test_a_policy_that_moves_nothing_between_nodes(options: str) -> None:
    with pytest.raises(Unsupported, match="no scheme that moves physical memory") as caught:
        of_command(options)
    assert caught.value.exit_code is ExitCode.unsupported
    assert "migrate_hot or migrate_cold" in caught.value.hint


@pytest.mark.parametrize(
    ("most", "is_limit"),
    [
        ("max", False),
        # damo reports this for a maximum that nobody gave.
        ("184,467,440,737,095 aggr_intervals", False),
        ("4,294,967,295 aggr_intervals", False),
        ("4,294,967,294 aggr_intervals", True),
    ],
)
def test_no_age_is_above_what_the_kernel_counts_to(most: str, is_limit: bool) -> None:
    document = of(scheme_changed(down(), (*PATTERN, "age", "max"), most))
    assert any("no maximum age" in one.text for one in document.remarks) is is_limit


def test_a_context_of_a_program_is_left_out() -> None:
    other: dict[str, Any] = {**down(), "ops": "vaddr"}
    document = of(other, up())
    assert told(document, "not single programs").kind is Kind.lost
    assert values(document)["headroom"] == "0.5%"


def test_a_policy_without_kdamonds_moves_nothing() -> None:
    with pytest.raises(Unsupported):
        imported.read("p", json.dumps({"kdamonds": []}))
