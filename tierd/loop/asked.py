"""Requests to the running loop, by a signal or over the API, and the answers to them."""

from functools import partial

from tierd.configuration import configfile
from tierd.errors import ExitCode, TierdError
from tierd.feedback import Tuning
from tierd.frozen import replace
from tierd.kdamonds import apply
from tierd.loop import force, steering
from tierd.loop.outside import Outside
from tierd.loop.running import WHOLE, Running
from tierd.loop.supervise import Retry
from tierd.plans.scope import describe_match
from tierd.serving.inbox import Answer, Event, Verb

HELD = "nothing moves until `tierd resume`"


def handle(outside: Outside, running: Running, event: Event) -> Running:
    """Do what was asked, publish the new state, and answer."""
    began_s = outside.clock.monotonic()
    if event.verb is Verb.hotplug:
        return replace(running, hotplug=running.hotplug.heard(began_s))
    if event.verb is Verb.stop:
        return force.say(outside, running, "stopping", f"by {event.source}")
    if not event.wanted():
        return force.say(
            outside, running, "given_up", f"{event.verb}: nobody waits for it any more"
        )
    try:
        running, text = CHANGES[event.verb](outside, running)
    except TierdError as error:
        answer = Answer(int(error.exit_code), f"{error}\n{error.hint}".strip())
        running = force.after_failure(outside, running, error)
        if running.applied is None:
            running = replace(running, trouble=error.with_hint())
        if running.applied is None and event.verb is not Verb.pause:
            # The user asked tierd to run, so the next tick tries to start.
            running = force.retried(replace(running, paused=False), WHOLE, Retry())
        running = force.say(outside, running, f"{event.verb}_failed", str(error))
    else:
        answer = Answer(int(ExitCode.ok), text)
        running = _seen(outside, running, event.verb)
        running = force.say(outside, running, event.verb, f"by {event.source}: {text}")
    force.publish(outside, running, began_s)
    event.reply(answer)
    return running


def _seen(outside: Outside, running: Running, verb: Verb) -> Running:
    """Return the state with a new sample if that succeeds. Readers may ask for it at once."""
    if running.applied is None or (running.sample is not None and verb is Verb.reload):
        return running
    try:
        # A rate needs two samples with a known time between them.
        return replace(steering.read(outside, running, running.applied), before=None)
    except TierdError:
        # The next tick meets the same failure, and reports it.
        return running


def _reload(outside: Outside, running: Running) -> tuple[Running, str]:
    config = outside.read_config()
    changes = "; ".join(str(change) for change in configfile.diff(running.config, config))
    if not changes:
        return running, "the configuration has not changed"
    changed = replace(running, config=config)
    if running.applied is None:
        return changed, f"{changes}; in force from the next start"
    changed = force.looked(outside, changed)
    changed, how = force.planned(outside, changed, partial(force.change_to, outside))
    matched = changed.applied.plan.cgroups if changed.applied else ()
    parts = (changes, how or "nothing changes in the kernel", *map(describe_match, matched))
    return changed, "; ".join(parts)


def _pause(outside: Outside, running: Running) -> tuple[Running, str]:
    if running.paused:
        return running, "nothing moves already"
    if running.applied is None:
        saved = outside.store.saved()
        if saved is not None:
            apply.end_leftovers(outside.kernel, saved)
        return _held(running), HELD
    applied = apply.pause(outside.kernel, running.applied, outside.store.record)
    steering.park_hint_faults(outside.kernel, applied)
    paused = replace(running, applied=applied, paused=True, tuning=Tuning())
    return paused, HELD


def _held(running: Running) -> Running:
    """Pause while nothing runs. During a pause nothing should run, so nothing is wrong."""
    return replace(running, paused=True, trouble="")


def _resume(outside: Outside, running: Running) -> tuple[Running, str]:
    if not running.paused:
        return running, "it is not paused"
    if running.applied is None:
        resumed = force.retried(replace(running, paused=False), WHOLE, Retry())
        return resumed, "it is started as soon as it can be"
    # The machine may have changed during the pause. A changed plan starts, and so ends the pause.
    running = force.looked(outside, running)
    running, how = force.planned(outside, running, partial(force.change_to, outside))
    if how is not None or running.applied is None:
        return running, f"moving again; {how}"
    applied = apply.resume(outside.kernel, running.applied, outside.store.record)
    resumed = replace(running, applied=applied, paused=False, tuning=Tuning())
    return resumed, "moving again"


CHANGES = {Verb.reload: _reload, Verb.pause: _pause, Verb.resume: _resume}
