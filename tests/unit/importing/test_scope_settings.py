"""Filters of a policy as cgroup classes."""

import pytest

from tests.unit.importing.policies import Json, down, of, scheme_changed, told, up
from tierd.configuration import configfile
from tierd.configuration.config import CgroupClass, CgroupMode
from tierd.importing.imported import Document
from tierd.importing.remarks import Kind


def memcg(path: str, *, matching: bool, allow: bool = False) -> Json:
    return {"filter_type": "memcg", "matching": matching, "allow": allow, "memcg_path": path}


def classes_of(*filters: Json) -> tuple[tuple[CgroupClass, ...], Document]:
    document = of(scheme_changed(down(), ("filters",), list(filters)))
    return configfile.parse([("p", document.config)]).config.cgroups, document


@pytest.mark.parametrize(
    ("entry", "mode"),
    [
        (memcg("/a/b.slice", matching=False), CgroupMode.include),
        (memcg("/a/b.slice", matching=True, allow=True), CgroupMode.include),
        (memcg("/a/b.slice", matching=True), CgroupMode.exclude),
        (memcg("/a/b.slice", matching=False, allow=True), CgroupMode.exclude),
    ],
)
def test_a_cgroup_is_included_or_excluded(entry: Json, mode: CgroupMode) -> None:
    found, document = classes_of(entry)
    assert found == (CgroupClass("b.slice", mode, ("/a/b.slice",)),)
    assert told(document, "with all cgroups below it").kind is Kind.improved


def test_each_class_has_its_own_name() -> None:
    paths = ("/a/x", "/b/x", "/c/\u00e9 \u00e9", "/d/...")
    found, _ = classes_of(*(memcg(path, matching=True, allow=True) for path in paths))
    assert [one.name for one in found] == ["x", "x-2", "cgroup", "cgroup-2"]
    assert [one.paths for one in found] == [(path,) for path in paths]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/", "takes / for the whole machine"),
        ("a", "expected a path that begins with /"),
        ("/a/../b", "without empty parts"),
        ("/sys/fs/cgroup/a", "without /sys/fs/cgroup"),
    ],
)
def test_a_path_that_tierd_refuses(path: str, words: str) -> None:
    found, document = classes_of(memcg(path, matching=False))
    assert found == ()
    assert told(document, words).kind is Kind.lost


def test_cgroups_that_contradict_each_other() -> None:
    found, document = classes_of(memcg("/a", matching=True), memcg("/a", matching=False))
    assert [one.mode for one in found] == [CgroupMode.exclude]
    assert told(document, "both includes and excludes").kind is Kind.changed
    found, document = classes_of(memcg("/a", matching=True), memcg("/a/b", matching=False))
    assert [one.paths for one in found] == [("/a",)]
    assert told(document, "is below a cgroup that the policy excludes").kind is Kind.lost


def test_schemes_with_different_cgroups() -> None:
    one = scheme_changed(down(), ("filters",), [memcg("/a", matching=False)])
    assert told(of(one, up()), "other cgroups in other schemes").kind is Kind.changed
    both = [
        scheme_changed(made, ("filters",), [memcg("/a", matching=False)]) for made in (down(), up())
    ]
    assert not [one for one in of(*both).remarks if "other cgroups" in one.text]
