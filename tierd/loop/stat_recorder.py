"""The loop of `tierd record --damon-stat`: it reads what the kernel's module damon_stat exports.

It changes nothing, so it may run beside whoever uses DAMON. It needs a kernel of 6.17 or later,
where damon_stat is on.
"""

from collections.abc import Callable
from dataclasses import field
from math import ceil

from tierd.clock import Clock
from tierd.errors import TierdError, Unsupported
from tierd.frozen import dataclass, replace
from tierd.loop import minutes
from tierd.loop.minutes import Joiner
from tierd.machine import caches
from tierd.profile import minute, stat
from tierd.profile.minute import MINUTE_S, Moment, tier_bytes
from tierd.profile.profile import Header, Source, header_text, line_text
from tierd.profile.rates import BOUNDS_HZ
from tierd.profile.stat import Stat
from tierd.serving.inbox import Inbox
from tierd.sysfs import Sysfs
from tierd.topology import Topology

FOLDER = "sys/module/damon_stat/parameters"

# The module renews its figures every five seconds.
LOOK_S = 10.0
LOOKS_PER_MINUTE = round(MINUTE_S / LOOK_S)


@dataclass(frozen=True, slots=True)
class Around:
    """What the recorder acts through."""

    sysfs: Sysfs
    inbox: Inbox
    clock: Clock
    wall_s: Callable[[], float]
    write: Callable[[str], None]
    """Takes one line of the profile."""


@dataclass(slots=True)
class _Watching:
    began_s: float
    before: Moment
    lines: Joiner
    minutes: int = 0
    looks: list[Stat] = field(default_factory=list)


def require(sysfs: Sysfs) -> None:
    """Raise Unsupported if damon_stat is not there, or is off."""
    if not sysfs.exists(f"{FOLDER}/memory_idle_ms_percentiles"):
        raise Unsupported(
            f"there is no /{FOLDER}/memory_idle_ms_percentiles",
            "the kernel must be 6.17 or later, built with CONFIG_DAMON_STAT; `tierd record` "
            "without --damon-stat needs neither",
        )
    if sysfs.read(f"{FOLDER}/enabled").strip() not in ("Y", "1"):
        raise Unsupported(
            f"/{FOLDER}/enabled is off, so damon_stat counts nothing",
            f"`echo Y > /{FOLDER}/enabled`; while tierd runs it is off, and tierd keeps a profile "
            "itself (`loop.profile`)",
        )


def run(around: Around, topology: Topology, for_s: float | None) -> int:
    """Record until a signal comes, or for a time. Return the minutes that were recorded."""
    require(around.sysfs)
    # damon_stat does not say where memory is, so all of it counts as one tier.
    topology = replace(topology, tiers=())
    (size_bytes,) = tier_bytes(topology).values()
    began = around.wall_s() // MINUTE_S * MINUTE_S
    held = caches.total_bytes(around.sysfs, topology.cpus)
    header = Header(Source.damon_stat, began, (size_bytes,), 0, held, topology.page_bytes)
    around.write(header_text(header, BOUNDS_HZ))
    before = minutes.moment(around.sysfs, topology, around.clock)
    lines = Joiner(lambda line: around.write(line_text(line)))
    now = _Watching(around.clock.monotonic(), before, lines)
    most = None if for_s is None else ceil(max(for_s, MINUTE_S) / LOOK_S)
    # Looks are counted. A sum of times is not exact, and the last minute would be lost to it.
    looked = 0
    try:
        while most is None or looked < most:
            looked += 1
            if not minutes.waited(around.inbox, around.clock, now.began_s + looked * LOOK_S):
                break
            _look(around, now)
            if looked % LOOKS_PER_MINUTE == 0:
                _minute(around, now, topology, size_bytes)
    finally:
        now.lines.end()
    return now.minutes


def _look(around: Around, now: _Watching) -> None:
    require(around.sysfs)
    names = ("memory_idle_ms_percentiles", "estimated_memory_bandwidth")
    idle, bandwidth = (around.sysfs.reread(f"{FOLDER}/{name}") for name in names)
    found = stat.parse(f"/{FOLDER}", idle, bandwidth)
    if not stat.says_nothing(found):
        now.looks.append(found)


def _minute(around: Around, now: _Watching, topology: Topology, size_bytes: int) -> None:
    after = minutes.moment(around.sysfs, topology, around.clock)
    if not now.looks:
        raise TierdError(f"/{FOLDER}: all figures are zero for a minute", "is damon_stat on?")
    heat = stat.classes(now.looks, size_bytes)
    now.lines.add(minute.line(topology, now.before, after, {0: heat}, now.minutes))
    now.before, now.minutes = after, now.minutes + 1
    now.looks.clear()
