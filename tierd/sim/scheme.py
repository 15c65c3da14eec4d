"""A running scheme: its quota, its statistics, and what of a region it takes.

Follows damos_adjust_quota(), damos_skip_charged_region() and damos_apply_scheme(); where the
series differ, `Quirks` says so.
"""

from dataclasses import dataclass, replace
from random import Random

from tierd.sim import law
from tierd.sim.memory import Memory
from tierd.sim.paddr import apply_action
from tierd.sim.regions import Region, split_at
from tierd.sim.spec import (
    Action,
    Attrs,
    Filter,
    FilterType,
    Goal,
    Metric,
    Quirks,
    Quota,
    SchemeSpec,
    SchemeStats,
    TriedRegion,
    Tuner,
)

# CONFIG_HZ of Debian's kernels: charge windows are counted in jiffies, and the coarse clock that
# time quotas are measured with moves at each.
JIFFY_US = 4_000

_COLD_FIRST = frozenset({Action.pageout, Action.lru_deprio, Action.migrate_cold})
_HOT_FIRST = frozenset({Action.lru_prio, Action.migrate_hot})


@dataclass(slots=True)
class Moment:
    """What a scheme needs to know of its context while it is applied."""

    memory: Memory
    rng: Random
    quirks: Quirks
    attrs: Attrs
    now_us: int
    addr_unit: int
    min_region: int
    targets: list[list[Region]]
    work_ns: int = 0

    @property
    def max_nr_accesses(self) -> int:
        """damon_max_nr_accesses()."""
        return max(1, self.attrs.aggr_us // max(1, self.attrs.sample_us))


@dataclass(slots=True)
class Charge:
    """struct damos_quota, the part that the kernel keeps."""

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
    """struct damos."""

    def __init__(self, spec: SchemeSpec, quirks: Quirks) -> None:
        self.spec = spec
        self.quirks = quirks
        self.stats = SchemeStats()
        self.charge = Charge()
        self.next_apply_sis = 0
        self.activated = True
        self.walked: list[TriedRegion] | None = None  # being recorded for a request
        self.walk_done = False
        self._current = [goal.current_value for goal in spec.quota.goals]

    def commit(self, spec: SchemeSpec) -> None:
        """damos_commit(): parameters change, what was counted stays."""
        if self.quirks.quota_forgotten_on_commit:
            self.charge = Charge(min_score=self.charge.min_score)
        self.commit_goals(spec)
        self.spec = spec
        self.activated = True

    def commit_goals(self, spec: SchemeSpec) -> None:
        """damos_commit_quota_goals(): goals are matched by index."""
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
        """Whether any quota holds now."""
        quota = self.spec.quota
        if self.quirks.zero_quota_unlimited:
            return self.charge.esz > 0
        return bool(self.charge.esz or quota.bytes or quota.ms or quota.goals)

    def full(self, min_region: int) -> bool:
        """damos_quota_is_full()."""
        if not self.limited():
            return False
        left = self.charge.esz - self.charge.charged
        return left < min_region if self.quirks.full_below_min_region else left <= 0

    def adjust_quota(self, moment: Moment) -> None:
        """damos_adjust_quota(): a new charge window if it is time, and the scores' cut."""
        quota, charge = self.spec.quota, self.charge
        set_from_outside = bool(quota.bytes or quota.ms or quota.goals)
        if not set_from_outside and (self.quirks.unlimited_freezes or not charge.esz):
            return
        now = moment.now_us // JIFFY_US + 1
        if not charge.total and charge.from_jiffies is None:
            charge.from_jiffies = now
            if not self.quirks.first_window_unlimited:
                self._set_effective(moment)
        window = -(-quota.reset_interval_ms * 1000 // JIFFY_US)
        if charge.from_jiffies is None or now - charge.from_jiffies >= window:
            if self.full(moment.min_region):
                self._count(qt_exceeds=1)
            charge.total += charge.charged
            charge.from_jiffies = now
            charge.charged = 0
            self._set_effective(moment)
        self._set_min_score(moment)

    def _set_effective(self, moment: Moment) -> None:
        quota, charge = self._known_quota(), self.charge
        if quota.goals:
            charge.esz_bp = law.next_esz_bp(quota, charge.esz_bp, self._score(moment))
        charge.esz = law.effective_bytes(
            quota,
            charge.esz_bp,
            charge.total,
            charge.total_ns,
            moment.min_region,
            floor_last=self.quirks.time_quota_floor_last,
        )

    def _known_quota(self) -> Quota:
        """The quota without what this series has no field for."""
        quota = self.spec.quota
        if not self.quirks.temporal:
            quota = replace(quota, goal_tuner=Tuner.consist)
        if not self.quirks.fail_charge:
            quota = replace(quota, fail_charge_denom=0)
        return quota

    def _score(self, moment: Moment) -> int:
        goals = self.spec.quota.goals
        for index, goal in enumerate(goals):
            if goal.metric is not Metric.user_input:
                self._current[index] = self._measured(goal, moment)
        return law.quota_score(
            replace(goal, current_value=current)
            for goal, current in zip(goals, self._current, strict=True)
        )

    def _measured(self, goal: Goal, moment: Moment) -> int:
        memory = moment.memory
        if goal.metric is Metric.node_eligible_mem_bp:
            return self._eligible_bp(goal.nid, moment)
        if goal.metric in (Metric.active_mem_bp, Metric.inactive_mem_bp):
            return memory.active_bp(active=goal.metric is Metric.active_mem_bp)
        if goal.metric is Metric.some_mem_psi_us:
            return 0  # nothing ever waits for memory here
        used = goal.metric in (Metric.node_mem_used_bp, Metric.node_memcg_used_bp)
        total = memory.managed_pages(goal.nid) if goal.nid in memory.nodes else 0
        if not total:
            return 0 if used else 10_000
        if goal.metric in (Metric.node_mem_used_bp, Metric.node_mem_free_bp):
            used_pages = total - memory.free_pages(goal.nid)
        else:
            used_pages = memory.cgroup_pages(goal.path, goal.nid)
        return (used_pages if used else total - used_pages) * 10_000 // total

    def _eligible_bp(self, nid: int, moment: Moment) -> int:
        here = total = 0
        for regions in moment.targets:
            for region in regions:
                if self.fits(region):
                    pages = moment.memory.lru_pages(
                        region.start * moment.addr_unit, region.end * moment.addr_unit
                    )
                    total += sum(pages.values())
                    here += pages.get(nid, 0)
        return here * 10_000 // total if total else 0

    def _set_min_score(self, moment: Moment) -> None:
        histogram = [0] * (law.MAX_SCORE + 1)
        for regions in moment.targets:
            for region in regions:
                if self.fits(region):
                    histogram[self.score(region, moment)] += region.size()
        self.charge.min_score = law.min_score(histogram, self.charge.esz)

    # Regions.

    def fits(self, region: Region) -> bool:
        """__damos_valid_target(): whether the region is of the scheme's access pattern."""
        pattern = self.spec.pattern
        return (
            pattern.min_sz <= region.end - region.start <= pattern.max_sz
            and pattern.min_age <= region.age <= pattern.max_age
            and pattern.min_nr_accesses <= region.moving <= pattern.max_nr_accesses
        )

    def score(self, region: Region, moment: Moment) -> int:
        """damon_pa_scheme_score()."""
        action = self.spec.action
        if action not in _COLD_FIRST and action not in _HOT_FIRST:
            return law.MAX_SCORE
        rate = law.cold_score if action in _COLD_FIRST else law.hot_score
        return rate(
            region.moving,
            region.age,
            moment.max_nr_accesses,
            moment.attrs.aggr_us,
            self.spec.quota,
        )

    def wants(self, region: Region, moment: Moment) -> bool:
        """damos_valid_target(): the pattern, and under a quota the score."""
        if not self.fits(region):
            return False
        return not self.limited() or self.score(region, moment) >= self.charge.min_score

    def skips(self, regions: list[Region], index: int, target: int, min_region: int) -> int | None:
        """damos_skip_charged_region(): None to skip the region, or the index to apply to.

        The walk of the window before stopped at `resume_at`; what comes before it waits. The older
        rule goes on in what a border splits off, the newer leaves that to the walk.
        """
        charge = self.charge
        if charge.resume_target is None:
            return index
        if target != charge.resume_target:
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
        region, at = regions[index], self.charge.resume_at
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
        region, at = regions[index], self.charge.resume_at
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
        self.charge.resume_target = None
        self.charge.resume_at = 0

    def forget_target(self, target: int) -> None:
        """The target is gone: a walk cannot go on in it."""
        if self.charge.resume_target == target:
            self._forget_resume()

    # The action.

    def apply(self, regions: list[Region], index: int, target: int, moment: Moment) -> None:
        """damos_apply_scheme(): as much of the region as the quota still allows."""
        region, charge = regions[index], self.charge
        size = region.size()
        if self.limited() and charge.charged + size > charge.esz:
            size = (charge.esz - charge.charged) // moment.min_region * moment.min_region
            if size <= 0:
                self._count(nr_tried=1)
                return
            split_at(regions, index, size)
        allowed = self._core_filters(regions, index, target, moment.min_region)
        if allowed is None:
            return
        size = region.size()
        accesses = region.moving
        done = apply_action(
            moment.memory,
            self.spec,
            region,
            moment.addr_unit,
            moment.now_us,
            ask_ops_filters=not allowed
            and (self.spec.action is not Action.stat or self.quirks.stat_runs_filters),
            quirks=self.quirks,
        )
        applied = done.applied_bytes // moment.addr_unit
        passed = done.passed_bytes // moment.addr_unit
        if self.walked is not None and not self.walk_done:
            self.walked.append(TriedRegion(region.start, region.end, accesses, region.age, passed))
        moment.work_ns += done.work_ns
        charge.total_ns += _coarse_ns(done.work_ns, moment.rng)
        charge.charged += law.charge(self._known_quota(), size, applied)
        if self.full(moment.min_region):
            charge.resume_target = target
            charge.resume_at = region.end
        if self.spec.action is not Action.stat:
            region.age = 0
        self._count(
            nr_tried=1,
            sz_tried=size,
            nr_applied=1 if applied else 0,
            sz_applied=applied,
            sz_ops_filter_passed=passed,
        )

    def _core_filters(
        self, regions: list[Region], index: int, target: int, min_region: int
    ) -> bool | None:
        """damos_core_filter_out(): None is out; True is in, whatever the ops filters say."""
        filters = self.spec.core_filters
        for known in filters:
            if _core_match(known, regions, index, target, min_region) == known.matching:
                return True if known.allow else None
        if filters and not self.spec.ops_filters and filters[-1].allow:
            return None
        return False

    def snapshot_done(self) -> None:
        """A walk came to the last region unskipped."""
        self._count(nr_snapshots=1)

    def retired(self) -> bool:
        """Whether max_nr_snapshots is reached."""
        return 0 < self.spec.max_nr_snapshots <= self.stats.nr_snapshots

    def _count(self, **more: int) -> None:
        stats = self.stats
        self.stats = replace(stats, **{k: getattr(stats, k) + v for k, v in more.items()})


def _coarse_ns(work_ns: int, rng: Random) -> int:
    """What a clock that moves once a jiffy says: mostly nothing, rarely a whole jiffy."""
    whole, rest = divmod(work_ns, JIFFY_US * 1000)
    return (whole + (rng.random() * JIFFY_US * 1000 < rest)) * JIFFY_US * 1000


def _core_match(
    known: Filter, regions: list[Region], index: int, target: int, min_region: int
) -> bool:
    """damos_filter_match(): a region across a border of the range is split there."""
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
