"""In a guest: a scheme with the kernel's own goal, and its twin with tierd's emulation of the goal.

Both are in one context, so that they see the same node in the same windows. Nothing is hot below,
so nothing moves. Both quotas grow by what is missing of the goal, and are read together.
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
from tierd.kdamonds import apply, restore
from tierd.kdamonds.kernel import Kernel
from tierd.machine import discovery, features
from tierd.plans.damon import Write, scheme_dir, writes
from tierd.plans.plan import Controller, Direction, Migration, Plan
from tierd.sysfs import RealSysfs, Sysfs
from tierd.tuner import tuners
from tierd.tuner.demand import ControllerState
from tierd.tuner.measurement import Limits, Measurement, NodeMeasurement, SchemeMeasurement

# The free share of the node. tierd would leave half of it free, so a quota grows by nearly a tenth
# in each window.
FREE_SHARE = 0.17

# How often both quotas are read: about once in each window of 200 ms.
LOOKS = 160
LOOK_S = 0.2

# Seconds until this program takes no more memory from the node. If the two saw a different amount
# of free memory in one window, their quotas would stay apart.
QUIET_S = 5.0

CONFIG = Config(tuner=Tuner.kernel, auto_intervals=False, window_ms=200, manage_damon_stat=True)


def twinned(plan: Plan, promotion: Migration, capabilities: features.Capabilities) -> Plan:
    """Return the plan with a second scheme beside that of a promotion, steered by `user_input`."""
    kdamonds = list(plan.kdamonds)
    kdamond = kdamonds[promotion.kdamond]
    schemes = kdamond.context.schemes
    goals = (tuners.goal(Controller.emulated, promotion.aim),)
    quota = dataclasses.replace(schemes[promotion.scheme].quota, goals=goals)
    twin = dataclasses.replace(schemes[promotion.scheme], quota=quota)
    context = dataclasses.replace(kdamond.context, schemes=(*schemes, twin))
    kdamonds[promotion.kdamond] = dataclasses.replace(kdamond, context=context)
    return dataclasses.replace(
        plan, kdamonds=tuple(kdamonds), writes=writes(kdamonds, capabilities)
    )


def look(promotion: Migration, twin: int, limits: Limits, sysfs: Sysfs) -> dict[str, int]:
    """Write an input for the twin, and read both quotas at the same moment."""
    node = promotion.aim.node
    seen = NodeMeasurement(inside.total_bytes(node), inside.free_bytes(node), 0)
    reading = Measurement(LOOK_S, {node: seen}, {promotion.id: SchemeMeasurement(0, 0, 1, 0.2)})
    value = feedback.adjust(ControllerState(), reading, limits)[1].inputs[promotion.id].value
    folder = scheme_dir(promotion.kdamond, twin)
    write = Write(f"{folder}/quotas/goals/0/current_value", str(value))
    sysfs.write(write.path, write.value)
    state = f"{folder.partition('/contexts')[0]}/state"
    sysfs.write(state, "commit_schemes_quota_goals")
    time.sleep(LOOK_S)
    sysfs.write(state, "update_schemes_effective_quotas")
    native = scheme_dir(promotion.kdamond, promotion.scheme)
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
    kernel = Kernel.patient(RealSysfs(), clock)
    sysfs = kernel.sysfs
    capabilities = features.probe(sysfs)
    plan = planning.plan_for(sysfs, discovery.discover(sysfs, None), capabilities, CONFIG)
    promotion = next(one for one in plan.migrations if one.direction is Direction.promote)
    twin = len(plan.kdamonds[promotion.kdamond].context.schemes)
    time.sleep(QUIET_S)
    applied = apply.start(kernel, twinned(plan, promotion, capabilities), lambda _saved: None)
    limits = Limits(
        Controller.emulated,
        (promotion,),
        plan.page_bytes,
        CONFIG.headroom_bp,
        charges_failures=True,
    )
    looks = [look(promotion, twin, limits, sysfs) for _ in range(LOOKS)]
    note(f"from {looks[0]} to {looks[-1]}")
    restore.restore_all(kernel, applied.saved)
    facts: dict[str, Any] = {"looks": looks, "free_mib": inside.free_bytes(0) // MIB}
    sets.close()
    inside.tell(facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
