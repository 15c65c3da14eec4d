"""The tuner at work: readings go in, inputs go to the kernel, and growth is taken back in time.

Rules of this file:
1. What to write is `feedback`'s to say; what was written is remembered here, and nothing is
   written twice.
2. Where nothing is known (a start, an adoption, a kdamond that began anew) the first thing written
   is safe: quotas that shrink, stay, or grow to READY_BYTES.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter

from tierd import feedback
from tierd.clock import Clock
from tierd.feedback import Limits, Memory, Reading
from tierd.kdamonds import apply
from tierd.kdamonds.apply import Applied
from tierd.loop.supervise import Refresh
from tierd.machine.sample import Sample
from tierd.plans.damon import Write, scheme_dir
from tierd.plans.plan import Item, Loop
from tierd.sysfs import Sysfs
from tierd.tuner import readout, throttle
from tierd.tuner.throttle import TARGET, Input

# What is due is written a little late, because the loop has other things to do: on average by this
# share of a window.
LATE_WINDOWS = 0.25

# A moment this near has come: clocks are read in steps, and no window is as short.
EARLY_S = 0.001


@dataclass(frozen=True, slots=True)
class Later:
    """An input that is due at a moment."""

    at_s: float
    value: int


@dataclass(frozen=True, slots=True)
class Tuning:
    """What the tuner remembers."""

    memory: Memory = field(default_factory=Memory)
    seen: Sample | None = None
    reading: Reading | None = None
    written: Mapping[str, int] = field(default_factory=dict)
    """The input in the kernel, by scheme; what is missing is not known."""
    later: Mapping[str, Later] = field(default_factory=dict)
    active: bool = True
    """Whether anything is to move, now or as soon as there is room, or that is not known yet."""
    resting: frozenset[str] = frozenset()
    """Schemes whose quota was read as parked, and stays."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    wanted_bytes_per_s: Mapping[str, float] = field(default_factory=dict)
    headroom_bytes: Mapping[int, int] = field(default_factory=dict)

    @property
    def due_s(self) -> float | None:
        """When `settle` has something to do."""
        return min((later.at_s for later in self.later.values()), default=None)

    def is_due(self, now_s: float) -> bool:
        return self.due_s is not None and self.due_s <= now_s + EARLY_S


def follow(
    sysfs: Sysfs,
    clock: Clock,
    applied: Applied,
    tuning: Tuning,
    limits: Limits,
    now: Sample,
    refresh: Refresh,
) -> Tuning:
    """One round with a fresh sample, and how it was got."""
    began_s = clock.monotonic()
    # What was asked for in turn is changed in turn.
    lags_s = {
        kdamond: began_s + turn * refresh.command_s - at_s
        for turn, (kdamond, at_s) in enumerate(refresh.quotas_s.items())
    }
    tuning, inputs = _round(applied, tuning, limits, now, lags_s)
    return _write(sysfs, clock, applied, tuning, inputs)


def watch(applied: Applied, tuning: Tuning, limits: Limits, now: Sample) -> Tuning:
    """The same while schemes only count: what would be done is said and not done."""
    return _round(applied, tuning, limits, now, {})[0]


def _round(
    applied: Applied, tuning: Tuning, limits: Limits, now: Sample, lags_s: Mapping[int, float]
) -> tuple[Tuning, Mapping[str, Input]]:
    seen = readout.reading(applied.plan, tuning.seen, now)
    if seen is not None and limits.loop is Loop.demand:
        seen = _by_then(seen, applied, tuning, lags_s)
    tuning = replace(tuning, seen=now, reading=seen, active=True, resting=frozenset())
    if seen is None:
        return tuning, feedback.begin(readout.quotas(applied.plan, now), limits)
    memory, adjustment = feedback.step(tuning.memory, seen, limits)
    tuning = replace(
        tuning,
        memory=memory,
        active=any(want.quota_bytes for want in adjustment.wants.values()),
        resting=adjustment.resting,
        reasons={name: want.reason for name, want in adjustment.wants.items()},
        wanted_bytes_per_s={name: want.bytes_per_s for name, want in adjustment.wants.items()},
        headroom_bytes=adjustment.headroom_bytes,
    )
    return tuning, adjustment.inputs


def _by_then(
    seen: Reading, applied: Applied, tuning: Tuning, lags_s: Mapping[int, float]
) -> Reading:
    """The same with quotas as they will be when they are changed: meanwhile they go on growing."""
    ways = dict(seen.ways)
    for item in applied.plan.items:
        was = ways[item.id]
        windows = lags_s.get(item.kdamond, 0.0) / _window_s(tuning, item)
        quota = throttle.grown(was.quota_bytes, tuning.written.get(item.id, TARGET), windows)
        ways[item.id] = replace(was, quota_bytes=min(item.quota_bytes_max, quota))
    return replace(seen, ways=ways)


def begin(sysfs: Sysfs, clock: Clock, applied: Applied, limits: Limits) -> Tuning:
    """The memory to begin with; where kdamonds are new, their quotas begin to grow.

    To ask them for a first sample takes a second on some kernels, in which that is half done.
    """
    if not applied.fresh or limits.loop is not Loop.demand:
        return Tuning()
    inputs = feedback.begin(dict.fromkeys((way.id for way in limits.ways), 1), limits)
    return _write(sysfs, clock, applied, Tuning(), inputs)


def settle(sysfs: Sysfs, clock: Clock, applied: Applied, tuning: Tuning) -> Tuning:
    """Write the inputs whose moment has come."""
    now_s = clock.monotonic()
    due = {name: later for name, later in tuning.later.items() if later.at_s <= now_s + EARLY_S}
    inputs = {name: Input(later.value, later.value) for name, later in due.items()}
    return _write(sysfs, clock, applied, tuning, inputs)


def make_safe(sysfs: Sysfs, clock: Clock, applied: Applied, tuning: Tuning, limits: Limits) -> None:
    """Leave quotas that nobody will look after."""
    _write(sysfs, clock, applied, tuning, feedback.safe(limits))


def _write(
    sysfs: Sysfs, clock: Clock, applied: Applied, tuning: Tuning, inputs: Mapping[str, Input]
) -> Tuning:
    written, later = dict(tuning.written), dict(tuning.later)
    for _, items in groupby(applied.plan.items, key=attrgetter("kdamond")):
        wants = [(item, inputs[item.id]) for item in items if item.id in inputs]
        # A kdamond takes it at its next sample; some kernels tell us so only long after.
        since_s = clock.monotonic()
        new = [_goal(item, want) for item, want in wants if written.get(item.id) != want.value]
        if new:
            apply.tune(sysfs, clock, applied, tuple(new))
        for item, want in wants:
            written[item.id] = want.value
            later.pop(item.id, None)
            if want.windows:
                due_s = since_s + (want.windows - LATE_WINDOWS) * _window_s(tuning, item)
                later[item.id] = Later(due_s, want.then)
    return replace(tuning, written=written, later=later)


def _goal(item: Item, want: Input) -> Write:
    folder = scheme_dir(item.kdamond, item.scheme)
    return Write(f"{folder}/quotas/goals/0/current_value", str(want.value))


def _window_s(tuning: Tuning, item: Item) -> float:
    habit = tuning.memory.habits.get(item.id)
    return habit.window_s if habit else item.window_us / 1e6
