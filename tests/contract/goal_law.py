"""The integer law of quota goals, written down a second time.

The simulated kernel has its own copy; this one is what kernels, real and simulated, are held to:
damon_feed_loop_next_input(), damos_quota_score() and damos_set_effective_quota().

Nobody can look at a kernel tick by tick. Schemes that tick together are therefore compared as one:
a `Moment` is where all of them would be after some number of ticks, and `moments` keeps those
that agree with what was seen.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

ULONG_MAX = 2**64 - 1

# The quota is kept in 1/10000 of a byte and never falls below one whole byte.
ONE_BYTE = 10_000
MET = 10_000

# How many ticks may pass between two looks, or while a command is served. A tick is at least an
# aggregation, and a look takes one or two.
TICKS_BETWEEN_MAX = 60


@dataclass(frozen=True, slots=True)
class Law:
    """What a scheme's quota should be: kept, and clamped by `cap_bytes`, if that is not 0."""

    score: int
    cap_bytes: int = 0
    kept: int = 0

    @property
    def effective_bytes(self) -> int:
        """What the file of that name shows."""
        whole = self.kept // ONE_BYTE
        return min(whole, self.cap_bytes) if self.cap_bytes else whole

    def tick(self) -> "Law":
        """One charge window later."""
        return replace(self, kept=_next(max(self.kept, ONE_BYTE), self.score))


@dataclass(frozen=True, slots=True)
class Moment:
    """All schemes after so many ticks."""

    laws: tuple[Law, ...]
    ticks: int = 0

    def later(self) -> "Moment":
        """One tick later."""
        return Moment(tuple(law.tick() for law in self.laws), self.ticks + 1)

    def shows(self) -> tuple[int, ...]:
        """What effective_bytes show at this moment."""
        return tuple(law.effective_bytes for law in self.laws)


def moments(since: Iterable[Moment], seen: Sequence[int]) -> frozenset[Moment]:
    """The moments, not before those given, that show what was seen."""
    return frozenset(
        moment for start in since for moment in _following(start) if moment.shows() == tuple(seen)
    )


def changed(since: Iterable[Moment], laws: Sequence[Law]) -> frozenset[Moment]:
    """New scores and caps from some tick on, not before the moments given."""
    return frozenset(
        replace(
            moment,
            laws=tuple(
                replace(new, kept=old.kept) for new, old in zip(laws, moment.laws, strict=True)
            ),
        )
        for start in since
        for moment in _following(start)
    )


def _following(moment: Moment) -> Iterable[Moment]:
    for _ in range(TICKS_BETWEEN_MAX):
        yield moment
        moment = moment.later()


def _next(kept: int, score: int) -> int:
    if score == MET:
        return kept
    if score >= 2 * MET:
        return ONE_BYTE
    distance = abs(score - MET)
    # Large values are divided first, so that the product fits a long.
    step = kept * distance // MET if kept < ULONG_MAX // distance else kept // MET * distance
    if score > MET:
        return max(kept - step, ONE_BYTE)
    return kept + step if kept < ULONG_MAX - step else ULONG_MAX
