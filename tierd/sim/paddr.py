"""Applies a scheme's action to the folios of a physical range (mm/damon/paddr.c).

Only folios on an LRU list are seen. Free memory, holes and pages of the kernel are skipped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

from tierd.sim.context_spec import Action, Filter, FilterType, SchemeSpec
from tierd.sim.memory import FIRST_SET, Memory
from tierd.sim.quirks import Fallback, KdamondQuirks
from tierd.sim.regions import Region

# The approximate time to look at one page, and to move one page. A kdamond takes its next sample
# later by the time that it has worked.
_LOOK_NS = 100
_MOVE_NS = 1_500


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
    quirks: KdamondQuirks,
) -> Applied:
    """Apply an action to a region (damon_pa_apply_scheme()). One that paddr lacks does nothing."""
    filters = spec.ops_filters if ask_ops_filters else ()
    if spec.action not in _KNOWN or (spec.action is Action.stat and not filters):
        return _NOTHING
    first = region.start * addr_unit // memory.block_bytes
    # pfn_to_online_page(): there is nothing beyond the last page.
    end = min(-(-region.end * addr_unit // memory.block_bytes), len(memory.held))
    look_ns = max(0, end - first) * memory.block_pages * _LOOK_NS
    if spec.action is Action.pageout and not any(f.type is FilterType.young for f in filters):
        # damon_pa_pageout() adds a young filter if there is none.
        filters = (*filters, Filter(FilterType.young, matching=True, allow=False))
    blocks = _passing(memory, filters, range(first, end), now_us, exp(-region.sampled))
    moved = _act(memory, spec, blocks, quirks)
    return Applied(
        applied_bytes=moved * memory.block_bytes,
        passed_bytes=len(blocks) * memory.block_bytes,
        work_ns=look_ns + moved * memory.block_pages * _MOVE_NS,
    )


def _passing(
    memory: Memory, filters: Sequence[Filter], blocks: range, now_us: int, unsampled: float
) -> list[int]:
    held = memory.held
    folios = [block for block in blocks if held[block] >= FIRST_SET]
    if memory.isolated:
        folios = [block for block in folios if block not in memory.isolated]
    if not filters:
        return folios
    return [
        block
        for block in folios
        if _allowed(memory, filters, block, now_us=now_us, unsampled=unsampled)
    ]


def _allowed(
    memory: Memory, filters: Sequence[Filter], block: int, *, now_us: int, unsampled: float
) -> bool:
    for known in filters:
        if known.type is FilterType.young:
            matched = memory.test_and_clear_young(block, now_us, unsampled)
        else:
            matched = _matches(memory, known, block)
        if matched == known.matching:
            return known.allow
    # damos_filters_default_reject(): if the last filter allows pages, all other pages are rejected.
    return not filters[-1].allow


def _matches(memory: Memory, known: Filter, block: int) -> bool:
    page_set = memory.set_of(block)
    match known.type:
        case FilterType.anon:
            return page_set.anon
        case FilterType.memcg:
            # Only this cgroup, not its children.
            return page_set.cgroup == known.path
        case FilterType.active:
            return page_set.rate_hz > 0
        case FilterType.hugepage_size:
            return known.min <= memory.block_bytes <= known.max
        case _:
            return False


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


def _act(memory: Memory, spec: SchemeSpec, blocks: list[int], quirks: KdamondQuirks) -> int:
    match spec.action:
        case Action.migrate_hot | Action.migrate_cold:
            return _migrate(memory, spec.target_nid, blocks, quirks)
        case Action.pageout:
            # There is no swap, so only file pages can be reclaimed.
            gone = [block for block in blocks if not memory.set_of(block).anon]
            for block in gone:
                memory.put(block)
            return len(gone)
        case Action.lru_prio | Action.lru_deprio:
            return len(blocks)
        case _:
            return 0


def _migrate(memory: Memory, nid: int, blocks: list[int], quirks: KdamondQuirks) -> int:
    """Move blocks, but not to their own node or to one that is missing (damon_migrate_pages())."""
    if nid not in memory.nodes:
        if quirks.isolated_for_good:
            memory.isolated.update(blocks)
        return 0
    away = [block for block in blocks if memory.nid_of(block) != nid]
    if not away:
        return 0
    anywhere = memory.fallback_order(nid)
    if quirks.fallback is Fallback.anywhere:
        return memory.migrate(away, anywhere)
    moved = memory.migrate(away, [nid])
    if 0 < moved < len(away) and quirks.fallback is Fallback.anywhere_after_success:
        moved += memory.migrate(away[moved:], anywhere)
    return moved
