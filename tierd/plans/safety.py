"""Refuses values with which some kernel would crash, move without limit, or do nothing.

The policy makes no such plan, so a refusal is a bug in tierd. The comment at each rule names the
kernel behaviour that it guards against.
"""

from collections.abc import Iterable, Iterator

from tierd.errors import TierdError
from tierd.machine.features import Capabilities, Feature
from tierd.plans.damon import (
    UINT_MAX,
    ULONG_MAX,
    Action,
    Context,
    FilterType,
    Goal,
    Intervals,
    Kdamond,
    Metric,
    Scheme,
)
from tierd.ranges import merge

# Regions per context: damon_set_regions() and damon_start() refuse fewer.
NR_REGIONS_MIN = 3


def require_safe(
    kdamonds: Iterable[Kdamond], nodes: frozenset[int], capabilities: Capabilities
) -> None:
    """Raise TierdError for the first unsafe value. `nodes` are the nodes that have memory."""
    for index, kdamond in enumerate(kdamonds):
        for problem in _problems(kdamond.context, nodes, capabilities):
            raise TierdError(f"refusing kdamond {index}: {problem}", "this is a bug in tierd")


def _problems(context: Context, nodes: frozenset[int], capabilities: Capabilities) -> Iterator[str]:
    # damon_set_regions() refuses unsorted ranges. If two ranges touch, each commit cuts the region
    # across their border. Without any range DAMON runs and does nothing.
    if not context.ranges or merge(context.ranges) != context.ranges:
        yield "its ranges are not sorted, merged and at least one"
    if not NR_REGIONS_MIN <= context.nr_regions.min <= context.nr_regions.max:
        yield f"nr_regions is not {NR_REGIONS_MIN} <= min <= max"
    yield from _intervals(context.intervals)
    for number, scheme in enumerate(context.schemes):
        for problem in _scheme(scheme, nodes, capabilities):
            yield f"scheme {number}: {problem}"


def _intervals(intervals: Intervals) -> Iterator[str]:
    if not 0 < intervals.sample_us <= intervals.aggr_us:
        yield "its intervals are not 0 < sample <= aggr"
    goal = intervals.goal
    if goal and not goal.min_sample_us <= intervals.sample_us <= goal.max_sample_us:
        yield "sample_us is outside of its interval goal"


def _scheme(scheme: Scheme, nodes: frozenset[int], capabilities: Capabilities) -> Iterator[str]:
    # Older kernels crash on a node that does not exist; newer ones check in damon_migrate_pages().
    if scheme.target_nid not in nodes:
        yield f"target_nid {scheme.target_nid} is not a node with memory"
    # The kernel takes a quota of 0 for no limit. A `stat` scheme moves nothing and needs no limit.
    if scheme.quota.bytes_max < 1 and scheme.action is not Action.stat:
        yield "bytes is 0, which is no limit at all"
    if scheme.quota.bytes_max > ULONG_MAX or scheme.apply_interval_us < 1:
        yield "its quota is above 2^64 bytes, or its window is 0"
    yield from _pattern(scheme)
    for goal in scheme.quota.goals:
        yield from _goal(goal, nodes)
    for entry in scheme.filters:
        if entry.allow and not capabilities.has(Feature.allow_filter):
            yield "a filter allows pages, which this kernel does not support"
        # With a memcg filter that has no cgroup, `on` fails with ENOMEM.
        if (entry.type is FilterType.memcg) is (not entry.memcg_path):
            yield f"a filter of type {entry.type} has cgroup {entry.memcg_path!r}"


def _pattern(scheme: Scheme) -> Iterator[str]:
    pattern = scheme.pattern
    for name, span in (
        ("sz", pattern.size_bytes),
        ("nr_accesses", pattern.nr_accesses),
        ("age", pattern.age),
    ):
        # struct damos_access_pattern keeps only 32 of the 64 bits: 2^32 would become 0.
        limit = ULONG_MAX if name == "sz" else UINT_MAX
        if not 0 <= span.min <= span.max <= limit:
            yield f"{name} is not 0 <= min <= max <= {limit}"


def _goal(goal: Goal, nodes: frozenset[int]) -> Iterator[str]:
    # damos_sysfs_add_quota_score() drops a goal with target 0. Without any goal nothing steers the
    # quota, and it stays at its limit.
    if goal.target_value < 1:
        yield f"goal {goal.metric} has target 0"
    # With an invalid node, early 6.16 kernels read out of bounds (NODE_DATA()). Later ones take it
    # for an empty node, and move at full speed.
    if goal.metric is Metric.user_input:
        if goal.nid is not None:
            yield "a user_input goal has no node"
    elif goal.nid not in nodes:
        yield f"goal {goal.metric} is about node {goal.nid}, which is not a node with memory"
