"""Behaviours of schemes that move pages: what moves, what DAMON reports, what the nodes count.

The owner of the pages says where they are, because the kernel's reports can be wrong.
"""

from dataclasses import dataclass, replace

from tests.contract.behaviour import behaviour, since
from tests.contract.context import (
    AGGR_US,
    COUNTER,
    FAST,
    MIB,
    PAGE,
    SELDOM_US,
    SLOW,
    TICKER,
    Context,
    Scheme,
    events,
    node_events,
    node_kib,
    refusal_or,
    running,
)
from tests.contract.subject import Subject

SET_BYTES = 16 * MIB
SET_PAGES = SET_BYTES // PAGE

# A few pages are always on their way to an LRU list, or looked at by somebody else.
ALL = 0.95
MOST = 0.5
NONE = 0.05

# More than what is counted twice can make up.
MANY = 3

# The fast node is asked for this much more than is free, so that it fills to its watermark.
_FILL_MARGIN_MIB = 32

PROMOTIONS = ("pgpromote_success",)
DEMOTIONS = ("pgdemote_kswapd", "pgdemote_direct")


def share(subject: Subject, name: str, nid: int) -> float:
    """How much of a set is on a node."""
    where = subject.sets.where(name)
    return where.get(nid, 0) / sum(where.values())


@behaviour(
    cites="damon_pa_apply_scheme(), damos_update_stat()",
    expect="all memory tried, used or free; applied 0, 0; pages stay",
)
def stat_moves_nothing(subject: Subject) -> str:
    """A stat scheme counts the size of regions, regardless of their content, and moves nothing."""
    subject.sets.place("hot", SLOW, SET_BYTES)
    subject.sets.heat("hot")
    with running(subject, SLOW, Scheme(target_nid=FAST)) as context:
        context.until(lambda: context.applied() >= 5)
        stats = context.stats()[0]
        whole = stats.sz_tried % context.size_bytes == 0
    tried = "all memory tried, used or free" if whole else f"{stats.sz_tried} bytes tried"
    stays = share(subject, "hot", SLOW) == 1.0
    applied = f"applied {stats.sz_applied}, {stats.nr_applied}"
    return f"{tried}; {applied}; pages {'stay' if stays else 'move'}"


@behaviour(
    cites="damon_migrate_pages(), which from 6.16 to 6.18 keeps what it was given",
    expect=since(
        {
            "6.12": "tried, applied 0; pages stay, and can go later",
            "6.16": "tried, applied 0; pages stay, for good",
            "7.2": "tried, applied 0; pages stay, and can go later",
        }
    ),
)
def nowhere(subject: Subject) -> str:
    """Where pages are after a scheme without a target node has isolated them."""
    subject.sets.place("hot", SLOW, SET_BYTES)
    subject.sets.heat("hot")
    scheme = Scheme("migrate_hot", -1)
    with running(subject, SLOW, TICKER, scheme) as context:
        context.after_ticks(5)
        stats = context.stats()[1]
        stays = share(subject, "hot", SLOW) == 1.0
        context.commit(TICKER, replace(scheme, target_nid=FAST))
        context.after_ticks(5)
        goes = share(subject, "hot", FAST)
    tried = "tried" if stats.sz_tried else "not tried"
    later = {goes >= ALL: "and can go later", goes <= NONE: "for good"}.get(True, f"{goes:.0%} go")
    return f"{tried}, applied {stats.sz_applied}; pages {'stay' if stays else 'move'}, {later}"


@behaviour(
    cites="damon_migrate_folio_list()",
    expect="tried, applied 0",
)
def to_their_own_node(subject: Subject) -> str:
    """A migration to the node on which the pages are moves nothing."""
    subject.sets.place("hot", SLOW, SET_BYTES)
    subject.sets.heat("hot")
    with running(subject, SLOW, TICKER, Scheme("migrate_hot", SLOW)) as context:
        context.after_ticks(5)
        stats = context.stats()[1]
    return f"{'tried' if stats.sz_tried else 'not tried'}, applied {stats.sz_applied}"


@behaviour(
    cites="damon_pa_migrate()",
    expect="arrives",
)
def migrate_hot(subject: Subject) -> str:
    """migrate_hot moves what is accessed to a node that has room."""
    subject.sets.place("hot", SLOW, SET_BYTES)
    subject.sets.heat("hot")
    with running(subject, SLOW, Scheme("migrate_hot", FAST, accesses_min=1)) as context:
        context.until(lambda: share(subject, "hot", FAST) >= ALL)
    return "arrives"


@behaviour(
    cites="damon_pa_migrate()",
    expect="cold arrives",
)
def migrate_cold(subject: Subject) -> str:
    """migrate_cold moves what is not accessed, and a filter keeps young pages."""
    subject.sets.place("cold", FAST, SET_BYTES)
    subject.sets.place("hot", FAST, SET_BYTES)
    subject.sets.heat("hot")
    scheme = Scheme("migrate_cold", SLOW, accesses_max=0, never="young")
    with running(subject, FAST, scheme) as context:
        context.until(lambda: share(subject, "cold", SLOW) >= ALL)
    return "cold arrives" + (", hot as well" if share(subject, "hot", SLOW) > 0.5 else "")


@behaviour(
    cites="damos_pa_filter_match(), damon_folio_young()",
    expect="cold stays",
)
def young_filter(subject: Subject) -> str:
    """A filter that rejects pages that are not young passes exactly the hot pages."""
    subject.sets.place("hot", SLOW, SET_BYTES)
    subject.sets.place("cold", SLOW, SET_BYTES)
    subject.sets.heat("hot")
    scheme = Scheme("migrate_hot", SLOW, only="young")
    with running(subject, SLOW, TICKER, scheme) as context:
        # A page is young until it was checked once: this first round checks all pages.
        context.after_ticks(3)
        context.commit(TICKER, replace(scheme, target_nid=FAST))
        # All of it would take a machine that is never too busy to touch its pages in time.
        context.until(lambda: share(subject, "hot", FAST) >= MOST)
        context.after_ticks(3)
    return "cold stays" if share(subject, "cold", FAST) <= NONE else "cold moves"


@dataclass(frozen=True, slots=True)
class Pages:
    """The counts of a migration, by the party that counts."""

    pgmigrate: int
    promoted: int
    demoted: int
    fast_free: int
    slow_free: int

    def since(self, before: "Pages") -> "Pages":
        """Return the increase."""
        return Pages(
            self.pgmigrate - before.pgmigrate,
            self.promoted - before.promoted,
            self.demoted - before.demoted,
            self.fast_free - before.fast_free,
            self.slow_free - before.slow_free,
        )


def count(subject: Subject) -> Pages:
    """All counters now."""
    nodes = [node_events(subject.sysfs, nid) for nid in (FAST, SLOW)]
    return Pages(
        pgmigrate=events(subject.sysfs)["pgmigrate_success"],
        promoted=sum(node[name] for node in nodes for name in PROMOTIONS),
        demoted=sum(node[name] for node in nodes for name in DEMOTIONS),
        fast_free=node_kib(subject.sysfs, FAST, "MemFree") * 1024 // PAGE,
        slow_free=node_kib(subject.sysfs, SLOW, "MemFree") * 1024 // PAGE,
    )


def move_all(subject: Subject) -> tuple[int, Pages]:
    """Move a set from the slow to the fast node; return the reported pages and the counts."""
    subject.sets.place("hot", SLOW, SET_BYTES)
    subject.sets.heat("hot")
    before = count(subject)
    with running(subject, SLOW, Scheme("migrate_hot", FAST)) as context:
        context.until(lambda: share(subject, "hot", FAST) >= ALL)
        context.commit(Scheme())
        return context.stats()[0].sz_applied // PAGE, count(subject).since(before)


@behaviour(cites="damon_pa_migrate(), migrate_pages()", expect="agree")
def applied_is_moved(subject: Subject) -> str:
    """If the target has room, sz_applied and pgmigrate_success equal what left the source."""
    applied, moved = move_all(subject)
    same = _near(moved.pgmigrate, applied) and _near(moved.slow_free, applied)
    return "agree" if same else f"{applied} applied, {moved}"


@behaviour(
    cites="migrate_pages(), migrate_misplaced_folio(), demote_folio_list()",
    expect="promoted 0, demoted 0",
)
def node_counters(subject: Subject) -> str:
    """The node counters count pages moved by DAMON neither as promotion nor as demotion."""
    _, moved = move_all(subject)
    return f"promoted {moved.promoted}, demoted {moved.demoted}"


@behaviour(cites="migrate_pages()", expect="falls by what was applied")
def target_fills(subject: Subject) -> str:
    """The free memory of the target falls by the applied bytes."""
    applied, moved = move_all(subject)
    falls = _near(-moved.fast_free, applied, 0.2)
    return "falls by what was applied" if falls else f"{applied} applied, {moved}"


def _near(pages: int, wanted: int, tolerance: float = 0.05) -> bool:
    return abs(pages - wanted) <= tolerance * wanted


@behaviour(
    cites="alloc_migrate_folio(), which forgets its node mask; damon_migrate_folio_list()",
    expect=since(
        {
            "6.12": "copies in place while it fills, then fails",
            "6.18": "copies in place while it fills, and then",
            "7.3": "fails while it fills, and then",
        }
    ),
)
def full_target(subject: Subject) -> str:
    """Where pages go if the target node has no room for them."""
    _fill(subject)
    # Page cache comes and goes on a full node; the sets are of anonymous pages.
    scheme = Scheme("migrate_hot", FAST, only="anon")
    before = Claims(0, count(subject).pgmigrate, _anonymous(subject))
    with running(subject, SLOW, TICKER, scheme) as context:
        context.after_ticks(4)
        full = _claims(context)
        context.after_ticks(3)
        after = _claims(context)
    first, then = (
        "copies in place" if later.futile(earlier) else "fails"
        for earlier, later in ((before, full), (full, after))
    )
    return f"{first} while it fills, {'and then' if first == then else f'then {then}'}"


@dataclass(frozen=True, slots=True)
class Claims:
    """The pages that a migration reports, and the pages on the target."""

    applied: int
    migrated: int
    arrived: int

    def futile(self, before: "Claims") -> bool:
        """True if many more pages are reported than have arrived."""
        claimed = min(self.applied - before.applied, self.migrated - before.migrated)
        return claimed > self.arrived - before.arrived + SET_PAGES // 2


def _claims(context: Context) -> Claims:
    applied = context.stats()[1].sz_applied // PAGE
    return Claims(applied, count(context.subject).pgmigrate, _anonymous(context.subject))


def _anonymous(subject: Subject) -> int:
    return node_kib(subject.sysfs, FAST, "AnonPages") * 1024 // PAGE


def _fill(subject: Subject) -> None:
    """The fast node is at its watermark, and pages that are to move there wait on the slow one."""
    subject.sets.place("hot", SLOW, SET_BYTES)
    subject.sets.heat("hot")
    free_kib = node_kib(subject.sysfs, FAST, "MemFree")
    # More than is free: it fills the node, and the rest goes elsewhere.
    subject.sets.place("filler", FAST, free_kib * 1024 + _FILL_MARGIN_MIB * MIB)


@behaviour(
    cites="damos_apply_scheme()",
    expect="zeroed",
)
def ages_start_again(subject: Subject) -> str:
    """An action other than stat sets the age of its regions to zero, even if nothing moves."""
    return _ages(subject, Scheme("migrate_cold", SLOW))


@behaviour(
    cites="damos_apply_scheme()",
    expect="grow",
)
def parked_keeps_ages(subject: Subject) -> str:
    """A scheme whose quota is below a page leaves the ages alone."""
    return _ages(subject, Scheme("migrate_cold", SLOW, bytes=2_048))


def _ages(subject: Subject, scheme: Scheme) -> str:
    with running(subject, SLOW, TICKER, COUNTER, scheme) as context:
        context.after_ticks(12)
        oldest = max(region.age for region in context.tried_regions(1))
    # The whole comes first: it sees what the aggregation before has added.
    return "zeroed" if oldest <= 1 else "grow" if oldest >= 6 else f"up to {oldest}"


@behaviour(
    cites="damos_set_next_apply_sis()",
    expect="each in its own",
)
def apply_interval(subject: Subject) -> str:
    """Each scheme of a context has its own apply interval."""
    schemes = (COUNTER, replace(COUNTER, apply_us=4 * AGGR_US))
    with running(subject, SLOW, *schemes) as context:
        context.until(lambda: context.applied(1) >= 4)
        often, seldom = context.applied(0), context.applied(1)
    return "each in its own" if 3 * seldom <= often <= 6 * seldom else f"{often} and {seldom}"


@behaviour(
    cites="kdamond_apply_schemes(), damos_apply_target(); 6.12.107 did as 6.16",
    expect=since({"6.12": "some twice", "6.16": "all once", "7.2": "some twice"}),
)
def counted_before_quota(subject: Subject) -> str:
    """What a scheme without a quota takes if a later scheme splits the regions at its quota."""
    return _taken(subject, COUNTER, Scheme(bytes=MIB))


@behaviour(
    cites="kdamond_apply_schemes(), damos_apply_target(); 6.12.107 did as 6.16",
    expect=since({"6.12": "all once", "6.16": "not all", "7.2": "all once"}),
)
def counted_after_quota(subject: Subject) -> str:
    """What a scheme without a quota takes if an earlier scheme splits the regions at its quota."""
    return _taken(subject, Scheme(bytes=MIB), COUNTER)


# Its tries all fail, because the pages are on that node already. They cost next to nothing, so it
# splits a piece of its quota off each region again and again.
_FAILS_CHEAPLY = Scheme("migrate_hot", SLOW, bytes=MIB, fail_charge=(1, 1_024))


@behaviour(
    cites="damos_apply_target(), damos_charge_quota()",
    expect=since({"6.12": "ENOENT", "7.2": "many times"}),
)
def counted_before_failures(subject: Subject) -> str:
    """What a scheme without a quota takes if a later scheme splits off pieces that fail cheaply."""
    return refusal_or(lambda: _taken(subject, COUNTER, _FAILS_CHEAPLY))


@behaviour(
    cites="damos_apply_target(), damos_charge_quota()",
    expect=since({"6.12": "ENOENT", "7.2": "all once"}),
)
def counted_after_failures(subject: Subject) -> str:
    """What a scheme without a quota takes if an earlier one splits off pieces that fail cheaply."""
    return refusal_or(lambda: _taken(subject, _FAILS_CHEAPLY, COUNTER))


def _taken(subject: Subject, *schemes: Scheme) -> str:
    once = [replace(scheme, apply_us=SELDOM_US) for scheme in schemes]
    whole = schemes.index(COUNTER)
    with running(subject, SLOW, *once) as context:
        tried = context.until(lambda: context.stats()[whole].sz_tried)
        if tried == context.size_bytes:
            return "all once"
        if tried > MANY * context.size_bytes:
            return "many times"
        return "some twice" if tried > context.size_bytes else "not all"
