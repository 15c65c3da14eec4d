"""A kdamond: kdamond_fn() in virtual time.

The thread sleeps until `wake_us`. `wake()` does what is due then and sets the next time. The
thread sleeps through the samples at which nothing can happen, and then computes the accesses of
all these samples at once, with random numbers. Commands that were written to `state` are carried
out where the kernel does it: after the merge of regions, and before schemes are applied. The older
kernels (Serves.callback) do it after a sample, and a commit only when an aggregation is complete.
"""

from collections.abc import Callable
from itertools import takewhile
from random import Random

from tierd.frozen import replace
from tierd.sim import kernel_math
from tierd.sim.context_spec import (
    Attrs,
    ContextSpec,
    Operations,
    SchemeSpec,
    SchemeStats,
    TriedRegion,
    WatermarkMetric,
)
from tierd.sim.jiffies import JIFFY_US
from tierd.sim.memory import Memory
from tierd.sim.monitoring_targets import MonitoringTargets
from tierd.sim.quirks import KdamondQuirks, Serves
from tierd.sim.regions import Region, Sampler
from tierd.sim.scheme import ApplyContext, Scheme

# usleep_range() up to here, then jiffies (kdamond_usleep()).
_USLEEP_MAX_US = 20_000
# The time that a sample takes besides its sleep: to wake up, and half a microsecond per region.
_WAKE_US = 50
_REGIONS_PER_US = 2


class Kdamond:
    """One kernel thread and its context, from damon_start() on."""

    def __init__(
        self,
        spec: ContextSpec,
        quirks: KdamondQuirks,
        memory: Memory,
        pid: int,
        now_us: int,
        rng: Random,
        has_process: Callable[[int], bool] = lambda _pid: True,
    ) -> None:
        self.pid = pid
        self._has_process = has_process
        self.spec = spec
        self.quirks = quirks
        self.alive = True
        self.cpu_us = 0
        """The processor time that it has used: for its samples, and for its schemes."""
        self._memory = memory
        self._rng = rng
        self._sampler = Sampler(memory, rng)
        self._attrs = spec.attrs
        self._aggr_samples = spec.attrs.aggr_us // max(1, spec.attrs.sample_us)
        self._passed = 0
        self._next_aggregation = self._window()
        self._next_update = spec.attrs.update_us // max(1, spec.attrs.sample_us)
        self._next_tune = self._next_aggregation * spec.attrs.intervals_goal.aggrs
        self._window_start = 0  # the sample at which the running aggregation began
        self._calls: list[tuple[bool, Callable[[], None]]] = []
        self._walk: Callable[[bool], None] | None = None
        self._tried: tuple[tuple[TriedRegion, ...], ...] = ()
        self._deactivated = False
        self._targets = MonitoringTargets(
            spec.targets,
            quirks,
            rng,
            min_region=self._min_region(),
            min_nr_regions=spec.attrs.min_nr_regions,
        )
        self._schemes = [Scheme(scheme, quirks) for scheme in spec.schemes]
        for scheme in self._schemes:
            self._set_next_apply(scheme)
        self._sleep(now_us)

    # Results, for the files.

    def stats(self) -> tuple[SchemeStats, ...]:
        """Return the counters of each scheme."""
        return tuple(replace(scheme.stats) for scheme in self._schemes)

    def effective_bytes(self) -> tuple[int, ...]:
        """Return the effective quota of each scheme, in bytes."""
        return tuple(scheme.quota_state.esz for scheme in self._schemes)

    def tuned_intervals(self) -> tuple[int, int]:
        """Return sample_us and aggr_us as they are in use now."""
        return self._attrs.sample_us, self._attrs.aggr_us

    def tried_regions(self) -> tuple[tuple[TriedRegion, ...], ...]:
        """Return the regions that each scheme tried in the last complete walk."""
        return self._tried

    def tried_bytes(self) -> tuple[int, ...]:
        """Return the bytes that each scheme tried in the last complete walk."""
        return tuple(
            sum(region.end - region.start for region in regions) for regions in self._tried
        )

    def regions(self) -> tuple[tuple[TriedRegion, ...], ...]:
        """Return all regions of all targets, with the accesses of the last aggregation."""
        return tuple(
            tuple(
                TriedRegion(region.start, region.end, region.last_nr_accesses, region.age)
                for region in regions
            )
            for regions in self._targets.lists
        )

    # Requests, from the scheduler.

    def call(self, served: Callable[[], None], *, commits: bool, now_us: int) -> None:
        """Call `served` when the thread serves requests the next time (damon_call())."""
        self._calls.append((commits, served))
        self._hurry(now_us)

    def walk(self, finished: Callable[[bool], None], now_us: int) -> None:
        """Record the regions that each scheme tries in its next apply interval (damos_walk())."""
        if not self._schemes or self._deactivated or self._paused():
            finished(False)
            return
        for scheme in self._schemes:
            scheme.walked, scheme.walk_done = [], False
        self._walk = finished
        self._hurry(now_us)

    def end(self) -> None:
        """End the thread. Its counters stay readable."""
        self.alive = False
        self._calls.clear()
        self._finish_walk(done=False)

    def commit(self, spec: ContextSpec) -> None:
        """Take over a new context (damon_commit_ctx()), while a request of call() is served."""
        self.spec = spec
        self._commit_schemes(spec.schemes)
        self._targets.min_region = self._min_region()
        for index in self._targets.commit(spec.targets):
            for scheme in self._schemes:
                scheme.forget_target(index)
        if self.quirks.attrs_reset_on_commit or spec.attrs != self._attrs:
            self._set_attrs(
                spec.attrs,
                spec.attrs.aggr_us // max(1, spec.attrs.sample_us),
                restart=self.quirks.aggregation_reset_on_commit,
            )

    def commit_goals(self, spec: ContextSpec) -> None:
        """Change only the goals, matched by index (damos_sysfs_set_quota_scores())."""
        for scheme, known in zip(self._schemes, spec.schemes, strict=False):
            scheme.commit_goals(known)

    # The loop.

    def wake(self) -> int:
        """Do what is due at wake_us and sleep again. Return how many nanoseconds it worked."""
        now_us = self.wake_us
        if self._needs_stop():
            self.end()
            return 0
        if self._deactivated or self._paused():
            self._serve(after_aggregation=True)
            self._finish_walk(done=False)
            if self.alive:
                self._sleep(now_us)
            return 0
        self._sample(self._sleep_from_us, now_us)
        aggregated = self._passed >= self._next_aggregation
        next_aggregation = self._next_aggregation
        if aggregated:
            self._targets.merge(self._window(), self._attrs.max_nr_regions)
        self._serve(after_aggregation=aggregated)
        work_ns = 0
        if self.alive and not self._paused():
            work_ns = self._apply_schemes(now_us)
            self.cpu_us += work_ns // 1000
        if aggregated and self.alive and not self._paused():
            self._end_aggregation(next_aggregation)
        if self._passed >= self._next_update:
            self._next_update = self._passed + self._samples(self._attrs.update_us)
            self._targets.update_limit()
        if self.quirks.serves is Serves.callback:
            self._serve(after_aggregation=False)
        if self.alive:
            self._sleep(now_us + work_ns // 1000)
        return work_ns

    def _sleep(self, now_us: int) -> None:
        """Sleep until something can happen, or for the interval of the watermarks."""
        if self._needs_stop():
            self.wake_us = now_us + _WAKE_US
            return
        # The shortest wait is 0 if any scheme should run (kdamond_wait_activation()).
        wait_us = min([self._scheme_wait_us(scheme) for scheme in self._schemes], default=0)
        self._deactivated = wait_us > 0
        self._sleep_from_us = now_us
        if self._deactivated:
            self.wake_us = now_us + _slept_us(wait_us)
            return
        if self._paused() or self._calls:
            samples = 1
        else:
            due = [self._next_aggregation]
            due += [scheme.next_apply_sis for scheme in self._schemes if scheme.activated]
            samples = max(1, min(due) - self._passed)
        self.wake_us = now_us + samples * self._period_us()

    def _hurry(self, now_us: int) -> None:
        """Wake at the next sample, because a writer is waiting."""
        if self._deactivated:
            return
        period_us = self._period_us()
        slept = max(0, now_us - self._sleep_from_us) // period_us
        self.wake_us = min(self.wake_us, self._sleep_from_us + (slept + 1) * period_us)

    def _period_us(self) -> int:
        work_us = _WAKE_US + len(self._targets) // _REGIONS_PER_US
        return _slept_us(self._attrs.sample_us) + work_us

    def _sample(self, from_us: int, now_us: int) -> None:
        samples = (now_us - from_us) // self._period_us()
        self._passed += samples
        self.cpu_us += samples * len(self._targets) // _REGIONS_PER_US
        if any(probe.weight for probe in self.spec.probes):
            return  # 7.3: weighted probes replace the access checks
        self._targets.sample(self._sampler, samples, self._attrs.sample_us, self.spec.addr_unit)

    def _end_aggregation(self, next_aggregation: int) -> None:
        if (
            self._attrs.intervals_goal.aggrs
            and self.quirks.intervals_goal
            and self._passed >= self._next_tune
        ):
            self._next_aggregation = next_aggregation
            self._next_tune += self._aggr_samples * self._attrs.intervals_goal.aggrs
            self._tune_intervals()
        self._next_aggregation = next_aggregation + self._window()
        self._window_start = self._passed
        self._targets.reset_aggregated()
        self._targets.split(self._attrs.max_nr_regions)

    # Schemes.

    def _apply_schemes(self, now_us: int) -> int:
        """Apply the schemes that are due (kdamond_apply_schemes()). Return the work in ns."""
        due = [scheme for scheme in self._schemes if self._passed >= scheme.next_apply_sis]
        active = [scheme for scheme in due if scheme.activated]
        if not active:
            return 0
        self._targets.set_moving(self._passed - self._window_start, self._window())
        apply_context = ApplyContext(
            memory=self._memory,
            rng=self._rng,
            quirks=self.quirks,
            attrs=self._attrs,
            now_us=now_us,
            addr_unit=self.spec.addr_unit,
            min_region=self._min_region(),
            targets=self._targets.lists,
        )
        for scheme in active:
            scheme.adjust_quota(apply_context)
        limit = self._targets.size_limit()
        for target, regions in enumerate(self._targets.lists):
            self._apply_target(active, regions, target, apply_context, limit)
        for scheme in due:
            self._set_next_apply(scheme)
            scheme.walk_done = True
        if self._walk and all(scheme.walk_done for scheme in self._schemes):
            self._finish_walk(done=True)
        return apply_context.work_ns

    def _apply_target(
        self,
        schemes: list[Scheme],
        regions: list[Region],
        target: int,
        apply_context: ApplyContext,
        limit: int,
    ) -> None:
        """Apply schemes to each region of a target (damos_apply_target()).

        The older walk does not visit the regions that a split adds.
        """
        counting = list(takewhile(lambda scheme: scheme.only_counts, schemes))
        acting = schemes[len(counting) :]
        for scheme in counting:
            scheme.count(regions, apply_context.rng, ends=bool(regions))
        index = 0
        fresh = 0  # how many of the next regions were made by a split, and are not counted yet
        while index < len(regions):
            if not fresh and all(scheme.full(apply_context.min_region) for scheme in acting):
                break
            before = len(regions)
            if fresh:
                region, is_last = regions[index], index == before - 1
                for scheme in counting:
                    scheme.count_one(region, apply_context.rng, is_last=is_last)
            at = index  # damon_do_apply_schemes(): a scheme can split the region
            for scheme in acting:
                at = scheme.visit(regions, at, target, apply_context)
            made = len(regions) - before
            if not self.quirks.live_walk:
                index += 1 + made
                continue
            fresh = max(0, fresh - 1) + made
            merges = self.quirks.merges_slices and index > 0
            if merges and _sameness(regions[index - 1], regions[index], limit):
                regions[index - 1].end = regions[index].end
                del regions[index]
            else:
                index += 1
        if self.quirks.live_walk and self.quirks.merges_slices:
            _merge_slices(regions, index, limit)

    def _set_next_apply(self, scheme: Scheme) -> None:
        interval_us = scheme.spec.apply_interval_us or self._attrs.aggr_us
        scheme.next_apply_sis = self._passed + self._samples(interval_us)

    def _finish_walk(self, *, done: bool) -> None:
        if self._walk is None:
            return
        if done:
            self._tried = tuple(tuple(scheme.walked or ()) for scheme in self._schemes)
        finished, self._walk = self._walk, None
        for scheme in self._schemes:
            scheme.walked = None
        finished(done)

    # Requests and parameters.

    def _serve(self, *, after_aggregation: bool) -> None:
        older = self.quirks.serves is Serves.callback
        waiting, self._calls = self._calls, []
        for commits, served in waiting:
            if older and commits and not after_aggregation:
                self._calls.append((commits, served))
            else:
                served()

    def _needs_stop(self) -> bool:
        """True if this is vaddr and all its target processes have ended (kdamond_need_stop())."""
        return self.spec.operations is Operations.vaddr and not any(
            self._has_process(target.pid) for target in self.spec.targets
        )

    def _paused(self) -> bool:
        return self.quirks.pause and self.spec.pause

    def _commit_schemes(self, specs: tuple[SchemeSpec, ...]) -> None:
        """Change schemes by index, remove surplus, add new ones (damon_commit_schemes())."""
        del self._schemes[len(specs) :]
        for scheme, known in zip(self._schemes, specs, strict=False):
            scheme.commit(known)
        for known in specs[len(self._schemes) :]:
            new = Scheme(known, self.quirks)
            self._set_next_apply(new)
            self._schemes.append(new)

    def _set_attrs(self, attrs: Attrs, aggr_samples: int, *, restart: bool) -> None:
        """Set the intervals, rescale the results and restart the timers (damon_set_attrs())."""
        aggregating = restart and self._passed < self._next_aggregation
        old = (self._window(), self._attrs.aggr_us)
        self._attrs = attrs
        self._targets.min_nr_regions = attrs.min_nr_regions
        self._targets.rescale(old, (self._window(), attrs.aggr_us), aggregating=aggregating)
        self._aggr_samples = aggr_samples
        self._next_aggregation = self._passed + self._window()
        self._next_update = self._passed + self._samples(attrs.update_us)
        if aggregating:
            self._window_start = self._passed
        for scheme in self._schemes:
            self._set_next_apply(scheme)

    def _tune_intervals(self) -> None:
        """Change the intervals by how many accesses were seen (kdamond_tune_intervals())."""
        goal = self._attrs.intervals_goal
        possible = sum(region.size() for region in self._targets) * self._aggr_samples
        events = sum(region.size() * region.nr_accesses for region in self._targets)
        adaptation = kernel_math.adaptation_bp(events, possible, goal.access_bp)
        if adaptation == 10_000:
            return
        sample_us = min(goal.max_sample_us, self._attrs.sample_us * adaptation // 10_000)
        sample_us = max(goal.min_sample_us, sample_us)
        attrs = replace(self._attrs, sample_us=sample_us, aggr_us=sample_us * self._aggr_samples)
        self._set_attrs(attrs, self._aggr_samples, restart=True)

    def _window(self) -> int:
        """Return the number of samples per aggregation (damon_max_nr_accesses())."""
        return max(1, self._attrs.aggr_us // max(1, self._attrs.sample_us))

    def _samples(self, interval_us: int) -> int:
        return interval_us // max(1, self._attrs.sample_us)

    def _min_region(self) -> int:
        return max(1, self._memory.page_bytes // self.spec.addr_unit)

    def _scheme_wait_us(self, scheme: Scheme) -> int:
        """Turn a scheme on or off by its watermarks; return its wait (damos_wmark_wait_us())."""
        marks = scheme.spec.watermarks
        if marks.metric is WatermarkMetric.none:
            return 0
        free = self._memory.free_permil()
        if free > marks.high or marks.low > free:
            scheme.activated = False
            return marks.interval_us
        if free >= marks.mid and not scheme.activated:
            return marks.interval_us
        scheme.activated = True
        return 0


def _slept_us(wanted_us: int) -> int:
    """Return how long a sleep really takes (kdamond_usleep()).

    20 ms and more are rounded up to jiffies, and a jiffy is added.
    """
    if wanted_us < _USLEEP_MAX_US:
        return max(1, wanted_us)
    return (-(-wanted_us // JIFFY_US) + 1) * JIFFY_US


def _merge_slices(regions: list[Region], index: int, limit: int) -> None:
    """Merge each region from `index` on with the one before it, if both are the same."""
    kept = regions[: max(1, index)]
    for region in regions[max(1, index) :]:
        if _sameness(kept[-1], region, limit):
            kept[-1].end = region.end
        else:
            kept.append(region)
    regions[:] = kept


def _sameness(left: Region, right: Region, limit: int) -> bool:
    """True if two regions are neighbours with equal counts and age, and not too large together."""
    return (
        left.end == right.start
        and left.age == right.age
        and left.last_nr_accesses == right.last_nr_accesses
        and left.nr_accesses == right.nr_accesses
        and right.end - left.start <= limit
    )
