"""Where memory of a node may go: to the nearest nodes of the next tier, or else to fallbacks. Pure.

A fallback is for what the nearest nodes have no room for. All targets of one direction share one
rate: what moves to a fallback counts as if it had moved to the nearest nodes.
"""

from collections.abc import Iterable, Iterator

from tierd.frozen import dataclass
from tierd.plans.plan import Direction
from tierd.topology import Topology


@dataclass(frozen=True, slots=True)
class Way:
    """One target of a node, in one direction."""

    direction: Direction
    target: int
    nearest: tuple[int, ...]
    """The nearest nodes of that direction."""
    fallback: bool = False

    @property
    def sharing(self) -> int:
        """How many targets share the rate equally. A fallback may use all that is left of it."""
        return 1 if self.fallback else len(self.nearest)

    @property
    def among(self) -> str:
        """What the target is among those of its direction, in words."""
        if self.fallback:
            verb = "has" if len(self.nearest) == 1 else "have"
            return f", for what node {self._others} {verb} no room for"
        return f" (one of {self.sharing} equally near)" if self.sharing > 1 else ""

    @property
    def beside(self) -> str:
        """With what it shares its rate, in words."""
        return f" together with node {self._others}" if self.fallback else ""

    @property
    def _others(self) -> str:
        return " and ".join(str(one) for one in self.nearest)


def ways(
    topology: Topology, node: int, directions: Iterable[Direction], *, falls_back: bool
) -> Iterator[Way]:
    """Yield where memory of a node may go in these directions, nearest first."""
    targets = {
        Direction.promote: (topology.promotion_targets, topology.promotion_fallbacks),
        Direction.demote: (topology.demotion_targets, topology.demotion_fallbacks),
    }
    for direction in directions:
        nearest_of, fallbacks_of = targets[direction]
        nearest = tuple(sorted(nearest_of(node)))
        yield from (Way(direction, one, nearest) for one in nearest)
        if falls_back:
            yield from (Way(direction, one, nearest, fallback=True) for one in fallbacks_of(node))
