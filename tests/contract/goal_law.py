"""The integer law of quota goals, written down a second time.

The simulated kernel has its own copy. Real and simulated kernels are compared with this one:
damon_feed_loop_next_input(), damos_quota_score() and damos_set_effective_quota().

A test cannot look at a kernel at each tick. So schemes that tick together are compared together:
a `Moment` is the state of all of them after some number of ticks, and `moments` keeps those
that agree with the values that were seen.
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
    """The quota that a scheme should have; `cap_bytes` limits it if that is not 0."""

    score: int
    cap_bytes: int = 0
    kept: int = 0

    @property
    def effective_bytes(self) -> int:
        """The value that the file of this name shows."""
        whole = self.kept // ONE_BYTE
        return min(whole, self.cap_bytes) if self.cap_bytes else whole

    def tick(self) -> "Law":
        """Return the law one charge window later."""
        return replace(self, kept=_next(max(self.kept, ONE_BYTE), self.score))


@dataclass(frozen=True, slots=True)
class Moment:
    """All schemes after some number of ticks."""

    laws: tuple[Law, ...]
    ticks: int = 0

    def later(self) -> "Moment":
        """One tick later."""
        return Moment(tuple(law.tick() for law in self.laws), self.ticks + 1)

    def shows(self) -> tuple[int, ...]:
        """The values of effective_bytes at this moment."""
        return tuple(law.effective_bytes for law in self.laws)


def moments(since: Iterable[Moment], seen: Sequence[int]) -> frozenset[Moment]:
    """Return the moments that show the seen values and are not before the given ones."""
    return frozenset(
        moment for start in since for moment in _following(start) if moment.shows() == tuple(seen)
    )


def changed(since: Iterable[Moment], laws: Sequence[Law]) -> frozenset[Moment]:
    """Return the moments with new scores and caps, from the given ones on."""
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
