"""The loop of the daemon: its start, its ticks, its end, and what it does after a failure.

Rules of this file:
1. Time, files, events and the kernel are passed in as `Outside`. The state of the loop is
   `Running`. It is frozen: each step returns a new one.
2. A TierdError ends a tick, not the daemon. The state becomes `degraded`, and the tick is tried
   again with back-off. Only a start that cannot succeed ends the process.
3. An event is logged once. `force.say` does that: it logs the event and adds it to the state.
"""

from collections.abc import Callable
from functools import partial

from tierd.configuration.config import Config, OnConflict, OnStop
from tierd.errors import Conflict, ExitCode, TierdError, Unsupported
from tierd.feedback import Tuning
from tierd.frozen import replace
from tierd.kdamonds import apply, inspection, ownership, restore
from tierd.kdamonds.applied import Applied, CgroupsGone
from tierd.kdamonds.inspection import Health
from tierd.loop import asked, force, inversions, steering, supervise
from tierd.loop.follow import filtered_anew, follow, next_look_s
from tierd.loop.outside import Outside
from tierd.loop.running import WHOLE, Running, reason_of
from tierd.loop.supervise import Debounce, Retry
from tierd.machine import discovery, features, processes
from tierd.machine import neighbours as others
from tierd.plans.plan import Controller, Plan
from tierd.serving.inbox import Answer, Event, Verb
from tierd.sysfs import Sysfs
from tierd.units import format_ids

# Hotplug events come in bursts, one per memory block. A burst ends after a second without events,
# or after three seconds in any case, so that a new plan follows within five.
HOTPLUG_QUIET_S = 1.0
HOTPLUG_LATE_S = 3.0

# Seconds between two scans of the machine. Uevents can be lost (ENOBUFS); a container has none.
RESCAN_S = 60.0

# Seconds between two synced saves of the totals. A power cut loses at most this much, and a kill
# loses nothing.
COUNTERS_SAVE_S = 10.0

# How many times sweeps are opened or closed in a tick if cgroups disappear meanwhile. New filters
# are committed each time, and these commits change the sweeps as well.
STEERS_MAX = 3

STOPPING = Answer(int(ExitCode.not_running), "tierd is stopping")


def run(outside: Outside, config: Config, for_s: float | None = None) -> ExitCode:
    """Start, loop until a stop or for a time, and leave the machine as it was found."""
    began_s = outside.clock.monotonic()
    running = begin(outside, config)
    running = force.say(outside, running, "running", reason_of(running))
    end_s = None if for_s is None else began_s + for_s
    stopping = False
    next_tick_s = began_s
    try:
        while not stopping:
            # A tick takes several windows on some kernels, so due inputs are written first.
            running = follow(outside, settle(outside, running))
            now_s = outside.clock.monotonic()
            if now_s >= _begins_s(running, next_tick_s, now_s):
                running = tick(outside, running)
                running = _paced(outside, running, now_s)
                # Ticks that were missed, for example in a suspend, are not made up for.
                next_tick_s = max(next_tick_s + _tick_s(running), now_s)
            else:
                running = glance(outside, running)
            until_s = min(
                moment
                for moment in (
                    _begins_s(running, next_tick_s, outside.clock.monotonic()),
                    end_s,
                    running.tuning.due_s,
                    running.tuning.glance_s,
                    next_look_s(running),
                )
                if moment is not None
            )
            events = outside.inbox.wait(until_s - outside.clock.monotonic())
            # All that follows, until the loop waits again, shares one bound for EBUSY.
            outside.kernel.patience.renew()
            running, stopping = _heard(outside, running, events)
            stopping = stopping or (end_s is not None and outside.clock.monotonic() >= end_s)
    finally:
        outside.kernel.patience.renew()
        code = end(outside, running)
    return code


def _tick_s(running: Running) -> float:
    """Return the seconds between two ticks: half as many at the start and while memory moves."""
    steers = running.applied is not None and running.applied.plan.tuner.loop is Controller.demand
    usual_s = running.config.tick_ms / (2000 if running.tuning.active and steers else 1000)
    return usual_s * running.pace.slower


def _paced(outside: Outside, running: Running, began_s: float) -> Running:
    now_s, used_s = outside.clock.monotonic(), outside.processor_s()
    return replace(running, pace=running.pace.ticked(began_s, now_s, used_s))


def _begins_s(running: Running, next_tick_s: float, now_s: float) -> float:
    """Return when the next tick begins. It waits for a scheduled input that is due during the tick.

    A tick takes several windows on some kernels, and where Python is slow. A quota would grow on in
    them, and a sweep would go on.
    """
    due_s, least_s = running.tuning.due_s, max(next_tick_s, now_s)
    if due_s is not None and least_s < due_s < least_s + running.pace.tick_s:
        return due_s
    return next_tick_s


def begin(outside: Outside, config: Config) -> Running:
    """Start the first plan. An error here ends the process: it cannot work, or others use DAMON."""
    topology = discovery.discover(outside.sysfs, config.tiers, config.bandwidths)
    capabilities = features.probe(outside.sysfs)
    features.require_migration(capabilities)
    now_s = outside.clock.monotonic()
    running = Running(
        config=config,
        topology=topology,
        capabilities=capabilities,
        counters=outside.store.counters(),
        rescan_s=now_s + RESCAN_S,
        counters_saved_s=now_s,
    )
    running = _start(outside, running)
    return replace(running, conflicts=_rivals(outside.sysfs, running))


def tick(outside: Outside, running: Running) -> Running:
    """Do one round: rescan, revive, read, tune, save and publish."""
    began_s = outside.clock.monotonic()
    running = _rescan_if_due(outside, running, began_s)
    try:
        running = _settled(outside, _work(outside, running, began_s))
        running = inversions.noticed(outside, running, began_s)
    except TierdError as error:
        running = force.troubled(outside, running, error, WHOLE)
    if not running.cpu_before_s:
        used = {node: cpu.total_s for node, cpu in running.counters.cpu.items()}
        running = replace(running, cpu_before_s=used)
    running = _tell_of_books(outside, _save_counters(outside, running, began_s))
    force.publish(outside, running, began_s)
    return running


def settle(outside: Outside, running: Running) -> Running:
    """Write scheduled inputs until none is due.

    Another one may become due during a write. After a tick it would be ten windows too late.
    """
    while running.applied is not None and running.tuning.due(outside.clock.monotonic()):
        try:
            running = _steered(outside, running, steering.settle)
        except TierdError as error:
            return force.troubled(outside, replace(running, tuning=Tuning()), error, WHOLE)
    return running


def glance(outside: Outside, running: Running) -> Running:
    """Look at free memory, if that is due."""
    moment_s = running.tuning.glance_s
    if running.applied is None or moment_s is None or outside.clock.monotonic() < moment_s:
        return running
    try:
        return _steered(outside, running, steering.glance)
    except TierdError as error:
        return force.troubled(outside, replace(running, tuning=Tuning()), error, WHOLE)


def _steered(
    outside: Outside, running: Running, act: Callable[[Outside, Running, Applied], Running]
) -> Running:
    """Act on the plan in force. If a commit is refused because a cgroup has gone, try again.

    Who removes cgroups all the time gets a plan that needs fewer commits.
    """
    refused = False
    for _ in range(STEERS_MAX):
        try:
            if refused:
                running = filtered_anew(outside, running)
            return running if running.applied is None else act(outside, running, running.applied)
        except CgroupsGone as error:
            running, refused = force.without_gone(outside, running, error), True
    now_s = outside.clock.monotonic()
    return replace(running, careful_s=now_s, rescan_s=now_s)


def _heard(outside: Outside, running: Running, events: tuple[Event, ...]) -> tuple[Running, bool]:
    """Do what was asked, and return whether to stop. A request to stop is handled first."""
    stops = tuple(event for event in events if event.verb is Verb.stop)
    for event in stops or events:
        running = asked.handle(outside, running, event)
    if stops:
        for event in events:
            event.reply(STOPPING)
    return running, bool(stops)


def end(outside: Outside, running: Running) -> ExitCode:
    """Leave the machine as it was found, or as the config says. Then save the totals."""
    running, code = _put_back(outside, running)
    outside.store.save_counters(running.counters, lasting=True)
    _tell_of_books(outside, running)
    return code


def _put_back(outside: Outside, running: Running) -> tuple[Running, ExitCode]:
    try:
        saved = running.applied.saved if running.applied else outside.store.saved()
        if saved is None:
            return running, ExitCode.ok
        if outside.store.handed_over():
            return _kept(outside, running, "for the next tierd, which takes them over")
        if running.config.on_stop is OnStop.keep:
            return _kept(outside, running, "on_stop: keep; `tierd restore` undoes it")
        restored = restore.restore_all(outside.kernel, saved)
    except TierdError as error:
        text = error.with_hint()
        return force.say(outside, running, "restore_failed", text), error.exit_code
    outside.store.forget()
    for line in restored.done:
        running = force.say(outside, running, "restored", line)
    for line in restored.left:
        running = force.say(outside, running, "left", line)
    return running, ExitCode.ok


def _kept(outside: Outside, running: Running, why: str) -> tuple[Running, ExitCode]:
    _leave(outside, running)
    return force.say(outside, running, "kept", why), ExitCode.ok


def _leave(outside: Outside, running: Running) -> None:
    """Write safe inputs for schemes that run on without tierd: their quotas do not grow."""
    if running.applied is None or running.paused:
        return
    try:
        steering.leave(outside, running, running.applied)
    except TierdError as error:
        force.say(outside, running, "degraded", error.with_hint())


def _start(outside: Outside, running: Running) -> Running:
    """Make a plan for the machine as it is now, and start it."""
    running = force.looked(outside, running)

    def start(_running: Running, plan: Plan) -> Applied:
        return apply.start(
            outside.kernel,
            plan,
            outside.store.record,
            saved=outside.store.saved(),
            take_over=running.config.on_conflict is OnConflict.take_over,
        )

    applied = force.planned(outside, running, start)
    running = force.with_plan(replace(running, retries={}, trouble=""), applied)
    return steering.begin(running, applied)


def _work(outside: Outside, running: Running, now_s: float) -> Running:
    if running.applied is None:
        if running.paused or not running.retries.get(WHOLE, Retry()).due(now_s):
            return running
        running = _start(outside, running)
        return force.say(outside, running, "running", reason_of(running))
    if running.paused:
        return _held(outside, running, running.applied)
    running, alive = _revive(outside, running, running.applied, now_s)
    applied = running.applied
    if applied is None:
        return running
    refreshed = steering.refresh(outside, running, applied, alive)
    looked = steering.read(outside, refreshed, applied)
    if refreshed.refresh is running.refresh:
        return looked
    try:
        return _steered(outside, looked, steering.step)
    except TierdError as error:
        running = force.after_failure(outside, replace(looked, tuning=Tuning()), error)
        return force.troubled(outside, running, error, WHOLE)


def _held(outside: Outside, running: Running, applied: Applied) -> Running:
    """Take a sample during a pause. If others have taken over DAMON, nothing is left to resume."""
    try:
        inspection.require_paused(outside.kernel, applied)
        try:
            return steering.read(outside, running, applied)
        except TierdError:
            # The tree may belong to somebody else, and lack our files.
            ownership.require_ours(outside.kernel, applied.saved)
            raise
    except Conflict as error:
        running = force.after_failure(outside, running, error)
        return force.say(outside, running, "degraded", error.with_hint())


def _revive(
    outside: Outside, running: Running, applied: Applied, now_s: float
) -> tuple[Running, frozenset[int]]:
    """Restart kdamonds that have died, each with its own back-off. Return those that are alive."""
    alive: set[int] = set()
    for health in inspection.health(outside.kernel, applied):
        if health.alive:
            alive.add(health.index)
        elif running.retries.get(health.index, Retry()).due(now_s):
            running = _revive_one(outside, running, applied, health, now_s)
            if running.applied is None:
                return running, frozenset()
            if running.applied.pids[health.index] != applied.pids[health.index]:
                alive.add(health.index)
            applied = running.applied
    return running, frozenset(alive)


def _revive_one(
    outside: Outside, running: Running, applied: Applied, health: Health, ended_s: float
) -> Running:
    node = applied.plan.watches[health.index].node
    what = f"of node {node} (pid {health.pid}, state {health.state})"
    running = force.say(outside, replace(running, careful_s=ended_s), "kdamond_died", what)
    try:
        applied = apply.revive(outside.kernel, applied, health.index, outside.store.record)
    except CgroupsGone:
        # The next tick makes a new plan, and that starts everything that is off.
        now_s = outside.clock.monotonic()
        retry = supervise.failed(running.retries.get(health.index, Retry()), now_s)
        return replace(force.retried(running, health.index, retry), rescan_s=now_s)
    except TierdError as error:
        return force.troubled(
            outside, force.after_failure(outside, running, error), error, health.index
        )
    now_s = outside.clock.monotonic()
    retry = supervise.failed(running.retries.get(health.index, Retry()), now_s)
    running = force.retried(running, health.index, supervise.started(retry, now_s))
    counted = {**running.restarts, health.index: running.restarts.get(health.index, 0) + 1}
    running = replace(running, applied=applied, restarts=counted)
    return force.say(outside, running, "kdamond_started", f"of node {node}, again")


def _settled(outside: Outside, running: Running) -> Running:
    """End the state `degraded` when everything that should run does run."""
    if running.applied is None and running.paused:
        # During a pause nothing should run, so nothing is wrong.
        return replace(running, trouble="")
    if running.applied is None or not running.trouble:
        return running
    listed = running.sample.kdamonds if running.sample else ()
    if not running.paused and any(kdamond.state != "on" for kdamond in listed):
        return running
    return force.say(outside, replace(running, trouble=""), "recovered", "")


def _rescan_if_due(outside: Outside, running: Running, now_s: float) -> Running:
    """Scan the machine again after hotplug, and every RESCAN_S."""
    burst_s = running.hotplug.due_s(HOTPLUG_QUIET_S, HOTPLUG_LATE_S)
    heard = burst_s is not None and now_s >= burst_s
    if not heard and now_s < running.rescan_s:
        return running
    # Cgroups that came or went are no change of the machine.
    running = follow(outside, replace(running, follow_s=now_s))
    running = replace(running, hotplug=Debounce(), rescan_s=now_s + RESCAN_S)
    if heard:
        # A start that failed may succeed with the memory that is there now.
        running = force.retried(running, WHOLE, Retry())
    try:
        return _rescan(outside, running)
    except Unsupported as error:
        return force.troubled(outside, _stand_down(outside, running), error, WHOLE)
    except TierdError as error:
        return force.troubled(outside, force.after_failure(outside, running, error), error, WHOLE)


def _rescan(outside: Outside, running: Running) -> Running:
    running = replace(running, conflicts=_rivals(outside.sysfs, running))
    if running.applied is None:
        # The next start scans the machine itself.
        return running
    if running.paused:
        return _rescan_held(outside, running, running.applied)
    before = running.applied.plan.degraded
    running = force.looked(outside, running)
    running, text = force.planned(outside, running, partial(force.change_to, outside))
    now = running.applied.plan.degraded if running.applied else ()
    for reason in sorted(set(now).difference(before)):
        running = force.say(outside, running, "degraded", reason)
    if text is None:
        return running
    return force.say(outside, running, "replanned", f"the machine's memory changed: {text}")


def _rescan_held(outside: Outside, running: Running, applied: Applied) -> Running:
    """Rescan during a pause. Everything is removed if a node of the plan has gone."""
    running = force.looked(outside, running)
    gone = set(applied.plan.nodes).difference(node.id for node in running.topology.nodes)
    if not gone:
        return running
    running = _stand_down(outside, running)
    return force.say(outside, running, "replanned", f"node {format_ids(gone)} went: all removed")


def _stand_down(outside: Outside, running: Running) -> Running:
    """Remove everything, because a tier has gone. Some kernels crash on a node without memory."""
    if running.applied is None:
        return running
    saved = running.applied.saved
    running = force.with_plan(running, None)
    try:
        restore.restore_all(outside.kernel, saved)
    except TierdError as error:
        # The saved state stays on disk, so the next start or the end can put it back.
        return force.say(outside, running, "restore_failed", error.with_hint())
    outside.store.forget()
    return running


def _rivals(sysfs: Sysfs, running: Running) -> tuple[others.Rival, ...]:
    """Return other programs and kernel parts that move or watch memory now."""
    applied = running.applied
    return others.rivals(
        others.neighbours(sysfs),
        processes.placers(sysfs),
        ours_run=applied is not None,
        hints=bool(applied and applied.plan.hint_faults),
    )


def _save_counters(outside: Outside, running: Running, now_s: float) -> Running:
    """Save the totals before they are published. Prometheus takes a lower total for a new start."""
    lasting = now_s - running.counters_saved_s >= COUNTERS_SAVE_S
    outside.store.save_counters(running.counters, lasting=lasting)
    return replace(running, counters_saved_s=now_s) if lasting else running


def _tell_of_books(outside: Outside, running: Running) -> Running:
    """Report files that could not be saved, or can be saved again."""
    for news in outside.books.news():
        running = force.say(outside, running, news.event, news.text)
    return running
