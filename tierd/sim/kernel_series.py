"""Kernel series: the files of each series as recorded.

`series/damon-<series>.tree` is the recorded listing of the DAMON directory, with one of each
object. `series/files-<series>.json` is what tools/capture_series.py found on the same kernel. How a
series behaves cannot be recorded and is stated in quirks.py.
"""

import json
from collections.abc import Mapping
from dataclasses import field
from functools import cache
from importlib.resources import files
from typing import Any

from tierd.errors import TierdError
from tierd.frozen import dataclass
from tierd.machine import btf
from tierd.sim import quirks
from tierd.sim.damon_directory import DirectoryTemplate, Keywords, parse_listing, template
from tierd.sim.quirks import KdamondQuirks, SysfsQuirks

_COMMANDS = (
    "on",
    "off",
    "commit",
    "commit_schemes_quota_goals",
    "update_schemes_stats",
    "update_schemes_tried_bytes",
    "update_schemes_tried_regions",
    "clear_schemes_tried_regions",
    "update_schemes_effective_quotas",
)


@dataclass(frozen=True, slots=True)
class Field:
    """A line of a meminfo file: name, spaces, width of the figure, text after it."""

    name: str
    spaces: int
    width: int
    after: str

    def line(self, value: int) -> str:
        return f"{self.name}:{' ' * self.spaces}{value:>{self.width}}{self.after}"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A file below parameters/ or /proc/sys: its mode, and its text on an idle machine."""

    mode: int
    text: str


@dataclass(frozen=True, slots=True)
class Zoneinfo:
    """The names in /proc/zoneinfo, and the lines that are the same for all zones."""

    node: tuple[str, ...]
    zone: tuple[str, ...]
    pageset: tuple[str, ...]
    tail: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KernelSeries:
    """A kernel series: its name, its files, and its quirks."""

    name: str
    release: str
    kdamond_quirks: KdamondQuirks
    sysfs_quirks: SysfsQuirks
    listing: Mapping[str, str]
    template: DirectoryTemplate
    operations: tuple[str, ...]
    commands: tuple[str, ...]
    modules: Mapping[str, Mapping[str, Parameter]]
    modules_on: tuple[str, ...]
    vmstat: tuple[str, ...]
    node_vmstat: tuple[str, ...]
    meminfo: tuple[Field, ...]
    node_meminfo: tuple[Field, ...]
    zoneinfo: Zoneinfo
    sysctl_vm: Mapping[str, Parameter]
    lru_gen: str
    types: bytes = field(repr=False)


SERIES = tuple(quirks.SYSFS)


@cache
def load(series: str) -> KernelSeries:
    """Return the series of this name, such as "6.12"."""
    if series not in SERIES:
        raise TierdError(f"no kernel series {series!r}", f"there are: {', '.join(SERIES)}")
    folder = files("tierd.sim") / "series"
    raw = json.loads((folder / f"files-{series}.json").read_text())
    listing = parse_listing((folder / f"damon-{series}.tree").read_text())
    sysfs_quirks = quirks.SYSFS[series]
    words = {name: tuple(known) for name, known in raw["words"].items()}
    keywords = Keywords(**words, boolean=sysfs_quirks.boolean, locks_paths=sysfs_quirks.locks_paths)
    return KernelSeries(
        name=series,
        release=raw["release"],
        kdamond_quirks=quirks.KDAMOND[series],
        sysfs_quirks=sysfs_quirks,
        listing=listing,
        template=template(listing, keywords),
        operations=words["operations"],
        commands=_COMMANDS + (("update_tuned_intervals",) if sysfs_quirks.tuned_intervals else ()),
        modules={name: _parameters(known) for name, known in raw["modules"].items()},
        modules_on=tuple(raw["modules_on"]),
        vmstat=tuple(raw["vmstat"]),
        node_vmstat=tuple(raw["node_vmstat"]),
        meminfo=tuple(Field(*line) for line in raw["meminfo"]),
        node_meminfo=tuple(Field(*line) for line in raw["node_meminfo"]),
        zoneinfo=Zoneinfo(**{name: tuple(known) for name, known in raw["zoneinfo"].items()}),
        sysctl_vm=_parameters(raw["sysctl_vm"]),
        lru_gen=raw["lru_gen"],
        types=btf.encode(raw["btf"]["names"], raw["btf"]["structs"]),
    )


def _parameters(raw: Mapping[str, Any]) -> dict[str, Parameter]:
    return {name: Parameter(int(mode, 8), text) for name, (mode, text) in raw.items()}
