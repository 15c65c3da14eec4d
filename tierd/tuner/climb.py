"""Promotion by page from one node, as a value: the stage of its round, and what is learned. Pure.

`climbing` takes it from tick to tick.
"""

from dataclasses import field
from enum import StrEnum
from math import inf

from tierd.frozen import dataclass, replace
from tierd.tuner.climb_heat import ClimbHeat
from tierd.tuner.gain import REST_S_MAX, Gain
from tierd.tuner.gate import YIELD_FIRST, Room, Seen
from tierd.tuner.lag import is_roomy
from tierd.tuner.touches import Touches
from tierd.tuner.trade import Trade

# Promotion begins when this part of the room ahead is free, and waits when nothing is. Between the
# two, both sweeps run for a while.
RESUME_SHARE = 0.5

# The room ahead is what the next round is expected to bring up: NEXT_ROUND times what the last one
# brought up, because its lag is longer. More room would lie unused. It is at least AHEAD_SHARE_MIN
# of the room for a first round.
NEXT_ROUND = 2.0
AHEAD_SHARE_MIN = 1 / 8

# The idle time is at least so many times the lag in the first round after heat has risen. Pages
# between these two bars stay where they are.
IDLE_PER_LAG = 8

# The factor by which the two bars move apart from round to round. The first round brings most of
# what can be gained. Each later one exchanges pages that differ less, many of them by chance. So it
# asks for a larger difference, and the exchange ends. Where a round takes long there are few of
# them, and the heat of so much memory lasts: there the bars stay where they are.
APART = 1.5

# Rounds after which the bars move apart no more: the idle time has its longest value by then, also
# with windows of 10 ms.
APART_ROUNDS_MAX = 23

# Seconds between two rounds that did not help, at first. They double each time.
REST_S_MIN = 2.0

# From the round VAIN_ROUNDS on, rounds that do not help may move this share of the fast node per
# second, up and down together: 1 % a minute. The next round waits until then. A round may seem not
# to help by chance. So this wait is at most LASTED_TIMES times the time since heat last rose.
VAIN_SHARE_PER_S = 0.01 / 60
VAIN_ROUNDS = 2
LASTED_TIMES = 4.0


# If so many of the pages that are visited were touched within the least lag, it is too long to tell
# which of them are hot.
MANY_YOUNG = 0.25


class Stage(StrEnum):
    """Where the round of a climb is."""

    rests = "rests"
    """No round is under way."""
    clears = "clears"
    """The sweep that clears runs. The one that promotes follows after the lag."""
    takes = "takes"
    """Both run."""
    drains = "drains"
    """The sweep that clears has stopped. The one that promotes goes on to the same place."""
    holds = "holds"
    """Both have stopped where they are, for a short time beside the lag."""
    goes_round = "goes round"
    """Only the sweep that promotes runs. It clears pages too, so a page is cleared a round before
    its visit."""
    waits = "waits"
    """Both wait until there is room: at the same place, or a short lag apart."""


@dataclass(frozen=True, slots=True)
class Climb:
    """Promotion by page from one node."""

    lag_s: float = 0.0
    """How long before its visit a page is cleared, if that is more than the least. The page comes
    up if it was touched in this time."""
    least_s: float = inf
    """The least lag, if that is less than the first one."""
    stage: Stage = Stage.rests
    stage_s: float = 0.0
    """How long it has been in this stage."""
    stage_ends_s: float = 0.0
    """How long it stays in a stage whose length is known."""
    rest_s: float = 0.0
    """How long it last rested after a round."""
    fills: bool = False
    """Whether this round only uses the room that is left. Nothing goes down for it."""
    took_s: float = 0.0
    """How long both sweeps ran in this round."""
    waited_s: float = 0.0
    """How long both waited for room in this round."""
    lap_s: float = 0.0
    """How long both sweeps ran in this lap."""
    lap_waited_s: float = 0.0
    """How long both waited for room in this lap."""
    cleared_bytes: int = 0
    """The memory that was cleared in this round."""
    follows_at_bytes: float = 0.0
    """How much must have been cleared in this round before the sweep that promotes follows, beside
    the lag."""
    left_bytes: float = 0.0
    """What lay between both sweeps when they last stopped, as far as it was not visited since."""
    brought: bool = False
    """Whether the last round has brought much up."""
    expects_bytes: float = inf
    """What is expected to come up in the next round, if the last one says that."""
    touches: Touches = field(default_factory=Touches)
    """What the visits of this round saw, and those of the rounds since heat last rose."""
    trade: Trade = field(default_factory=Trade)
    """What demotion from the node above found in this round."""
    joined_bytes: int = 0
    """What came up to the node itself in this round, from slower ones."""
    rounds: int = 0
    rounds_since_rise: int = 0
    """The rounds that needed room and were not long, since heat last rose."""
    vain_rounds: int = 0
    """The rounds that did not help and were not long, since heat last rose."""
    lasted_s: float = 0.0
    """How long ago heat last rose."""
    vain_bytes: int = 0
    """What came up in the last round, and in the one that used the room that it left."""
    yield_share: float = YIELD_FIRST
    """The share of visited memory that came up lately."""
    heat: ClimbHeat = field(default_factory=ClimbHeat)
    """The heat of the node and of the one above, since heat last rose."""
    gain: Gain = field(default_factory=Gain)
    """What was gained since heat last rose, if rounds are long."""

    @property
    def idle_per_lag(self) -> float:
        """How many times the lag the idle time must be at least."""
        return IDLE_PER_LAG * APART ** min(self.rounds_since_rise, APART_ROUNDS_MAX)

    @property
    def calm(self) -> bool:
        """True if a round is over, and heat has not risen since."""
        return self.heat.calm is not None

    @property
    def in_vain(self) -> bool:
        """True if the last round did not help, and heat has not risen since."""
        return self.rest_s > 0

    @property
    def is_running(self) -> bool:
        """True if pages come up now, or within the lag."""
        return self.stage in (Stage.clears, Stage.takes, Stage.goes_round)

    @property
    def clears_pages(self) -> bool:
        """True if a sweep of this round has cleared pages lately, or will soon.

        A round that waits for room may wait for long, and clears nothing meanwhile.
        """
        return self.stage not in (Stage.rests, Stage.waits)

    @property
    def wants_room(self) -> bool:
        """True while a round that needs room is under way, or follows soon."""
        if self.fills:
            return False
        return self.stage is not Stage.rests or self.stage_ends_s - self.stage_s <= REST_S_MIN

    def is_over(self, round_bytes: int) -> bool:
        """Return whether nothing more is cleared in this round."""
        return self.cleared_bytes >= round_bytes or self.gain.in_vain

    def lag_now_s(self, seen: Seen) -> float:
        """Return how long before its visit a page was cleared, by where the sweeps are."""
        if self.stage is Stage.goes_round:
            return seen.round_s
        return max(seen.window_s, seen.behind_bytes / seen.bytes_per_s)

    def pays_s(self, room: Room) -> float:
        """Return how long no room is made after rounds in vain, for what they moved."""
        if not self.in_vain or self.vain_rounds < VAIN_ROUNDS:
            return 0.0
        # As much went down for what came up.
        paid_s = 2 * self.vain_bytes / (VAIN_SHARE_PER_S * room.total_bytes)
        return min(REST_S_MAX, LASTED_TIMES * self.lasted_s, paid_s)

    def is_rested(self, room: Room) -> bool:
        """Return whether the next round may begin. Nothing has to go down for it in free room."""
        ends_s = min(self.rest_s, self.stage_ends_s) if is_roomy(room) else self.stage_ends_s
        return self.stage_s >= ends_s

    def bar_s(self, seen: Seen) -> float:
        """Return within which time a page must have been touched to come up."""
        if self.stage is Stage.goes_round:
            return seen.round_s
        return self.wants_lag_s(seen)

    def least_lag_s(self, seen: Seen) -> float:
        """Return the least lag: the first one, if that was not too long."""
        return max(seen.window_s, min(seen.first_lag_s, self.least_s))

    def wants_lag_s(self, seen: Seen) -> float:
        """Return how long before its visit a page should be cleared."""
        return self.lag_between_s(seen.window_s, seen.first_lag_s)

    def lag_between_s(self, window_s: float, first_lag_s: float) -> float:
        """Return the same for a window and a first lag, as planned or as measured."""
        return max(window_s, min(first_lag_s, self.least_s), self.lag_s)

    def shorter(self, seen: Seen) -> "Climb":
        """Return a climb with half of the lag, because too much came up.

        If many pages look young even in the least lag, that is halved too. The rounds before could
        not tell these pages apart, so they do not count.
        """
        least_s = self.least_lag_s(seen)
        if self.lag_s > least_s or self.yield_share < MANY_YOUNG or least_s <= seen.window_s:
            return replace(self, lag_s=max(least_s, self.lag_s / 2))
        least_s = max(seen.window_s, least_s / 2)
        return replace(self, lag_s=least_s, least_s=least_s, rounds_since_rise=0, vain_rounds=0)

    def ahead_bytes(self, most_bytes: float) -> float:
        """Return the room that should be there for the next pages: so much at most."""
        return min(most_bytes, max(AHEAD_SHARE_MIN * most_bytes, self.expects_bytes))

    def may_begin(self, room: Room) -> bool:
        """Return whether there is room for the next pages."""
        least_bytes = AHEAD_SHARE_MIN * room.ahead_bytes
        # No more room will come than what can go down makes.
        most_bytes = max(least_bytes, room.spare_bytes + room.fits_bytes)
        ahead_bytes = min(self.ahead_bytes(room.ahead_bytes), most_bytes)
        if not self.lag_s and room.opens_at_once:
            # Before the first lap only the hottest pages come up. They are few, and worth the most.
            ahead_bytes = least_bytes
        return not room.stopped and room.spare_bytes > RESUME_SHARE * ahead_bytes

    def is_busy(self, room: Room) -> bool:
        """Return whether a round is under way, or free room waits for the next one."""
        if self.stage is not Stage.rests:
            return True
        return self.is_rested(room) and not room.stopped and is_roomy(room)

    def comes_bytes_per_s(self, seen: Seen) -> float:
        """Return how much comes up per second while sweeps run."""
        return self.yield_share * seen.bytes_per_s if self.is_running else 0.0


NO_CLIMB = Climb()
"""A climb that has not begun."""
