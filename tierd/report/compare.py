"""Whether a figure differs between two ways of running a machine, with an interval. Pure.

Two methods: turns that alternate are compared in pairs, so that a trend does not count; a time
before and a time after are compared by the means of slices of each (Welch). Both intervals hold the
true difference in 95 of 100 cases, if slices do not depend on each other.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import sqrt

from tierd.frozen import dataclass

# Quantiles of Student's t for an interval of 95 %, by degrees of freedom from 1 on.
T_95 = (
    12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13,
    2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04,
)  # fmt: skip
T_95_MANY = 1.96

# With fewer pairs or slices an interval says more about itself than about the machine.
LEAST = 3

# A difference of less than this share of the value matters to nobody. If the interval holds zero
# and larger differences too, nothing can be said.
SMALL_SHARE = 0.05


class Arm(StrEnum):
    """The way in which the machine ran in a slice."""

    off = "off"
    """Nothing moved, or before."""
    on = "on"
    """tierd moved pages, or after."""


class Better(StrEnum):
    """Which values of a measure are good."""

    more = "higher"
    less = "lower"


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure that is compared."""

    key: str
    title: str
    unit: str
    better: Better
    small: float = 0.0
    """A difference of less than this matters to nobody, whatever the value is."""


SERVED = Measure("served", "share served by the fast tier", "%", Better.more, small=1.0)
PRESSURE = Measure("pressure", "time under memory pressure (PSI)", "%", Better.less, small=1.0)
FAULTS = Measure("major_faults", "major faults", "/s", Better.less, small=1.0)
KDAMONDS = Measure("kdamonds", "processor time of the kdamonds", "%", Better.less, small=1.0)


@dataclass(frozen=True, slots=True)
class Slice:
    """Some time in which the machine ran in one way, and what was measured. A value may be missing,
    as nobody counts touches while tierd is paused."""

    arm: Arm
    seconds: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Difference:
    """How much a measure differs: on less off."""

    measure: Measure
    off: float | None
    on: float | None
    mean: float | None
    half: float | None
    """Half of the interval; None if there are too few values for one."""
    count: int
    """The pairs, or the slices of the smaller side."""

    @property
    def differs(self) -> bool:
        return self.mean is not None and self.half is not None and abs(self.mean) > self.half

    @property
    def verdict(self) -> str:
        if self.mean is None:
            return "not measured"
        if self.half is None:
            return f"cannot tell: {self.count} of {LEAST} values"
        if not self.differs:
            small = max(self.measure.small, SMALL_SHARE * abs(self.off or 0.0))
            alike = abs(self.mean) + self.half <= small
            return "no difference" if alike else "cannot tell: the values vary too much"
        good = (self.mean > 0) is (self.measure.better is Better.more)
        return "better" if good else "worse"


def paired(measure: Measure, slices: Sequence[Slice]) -> Difference:
    """Compare turns: each pair is an off and an on that follow one another, in any order."""
    differences = []
    for first, second in zip(slices[::2], slices[1::2], strict=False):
        by_arm = {one.arm: one.values.get(measure.key) for one in (first, second)}
        off, on = by_arm.get(Arm.off), by_arm.get(Arm.on)
        if off is not None and on is not None:
            differences.append(on - off)
    off_mean, on_mean = (_mean(_values(measure, slices, arm)) for arm in Arm)
    count = len(differences)
    if not count:
        return Difference(measure, off_mean, on_mean, None, None, 0)
    mean = sum(differences) / count
    half = None
    if count >= LEAST:
        half = t_95(count - 1) * sqrt(_variance(differences) / count)
    return Difference(measure, off_mean, on_mean, mean, half, count)


def apart(measure: Measure, slices: Sequence[Slice]) -> Difference:
    """Compare a time before with a time after, by the slices of each (Welch)."""
    off, on = (_values(measure, slices, arm) for arm in Arm)
    off_mean, on_mean = _mean(off), _mean(on)
    count = min(len(off), len(on))
    if off_mean is None or on_mean is None:
        return Difference(measure, off_mean, on_mean, None, None, count)
    half = None
    if count >= LEAST:
        parts = [_variance(one) / len(one) for one in (off, on)]
        whole = sum(parts)
        degrees = sum(part**2 / (len(one) - 1) for part, one in zip(parts, (off, on), strict=True))
        half = t_95(int(whole**2 / degrees)) * sqrt(whole) if degrees else 0.0
    return Difference(measure, off_mean, on_mean, on_mean - off_mean, half, count)


def t_95(degrees: int) -> float:
    return T_95[degrees - 1] if 1 <= degrees <= len(T_95) else T_95_MANY


def _values(measure: Measure, slices: Sequence[Slice], arm: Arm) -> list[float]:
    return [
        one.values[measure.key] for one in slices if one.arm is arm and measure.key in one.values
    ]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _variance(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((one - mean) ** 2 for one in values) / (len(values) - 1)


def order(turns: int) -> tuple[Arm, ...]:
    """Return which turn is what: off on, on off, off on, ... so that a trend cancels out."""
    pairs = [(Arm.off, Arm.on) if number % 2 == 0 else (Arm.on, Arm.off) for number in range(turns)]
    return tuple(arm for pair in pairs for arm in pair)
