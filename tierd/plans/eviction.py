"""Eviction: a scheme that sends the coldest pages of the slowest nodes to swap, to keep headroom.

Pure. Demotion needs room on the node that it goes to. The slowest nodes can demote to nowhere, so
without room there the kernel would swap, and it may take the pages from any node. DAMON's action
`pageout` reclaims pages of cold regions, and leaves young pages where they are.
"""

from dataclasses import replace

from tierd.machine.features import Capabilities
from tierd.plans.plan import Aim, Controller, Direction, Migration
from tierd.plans.rates import RATE_MIN_BYTES_PER_S, quota_bytes
from tierd.units import format_percent, format_rate


def migration(
    like: Migration, capabilities: Capabilities, *, scheme: int, aim: Aim, rate_max: int | None
) -> Migration:
    """Return the eviction of a node as a migration to itself. `like` is one from this node.

    The rate is that of a small machine, because swap is slower than memory.
    """
    rate = float(RATE_MIN_BYTES_PER_S if rate_max is None else rate_max)
    node = like.source_node
    return replace(
        like,
        id=f"{Direction.evict}-{node}",
        direction=Direction.evict,
        target_node=node,
        scheme=scheme,
        aim=aim,
        rate_max_bytes_per_s=rate,
        quota_bytes_max=quota_bytes(
            rate, like.window_us, Controller.demand, like.direction, capabilities
        ),
        reason=(
            f"swap out what nobody accesses on node {node}, which has no slower node, at most "
            f"{format_rate(rate)}, to keep {format_percent(aim.target_bp)} of it free for demotion"
        ),
    )
