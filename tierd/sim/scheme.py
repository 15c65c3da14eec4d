"""A running scheme: its quota, its statistics, and the part of a region that it is applied to.

This follows damos_adjust_quota(), damos_skip_charged_region() and damos_apply_scheme(). The
differences between series are in quirks.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tierd.frozen import replace
from tierd.sim import kernel_math
from tierd.sim.context_spec import (
    ULONG_MAX,
    Action,
    Attrs,
    Filter,
    FilterType,
    Goal,
    Metric,
    Quota,
    SchemeSpec,
    SchemeStats,
    TriedRegion,
    Tuner,
)
from tierd.sim.jiffies import JIFFY_US, coarse_ns
from tierd.sim.memory import Memory
from tierd.sim.paddr import apply_action
from tierd.sim.quirks import KdamondQuirks
from tierd.sim.regions import Region, split_at

_COLD_FIRST = frozenset({Action.pageout, Action.lru_deprio, Action.migrate_cold})
_HOT_FIRST = frozenset({Action.lru_prio, Action.migrate_hot})


@dataclass(slots=True)
class ApplyContext:
    """What a scheme has to know of its context while it is applied."""

    memory: Memory
    rng: Random
    quirks: KdamondQuirks
    attrs: Attrs
    now_us: int
    addr_unit: int
    min_region: int
    targets: list[list[Region]]
    work_ns: int = 0

    @property
    def max_nr_accesses(self) -> int:
        """The number of samples per aggregation (damon_max_nr_accesses())."""
        return max(1, self.attrs.aggr_us // max(1, self.attrs.sample_us))


@dataclass(slots=True)
class QuotaState:
    """The part of struct damos_quota that the kernel changes by itself."""

    esz: int = 0
    esz_bp: int = 0
    charged: int = 0
    from_jiffies: int | None = None
    total: int = 0
    total_ns: int = 0
    min_score: int = 0
    resume_target: int | None = None
    resume_at: int = 0


class Scheme:
    """A running scheme: its parameters, its counters, and its quota (struct damos)."""

    def __init__(self, spec: SchemeSpec, quirks: KdamondQuirks) -> None:
        self.quirks = quirks
        self.spec = spec
        self.stats = SchemeStats()
        self.quota_state = QuotaState()
        self.next_apply_sis = 0
        self.activated = True
        self.walked: list[TriedRegion] | None = None  # None if no request records regions
        self.walk_done = False
        self._current = [goal.current_value for goal in spec.quota.goals]
        self._scores: dict[tuple[int, int], int] = {}
        # Where the last visit ended. A visit that begins there follows it.
        self._visited_to: int | None = None

    @property
    def spec(self) -> SchemeSpec:
        """The scheme's parameters."""
        return self._spec

    @spec.setter
    def spec(self, spec: SchemeSpec) -> None:
        # These values are needed for every region of every walk, so they are prepared here.
        self._spec = spec
        self._pattern = spec.pattern
        self._quota = self._known_quota()
        quota = spec.quota
        self._has_quota = bool(quota.bytes or quota.ms or quota.goals)
        self._alike = not (quota.weight_nr_accesses or quota.weight_age)
        self._limited_at_zero = self._has_quota and not self.quirks.zero_quota_unlimited
        asked = spec.core_filters or (spec.ops_filters and self.quirks.stat_runs_filters)
        self._only_counts = spec.action is Action.stat and not asked

    def commit(self, spec: SchemeSpec) -> None:
        """Change the parameters and keep the counters (damos_commit())."""
        if self.quirks.quota_forgotten_on_commit:
            self.quota_state = QuotaState(min_score=self.quota_state.min_score)
        self.commit_goals(spec)
        self.spec = spec
        self.activated = True

    def commit_goals(self, spec: SchemeSpec) -> None:
        """Change the goals, matched by index (damos_commit_quota_goals())."""
        goals = spec.quota.goals
        for index, goal in enumerate(goals):
            if index >= len(self._current):
                self._current.append(0 if self.quirks.new_goal_value_lost else goal.current_value)
            elif goal.metric is Metric.user_input:
                self._current[index] = goal.current_value
        del self._current[len(goals) :]
        self.spec = replace(self.spec, quota=replace(self.spec.quota, goals=goals))

    # The quota.

    def limited(self) -> bool:
        """True if a quota limits the scheme now."""
        return self._limited_at_zero or self.quota_state.esz > 0

    def full(self, min_region: int) -> bool:
        """True if the quota of this window is used up (damos_quota_is_full())."""
        if not self.limited():
            return False
        left = self.quota_state.esz - self.quota_state.charged
        return left < min_region if self.quirks.full_below_min_region else left <= 0

    def adjust_quota(self, apply_context: ApplyContext) -> None:
        """Begin a charge window if one is due, and set the least score (damos_adjust_quota())."""
        self._scores.clear()
        quota, quota_state = self.spec.quota, self.quota_state
        if not self._has_quota and (self.quirks.unlimited_freezes or not quota_state.esz):
            return
        now = apply_context.now_us // JIFFY_US + 1
        if not quota_state.total and quota_state.from_jiffies is None:
            quota_state.from_jiffies = now
            if not self.quirks.first_window_unlimited:
                self._set_effective(apply_context)
        window = -(-quota.reset_interval_ms * 1000 // JIFFY_US)
        if quota_state.from_jiffies is None or now - quota_state.from_jiffies >= window:
            if self.full(apply_context.min_region):
                self.stats.qt_exceeds += 1
            quota_state.total += quota_state.charged
            quota_state.from_jiffies = now
            quota_state.charged = 0
            self._set_effective(apply_context)
        self._set_min_score(apply_context)

    def _set_effective(self, apply_context: ApplyContext) -> None:
        quota, quota_state = self._quota, self.quota_state
        if quota.goals:
            quota_state.esz_bp = kernel_math.next_esz_bp(
                quota, quota_state.esz_bp, self._score(apply_context)
            )
        quota_state.esz = kernel_math.effective_bytes(
            quota,
            quota_state.esz_bp,
            quota_state.total,
            quota_state.total_ns,
            apply_context.min_region,
            page_bytes=apply_context.memory.page_bytes,
            floor_last=self.quirks.time_quota_floor_last,
        )

    def _known_quota(self) -> Quota:
        """Return the quota without the fields that this series does not have."""
        quota = self.spec.quota
        if not self.quirks.temporal:
            quota = replace(quota, goal_tuner=Tuner.consist)
        if not self.quirks.fail_charge:
            quota = replace(quota, fail_charge_denom=0)
        return quota

    def _score(self, apply_context: ApplyContext) -> int:
        goals = self.spec.quota.goals
        for index, goal in enumerate(goals):
            if goal.metric is not Metric.user_input:
                self._current[index] = self._measured(goal, apply_context)
        return kernel_math.quota_score(
            replace(goal, current_value=current)
            for goal, current in zip(goals, self._current, strict=True)
        )

    def _measured(self, goal: Goal, apply_context: ApplyContext) -> int:
        memory = apply_context.memory
        if goal.metric is Metric.node_eligible_mem_bp:
            return self._eligible_bp(goal.nid, apply_context)
        if goal.metric in (Metric.active_mem_bp, Metric.inactive_mem_bp):
            return memory.active_bp(active=goal.metric is Metric.active_mem_bp)
        if goal.metric is Metric.some_mem_psi_us:
            return 0  # no task ever waits for memory in the simulation
        used = goal.metric in (Metric.node_mem_used_bp, Metric.node_memcg_used_bp)
        total = memory.managed_pages(goal.nid) if goal.nid in memory.nodes else 0
        if not total:
            return 0 if used else 10_000
        if goal.metric in (Metric.node_mem_used_bp, Metric.node_mem_free_bp):
            used_pages = total - memory.free_pages(goal.nid)
        else:
            used_pages = memory.cgroup_pages(goal.path, goal.nid)
        return (used_pages if used else total - used_pages) * 10_000 // total

    def _eligible_bp(self, nid: int, apply_context: ApplyContext) -> int:
        here = total = 0
        for regions in apply_context.targets:
            for region in regions:
                if self.fits(region):
                    pages = apply_context.memory.lru_pages(
                        region.start * apply_context.addr_unit, region.end * apply_context.addr_unit
                    )
                    total += sum(pages.values())
                    here += pages.get(nid, 0)
        return here * 10_000 // total if total else 0

    def _set_min_score(self, apply_context: ApplyContext) -> None:
        if self.full(apply_context.min_region):
            return  # no region is visited until the next window, which sets the score again
        if self._alike:
            self.quota_state.min_score = 0  # all regions have the same score, so each has enough
            return
        histogram = [0] * (kernel_math.MAX_SCORE + 1)
        for regions in apply_context.targets:
            for region in regions:
                if self.fits(region):
                    histogram[self.score(region, apply_context)] += region.size()
        self.quota_state.min_score = kernel_math.min_score(histogram, self.quota_state.esz)

    # Regions.

    def fits(self, region: Region) -> bool:
        """True if the region fits the scheme's access pattern (__damos_valid_target())."""
        pattern = self._pattern
        return (
            pattern.min_nr_accesses <= region.moving <= pattern.max_nr_accesses
            and pattern.min_age <= region.age <= pattern.max_age
            and pattern.min_sz <= region.end - region.start <= pattern.max_sz
        )

    def score(self, region: Region, apply_context: ApplyContext) -> int:
        """Return how well a region suits the action, 0 to 99 (damon_pa_scheme_score())."""
        action = self.spec.action
        if action not in _COLD_FIRST and action not in _HOT_FIRST:
            return kernel_math.MAX_SCORE
        # Most regions of a large machine are alike.
        key = region.moving, region.age
        known = self._scores.get(key)
        if known is None:
            rate = kernel_math.cold_score if action in _COLD_FIRST else kernel_math.hot_score
            known = rate(
                region.moving,
                region.age,
                apply_context.max_nr_accesses,
                apply_context.attrs.aggr_us,
                self.spec.quota,
            )
            self._scores[key] = known
        return known

    def wants(self, region: Region, apply_context: ApplyContext) -> bool:
        """True if pattern fits and, with a quota, the score is enough (damos_valid_target())."""
        return self.fits(region) and (
            self._alike
            or not self.limited()
            or self.score(region, apply_context) >= self.quota_state.min_score
        )

    def skips(self, regions: list[Region], index: int, target: int, min_region: int) -> int | None:
        """Return the index to apply the scheme to, or None to skip (damos_skip_charged_region()).

        The walk of the last window stopped at `resume_at`; regions before it are skipped. If that
        address is inside a region, the region is split there. The older rule continues with the
        second part at once; the newer one lets the walk visit it next.
        """
        quota_state = self.quota_state
        if quota_state.resume_target is None:
            return index
        if target != quota_state.resume_target:
            return None
        last = index == len(regions) - 1
        if self.quirks.skips_last_region:
            if last:
                self._forget_resume()
                return None
            return self._resume_older(regions, index, min_region)
        skip = self._resume(regions, index, min_region)
        if index == len(regions) - 1:
            self._forget_resume()
        return None if skip else index

    def _resume_older(self, regions: list[Region], index: int, min_region: int) -> int | None:
        region, at = regions[index], self.quota_state.resume_at
        if at and region.end <= at:
            return None
        if at and region.start < at:
            part = (at - region.start) // min_region * min_region
            if not part:
                if region.size() <= min_region:
                    return None
                part = min_region
            split_at(regions, index, part)
            index += 1
        self._forget_resume()
        return index

    def _resume(self, regions: list[Region], index: int, min_region: int) -> bool:
        region, at = regions[index], self.quota_state.resume_at
        if at and region.end <= at:
            return True
        if not at or region.start >= at:
            return False
        part = (at - region.start) // min_region * min_region
        if not part:
            if region.size() <= min_region:
                return True
            part = min_region
        split_at(regions, index, part)
        return True

    def _forget_resume(self) -> None:
        self.quota_state.resume_target = None
        self.quota_state.resume_at = 0

    def forget_target(self, target: int) -> None:
        """Do not continue a walk in this target, because it is gone."""
        if self.quota_state.resume_target == target:
            self._forget_resume()

    # The action.

    @property
    def only_counts(self) -> bool:
        """True if a visit changes nothing but counters. `count` can then replace all visits."""
        return (
            self._only_counts
            and self.walked is None
            and not self.limited()
            and self.quota_state.resume_target is None
            and not self._spec.max_nr_snapshots
        )

    def count(self, regions: Sequence[Region], rng: Random, *, ends: bool) -> None:
        """Count the regions that fit. This gives the same history as a visit to each, but faster.

        Most visits are of schemes that only count. `ends` is true if the last region is among them.
        """
        pattern, stats = self._pattern, self.stats
        least, most = pattern.min_nr_accesses, pattern.max_nr_accesses
        youngest, oldest = pattern.min_age, pattern.max_age
        sizes = [
            region.end - region.start
            for region in regions
            if least <= region.moving <= most and youngest <= region.age <= oldest
        ]
        if pattern.min_sz or pattern.max_sz < ULONG_MAX:
            sizes = [size for size in sizes if pattern.min_sz <= size <= pattern.max_sz]
        for size in sizes:
            self.quota_state.charged += kernel_math.charge(self._quota, size, 0)
            rng.random()  # coarse_ns() draws a number in each visit
        stats.nr_tried += len(sizes)
        stats.sz_tried += sum(sizes)
        stats.nr_snapshots += ends

    def count_one(self, region: Region, rng: Random, *, is_last: bool) -> None:
        """Count one region, as `count` does. A walk with many splits does this most of its time."""
        pattern, stats = self._pattern, self.stats
        size = region.end - region.start
        if (
            pattern.min_nr_accesses <= region.moving <= pattern.max_nr_accesses
            and pattern.min_age <= region.age <= pattern.max_age
            and pattern.min_sz <= size <= pattern.max_sz
        ):
            self.quota_state.charged += kernel_math.charge(self._quota, size, 0)
            rng.random()  # coarse_ns() draws a number in each visit
            stats.nr_tried += 1
            stats.sz_tried += size
        stats.nr_snapshots += is_last

    def visit(
        self, regions: list[Region], index: int, target: int, apply_context: ApplyContext
    ) -> int:
        """Apply to one region (damon_do_apply_schemes()). Return the index for the next scheme."""
        quota_state = self.quota_state
        if (self._limited_at_zero or quota_state.esz > 0) and self.full(apply_context.min_region):
            return index
        if quota_state.resume_target is not None:
            at = self.skips(regions, index, target, apply_context.min_region)
            if at is None:
                return index
            index = at
        if self._spec.max_nr_snapshots and self.retired():
            return index
        region = regions[index]
        if self.wants(region, apply_context):
            self.apply(regions, index, target, apply_context)
        if region is regions[-1]:
            # The walk has reached the last region without skipping it.
            self.stats.nr_snapshots += 1
        return index

    def apply(
        self, regions: list[Region], index: int, target: int, apply_context: ApplyContext
    ) -> None:
        """Apply to as much of the region as the quota still allows (damos_apply_scheme())."""
        region, quota_state, spec, stats = regions[index], self.quota_state, self._spec, self.stats
        size = region.end - region.start
        if quota_state.charged + size > quota_state.esz and self.limited():
            size = (
                (quota_state.esz - quota_state.charged)
                // apply_context.min_region
                * apply_context.min_region
            )
            if size <= 0:
                stats.nr_tried += 1
                return
            split_at(regions, index, size)
        allowed: bool | None = False
        if spec.core_filters:
            allowed = self._core_filters(regions, index, target, apply_context.min_region)
            if allowed is None:
                return
            size = region.end - region.start
        accesses = region.moving
        done = apply_action(
            apply_context.memory,
            spec,
            region,
            apply_context.addr_unit,
            apply_context.now_us,
            ask_ops_filters=not allowed
            and (spec.action is not Action.stat or self.quirks.stat_runs_filters),
            follows=region.start == self._visited_to,
            quirks=self.quirks,
        )
        self._visited_to = region.end
        applied = done.applied_bytes // apply_context.addr_unit
        passed = done.passed_bytes // apply_context.addr_unit
        if self.walked is not None and not self.walk_done:
            self.walked.append(TriedRegion(region.start, region.end, accesses, region.age, passed))
        apply_context.work_ns += done.work_ns
        quota_state.total_ns += coarse_ns(done.work_ns, apply_context.rng)
        quota_state.charged += kernel_math.charge(self._quota, size, applied)
        if self.full(apply_context.min_region):
            quota_state.resume_target = target
            quota_state.resume_at = region.end
        if spec.action is not Action.stat:
            region.age = 0
        stats.nr_tried += 1
        stats.sz_tried += size
        stats.nr_applied += 1 if applied else 0
        stats.sz_applied += applied
        stats.sz_ops_filter_passed += passed

    def _core_filters(
        self, regions: list[Region], index: int, target: int, min_region: int
    ) -> bool | None:
        """Return None to reject, True to skip the ops filters (damos_core_filter_out())."""
        filters = self._spec.core_filters
        for known in filters:
            if _core_match(known, regions, index, target, min_region) == known.matching:
                return True if known.allow else None
        if filters and not self.spec.ops_filters and filters[-1].allow:
            return None
        return False

    def retired(self) -> bool:
        """True if max_nr_snapshots is reached."""
        return 0 < self._spec.max_nr_snapshots <= self.stats.nr_snapshots


def _core_match(
    known: Filter, regions: list[Region], index: int, target: int, min_region: int
) -> bool:
    """True if a filter matches a region (damos_filter_match()).

    A region that crosses a border of the filter's range is split there.
    """
    if known.type is FilterType.target:
        return known.target_idx == target
    region = regions[index]
    start = known.addr.start // min_region * min_region
    end = known.addr.end // min_region * min_region
    if start <= region.start and region.end <= end:
        return True
    if region.end <= start or end <= region.start:
        return False
    if region.start < start:
        split_at(regions, index, start - region.start)
        return False
    split_at(regions, index, end - region.start)
    return True
