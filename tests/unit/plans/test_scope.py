"""Cgroup classes as filters: which cgroups, in which order, and the report beyond the limit."""

from tierd.configuration.config import CgroupClass, CgroupMode
from tierd.machine.cgroups import Cgroups
from tierd.machine.features import Capabilities, Feature
from tierd.plans.damon import Filter, FilterType
from tierd.plans.scope import FILTERS_MAX, scope

ALL = Capabilities(frozenset(Feature))
OLD = Capabilities(frozenset(Feature) - {Feature.allow_filter})
INCLUDE = CgroupClass("in", CgroupMode.include, ("/a",))
EXCLUDE = CgroupClass("out", CgroupMode.exclude, ("/x",))


def crowd(top: str, count: int) -> Cgroups:
    """Return a subtree of `count` cgroups. The last ones by name are the largest."""
    sizes = {top: 0}
    sizes |= {f"{top}/{number:04}": 1 << 20 << number // 64 for number in range(count - 1)}
    return Cgroups(sizes)


def paths(filters: tuple[Filter, ...]) -> list[str | None]:
    return [one.memcg_path for one in filters if one.type is FilterType.memcg]


def test_as_many_cgroups_as_fit_have_filters() -> None:
    found = scope((EXCLUDE,), crowd("/x", FILTERS_MAX), ALL)
    assert len(found.before) == FILTERS_MAX
    assert found.degraded == ()


def test_with_one_cgroup_too_many_the_smallest_has_no_filter() -> None:
    existing = crowd("/x", FILTERS_MAX + 1)
    found = scope((EXCLUDE,), existing, ALL)
    assert set(existing.own_bytes) - set(paths(found.before)) == {"/x"}
    assert found.degraded == (
        "more than 256 cgroups are to be left alone: only the 256 with the most memory can be, and "
        "the others are moved",
    )


def test_included_cgroups_beyond_the_bound_are_left_alone() -> None:
    existing = crowd("/a", FILTERS_MAX + 40)
    found = scope((INCLUDE,), existing, ALL)
    allowed = [one for one in found.after if one.allow]
    assert len(allowed) == FILTERS_MAX
    assert not found.after[-1].allow
    assert not found.after[-1].matching
    assert any("to be moved" in reason for reason in found.degraded)


def test_sizes_within_one_power_of_two_do_not_change_the_filters() -> None:
    existing = crowd("/x", FILTERS_MAX + 9)
    grown = Cgroups({path: size + size // 3 for path, size in existing.own_bytes.items()})
    assert scope((EXCLUDE,), existing, ALL).before == scope((EXCLUDE,), grown, ALL).before


def test_an_old_kernel_includes_only_the_largest_cgroup() -> None:
    existing = Cgroups({"/a": 1 << 20, "/a/b": 9 << 20, "/a/c": 2 << 20})
    found = scope((INCLUDE,), existing, OLD)
    assert found.before == (Filter(FilterType.memcg, matching=False, memcg_path="/a/b"),)
    assert found.after == ()
    assert "only the one with the most memory" in found.degraded[0]
    assert "allow_filter" in found.degraded[0]


def test_an_excluded_cgroup_in_an_included_subtree_is_not_included() -> None:
    inner = CgroupClass("inner", CgroupMode.exclude, ("/a/b",))
    existing = Cgroups({"/a": 1, "/a/b": 1, "/a/b/c": 1, "/a/d": 1})
    found = scope((INCLUDE, inner), existing, ALL)
    assert found.before == ()
    assert paths(found.after) == ["/a", "/a/d", "/a"]


def test_cgroups_that_were_not_read_are_reported() -> None:
    found = scope((EXCLUDE,), Cgroups({"/x": 1}, ("/x: what lies deeper",)), ALL)
    assert found.degraded == ("cgroups left out: /x: what lies deeper",)


def test_the_plan_lists_the_cgroups_of_each_class() -> None:
    typo = CgroupClass("typo", CgroupMode.exclude, ("/databse.slice",))
    found = scope((EXCLUDE, typo), Cgroups({"/x": 1, "/x/y": 1}), ALL)
    assert [(one.name, one.cgroups) for one in found.matches] == [
        ("out", ("/x", "/x/y")),
        ("typo", ()),
    ]
    assert found.degraded == ("cgroup class typo: none of /databse.slice exists now",)
