"""The parameters of a DAMON context, as frozen values.

context_builder.py makes these values from the files at `on` and `commit`. The rest of the simulated
kernel (kdamond, scheme, memory) takes them and never sees a file. Fields have the kernel's names.
The builder has made all checks of the kernel, so that a wrong value here is a mistake of the
simulation and not of its user.
"""

from enum import StrEnum

from tierd.frozen import dataclass

UINT_MAX = 2**32 - 1
ULONG_MAX = 2**64 - 1


class Operations(StrEnum):
    """enum damon_ops_id. Simulated processes have no memory, so only paddr sees any."""

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
    """Addresses from `start` to `end`, `end` not included, in bytes or in addr_unit units."""

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
    """A monitoring target: a pid for vaddr, initial regions for paddr and fvaddr."""

    regions: tuple[Range, ...] = ()
    pid: int = 0
    obsolete: bool = False


@dataclass(frozen=True, slots=True)
class AccessPattern:
    """struct damos_access_pattern; nr_accesses in samples, age in aggregation intervals.

    The last four are unsigned long in the files but unsigned int in the structure:
    context_builder.py truncates them as the kernel does.
    """

    min_sz: int = 0
    max_sz: int = 0
    min_nr_accesses: int = 0
    max_nr_accesses: int = 0
    min_age: int = 0
    max_age: int = 0


@dataclass(frozen=True, slots=True)
class Goal:
    """struct damos_quota_goal. The target_value is never 0: the builder skips such goals."""

    metric: Metric
    target_value: int
    current_value: int = 0
    nid: int = 0
    path: str = ""


@dataclass(frozen=True, slots=True)
class Quota:
    """The part of struct damos_quota that users set."""

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
    """struct damos_watermarks; the marks are the free part of all memory, in permil."""

    metric: WatermarkMetric = WatermarkMetric.none
    interval_us: int = 0
    high: int = 0
    mid: int = 0
    low: int = 0


@dataclass(frozen=True, slots=True)
class Filter:
    """struct damos_filter; fields that its type does not use keep their defaults."""

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
    """The part of struct damos that users set."""

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
    """struct damon_probe: each sample counts whether the page passes the filters."""

    filters: tuple[Filter, ...] = ()
    weight: int = 0


@dataclass(frozen=True, slots=True)
class ContextSpec:
    """The part of struct damon_ctx that users set."""

    operations: Operations = Operations.paddr
    addr_unit: int = 1
    pause: bool = False
    attrs: Attrs = Attrs()
    targets: tuple[Target, ...] = ()
    schemes: tuple[SchemeSpec, ...] = ()
    probes: tuple[Probe, ...] = ()


@dataclass(slots=True)
class SchemeStats:
    """struct damos_stat: the values that update_schemes_stats copies into the files."""

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
