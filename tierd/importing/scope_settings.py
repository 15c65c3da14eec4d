"""The setting `cgroups`, from the filters of a policy."""

import re
from collections.abc import Iterator, Sequence

from tierd.configuration.class_values import cgroup_path_error
from tierd.configuration.config import CgroupClass, CgroupMode
from tierd.importing.foreign import Filter, Given
from tierd.importing.remarks import Kind, Part, Remark, remark
from tierd.importing.scheme_settings import Moving

_ODD = re.compile(r"[^A-Za-z0-9_.-]+")
# Letters in the name of a class.
_NAME_MAX = 48

_UNSAID = {
    "anon": "tierd moves anonymous memory and files alike",
    "active": "tierd does not ask the kernel's lists of active and inactive pages",
    "hugepage_size": "tierd moves huge pages like others",
    "unmapped": "tierd moves mapped and unmapped memory alike",
    "addr": "tierd moves all memory of a node. To leave memory alone, use cgroups",
    "target": "tierd watches one target per node",
    "probe_hits_wsum": "tierd uses no probes",
}


def scope(moving: Sequence[Moving]) -> Part:
    """Return the cgroup classes, and what is to be said about other filters."""
    remarks: list[Remark] = []
    chosen: dict[str, tuple[CgroupMode, Given[str]]] = {}
    for one in moving:
        remarks += _pages(one)
        for entry in one.scheme.filters:
            if entry.type.value == "memcg":
                remarks += _choose(entry, chosen)
    remarks += _uneven(moving)
    remarks += _below_an_exclude(chosen)
    if not chosen:
        return Part({}, tuple(remarks))
    classes = tuple(_classes(chosen))
    for mode in CgroupMode:
        given = [given for which, given in chosen.values() if which is mode]
        if given:
            mine = tuple(one for one in classes if one.mode is mode)
            text = "with all cgroups below it. A filter of DAMON matches a cgroup without these"
            remarks.append(remark(Kind.improved, given, text, about="cgroups", value=mine))
    return Part({"cgroups": classes}, tuple(remarks))


def _choose(entry: Filter, chosen: dict[str, tuple[CgroupMode, Given[str]]]) -> Iterator[Remark]:
    """Add the cgroup of a filter to those that are chosen; yield a remark if that cannot be."""
    # "Reject all outside of it" and "allow what is in it" both mean: only this cgroup.
    includes = entry.matching == entry.allow
    mode = CgroupMode.include if includes else CgroupMode.exclude
    wrong = cgroup_path_error(entry.path)
    if entry.path == "/":
        wrong = "tierd takes / for the whole machine, which needs no class"
    if wrong:
        yield remark(Kind.lost, [entry.type], wrong)
    elif entry.path in chosen and chosen[entry.path][0] is not mode:
        text = "the policy both includes and excludes this cgroup: the first filter counts"
        yield remark(Kind.changed, [entry.type], text, about="cgroups")
    else:
        chosen.setdefault(entry.path, (mode, entry.type))


def _below_an_exclude(chosen: dict[str, tuple[CgroupMode, Given[str]]]) -> list[Remark]:
    """Remove includes below an exclude, of which tierd would never move anything."""
    excluded = {path for path, (mode, _) in chosen.items() if mode is CgroupMode.exclude}
    below = [
        path
        for path, (mode, _) in chosen.items()
        if mode is CgroupMode.include and excluded & set(_above(path))
    ]
    text = "is below a cgroup that the policy excludes, and a class has the whole subtree"
    return [remark(Kind.lost, [chosen.pop(path)[1]], text, about="cgroups") for path in below]


def _above(path: str) -> Iterator[str]:
    """Yield the paths of the cgroups that contain this one."""
    while path := path.rpartition("/")[0]:
        yield path


def _classes(chosen: dict[str, tuple[CgroupMode, Given[str]]]) -> Iterator[CgroupClass]:
    """Yield a class for each cgroup, with its last part as the name."""
    names: set[str] = set()
    last: dict[str, int] = {}
    for path, (mode, _) in chosen.items():
        stem = _ODD.sub("-", path.rpartition("/")[2])[:_NAME_MAX].strip("-._") or "cgroup"
        name, number = stem, last.get(stem, 1)
        while name in names:
            number += 1
            name = f"{stem}-{number}"
        last[stem] = number
        names.add(name)
        yield CgroupClass(name, mode, (path,))


def _uneven(moving: Sequence[Moving]) -> list[Remark]:
    """Return a remark if not all schemes have the same cgroups."""
    kinds = {
        frozenset((one.path, one.matching, one.allow) for one in each.scheme.filters if one.path)
        for each in moving
    }
    if len(kinds) < 2:
        return []
    said = [one.type for each in moving for one in each.scheme.filters if one.path]
    text = "the policy has other cgroups in other schemes. In tierd a class is for all of them"
    return [remark(Kind.changed, said, text, about="cgroups")]


def _pages(one: Moving) -> Iterator[Remark]:
    """Yield remarks on the filters that look at single pages."""
    for entry in one.scheme.filters:
        if entry.type.value in _UNSAID:
            yield remark(Kind.lost, [entry.type], _UNSAID[entry.type.value])
        elif entry.type.value == "young":
            # True if pages in use pass this filter.
            passes = entry.matching == entry.allow
            if passes and one.is_hot:
                text = "tierd has this filter itself: each page is checked"
                yield remark(Kind.improved, [entry.type], text)
            elif passes == one.is_hot:
                text = (
                    "tierd demotes by how long a region has been idle, without this filter: pages "
                    "that nobody has looked at would stay. With `tuner: kernel` it has the filter"
                )
                yield remark(Kind.changed, [entry.type], text)
            else:
                text = "moves the pages that tierd leaves: it promotes young pages, not others"
                yield remark(Kind.lost, [entry.type], text)
