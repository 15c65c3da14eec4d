"""The heat of a node, and how much of it lasts.

Heat is bytes, weighted by how often they are accessed. Pure; there is one `Heat` per node, learned
from round to round.
"""

from tierd.frozen import dataclass
from tierd.tuner.average import moving
from tierd.tuner.measurement import NodeMeasurement

# Seconds over which faint heat is averaged. Faint heat is in regions in which only one or two
# samples hit. One page of a large region is enough for that, so only heat that lasts counts.
FAINT_S = 5.0

# Heat that was not there in this many earlier rounds is new, and moves slowly. A scan looks as hot
# as other memory for one round, and is then elsewhere (docs/constants.md).
ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Heat:
    """A node's heat now, and what it was lately."""

    sure_bytes: int
    """Heat of regions in which three or more samples hit."""
    faint_bytes: float
    """Heat of the other hot regions, but not more than its average over FAINT_S."""
    faint_lately_bytes: float
    """Faint heat, averaged over FAINT_S."""
    sure_before_bytes: tuple[int, ...] = ()
    """Sure heat in up to ROUNDS earlier rounds, the newest first."""

    @property
    def all_bytes(self) -> float:
        return self.sure_bytes + self.faint_bytes

    @property
    def lasting_bytes(self) -> int:
        """Sure heat that was also there in a round before. One low reading does not count."""
        return min(self.sure_bytes, max(self.sure_before_bytes, default=self.sure_bytes))

    @property
    def new_bytes(self) -> int:
        """The other sure heat. It may be gone in the next round."""
        return self.sure_bytes - self.lasting_bytes


def learn(before: Heat | None, seen: NodeMeasurement, seconds: float) -> Heat:
    """Return the heat of a node after this round."""
    faint = float(seen.faint_bytes)
    if before is None:
        return Heat(seen.sure_bytes, faint, faint)
    lately = moving(before.faint_lately_bytes, faint, seconds, FAINT_S)
    past = (before.sure_bytes, *before.sure_before_bytes)[:ROUNDS]
    return Heat(seen.sure_bytes, min(faint, lately), lately, past)
