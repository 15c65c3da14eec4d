"""The loop: what happens when, and what after a failure.

Rules of this file:
1. Time, files, events and the kernel come in through `Outside`; what is remembered goes from tick
   to tick in `Running`, replaced and never changed.
2. A failure that a person could mend (TierdError) ends a tick, not the daemon: it becomes the
   state `degraded` with its sentence, and is tried again with back-off. Only a start that cannot
   succeed ends the process, so that the unit shows it.
3. One event is logged once, here.
"""

from dataclasses import replace

from tierd.configuration import configtext
from tierd.configuration.config import Config, OnConflict, OnStop
from tierd.errors import Conflict, ExitCode, TierdError, Unsupported
from tierd.kdamonds import apply
from tierd.kdamonds.apply import Applied, Health
from tierd.loop import regard, supervise
from tierd.loop.outside import Outside
from tierd.loop.running import WHOLE, Running, picture, reason_of
from tierd.loop.supervise import Debounce, Refresh, Retry
from tierd.loop.tuning import Tuning
from tierd.machine import discovery, observe, processes
from tierd.machine import neighbours as others
from tierd.machine.sample import watermarks
from tierd.planning import plan_for
from tierd.plans.plan import Loop, Plan
from tierd.record.snapshot import EventStatus, remember
from tierd.serving.inbox import Answer, Event, Verb
from tierd.sysfs import Sysfs

# Hotplug comes in bursts (a block each, thousands for a big module): a second of quiet ends a
# burst, and three seconds do in any case, which keeps the promise of a new plan within five.
HOTPLUG_QUIET_S = 1.0
HOTPLUG_LATE_S = 3.0

# Uevents can be lost (ENOBUFS) or not be heard at all (a container), so look again each minute.
RESCAN_S = 60.0

# A power cut loses at most this much of the totals; more often would only wear a disk.
COUNTERS_SAVE_S = 10.0


def run(outside: Outside, config: Config, for_s: float | None = None) -> ExitCode:
    """Start, loop until told to stop (or for a time), and leave the machine as it was found."""
    began_s = outside.clock.monotonic()
    running = begin(outside, config)
    running = _event(outside, running, "running", reason_of(running))
    end_s = None if for_s is None else began_s + for_s
    stopping = False
    next_tick_s = began_s
    try:
        while not stopping:
            # Before a tick, which takes several windows on some kernels.
            running = settle(outside, running)
            now_s = outside.clock.monotonic()
            if now_s >= _begins_s(running, next_tick_s, now_s):
                running = tick(outside, running)
                # After a suspend or a long wait the missed ticks are gone, not made up for.
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
                )
                if moment is not None
            )
            for event in outside.inbox.wait(until_s - outside.clock.monotonic()):
                running = handle(outside, running, event)
                stopping = stopping or event.verb is Verb.stop
            stopping = stopping or (end_s is not None and outside.clock.monotonic() >= end_s)
    finally:
        code = end(outside, running)
    return code


def _tick_s(running: Running) -> float:
    """Twice as often while memory moves, and at the start: what is decided late is moved late."""
    steers = running.applied is not None and running.applied.plan.tuner.loop is Loop.demand
    return running.config.tick_ms / (2000 if running.tuning.active and steers else 1000)


def _begins_s(running: Running, next_tick_s: float, now_s: float) -> float:
    """When the next tick begins: not while an input of the tuner is about to be due.

    To ask the kernel takes several windows on some, in which a quota would grow on.
    """
    due_s, least_s = running.tuning.due_s, max(next_tick_s, now_s)
    if due_s is not None and least_s < due_s < least_s + running.refresh.cost_s:
        return due_s
    return next_tick_s


def begin(outside: Outside, config: Config) -> Running:
    """The first plan, running. What cannot work here, or is held by others, ends the process."""
    topology = discovery.discover(outside.sysfs, config.tiers)
    capabilities = observe.probe(outside.sysfs)
    observe.require_migration(capabilities)
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
    """One round: look for changes, keep everything alive, read, and publish."""
    began_s = outside.clock.monotonic()
    running = _rescan_if_due(outside, running, began_s)
    try:
        running = _settled(outside, _work(outside, running, began_s))
    except TierdError as error:
        running = _troubled(outside, running, error, WHOLE)
    if not running.cpu_before_s:
        used = {node: cpu.total_s for node, cpu in running.counters.cpu.items()}
        running = replace(running, cpu_before_s=used)
    running = _save_counters_if_due(outside, running, began_s)
    _publish(outside, running, began_s)
    return running


def _publish(outside: Outside, running: Running, began_s: float) -> None:
    loop_s = outside.clock.monotonic() - began_s
    outside.publish(picture(running, outside.who, outside.wall_s(), loop_s), running)


def settle(outside: Outside, running: Running) -> Running:
    """Take back growth that was given for a counted number of windows.

    What becomes due while another is written is not left for after a tick, by when a quota would be
    what ten windows too many make of it.
    """
    while running.applied is not None and running.tuning.is_due(outside.clock.monotonic()):
        try:
            running = regard.settle(outside, running, running.applied)
        except TierdError as error:
            return _troubled(outside, replace(running, tuning=Tuning()), error, WHOLE)
    return running


def glance(outside: Outside, running: Running) -> Running:
    """Look at free memory, if it is time to."""
    moment_s = running.tuning.glance_s
    if running.applied is None or moment_s is None or outside.clock.monotonic() < moment_s:
        return running
    try:
        return regard.glance(outside, running, running.applied)
    except TierdError as error:
        return _troubled(outside, replace(running, tuning=Tuning()), error, WHOLE)


def handle(outside: Outside, running: Running, event: Event) -> Running:
    """Do what was asked, and answer: who asked for a pause sees one by then."""
    began_s = outside.clock.monotonic()
    if event.verb is Verb.hotplug:
        return replace(running, hotplug=running.hotplug.heard(began_s))
    if event.verb is Verb.stop:
        return _event(outside, running, "stopping", f"by {event.source}")
    try:
        running, text = CHANGES[event.verb](outside, running)
    except TierdError as error:
        answer = Answer(int(error.exit_code), f"{error}\n{error.hint}".strip())
        running = _after_failure(outside, running, error)
        running = _event(outside, running, f"{event.verb}_failed", str(error))
    else:
        answer = Answer(int(ExitCode.ok), text)
        running = _event(outside, running, event.verb, f"by {event.source}: {text}")
    _publish(outside, running, began_s)
    event.reply(answer)
    return running


def end(outside: Outside, running: Running) -> ExitCode:
    """Leave the machine as it was found, or as the config says."""
    outside.store.save_counters(running.counters)
    saved = running.applied.saved if running.applied else outside.store.saved()
    if saved is None:
        return ExitCode.ok
    if outside.store.handed_over():
        _leave(outside, running)
        _event(outside, running, "kept", "for the next tierd, which takes them over")
        return ExitCode.ok
    if running.config.on_stop is OnStop.keep:
        _leave(outside, running)
        _event(outside, running, "kept", "on_stop: keep; `tierd restore` undoes it")
        return ExitCode.ok
    try:
        restored = apply.restore(outside.sysfs, outside.clock, saved)
    except TierdError as error:
        _event(outside, running, "restore_failed", f"{error}. {error.hint}")
        return error.exit_code
    outside.store.forget()
    for line in restored.done:
        _event(outside, running, "restored", line)
    for line in restored.left:
        _event(outside, running, "left", line)
    return ExitCode.ok


def _leave(outside: Outside, running: Running) -> None:
    """Schemes that go on without us get quotas that do not grow."""
    if running.applied is None or running.paused:
        return
    try:
        regard.leave(outside, running, running.applied)
    except TierdError as error:
        _event(outside, running, "degraded", f"{error}. {error.hint}")


def _start(outside: Outside, running: Running) -> Running:
    """Plan for the machine as it is now, and have the kernel run it."""
    running = _looked(outside, running)
    plan = plan_for(outside.sysfs, running.topology, running.capabilities, running.config)
    applied = apply.start(
        outside.sysfs,
        outside.clock,
        plan,
        outside.store.record,
        saved=outside.store.saved(),
        take_over=running.config.on_conflict is OnConflict.take_over,
    )
    running = _with(replace(running, retries={}, trouble=""), applied)
    return regard.begin(running, applied)


def _looked(outside: Outside, running: Running) -> Running:
    """The memory with the machine's memory as it is now."""
    topology = discovery.discover(outside.sysfs, running.config.tiers)
    return replace(running, topology=topology, watermarks=watermarks(outside.sysfs, topology))


def _with(running: Running, applied: Applied) -> Running:
    """The memory with another plan in force: old readings are of the old schemes."""
    return replace(
        running, applied=applied, before=None, sample=None, refresh=Refresh(), tuning=Tuning()
    )


def _work(outside: Outside, running: Running, now_s: float) -> Running:
    if running.applied is None:
        if not running.retries.get(WHOLE, Retry()).due(now_s):
            return running
        running = _start(outside, running)
        return _event(outside, running, "running", reason_of(running))
    running = _revive(outside, running, now_s)
    applied = running.applied
    if applied is None:
        return running
    looked = regard.look(outside, running, applied)
    fresh = looked.refresh is not running.refresh
    return _tuned(outside, looked, applied) if fresh else looked


def _tuned(outside: Outside, running: Running, applied: Applied) -> Running:
    """Have the tuner look at a fresh sample, and do what it says."""
    try:
        return regard.tune(outside, running, applied)
    except TierdError as error:
        running = _after_failure(outside, replace(running, tuning=Tuning()), error)
        return _troubled(outside, running, error, WHOLE)


def _revive(outside: Outside, running: Running, now_s: float) -> Running:
    """Turn kdamonds that died on again, each at its own pace."""
    if running.applied is None or running.paused:
        return running
    for health in apply.health(outside.sysfs, outside.clock, running.applied):
        if not health.alive and running.retries.get(health.index, Retry()).due(now_s):
            running = _revive_one(outside, running, running.applied, health)
            if running.applied is None:
                return running
    return running


def _revive_one(outside: Outside, running: Running, applied: Applied, health: Health) -> Running:
    node = applied.plan.watches[health.index].node
    what = f"of node {node} (pid {health.pid}, state {health.state})"
    running = _event(outside, running, "kdamond_died", what)
    try:
        applied = apply.revive(
            outside.sysfs, outside.clock, applied, health.index, outside.store.record
        )
    except TierdError as error:
        return _troubled(outside, _after_failure(outside, running, error), error, health.index)
    now_s = outside.clock.monotonic()
    retry = supervise.failed(running.retries.get(health.index, Retry()), now_s)
    running = _retry(running, health.index, supervise.started(retry, now_s))
    counted = {**running.restarts, health.index: running.restarts.get(health.index, 0) + 1}
    running = replace(running, applied=applied, restarts=counted)
    return _event(outside, running, "kdamond_started", f"of node {node}, again")


def _settled(outside: Outside, running: Running) -> Running:
    """The trouble of earlier ticks is over when everything that should run does."""
    if running.applied is None or not running.trouble:
        return running
    listed = running.sample.kdamonds if running.sample else ()
    if not running.paused and any(kdamond.state != "on" for kdamond in listed):
        return running
    return _event(outside, replace(running, trouble=""), "recovered", "")


def _rescan_if_due(outside: Outside, running: Running, now_s: float) -> Running:
    """Look at the machine again after hotplug, and once in a while."""
    burst_s = running.hotplug.due_s(HOTPLUG_QUIET_S, HOTPLUG_LATE_S)
    heard = burst_s is not None and now_s >= burst_s
    if not heard and now_s < running.rescan_s:
        return running
    running = replace(running, hotplug=Debounce(), rescan_s=now_s + RESCAN_S)
    if heard:
        # What failed with the memory that there was may go well with what there is now.
        running = _retry(running, WHOLE, Retry())
    try:
        return _rescan(outside, running)
    except Unsupported as error:
        return _troubled(outside, _stand_down(outside, running), error, WHOLE)
    except TierdError as error:
        return _troubled(outside, _after_failure(outside, running, error), error, WHOLE)


def _rescan(outside: Outside, running: Running) -> Running:
    running = replace(running, conflicts=_rivals(outside.sysfs, running))
    if running.applied is None:
        # It is started with its own look at the machine, when its pause is over.
        return running
    running = _looked(outside, running)
    plan = plan_for(outside.sysfs, running.topology, running.capabilities, running.config)
    running, text = _replace(outside, running, plan)
    if text is None:
        return running
    return _event(outside, running, "replanned", f"the machine's memory changed: {text}")


def _stand_down(outside: Outside, running: Running) -> Running:
    """Stop everything: a tier has gone, and some kernels crash on a node without memory."""
    if running.applied is None:
        return running
    saved = running.applied.saved
    running = replace(running, applied=None, paused=False, sample=None, before=None)
    try:
        apply.restore(outside.sysfs, outside.clock, saved)
    except TierdError as error:
        # What is on disk still says what to put back, to the next start and to the end.
        return _event(outside, running, "restore_failed", f"{error}. {error.hint}")
    outside.store.forget()
    return running


def _rivals(sysfs: Sysfs, running: Running) -> tuple[others.Rival, ...]:
    """Who else moves or watches memory now."""
    return others.rivals(
        others.neighbours(sysfs), processes.placers(sysfs), ours_run=running.applied is not None
    )


def _reload(outside: Outside, running: Running) -> tuple[Running, str]:
    config = outside.read_config()
    changes = "; ".join(str(change) for change in configtext.diff(running.config, config))
    if not changes:
        return running, "the configuration has not changed"
    changed = replace(running, config=config)
    if running.applied is None:
        return changed, f"{changes}; in force from the next start"
    changed = _looked(outside, changed)
    plan = plan_for(outside.sysfs, changed.topology, changed.capabilities, config)
    changed, how = _replace(outside, changed, plan)
    return changed, f"{changes}; {how or 'nothing changes in the kernel'}"


def _replace(outside: Outside, running: Running, plan: Plan) -> tuple[Running, str | None]:
    """Run another plan; how it was done, or None if it is the one that runs."""
    applied = running.applied
    if applied is None:
        return running, None
    if plan.fingerprint == applied.plan.fingerprint:
        # What differs is ours alone: a headroom that only the tuner knows, or words.
        return replace(running, applied=replace(applied, plan=plan)), None
    applied = apply.replace(outside.sysfs, outside.clock, applied, plan, outside.store.record)
    return _with(replace(running, paused=False), applied), applied.how


def _pause(outside: Outside, running: Running) -> tuple[Running, str]:
    if running.applied is None or running.paused:
        return running, "nothing moves already"
    applied = apply.pause(outside.sysfs, outside.clock, running.applied, outside.store.record)
    paused = replace(running, applied=applied, paused=True, tuning=Tuning())
    return paused, "nothing moves until `tierd resume`"


def _resume(outside: Outside, running: Running) -> tuple[Running, str]:
    if running.applied is None or not running.paused:
        return running, "it is not paused"
    applied = apply.resume(outside.sysfs, outside.clock, running.applied, outside.store.record)
    resumed = replace(running, applied=applied, paused=False, tuning=Tuning())
    return resumed, "moving again"


def _after_failure(outside: Outside, running: Running, error: TierdError) -> Running:
    """What runs after a change that failed: as before, or nothing that we can vouch for."""
    if isinstance(error, apply.Undone):
        return replace(running, applied=error.applied)
    if isinstance(error, Conflict | apply.UndoFailed):
        # The tree is somebody else's, or in a state that nobody chose: start afresh from what is
        # on disk, which adopts or replaces whatever is there, after a pause.
        retry = supervise.failed(running.retries.get(WHOLE, Retry()), outside.clock.monotonic())
        return _retry(replace(running, applied=None, sample=None, before=None), WHOLE, retry)
    return running


CHANGES = {Verb.reload: _reload, Verb.pause: _pause, Verb.resume: _resume}


def _troubled(outside: Outside, running: Running, error: TierdError, key: int) -> Running:
    """Remember what is wrong, and when to try again; what is said already is not said twice."""
    now_s = outside.clock.monotonic()
    text = f"{error}. {error.hint}" if error.hint else str(error)
    retry = supervise.failed(running.retries.get(key, Retry()), now_s)
    told = running.trouble == text
    running = _retry(replace(running, trouble=text), key, retry)
    return running if told else _event(outside, running, "degraded", text)


def _retry(running: Running, key: int, retry: Retry) -> Running:
    return replace(running, retries={**running.retries, key: retry})


def _save_counters_if_due(outside: Outside, running: Running, now_s: float) -> Running:
    if now_s - running.counters_saved_s < COUNTERS_SAVE_S:
        return running
    outside.store.save_counters(running.counters)
    return replace(running, counters_saved_s=now_s)


def _event(outside: Outside, running: Running, event: str, text: str) -> Running:
    said = EventStatus(outside.wall_s(), event, text)
    outside.log(said)
    return replace(running, events=remember(running.events, said))
