"""Read our kdamonds in a tick, have `feedback` decide, and write its inputs to the kernel.

Rules of this file:
1. Only the inputs of goals are written here, and the limit of hint faults; none twice. The caller
   handles a failure.
2. The kernel updates its statistics as often as the tuner needs them, or as often as is cheap.
"""

from collections.abc import Mapping, Set
from itertools import groupby
from operator import attrgetter

from tierd import feedback
from tierd.configuration.config import Mode
from tierd.feedback import GLANCE_S, Inputs, Timing, Tuning
from tierd.frozen import replace
from tierd.kdamonds import apply
from tierd.kdamonds.applied import Applied
from tierd.kdamonds.kernel import Kernel
from tierd.kdamonds.restore import PARKED_SETTING
from tierd.loop import supervise
from tierd.loop.outside import Outside
from tierd.loop.running import Running
from tierd.loop.supervise import Pace, Refresh
from tierd.machine import cgroup_memory, cputime
from tierd.machine.cputime import CpuTotal
from tierd.machine.features import Feature
from tierd.machine.numa_balancing import PROMOTE_RATE_LIMIT
from tierd.machine.sample_reader import free_bytes, read_sample
from tierd.plans import groups
from tierd.plans.damon import Command, Write
from tierd.plans.plan import Controller, input_writes
from tierd.record import scheme_totals
from tierd.record.scheme_totals import Statistics
from tierd.tuner import fallbacks, hint_faults, latencies
from tierd.tuner.measurement import Limits


def begin(running: Running, applied: Applied) -> Running:
    """Return the state before the first sample."""
    return replace(running, tuning=feedback.begin(_limits(running, applied), applied.grows_s))


def refresh(outside: Outside, running: Running, applied: Applied, alive: Set[int]) -> Running:
    """Have the kernel update the statistics of the kdamonds that are alive, if that is cheap now.

    If it did, the state has a new `refresh`.
    """
    began_s = outside.clock.monotonic()
    steers = applied.plan.tuner.loop is not Controller.kernel
    share_max = supervise.STEERING_SHARE_MAX if steers else supervise.REFRESH_SHARE_MAX
    if running.paused or not running.refresh.due(began_s, share_max):
        return running
    commands, quotas_s = 0, {}
    for kdamond in sorted(alive):
        if applied.plan.kdamonds[kdamond].refresh_ms:
            # The kernel does it by itself.
            continue
        mine = {one.id for one in applied.plan.of_regions if one.kdamond == kdamond}
        # Parked quotas do not change. The others come last, because they change the soonest.
        quotas = () if mine <= running.tuning.parked else (Command.update_effective,)
        for what in (Command.update_stats, *quotas):
            # A kdamond answers at its next sample, but some kernels return from the command much
            # later.
            quotas_s[kdamond] = outside.clock.monotonic()
            commands += 1
            apply.command(outside.kernel, applied, kdamond, what)
    done_s = outside.clock.monotonic()
    cost_s = done_s - began_s
    return replace(running, refresh=Refresh(done_s, cost_s, cost_s / max(1, commands), quotas_s))


def read(outside: Outside, running: Running, applied: Applied) -> Running:
    """Return the state with a new sample, and totals that count it."""
    plan = applied.plan
    now = read_sample(
        outside.sysfs,
        running.topology,
        {
            watch.index: [s.scheme for s in plan.sensors if s.kdamond == watch.index]
            for watch in plan.watches
        },
        outside.clock.monotonic(),
        running.watermarks,
    )
    now = replace(now, latencies=outside.latencies(running.topology, _asked(running, applied)))
    if plan.groups:
        tops = {one.name: one.tops for one in plan.groups}
        limited = {one.name for one in plan.groups if one.share.follows_limits}
        now = replace(now, groups=cgroup_memory.read(outside.sysfs, tops, limited))
    totals = running.counters
    earlier = running.sample
    if now.groups and earlier is not None and earlier.groups:
        fast = running.topology.tiers[0].nodes
        totals = scheme_totals.passed(totals, groups.passed(earlier.groups, now.groups, fast))
    for kdamond in now.kdamonds:
        if kdamond.state != "on":
            continue
        for scheme in kdamond.schemes:
            migration = plan.migration(kdamond.index, scheme.index)
            if migration is None:
                continue
            said = Statistics(scheme.sz_tried, scheme.sz_applied, scheme.qt_exceeds)
            totals = scheme_totals.advance(totals, plan.series(migration), kdamond.pid, said)
        used_s = cputime.read(outside.sysfs, kdamond.pid, outside.ticks_per_s)
        if used_s is not None:
            node = plan.watches[kdamond.index].node
            before = totals.cpu.get(node, CpuTotal())
            totals = scheme_totals.used(totals, node, cputime.advance(before, kdamond.pid, used_s))
    return replace(running, counters=totals, before=running.sample, sample=now)


def _asked(running: Running, applied: Applied) -> Mapping[int, tuple[int, ...]]:
    """Return the slower nodes of each fast node whose latency matters now."""
    if not running.config.measures_latency or running.config.mode is Mode.observe:
        return {}
    ups = fallbacks.judging(applied.plan.migrations)
    return latencies.asked(ups, running.tuning.controller.answers)


def step(outside: Outside, running: Running, applied: Applied) -> Running:
    """Decide by the sample, and write. In observe mode decisions are reported and not written."""
    if running.sample is None:
        return running
    timing = Timing(
        outside.clock.monotonic(),
        running.refresh.command_s,
        running.refresh.quotas_s,
        {node: one.total_s for node, one in running.counters.cpu.items()},
    )
    limits = _limits(running, applied)
    tuning, inputs = feedback.step(running.tuning, applied.plan, limits, running.sample, timing)
    if running.config.mode is Mode.observe:
        return replace(running, tuning=tuning)
    return _act(outside, running, applied, tuning, inputs)


def glance(outside: Outside, running: Running, applied: Applied) -> Running:
    """Decide again by free memory only. Reading it needs no command to a kdamond."""
    free = {one.id: free_bytes(outside.sysfs, one.id) for one in running.topology.nodes}
    limits, now_s = _limits(running, applied), outside.clock.monotonic()
    tuning, inputs = feedback.glance(running.tuning, limits, free, now_s)
    return _act(outside, running, applied, tuning, inputs)


def settle(outside: Outside, running: Running, applied: Applied) -> Running:
    """Write scheduled inputs that are due: they end growth."""
    inputs = running.tuning.due(outside.clock.monotonic())
    return replace(running, tuning=_write(outside.kernel, applied, running.tuning, inputs))


def leave(outside: Outside, running: Running, applied: Applied) -> None:
    """Write inputs with which quotas are safe without tierd."""
    inputs = feedback.safe(_limits(running, applied))
    _write(outside.kernel, applied, running.tuning, inputs)
    park_hint_faults(outside.kernel, applied)


def park_hint_faults(kernel: Kernel, applied: Applied) -> None:
    """Have hint faults promote nothing, for as long as nobody makes room for it."""
    if applied.plan.hint_faults:
        kernel.put(Write(PROMOTE_RATE_LIMIT, PARKED_SETTING))


def _limits(running: Running, applied: Applied) -> Limits:
    return Limits(
        controller=applied.plan.tuner.loop,
        migrations=applied.plan.of_regions,
        page_bytes=applied.plan.page_bytes,
        headroom_bp=running.config.headroom_bp,
        charges_failures=not running.capabilities.has(Feature.fail_charge),
        sweeps=applied.plan.sweeps,
        cost_bp=applied.plan.cost_bp,
        cold_s_min=running.config.cold_age_ms_min / 1000,
        groups=applied.plan.groups,
        roles=running.roles,
        fast_nodes=tuple(running.topology.tiers[0].nodes) if applied.plan.groups else (),
        hint_faults=applied.plan.hint_faults,
    )


def _act(
    outside: Outside, running: Running, applied: Applied, tuning: Tuning, inputs: Inputs
) -> Running:
    """Write what was decided: all that a decision changes in the kernel is written here."""
    tuning = _write(outside.kernel, applied, tuning, inputs)
    tuning = _limit_hint_faults(outside.kernel, applied, tuning)
    return replace(running, tuning=_with_glance(outside.kernel, tuning, running.pace))


def _limit_hint_faults(kernel: Kernel, applied: Applied, tuning: Tuning) -> Tuning:
    """Write the rate limit of hint faults, if it has changed by much."""
    listed = [one.id for one in applied.plan.hint_faults if one.id in tuning.wants]
    units = hint_faults.next_units(tuning.hint_units, (tuning.wants[name] for name in listed))
    if units is None:
        return tuning
    kernel.put(Write(PROMOTE_RATE_LIMIT, str(units)))
    return replace(tuning, hint_units=units)


def _with_glance(kernel: Kernel, tuning: Tuning, pace: Pace) -> Tuning:
    """Set the time of the next glance."""
    glance_s = kernel.clock.monotonic() + GLANCE_S * pace.slower if tuning.glances else None
    return replace(tuning, glance_s=glance_s)


def _write(kernel: Kernel, applied: Applied, tuning: Tuning, inputs: Inputs) -> Tuning:
    """Write the inputs that are not in force yet."""
    steered = sorted(applied.plan.steered, key=attrgetter("kdamond"))
    for _, movers in groupby(steered, key=attrgetter("kdamond")):
        wants = [(one, inputs[one.id]) for one in movers if one.id in inputs]
        # A kdamond uses the input from its next sample. Some kernels return from the command much
        # later.
        since_s = kernel.clock.monotonic()
        new = tuple(
            write
            for one, want in wants
            if not tuning.is_in_force(one.id, want)
            for write in input_writes(one, want.value)
        )
        if new:
            apply.tune(kernel, applied, new)
        tuning = feedback.written(tuning, wants, since_s, kernel.clock.monotonic())
    return tuning
