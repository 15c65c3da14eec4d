"""Turns cgroup classes into DAMON filters, which decide whose pages may move.

Rules of this file:
1. DAMON's memcg filter matches one cgroup and not those below it, so each cgroup has a filter.
2. A cgroup that does not exist is never given to the kernel: `on` would fail with ENOMEM.
3. A class that includes, and matches no cgroup yet, moves nothing. It does not move everything.
4. If there are too many cgroups, the plan is degraded but still runs: the cgroups with the most
   memory of their own are kept. Sizes are compared as powers of two, then by name, so that the
   plan does not change with every page.
"""

from collections.abc import Iterable, Mapping

from tierd.configuration.config import CgroupClass, CgroupMode
from tierd.frozen import dataclass, replace
from tierd.machine.cgroups import Cgroups
from tierd.machine.features import Capabilities, Feature, because
from tierd.plans.damon import Filter, FilterType

# Filters per scheme. The kernel checks each page against all of them, one after another.
FILTERS_MAX = 256

# Cgroups of a class that are listed by name; the others are counted.
SHOWN_MAX = 5

# Two filters that together reject every page, on every kernel: a page is anonymous or it is not.
NOTHING = (Filter(FilterType.anon, matching=True), Filter(FilterType.anon, matching=False))


@dataclass(frozen=True, slots=True)
class Match:
    """A cgroup class, and the cgroups that match it now."""

    name: str
    mode: CgroupMode
    paths: tuple[str, ...]
    """As configured."""
    cgroups: tuple[str, ...]
    """The matching cgroups that exist now, sorted."""


def describe_match(match: Match) -> str:
    """Return a sentence that says which cgroups match a class now."""
    wanted = f"cgroup class {match.name} ({match.mode} {', '.join(match.paths)})"
    if not match.cgroups:
        return f"{wanted}: none exists now"
    count = len(match.cgroups)
    more = f" and {count - SHOWN_MAX} more" if count > SHOWN_MAX else ""
    listed = f"{', '.join(match.cgroups[:SHOWN_MAX])}{more}"
    return f"{wanted}: {count} {'cgroup' if count == 1 else 'cgroups'} now: {listed}"


@dataclass(frozen=True, slots=True)
class Scope:
    """The filters to put before and after a scheme's own, and the limits of what they can do."""

    before: tuple[Filter, ...] = ()
    after: tuple[Filter, ...] = ()
    degraded: tuple[str, ...] = ()
    matches: tuple[Match, ...] = ()


def match_classes(classes: Iterable[CgroupClass], existing: Iterable[str]) -> tuple[Match, ...]:
    """Return each class with the existing cgroups that match it."""
    known = tuple(existing)
    return tuple(
        Match(entry.name, entry.mode, entry.paths, _members((entry,), entry.mode, known))
        for entry in classes
    )


def unmatched(matched: Iterable[Match]) -> tuple[str, ...]:
    """Return a sentence for each class that matches no cgroup."""
    return tuple(
        f"cgroup class {one.name}: none of {', '.join(one.paths)} exists now"
        for one in matched
        if not one.cgroups
    )


def scope(classes: Iterable[CgroupClass], existing: Cgroups, capabilities: Capabilities) -> Scope:
    """Return the filters for these classes, given the existing cgroups."""
    listed, known = tuple(classes), existing.own_bytes
    excluded = _members(listed, CgroupMode.exclude, known)
    including = [entry for entry in listed if entry.mode is CgroupMode.include]
    matched = match_classes(listed, known)
    degraded = [*unmatched(matched), *(f"cgroups left out: {why}" for why in existing.left_out)]
    if not including:
        # An excluded cgroup of a class that includes needs no filter: it is just not included.
        found = outside(excluded, known)
    else:
        included = set(_members(listed, CgroupMode.include, known)).difference(excluded)
        found = inside(tuple(sorted(included)), known, capabilities)
    return replace(found, degraded=(*degraded, *found.degraded), matches=matched)


def outside(cgroups: tuple[str, ...], own_bytes: Mapping[str, int]) -> Scope:
    """Return the filters that let all pages through but those of these cgroups."""
    kept = _largest(cgroups, own_bytes, FILTERS_MAX)
    too_many = len(kept) < len(cgroups)
    degraded = (_too_many(FILTERS_MAX, "left alone", "moved"),) if too_many else ()
    return Scope(tuple(_memcg(path, matching=True) for path in kept), (), degraded)


def inside(
    cgroups: tuple[str, ...], own_bytes: Mapping[str, int], capabilities: Capabilities
) -> Scope:
    """Return the filters that let only pages of these cgroups through."""
    if not cgroups:
        return Scope(NOTHING)
    allows = capabilities.has(Feature.allow_filter)
    most = FILTERS_MAX if allows else 1
    kept = _largest(cgroups, own_bytes, most)
    degraded: tuple[str, ...] = ()
    if len(kept) < len(cgroups):
        why = "" if allows else f" ({because(Feature.allow_filter)})"
        degraded = (_too_many(most, "moved", f"left alone{why}"),)
    if len(kept) == 1:
        # "Reject every page outside this cgroup" works on every kernel.
        return Scope((_memcg(kept[0], matching=False),), (), degraded)
    # A page that reaches the last filter is in no included cgroup. So the last filter, which
    # rejects pages outside the first cgroup, rejects it.
    after = (
        *(_memcg(path, matching=True, allow=True) for path in kept),
        _memcg(kept[0], matching=False),
    )
    return Scope((), after, degraded)


def _too_many(most: int, wish: str, instead: str) -> str:
    """Return the sentence for a class of too many cgroups.

    It does not give their number: else each new cgroup would change the plan.
    """
    which = f"the {most} with" if most > 1 else "the one with"
    return (
        f"more than {most} cgroups are to be {wish}: only {which} the most memory can be, and the "
        f"others are {instead}"
    )


def _largest(paths: tuple[str, ...], own_bytes: Mapping[str, int], most: int) -> tuple[str, ...]:
    """Return the cgroups with the most memory, at most `most`, sorted by name."""
    ranked = sorted(paths, key=lambda path: (-own_bytes[path].bit_length(), path))
    return tuple(sorted(ranked[:most]))


def _members(
    classes: tuple[CgroupClass, ...], mode: CgroupMode, existing: Iterable[str]
) -> tuple[str, ...]:
    """Return the cgroups in the subtrees of the classes of one mode, sorted."""
    roots = {path.rstrip("/") for entry in classes if entry.mode is mode for path in entry.paths}
    return tuple(
        sorted(
            path
            for path in existing
            if any(path == root or path.startswith(root + "/") for root in roots)
        )
    )


def _memcg(path: str, *, matching: bool, allow: bool = False) -> Filter:
    return Filter(FilterType.memcg, matching=matching, allow=allow, memcg_path=path)
