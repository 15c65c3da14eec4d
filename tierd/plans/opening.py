"""How quotas begin: they grow as soon as their kdamond runs, from a byte, before anybody asks."""

from tierd.configuration.config import Mode
from tierd.plans.damon import Write, Writes, input_path
from tierd.plans.plan import Loop, Plan

# A score of zero: a quota doubles with every window.
GROWS = 0


def grows(plan: Plan) -> bool:
    """Whether the quotas of new kdamonds grow; only where tierd steers them, and they move."""
    return plan.tuner.loop is Loop.demand and plan.mode is not Mode.observe


def opening(plan: Plan) -> Writes:
    """The plan's writes as they are built: with other inputs, which nobody has to commit then."""
    if not grows(plan):
        return plan.writes
    inputs = {input_path(item.kdamond, item.scheme) for item in plan.items}
    return tuple(Write(one.path, str(GROWS)) if one.path in inputs else one for one in plan.writes)
