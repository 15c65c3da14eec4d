"""What a tick sees of our kdamonds: statistics brought up to date, a sample, totals, the tuner.

Rules of this file:
1. Only the tuner's inputs are written here; a failure is the caller's to handle.
2. The kernel is asked for statistics as often as the tuner needs them, or as is cheap.
"""

from dataclasses import replace

from tierd.configuration.config import Mode
from tierd.kdamonds import apply
from tierd.kdamonds.apply import Applied
from tierd.loop import supervise, tuning
from tierd.loop.outside import Outside
from tierd.loop.running import Running
from tierd.loop.supervise import Refresh
from tierd.machine import cputime
from tierd.machine.cputime import CpuTotal
from tierd.machine.observe import Feature
from tierd.machine.sample import Sample, free_bytes, sample
from tierd.plans.damon import Command
from tierd.plans.plan import Loop
from tierd.record import counters
from tierd.record.counters import Statistics
from tierd.tuner.reading import Limits
from tierd.tuner.readout import limits


def look(outside: Outside, running: Running, applied: Applied) -> Running:
    """A new sample, and totals with it; `refresh` is another one if its statistics are new too."""
    running = _refresh_if_due(outside, running, applied)
    return _account(outside, running, applied, _sample(outside, running, applied))


def begin(running: Running, applied: Applied) -> Running:
    """Before the first sample."""
    known = limits_of(running, applied)
    return replace(running, tuning=tuning.begin(applied, known))


def tune(outside: Outside, running: Running, applied: Applied) -> Running:
    """Have the tuner look at the sample; where schemes only count, it only says what it sees."""
    if running.sample is None:
        return running
    known, now = limits_of(running, applied), running.sample
    if running.config.mode is Mode.observe:
        return replace(running, tuning=tuning.watch(applied, running.tuning, known, now))
    tuned = tuning.follow(
        outside.sysfs, outside.clock, applied, running.tuning, known, now, running.refresh
    )
    return replace(running, tuning=tuned)


def settle(outside: Outside, running: Running, applied: Applied) -> Running:
    """Take back growth whose windows have passed."""
    tuned = tuning.settle(outside.sysfs, outside.clock, applied, running.tuning)
    return replace(running, tuning=tuned)


def glance(outside: Outside, running: Running, applied: Applied) -> Running:
    """Have the tuner look at free memory, which needs no answer from a kdamond."""
    free = {one.id: free_bytes(outside.sysfs, one.id) for one in running.topology.nodes}
    known = limits_of(running, applied)
    tuned = tuning.glance(outside.sysfs, outside.clock, applied, running.tuning, known, free)
    return replace(running, tuning=tuned)


def leave(outside: Outside, running: Running, applied: Applied) -> None:
    """Leave quotas behind that nobody will look after."""
    known = limits_of(running, applied)
    tuning.make_safe(outside.sysfs, outside.clock, applied, running.tuning, known)


def limits_of(running: Running, applied: Applied) -> Limits:
    """What the tuner has to keep to."""
    return limits(
        applied.plan,
        running.config.headroom_bp,
        charges_failures=not running.capabilities.has(Feature.fail_charge),
    )


def _refresh_if_due(outside: Outside, running: Running, applied: Applied) -> Running:
    """Have the kernel update its statistics, as often as that is cheap."""
    began_s = outside.clock.monotonic()
    steers = applied.plan.tuner.loop is not Loop.kernel
    share_max = supervise.STEERING_SHARE_MAX if steers else supervise.REFRESH_SHARE_MAX
    if running.paused or not running.refresh.due(began_s, share_max):
        return running
    commands, quotas_s = 0, {}
    for health in apply.health(outside.sysfs, outside.clock, applied):
        by_kernel = bool(applied.plan.kdamonds[health.index].refresh_ms)
        if health.alive and not by_kernel:
            for what in _updates(running, applied, health.index):
                # A kdamond answers at its next sample; some kernels tell us so only long after.
                quotas_s[health.index] = outside.clock.monotonic()
                commands += 1
                apply.command(outside.sysfs, outside.clock, applied, health.index, what)
    done_s = outside.clock.monotonic()
    cost_s = done_s - began_s
    refresh = Refresh(done_s, cost_s, cost_s / max(1, commands), quotas_s)
    return replace(running, refresh=refresh)


def _updates(running: Running, applied: Applied, kdamond: int) -> tuple[Command, ...]:
    """What to ask of a kdamond, quotas last: not for those of which it is known that they stay."""
    mine = {item.id for item in applied.plan.items if item.kdamond == kdamond}
    if mine <= running.tuning.resting:
        return (Command.update_stats,)
    return (Command.update_stats, Command.update_effective)


def _sample(outside: Outside, running: Running, applied: Applied) -> Sample:
    return sample(
        outside.sysfs,
        running.topology,
        {
            watch.index: [s.scheme for s in applied.plan.sensors if s.kdamond == watch.index]
            for watch in applied.plan.watches
        },
        outside.clock.monotonic(),
        running.watermarks,
    )


def _account(outside: Outside, running: Running, applied: Applied, now: Sample) -> Running:
    """Add a reading to the totals."""
    totals = running.counters
    for kdamond in now.kdamonds:
        if kdamond.state != "on":
            continue
        for scheme in kdamond.schemes:
            item = applied.plan.item(kdamond.index, scheme.index)
            if item is None:
                continue
            said = Statistics(
                scheme.nr_tried,
                scheme.sz_tried,
                scheme.nr_applied,
                scheme.sz_applied,
                scheme.qt_exceeds,
            )
            totals = counters.advance(totals, applied.plan.series(item), kdamond.pid, said)
        used_s = cputime.read(outside.sysfs, kdamond.pid, outside.ticks_per_s)
        if used_s is not None:
            node = applied.plan.watches[kdamond.index].node
            before = totals.cpu.get(node, CpuTotal())
            totals = counters.used(totals, node, cputime.advance(before, kdamond.pid, used_s))
    return replace(running, counters=totals, before=running.sample, sample=now)
