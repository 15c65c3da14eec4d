"""The loop of `tierd record`: it watches panels of pages, and writes what they show, line by line.

Rules of this file:
1. It changes the kernel only through `kdamonds`: the state to restore is on disk before the first
   change, a kdamond that is not ours is never written to, and the end puts everything back.
2. It never moves a page.
3. What it writes has no address, no name and no path in it.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import field
from random import Random

from tierd import figures
from tierd.clock import Clock
from tierd.errors import ExitCode, TierdError
from tierd.frozen import dataclass, replace
from tierd.kdamonds import apply, restore
from tierd.kdamonds.applied import Applied
from tierd.kdamonds.kernel import KdamondDied, Kernel
from tierd.loop import minutes
from tierd.loop.minutes import Joiner
from tierd.loop.outside import Store
from tierd.machine import caches, cputime
from tierd.machine.features import KDAMONDS, Capabilities
from tierd.plans.damon import Command
from tierd.profile import minute, panel
from tierd.profile.minute import MINUTE_S, Moment, tier_bytes
from tierd.profile.panel import LOOKS, Look, Memory, Panel
from tierd.profile.panel_plan import CLOSE, panel_plan
from tierd.profile.profile import Header, Line, Source, header_text, line_text
from tierd.profile.rates import BOUNDS_HZ, CLOSE_AGGR_US, CLOSE_SAMPLES, SAMPLES
from tierd.serving.inbox import Inbox
from tierd.topology import Topology

log = logging.getLogger("tierd")

# A kernel sleeps for whole ticks of its clock, and part of one more: its 50 ms are up to 60. So a
# panel has no count of a whole minute sooner. Later ones go on from the minute before.
TICKS = 1.2
FIRST_S = TICKS * MINUTE_S + 1.0
LATER_S = MINUTE_S + 1.0
# The same for a closer look.
CLOSE_S = TICKS * CLOSE_AGGR_US / 1e6 + 1.0

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
    moment: Moment
    """The counters of the machine at the end of the last minute."""
    lines: Joiner
    memory: Memory = field(default_factory=Memory)
    minutes: int = 0
    missed: int = 0
    stopped: bool = False
    """True if a signal came during a closer look."""
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
    moment = minutes.moment(around.kernel.sysfs, topology, around.clock)
    applied = apply.start(
        around.kernel, plan, around.store.record, saved=around.store.saved(), take_over=False
    )
    began_s, lines = around.clock.monotonic(), Joiner(lambda line: around.write(line_text(line)))
    now = _Watching(topology, capabilities, rng, first, applied, began_s, moment, lines)
    try:
        around.write(header_text(_header(around, now), BOUNDS_HZ))
        _watch(around, now, for_s)
    finally:
        # A full disk must not leave kdamonds behind.
        try:
            now.lines.end()
        finally:
            code = _put_back(around, now.applied)
    spent_s = max(1.0, around.clock.monotonic() - now.began_s)
    return code, Recorded(now.minutes, now.missed, len(first.pages), now.cpu.total_s / spent_s)


def _header(around: Around, now: _Watching) -> Header:
    began = around.wall_s() // MINUTE_S * MINUTE_S
    sizes = tuple(tier_bytes(now.topology).values())
    held = caches.total_bytes(around.kernel.sysfs, now.topology.cpus)
    pages, page_bytes = len(now.panel.pages), now.topology.page_bytes
    return Header(Source.panel, began, sizes, pages, held, page_bytes)


def _watch(around: Around, now: _Watching, for_s: float | None) -> None:
    """Take a look at the end of each minute."""
    due_s, failures = now.began_s + FIRST_S, 0
    end_s = None if for_s is None else now.began_s + max(for_s, FIRST_S) + 1.0
    while end_s is None or due_s <= end_s:
        if not minutes.waited(around.inbox, around.clock, due_s):
            return
        try:
            _minute(around, now)
            failures = 0
        except TierdError as error:
            failures, now.missed = failures + 1, now.missed + 1
            log.warning("a minute was missed: %s", error.with_hint())
            if failures > FAILURES_MAX:
                raise
            _again(around, now, error)
        if now.stopped:
            return
        if len(now.memory.hot) == 1:
            due_s -= FIRST_S - LATER_S
        # Also after a new panel, whose first minute begins only then.
        due_s = max(due_s + MINUTE_S, around.clock.monotonic() + MINUTE_S / 2)
        if len(now.memory.hot) >= LOOKS:
            _renew(around, now)
            due_s = around.clock.monotonic() + FIRST_S


def _minute(around: Around, now: _Watching) -> None:
    """Read the panel, and add what it shows to the profile."""
    around.kernel.patience.renew()
    hits = _hits(around, now.applied, now.panel.pages, SAMPLES)
    found, now.memory = panel.look(now.panel, hits, now.memory, SAMPLES)
    last = len(now.memory.hot) >= LOOKS
    _spent(around, now)
    close = _closer(around, now, hits) if last else ()
    before, marks = now.moment, now.moment.sample.watermarks
    now.moment = minutes.moment(around.kernel.sysfs, now.topology, around.clock, marks)
    now.lines.add(replace(_line(now, found, before), close=close))
    now.minutes += 1


def _spent(around: Around, now: _Watching) -> None:
    """Count what the kdamond has used."""
    pid = now.applied.pids[0]
    used_s = cputime.read(around.kernel.sysfs, pid, around.ticks_per_s)
    if used_s is not None:
        now.cpu = cputime.advance(now.cpu, pid, used_s)


def _closer(around: Around, now: _Watching, hits: Sequence[int]) -> tuple[int, ...]:
    """Look more closely at pages of the hottest class. This is the end of their panel."""
    chosen = panel.closer(now.panel, hits, SAMPLES, now.rng)
    if chosen is None:
        return ()
    plan = panel_plan(now.topology, now.capabilities, chosen, CLOSE)
    try:
        around.kernel.turn_off(0)
        now.applied = apply.change_plan(around.kernel, now.applied, plan, around.store.record)
        end_s = around.clock.monotonic() + CLOSE_S
        if not minutes.waited(around.inbox, around.clock, end_s):
            now.stopped = True
            return ()
        around.kernel.patience.renew()
        found = _hits(around, now.applied, chosen.pages, CLOSE_SAMPLES)
        _spent(around, now)
        return panel.close_counts(found)
    except TierdError as error:
        # The minute itself was read, and a new panel is next.
        log.warning("a closer look was missed: %s", error.with_hint())
        return ()


def _hits(around: Around, applied: Applied, pages: Sequence[int], samples: int) -> list[int]:
    """Return in how many of the last samples each of these pages was touched."""
    sysfs = around.kernel.sysfs
    apply.command(around.kernel, applied, 0, Command.update_tried)
    # Kernels number the regions in the order of their addresses, but some leave numbers out.
    names = sorted((name for name in sysfs.listdir(TRIED) if name.isdigit()), key=int)
    if len(names) != len(pages):
        raise TierdError(
            f"/{TRIED}: expected {len(pages)} regions, one for each page of the panel, "
            f"found {len(names)}",
            "the next panel may fit: memory that was taken away has no pages",
        )
    hits = []
    for name, page in zip(names, pages, strict=True):
        start = figures.number(f"{TRIED}/{name}/start", sysfs.reread(f"{TRIED}/{name}/start"))
        if start != page:
            raise TierdError(f"/{TRIED}/{name}/start: expected {page}, found {start}")
        path = f"{TRIED}/{name}/nr_accesses"
        # The count of the last minute fades while the next one grows: the sum may be one too many.
        hits.append(min(samples, figures.number(path, sysfs.reread(path))))
    apply.command(around.kernel, applied, 0, Command.clear_tried)
    return hits


def _line(now: _Watching, found: Look, before: Moment) -> Line:
    after = now.moment
    whole = sum(node.total_bytes for node in after.sample.nodes)
    number = round((after.sample.monotonic_s - now.began_s) / MINUTE_S) - 1
    return replace(
        minute.line(now.topology, before, after, found.heat_bytes, number),
        idle=tuple(None if one is None else min(1.0, one / whole) for one in found.idle_bytes),
        lasting=found.lasting,
        hot=found.hot,
        near=found.near,
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


def _put_back(around: Around, applied: Applied) -> ExitCode:
    restored = restore.restore_all(around.kernel, applied.saved)
    around.store.forget()
    for line in restored.left:
        log.warning("left %s", line)
    return ExitCode.degraded if restored.left else ExitCode.ok
