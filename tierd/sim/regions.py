"""DAMON's regions: how they are sampled, merged, split and fitted to ranges.

The functions follow mm/damon/core.c. They work on plain lists of regions in order of address, one
list per target. The access checks of a whole aggregation are drawn at once: each sample looks at
one random page of the region, so that the count has a binomial distribution.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from math import comb
from random import Random

from tierd.sim.context_spec import Range
from tierd.sim.memory import Memory

# The tables of the binomial distribution know this many steps of probability.
_STEPS = 512
# With more trials a normal distribution is as good, and a table would be large.
_MAX_TABLE = 400


class Region:
    """struct damon_region; addresses are in core units (addr_unit), and `end` is not included.

    `moving` is the nr_accesses that schemes see now. `sampled` is how often a page of the region
    was picked for an access check so far, on average.
    """

    __slots__ = ("age", "end", "last_nr_accesses", "moving", "nr_accesses", "sampled", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.nr_accesses = 0
        self.last_nr_accesses = 0
        self.moving = 0
        self.age = 0
        self.sampled = 0.0

    def size(self) -> int:
        """Return the size of the region (damon_sz_region())."""
        return self.end - self.start


class Sampler:
    """Draws the results of a kdamond's access checks."""

    def __init__(self, memory: Memory, rng: Random) -> None:
        self._memory = memory
        self._random = rng.random
        self._gauss = rng.gauss
        self._tables: dict[tuple[int, int], list[float]] = {}

    def check(self, regions: list[Region], samples: int, sample_us: int, addr_unit: int) -> None:
        """Add the accesses that `samples` samples find to the nr_accesses of each region."""
        accessed = self._memory.accessed(sample_us)
        watched = samples * self._memory.page_bytes
        for region in regions:
            start, end = region.start * addr_unit, region.end * addr_unit
            region.sampled += watched / (end - start)
            share = accessed(start, end)
            if share:
                region.nr_accesses += self._binomial(samples, share)

    def _binomial(self, trials: int, share: float) -> int:
        step = int(share * _STEPS + 0.5)
        if step >= _STEPS:
            return trials
        if trials > _MAX_TABLE:
            drawn = self._gauss(trials * share, (trials * share * (1 - share)) ** 0.5)
            return max(0, min(trials, round(drawn)))
        table = self._tables.get((trials, step))
        if table is None:
            one = step / _STEPS
            chances = (
                comb(trials, hits) * one**hits * (1 - one) ** (trials - hits)
                for hits in range(trials)
            )
            table = self._tables[trials, step] = list(accumulate(chances))
        return bisect_left(table, self._random())


def moving_accesses(region: Region, done: int, window: int, *, by_window: bool) -> int:
    """Return the nr_accesses that a scheme sees when `done` of `window` samples are taken.

    Until 7.2 nr_accesses_bp loses the last window sample by sample (damon_moving_sum()). Since 7.3
    the last window counts by the share that is left (damon_nr_accesses_mvsum()).
    """
    if done >= window:
        return region.nr_accesses
    if by_window:
        left_bp = (window - done) * 10_000 // window
        return region.nr_accesses + region.last_nr_accesses * left_bp // 10_000
    last_bp = region.last_nr_accesses * 10_000
    return (last_bp - done * (last_bp // window) + region.nr_accesses * 10_000) // 10_000


def total_size(targets: Sequence[list[Region]]) -> int:
    """Return the size of all regions of all targets."""
    return sum(region.end - region.start for regions in targets for region in regions)


def split_at(regions: list[Region], index: int, size: int) -> None:
    """Cut a region after `size`; the rest becomes the next region (damon_split_region_at())."""
    region = regions[index]
    rest = Region(region.start + size, region.end)
    rest.nr_accesses = region.nr_accesses
    rest.last_nr_accesses = region.last_nr_accesses
    rest.moving = region.moving
    rest.age = region.age
    rest.sampled = region.sampled
    region.end = rest.start
    regions.insert(index + 1, rest)


def count_ages(regions: list[Region], threshold: int, *, zero_resets: bool) -> None:
    """Count ages: a region ages while its accesses stay similar (damon_merge_regions_of())."""
    for region in regions:
        now, last = region.nr_accesses, region.last_nr_accesses
        if abs(now - last) > threshold or (zero_resets and (now == 0) != (last == 0)):
            region.age = 0
        else:
            region.age += 1


def merge_similar(regions: list[Region], threshold: int, size_limit: int) -> list[Region]:
    """Join neighbours with similar accesses while the result is within the size limit."""
    if not regions:
        return regions
    prev = regions[0]
    merged = [prev]
    for region in regions[1:]:
        if (
            prev.end == region.start
            and abs(prev.nr_accesses - region.nr_accesses) <= threshold
            and region.end - prev.start <= size_limit
        ):
            _join(prev, region)
        else:
            merged.append(region)
            prev = region
    return merged


def _join(left: Region, right: Region) -> None:
    size_left, size_right = left.end - left.start, right.end - right.start
    size = size_left + size_right
    if left.nr_accesses != right.nr_accesses:
        left.nr_accesses = (left.nr_accesses * size_left + right.nr_accesses * size_right) // size
    if left.age != right.age:
        left.age = (left.age * size_left + right.age * size_right) // size
    left.sampled = (left.sampled * size_left + right.sampled * size_right) / size
    left.end = right.end


def split_randomly(
    regions: list[Region],
    pieces: int,
    min_size: int,
    rng: Random,
    *,
    step: int = 1,
    offset: int = 0,
) -> list[Region]:
    """Split each region in `pieces`, at random tenths of its size (damon_split_regions_of()).

    With a step only every `step`-th region is split (damon_split_some_regions(), 7.3).
    """
    found: list[Region] = []
    for index, region in enumerate(regions):
        found.append(region)
        if step > 1 and index % step != offset:
            continue
        at = len(found) - 1
        size = region.end - region.start
        for _ in range(pieces - 1):
            if size <= 2 * min_size:
                break
            part = int(rng.random() * 9 + 1) * size // 10 // min_size * min_size
            if part == 0 or part >= size:
                continue
            split_at(found, at, part)
            size = part
    return found


def split_to_limit(regions: list[Region], limit: int) -> list[Region]:
    """Split all regions that are larger than the limit (damon_apply_min_nr_regions())."""
    found: list[Region] = []
    for region in regions:
        found.append(region)
        while found[-1].size() > limit:
            split_at(found, len(found) - 1, limit)
    return found


def fitted(regions: list[Region], ranges: Sequence[Range], min_size: int) -> list[Region]:
    """Return the regions fitted to new ranges: edges cut, holes filled (damon_set_regions())."""
    wanted = [
        Range(part.start // min_size * min_size, -(-part.end // min_size) * min_size)
        for part in ranges
    ]
    kept = [
        region
        for region in regions
        if any(region.start < part.end and part.start < region.end for part in ranges)
    ]
    if not kept:
        return [Region(part.start, part.end) for part in wanted]
    found: list[Region] = []
    for part in wanted:
        inside = [
            region
            for region in kept
            if region.start < part.end and part.start < region.end and region not in found
        ]
        if not inside:
            found.append(Region(part.start, part.end))
            continue
        inside[0].start = part.start
        inside[-1].end = part.end
        for region, following in zip(inside, [*inside[1:], None], strict=True):
            found.append(region)
            if following is not None and region.end != following.start:
                found.append(Region(region.end, following.start))
    return found
