"""The plan in force: change it, drop it, note what is wrong, and report it.

A failure is raised to the caller. `after_failure` says what runs after one.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from tierd.errors import Conflict, TierdError
from tierd.feedback import Tuning
from tierd.frozen import replace
from tierd.kdamonds import apply, inspection
from tierd.kdamonds.applied import Applied, CgroupsGone, RolledBack, UndoFailed
from tierd.loop import supervise
from tierd.loop.outside import Outside
from tierd.loop.running import WHOLE, Running, picture
from tierd.loop.supervise import Refresh, Retry
from tierd.machine import discovery
from tierd.machine.sample_reader import watermarks
from tierd.planning import plan_for
from tierd.plans.plan import Plan
from tierd.record.snapshot import EventStatus, remember
from tierd.sysfs import optional

T = TypeVar("T")

# Seconds for which plans are careful after a kdamond has ended, or commits have failed again and
# again. Before 6.15 a commit ends a kdamond if it names a cgroup that has just gone. The kdamond
# begins anew within seconds, so once an hour is bearable.
CAREFUL_S = 3600.0

# How many plans are tried if cgroups disappear while a plan is written. Writing takes at most half
# a second. With three cgroups that go per second a third of the tries fail. If so many fail in a
# row, somebody removes cgroups on purpose.
PLANS_MAX = 8


def looked(outside: Outside, running: Running) -> Running:
    """Return the state with the current topology and watermarks."""
    config = running.config
    topology = discovery.discover(outside.sysfs, config.tiers, config.bandwidths)
    return replace(running, topology=topology, watermarks=watermarks(outside.sysfs, topology))


def with_plan(running: Running, applied: Applied | None) -> Running:
    """Return the state with another plan in force, or with none.

    Statistics and scheduled inputs of the old plan are dropped. Samples stay if the same kdamonds
    have the same schemes at the same places.
    """
    running = replace(running, refresh=Refresh(), tuning=Tuning())
    if _places(applied) != _places(running.applied):
        running = replace(running, before=None, sample=None)
    return replace(running, applied=applied)


def _places(applied: Applied | None) -> tuple[object, ...]:
    """Return what a sample depends on: pids, and the places of schemes and sensors."""
    if applied is None:
        return ()
    schemes = tuple((one.id, one.kdamond, one.scheme) for one in applied.plan.migrations)
    return (*applied.pids, *schemes, *applied.plan.sensors)


def change_to(outside: Outside, running: Running, plan: Plan) -> tuple[Running, str | None]:
    """Change to another plan. The text says how, or is None if the kernel needed no change."""
    applied = running.applied
    if applied is None:
        return running, None
    if plan.fingerprint == applied.plan.fingerprint and applied.saved.settled:
        # The kernel sees no difference. Only a headroom that the tuner uses, or a text, has
        # changed.
        return replace(running, applied=replace(applied, plan=plan)), None
    applied = apply.change_plan(outside.kernel, applied, plan, outside.store.record)
    return with_plan(replace(running, paused=False), applied), applied.how


def planned(outside: Outside, running: Running, act: Callable[[Running, Plan], T]) -> T:
    """Make a plan and act on it. If cgroups disappear while it is written, try again without them.

    The new plan has no cgroups that appeared since, so the number of tries is limited.
    """
    only: frozenset[str] | None = None
    for _ in range(PLANS_MAX - 1):
        try:
            return act(running, _plan(outside, running, only))
        except CgroupsGone as error:
            only = error.remaining
            running = without_gone(outside, running, error)
    return act(running, _plan(outside, running, only))


def _plan(outside: Outside, running: Running, only: frozenset[str] | None) -> Plan:
    return plan_for(
        outside.sysfs,
        running.topology,
        running.capabilities,
        running.config,
        only=only,
        roles=running.roles,
        before=_before(outside, running),
        careful=is_careful(outside, running),
    )


def is_careful(outside: Outside, running: Running) -> bool:
    """Return whether commits that name cgroups should be few for now."""
    return outside.clock.monotonic() - running.careful_s < CAREFUL_S


def without_gone(outside: Outside, running: Running, error: CgroupsGone) -> Running:
    """Return the state after a change that named cgroups that are gone."""
    applied = error.staged or running.applied
    ended = applied is not None and not all(
        one.alive for one in inspection.health(outside.kernel, applied)
    )
    careful_s = outside.clock.monotonic() if ended else running.careful_s
    return replace(running, applied=applied, careful_s=careful_s)


def _before(outside: Outside, running: Running) -> Mapping[str, str]:
    """Return the former values of the settings that hold what tierd has set, by path."""
    saved = running.applied.saved if running.applied else outside.store.saved()
    if saved is None or saved.boot_id != outside.kernel.boot_id():
        return {}
    return {
        knob.path: knob.before
        for knob in saved.knobs
        if (found := optional(outside.sysfs, knob.path)) is not None and knob.is_in(found)
    }


def after_failure(outside: Outside, running: Running, error: TierdError) -> Running:
    """Return the state after a change that failed: the plan as before, or none."""
    if isinstance(error, RolledBack):
        return replace(running, applied=error.applied)
    if isinstance(error, CgroupsGone):
        return without_gone(outside, running, error)
    if isinstance(error, Conflict | UndoFailed):
        # The tree belongs to somebody else, or is incomplete. After a wait, start again from the
        # state on disk, which adopts or replaces what is there.
        retry = supervise.failed(running.retries.get(WHOLE, Retry()), outside.clock.monotonic())
        return retried(with_plan(running, None), WHOLE, retry)
    return running


def troubled(outside: Outside, running: Running, error: TierdError, key: int) -> Running:
    """Note what is wrong and when to try again. The same text is reported once."""
    now_s = outside.clock.monotonic()
    text = error.with_hint()
    retry = supervise.failed(running.retries.get(key, Retry()), now_s)
    told = running.trouble == text
    running = retried(replace(running, trouble=text), key, retry)
    return running if told else say(outside, running, "degraded", text)


def retried(running: Running, key: int, retry: Retry) -> Running:
    return replace(running, retries={**running.retries, key: retry})


def publish(outside: Outside, running: Running, began_s: float) -> None:
    loop_s = outside.clock.monotonic() - began_s
    outside.publish(picture(running, outside.who, outside.wall_s(), loop_s), running)


def say(outside: Outside, running: Running, event: str, text: str) -> Running:
    said = EventStatus(outside.wall_s(), event, text)
    outside.log(said)
    return replace(running, events=remember(running.events, said))
