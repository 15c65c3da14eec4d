"""Classes of cgroups in a plan: the filters of its schemes, and what they mean for visits."""

from dataclasses import replace

import pytest

from tests.unit.test_policy import ALL, KERNEL, TWO, schemes, without
from tierd import policy
from tierd.configuration.config import CgroupClass, CgroupMode, Config, ShareClass
from tierd.machine.cgroups import Cgroups
from tierd.machine.features import Capabilities, Feature
from tierd.plans import visits
from tierd.plans.damon import Action, Filter, FilterType
from tierd.plans.plan import Visit
from tierd.plans.reasons import VISITS_COMMIT_CGROUPS


def memcg(path: str, *, matching: bool, allow: bool = False) -> Filter:
    return Filter(FilterType.memcg, matching=matching, allow=allow, memcg_path=path)


YOUNG = Filter(FilterType.young, matching=True)
INCLUDE = CgroupClass("in", CgroupMode.include, ("/a",))
EXCLUDE = CgroupClass("out", CgroupMode.exclude, ("/x", "/a/b"))


def demotion_filters(
    classes: tuple[CgroupClass, ...], existing: tuple[str, ...], capabilities: Capabilities = ALL
) -> tuple[Filter, ...]:
    config = replace(KERNEL, cgroups=classes)
    return schemes(
        policy.plan(TWO, capabilities, config, cgroups=Cgroups(dict.fromkeys(existing, 1)))
    )[0].filters


def test_excluded_subtrees_are_rejected_before_anything_else() -> None:
    found = demotion_filters((EXCLUDE,), ("/", "/x", "/x/y", "/xy"))
    assert found == (memcg("/x", matching=True), memcg("/x/y", matching=True), YOUNG)


def test_one_included_cgroup_needs_no_filter_that_allows() -> None:
    old = without(Feature.allow_filter, Feature.ops_filters)
    assert demotion_filters((INCLUDE,), ("/", "/a"), old) == (memcg("/a", matching=False), YOUNG)


def test_several_included_cgroups_are_allowed_after_the_age_is_checked() -> None:
    found = demotion_filters((INCLUDE, EXCLUDE), ("/", "/a", "/a/b", "/a/c", "/x"))
    assert found == (
        YOUNG,
        memcg("/a", matching=True, allow=True),
        memcg("/a/c", matching=True, allow=True),
        memcg("/a", matching=False),
    )


def test_an_old_kernel_includes_one_of_several_cgroups() -> None:
    found = demotion_filters((INCLUDE,), ("/a", "/a/b"), without(Feature.allow_filter))
    assert found == (memcg("/a", matching=False), YOUNG)


def test_a_class_without_cgroups_moves_nothing() -> None:
    plan = policy.plan(TWO, ALL, Config(cgroups=(INCLUDE,)), cgroups=Cgroups({"/": 1}))
    demote = next(one for one in schemes(plan) if one.action is Action.migrate_cold)
    kinds = [(f.type, f.matching) for f in demote.filters]
    assert kinds[:2] == [(FilterType.anon, True), (FilterType.anon, False)]
    assert any("/a" in reason for reason in plan.degraded)


def test_pages_of_other_cgroups_are_not_moved_by_a_sweep() -> None:
    plan = policy.plan(TWO, ALL, Config(cgroups=(EXCLUDE,)), cgroups=Cgroups({"/x": 1}))
    movers = [one for one in plan.sweeps if one.moves]
    for sweep in movers:
        filters = plan.kdamonds[sweep.kdamond].context.schemes[sweep.scheme].filters
        assert filters[0] == memcg("/x", matching=True)
    assert len(movers) == 3


@pytest.mark.parametrize("cheaply", [True, False])
def test_a_push_moves_no_more_than_its_rate_and_passes_what_it_may(cheaply: bool) -> None:
    can = ALL if cheaply else without(Feature.fail_charge)
    config = Config(shares=(ShareClass("a", ("/a",)),))
    plan = policy.plan(TWO, can, config, cgroups=Cgroups({"/a": 1}))
    (push,) = (one for one in plan.sweeps if one.visit is Visit.push)
    quota = plan.kdamonds[push.kdamond].context.schemes[push.scheme].quota
    assert push.passes_cheaply is (quota.fail_charge is not None) is cheaply
    (beside,) = (one for one in plan.of_regions if one.id == push.beside)
    # All pages that it comes to are charged, but a part of them moves.
    times = 1 if cheaply else visits.VISITED_PER_RATE_MAX
    assert push.bytes_per_s <= times * beside.rate_max_bytes_per_s


def test_visits_by_commits_end_for_a_while_where_cgroups_go_all_the_time() -> None:
    config, now = Config(cgroups=(EXCLUDE,)), Cgroups({"/x": 1})
    for can in (ALL, without(Feature.goal_tuner), without(Feature.ops_filters, Feature.goal_tuner)):
        assert policy.plan(TWO, can, config, cgroups=now).sweeps
        careful = policy.plan(TWO, can, config, cgroups=now, careful=True)
        by_commits = not can.has(Feature.goal_tuner)
        assert bool(careful.sweeps) is not by_commits
        assert (VISITS_COMMIT_CGROUPS in careful.degraded) is by_commits
        assert policy.plan(TWO, can, Config(), careful=True).sweeps, "no filter names a cgroup"
