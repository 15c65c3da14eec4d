"""The heat of a slow node and of the node above, as promotion by page judges itself by it. Pure."""

from dataclasses import dataclass, replace

from tierd.tuner.average import moving

# A round helps if it brings so much of all heat up: the heat of the slow node is lower by this
# share of the heat of both nodes. Heat is averaged over HEAT_S seconds, because a single
# measurement varies. If the heat of the slow node is low, the average varies too. So it must
# also be lower by SURE_SHARE of itself, or the round must have helped in another way.
HELPS_SHARE = 0.03
SURE_SHARE = 0.15
HEAT_S = 8.0

# After a round, heat is calm until it rises. Then the climb begins anew. Heat has risen if it is
# above its average by WAKES_SHARE of the heat of both nodes and WAKES_SWINGS times its usual swing
# together. The average and the swing are those of CALM_S seconds.
WAKES_SHARE = 0.1
WAKES_SWINGS = 3.0
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
    """The heat since the last round, averaged over CALM_S; None before the first one."""
    swing: float = 0.0
    """How far the heat usually is from its average."""

    @property
    def above_share(self) -> float:
        """The share of all heat that is above."""
        return self.above / max(1.0, self.above + (self.lately or 0.0))

    @property
    def has_fallen(self) -> bool:
        """Whether it is clearly lower than after any round before."""
        if self.least is None:
            return False
        now = self.lately or 0.0
        by = HELPS_SHARE * (now + self.above)
        return now < min(self.least - by, (1 - SURE_SHARE) * self.least)

    def ended(self) -> "ClimbHeat":
        """Return the heat after a round: it is calm, and may be the least."""
        now = self.lately or 0.0
        return replace(self, calm=now, least=now if self.least is None else min(now, self.least))

    def anew(self) -> "ClimbHeat":
        """Return the heat after programs have turned to other memory."""
        return replace(self, calm=None, least=None, swing=0.0)


def feel(before: ClimbHeat, heat: float, above: float, seconds: float) -> tuple[ClimbHeat, bool]:
    """Return the heat after a reading, and whether calm heat has risen."""
    if before.lately is not None:
        heat = moving(before.lately, heat, seconds, HEAT_S)
        above = moving(before.above, above, seconds, HEAT_S)
    now = replace(before, lately=heat, above=above)
    if now.calm is None:
        return now, False
    rise, usual = heat - now.calm, WAKES_SHARE * (now.calm + above)
    if rise > usual + WAKES_SWINGS * now.swing:
        return now, True
    calm = moving(now.calm, heat, seconds, CALM_S)
    # A rise that goes on must not become a usual swing.
    swing = moving(now.swing, min(abs(rise), usual), seconds, CALM_S)
    return replace(now, calm=calm, swing=swing), False
