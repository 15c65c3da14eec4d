"""The loop of `tierd record`: it watches panels of pages, and writes what they show, line by line.

Rules of this file:
1. It changes the kernel only through `kdamonds`: the state to restore is on disk before the first
   change, a kdamond that is not ours is never written to, and the end puts everything back.
2. It never moves a page.
3. What it writes has no address, no name and no path in it.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from random import Random

from tierd import figures
from tierd.clock import Clock
from tierd.errors import ExitCode, TierdError
from tierd.kdamonds import apply, restore
from tierd.kdamonds.applied import Applied
from tierd.kdamonds.kernel import KdamondDied, Kernel
from tierd.loop.outside import Store
from tierd.machine import cputime
from tierd.machine.features import KDAMONDS, Capabilities
from tierd.machine.sample import Sample
from tierd.machine.sample_reader import VMSTAT, read_sample
from tierd.plans.damon import Command
from tierd.profile import gather, panel
from tierd.profile.panel import LOOKS, Look, Memory, Panel
from tierd.profile.panel_plan import panel_plan
from tierd.profile.profile import Header, Line, Source, header_text, line_text
from tierd.profile.rates import BOUNDS_HZ, SAMPLES
from tierd.serving.inbox import Inbox, Verb
from tierd.topology import Topology

log = logging.getLogger("tierd")

MINUTE_S = 60.0
# A kdamond sleeps a little longer than it is told, so its minute ends a little later.
FIRST_S = MINUTE_S + 1.0

TRIED = f"{KDAMONDS}/0/contexts/0/schemes/0/tried_regions"

# Looks that may fail one after another. Then something is wrong that does not pass by itself.
FAILURES_MAX = 5


@dataclass(frozen=True, slots=True)
class Around:
    """What the recorder acts through."""

    kernel: Kernel
    inbox: Inbox
    store: Store
    wall_s: Callable[[], float]
    write: Callable[[str], None]
    """Takes one line of the profile."""
    ticks_per_s: int = 100

    @property
    def clock(self) -> Clock:
        return self.kernel.clock


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a recording came to."""

    minutes: int
    missed: int
    """Minutes in which the panel could not be read."""
    pages: int
    cpu_share: float
    """The share of one processor that the kdamond used."""


@dataclass(slots=True)
class _Watching:
    """A recording that is under way."""

    topology: Topology
    capabilities: Capabilities
    rng: Random
    panel: Panel
    applied: Applied
    began_s: float
    memory: Memory = field(default_factory=Memory)
    sample: Sample | None = None
    events: tuple[int, int] = (0, 0)
    pending: Line | None = None
    minutes: int = 0
    missed: int = 0
    cpu: cputime.CpuTotal = field(default_factory=cputime.CpuTotal)


def run(
    around: Around,
    topology: Topology,
    capabilities: Capabilities,
    rng: Random,
    for_s: float | None,
) -> tuple[ExitCode, Recorded]:
    """Record until a signal comes, or for a time. Then put everything back."""
    first = panel.pick(topology, rng)
    plan = panel_plan(topology, capabilities, first)
    applied = apply.start(
        around.kernel, plan, around.store.record, saved=around.store.saved(), take_over=False
    )
    now = _Watching(topology, capabilities, rng, first, applied, around.clock.monotonic())
    try:
        around.write(header_text(_header(around, now), BOUNDS_HZ))
        _count(around, now)
        _watch(around, now, for_s)
    finally:
        if now.pending is not None:
            around.write(line_text(now.pending))
        code = _put_back(around, now)
    spent_s = max(1.0, around.clock.monotonic() - now.began_s)
    return code, Recorded(now.minutes, now.missed, len(first.pages), now.cpu.total_s / spent_s)


def _header(around: Around, now: _Watching) -> Header:
    tiers: dict[int, int] = {}
    for node in now.topology.nodes:
        tier = now.topology.tier_of(node.id)
        rank = tier.rank if tier else 0
        tiers[rank] = tiers.get(rank, 0) + node.size_bytes
    began = around.wall_s() // MINUTE_S * MINUTE_S
    sizes = tuple(tiers[rank] for rank in sorted(tiers))
    return Header(Source.panel, began, sizes, len(now.panel.pages))


def _watch(around: Around, now: _Watching, for_s: float | None) -> None:
    """Take a look at the end of each minute."""
    due_s, failures = now.began_s + FIRST_S, 0
    end_s = None if for_s is None else now.began_s + max(for_s, FIRST_S) + 1.0
    while end_s is None or due_s <= end_s:
        if not _waited(around, due_s):
            return
        try:
            _minute(around, now)
            failures = 0
        except TierdError as error:
            failures, now.missed = failures + 1, now.missed + 1
            log.warning("a minute was missed: %s. %s", error, error.hint)
            if failures > FAILURES_MAX:
                raise
            _again(around, now, error)
        # Also after a new panel, whose first minute begins only then.
        due_s = max(due_s + MINUTE_S, around.clock.monotonic() + MINUTE_S / 2)
        if len(now.memory.hot) >= LOOKS:
            _renew(around, now)
            due_s = around.clock.monotonic() + FIRST_S


def _waited(around: Around, due_s: float) -> bool:
    """Wait until a moment; return False if a signal to stop came."""
    while (left_s := due_s - around.clock.monotonic()) > 0:
        if any(event.verb is Verb.stop for event in around.inbox.wait(left_s)):
            return False
    return True


def _minute(around: Around, now: _Watching) -> None:
    """Read the panel, and add what it shows to the profile."""
    around.kernel.patience.renew()
    hits = _hits(around, now)
    found, now.memory = panel.look(now.panel, hits, now.memory, SAMPLES)
    before, events = now.sample, now.events
    _count(around, now)
    assert now.sample is not None
    line = _line(now, found, before or now.sample, events)
    done, now.pending = gather.added(now.pending, line)
    if done is not None:
        around.write(line_text(done))
    now.minutes += 1
    pid = now.applied.pids[0]
    used_s = cputime.read(around.kernel.sysfs, pid, around.ticks_per_s)
    if used_s is not None:
        now.cpu = cputime.advance(now.cpu, pid, used_s)


def _hits(around: Around, now: _Watching) -> list[int]:
    """Return in how many samples of the last minute each page of the panel was touched."""
    sysfs = around.kernel.sysfs
    apply.command(around.kernel, now.applied, 0, Command.update_tried)
    # Kernels number the regions in the order of their addresses, but some leave numbers out.
    names = sorted((name for name in sysfs.listdir(TRIED) if name.isdigit()), key=int)
    if len(names) != len(now.panel.pages):
        raise TierdError(
            f"/{TRIED}: expected {len(now.panel.pages)} regions, one for each page of the panel, "
            f"found {len(names)}",
            "the next panel may fit: memory that was taken away has no pages",
        )
    hits = []
    for name, page in zip(names, now.panel.pages, strict=True):
        start = figures.number(f"{TRIED}/{name}/start", sysfs.reread(f"{TRIED}/{name}/start"))
        if start != page:
            raise TierdError(f"/{TRIED}/{name}/start: expected {page}, found {start}")
        path = f"{TRIED}/{name}/nr_accesses"
        # The count of the last minute fades while the next one grows: the sum may be one too many.
        hits.append(min(SAMPLES, figures.number(path, sysfs.reread(path))))
    apply.command(around.kernel, now.applied, 0, Command.clear_tried)
    return hits


def _count(around: Around, now: _Watching) -> None:
    """Read the counters of the machine."""
    sysfs, at_s = around.kernel.sysfs, around.clock.monotonic()
    marks = now.sample.watermarks if now.sample else None
    now.sample = read_sample(sysfs, now.topology, {}, at_s, marks)
    counted = dict(line.split(" ", 1) for line in sysfs.reread(VMSTAT).splitlines() if " " in line)
    allocated = _sum(counted, (name for name in counted if name.startswith("pgalloc_")))
    now.events = (allocated, _sum(counted, [name for name in ("pgmajfault",) if name in counted]))


def _sum(counted: dict[str, str], names: Iterable[str]) -> int:
    return sum(figures.number(VMSTAT, counted[name]) for name in names)


def _line(now: _Watching, found: Look, before: Sample, events: tuple[int, int]) -> Line:
    assert now.sample is not None
    after, topology = now.sample, now.topology
    size: dict[int, int] = {}
    used: dict[int, int] = {}
    for node in after.nodes:
        tier = topology.tier_of(node.node)
        rank = tier.rank if tier else 0
        size[rank] = size.get(rank, 0) + node.total_bytes
        used[rank] = used.get(rank, 0) + node.used_bytes
    whole = sum(size.values())
    seconds = max(1.0, after.monotonic_s - before.monotonic_s)
    waited_us = 0
    if before.pressure is not None and after.pressure is not None:
        waited_us = after.pressure.some_us - before.pressure.some_us
    allocated, faults = (
        max(0, new - old) / seconds for new, old in zip(now.events, events, strict=True)
    )
    minute = round((after.monotonic_s - now.began_s) / MINUTE_S) - 1
    ranks = sorted(size)
    return Line(
        minute=max(0, minute),
        minutes=1,
        heat=tuple(
            tuple(min(1.0, one / size[rank]) for one in found.heat_bytes.get(rank, ()))
            for rank in ranks
        ),
        used=tuple(used[rank] / size[rank] for rank in ranks),
        idle=tuple(None if one is None else min(1.0, one / whole) for one in found.idle_bytes),
        lasting=found.lasting,
        hot=found.hot,
        near=found.near,
        alloc_bytes_per_s=round(allocated * now.panel.page_bytes),
        pressure=min(1.0, waited_us / (seconds * 1e6)),
        major_faults_per_s=faults,
    )


def _renew(around: Around, now: _Watching) -> None:
    """Watch other pages. A commit would wait for the end of a minute on some kernels."""
    now.panel, now.memory = panel.pick(now.topology, now.rng), Memory()
    plan = panel_plan(now.topology, now.capabilities, now.panel)
    around.kernel.turn_off(0)
    now.applied = apply.change_plan(around.kernel, now.applied, plan, around.store.record)


def _again(around: Around, now: _Watching, error: TierdError) -> None:
    """After a look that failed: turn a kdamond on again that has died, and begin the panel anew."""
    now.memory = Memory()
    if isinstance(error, KdamondDied):
        now.applied = apply.revive(around.kernel, now.applied, error.index, around.store.record)


def _put_back(around: Around, now: _Watching) -> ExitCode:
    restored = restore.restore_all(around.kernel, replace(now.applied.saved))
    around.store.forget()
    for line in restored.left:
        log.warning("left %s", line)
    return ExitCode.degraded if restored.left else ExitCode.ok
