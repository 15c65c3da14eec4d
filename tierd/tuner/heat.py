"""What a node's heat is: what surely waits, and what may be chance or gone in a moment.

Heat is bytes by how often they are accessed. Pure; one `Heat` per node, learned from round to
round.
"""

from dataclasses import dataclass

from tierd.tuner.average import moving
from tierd.tuner.reading import NodeReading

# Heat of regions in which but a sample or two has hit: one page of a large region is enough for
# that, now and then. What lasts is believed, over about so many seconds.
FAINT_S = 5.0

# A scan is seen in a region that it passes, as hot as memory that is there for good, and in the
# next round it has gone on. What was seen in none of so many rounds before is not believed yet:
# at most 0.7 % of a scan came up, without it 1.4 to 1.8 (7.2).
ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Heat:
    """A node's heat now, and what it was lately."""

    sure_bytes: int
    """Of regions that more than a sample or two has hit."""
    faint_bytes: float
    """Of the others, as far as it lasts."""
    faint_lately_bytes: float
    """On average over FAINT_S."""
    sure_before_bytes: tuple[int, ...] = ()
    """In up to ROUNDS rounds before, the newest first."""

    @property
    def all_bytes(self) -> float:
        return self.sure_bytes + self.faint_bytes

    @property
    def lasting_bytes(self) -> int:
        """What is surely no chance, and was there lately; one low reading is not believed."""
        return min(self.sure_bytes, max(self.sure_before_bytes, default=self.sure_bytes))

    @property
    def new_bytes(self) -> int:
        """What is surely no chance either, but may be gone in a moment."""
        return self.sure_bytes - self.lasting_bytes


def learn(before: Heat | None, seen: NodeReading, seconds: float) -> Heat:
    """A node's heat after this round."""
    faint = float(seen.faint_bytes)
    if before is None:
        return Heat(seen.sure_bytes, faint, faint)
    lately = moving(before.faint_lately_bytes, faint, seconds, FAINT_S)
    past = (before.sure_bytes, *before.sure_before_bytes)[:ROUNDS]
    return Heat(seen.sure_bytes, min(faint, lately), lately, past)
