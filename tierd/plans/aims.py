"""The share of a node at which a migration stops. Pure."""

from collections.abc import Mapping

from tierd.configuration.config import Config
from tierd.plans.damon import Metric
from tierd.plans.plan import Aim, Direction
from tierd.topology import Node
from tierd.units import BP_MAX

# 1/10000 of a node: how far a goal for free memory lies above what the kernel itself keeps free.
# The kernel stops demotion at that floor, so a goal at or below it would never be reached.
FLOOR_MARGIN_BP = 10


def aim(
    config: Config,
    free_floors: Mapping[int, int],
    direction: Direction,
    source: Node,
    target: Node,
) -> Aim:
    """Return the share of a node at which a migration stops.

    Promotion fills its target up to a used share. Demotion frees its source up to a free share.
    The two overlap, so that hot and cold pages can trade places on a full node. If the kernel
    itself keeps more free than the configured headroom, the free share is raised to that, and the
    used share is lowered by the same amount.
    """
    if direction is not Direction.promote:
        return Aim(Metric.node_mem_free_bp, source.id, _free_bp(config, free_floors, source))
    raised = _free_bp(config, free_floors, target) - config.headroom_bp
    return Aim(Metric.node_mem_used_bp, target.id, max(1, config.used_bp - raised))


def _free_bp(config: Config, free_floors: Mapping[int, int], node: Node) -> int:
    floor = free_floors.get(node.id, 0)
    if not floor:
        return config.headroom_bp
    floor_bp = -(-floor * BP_MAX // node.size_bytes) + FLOOR_MARGIN_BP
    return min(BP_MAX, max(config.headroom_bp, floor_bp))
