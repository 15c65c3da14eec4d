"""Builds a DAMON context from the staged values, or refuses it as damon_sysfs_apply_inputs() does.

The checks are in the kernel's order, because the first one that fails gives the errno. Every error
in a scheme is ENOMEM: damon_sysfs_mk_scheme() returns NULL in each case.
"""

from collections.abc import Callable, Iterable
from errno import EINVAL, ENOMEM
from itertools import pairwise

from tierd.frozen import dataclass
from tierd.sim.context_spec import (
    UINT_MAX,
    AccessPattern,
    Action,
    Attrs,
    ContextSpec,
    Dest,
    Filter,
    FilterType,
    Goal,
    IntervalsGoal,
    Metric,
    Operations,
    Probe,
    Quota,
    Range,
    SchemeSpec,
    Target,
    Tuner,
    WatermarkMetric,
    Watermarks,
)
from tierd.sim.damon_directory import CORE_FILTERS, number, objects, staged
from tierd.sim.file_tree import Directory, Refused
from tierd.sim.kernel_series import KernelSeries

_MIN_NR_REGIONS = 3
_U8_MAX = 255
_MEMCG_METRICS = {Metric.node_memcg_used_bp, Metric.node_memcg_free_bp}
_NODE_METRICS = {Metric.node_mem_used_bp, Metric.node_mem_free_bp, Metric.node_eligible_mem_bp}


@dataclass(frozen=True, slots=True)
class Lookup:
    """What the checks of a context ask of the machine."""

    page_bytes: int
    has_cgroup: Callable[[str], bool]
    has_process: Callable[[int], bool]


def build(folder: Directory, series: KernelSeries, lookup: Lookup) -> ContextSpec:
    """Return the context of a contexts/0 directory (damon_sysfs_build_ctx())."""
    operations = Operations(str(staged(folder, "operations")))
    if operations.value not in series.operations:
        raise Refused(EINVAL)
    addr_unit = int(staged(folder, "addr_unit", 1))
    in_units = operations is Operations.paddr
    min_region = max(1, lookup.page_bytes // addr_unit) if in_units else lookup.page_bytes
    attrs = _attrs(folder.directory("monitoring_attrs"))
    probes = _probes(folder, lookup)
    targets = _targets(
        objects(folder.directory("targets")),
        operations,
        min_region,
        lookup,
        checks_regions=series.sysfs_quirks.checks_regions,
    )
    schemes = tuple(_scheme(scheme, lookup) for scheme in objects(folder.directory("schemes")))
    return ContextSpec(
        operations=operations,
        addr_unit=addr_unit,
        pause=bool(staged(folder, "pause", False)),
        attrs=attrs,
        targets=targets,
        schemes=schemes,
        probes=probes,
    )


def build_goals(folder: Directory, lookup: Lookup) -> ContextSpec:
    """Return only the goals, as damos_sysfs_set_quota_scores() reads them."""
    schemes = objects(folder.directory("schemes"))
    return ContextSpec(
        schemes=tuple(
            SchemeSpec(quota=Quota(goals=_goals(scheme.directory("quotas/goals"), lookup)))
            for scheme in schemes
        )
    )


def check_start(spec: ContextSpec, series: KernelSeries, page_bytes: int) -> None:
    """Refuse a context as damon_start() does."""
    if series.sysfs_quirks.start_checks_unit:
        _check_unit(spec, page_bytes)
    if series.sysfs_quirks.start_tests_commit:
        _check_commit(spec, series, nr_running=0)


def check_commit(spec: ContextSpec, series: KernelSeries, page_bytes: int, nr_running: int) -> None:
    """Refuse a commit as damon_commit_ctx() does; `nr_running` targets run now."""
    if series.sysfs_quirks.commit_checks_unit:
        _check_unit(spec, page_bytes)
        _check_commit(spec, series, nr_running)


def targets_after(spec: ContextSpec) -> int:
    """Return how many targets run after a commit or a start."""
    return sum(not target.obsolete for target in spec.targets)


def _check_unit(spec: ContextSpec, page_bytes: int) -> None:
    min_region = max(1, page_bytes // spec.addr_unit)
    if spec.operations is Operations.paddr and min_region & (min_region - 1):
        raise Refused(EINVAL)


def _check_commit(spec: ContextSpec, series: KernelSeries, nr_running: int) -> None:
    goals = (goal for scheme in spec.schemes for goal in scheme.quota.goals)
    if spec.operations is not Operations.paddr and any(
        goal.metric is Metric.node_eligible_mem_bp for goal in goals
    ):
        raise Refused(EINVAL)
    if series.sysfs_quirks.probe_weights:
        _check_weights(spec)
    if any(target.obsolete for target in spec.targets[nr_running:]):
        raise Refused(EINVAL)


def _check_weights(spec: ContextSpec) -> None:
    """Refuse weights if their sum of hits could overflow (damon_valid_probe_params())."""
    if not any(probe.weight for probe in spec.probes):
        return
    hits = spec.attrs.aggr_us // max(1, spec.attrs.sample_us)
    if hits > _U8_MAX or sum(probe.weight * hits for probe in spec.probes) > UINT_MAX:
        raise Refused(EINVAL)


def _attrs(folder: Directory) -> Attrs:
    """Return the intervals and region limits; refuse wrong ones as damon_set_attrs() does."""
    names = ("access_bp", "aggrs", "min_sample_us", "max_sample_us")
    goals = [staged(folder, f"intervals/intervals_goal/{name}", 0) for name in names]
    attrs = Attrs(
        sample_us=number(folder, "intervals/sample_us"),
        aggr_us=number(folder, "intervals/aggr_us"),
        update_us=number(folder, "intervals/update_us"),
        intervals_goal=IntervalsGoal(*map(int, goals)),
        min_nr_regions=number(folder, "nr_regions/min"),
        max_nr_regions=number(folder, "nr_regions/max"),
    )
    goal = attrs.intervals_goal
    wrong = (
        (goal.aggrs and not goal.min_sample_us <= attrs.sample_us <= goal.max_sample_us)
        or attrs.min_nr_regions < _MIN_NR_REGIONS
        or attrs.min_nr_regions > attrs.max_nr_regions
        or attrs.sample_us > attrs.aggr_us
    )
    if wrong:
        raise Refused(EINVAL)
    return attrs


def _probes(folder: Directory, lookup: Lookup) -> tuple[Probe, ...]:
    attrs = folder.directory("monitoring_attrs")
    if "probes" not in attrs.entries:
        return ()
    return tuple(
        Probe(
            filters=tuple(
                _probe_filter(entry, lookup) for entry in objects(probe.directory("filters"))
            ),
            weight=int(staged(probe, "weight", 0)),
        )
        for probe in objects(attrs.directory("probes"))
    )


def _probe_filter(folder: Directory, lookup: Lookup) -> Filter:
    kind = FilterType(str(staged(folder, "type")))
    path = _cgroup(folder, "path", lookup) if kind is FilterType.memcg else ""
    return Filter(
        type=kind,
        matching=bool(staged(folder, "matching")),
        allow=bool(staged(folder, "allow")),
        path=path,
    )


def _cgroup(folder: Directory, name: str, lookup: Lookup) -> str:
    """Return the path of a cgroup that exists (damon_sysfs_memcg_path_to_id()).

    It may end in one newline.
    """
    path = str(staged(folder, name)).removesuffix("\n")
    if not lookup.has_cgroup(path):
        raise Refused(EINVAL)
    return path


def _targets(
    folders: list[Directory],
    operations: Operations,
    min_region: int,
    lookup: Lookup,
    *,
    checks_regions: bool,
) -> tuple[Target, ...]:
    physical = operations is Operations.paddr
    if physical and len(folders) > 1:
        raise Refused(EINVAL)
    targets = []
    for folder in folders:
        pid = number(folder, "pid_target")
        if not physical and not lookup.has_process(pid):
            raise Refused(EINVAL)
        targets.append(
            Target(
                regions=_regions(
                    objects(folder.directory("regions")), min_region, checked=checks_regions
                ),
                pid=pid,
                obsolete=bool(staged(folder, "obsolete_target", False)),
            )
        )
    return tuple(targets)


def _regions(folders: list[Directory], min_region: int, *, checked: bool) -> tuple[Range, ...]:
    """Return the regions with their edges moved outwards to multiples of `min_region`.

    This follows damon_sysfs_set_regions() and damon_set_regions(). Regions that are not in order
    are refused.

    If `checked` is false, a region may be empty or share a page with the region before it. It then
    gets only the part that is still free.
    """
    raw = [Range(number(folder, "start"), number(folder, "end")) for folder in folders]
    if any(region.start > region.end for region in raw):
        raise Refused(EINVAL)
    if any(left.end > right.start for left, right in pairwise(raw)):
        raise Refused(EINVAL)
    found: list[Range] = []
    for region in raw:
        start = region.start // min_region * min_region
        end = -(-region.end // min_region) * min_region
        free = found[-1].end if found else 0
        if checked and (start >= end or start < free):
            raise Refused(EINVAL)
        if max(start, free) < end:
            found.append(Range(max(start, free), end))
    return tuple(found)


def _scheme(folder: Directory, lookup: Lookup) -> SchemeSpec:
    try:
        quota = _quota(folder.directory("quotas"), lookup)
        filters = _filters(folder, lookup)
    except Refused as refused:
        raise Refused(ENOMEM) from refused
    return SchemeSpec(
        action=Action(str(staged(folder, "action"))),
        target_nid=number(folder, "target_nid"),
        pattern=_pattern(folder.directory("access_pattern")),
        apply_interval_us=number(folder, "apply_interval_us"),
        quota=quota,
        watermarks=_watermarks(folder.directory("watermarks")),
        core_filters=tuple(known for known in filters if known.type.value in CORE_FILTERS),
        ops_filters=tuple(known for known in filters if known.type.value not in CORE_FILTERS),
        dests=_dests(folder),
        max_nr_snapshots=int(staged(folder, "stats/max_nr_snapshots", 0)),
    )


def _pattern(folder: Directory) -> AccessPattern:
    """Return the access pattern. Four numbers are cut to 32 bits (struct damos_access_pattern)."""
    return AccessPattern(
        min_sz=number(folder, "sz/min"),
        max_sz=number(folder, "sz/max"),
        min_nr_accesses=number(folder, "nr_accesses/min") & UINT_MAX,
        max_nr_accesses=number(folder, "nr_accesses/max") & UINT_MAX,
        min_age=number(folder, "age/min") & UINT_MAX,
        max_age=number(folder, "age/max") & UINT_MAX,
    )


def _quota(folder: Directory, lookup: Lookup) -> Quota:
    return Quota(
        ms=number(folder, "ms"),
        bytes=number(folder, "bytes"),
        reset_interval_ms=number(folder, "reset_interval_ms"),
        weight_sz=number(folder, "weights/sz_permil"),
        weight_nr_accesses=number(folder, "weights/nr_accesses_permil"),
        weight_age=number(folder, "weights/age_permil"),
        goals=_goals(folder.directory("goals"), lookup),
        goal_tuner=Tuner(str(staged(folder, "goal_tuner", Tuner.consist.value))),
        fail_charge_num=int(staged(folder, "fail_charge_num", 0)),
        fail_charge_denom=int(staged(folder, "fail_charge_denom", 0)),
    )


def _goals(folder: Directory, lookup: Lookup) -> tuple[Goal, ...]:
    """Return the goals without those of target value 0 (damos_sysfs_add_quota_score())."""
    return tuple(_goal(goal, lookup) for goal in objects(folder) if number(goal, "target_value"))


def _goal(folder: Directory, lookup: Lookup) -> Goal:
    metric = Metric(str(staged(folder, "target_metric")))
    memcg = metric in _MEMCG_METRICS
    return Goal(
        metric=metric,
        target_value=number(folder, "target_value"),
        current_value=number(folder, "current_value") if metric is Metric.user_input else 0,
        nid=number(folder, "nid") if memcg or metric in _NODE_METRICS else 0,
        path=_cgroup(folder, "path", lookup) if memcg else "",
    )


def _watermarks(folder: Directory) -> Watermarks:
    return Watermarks(
        metric=WatermarkMetric(str(staged(folder, "metric"))),
        interval_us=number(folder, "interval_us"),
        high=number(folder, "high"),
        mid=number(folder, "mid"),
        low=number(folder, "low"),
    )


def _filters(folder: Directory, lookup: Lookup) -> tuple[Filter, ...]:
    folders: Iterable[str] = ("core_filters", "ops_filters", "filters")
    return tuple(
        _filter(entry, lookup)
        for name in folders
        if name in folder.entries
        for entry in objects(folder.directory(name))
    )


def _filter(folder: Directory, lookup: Lookup) -> Filter:
    """Return a filter with the fields that its type uses (damon_sysfs_add_scheme_filters())."""
    kind = FilterType(str(staged(folder, "type")))
    matching = bool(staged(folder, "matching"))
    allow = bool(staged(folder, "allow", False))
    match kind:
        case FilterType.memcg:
            return Filter(kind, matching, allow, path=_cgroup(folder, "memcg_path", lookup))
        case FilterType.addr:
            addr = Range(number(folder, "addr_start"), number(folder, "addr_end"))
            if addr.end < addr.start:
                raise Refused(EINVAL)
            return Filter(kind, matching, allow, addr=addr)
        case FilterType.target:
            index = number(folder, "damon_target_idx")
            return Filter(kind, matching, allow, target_idx=index)
        case FilterType.hugepage_size:
            least, most = number(folder, "min"), number(folder, "max")
            if least > most:
                raise Refused(EINVAL)
            return Filter(kind, matching, allow, min=least, max=most)
        case _:
            return Filter(kind, matching, allow)


def _dests(folder: Directory) -> tuple[Dest, ...]:
    if "dests" not in folder.entries:
        return ()
    return tuple(
        Dest(number(dest, "id"), number(dest, "weight"))
        for dest in objects(folder.directory("dests"))
    )
