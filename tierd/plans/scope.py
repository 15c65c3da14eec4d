"""Which pages may move at all: cgroup classes as DAMON filters.

Rules of this file:
1. DAMON's memcg filter matches one cgroup, not what is below it: a class is spelled out.
2. A cgroup that does not exist is never given to the kernel: `on` would fail with ENOMEM.
3. A class that includes and matches nothing yet moves nothing, not everything.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tierd.configuration.config import CgroupClass, CgroupMode
from tierd.errors import Unsupported
from tierd.machine.observe import Capabilities, Feature, because
from tierd.plans.damon import Filter, FilterType

# Every page of a region passes them one after another.
FILTERS_MAX = 256

# No page is both or neither, so together these two reject every page, on every kernel.
NOTHING = (Filter(FilterType.anon, matching=True), Filter(FilterType.anon, matching=False))


@dataclass(frozen=True, slots=True)
class Scope:
    """Filters that stand before and after those of a scheme's own, and what they cannot do."""

    before: tuple[Filter, ...] = ()
    after: tuple[Filter, ...] = ()
    degraded: tuple[str, ...] = ()


def scope(
    classes: Iterable[CgroupClass], existing: Iterable[str], capabilities: Capabilities
) -> Scope:
    """The filters for these classes, given the cgroups there are."""
    listed, known = tuple(classes), tuple(existing)
    excluded = _members(listed, CgroupMode.exclude, known)
    including = [entry for entry in listed if entry.mode is CgroupMode.include]
    included = tuple(
        path for path in _members(listed, CgroupMode.include, known) if path not in excluded
    )
    missing = tuple(
        f"cgroup class {entry.name}: none of {', '.join(entry.paths)} exists now"
        for entry in listed
        if not _members((entry,), entry.mode, known)
    )
    if len(excluded) + len(included) > FILTERS_MAX:
        raise Unsupported(
            f"the cgroup classes come to {len(excluded) + len(included)} cgroups; each page is "
            f"held against all of them, so {FILTERS_MAX} are the most",
            "name fewer or smaller subtrees",
        )
    before = tuple(_memcg(path, matching=True) for path in excluded)
    if not including:
        return Scope(before, degraded=missing)
    if not included:
        return Scope(NOTHING, degraded=missing)
    if len(included) == 1:
        # "Reject what is not of it" needs no filter that allows, so any kernel can.
        return Scope((*before, _memcg(included[0], matching=False)), degraded=missing)
    if not capabilities.has(Feature.allow_filter):
        raise Unsupported(
            f"{len(included)} cgroups are to be singled out: {because(Feature.allow_filter)}",
            "include one cgroup without children, or exclude the others instead",
        )
    # What passes all of the former is not of any included cgroup, so not of the first one.
    return Scope(
        before,
        (
            *(_memcg(path, matching=True, allow=True) for path in included),
            _memcg(included[0], matching=False),
        ),
        missing,
    )


def _members(
    classes: tuple[CgroupClass, ...], mode: CgroupMode, existing: tuple[str, ...]
) -> tuple[str, ...]:
    """The cgroups of the classes of one mode, with all that is below them, in order."""
    roots = {path.rstrip("/") for entry in classes if entry.mode is mode for path in entry.paths}
    return tuple(
        sorted(
            path
            for path in set(existing)
            if any(path.rstrip("/") == root or path.startswith(root + "/") for root in roots)
        )
    )


def _memcg(path: str, *, matching: bool, allow: bool = False) -> Filter:
    return Filter(FilterType.memcg, matching=matching, allow=allow, memcg_path=path)
