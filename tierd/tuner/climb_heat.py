"""The heat of a slow node and of the node above, as promotion by page judges itself by it. Pure."""

from tierd.frozen import dataclass, replace
from tierd.tuner.average import moving

# A round helps if it brings so much of all heat up: the heat of the slow node is lower by this
# share of the heat of both nodes. Heat is averaged over HEAT_S seconds, because a single
# measurement varies. If the heat of the slow node is low, the average varies too. So it must
# also be lower by SURE_SHARE of itself, or the round must have helped in another way.
HELPS_SHARE = 0.03
SURE_SHARE = 0.15
HEAT_S = 8.0

# After a round, heat is calm until it rises. Then the climb begins anew. Heat has risen if it is
# above its average by WAKES_SHARE of the heat of both nodes, and one of these is true:
# - The share of it in the heat of both nodes is above its average by WAKES_SHARE and WAKES_SWINGS
#   times its usual swing. Readings of the heat of 16 GiB swing by a sixth. Those of both nodes
#   swing together, because the kernel samples less often where it finds more. So their share swings
#   less.
# - It is more than WAKES_TIMES the heat of both nodes. Where nothing was used, shares say nothing.
# The averages are those of CALM_S seconds.
WAKES_SHARE = 0.1
WAKES_SWINGS = 3.0
WAKES_TIMES = 2.0
CALM_S = 60.0


@dataclass(frozen=True, slots=True)
class ClimbHeat:
    """The heat that a climb sees. All figures are bytes, weighted by how often they are used."""

    lately: float | None = None
    """The heat of the node, averaged over HEAT_S; None before the first reading."""
    above: float = 0.0
    """The heat of the node that pages come up to, averaged in the same way."""
    least: float | None = None
    """The lowest heat at the end of a round, since heat last rose."""
    calm: float | None = None
    """The heat since a round, averaged over CALM_S; None before the first one. It begins with the
    first round since heat last rose, and again with each round after which heat has fallen."""
    calm_share: float = 0.0
    """The share of it in the heat of both nodes, averaged in the same way."""
    average_share: float = 0.0
    """The same share, averaged over CALM_S whether heat is calm or not."""
    averaged_s: float = 0.0
    """For how many seconds it has been averaged."""
    swing: float = 0.0
    """How far this share usually is from its average."""
    swing_before: float = 0.0
    """The same before the share last rose above its average. A rise does not make itself usual."""

    @property
    def above_share(self) -> float:
        """The share of all heat that is above."""
        return self.above / max(1.0, self.above + (self.lately or 0.0))

    @property
    def below_share(self) -> float:
        """The share of all heat that is below."""
        return 1 - self.above_share if self.lately else 0.0

    @property
    def has_fallen(self) -> bool:
        """Whether it is clearly lower than after any round before."""
        if self.least is None:
            return False
        return self._is_below(self.least) and (self.lately or 0.0) < (1 - SURE_SHARE) * self.least

    def _is_below(self, known: float) -> bool:
        """Return whether it is lower than a known heat by HELPS_SHARE of the heat of both nodes."""
        now = self.lately or 0.0
        return now < known - HELPS_SHARE * (now + self.above)

    def ended(self) -> "ClimbHeat":
        """Return the heat after a round: it is calm, and may be the least.

        What was calm before still counts, unless heat has fallen since. For programs may have
        turned to other memory before the round ended. Then heat is rising, and is not calm.
        """
        now = self.lately or 0.0
        calm, calm_share = self.calm, self.calm_share
        if calm is None or self._is_below(calm):
            calm, calm_share = now, self.below_share
        least = now if self.least is None else min(now, self.least)
        return replace(self, calm=calm, calm_share=calm_share, least=least)

    def anew(self) -> "ClimbHeat":
        """Return the heat after programs have turned to other memory."""
        return replace(self, calm=None, least=None)


def feel(before: ClimbHeat, heat: float, above: float, seconds: float) -> tuple[ClimbHeat, bool]:
    """Return the heat after a reading, and whether calm heat has risen."""
    now = _averaged(before, heat, above, seconds)
    if now.lately is None or now.calm is None:
        return now, False
    if _has_risen(now, now.lately, now.calm):
        return now, True
    calm = moving(now.calm, now.lately, seconds, CALM_S)
    calm_share = moving(now.calm_share, now.below_share, seconds, CALM_S)
    return replace(now, calm=calm, calm_share=calm_share), False


def _averaged(before: ClimbHeat, heat: float, above: float, seconds: float) -> ClimbHeat:
    if before.lately is None:
        first = replace(before, lately=heat, above=above)
        return replace(first, average_share=first.below_share)
    now = replace(
        before,
        lately=moving(before.lately, heat, seconds, HEAT_S),
        above=moving(before.above, above, seconds, HEAT_S),
    )
    averaged_s = now.averaged_s + seconds
    # The first reading does not count, because a new kdamond has seen nothing hot yet. The others
    # of the first CALM_S weigh alike.
    share = moving(now.average_share, now.below_share, seconds, min(CALM_S, averaged_s))
    # By chance it rises as often as it falls. Only rises count, and twice: a fall may come from a
    # round that helped.
    rises_by = max(0.0, now.below_share - share)
    swing = moving(now.swing, 2 * min(rises_by, WAKES_SHARE), seconds, CALM_S)
    swing_before = now.swing_before if rises_by else swing
    return replace(
        now,
        average_share=share,
        averaged_s=averaged_s,
        swing=swing,
        swing_before=swing_before,
    )


def _has_risen(now: ClimbHeat, heat: float, calm: float) -> bool:
    if heat <= calm + WAKES_SHARE * (calm + now.above):
        return False
    if heat > WAKES_TIMES * (calm + now.above):
        return True
    return now.below_share > now.calm_share + WAKES_SHARE + WAKES_SWINGS * now.swing_before
