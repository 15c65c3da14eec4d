"""The tuner at work: readings go in, inputs go to the kernel, and growth is taken back in time.

Rules of this file:
1. What to write is `feedback`'s to say; what was written is remembered here, and nothing is
   written twice.
2. Where nothing is known (a start, an adoption, a kdamond that began anew) the first thing written
   is safe: quotas that shrink or stay.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tierd import apply, feedback, reading
from tierd.apply import Applied
from tierd.clock import Clock
from tierd.damon import Write, scheme_dir
from tierd.feedback import Limits, Memory, Reading
from tierd.sample import Sample
from tierd.sysfs import Sysfs
from tierd.throttle import Input

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
    resting: frozenset[str] = frozenset()
    """Schemes whose quota was read as parked, and stays."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    wanted_bytes_per_s: Mapping[str, float] = field(default_factory=dict)
    headroom_bytes: Mapping[int, int] = field(default_factory=dict)

    @property
    def active(self) -> bool:
        """Whether anything is to move."""
        return any(self.wanted_bytes_per_s.values())

    @property
    def due_s(self) -> float | None:
        """When `settle` has something to do."""
        return min((later.at_s for later in self.later.values()), default=None)


def follow(
    sysfs: Sysfs, clock: Clock, applied: Applied, tuning: Tuning, limits: Limits, now: Sample
) -> Tuning:
    """One round with a fresh sample."""
    tuning, inputs = _round(applied, tuning, limits, now)
    return _write(sysfs, clock, applied, tuning, inputs)


def watch(applied: Applied, tuning: Tuning, limits: Limits, now: Sample) -> Tuning:
    """The same while schemes only count: what would be done is said and not done."""
    return _round(applied, tuning, limits, now)[0]


def _round(
    applied: Applied, tuning: Tuning, limits: Limits, now: Sample
) -> tuple[Tuning, Mapping[str, Input]]:
    seen = reading.reading(applied.plan, tuning.seen, now)
    tuning = replace(tuning, seen=now, reading=seen, resting=frozenset())
    if seen is None:
        return tuning, feedback.begin(reading.quotas(applied.plan, now), limits)
    memory, adjustment = feedback.step(tuning.memory, seen, limits)
    tuning = replace(
        tuning,
        memory=memory,
        resting=adjustment.resting,
        reasons={name: want.reason for name, want in adjustment.wants.items()},
        wanted_bytes_per_s={name: want.bytes_per_s for name, want in adjustment.wants.items()},
        headroom_bytes=adjustment.headroom_bytes,
    )
    return tuning, adjustment.inputs


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
    new = {name: want for name, want in inputs.items() if written.get(name) != want.value}
    if new:
        apply.tune(sysfs, clock, applied, tuple(_writes(applied, new)))
    done_s = clock.monotonic()
    for name, want in inputs.items():
        written[name] = want.value
        later.pop(name, None)
        if want.windows:
            window_s = _window_s(applied, tuning, name)
            later[name] = Later(done_s + want.windows * window_s, want.then)
    return replace(tuning, written=written, later=later)


def _writes(applied: Applied, inputs: Mapping[str, Input]) -> Iterable[Write]:
    for item in applied.plan.items:
        if item.id in inputs:
            folder = scheme_dir(item.kdamond, item.scheme)
            yield Write(f"{folder}/quotas/goals/0/current_value", str(inputs[item.id].value))


def _window_s(applied: Applied, tuning: Tuning, name: str) -> float:
    if tuning.reading is not None:
        return tuning.reading.ways[name].window_s
    return next(item.window_us for item in applied.plan.items if item.id == name) / 1e6
