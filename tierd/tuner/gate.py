"""What sweeps are told, and what is seen of them. Pure.

`climb` and `descent` decide by a `Room` and by what was `Seen`. Their answer is a `Gate` for each
sweep.
"""

from collections.abc import Mapping
from dataclasses import field
from math import inf

from tierd.frozen import dataclass
from tierd.plans.plan import Sweep, Visit
from tierd.tuner.average import moving
from tierd.tuner.latencies import NO_ANSWERS, Answers
from tierd.tuner.trade import Trade

# Free memory that demotion makes for pages that come up, as a share of the fast node, and at most
# as much as a sweep visits in some seconds: more would only lie unused on a large node.
AHEAD_SHARE = 0.04
AHEAD_SWEEP_S = 4.0

# While pages come up, demotion makes room for so many seconds of that too, at most as much again.
# Demotion takes some seconds to find pages that are idle.
AHEAD_S = 2.0

# A part of what is visited moves: the yield. It tells when a sweep will have made the room that is
# wanted, or used the room that there is. If that is before the next tick, the sweep is closed then.
# YIELD_FIRST is the yield of promotion that is expected at first; of demotion all is expected.
# YIELD_MIN is expected at least. The yield is averaged over YIELD_S seconds of visits.
YIELD_FIRST = 0.5
YIELD_MIN = 0.02
YIELD_S = 1.0

# A sweep that opens may run for so many windows before it is closed, and every page may move.
WINDOWS_OPEN = 2


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether a sweep is open, and what follows after some seconds."""

    is_open: bool
    then_open: bool
    after_s: float = 0.0
    slower: float = 0.0
    """By which share of its speed the sweep is slower while it is open (`Seen.can_slow`)."""


@dataclass(frozen=True, slots=True)
class Bar:
    """By what a sweep tells the pages that move from the others."""

    seconds: float
    """Promotion takes pages that were touched within this time; demotion those that were not."""
    share: float
    """The share of visited memory that moved lately."""


OPEN = Gate(is_open=True, then_open=True)
CLOSED = Gate(is_open=False, then_open=False)

Gates = Mapping[Visit, Gate]


@dataclass(frozen=True, slots=True)
class Room:
    """The free memory of a fast node, and what it should be."""

    node: int
    total_bytes: int
    free_bytes: int
    floor_bytes: int
    """Promotion waits below it."""
    headroom_bytes: int
    sweep_bytes_per_s: float = inf
    """How fast the sweeps visit memory whose pages come up to it."""
    reserved_bytes: float = 0.0
    """The free memory that what comes up by regions will use until the next tick."""
    wanted_bytes: float = 0.0
    """The room beyond the headroom that is wanted for what comes up by regions."""
    fits_bytes: float = inf
    """How much more memory the nearest slower nodes have room for."""
    fits_by_target: Mapping[int, float] = field(default_factory=dict)
    """The same of each slower node that pages may go down to, also of those that are further."""
    cold_share: float | None = None
    """The share of the node that regions show to be cold, if a sensor counts that."""
    is_short: bool = False
    """Programs have used what should be free."""
    owed_bytes: float = 0.0
    """What groups of cgroups lack of their shares, if they would use it."""
    giving_bytes: float = 0.0
    """What other groups have beyond their shares."""
    opens_at_once: bool = True
    """Whether the sweep that fills it opens and closes without a commit. A commit is slow, so a
    sweep that needs one should open and close seldom."""
    stopped: str = ""
    """Why nothing may come up now; empty if it may."""
    over_rate: bool = False
    """True if that is because more has come up by page than the rate limit allows."""
    used_up: bool = False
    """True if it is because the processor time of sweeps is used up."""
    answers: Answers = NO_ANSWERS
    """How late the node answers."""
    hinted_bytes_per_s: float = 0.0
    """How fast hint faults bring pages up."""
    hinted_in_vain: bool = False
    """True if that did not cool the slower nodes."""
    hinted_woke: bool = False
    """True if heat below has just risen."""
    idle_s_min: float = 0.0
    """The least idle time of what goes down to make room for them."""

    @property
    def kept_bytes(self) -> int:
        """What stays free: the headroom, or the floor if that is higher (huge pages)."""
        return max(self.headroom_bytes, self.floor_bytes)

    def fits_on(self, target: int) -> float:
        """Return how much more memory a slower node has room for."""
        return self.fits_by_target.get(target, self.fits_bytes)

    @property
    def left_bytes(self) -> int:
        """What is free beyond that."""
        return self.free_bytes - self.kept_bytes

    @property
    def spare_bytes(self) -> float:
        """What may come up by page now: at least half of what may come up at all."""
        above_bytes = self.free_bytes - self.floor_bytes
        return above_bytes - min(self.reserved_bytes, max(0, above_bytes) / 2)

    @property
    def ahead_bytes(self) -> float:
        return ahead_bytes(self.total_bytes, self.sweep_bytes_per_s)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the sweeps of a node did since the last tick, and its heat."""

    seconds: float
    window_s: float
    round_bytes: int
    bytes_per_s: float
    """How fast a sweep visits memory."""
    first_lag_s: float = 0.0
    """How long the lag is at first, if that is more than a window."""
    gated: bool = False
    """Whether commits open sweeps."""
    is_long: bool = False
    """Whether a round takes long by the plan. In fact it may take longer now and then."""
    allowed_bytes: float = inf
    """What may move until the next tick, so that the rate limit holds."""
    can_tell: bool = True
    """False if samples make pages old so often that visits cannot tell what is idle."""
    heat: float = 0.0
    heat_above: float = 0.0
    """The heat of the node that pages come up to."""
    trade: Trade = field(default_factory=Trade)
    """What demotion from that node did."""
    behind_bytes: float = 0.0
    """How far the sweep that promotes is behind the one that clears. Negative if it is ahead."""
    visited_bytes: Mapping[Visit, int] = field(default_factory=dict)
    moved_bytes: Mapping[Visit, int] = field(default_factory=dict)
    joined_bytes: int = 0
    """What came up to the node, by page, from slower ones."""

    @property
    def round_s(self) -> float:
        """How long one sweep takes for all pages."""
        return self.round_bytes / self.bytes_per_s

    @property
    def can_slow(self) -> bool:
        """Whether a sweep is made slower to set its distance from another one.

        The commit that opens it can do that too. Where a round takes long, so does the lag, and a
        gate is exact enough.
        """
        return self.gated and not self.is_long

    @property
    def window_bytes(self) -> float:
        return self.bytes_per_s * self.window_s


def ahead_bytes(total_bytes: int, sweep_bytes_per_s: float) -> float:
    """Return the most room that demotion makes for pages that come up, on a node of this size."""
    return min(AHEAD_SHARE * total_bytes, AHEAD_SWEEP_S * sweep_bytes_per_s)


def fitting_bytes(sweep: Sweep) -> int:
    """Return the room below that a sweep must find before it opens."""
    return WINDOWS_OPEN * sweep.quota_bytes


def until(left_bytes: float, share: float, seen: Seen) -> Gate:
    """Return the gate of a sweep that may move so much until the next tick, within its rate."""
    lasts_s = min(left_bytes, seen.allowed_bytes) / (max(YIELD_MIN, share) * seen.bytes_per_s)
    if lasts_s >= seen.seconds:
        return OPEN
    return Gate(is_open=True, then_open=False, after_s=lasts_s)


def yield_share(before: float, seen: Seen, visit: Visit) -> float:
    """Return the share of visited memory that moves lately."""
    visited = seen.visited_bytes.get(visit, 0)
    if not visited:
        return before
    # A sweep that was open for a part of this time says as much less about the rest.
    visits_s = visited / seen.bytes_per_s
    return moving(before, seen.moved_bytes.get(visit, 0) / visited, visits_s, YIELD_S)
