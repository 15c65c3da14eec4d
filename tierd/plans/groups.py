"""Groups of cgroups that share the fast memory: their cgroups, and whose memory moves. Pure.

All memory that is in no class is a group as well: the rest. DAMON's filter matches one cgroup, so
each cgroup of a subtree has a filter (`scope.py`).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from tierd.configuration.config import REST, Moves, ShareClass
from tierd.frozen import dataclass
from tierd.machine.cgroups import Cgroups
from tierd.machine.features import Capabilities
from tierd.machine.sample import GroupSample
from tierd.plans.scope import NOTHING, Scope, inside, outside
from tierd.units import format_percent


@dataclass(frozen=True, slots=True)
class Group:
    """A class of the setting `shares`, and the cgroups that it has now."""

    share: ShareClass
    tops: tuple[str, ...]
    """The cgroups that match a path. All others are below them."""
    cgroups: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.share.name


@dataclass(frozen=True, slots=True)
class Roles:
    """Groups, by name, whose memory does not move as the memory of others does."""

    waits: frozenset[str] = frozenset()
    """Their memory may not come up to the fastest tier."""
    keeps: frozenset[str] = frozenset()
    """Their memory may not go down from it."""
    gives: frozenset[str] = frozenset()
    """Their memory goes down from it even if it is hot."""


NO_ROLES = Roles()


def bases(shares: Iterable[ShareClass]) -> tuple[str, ...]:
    """Return the paths under which all cgroups of these classes are."""
    return tuple(dict.fromkeys(_base(path) for one in shares for path in one.paths))


def match(shares: Iterable[ShareClass], existing: Iterable[str]) -> tuple[Group, ...]:
    """Return the groups. A cgroup is in the first class that has it, or one above it."""
    known = sorted(existing)
    taken: set[str] = set()
    found = []
    for share in shares:
        tops: list[str] = []
        members: list[str] = []
        for path in known:
            if path in taken:
                continue
            below = any(path.startswith(top + "/") for top in tops)
            if below or any(_matches(path, pattern) for pattern in share.paths):
                taken.add(path)
                members.append(path)
                if not below:
                    tops.append(path)
        found.append(Group(share, tuple(tops), tuple(members)))
    return tuple(found)


def upward(groups: tuple[Group, ...], roles: Roles, own: Cgroups, can: Capabilities) -> Scope:
    """Return the filters of what comes up to the fastest tier; without roles, to any other."""
    return _all_but(groups, roles.waits | _fixed(groups, Moves.none), own, can)


def downward(groups: tuple[Group, ...], roles: Roles, own: Cgroups, can: Capabilities) -> Scope:
    """Return the filters of what goes down from the fastest tier because it is cold.

    Without roles they are those of what goes down, or is evicted, from any other tier.
    """
    return _all_but(groups, roles.keeps | _fixed(groups, Moves.none, Moves.up), own, can)


def pushed(groups: tuple[Group, ...], roles: Roles, own: Cgroups, can: Capabilities) -> Scope:
    """Return the filters of what goes down whether it is cold or not."""
    gives = roles.gives - _fixed(groups, Moves.none, Moves.up)
    if not gives:
        return Scope(NOTHING)
    names = {REST, *(group.name for group in groups)}
    return _all_but(groups, frozenset(names - gives), own, can)


@dataclass(frozen=True, slots=True)
class Scopes:
    """Whose memory moves where groups share the fastest tier, as filters."""

    upward: Scope
    """Of what comes up to the fastest tier."""
    downward: Scope
    """Of what goes down from it because it is cold."""
    pushed: Scope
    """Of what goes down from it in any case."""
    upward_below: Scope
    """Of what comes up to another tier."""
    downward_below: Scope
    """Of what goes down from another tier, or is evicted."""

    @property
    def all(self) -> tuple[Scope, ...]:
        below = self.upward_below, self.downward_below
        return (self.upward, self.downward, self.pushed, *below)

    def of(self, *, up: bool, fastest: bool) -> Scope:
        """Return the filters of a migration that does not push."""
        if fastest:
            return self.upward if up else self.downward
        return self.upward_below if up else self.downward_below


def scopes(groups: tuple[Group, ...], roles: Roles, own: Cgroups, can: Capabilities) -> Scopes:
    """Return the filters of all migrations. Roles are for the fastest tier only."""
    return Scopes(
        upward(groups, roles, own, can),
        downward(groups, roles, own, can),
        pushed(groups, roles, own, can),
        upward(groups, NO_ROLES, own, can),
        downward(groups, NO_ROLES, own, can),
    )


def _fixed(groups: tuple[Group, ...], *moves: Moves) -> frozenset[str]:
    """Return the groups whose memory may go nowhere else by the configuration."""
    return frozenset(group.name for group in groups if group.share.moves in moves)


def _all_but(
    groups: tuple[Group, ...], left: frozenset[str], existing: Cgroups, can: Capabilities
) -> Scope:
    """Return the filters that let all memory through but that of some groups."""
    if not left:
        return Scope()
    mine = {group.name: group.cgroups for group in groups}
    if REST not in left:
        return outside(_members(mine, left), existing.own_bytes)
    return inside(_members(mine, mine.keys() - left), existing.own_bytes, can)


def _members(mine: Mapping[str, tuple[str, ...]], names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(path for name in names for path in mine.get(name, ())))


def bytes_by_group(samples: Sequence[GroupSample]) -> dict[str, dict[int, int]]:
    """Return the memory of each group on each node, and of the rest.

    The last sample is of all cgroups together.
    """
    if not samples:
        return {}
    *members, whole = samples
    found = {one.name: dict(one.node_bytes) for one in members}
    found[REST] = {
        node: max(0, size - sum(one.node_bytes.get(node, 0) for one in members))
        for node, size in whole.node_bytes.items()
    }
    return found


def passed(
    before: Sequence[GroupSample], now: Sequence[GroupSample], fast: Collection[int]
) -> dict[str, tuple[int, int]]:
    """Return how many bytes of each group came up to the fast nodes, and went down from them.

    What came up is more on fast nodes and less below. Memory that a group allocates or frees is
    more or less on one side only. What goes both ways between two samples is not seen.
    """
    earlier, found = bytes_by_group(before), {}
    for name, sizes in bytes_by_group(now).items():
        growth = Counter(sizes)
        growth.subtract(earlier.get(name, sizes))
        above = sum(size for node, size in growth.items() if node in fast)
        below = sum(growth.values()) - above
        found[name] = max(0, min(above, -below)), max(0, min(-above, below))
    return found


def describe_group(group: Group) -> str:
    """Return a sentence that says what a group may have, and how many cgroups it has now."""
    share = group.share
    limits = ["left where it is"] if share.moves is Moves.none else [f"weight {share.weight}"]
    if share.floor_bp is not None:
        limits.insert(0, f"floor {format_percent(share.floor_bp)}")
    if share.ceiling_bp is not None:
        limits.append(f"ceiling {format_percent(share.ceiling_bp)}")
    if share.follows_limits:
        limits.append("floor and ceiling by memory.low and memory.high")
    if share.moves is Moves.up:
        limits.append("never goes down")
    count = len(group.cgroups)
    cgroups = "1 cgroup" if count == 1 else f"{count} cgroups"
    return f"{group.name}: {', '.join(share.paths)} ({', '.join(limits)}): {cgroups} now"


def unmatched(groups: Iterable[Group]) -> Iterator[str]:
    """Yield a sentence for each group without a cgroup."""
    for group in groups:
        if not group.cgroups:
            paths = ", ".join(group.share.paths)
            yield f"shares: {group.name}: no cgroup matches {paths} now"


def _base(path: str) -> str:
    """Return the part of a path before its first pattern."""
    parts = path.rstrip("/").split("/")
    plain = next((at for at, part in enumerate(parts) if _is_pattern(part)), len(parts))
    return "/".join(parts[:plain])


def _matches(path: str, pattern: str) -> bool:
    parts, wanted = path.split("/"), pattern.rstrip("/").split("/")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def _is_pattern(part: str) -> bool:
    return any(sign in part for sign in "*?[")
