"""Follow the groups that share the fast memory: cgroups that come and go, and whose memory moves.

Rules of this file:
1. A change is a commit of filters. DAMON keeps its regions and statistics, and the tuner what it
   has learned.
2. Programs make cgroups all the time, so a change is no event. How often tierd looks, and how much
   of its time it commits, is bounded.
"""

from functools import partial

from tierd.configuration.config import Mode
from tierd.errors import TierdError
from tierd.frozen import replace
from tierd.kdamonds.applied import CgroupsGone
from tierd.loop import force
from tierd.loop.outside import Outside
from tierd.loop.running import WHOLE, Running
from tierd.machine import features
from tierd.planning import groups_now
from tierd.plans.groups import NO_ROLES

# Seconds between two looks at the cgroups of groups: a new one must not wait for more than two.
# With thousands of cgroups a look takes long. Then it takes this part of the time.
LOOK_S = 0.5
LOOK_SHARE = 0.05

# The same after a kdamond has ended, where a commit that names a cgroup that has gone does that
# (before 6.15). Whoever may make and remove cgroups could else end one again and again.
CAREFUL_LOOK_S = 10.0

# After a commit the next one waits for at least this many times as long as the commit took.
COMMIT_REST = 1.0


def next_look_s(running: Running) -> float | None:
    """Return when to look at the groups next; None if none are followed."""
    if running.applied is None or not running.config.shares or running.paused:
        return None
    due_s = running.tuning.due_s
    if due_s is not None and due_s < running.follow_s + running.commit_s:
        # A quota would grow on during the commit, or a sweep would go on.
        return max(running.follow_s, due_s)
    return running.follow_s


def follow(outside: Outside, running: Running) -> Running:
    """Commit the filters of the groups as they are now, if that is due and they have changed."""
    began_s, look_s = outside.clock.monotonic(), next_look_s(running)
    if look_s is None or began_s < look_s:
        return running
    try:
        changed = _looked(outside, running, began_s)
    except CgroupsGone as error:
        # The next look tries again. If that fails for long, a scan of the machine reports it.
        running = force.without_gone(outside, running, error)
        return replace(running, follow_s=began_s + LOOK_S)
    except TierdError as error:
        running = replace(running, follow_s=began_s + LOOK_S)
        return force.troubled(outside, force.after_failure(outside, running, error), error, WHOLE)
    return changed


def _looked(outside: Outside, running: Running, began_s: float) -> Running:
    before = running.applied
    found = groups_now(outside.sysfs, running.config)
    looked_s = outside.clock.monotonic()
    kills = not features.refuses_safely(running.capabilities)
    usual_s = CAREFUL_LOOK_S if kills and force.is_careful(outside, running) else LOOK_S
    later_s = max(usual_s, (looked_s - began_s) / LOOK_SHARE)
    running = replace(running, follow_s=looked_s + later_s)
    observes = running.config.mode is Mode.observe
    roles = NO_ROLES if observes else running.tuning.shared.roles
    if before is None or (found == before.plan.groups and roles == running.roles):
        return running
    changed = filtered_anew(outside, replace(running, roles=roles))
    cost_s = outside.clock.monotonic() - looked_s
    rested_s = outside.clock.monotonic() + COMMIT_REST * cost_s
    return replace(changed, follow_s=max(running.follow_s, rested_s), commit_s=cost_s)


def filtered_anew(outside: Outside, running: Running) -> Running:
    """Commit the filters of the cgroups that there are now."""
    before = running.applied
    changed, _ = force.planned(outside, running, partial(force.change_to, outside))
    if before is None or changed.applied is None or changed.applied.pids != before.pids:
        return changed
    # Only filters have changed, so what was learned of the schemes still holds.
    return replace(changed, tuning=running.tuning, refresh=running.refresh)
