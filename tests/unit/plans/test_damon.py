"""The list of writes: its order, that it is complete, and the values that it refuses."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierd import policy
from tierd.configuration.config import Config, Tuner
from tierd.errors import TierdError
from tierd.machine import discovery, features
from tierd.machine.features import KDAMONDS, Capabilities, Feature
from tierd.plans.changes import ChangeMethod, difference, is_count, values
from tierd.plans.damon import (
    Action,
    Context,
    Filter,
    FilterType,
    Goal,
    IntervalsGoal,
    Kdamond,
    Metric,
    Scheme,
    Span,
    Write,
    fingerprint,
    scheme_dir,
    writes,
)
from tierd.plans.plan import Plan
from tierd.plans.safety import require_safe
from tierd.ranges import Range
from tierd.sim import machine_model
from tierd.sim.sim_kernel import SimKernel

SERIES = ("6.12", "6.16", "6.18", "7.2", "7.3")
ALL = Capabilities(frozenset(Feature))
KERNEL = Config(tuner=Tuner.kernel)
READ_ONLY = ("pid", "avail_operations", "effective_bytes", "total_bytes")


def kernel(series: str, name: str = "two-tier") -> SimKernel:
    return SimKernel(series, machine_model.load(name), block_pages=512)


def plan(series: str = "7.3", config: Config | None = None, name: str = "two-tier") -> Plan:
    sysfs = kernel(series, name)
    topology = discovery.survey(sysfs, None)
    return policy.plan(topology, features.probe(sysfs), config or KERNEL)


@pytest.mark.parametrize("series", SERIES)
def test_a_kernel_accepts_the_writes_in_their_order(series: str) -> None:
    sysfs = kernel(series)
    sysfs.write("sys/module/damon_stat/parameters/enabled", "N") if sysfs.exists(
        "sys/module/damon_stat"
    ) else None
    for write in plan(series).writes:
        sysfs.write(write.path, write.value)
        assert sysfs.read(write.path) == write.value


@pytest.mark.parametrize("series", SERIES)
def test_every_file_of_the_kernel_is_either_written_or_not_used(series: str) -> None:
    """This test fails if a new kernel has a file that tierd does not know."""
    sysfs = kernel(series)
    listed = plan(series).writes
    for write in listed:
        if not write.path.endswith("/state"):
            sysfs.write(write.path, write.value)
    unused = {"ms", "addr_unit", "pid_target", "obsolete_target", "nr_probes", "nr_dests"}
    unused |= {"memcg_path", "addr_start", "addr_end", "damon_target_idx", "path"}
    unused |= {"interval_us", "high", "mid", "low", "max_nr_snapshots", "current_value"}
    written = {write.path for write in listed}
    for path in sysfs.files(KDAMONDS):
        name = path.rpartition("/")[2]
        skipped = name in unused or name in READ_ONLY or "/stats/" in path or "tried" in path
        # A filter is in one directory only. Files min and max are for hugepage_size filters.
        skipped |= "filters/" in path and name in ("nr_filters", "min", "max")
        assert skipped or f"{KDAMONDS}/{path}" in written, path


def test_counts_come_before_the_files_that_they_create() -> None:
    seen: set[str] = set()
    for write in plan(name="three-tier").writes:
        parts = write.path.split("/")
        for depth, part in enumerate(parts):
            if part.isdigit():
                folder = "/".join(parts[:depth])
                assert any(path.startswith(f"{folder}/nr_") for path in seen), write.path
        seen.add(write.path)


def test_equal_lists_have_equal_fingerprints() -> None:
    assert fingerprint(plan().writes) == fingerprint(plan().writes)
    assert fingerprint(plan().writes) != fingerprint(plan().writes[:-1])


def altered(make: Plan, **scheme: object) -> tuple[Kdamond, ...]:
    first, *rest = make.kdamonds
    old = first.context.schemes[0]
    context = replace(first.context, schemes=(replace(old, **scheme),))  # type: ignore[arg-type]
    return (replace(first, context=context), *rest)


def in_context(make: Plan, **context: object) -> tuple[Kdamond, ...]:
    first, *rest = make.kdamonds
    return (replace(first, context=replace(first.context, **context)), *rest)  # type: ignore[arg-type]


def scheme_of(make: Plan) -> Scheme:
    return make.kdamonds[0].context.schemes[0]


def context_of(make: Plan) -> Context:
    return make.kdamonds[0].context


P = plan()
QUOTA = scheme_of(P).quota
PATTERN = scheme_of(P).pattern
INTERVALS = context_of(P).intervals
UNSAFE = {
    "target_nid 7": altered(P, target_nid=7),
    "bytes is 0": altered(P, quota=replace(QUOTA, bytes_max=0)),
    "target 0": altered(P, quota=replace(QUOTA, goals=(Goal(Metric.user_input, 0),))),
    "about node 9": altered(
        P, quota=replace(QUOTA, goals=(Goal(Metric.node_mem_used_bp, 1, nid=9),))
    ),
    "has no node": altered(P, quota=replace(QUOTA, goals=(Goal(Metric.user_input, 1, nid=0),))),
    "nr_accesses is not": altered(P, pattern=replace(PATTERN, nr_accesses=Span(0, 2**32))),
    "age is not": altered(P, pattern=replace(PATTERN, age=Span(2, 1))),
    "has cgroup None": altered(P, filters=(Filter(FilterType.memcg, matching=True),)),
    "window": altered(P, apply_interval_us=0),
    "ranges": in_context(P, ranges=(Range(8192, 12288), Range(0, 4096))),
    "at least one": in_context(P, ranges=()),
    "nr_regions": in_context(P, nr_regions=Span(2, 10)),
    "0 < sample": in_context(P, intervals=replace(INTERVALS, sample_us=0)),
    "outside of its": in_context(
        P, intervals=replace(INTERVALS, goal=IntervalsGoal(1, 1, 6_000, 7_000))
    ),
}


@pytest.mark.parametrize("says", UNSAFE)
def test_values_that_are_unsafe_on_some_kernel_are_refused(says: str) -> None:
    with pytest.raises(TierdError, match=says):
        require_safe(UNSAFE[says], frozenset({0, 1}), ALL)


def test_a_filter_that_allows_needs_a_kernel_that_can() -> None:
    allowing = altered(P, filters=(Filter(FilterType.young, matching=True, allow=True),))
    require_safe(allowing, frozenset({0, 1}), ALL)
    with pytest.raises(TierdError, match="allows"):
        require_safe(allowing, frozenset({0, 1}), Capabilities(frozenset()))


def test_a_stat_scheme_needs_no_limit() -> None:
    free = altered(P, action=Action.stat, quota=replace(QUOTA, bytes_max=0))
    require_safe(free, frozenset({0, 1}), ALL)


def test_a_list_has_no_difference_from_itself() -> None:
    found = values(P.writes)
    change = difference(found, P.writes)
    assert (change.method, change.stage, change.kdamonds) == (ChangeMethod.none, (), ())


def test_tuned_intervals_are_no_difference_if_their_goal_is_the_same() -> None:
    sample = f"{KDAMONDS}/0/contexts/0/monitoring_attrs/intervals/sample_us"
    found = values(P.writes) | {sample: "80000"}
    assert difference(found, P.writes).method is ChangeMethod.none
    goal = f"{KDAMONDS}/0/contexts/0/monitoring_attrs/intervals/intervals_goal/access_bp"
    change = difference(found | {goal: "100"}, P.writes)
    assert {write.path for write in change.stage} == {sample, goal}


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("quotas/goals/0/target_value", "9", ChangeMethod.goals),
        ("quotas/goals/0/current_value", "9", ChangeMethod.none),
        ("quotas/goals/0/nid", "1", ChangeMethod.restart),
        ("quotas/goals/nr_goals", "0", ChangeMethod.restart),
        ("quotas/bytes", "9", ChangeMethod.commit),
        ("action", "stat", ChangeMethod.commit),
        ("ops_filters/nr_filters", "0", ChangeMethod.commit),
    ],
)
def test_the_smallest_change_is_chosen(name: str, value: str, kind: ChangeMethod) -> None:
    path = f"{scheme_dir(1, 0)}/{name}"
    change = difference(values(P.writes) | {path: value}, P.writes)
    assert change.method is kind
    assert change.kdamonds == ((1,) if kind is not ChangeMethod.none else ())


def test_another_count_has_all_files_below_it_written_again() -> None:
    path = f"{scheme_dir(0, 0)}/ops_filters/nr_filters"
    change = difference(values(P.writes) | {path: "0"}, P.writes)
    folder = f"{scheme_dir(0, 0)}/ops_filters/"
    assert {w.path for w in change.stage} == {w.path for w in P.writes if w.path.startswith(folder)}


@given(st.sets(st.integers(0, len(P.writes) - 1)), st.sampled_from(("0", "7")))
def test_any_tree_can_be_made_into_the_plan(wrong: set[int], value: str) -> None:
    """The staged writes change any values that were found into those of the plan."""
    wanted = {w.path: w.value for w in P.writes if not w.path.endswith("/state")}
    found = wanted | {P.writes[i].path: value for i in wrong if P.writes[i].path in wanted}
    for write in difference(found, P.writes).stage:
        if is_count(write.path):
            folder = write.path.rpartition("/")[0]
            found = {p: v for p, v in found.items() if not p.startswith(f"{folder}/")}
        found[write.path] = write.value
    tuned = ("/sample_us", "/aggr_us")
    assert {p: v for p, v in found.items() if not p.endswith(tuned)} == {
        p: v for p, v in wanted.items() if not p.endswith(tuned)
    }
    assert set(found) == set(wanted)


def test_the_writes_of_no_kdamonds_remove_all() -> None:
    assert writes((), ALL) == (Write(f"{KDAMONDS}/nr_kdamonds", "0"),)
