"""Totals that only grow, made of kernel counters that start again with every kdamond.

DAMON's statistics live in the running context: they begin at zero with each `on` and vanish with
it, and the files keep showing the old ones until the next update. So a series is known by its
scheme and the pid of its kdamond, and a value that went back, or another pid, begins a new one.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from tierd.machine.cputime import CpuTotal

FORMAT = "tierd.counters/1"


@dataclass(frozen=True, slots=True)
class Statistics:
    """What one scheme's `stats` directory says, or a sum of such."""

    nr_tried: int = 0
    sz_tried: int = 0
    nr_applied: int = 0
    sz_applied: int = 0
    qt_exceeds: int = 0

    def plus(self, other: "Statistics") -> "Statistics":
        return Statistics(
            self.nr_tried + other.nr_tried,
            self.sz_tried + other.sz_tried,
            self.nr_applied + other.nr_applied,
            self.sz_applied + other.sz_applied,
            self.qt_exceeds + other.qt_exceeds,
        )

    def since(self, before: "Statistics") -> "Statistics | None":
        """The growth since `before`, or None if anything went back."""
        growth = Statistics(
            self.nr_tried - before.nr_tried,
            self.sz_tried - before.sz_tried,
            self.nr_applied - before.nr_applied,
            self.sz_applied - before.sz_applied,
            self.qt_exceeds - before.qt_exceeds,
        )
        return None if min(asdict(growth).values()) < 0 else growth


@dataclass(frozen=True, slots=True)
class Series:
    """One scheme: its total, and the kernel's own numbers as last seen, with whose they were."""

    total: Statistics = field(default_factory=Statistics)
    seen: Statistics = field(default_factory=Statistics)
    pid: int = 0


@dataclass(frozen=True, slots=True)
class Counters:
    """All schemes, by the names that the plan has for their series; and what watching costs."""

    series: Mapping[str, Series] = field(default_factory=dict)
    cpu: Mapping[int, CpuTotal] = field(default_factory=dict)
    """Of the kdamonds that watch a node, by its id."""

    def total(self, scheme: str) -> Statistics:
        found = self.series.get(scheme)
        return found.total if found else Statistics()


def advance(counters: Counters, scheme: str, pid: int, now: Statistics) -> Counters:
    """The counters after the kernel said `now` for a scheme whose kdamond is `pid`."""
    series = counters.series.get(scheme, Series())
    growth = now.since(series.seen) if series.pid == pid else None
    after = Series(series.total.plus(growth if growth is not None else now), now, pid)
    return replace(counters, series={**counters.series, scheme: after})


def used(counters: Counters, node: int, total: CpuTotal) -> Counters:
    """The counters after the kdamond of a node has used processor time."""
    return replace(counters, cpu={**counters.cpu, node: total})


def to_text(counters: Counters, boot_id: str) -> str:
    """The counters as the text of their file; pids mean something only within one boot."""
    series = {scheme: asdict(one) for scheme, one in sorted(counters.series.items())}
    cpu = {str(node): asdict(one) for node, one in sorted(counters.cpu.items())}
    whole = {"format": FORMAT, "boot_id": boot_id, "series": series, "cpu": cpu}
    return json.dumps(whole, indent=1) + "\n"


def from_text(text: str, boot_id: str) -> Counters | None:
    """The counters of a file's text, or None if it is not one (then they begin at zero)."""
    try:
        raw = json.loads(text)
        if raw["format"] != FORMAT:
            return None
        same_boot = raw["boot_id"] == boot_id
        return Counters(
            {
                scheme: Series(
                    total=Statistics(**one["total"]),
                    seen=Statistics(**one["seen"]) if same_boot else Statistics(),
                    pid=one["pid"] if same_boot else 0,
                )
                for scheme, one in raw["series"].items()
            },
            {
                int(node): CpuTotal(**one) if same_boot else CpuTotal(one["total_s"])
                # Files of earlier versions have none.
                for node, one in raw.get("cpu", {}).items()
            },
        )
    except (ValueError, KeyError, TypeError):
        return None
