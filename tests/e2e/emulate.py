"""In a guest: one scheme with the kernel's own goal and its twin with tierd's emulation of it.

Both are in one context, so that they see the same node in the same windows. Nothing is hot below,
so that nothing moves; the quotas grow by what is missing of the goal, and are read together.
"""

import dataclasses
import sys
import time
from typing import Any

from tests.e2e import inside
from tests.e2e.inside import MIB, note
from tierd import feedback, planning
from tierd.clock import SystemClock
from tierd.configuration.config import Config, Tuner
from tierd.kdamonds import apply
from tierd.machine import discovery, observe
from tierd.plans.damon import Write, scheme_dir, writes
from tierd.plans.plan import Direction, Item, Loop, Plan
from tierd.sysfs import PatientSysfs, RealSysfs
from tierd.tuner import tuners
from tierd.tuner.demand import Memory
from tierd.tuner.reading import Limits, NodeReading, Reading, Way, WayReading

# So much is free; what tierd would leave free is half of it, so that a quota grows by nearly a
# tenth in each window.
FREE_SHARE = 0.17

# Looks at both quotas, about one for each window of 200 ms.
LOOKS = 160
LOOK_S = 0.2

# Until what this program itself takes of the node has settled: a window in which one of the two
# has seen the node otherwise sets them apart for good.
QUIET_S = 5.0

CONFIG = Config(tuner=Tuner.kernel, auto_intervals=False, window_ms=200, manage_damon_stat=True)


def twinned(plan: Plan, item: Item, capabilities: observe.Capabilities) -> Plan:
    """The plan with a second scheme beside an item's, steered by `user_input`."""
    kdamonds = list(plan.kdamonds)
    kdamond = kdamonds[item.kdamond]
    schemes = kdamond.context.schemes
    goals = (tuners.goal(Loop.emulated, item.aim),)
    quota = dataclasses.replace(schemes[item.scheme].quota, goals=goals)
    twin = dataclasses.replace(schemes[item.scheme], quota=quota)
    context = dataclasses.replace(kdamond.context, schemes=(*schemes, twin))
    kdamonds[item.kdamond] = dataclasses.replace(kdamond, context=context)
    return dataclasses.replace(
        plan, kdamonds=tuple(kdamonds), writes=writes(kdamonds, capabilities)
    )


def look(item: Item, twin: int, limits: Limits, sysfs: PatientSysfs) -> dict[str, int]:
    """Feed the twin, and read both quotas at one moment."""
    node = item.aim.node
    seen = NodeReading(inside.total_bytes(node), inside.free_bytes(node), 0)
    reading = Reading(LOOK_S, {node: seen}, {item.id: WayReading(0, 0, 1, 0.2)})
    value = feedback.step(Memory(), reading, limits)[1].inputs[item.id].value
    folder = scheme_dir(item.kdamond, twin)
    write = Write(f"{folder}/quotas/goals/0/current_value", str(value))
    sysfs.write(write.path, write.value)
    state = f"{folder.partition('/contexts')[0]}/state"
    sysfs.write(state, "commit_schemes_quota_goals")
    time.sleep(LOOK_S)
    sysfs.write(state, "update_schemes_effective_quotas")
    native = scheme_dir(item.kdamond, item.scheme)
    return {
        "native": int(sysfs.read(f"{native}/quotas/effective_bytes")),
        "ours": int(sysfs.read(f"{folder}/quotas/effective_bytes")),
        "input": value,
    }


def main() -> int:
    sets = inside.begin()
    keep = int(inside.total_bytes(0) * FREE_SHARE)
    sets.place("cold", 0, inside.free_bytes(0) - keep)
    clock = SystemClock()
    sysfs = PatientSysfs(RealSysfs(), clock)
    capabilities = observe.probe(sysfs)
    plan = planning.plan_for(sysfs, discovery.discover(sysfs, None), capabilities, CONFIG)
    item = next(item for item in plan.items if item.direction is Direction.promote)
    twin = len(plan.kdamonds[item.kdamond].context.schemes)
    time.sleep(QUIET_S)
    applied = apply.start(sysfs, clock, twinned(plan, item, capabilities), lambda _saved: None)
    way = Way(item.id, item.direction, item.source_node, item.target_node, 1, 1, item.aim)
    limits = Limits(Loop.emulated, (way,), CONFIG.headroom_bp, charges_failures=True)
    looks = [look(item, twin, limits, sysfs) for _ in range(LOOKS)]
    note(f"from {looks[0]} to {looks[-1]}")
    apply.restore(sysfs, clock, applied.saved)
    facts: dict[str, Any] = {"looks": looks, "free_mib": inside.free_bytes(0) // MIB}
    sets.close()
    inside.tell(facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
