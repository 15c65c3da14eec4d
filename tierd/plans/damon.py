"""DAMON's objects as values, and the writes that make the kernel hold them.

Rules of this file:
1. There is one list, `writes`: `tierd plan` prints it, `apply` executes it, and `plan --diff`
   compares it. A count (nr_*) comes before the directories that it creates; `state` comes last.
2. A file that the kernel lacks is not in the list. The Capabilities say which files it has.
3. A file is in the list even if its default value is the right one. So two lists can be compared
   file by file.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum

from tierd.digest import sha256
from tierd.frozen import dataclass
from tierd.machine.features import KDAMONDS, Capabilities, Feature
from tierd.ranges import Ranges

UINT_MAX = 2**32 - 1
ULONG_MAX = 2**64 - 1

# What opens and closes a gate: the values of `high` and `mid`, in permil of free memory. There is
# always some.
GATE_METRIC = "free_mem_rate"
GATE_CLOSED = "0"
GATE_OPEN = "1000"

# How often a kdamond checks its watermarks if none of its schemes is active. One always is.
GATE_INTERVAL_US = 100_000


class Operations(StrEnum):
    """What a context watches: physical memory, since only that has nodes."""

    paddr = "paddr"


class Action(StrEnum):
    """What a scheme does to the regions that it finds."""

    migrate_hot = "migrate_hot"
    migrate_cold = "migrate_cold"
    pageout = "pageout"
    stat = "stat"


class Metric(StrEnum):
    """What a quota goal measures."""

    user_input = "user_input"
    node_mem_used_bp = "node_mem_used_bp"
    node_mem_free_bp = "node_mem_free_bp"


class GoalTuner(StrEnum):
    """How the kernel turns goals into a quota."""

    consist = "consist"
    temporal = "temporal"


class FilterType(StrEnum):
    """What a filter looks at."""

    young = "young"
    memcg = "memcg"
    anon = "anon"
    unmapped = "unmapped"


class Command(StrEnum):
    """What can be written to `state`."""

    on = "on"
    off = "off"
    commit = "commit"
    commit_goals = "commit_schemes_quota_goals"
    update_stats = "update_schemes_stats"
    update_effective = "update_schemes_effective_quotas"
    update_intervals = "update_tuned_intervals"
    update_tried = "update_schemes_tried_regions"
    clear_tried = "clear_schemes_tried_regions"


@dataclass(frozen=True, slots=True)
class Write:
    """A file and the value to write to it."""

    path: str
    value: str


Writes = tuple[Write, ...]


@dataclass(frozen=True, slots=True)
class IntervalsGoal:
    """Tune the intervals until `access_bp` of the accesses are seen in `aggrs` aggregations."""

    access_bp: int
    aggrs: int
    min_sample_us: int
    max_sample_us: int


UNTUNED = IntervalsGoal(0, 0, 0, 0)
"""The values that the kernel takes for no goal: it does not tune the intervals."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """How often DAMON samples, aggregates its samples, and checks the layout of memory."""

    sample_us: int
    aggr_us: int
    update_us: int
    goal: IntervalsGoal | None = None

    @property
    def samples(self) -> int:
        """The number of samples per aggregation, which is the highest access count of a region."""
        return self.aggr_us // self.sample_us


@dataclass(frozen=True, slots=True)
class Span:
    """A range of numbers from `min` up to and including `max`."""

    min: int
    max: int


@dataclass(frozen=True, slots=True)
class AccessPattern:
    """The regions that a scheme acts on. Accesses are in samples, the age is in aggregations."""

    size_bytes: Span
    nr_accesses: Span
    age: Span


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a quota. Metrics of a node need `nid`, user input needs `current_value`."""

    metric: Metric
    target_value: int
    nid: int | None = None
    current_value: int | None = None


@dataclass(frozen=True, slots=True)
class FailCharge:
    """How much quota a byte that cannot be moved costs, as a fraction of what a moved one costs."""

    num: int
    denom: int


@dataclass(frozen=True, slots=True)
class Weights:
    """How regions are ranked if the quota is too small for all of them, in permil."""

    size: int = 0
    nr_accesses: int = 100
    age: int = 100


@dataclass(frozen=True, slots=True)
class Quota:
    """The bytes per apply interval: at most `bytes_max`, and less if the goals say so."""

    bytes_max: int
    goals: tuple[Goal, ...] = ()
    weights: Weights = Weights()
    goal_tuner: GoalTuner = GoalTuner.consist
    fail_charge: FailCharge | None = None
    """None means that a byte that could not be moved costs as much as a moved byte."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Pages that match are rejected, or allowed if `allow` is set.

    If `matching` is False, this applies to the pages that do not match.
    """

    type: FilterType
    matching: bool
    allow: bool = False
    memcg_path: str | None = None


@dataclass(frozen=True, slots=True)
class Scheme:
    """An action, the regions that it is for, its quota, and its target node."""

    action: Action
    target_nid: int
    pattern: AccessPattern
    apply_interval_us: int
    quota: Quota
    filters: tuple[Filter, ...] = ()
    gated: bool = False
    """True if its watermarks hold it where it is, until they are opened and committed."""


@dataclass(frozen=True, slots=True)
class Context:
    """The memory that is watched, and the schemes that act on it."""

    operations: Operations
    intervals: Intervals
    nr_regions: Span
    ranges: Ranges
    schemes: tuple[Scheme, ...]

    @property
    def bytes(self) -> int:
        """The size of the memory that is watched."""
        return sum(part.end - part.start for part in self.ranges)


@dataclass(frozen=True, slots=True)
class Kdamond:
    """A kernel thread with one context. With `refresh_ms` 0, commands update its statistics."""

    context: Context
    refresh_ms: int = 0


def kdamond_dir(index: int) -> str:
    return f"{KDAMONDS}/{index}"


def state_path(index: int) -> str:
    return f"{kdamond_dir(index)}/state"


def scheme_dir(kdamond: int, scheme: int) -> str:
    return f"{kdamond_dir(kdamond)}/contexts/0/schemes/{scheme}"


def input_path(kdamond: int, scheme: int) -> str:
    """Return the file for the input of a scheme's only goal."""
    return f"{scheme_dir(kdamond, scheme)}/quotas/goals/0/current_value"


def quota_path(kdamond: int, scheme: int) -> str:
    """Return the file for how much a scheme may do in a window."""
    return f"{scheme_dir(kdamond, scheme)}/quotas/bytes"


def gate_paths(kdamond: int, scheme: int) -> tuple[str, ...]:
    """Return the files that open and close a gated scheme."""
    return tuple(f"{scheme_dir(kdamond, scheme)}/watermarks/{name}" for name in ("high", "mid"))


def writes(kdamonds: Iterable[Kdamond], capabilities: Capabilities) -> Writes:
    """Return the writes that build these kdamonds from nothing and turn them on, in order."""
    listed = tuple(kdamonds)
    return (
        Write(f"{KDAMONDS}/nr_kdamonds", str(len(listed))),
        *(
            Write(f"{kdamond_dir(index)}/{name}", value)
            for index, kdamond in enumerate(listed)
            for name, value in _kdamond(kdamond, capabilities)
        ),
        *(Write(state_path(index), Command.on) for index in range(len(listed))),
    )


_Entries = Iterator[tuple[str, str]]


def _kdamond(kdamond: Kdamond, capabilities: Capabilities) -> _Entries:
    if capabilities.has(Feature.refresh_ms):
        yield "refresh_ms", str(kdamond.refresh_ms)
    yield "contexts/nr_contexts", "1"
    yield from _below("contexts/0", _context(kdamond.context, capabilities))


def _context(context: Context, capabilities: Capabilities) -> _Entries:
    yield "operations", context.operations
    if capabilities.has(Feature.pause):
        yield "pause", "N"
    intervals = _intervals(context.intervals, capabilities)
    yield from _below("monitoring_attrs/intervals", intervals)
    yield from _below("monitoring_attrs/nr_regions", _span(context.nr_regions))
    yield "targets/nr_targets", "1"
    yield "targets/0/regions/nr_regions", str(len(context.ranges))
    for index, part in enumerate(context.ranges):
        yield f"targets/0/regions/{index}/start", str(part.start)
        yield f"targets/0/regions/{index}/end", str(part.end)
    yield "schemes/nr_schemes", str(len(context.schemes))
    for index, scheme in enumerate(context.schemes):
        yield from _below(f"schemes/{index}", _scheme(scheme, capabilities))


def _intervals(intervals: Intervals, capabilities: Capabilities) -> _Entries:
    yield "sample_us", str(intervals.sample_us)
    yield "aggr_us", str(intervals.aggr_us)
    yield "update_us", str(intervals.update_us)
    if capabilities.has(Feature.intervals_goal):
        goal = intervals.goal or UNTUNED
        yield "intervals_goal/access_bp", str(goal.access_bp)
        yield "intervals_goal/aggrs", str(goal.aggrs)
        yield "intervals_goal/min_sample_us", str(goal.min_sample_us)
        yield "intervals_goal/max_sample_us", str(goal.max_sample_us)


def _span(span: Span) -> _Entries:
    yield "min", str(span.min)
    yield "max", str(span.max)


def _scheme(scheme: Scheme, capabilities: Capabilities) -> _Entries:
    yield "action", scheme.action
    yield "target_nid", str(scheme.target_nid)
    yield from _below("access_pattern/sz", _span(scheme.pattern.size_bytes))
    yield from _below("access_pattern/nr_accesses", _span(scheme.pattern.nr_accesses))
    yield from _below("access_pattern/age", _span(scheme.pattern.age))
    yield "apply_interval_us", str(scheme.apply_interval_us)
    yield from _below("quotas", _quota(scheme.quota, capabilities))
    if scheme.gated:
        yield from _below("watermarks", _gate())
    else:
        yield "watermarks/metric", "none"
    yield from _filters(scheme.filters, capabilities)


def _gate() -> _Entries:
    """A scheme is active while the free memory is between `low` and `mid`, in permil of all.

    While it is not active it stays where it is. A quota of a byte would begin at the first address
    again, before Linux 7.2.
    """
    yield "metric", GATE_METRIC
    yield "interval_us", str(GATE_INTERVAL_US)
    for name in ("high", "mid", "low"):
        yield name, GATE_CLOSED


def _quota(quota: Quota, capabilities: Capabilities) -> _Entries:
    yield "bytes", str(quota.bytes_max)
    yield "ms", "0"
    # With 0 each apply is a charge window of its own. Otherwise 6.12 leaves the first window after
    # `on` without any limit (damos_adjust_quota()).
    yield "reset_interval_ms", "0"
    yield "weights/sz_permil", str(quota.weights.size)
    yield "weights/nr_accesses_permil", str(quota.weights.nr_accesses)
    yield "weights/age_permil", str(quota.weights.age)
    if capabilities.has(Feature.fail_charge):
        yield "fail_charge_num", str(quota.fail_charge.num if quota.fail_charge else 0)
        yield "fail_charge_denom", str(quota.fail_charge.denom if quota.fail_charge else 0)
    if capabilities.has(Feature.goal_tuner):
        yield "goal_tuner", quota.goal_tuner
    yield "goals/nr_goals", str(len(quota.goals))
    for index, goal in enumerate(quota.goals):
        yield from _below(f"goals/{index}", _goal(goal))


def _goal(goal: Goal) -> _Entries:
    yield "target_metric", goal.metric
    yield "target_value", str(goal.target_value)
    if goal.current_value is not None:
        yield "current_value", str(goal.current_value)
    if goal.nid is not None:
        yield "nid", str(goal.nid)


def _filters(filters: tuple[Filter, ...], capabilities: Capabilities) -> _Entries:
    folder = "ops_filters" if capabilities.has(Feature.ops_filters) else "filters"
    yield f"{folder}/nr_filters", str(len(filters))
    for index, entry in enumerate(filters):
        yield f"{folder}/{index}/type", entry.type
        yield f"{folder}/{index}/matching", _bool(entry.matching)
        if capabilities.has(Feature.allow_filter):
            yield f"{folder}/{index}/allow", _bool(entry.allow)
        if entry.memcg_path is not None:
            yield f"{folder}/{index}/memcg_path", entry.memcg_path


def _bool(value: bool) -> str:
    return "Y" if value else "N"


def _below(folder: str, entries: _Entries) -> _Entries:
    for name, value in entries:
        yield f"{folder}/{name}", value


def fingerprint(listed: Iterable[Write]) -> str:
    """Return a short hash of a list of writes: equal lists have equal hashes."""
    text = "\n".join(f"{write.path}={write.value}" for write in listed)
    return sha256(text.encode("utf-8", "surrogateescape")).hex()[:16]
