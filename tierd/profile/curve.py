"""How much a machine would serve from fast memory, by its size, and with an interval. Pure.

Trials are few, because each takes seconds. Between them the curve of the best placement gives
the shape, and the trials give how near the daemon comes to it.
"""

from collections.abc import Sequence
from math import sqrt
from random import Random

from tierd.frozen import dataclass
from tierd.profile.load import Heat, Load, Stretch, Work

# Resamples of a profile, for its error. With so many the error itself is right within a tenth.
RESAMPLES = 100
# An interval that holds nine of ten.
Z = 1.64

# What is added to the interval: of a size that was simulated, by how much two trials of the same
# load differ; of a size between two trials, by how much the curve between them may be wrong.
# docs/simulate.md has the cells that these come from.
TRIAL_ERROR = 0.03
BETWEEN_ERROR = 0.02

# The share of a fast node that programs can use. The rest is headroom, and what the kernel keeps.
USABLE = 0.98

# A tier that is this small a part of what is in use is not worth a question.
SHARE_MIN = 0.02


@dataclass(frozen=True, slots=True)
class Anchor:
    """A size that was simulated."""

    fast_bytes: float
    served: float


@dataclass(frozen=True, slots=True)
class Guess:
    """The share of the touches that fast memory would serve, with its interval."""

    served: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Point:
    """A size of fast memory, and what it would do."""

    fast_bytes: int
    slow_bytes: int
    guess: Guess
    best: float
    """The share that a perfect placement would serve."""
    simulated: bool
    """True if a trial was made at this size; else the share lies between those of others."""
    worst_minute: float | None = None
    moved_bytes_per_day: float | None = None
    cannot_tell: str = ""
    """Why the figures cannot be trusted; empty if they can."""


def gain(work: Work, anchor: Anchor) -> float:
    """Return how near a trial came to the best placement: 1 is there, 0 is one by chance."""
    best, blind = work.best(USABLE * anchor.fast_bytes), blind_share(work, anchor.fast_bytes)
    if best - blind < SHARE_MIN:
        return 1.0
    return max(0.0, min(1.0, (anchor.served - blind) / (best - blind)))


def blind_share(work: Work, fast_bytes: float) -> float:
    """Return the share that is served if nobody cares what lies where."""
    reach = sum(one.share * one.load.reach_hz for one in work.stretches)
    if not reach:
        return 1.0
    served = sum(
        one.share
        * one.load.reach_hz
        * min(1.0, USABLE * fast_bytes / one.load.bytes if one.load.bytes else 1.0)
        for one in work.stretches
    )
    return served / reach


def served(work: Work, anchors: Sequence[Anchor], fast_bytes: float) -> float:
    """Return the share at a size, by the trials on either side of it."""
    listed = sorted(anchors, key=lambda one: one.fast_bytes)
    gains = [gain(work, one) for one in listed]
    exact = [one.served for one in listed if one.fast_bytes == fast_bytes]
    if exact:
        return exact[0]
    before = [n for n, one in enumerate(listed) if one.fast_bytes < fast_bytes]
    after = [n for n, one in enumerate(listed) if one.fast_bytes > fast_bytes]
    if before and after:
        low, high = before[-1], after[0]
        width = listed[high].fast_bytes - listed[low].fast_bytes
        part = (fast_bytes - listed[low].fast_bytes) / width
        share = gains[low] + part * (gains[high] - gains[low])
    else:
        share = gains[before[-1]] if before else gains[after[0]]
    best, blind = work.best(USABLE * fast_bytes), blind_share(work, fast_bytes)
    return blind + share * max(0.0, best - blind)


def rising(values: Sequence[float]) -> list[float]:
    """Return the values, raised where one is below the one before: more memory never hurts."""
    found: list[float] = []
    for value in values:
        found.append(max(value, found[-1]) if found else value)
    return found


def guess(
    work: Work, share: float, fast_bytes: float, trials: Sequence[float] | None = None
) -> Guess:
    """Return the interval around a share. It holds what each trial of this size served, if any."""
    sampled = Z * sampling_error(work, fast_bytes)
    around = TRIAL_ERROR + BETWEEN_ERROR if trials is None else TRIAL_ERROR
    half = sqrt(sampled**2 + around**2)
    low, high = share - half, min(share + half, work.best(fast_bytes) + sampled)
    if work.capped:
        # How hot the hottest pages are was continued from those below them, and not seen.
        seen = Work(work.about, work.capped).best(USABLE * fast_bytes)
        low -= max(0.0, work.best(USABLE * fast_bytes) - seen)
    for ends in ((work.level, work.dense), work.cached):
        if not all(ends) or not ends:
            continue
        least, most = sorted(Work("", one).best(USABLE * fast_bytes) for one in ends)
        best = work.best(USABLE * fast_bytes)
        low -= max(0.0, best - least)
        high = max(high, share + half + max(0.0, most - best))
    inside = (share, *(trials or ()))
    return Guess(share, max(0.0, min(low, *inside)), min(1.0, max(high, *inside)))


def sampling_error(work: Work, fast_bytes: float) -> float:
    """Return the standard error of the best share that comes from looking at few pages."""
    if not work.pages:
        return 0.0
    rng = Random(1)
    usable = USABLE * fast_bytes
    shares = [_resampled(work, work.pages, rng).best(usable) for _ in range(RESAMPLES)]
    mean = sum(shares) / len(shares)
    return sqrt(sum((one - mean) ** 2 for one in shares) / len(shares))


def _resampled(work: Work, pages: int, rng: Random) -> Work:
    """Return the work as another panel might have shown it (a Dirichlet draw of its classes)."""
    stretches = []
    for one in work.stretches:
        load, seen = one.load, max(1.0, pages * one.share)
        drawn = [
            rng.gammavariate(max(heat.bytes / load.bytes * seen, 1e-6), 1.0) for heat in load.heats
        ]
        whole = sum(drawn) or 1.0
        heats = tuple(
            Heat(heat.rate_hz, load.bytes * part / whole)
            for heat, part in zip(load.heats, drawn, strict=True)
        )
        stretches.append(Stretch(Load(heats, cached_s=load.cached_s), one.share))
    return Work(work.about, tuple(stretches))


def sizes(work: Work, count: int = 12) -> list[int]:
    """Return sizes of fast memory for a curve, by the shares of touches that they could serve."""
    whole = work.bytes / USABLE
    needs = [
        max(one.load.needed_bytes(share) for one in work.stretches) / USABLE
        for share in (0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
    ]
    even = [whole * (number + 1) / (count - len(needs)) for number in range(count - len(needs))]
    least = SHARE_MIN * whole
    found: list[int] = []
    for size in sorted(max(least, min(whole, one)) for one in (*needs, *even)):
        if not found or size > 1.03 * found[-1]:
            found.append(_rounded(size))
    return found


def anchors_of(listed: Sequence[int]) -> list[int]:
    """Return the sizes of a curve that are worth a trial: one low, one in the middle, one high."""
    return sorted({listed[len(listed) // 5], listed[len(listed) // 2], listed[-len(listed) // 4]})


def _rounded(size: float) -> int:
    """Return a size in whole MiB."""
    return max(1, round(size / (1 << 20))) << 20


def knee(points: Sequence[tuple[float, float]]) -> int:
    """Return the index of the knee: the point that is furthest above the line between both ends."""
    (left, low), (right, high) = points[0], points[-1]
    if right == left or high <= low:
        return 0
    above = [(y - low) / (high - low) - (x - left) / (right - left) for x, y in points]
    return above.index(max(above))


def least_size(
    work: Work, anchors: Sequence[Anchor], listed: Sequence[int], target: float
) -> int | None:
    """Return the least size that serves the target share; None if none of these does."""
    high = next((size for size in listed if served(work, anchors, size) >= target), None)
    if high is None:
        return None
    low = max((size for size in listed if size < high), default=0)
    while high - low > max(1 << 20, high // 200):
        middle = (low + high) // 2
        if served(work, anchors, middle) >= target:
            high = middle
        else:
            low = middle
    return _rounded(high)
