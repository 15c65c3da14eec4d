"""The monitoring targets of a context: their regions, and how each aggregation changes them.

Merge, ages, split and size limits follow kdamond_merge_regions(), kdamond_split_regions() and
damon_commit_targets(). The single steps are in regions.py.
"""

from collections.abc import Iterator
from random import Random

from tierd.sim import kernel_math
from tierd.sim.context_spec import UINT_MAX, Target
from tierd.sim.quirks import KdamondQuirks
from tierd.sim.regions import (
    Region,
    Sampler,
    count_ages,
    fitted,
    merge_similar,
    moving_accesses,
    split_randomly,
    split_to_limit,
    total_size,
)


class MonitoringTargets:
    """One list of regions per target, in core units (addr_unit)."""

    def __init__(
        self,
        specs: tuple[Target, ...],
        quirks: KdamondQuirks,
        rng: Random,
        *,
        min_region: int,
        min_nr_regions: int,
    ) -> None:
        self._quirks = quirks
        self._rng = rng
        self.min_region = min_region
        self.min_nr_regions = min_nr_regions
        self.lists = [fitted([], target.regions, min_region) for target in specs]
        self._last_nr_regions = 0
        self._rotation = 0
        self._merge_limit = self._limit_sizes()

    def __iter__(self) -> Iterator[Region]:
        return (region for regions in self.lists for region in regions)

    def __len__(self) -> int:
        return sum(map(len, self.lists))

    def size_limit(self) -> int:
        """Return the largest size of a region: there must be enough (damon_region_sz_limit())."""
        return max(total_size(self.lists) // max(1, self.min_nr_regions), self.min_region)

    def sample(self, sampler: Sampler, samples: int, sample_us: int, addr_unit: int) -> None:
        """Count the accesses that `samples` samples find."""
        for regions in self.lists:
            sampler.check(regions, samples, sample_us, addr_unit)

    def set_moving(self, done: int, window: int) -> None:
        """Set the nr_accesses that schemes see when `done` of `window` samples are taken."""
        if done >= window:
            for region in self:
                region.moving = region.nr_accesses
            return
        for region in self:
            region.moving = moving_accesses(
                region, done, window, by_window=self._quirks.moving_by_window
            )

    def merge(self, window: int, max_nr_regions: int) -> None:
        """Join similar regions (kdamond_merge_regions()).

        While there are too many, less similar ones are joined too.
        """
        threshold = max((region.nr_accesses for region in self), default=0) // 10
        count_age = True
        while True:
            if count_age:
                for regions in self.lists:
                    count_ages(regions, threshold, zero_resets=self._quirks.zero_resets_age)
            self.lists = [
                merge_similar(regions, threshold, self._merge_limit) for regions in self.lists
            ]
            count_age = not self._quirks.age_counted_once
            if len(self) <= max_nr_regions or threshold >= window:
                break
            threshold = max(1, threshold * 2) if threshold < window // 2 else window
        if self._quirks.splits_to_min_nr_regions:
            self._merge_limit = self._limit_sizes()

    def update_limit(self) -> None:
        """Update the size limit for merging, as older kernels do at each update interval."""
        self._merge_limit = self._limit_sizes()

    def reset_aggregated(self) -> None:
        """Begin new access counts, and keep the last ones (kdamond_reset_aggregated())."""
        for region in self:
            region.last_nr_accesses = region.nr_accesses
            region.nr_accesses = 0

    def split(self, max_nr_regions: int) -> None:
        """Split regions in two (kdamond_split_regions()).

        They are split in three if the last split changed nothing.
        """
        nr_regions = len(self)
        if nr_regions > max_nr_regions // 2:
            if not self._quirks.splits_when_crowded:
                return
            if nr_regions < max_nr_regions:
                self._split_each(2, max_nr_regions // (max_nr_regions - nr_regions))
        else:
            same = self._last_nr_regions == nr_regions
            self._split_each(3 if same and nr_regions < max_nr_regions // 3 else 2, 1)
        self._last_nr_regions = nr_regions

    def rescale(self, old: tuple[int, int], new: tuple[int, int], *, aggregating: bool) -> None:
        """Convert counts and ages to new intervals (damon_update_monitoring_results()).

        `old` and `new` are the samples of an aggregation, and its microseconds.
        """
        (old_window, old_aggr_us), (new_window, new_aggr_us) = old, new
        for region in self:
            if aggregating:
                region.nr_accesses = 0
                region.last_nr_accesses = kernel_math.rescaled_accesses(
                    region.last_nr_accesses, old_window, new_window
                )
            else:
                region.nr_accesses = kernel_math.rescaled_accesses(
                    region.nr_accesses, old_window, new_window
                )
            region.age = region.age * old_aggr_us // max(1, new_aggr_us) & UINT_MAX

    def commit(self, specs: tuple[Target, ...]) -> list[int]:
        """Take over the targets (damon_commit_targets()). Return the indices of those gone.

        A target without ranges keeps its regions.
        """
        kept: list[list[Region]] = []
        gone = list(range(len(specs), len(self.lists)))
        for index, target in enumerate(specs):
            known = self.lists[index] if index < len(self.lists) else None
            if target.obsolete:
                gone.append(index)
            elif known is None:
                kept.append(fitted([], target.regions, self.min_region))
            else:
                kept.append(
                    fitted(known, target.regions, self.min_region) if target.regions else known
                )
        self.lists = kept
        return gone

    def _split_each(self, pieces: int, step: int) -> None:
        self._rotation += 1
        self.lists = [
            split_randomly(
                regions,
                pieces,
                self.min_region,
                self._rng,
                step=step,
                offset=self._rotation % step,
            )
            for regions in self.lists
        ]

    def _limit_sizes(self) -> int:
        limit = self.size_limit()
        if not self._quirks.splits_to_min_nr_regions:
            return limit
        limit = -(-limit // self.min_region) * self.min_region
        self.lists = [split_to_limit(regions, limit) for regions in self.lists]
        return limit
