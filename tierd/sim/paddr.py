"""Applies a scheme's action to the folios of a physical range (mm/damon/paddr.c).

Only folios on an LRU list are seen. Free memory, holes and pages of the kernel are skipped.
"""

from math import exp

from tierd.frozen import dataclass
from tierd.sim.context_spec import Action, Filter, FilterType, SchemeSpec
from tierd.sim.memory import Memory, Picked
from tierd.sim.quirks import Fallback, KdamondQuirks
from tierd.sim.regions import Region

# The approximate time to move one page. A kdamond takes its next sample later by the time that it
# has worked.
_MOVE_NS = 1_500

# The approximate time to pass over a page: to find out that it is free, or on no LRU list
# (damon_get_folio()). It takes a cache line of page structures, one after another.
_PASS_NS = 10


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of an action in bytes, and the time that it took."""

    applied_bytes: int = 0
    passed_bytes: int = 0
    work_ns: int = 0


_NOTHING = Applied()


def apply_action(
    memory: Memory,
    spec: SchemeSpec,
    region: Region,
    addr_unit: int,
    now_us: int,
    *,
    ask_ops_filters: bool,
    follows: bool,
    quirks: KdamondQuirks,
) -> Applied:
    """Apply an action to a region (damon_pa_apply_scheme()). One that paddr lacks does nothing.

    `follows` is as in Memory.pick().
    """
    filters = spec.ops_filters if ask_ops_filters else ()
    if spec.action not in _KNOWN or (spec.action is Action.stat and not filters):
        return _NOTHING
    # pfn_to_online_page(): there is nothing beyond the last page.
    start, end = (min(one * addr_unit, memory.end_bytes) for one in (region.start, region.end))
    if spec.action is Action.pageout and not any(f.type is FilterType.young for f in filters):
        # damon_pa_pageout() adds a young filter if there is none.
        filters = (*filters, Filter(FilterType.young, matching=True, allow=False))
    picked = memory.pick(start, end, filters, now_us, exp(-region.sampled), follows=follows)
    moved = _act(memory, spec, picked, quirks)
    return Applied(
        applied_bytes=moved * memory.page_bytes,
        passed_bytes=picked.pages * memory.page_bytes,
        work_ns=(
            (end - start) // memory.page_bytes * _PASS_NS
            + picked.looked_at * memory.look_ns
            + moved * _MOVE_NS
        ),
    )


_KNOWN = frozenset(
    {
        Action.pageout,
        Action.lru_prio,
        Action.lru_deprio,
        Action.migrate_hot,
        Action.migrate_cold,
        Action.stat,
    }
)


def _act(memory: Memory, spec: SchemeSpec, picked: Picked, quirks: KdamondQuirks) -> int:
    """Apply the action to pages. Return to how many it was applied."""
    match spec.action:
        case Action.migrate_hot | Action.migrate_cold:
            return _migrate(memory, spec.target_nid, picked, quirks)
        case Action.pageout:
            # reclaim_pages() never demotes. File pages are dropped.
            return picked.free_files() + picked.swap_out()
        case Action.lru_prio | Action.lru_deprio:
            return picked.pages
        case _:
            return 0


def _migrate(memory: Memory, nid: int, picked: Picked, quirks: KdamondQuirks) -> int:
    """Move pages, but not to their own node or to one that is missing (damon_migrate_pages())."""
    if nid not in memory.nodes:
        if quirks.isolated_for_good:
            picked.isolate()
        return 0
    away = picked.away_from(nid)
    if not away.pages:
        return 0
    anywhere = memory.fallback_order(nid)
    if quirks.fallback is Fallback.anywhere:
        return away.migrate(anywhere)[0]
    moved, left = away.migrate([nid])
    if moved and left.pages and quirks.fallback is Fallback.anywhere_after_success:
        moved += left.migrate(anywhere)[0]
    return moved
