"""What a DAMON context is built from, as frozen values, and how the kernel series differ.

The sysfs tree makes these out of its files at `on` and `commit`; the running half of the
simulated kernel (kdamond, law, memory) takes them and never sees a file. Fields keep the
kernel's names. Whoever builds them has already checked what the kernel checks, so that a wrong
value here is a bug of ours and not of the user.
"""

from dataclasses import dataclass
from enum import StrEnum

PAGE_BYTES = 4096
UINT_MAX = 2**32 - 1
ULONG_MAX = 2**64 - 1


class Operations(StrEnum):
    """enum damon_ops_id. Only paddr moves anything here: a process has no memory of its own."""

    vaddr = "vaddr"
    fvaddr = "fvaddr"
    paddr = "paddr"


class Action(StrEnum):
    """enum damos_action, by its sysfs keyword."""

    willneed = "willneed"
    cold = "cold"
    pageout = "pageout"
    hugepage = "hugepage"
    nohugepage = "nohugepage"
    collapse = "collapse"
    lru_prio = "lru_prio"
    lru_deprio = "lru_deprio"
    migrate_hot = "migrate_hot"
    migrate_cold = "migrate_cold"
    stat = "stat"


class Metric(StrEnum):
    """enum damos_quota_goal_metric, by its sysfs keyword."""

    user_input = "user_input"
    some_mem_psi_us = "some_mem_psi_us"
    node_mem_used_bp = "node_mem_used_bp"
    node_mem_free_bp = "node_mem_free_bp"
    node_memcg_used_bp = "node_memcg_used_bp"
    node_memcg_free_bp = "node_memcg_free_bp"
    active_mem_bp = "active_mem_bp"
    inactive_mem_bp = "inactive_mem_bp"
    node_eligible_mem_bp = "node_eligible_mem_bp"


class Tuner(StrEnum):
    """enum damos_quota_goal_tuner, by its sysfs keyword."""

    consist = "consist"
    temporal = "temporal"


class FilterType(StrEnum):
    """enum damos_filter_type, by its sysfs keyword."""

    anon = "anon"
    active = "active"
    memcg = "memcg"
    young = "young"
    hugepage_size = "hugepage_size"
    unmapped = "unmapped"
    addr = "addr"
    target = "target"


class WatermarkMetric(StrEnum):
    """enum damos_wmark_metric, by its sysfs keyword."""

    none = "none"
    free_mem_rate = "free_mem_rate"


@dataclass(frozen=True, slots=True)
class Range:
    """Addresses from start up to, not including, end (in bytes, or in addr_unit units)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class IntervalsGoal:
    """struct damon_intervals_goal: aggrs 0 means that the intervals are not tuned."""

    access_bp: int = 0
    aggrs: int = 0
    min_sample_us: int = 0
    max_sample_us: int = 0


@dataclass(frozen=True, slots=True)
class Attrs:
    """struct damon_attrs."""

    sample_us: int = 5_000
    aggr_us: int = 100_000
    update_us: int = 60_000_000
    intervals_goal: IntervalsGoal = IntervalsGoal()
    min_nr_regions: int = 10
    max_nr_regions: int = 1000


@dataclass(frozen=True, slots=True)
class Target:
    """A monitoring target: `pid` for vaddr, initial regions for paddr and fvaddr."""

    regions: tuple[Range, ...] = ()
    pid: int = 0
    obsolete: bool = False


@dataclass(frozen=True, slots=True)
class AccessPattern:
    """struct damos_access_pattern; nr_accesses in samples, age in aggregation intervals.

    The sysfs files hold an unsigned long, the structure an unsigned int for the last four: the
    tree truncates them as the kernel does.
    """

    min_sz: int = 0
    max_sz: int = 0
    min_nr_accesses: int = 0
    max_nr_accesses: int = 0
    min_age: int = 0
    max_age: int = 0


@dataclass(frozen=True, slots=True)
class Goal:
    """struct damos_quota_goal. Goals of target_value 0 are dropped by the tree, as in sysfs."""

    metric: Metric
    target_value: int
    current_value: int = 0
    nid: int = 0
    path: str = ""


@dataclass(frozen=True, slots=True)
class Quota:
    """struct damos_quota, the part that is set from outside."""

    ms: int = 0
    bytes: int = 0
    reset_interval_ms: int = 0
    weight_sz: int = 0
    weight_nr_accesses: int = 0
    weight_age: int = 0
    goals: tuple[Goal, ...] = ()
    goal_tuner: Tuner = Tuner.consist
    fail_charge_num: int = 0
    fail_charge_denom: int = 0


@dataclass(frozen=True, slots=True)
class Watermarks:
    """struct damos_watermarks; permil of the whole system's memory that is free."""

    metric: WatermarkMetric = WatermarkMetric.none
    interval_us: int = 0
    high: int = 0
    mid: int = 0
    low: int = 0


@dataclass(frozen=True, slots=True)
class Filter:
    """struct damos_filter; what its type does not use stays at its default."""

    type: FilterType
    matching: bool = False
    allow: bool = False
    path: str = ""
    addr: Range = Range(0, 0)
    target_idx: int = 0
    min: int = 0
    max: int = 0


@dataclass(frozen=True, slots=True)
class Dest:
    """A weighted destination; paddr ignores them on every kernel up to 7.3."""

    id: int
    weight: int


@dataclass(frozen=True, slots=True)
class SchemeSpec:
    """struct damos, the part that is set from outside."""

    action: Action = Action.stat
    target_nid: int = -1
    pattern: AccessPattern = AccessPattern()
    apply_interval_us: int = 0
    quota: Quota = Quota()
    watermarks: Watermarks = Watermarks()
    core_filters: tuple[Filter, ...] = ()
    ops_filters: tuple[Filter, ...] = ()
    dests: tuple[Dest, ...] = ()
    max_nr_snapshots: int = 0


@dataclass(frozen=True, slots=True)
class Probe:
    """struct damon_probe: whether a page passes its filters is counted per sample."""

    filters: tuple[Filter, ...] = ()
    weight: int = 0


@dataclass(frozen=True, slots=True)
class ContextSpec:
    """struct damon_ctx, the part that is set from outside."""

    operations: Operations = Operations.paddr
    addr_unit: int = 1
    pause: bool = False
    attrs: Attrs = Attrs()
    targets: tuple[Target, ...] = ()
    schemes: tuple[SchemeSpec, ...] = ()
    probes: tuple[Probe, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemeStats:
    """struct damos_stat: what update_schemes_stats copies into the files."""

    nr_tried: int = 0
    sz_tried: int = 0
    nr_applied: int = 0
    sz_applied: int = 0
    sz_ops_filter_passed: int = 0
    qt_exceeds: int = 0
    nr_snapshots: int = 0


@dataclass(frozen=True, slots=True)
class TriedRegion:
    """A region that a scheme would have been applied to, quota aside."""

    start: int
    end: int
    nr_accesses: int
    age: int
    sz_filter_passed: int = 0
    probe_hits: tuple[int, ...] = ()


class Serves(StrEnum):
    """When a kdamond turns to what a writer of `state` has asked of it."""

    sample = "sample"  # damon_call(): once per sampling interval (6.14 and later)
    callback = "callback"  # damon_callback hooks: after a sample; commit after an aggregation


class Fallback(StrEnum):
    """Where a page is copied to when the target of its migration is full.

    The source is among "anywhere": the copy is in place, and counts as migrated.
    """

    nowhere = "nowhere"  # damon_migrate_folio_list() with __GFP_THISNODE (7.3)
    # alloc_migrate_folio() forgets the caller's empty node mask in its first success: whatever
    # comes later in the same call finds room anywhere (6.12, 6.16).
    anywhere_after_success = "anywhere after success"
    anywhere = "anywhere"  # without __GFP_THISNODE (6.17 to 7.2)


@dataclass(frozen=True, slots=True)
class Quirks:
    """What a series does differently. The defaults are the newest kernel's behaviour (7.3)."""

    # --- Quotas.
    # damos_adjust_quota(): the first charge window only gets its start, its quota stays 0.
    first_window_unlimited: bool = False
    # A quota of 0 is no limit ("quota->esz &&"), rather than damos_quota_is_set() and full.
    zero_quota_unlimited: bool = False
    # damos_adjust_quota() returns at once when nothing limits the scheme any more, and leaves
    # the last effective quota and what was charged against it for ever.
    unlimited_freezes: bool = False
    # damos_quota_is_full(): less than a minimum region left is full. Without it such a rest is
    # "tried" with regions of size 0, and qt_exceeds misses it.
    full_below_min_region: bool = True
    # damos_set_effective_quota(): a time quota lifts goals to a minimum region, not itself only.
    time_quota_floor_last: bool = False
    # damos_charge_quota(): quota->fail_charge_{num,denom} are known.
    fail_charge: bool = True
    # quota->goal_tuner is known.
    temporal: bool = True
    # Nodes that do not exist read as used 0, free 10000 (invalid_mem_node()).
    invalid_node_checked: bool = True

    # --- The walk over regions that applies schemes.
    # damos_skip_charged_region(): the last region of the target is skipped, and ends a resume.
    skips_last_region: bool = False
    # damos_apply_target(): what a quota splits off is visited in the same walk, and slices that
    # lost nothing are merged back at once. Without it they wait for the next.
    live_walk: bool = True
    # damon_pa_stat(): ops filters are asked for action stat too (6.14).
    stat_runs_filters: bool = True

    # --- Regions.
    # damon_apply_min_nr_regions(): regions above the size limit are split, not only never made.
    splits_to_min_nr_regions: bool = True
    # damon_split_some_regions(): some are still split above half of max_nr_regions (7.3).
    splits_when_crowded: bool = True
    # Going to or from no access at all resets the age, whatever the threshold.
    zero_resets_age: bool = True
    # kdamond_merge_regions() counts the age once, not at each retry for max_nr_regions.
    age_counted_once: bool = True
    # damon_nr_accesses_mvsum() in place of damon_moving_sum() (7.3).
    moving_by_window: bool = True

    # --- Migration.
    # damon_migrate_pages() forgets what it was given for a node that is not there: the pages are
    # on no list any more, and stay where they are until they are freed (6.16, 6.18).
    isolated_for_good: bool = False
    # Where a page goes that the target has no room for.
    fallback: Fallback = Fallback.nowhere

    # --- Commands.
    # Commands go through damon_call() or through the older damon_callback.
    serves: Serves = Serves.sample
    # damon_commit_ctx() calls damon_set_attrs() even for equal attributes: apply timers restart.
    attrs_reset_on_commit: bool = False
    # ... and damon_set_attrs() throws the running aggregation away as well.
    aggregation_reset_on_commit: bool = True
    # damos_commit_quota_goals() does not copy the current value of a goal that is new.
    new_goal_value_lost: bool = False
    # damon_sysfs_new_test_ctx(): the context that a commit is tried on is made by
    # damon_new_scheme(), which initialises the quota it was given instead of its copy: that of the
    # running scheme.
    quota_forgotten_on_commit: bool = False
    # kdamond_tune_intervals() exists (6.15).
    intervals_goal: bool = True
    # refresh_ms: one timer for all kdamonds instead of one each.
    refresh_shared: bool = False
    # ctx->pause is known (7.2).
    pause: bool = True
