"""Totals of each scheme that only grow, made from kernel counters that start at zero again.

The statistics of DAMON begin at zero each time a kdamond is turned on. The files show the old
values until the next update. So a value that fell, or another pid, begins a new series of counts.
"""

import json
from collections.abc import Mapping
from dataclasses import field
from dataclasses import fields as dataclass_fields

from tierd.frozen import dataclass, replace
from tierd.machine.cputime import CpuTotal
from tierd.record import fields

FORMAT = "tierd.counters/1"


@dataclass(frozen=True, slots=True)
class Statistics:
    """Files of the `stats` directory of a scheme, or a sum of such."""

    sz_tried: int = 0
    sz_applied: int = 0
    qt_exceeds: int = 0

    def plus(self, other: "Statistics") -> "Statistics":
        return Statistics(
            self.sz_tried + other.sz_tried,
            self.sz_applied + other.sz_applied,
            self.qt_exceeds + other.qt_exceeds,
        )

    def since(self, before: "Statistics") -> "Statistics | None":
        """Return the growth since `before`, or None if a value fell."""
        tried = self.sz_tried - before.sz_tried
        applied = self.sz_applied - before.sz_applied
        exceeds = self.qt_exceeds - before.qt_exceeds
        return Statistics(tried, applied, exceeds) if min(tried, applied, exceeds) >= 0 else None


_STATISTICS = dataclass_fields(Statistics)


@dataclass(frozen=True, slots=True)
class Series:
    """A scheme: its total, the kernel counters that were read last, and the pid they belong to."""

    total: Statistics = field(default_factory=Statistics)
    seen: Statistics = field(default_factory=Statistics)
    pid: int = 0


@dataclass(frozen=True, slots=True)
class Passed:
    """Memory of a group of cgroups that was seen to come up to the fastest tier, or go down."""

    up_bytes: int = 0
    down_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of all schemes, by the name of their series, of kdamonds, and of groups."""

    series: Mapping[str, Series] = field(default_factory=dict)
    cpu: Mapping[int, CpuTotal] = field(default_factory=dict)
    """The processor time of the kdamonds of a node, by its id."""
    groups: Mapping[str, Passed] = field(default_factory=dict)

    def total(self, scheme: str) -> Statistics:
        found = self.series.get(scheme)
        return found.total if found else Statistics()


def advance(counters: Totals, scheme: str, pid: int, now: Statistics) -> Totals:
    """Return the totals after the kernel showed `now` for a scheme of the kdamond `pid`."""
    series = counters.series.get(scheme, Series())
    if series.pid == pid and series.seen == now:
        # Most schemes did nothing, and each tick asks for each of them.
        return counters
    growth = now.since(series.seen) if series.pid == pid else None
    after = Series(series.total.plus(growth if growth is not None else now), now, pid)
    return replace(counters, series={**counters.series, scheme: after})


def used(counters: Totals, node: int, total: CpuTotal) -> Totals:
    """Return the totals with another processor time of a node."""
    return replace(counters, cpu={**counters.cpu, node: total})


def passed(counters: Totals, moved: Mapping[str, tuple[int, int]]) -> Totals:
    """Return the totals after so many bytes of each group went up and down.

    Totals of other groups are forgotten: they are not configured any more.
    """
    known = {name: counters.groups.get(name, Passed()) for name in moved}
    groups = {
        name: Passed(known[name].up_bytes + up, known[name].down_bytes + down)
        for name, (up, down) in moved.items()
    }
    return replace(counters, groups=groups)


def further(one: Totals, other: Totals) -> Totals:
    """Return the later of two saved versions of the same totals, which only grow."""
    return one if _progress(one) >= _progress(other) else other


def _progress(counters: Totals) -> tuple[int, float, int]:
    """Return figures that grow whenever a scheme does anything, or memory of a group moves."""
    counts = sum(sum(_counts(one.total).values()) for one in counters.series.values())
    passing = sum(one.up_bytes + one.down_bytes for one in counters.groups.values())
    return counts, sum(one.total_s for one in counters.cpu.values()), passing


def to_text(counters: Totals, boot_id: str) -> str:
    """Return the text of the file. The boot id is in it, because a pid is valid within one boot."""
    # By hand, because dataclasses.asdict takes longer than all the rest, and this is done in each
    # round of the loop.
    series = {
        scheme: {"total": _counts(one.total), "seen": _counts(one.seen), "pid": one.pid}
        for scheme, one in sorted(counters.series.items())
    }
    cpu = {
        str(node): {"total_s": one.total_s, "pid": one.pid, "seen_s": one.seen_s}
        for node, one in sorted(counters.cpu.items())
    }
    groups = {
        name: {"up_bytes": one.up_bytes, "down_bytes": one.down_bytes}
        for name, one in sorted(counters.groups.items())
    }
    whole = {
        "format": FORMAT,
        "boot_id": boot_id,
        "series": series,
        "cpu": cpu,
        "groups": groups,
    }
    # One line, because it is written often.
    return json.dumps(whole) + "\n"


def _counts(one: Statistics) -> dict[str, int]:
    return {
        "sz_tried": one.sz_tried,
        "sz_applied": one.sz_applied,
        "qt_exceeds": one.qt_exceeds,
    }


def from_text(text: str, boot_id: str) -> Totals | None:
    """Return the totals of a text, or None if it is not valid. Totals then begin at zero."""
    try:
        raw = fields.document(text)
        if raw["format"] != FORMAT:
            return None
        same_boot = raw["boot_id"] == boot_id
        # Files of earlier versions do not have these fields.
        groups = fields.table(raw.get("groups", {})).items()
        cpu = fields.table(raw.get("cpu", {})).items()
        series = fields.table(raw["series"]).items()
        return Totals(
            {fields.name(scheme): _series(one, same_boot=same_boot) for scheme, one in series},
            {fields.node(node): _cpu(one, same_boot=same_boot) for node, one in cpu},
            {fields.name(name): _passed(one) for name, one in groups},
        )
    except (ValueError, KeyError, TypeError):
        return None


def _series(raw: object, *, same_boot: bool) -> Series:
    one = fields.table(raw)
    total, seen = _statistics(one["total"]), _statistics(one["seen"])
    pid = fields.pid(one["pid"])
    return Series(total, seen, pid) if same_boot else Series(total)


def _passed(raw: object) -> Passed:
    one = fields.table(raw)
    return Passed(fields.whole(one["up_bytes"]), fields.whole(one["down_bytes"]))


def _statistics(raw: object) -> Statistics:
    # Files of earlier versions have more counts.
    table = fields.table(raw)
    return Statistics(**{one.name: fields.whole(table[one.name]) for one in _STATISTICS})


def _cpu(raw: object, *, same_boot: bool) -> CpuTotal:
    one = fields.table(raw)
    total_s, seen_s = fields.seconds(one["total_s"]), fields.seconds(one["seen_s"])
    pid = fields.pid(one["pid"])
    return CpuTotal(total_s, pid, seen_s) if same_boot else CpuTotal(total_s)
