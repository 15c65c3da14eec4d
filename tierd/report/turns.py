"""Measures slices of time, and switches tierd off and on in turns. The old state is put back.

Rules of this file: time, files and the daemon are passed in as `Meter` and `Switch`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, Protocol

from tierd import figures
from tierd.clock import Clock
from tierd.frozen import dataclass, replace
from tierd.machine.sample_reader import PRESSURE as PRESSURE_FILE
from tierd.machine.sample_reader import VMSTAT
from tierd.report import compare
from tierd.report.compare import Arm, Slice
from tierd.sysfs import Sysfs, optional

# Seconds between two looks in a slice.
LOOK_S = 2.0
# After a switch the machine settles, so the first part of a turn does not count.
SETTLE_SHARE = 0.25
# While tierd is paused nobody counts touches. What it counts in so many seconds after a pause is
# what the pause left: more than a few percent of a node cannot have moved yet.
AFTER_S = 6.0

STATUS = Mapping[str, Any]


class Switch(Protocol):
    """Switches tierd: `pause` and `resume`, as the commands do."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Meter:
    """What is read of the machine."""

    sysfs: Sysfs
    clock: Clock
    status: Callable[[], STATUS | None]
    """The document of `tierd status --json`; None if no daemon runs."""
    application: Callable[[], float] | None = None
    """The application's own figure now."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """The counters of one moment."""

    at_s: float
    waited_us: int | None
    major_faults: int | None
    cpu_s: float | None


def _counted(meter: Meter) -> _Counted:
    pressure = optional(meter.sysfs, PRESSURE_FILE)
    some = [line for line in (pressure or "").splitlines() if line.startswith("some ")]
    waited = some[0].rpartition("total=")[2] if some else None
    counts = dict(
        line.split(" ", 1) for line in meter.sysfs.reread(VMSTAT).splitlines() if " " in line
    )
    status = meter.status()
    cpu = [one["cpu_seconds_total"] for one in (status or {}).get("kdamonds", ())]
    return _Counted(
        meter.clock.monotonic(),
        figures.optional(PRESSURE_FILE, waited),
        figures.optional(VMSTAT, counts.get("pgmajfault")),
        sum(cpu) if cpu else None,
    )


def served(status: STATUS | None) -> float | None:
    """Return the share of the touches that the fastest tier serves, as tierd's sensors count it."""
    nodes = [one for one in (status or {}).get("nodes", ()) if one.get("heat_bytes") is not None]
    tiers = list(dict.fromkeys(one["tier"] for one in (status or {}).get("nodes", ())))
    whole = sum(one["heat_bytes"] for one in nodes)
    if not whole or len(tiers) < 2:
        return None
    fastest = min(tiers, key=_rank)
    return float(sum(one["heat_bytes"] for one in nodes if one["tier"] == fastest) / whole)


def _rank(tier: str) -> tuple[int, str]:
    """Return the place of a tier in the order of speed: a smaller number is faster."""
    digits = "".join(one for one in tier if one.isdigit())
    return int(digits or 0), tier


def measured(meter: Meter, arm: Arm, seconds: float) -> Slice:
    """Measure a slice of time."""
    before = _counted(meter)
    end_s = before.at_s + seconds
    shares: list[float] = []
    figures_seen: list[float] = []
    while (left_s := end_s - meter.clock.monotonic()) > 0:
        meter.clock.sleep(min(LOOK_S, left_s))
        share = served(meter.status())
        if share is not None:
            shares.append(share)
        if meter.application is not None:
            figures_seen.append(meter.application())
    after = _counted(meter)
    took_s = max(1e-6, after.at_s - before.at_s)
    values: dict[str, float] = {}
    if before.waited_us is not None and after.waited_us is not None:
        spent_us = after.waited_us - before.waited_us
        values[compare.PRESSURE.key] = 100 * max(0, spent_us) / 1e6 / took_s
    if before.major_faults is not None and after.major_faults is not None:
        values[compare.FAULTS.key] = max(0, after.major_faults - before.major_faults) / took_s
    if before.cpu_s is not None and after.cpu_s is not None:
        values[compare.KDAMONDS.key] = 100 * max(0.0, after.cpu_s - before.cpu_s) / took_s
    if shares:
        values[compare.SERVED.key] = 100 * sum(shares) / len(shares)
    if figures_seen:
        values["application"] = sum(figures_seen) / len(figures_seen)
    return Slice(arm, took_s, values)


def slices(meter: Meter, arm: Arm, seconds: float, count: int) -> Iterator[Slice]:
    """Yield so many slices of a time in which nothing is switched."""
    for _ in range(count):
        yield measured(meter, arm, seconds / count)


@dataclass(slots=True)
class Turns:
    """On against off, in turns."""

    meter: Meter
    switch: Switch
    turn_s: float
    done: list[Slice] = field(default_factory=list)

    def run(self, pairs: int, told: Callable[[str], None]) -> tuple[Slice, ...]:
        """Run the turns. Whatever happens, tierd is resumed at the end."""
        order = compare.order(pairs)
        paused = False
        try:
            for number, arm in enumerate(order, 1):
                if (arm is Arm.off) is not paused:
                    paused = not paused
                    if paused:
                        self.switch.pause()
                    else:
                        self.switch.resume()
                        self._seen_after()
                told(f"turn {number} of {len(order)}: {arm}")
                self.meter.clock.sleep(self.turn_s * SETTLE_SHARE)
                self.done.append(measured(self.meter, arm, self.turn_s * (1 - SETTLE_SHARE)))
                if paused:
                    self.done[-1] = _without(self.done[-1], compare.SERVED.key)
            if paused:
                self.switch.resume()
                paused = False
                self._seen_after()
        finally:
            if paused:
                self.switch.resume()
        return tuple(self.done)

    def _seen_after(self) -> None:
        """Add to the turns of a pause what was served at its end, from the first look after it."""
        end_s = self.meter.clock.monotonic() + AFTER_S
        share = None
        while share is None and self.meter.clock.monotonic() < end_s:
            self.meter.clock.sleep(LOOK_S / 2)
            share = served(self.meter.status())
        at = len(self.done) - 1
        while share is not None and at >= 0 and self.done[at].arm is Arm.off:
            if compare.SERVED.key in self.done[at].values:
                break
            values = {**self.done[at].values, compare.SERVED.key: 100 * share}
            self.done[at] = replace(self.done[at], values=values)
            at -= 1


def _without(one: Slice, key: str) -> Slice:
    """Return a slice without a value: during a pause the status repeats what was seen before."""
    return replace(one, values={name: value for name, value in one.values.items() if name != key})
