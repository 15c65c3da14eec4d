"""What programs do with memory: how much is how hot, and how it lies. Pure.

A load has no addresses. It says how much memory is touched how often, in how large pieces memory of
equal heat lies, and how fast heat moves to other memory.
"""

from collections.abc import Iterable, Iterator
from math import exp

from tierd.frozen import dataclass
from tierd.profile.rates import class_of


@dataclass(frozen=True, slots=True)
class Heat:
    """Some memory whose pages are touched equally often."""

    rate_hz: float
    bytes: float

    @property
    def touches_hz(self) -> float:
        """Touches per second of all of it, if each page counts as one."""
        return self.rate_hz * self.bytes


@dataclass(frozen=True, slots=True)
class Load:
    """What programs do for some time."""

    heats: tuple[Heat, ...]
    """The hottest first; the last one may be memory that nobody touches."""
    piece_bytes: int = 0
    """The size of the pieces of equal heat; 0 if each page has a heat of its own."""
    pieces_share: float = 1.0
    """The hottest memory, which has this share of all touches, lies in such pieces. The rest has a
    heat of its own by page. With 1 all memory lies in pieces."""
    drift_per_minute: float = 0.0
    """The share of the hot memory that cools down each minute, while as much other memory heats."""
    cached_s: float = 0.0
    """A touch that comes sooner than this after the one before does not reach memory: the caches of
    processors answer it."""

    @property
    def bytes(self) -> float:
        return sum(heat.bytes for heat in self.heats)

    @property
    def touches_hz(self) -> float:
        return sum(heat.touches_hz for heat in self.heats)

    @property
    def reach_hz(self) -> float:
        """The touches a second that reach memory, if each page counts as one."""
        return sum(self.reaches_hz(heat.rate_hz) * heat.bytes for heat in self.heats)

    def reaches_hz(self, rate_hz: float) -> float:
        """Return how many touches of a page reach memory in a second."""
        return rate_hz * exp(-rate_hz * self.cached_s) if rate_hz else 0.0

    def best(self, fast_bytes: float) -> float:
        """Return the share of what reaches memory that this much fast memory serves at best."""
        total = self.reach_hz
        if not total:
            return 1.0
        left, served = fast_bytes, 0.0
        for reaches_hz, size in self._by_need():
            taken = min(left, size)
            served += reaches_hz * taken
            left -= taken
        return served / total

    def _by_need(self) -> list[tuple[float, float]]:
        """Return how often memory is reached, and its bytes; what is reached most comes first."""
        return sorted(
            ((self.reaches_hz(one.rate_hz), one.bytes) for one in self.heats), reverse=True
        )

    def is_in_pieces(self) -> tuple[bool, ...]:
        """Return of each heat whether its memory lies in pieces. Whole classes of heat do."""
        if self.pieces_share >= 1:
            return (True,) * len(self.heats)
        left, least = self.pieces_share * self.touches_hz, 0
        for heat in self.heats:
            if left <= 0:
                break
            left -= heat.touches_hz
            least = class_of(heat.rate_hz)
        return tuple(class_of(heat.rate_hz) >= least for heat in self.heats)

    def needed_bytes(self, share: float) -> float:
        """Return how much fast memory serves this share of what reaches memory at best."""
        left, needed = share * self.reach_hz, 0.0
        for reaches_hz, size in self._by_need():
            if left <= 0 or not reaches_hz:
                break
            taken = min(size, left / reaches_hz)
            needed += taken
            left -= taken * reaches_hz
        return needed


def ordered(heats: Iterable[Heat]) -> tuple[Heat, ...]:
    """Return heats that have bytes, the hottest first."""
    return tuple(sorted((one for one in heats if one.bytes > 0), key=lambda one: -one.rate_hz))


@dataclass(frozen=True, slots=True)
class Stretch:
    """A load, and for which share of the time it is there."""

    load: Load
    share: float


@dataclass(frozen=True, slots=True)
class Work:
    """All that is known of the programs: what they do in turn, and how far that can be trusted."""

    about: str
    """Where it comes from, in words."""
    stretches: tuple[Stretch, ...]
    """From the least to the most demanding."""
    minutes: int | None = None
    """For how long it was recorded; None if it was not recorded."""
    pages: int | None = None
    """How many pages were looked at in all; None if there is no such error."""
    capped: tuple[Stretch, ...] = ()
    """The same, if no page is touched more often than can be seen; empty if there is no doubt."""
    level: tuple[Stretch, ...] = ()
    """The same, if what regions show is spread over memory as evenly as it can be; empty if single
    pages were watched."""
    dense: tuple[Stretch, ...] = ()
    """The same, if what regions show is in as few pages as it can be."""
    cached: tuple[tuple[Stretch, ...], ...] = ()
    """The same, if less or more of each page is used while it is in a cache; empty if caches are
    not known."""
    doubt: str = ""
    """Why this is trusted less than what a panel shows; empty if it is not."""

    @property
    def bytes(self) -> float:
        """The most memory that is in use."""
        return max(stretch.load.bytes for stretch in self.stretches)

    def best(self, fast_bytes: float) -> float:
        """Return the share of what reaches memory, over all the time, that is served at best."""
        reach = sum(one.share * one.load.reach_hz for one in self.stretches)
        if not reach:
            return 1.0
        served = sum(
            one.share * one.load.reach_hz * one.load.best(fast_bytes) for one in self.stretches
        )
        return served / reach


def each_load(work: Work) -> Iterator[Load]:
    for stretch in work.stretches:
        yield stretch.load
