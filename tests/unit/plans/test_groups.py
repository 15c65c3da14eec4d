"""Groups of cgroups: which cgroups they have, and whose memory moves."""

from dataclasses import replace

import pytest

from tests.fixtures.tiers import machine
from tierd import policy
from tierd.configuration.config import REST, Config, Moves, ShareClass
from tierd.machine.cgroups import Cgroups
from tierd.machine.features import FEATURE_TABLE, Capabilities, Feature
from tierd.machine.sample import GroupSample
from tierd.plans import groups
from tierd.plans.groups import Roles
from tierd.plans.plan import Direction
from tierd.plans.scope import NOTHING, Scope

PODS = ShareClass("pods", ("/kubepods/*/pod*",))
WEB = ShareClass("web", ("/web", "/kubepods/best/pod1"))
EXISTING = (
    "/kubepods",
    "/kubepods/best",
    "/kubepods/best/other",
    "/kubepods/best/pod1",
    "/kubepods/best/pod1/a",
    "/kubepods/burst/pod2",
    "/web",
    "/web/x/y",
    "/website",
)
OWN = Cgroups(dict.fromkeys(EXISTING, 4096))
ALL = Capabilities(frozenset(FEATURE_TABLE))
REJECTS_ONLY = Capabilities(frozenset(FEATURE_TABLE) - {Feature.allow_filter})
# As before 6.14: no visits to pages either.
REGIONS_ONLY = Capabilities(frozenset(FEATURE_TABLE) - {Feature.allow_filter, Feature.goal_tuner})
MATCHED = groups.match((WEB, PODS), EXISTING)


def passes(scope: Scope, cgroup: str) -> bool:
    """Whether the kernel lets a page of a cgroup through: the first filter that matches decides."""
    for one in (*scope.before, *scope.after):
        if one in NOTHING or (one.memcg_path == cgroup) is one.matching:
            return one.allow
    return True


def passing(scope: Scope) -> set[str]:
    return {path for path in (*EXISTING, "/system") if passes(scope, path)}


def named(*names: str) -> frozenset[str]:
    return frozenset(names)


def test_a_pattern_is_for_one_part_of_a_path_and_the_first_class_has_a_cgroup() -> None:
    web, pods = MATCHED
    assert web.tops == ("/kubepods/best/pod1", "/web")
    assert web.cgroups == ("/kubepods/best/pod1", "/kubepods/best/pod1/a", "/web", "/web/x/y")
    assert (pods.tops, pods.cgroups) == (("/kubepods/burst/pod2",), ("/kubepods/burst/pod2",))


def test_what_must_be_read_lies_below_the_first_pattern() -> None:
    assert groups.bases((PODS, WEB)) == ("/kubepods", "/web", "/kubepods/best/pod1")


def test_a_group_that_waits_or_keeps_is_left_out() -> None:
    rest = {*EXISTING, "/system"}.difference(*(one.cgroups for one in MATCHED))
    up = groups.upward(MATCHED, Roles(waits=named("web")), OWN, ALL)
    assert passing(up) == rest | set(MATCHED[1].cgroups)
    down = groups.downward(MATCHED, Roles(keeps=named("pods", "web")), OWN, REJECTS_ONLY)
    assert passing(down) == rest


def test_if_the_rest_is_left_out_each_cgroup_of_the_others_is_allowed() -> None:
    up = groups.upward(MATCHED, Roles(waits=named("pods", REST)), OWN, ALL)
    assert passing(up) == set(MATCHED[0].cgroups)


def test_only_groups_that_give_are_pushed() -> None:
    assert passing(groups.pushed(MATCHED, Roles(), OWN, ALL)) == set()
    one = groups.pushed(MATCHED, Roles(gives=named("pods")), OWN, ALL)
    assert passing(one) == set(MATCHED[1].cgroups)
    both = groups.pushed(MATCHED, Roles(gives=named("web", REST)), OWN, ALL)
    assert "/system" in passing(both)
    assert passing(both).isdisjoint(MATCHED[1].cgroups)


def fixed(moves: Moves) -> tuple[groups.Group, ...]:
    return groups.match((replace(WEB, moves=moves), PODS), EXISTING)


def test_a_class_that_is_left_alone_is_in_no_scheme() -> None:
    matched, mine = fixed(Moves.none), set(MATCHED[0].cgroups)
    others = {*EXISTING, "/system"} - mine
    for can in (ALL, REJECTS_ONLY):
        assert passing(groups.upward(matched, Roles(), OWN, can)) == others
        assert passing(groups.downward(matched, Roles(), OWN, can)) == others
        # These roles were decided before the configuration was read again.
        assert groups.pushed(matched, Roles(gives=named("web")), OWN, can).before == NOTHING
    both = groups.pushed(matched, Roles(gives=named("web", "pods")), OWN, ALL)
    assert passing(both) == set(MATCHED[1].cgroups)
    waits = groups.upward(matched, Roles(waits=named(REST)), OWN, ALL)
    assert passing(waits) == set(MATCHED[1].cgroups)


def test_a_class_that_only_comes_up_is_in_no_scheme_that_goes_down() -> None:
    matched, mine = fixed(Moves.up), set(MATCHED[0].cgroups)
    assert groups.upward(matched, Roles(), OWN, ALL) == Scope()
    assert passing(groups.downward(matched, Roles(), OWN, ALL)).isdisjoint(mine)
    assert groups.pushed(matched, Roles(gives=named("web")), OWN, ALL).before == NOTHING


@pytest.mark.parametrize(
    "capabilities",
    [ALL, REGIONS_ONLY],
)
def test_a_class_that_does_not_move_is_rejected_on_every_tier(capabilities: Capabilities) -> None:
    """From the middle tier down, and out of memory from the slowest, as from the fastest one."""
    classes = ShareClass("a", ("/a",), moves=Moves.none), ShareClass("b", ("/b",), moves=Moves.up)
    own = Cgroups(dict.fromkeys(("/a", "/b"), 1))
    plan = policy.plan(
        machine((0,), (1,), (2,)), capabilities, Config(shares=classes), cgroups=own, swaps=True
    )
    assert {one.direction for one in plan.migrations} == set(Direction)
    for one in plan.migrations:
        filters = plan.kdamonds[one.kdamond].context.schemes[one.scheme].filters
        kept = {each.memcg_path for each in filters if each.matching and not each.allow}
        up = one.direction is Direction.promote
        pushes = NOTHING[0] in filters
        assert pushes or kept - {None} == ({"/a"} if up else {"/a", "/b"})


def test_without_roles_no_page_is_filtered() -> None:
    assert groups.upward(MATCHED, Roles(), OWN, ALL) == Scope()
    assert groups.downward(MATCHED, Roles(), OWN, ALL) == Scope()


def sample(name: str, *sizes: int) -> GroupSample:
    return GroupSample(name, dict(enumerate(sizes)))


def test_what_came_up_is_more_above_and_less_below() -> None:
    """Node 0 is fast. The rest is all memory less that of the groups."""
    before = (sample("up", 100, 50, 50), sample("down", 90, 10, 0), sample("all", 500, 400, 300))
    now = (sample("up", 140, 30, 20), sample("down", 40, 40, 20), sample("all", 470, 440, 290))
    assert groups.bytes_by_group(before)[REST] == {0: 310, 1: 340, 2: 250}
    found = groups.passed(before, now, (0,))
    assert found == {"up": (40, 0), "down": (0, 50), REST: (0, 20)}


@pytest.mark.parametrize(
    "now",
    [
        # It was allocated, freed, on both, or moved between nodes that are not fast.
        (140, 50, 50), (100, 20, 30), (140, 90, 90), (60, 20, 20), (100, 0, 100), (100, 50, 50),
    ],
)  # fmt: skip
def test_what_was_allocated_or_freed_did_not_move(now: tuple[int, ...]) -> None:
    before = (sample("a", 100, 50, 50), sample("all", 100, 50, 50))
    after = (sample("a", *now), sample("all", *now))
    assert groups.passed(before, after, (0,)) == {"a": (0, 0), REST: (0, 0)}


def test_a_group_that_is_new_did_not_move() -> None:
    after = (sample("a", 10, 20), sample("all", 10, 20))
    assert groups.passed((sample("all", 0, 30),), after, (0,))["a"] == (0, 0)


def test_a_group_without_cgroups_is_told_and_moves_nothing() -> None:
    matched = groups.match((PODS,), ("/web",))
    assert groups.pushed(matched, Roles(gives=named("pods")), OWN, ALL).before == NOTHING
    assert ["no cgroup matches" in text for text in groups.unmatched(matched)] == [True]


def test_a_group_is_described_with_what_is_set_and_how_many_cgroups_it_has() -> None:
    follows, capped = ShareClass("a", ("/a",)), ShareClass("b", ("/b",), ceiling_bp=5000)
    floor = ShareClass("c", ("/c", "/d"), floor_bp=2000, weight=300)
    protected = ShareClass("d", ("/d/x",), moves=Moves.up, floor_bp=1000)
    fixed = ShareClass("e", ("/e",), moves=Moves.none)
    classes = (follows, capped, floor, protected, fixed)
    said = [groups.describe_group(one) for one in groups.match(classes, ("/a",))]
    assert said == [
        "a: /a (weight 100, floor and ceiling by memory.low and memory.high): 1 cgroup now",
        "b: /b (weight 100, ceiling 50%): 0 cgroups now",
        "c: /c, /d (floor 20%, weight 300): 0 cgroups now",
        "d: /d/x (floor 10%, weight 100, never goes down): 0 cgroups now",
        "e: /e (left where it is): 0 cgroups now",
    ]
