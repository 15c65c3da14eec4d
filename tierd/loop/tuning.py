"""The tuner at work: readings go in, inputs go to the kernel, and growth is taken back in time.

Rules of this file:
1. What to write is `feedback`'s to say; what was written is remembered here, with what came of
   it since, and nothing is written twice.
2. Where nothing is known (a start, an adoption, a kdamond that began anew) the first thing written
   is safe: quotas that shrink, stay, or grow to READY_BYTES.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import inf
from operator import attrgetter

from tierd import feedback
from tierd.clock import Clock
from tierd.feedback import Adjustment, Limits, Memory, Reading
from tierd.kdamonds import apply
from tierd.kdamonds.apply import Applied
from tierd.loop.supervise import Refresh
from tierd.machine.sample import Sample
from tierd.plans.damon import PAGE_BYTES, Write, input_path
from tierd.plans.opening import GROWS
from tierd.plans.plan import Direction, Item, Loop
from tierd.sysfs import Sysfs
from tierd.tuner import readout, throttle
from tierd.tuner.throttle import TARGET, Input

# What is due is written a little late, because the loop has other things to do: on average by this
# share of a window.
LATE_WINDOWS = 0.25

# Where each command takes this long a round takes a second, in which a hundred megabytes may move.
# Free memory is read without a command, so there it is looked at this often between two rounds
# while anything comes up, and what was decided by it goes on for no longer than a round elsewhere.
SLOW_COMMAND_S = 0.05
GLANCE_S = 0.15
BLIND_S = 0.5

# A moment this near has come: clocks are read in steps, and no window is as short.
EARLY_S = 0.001


@dataclass(frozen=True, slots=True)
class Later:
    """An input that is due at a moment."""

    at_s: float
    value: int


@dataclass(frozen=True, slots=True)
class Told:
    """The input that is in the kernel, None if that is not known, and the quota at a moment.

    Behind its limit a quota goes on growing, so the quota here may be beyond that.
    """

    at_s: float
    quota_bytes: int
    value: int | None

    def quota_by(self, moment_s: float, window_s: float) -> int:
        """The quota later on, for as long as no other input comes."""
        windows = max(0.0, moment_s - self.at_s) / window_s
        value = TARGET if self.value is None else self.value
        return throttle.grown(self.quota_bytes, value, windows)


@dataclass(frozen=True, slots=True)
class Tuning:
    """What the tuner remembers."""

    memory: Memory = field(default_factory=Memory)
    seen: Sample | None = None
    reading: Reading | None = None
    told: Mapping[str, Told] = field(default_factory=dict)
    """By scheme."""
    later: Mapping[str, Later] = field(default_factory=dict)
    glance_s: float | None = None
    """When to look at free memory, between two rounds."""
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
    tuning = _read(applied, tuning, now, refresh, began_s)
    # One kdamond is told after the other.
    kdamonds = dict.fromkeys(item.kdamond for item in applied.plan.items)
    told_s = {one: began_s + turn * refresh.command_s for turn, one in enumerate(kdamonds)}
    slow = refresh.command_s > SLOW_COMMAND_S
    again_s = BLIND_S if slow and _comes_up(tuning, limits) else inf
    tuning, inputs = _round(applied, tuning, limits, now, told_s, again_s)
    tuning = _write(sysfs, clock, applied, tuning, inputs)
    return _next_glance(clock, tuning, limits) if slow else replace(tuning, glance_s=None)


def _comes_up(tuning: Tuning, limits: Limits) -> bool:
    """Whether something is promoted, or is to be as soon as there is room."""
    ups = (way.id for way in limits.ways if way.direction is Direction.promote)
    known = tuning.memory.habits
    return any(name in known and known[name].quota_bytes >= PAGE_BYTES for name in ups)


def glance(
    sysfs: Sysfs,
    clock: Clock,
    applied: Applied,
    tuning: Tuning,
    limits: Limits,
    free_bytes: Mapping[int, int],
) -> Tuning:
    """Between two rounds, by what is free now."""
    seen, now_s = tuning.reading, clock.monotonic()
    if seen is None:
        return replace(tuning, glance_s=None)
    nodes = {
        name: replace(node, free_bytes=free_bytes.get(name, node.free_bytes))
        for name, node in seen.nodes.items()
    }
    told_s = dict.fromkeys((item.kdamond for item in applied.plan.items), now_s)
    seen = _by_then(replace(seen, nodes=nodes), applied, tuning, told_s)
    memory, adjustment = feedback.glance(tuning.memory, seen, limits)
    # What is thought to be parked has to be read to be known.
    resting = tuning.resting - adjustment.inputs.keys()
    tuning = replace(_after(tuning, memory, adjustment), resting=resting)
    tuning = _write(sysfs, clock, applied, tuning, adjustment.inputs)
    return _next_glance(clock, tuning, limits)


def _next_glance(clock: Clock, tuning: Tuning, limits: Limits) -> Tuning:
    """While something comes up; there is nothing to go by before a first reading."""
    glances = tuning.reading is not None and _comes_up(tuning, limits)
    return replace(tuning, glance_s=clock.monotonic() + GLANCE_S if glances else None)


def watch(applied: Applied, tuning: Tuning, limits: Limits, now: Sample) -> Tuning:
    """The same while schemes only count: what would be done is said and not done."""
    return _round(applied, tuning, limits, now, {}, inf)[0]


def _round(
    applied: Applied,
    tuning: Tuning,
    limits: Limits,
    now: Sample,
    told_s: Mapping[int, float],
    again_s: float,
) -> tuple[Tuning, Mapping[str, Input]]:
    seen = readout.reading(applied.plan, tuning.seen, now)
    if seen is not None and limits.loop is Loop.demand:
        seen = _by_then(replace(seen, again_s=again_s), applied, tuning, told_s)
    tuning = replace(tuning, seen=now, reading=seen, active=True, resting=frozenset())
    if seen is None:
        running = readout.quotas(applied.plan, now)
        quotas = {name: told.quota_bytes for name, told in tuning.told.items() if name in running}
        return tuning, feedback.begin(quotas, limits)
    memory, adjustment = feedback.step(tuning.memory, seen, limits)
    return _after(tuning, memory, adjustment), adjustment.inputs


def _after(tuning: Tuning, memory: Memory, adjustment: Adjustment) -> Tuning:
    return replace(
        tuning,
        memory=memory,
        active=any(want.quota_bytes for want in adjustment.wants.values()),
        resting=adjustment.resting,
        reasons={name: want.reason for name, want in adjustment.wants.items()},
        wanted_bytes_per_s={name: want.bytes_per_s for name, want in adjustment.wants.items()},
        headroom_bytes=adjustment.headroom_bytes,
    )


def _read(applied: Applied, tuning: Tuning, now: Sample, refresh: Refresh, now_s: float) -> Tuning:
    """With quotas as they were read, but of those that are known to stay."""
    quotas, told = readout.quotas(applied.plan, now), dict(tuning.told)
    for item in applied.plan.items:
        before = told.get(item.id)
        if item.id not in quotas or (before and item.id in tuning.resting):
            continue
        asked_s = refresh.quotas_s.get(item.kdamond, now_s)
        quota = quotas[item.id]
        if quota >= item.quota_bytes_max:
            quota = max(quota, _behind(tuning, item, before, asked_s))
        told[item.id] = Told(asked_s, quota, before.value if before else None)
    return replace(tuning, told=told)


def _behind(tuning: Tuning, item: Item, before: Told | None, asked_s: float) -> int:
    """What a quota that is seen at its limit has become: what it was told, if that is known."""
    if before is None or before.value is None:
        return throttle.BELIEVED_MAX_BYTES
    return before.quota_by(asked_s, _window_s(tuning, item))


def _by_then(
    seen: Reading, applied: Applied, tuning: Tuning, moments_s: Mapping[int, float]
) -> Reading:
    """The same with quotas as they will be at a moment: meanwhile they go on growing."""
    ways = dict(seen.ways)
    for item in applied.plan.items:
        told = tuning.told.get(item.id)
        if told and item.kdamond in moments_s:
            quota = told.quota_by(moments_s[item.kdamond], _window_s(tuning, item))
            ways[item.id] = replace(ways[item.id], quota_bytes=quota)
    return replace(seen, ways=ways)


def begin(applied: Applied, limits: Limits) -> Tuning:
    """The memory to begin with. Quotas of new kdamonds grow already, until they are ready.

    To ask for a first sample takes a second on some kernels, in which half of that is done.
    """
    since_s = applied.grows_s
    if since_s is None:
        return Tuning()
    inputs = feedback.begin(dict.fromkeys((way.id for way in limits.ways), 1), limits)
    later = {
        item.id: _then(inputs[item.id], since_s, _window_s(Tuning(), item))
        for item in applied.plan.items
    }
    return Tuning(told=dict.fromkeys(later, Told(since_s, 1, GROWS)), later=later)


def _then(want: Input, since_s: float, window_s: float) -> Later:
    """What follows an input that is for a counted number of windows."""
    return Later(since_s + (want.windows - LATE_WINDOWS) * window_s, want.then)


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
    told, later = dict(tuning.told), dict(tuning.later)
    for _, items in groupby(applied.plan.items, key=attrgetter("kdamond")):
        wants = [(item, inputs[item.id]) for item in items if item.id in inputs]
        # A kdamond takes it at its next sample; some kernels tell us so only long after.
        since_s = clock.monotonic()
        new = [(item, want) for item, want in wants if not _in_force(told.get(item.id), want)]
        if new:
            apply.tune(sysfs, clock, applied, tuple(_goal(item, want) for item, want in new))
        for item, want in new:
            before, window_s = told.get(item.id), _window_s(tuning, item)
            quota = before.quota_by(since_s, window_s) if before else 1
            told[item.id] = Told(since_s, quota, want.value)
        for item, want in wants:
            later.pop(item.id, None)
            if want.windows:
                later[item.id] = _then(want, since_s, _window_s(tuning, item))
    return replace(tuning, told=told, later=later)


def _in_force(told: Told | None, want: Input) -> bool:
    return told is not None and told.value == want.value


def _goal(item: Item, want: Input) -> Write:
    return Write(input_path(item.kdamond, item.scheme), str(want.value))


def _window_s(tuning: Tuning, item: Item) -> float:
    habit = tuning.memory.habits.get(item.id)
    return habit.window_s if habit else item.window_us / 1e6
