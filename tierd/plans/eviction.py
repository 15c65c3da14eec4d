"""Eviction: a scheme that takes the coldest pages of the slowest nodes out of memory. Pure.

Demotion needs room on the node that it goes to. The slowest nodes can demote to nowhere. Without
room there the kernel would swap, and it may take the pages from any node. Or nothing would go
down, because DAMON's migration does not wait for reclaim, and page cache fills a node sooner or
later. DAMON's action `pageout` reclaims pages of cold regions, and leaves young pages where they
are. Page cache is dropped. The rest goes to swap, and stays where it is without swap.
"""

from tierd.frozen import replace
from tierd.machine.features import Capabilities, Feature
from tierd.plans.damon import Filter, FilterType
from tierd.plans.plan import Aim, Controller, Direction, Migration
from tierd.plans.rates import RATE_MIN_BYTES_PER_S, quota_bytes
from tierd.units import format_percent, format_rate

# Without swap, anonymous pages would be tried in vain.
NOT_ANON = Filter(FilterType.anon, matching=True)

# So would be memory that programs share (shmem). Each try takes it out of their page tables, and a
# kdamond seconds. What programs have mapped stays, which is right for files too.
NOT_MAPPED = Filter(FilterType.unmapped, matching=False)


def filters(migration: Migration, capabilities: Capabilities) -> tuple[Filter, ...]:
    """Return the filters that leave only what can be evicted."""
    if not migration.files_only:
        return ()
    return (NOT_ANON, NOT_MAPPED) if capabilities.has(Feature.unmapped_filter) else (NOT_ANON,)


def migration(
    like: Migration,
    capabilities: Capabilities,
    *,
    scheme: int,
    aim: Aim,
    rate_max: int | None,
    swaps: bool,
) -> Migration:
    """Return the eviction of a node as a migration to itself. `like` is one from this node.

    The rate is that of a small machine, because swap is slower than memory.
    """
    what, keeps = "drop page cache", "make room for what is demoted to it"
    if swaps:
        what, keeps = (
            "swap out memory",
            f"keep {format_percent(aim.target_bp)} of it free for demotion",
        )
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
            f"{what} that nobody accesses on node {node}, which has no slower node, at most "
            f"{format_rate(rate)}, to {keeps}"
        ),
        files_only=not swaps,
    )
