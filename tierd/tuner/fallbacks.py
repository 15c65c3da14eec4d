"""When memory goes to a fallback, because nearer nodes have no room for it. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from tierd.frozen import dataclass, replace
from tierd.plans.plan import Direction, Migration, Sweep, Visit
from tierd.tuner.climb import RESUME_SHARE, Climb
from tierd.tuner.descent import Descent
from tierd.tuner.gate import Room, Seen, fitting_bytes
from tierd.tuner.measurement import Limits

# Seconds for which the nearest nodes must take next to nothing before memory goes elsewhere. On a
# small node demotion makes room in less. What goes down by regions does not wait.
REFUSED_S = 5.0


@dataclass(frozen=True, slots=True)
class Climbs:
    """The climbs to one node, by the node of the pages."""

    nearest: Mapping[int, Climb]
    further: Mapping[int, Climb]
    """Those of nodes whose nearest ones have no room."""

    @property
    def all(self) -> tuple[tuple[int, Climb], ...]:
        return (*self.nearest.items(), *self.further.items())

    @property
    def in_vain(self) -> bool:
        """Whether the last rounds did not help, and no pages from further away may."""
        if any(not one.in_vain for one in self.further.values()):
            return False
        return any(one.in_vain for one in (self.nearest or self.further).values())


@dataclass(frozen=True, slots=True)
class Moved:
    """What sweeps did since the last tick."""

    visited_bytes: int = 0
    moved_bytes: int = 0

    def plus(self, visited_bytes: int, moved_bytes: int) -> "Moved":
        return Moved(self.visited_bytes + visited_bytes, self.moved_bytes + moved_bytes)


def seen(all_of_it: Seen, further: Moved | None, beside: Climb, *, fallback: bool) -> Seen:
    """Return what a climb sees of its node, where another one is `beside` it.

    `further` is what sweeps to fallbacks did, if there are any.
    """
    if further is None:
        return all_of_it
    visited, moved = dict(all_of_it.visited_bytes), dict(all_of_it.moved_bytes)
    came, went = further.visited_bytes, further.moved_bytes
    visited[Visit.promote] = came if fallback else visited.get(Visit.promote, 0) - came
    moved[Visit.promote] = went if fallback else moved.get(Visit.promote, 0) - went
    if beside.clears_pages:
        visited[Visit.clear] = 0
    return replace(all_of_it, visited_bytes=visited, moved_bytes=moved)


def judging(migrations: Iterable[Migration]) -> tuple[Migration, ...]:
    """Return the promotions by which a fast node is judged: from nodes to which it is nearest.

    One that is nearest to none is judged by all of its promotions.
    """
    ups = [one for one in migrations if one.direction is Direction.promote]
    nearest = {one.target_node for one in ups if not one.fallback}
    return tuple(one for one in ups if not one.fallback or one.target_node not in nearest)


def needed(limits: Limits, full_s: Mapping[int, float], refused: Collection[int]) -> frozenset[str]:
    """Return the promotions by regions to fallbacks whose nearer nodes take nothing.

    `full_s` says for how long each fast node has taken next to nothing by regions, and `refused`
    whose pages find no place either.
    """
    ups = [one for one in limits.migrations if one.direction is Direction.promote]
    visited = {one.node for one in limits.sweeps if one.visit is Visit.promote}
    taken = {
        one.source_node
        for one in ups
        if not one.fallback and full_s.get(one.target_node, 0.0) < REFUSED_S
    } | (visited - set(refused))
    return frozenset(one.id for one in ups if one.fallback and one.source_node not in taken)


def fits(one: Sweep, room: Room, least: float = 0.0) -> bool:
    """Return whether the node that a sweep sends pages down to has so much room, and enough."""
    return room.fits_on(one.target_node) >= max(fitting_bytes(one), least)


def down(turns: Sequence[Sweep], room: Room, before: Descent) -> Sweep:
    """Return the sweep that sends pages of a node down now.

    `turns` are those of the nearest nodes, the next one first, and then those of fallbacks. What
    comes up leaves a little room on the nearest node, and an exchange goes on with that. So a
    fallback follows only after REFUSED_S without room, and stays until there is much. Each change
    takes up to a round, because the other sweep is elsewhere.
    """
    last = next((one for one in turns if one.target_node == before.target), turns[0])
    least = RESUME_SHARE * room.ahead_bytes if last.fallback else 0.0
    nearest = [one for one in turns if not one.fallback]
    found = [last] if before.visited_bytes and fits(last, room) else []
    found += [one for one in nearest if fits(one, room, least)]
    if last.fallback or before.full_s >= REFUSED_S:
        found += [one for one in turns if one.fallback and fits(one, room)]
    found += [one for one in nearest if fits(one, room)]
    return (*found, turns[0])[0]
