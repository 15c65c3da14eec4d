"""Read our kdamonds in a tick: refresh statistics, take a sample, update totals, run the tuner.

Rules of this file:
1. Only the tuner's inputs are written here. The caller handles a failure.
2. The kernel updates its statistics as often as the tuner needs them, or as often as is cheap.
"""

from dataclasses import replace

from tierd.configuration.config import Mode
from tierd.kdamonds import apply, inspection
from tierd.kdamonds.applied import Applied
from tierd.loop import supervise, tuning
from tierd.loop.outside import Outside
from tierd.loop.running import Running
from tierd.loop.supervise import Refresh
from tierd.machine import cputime
from tierd.machine.cputime import CpuTotal
from tierd.machine.features import Feature
from tierd.machine.sample import Sample, free_bytes, sample
from tierd.plans.damon import Command
from tierd.plans.plan import Controller
from tierd.record import scheme_totals
from tierd.record.scheme_totals import Statistics
from tierd.tuner.measurement import Limits
from tierd.tuner.readout import limits


def look(outside: Outside, running: Running, applied: Applied) -> Running:
    """Return the state with a new sample and totals.

    `refresh` is a new object if the kernel has updated its statistics for this sample.
    """
    running = _refresh_if_due(outside, running, applied)
    return _account(outside, running, applied, _sample(outside, running, applied))


def read(outside: Outside, running: Running, applied: Applied) -> Running:
    """Return the state with only a new sample, of the statistics that the kernel has ready."""
    seen = _account(outside, running, applied, _sample(outside, running, applied))
    return replace(seen, before=None)


def begin(running: Running, applied: Applied) -> Running:
    """Return the state before the first sample."""
    known = limits_of(running, applied)
    return replace(running, tuning=tuning.begin(applied, known))


def tune(outside: Outside, running: Running, applied: Applied) -> Running:
    """Run the tuner on the sample. In observe mode it only says what it sees."""
    if running.sample is None:
        return running
    known, now = limits_of(running, applied), running.sample
    if running.config.mode is Mode.observe:
        return replace(running, tuning=tuning.watch(applied, running.tuning, known, now))
    tuned = tuning.follow(outside.kernel, applied, running.tuning, known, now, running.refresh)
    return replace(running, tuning=tuned)


def settle(outside: Outside, running: Running, applied: Applied) -> Running:
    """Write scheduled inputs that are due: they end growth."""
    tuned = tuning.settle(outside.kernel, applied, running.tuning)
    return replace(running, tuning=tuned)


def glance(outside: Outside, running: Running, applied: Applied) -> Running:
    """Run the tuner on free memory only. This needs no command to a kdamond."""
    free = {one.id: free_bytes(outside.sysfs, one.id) for one in running.topology.nodes}
    known = limits_of(running, applied)
    tuned = tuning.glance(outside.kernel, applied, running.tuning, known, free)
    return replace(running, tuning=tuned)


def leave(outside: Outside, running: Running, applied: Applied) -> None:
    """Write inputs with which quotas are safe without tierd."""
    known = limits_of(running, applied)
    tuning.make_safe(outside.kernel, applied, running.tuning, known)


def limits_of(running: Running, applied: Applied) -> Limits:
    """Return the limits of the tuner."""
    return limits(
        applied.plan,
        running.config.headroom_bp,
        charges_failures=not running.capabilities.has(Feature.fail_charge),
    )


def _refresh_if_due(outside: Outside, running: Running, applied: Applied) -> Running:
    """Have the kernel update its statistics, as often as that is cheap."""
    began_s = outside.clock.monotonic()
    steers = applied.plan.tuner.loop is not Controller.kernel
    share_max = supervise.STEERING_SHARE_MAX if steers else supervise.REFRESH_SHARE_MAX
    if running.paused or not running.refresh.due(began_s, share_max):
        return running
    commands, quotas_s = 0, {}
    for health in inspection.health(outside.kernel, applied):
        by_kernel = bool(applied.plan.kdamonds[health.index].refresh_ms)
        if health.alive and not by_kernel:
            for what in _updates(running, applied, health.index):
                # A kdamond answers at its next sample, but some kernels return from the command
                # much later.
                quotas_s[health.index] = outside.clock.monotonic()
                commands += 1
                apply.command(outside.kernel, applied, health.index, what)
    done_s = outside.clock.monotonic()
    cost_s = done_s - began_s
    refresh = Refresh(done_s, cost_s, cost_s / max(1, commands), quotas_s)
    return replace(running, refresh=refresh)


def _updates(running: Running, applied: Applied, kdamond: int) -> tuple[Command, ...]:
    """Return the commands for a kdamond. Quotas come last, and are left out if all are parked."""
    mine = {item.id for item in applied.plan.items if item.kdamond == kdamond}
    if mine <= running.tuning.parked:
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
            totals = scheme_totals.advance(totals, applied.plan.series(item), kdamond.pid, said)
        used_s = cputime.read(outside.sysfs, kdamond.pid, outside.ticks_per_s)
        if used_s is not None:
            node = applied.plan.watches[kdamond.index].node
            before = totals.cpu.get(node, CpuTotal())
            totals = scheme_totals.used(totals, node, cputime.advance(before, kdamond.pid, used_s))
    return replace(running, counters=totals, before=running.sample, sample=now)
