"""Sweeps: schemes that visit the pages of a node one by one, in the order of their addresses.

Pure. DAMON's `young` filter checks the accessed bit of each page that a scheme comes to, and clears
it. So a scheme with this filter sees single pages, where access counts see whole regions. A scheme
whose pattern fits every region and whose weights are 0 goes through the addresses in order, a quota
in each window, and begins again at the end (tests/contract/visits.py).
"""

from collections.abc import Iterator

from tierd.configuration.config import Config
from tierd.frozen import replace
from tierd.plans.damon import (
    UINT_MAX,
    ULONG_MAX,
    AccessPattern,
    Action,
    FailCharge,
    Filter,
    FilterType,
    Goal,
    GoalTuner,
    Metric,
    Quota,
    Scheme,
    Span,
    Weights,
)
from tierd.plans.plan import (
    CLOSED_INPUT,
    FEW,
    TARGET,
    Direction,
    Grain,
    Migration,
    Sweep,
    Visit,
)
from tierd.plans.scope import Scope
from tierd.units import format_rate

IN_ORDER = Weights(0, 0, 0)

# Seconds of one round. A faster round takes a larger part of a processor, because each page costs
# the same.
ROUND_S = 6.0

# A round that demotes is quicker, because it makes the room for the other one.
DEMOTE_ROUND_S = 3.0

# A sweep that pushes or relieves takes hot pages. It moves no more of the node per second than a
# round of this length, so that it stops close to what was wanted: the command that closes it takes
# up to a second on a busy machine.
FEW_ROUND_S = 10.0

# A push passes the pages of other groups, and relief passes idle ones. A page that is passed uses
# up quota for a part of its size: one over this number at least. So in a window up to so many times
# the quota is passed, and the pages of a small group are found too. Without fail_charge (Linux 7.2)
# it uses up all of its size, so the quota is for what is visited.
PASSED_SHARE = 16

_ROUND_S = {
    Visit.age: DEMOTE_ROUND_S,
    Visit.demote: DEMOTE_ROUND_S,
    Visit.push: FEW_ROUND_S,
    Visit.relieve: FEW_ROUND_S,
}

# The most pages that one sweep visits per second. A visit of a mapped page takes 0.2 to 1 us on
# real machines, so this is a tenth to a half of a processor while the sweep runs. A round of 1 TiB
# takes 9 minutes then. The budget (`cost`) says for how long sweeps may run.
PAGES_PER_S_MAX = 1 << 19

# Seconds. Where a round takes longer, the first pages of it have changed before the last are seen.
# So it is checked in its middle, and its bars stay where they are. Where it would take longer if it
# visited no more than VISITED_PER_RATE allows, regions make the room for what comes up by regions.
LONG_ROUND_S = 30.0

# A sweep may find every page of a window to be one that moves, and may be closed late. So it visits
# only so many times the rate limit, as a quota by region has it. Where a round would be long, it
# may be more: few pages of a large node move, and what moved beyond the rate is paid back.
VISITED_PER_RATE = 2
VISITED_PER_RATE_MAX = 8

# Seconds of a round that is just not long. Quotas are whole pages, so a round takes a little longer
# than planned.
NOT_LONG_ROUND_S = 0.9 * LONG_ROUND_S

# The filters of a visit that moves pages.
_YOUNG = {
    Visit.promote: Filter(FilterType.young, matching=False),
    Visit.demote: Filter(FilterType.young, matching=True),
    Visit.relieve: Filter(FilterType.young, matching=False),
}

_DOWN = (Visit.demote, *FEW)

# Whatever a page is, one of these filters rejects it. The first one makes it old.
_NONE = (
    Filter(FilterType.young, matching=True),
    Filter(FilterType.anon, matching=True),
    Filter(FilterType.anon, matching=False),
)


def sweeps(
    by_region: tuple[Migration, ...],
    *,
    page_bytes: int,
    round_bytes: int,
    window_us: int,
    first_lag_us: int,
    samples_per_s: float,
    gated: bool,
    also: Visit | None = None,
) -> tuple[Sweep, ...]:
    """Return the sweeps of a node, for its migrations by regions. Their schemes follow these.

    A sweep that moves pages comes before the one that makes them old for it: in one window both may
    visit a page. `also` is the visit that takes hot pages down, if there is one.
    """
    nearest = by_region[0].target_node
    kinds = [
        (Visit(one.direction), one.target_node)
        for one in by_region
        if not _strays(one, gated=gated)
    ]
    # Sweeps to all targets are equally fast, because one sweep clears the pages for all of them.
    rate = min(one.rate_max_bytes_per_s for one in by_region)
    fallbacks = {(Visit(one.direction), one.target_node) for one in by_region if one.fallback}
    downs = [end for visit, end in kinds if visit is Visit.demote and (visit, end) not in fallbacks]
    if any(visit is Visit.promote for visit, _ in kinds):
        kinds.append((Visit.clear, nearest))
    if downs:
        kinds.append((Visit.age, nearest))
    if also is not None:
        kinds += [(also, target) for target in downs]
    return tuple(
        Sweep(
            id=_id(visit, by_region[0].source_node, target),
            visit=visit,
            node=by_region[0].source_node,
            target_node=target,
            kdamond=by_region[0].kdamond,
            scheme=scheme,
            quota_bytes=_quota_bytes(visit, page_bytes, round_bytes, rate, window_us, gated=gated),
            window_us=window_us,
            first_lag_us=first_lag_us,
            page_bytes=page_bytes,
            round_bytes=round_bytes,
            samples_per_s=samples_per_s,
            gated=gated,
            fallback=(visit, target) in fallbacks,
        )
        for scheme, (visit, target) in enumerate(kinds, by_region[-1].scheme + 1)
    )


def takes_hot(config: Config, *, shares: bool, hints: bool, gated: bool) -> Visit | None:
    """Return the visit that takes hot pages of a node down. `shares`: groups share the node.

    Where they do, nothing relieves it: that would take from a group what is its share. With `hints`
    hint faults promote, and latencies are not read. `gated` sweeps may each visit a window when one
    of them opens (`_strays`), so that hot pages would go down that nothing asks for.
    """
    if shares:
        return Visit.push
    return Visit.relieve if config.measures_latency and not (hints or gated) else None


def _strays(one: Migration, *, gated: bool) -> bool:
    """Return whether a sweep for a migration would move pages that nothing asks for.

    A commit that opens one gate opens them all for a moment: each sweep may visit one window then.
    What a sweep that promotes finds far behind the one that clears looks young, and comes up. So
    pages come up to fallbacks by goals only.
    """
    return gated and one.fallback and one.direction is Direction.promote


def is_long(sweep: Sweep) -> bool:
    """Return whether a round of a sweep takes long."""
    return sweep.round_bytes > LONG_ROUND_S * sweep.bytes_per_s


def makes_room(sweep: Sweep, rate_bytes_per_s: float) -> bool:
    """Return whether a sweep that demotes can make the room for what comes up by regions.

    A sweep that visits far more than the rate limit moves all of what it visits on a node that is
    cold. So it is closed most of the time, and makes room in jerks.
    """
    return sweep.round_bytes <= LONG_ROUND_S * VISITED_PER_RATE * rate_bytes_per_s


def scheme(sweep: Sweep, scope: Scope) -> Scheme:
    """Return the scheme of a sweep. It is closed at first."""
    goal = Goal(Metric.user_input, TARGET, current_value=CLOSED_INPUT)
    return Scheme(
        action=Action.migrate_cold if sweep.visit in _DOWN else Action.migrate_hot,
        target_nid=sweep.target_node,
        pattern=AccessPattern(
            Span(sweep.page_bytes, ULONG_MAX), Span(0, UINT_MAX), Span(0, UINT_MAX)
        ),
        apply_interval_us=sweep.window_us,
        quota=Quota(
            bytes_max=sweep.quota_bytes,
            goals=() if sweep.gated else (goal,),
            weights=IN_ORDER,
            goal_tuner=GoalTuner.consist if sweep.gated else GoalTuner.temporal,
            fail_charge=_charge(sweep) if sweep.passes_cheaply else None,
        ),
        filters=_filters(sweep.visit, scope),
        gated=sweep.gated,
    )


def _filters(visit: Visit, scope: Scope) -> tuple[Filter, ...]:
    if visit is Visit.push:
        return (*scope.before, *scope.after)
    own = _YOUNG.get(visit)
    return (*scope.before, own, *scope.after) if own else _NONE


def migrations(
    by_region: tuple[Migration, ...], visiting: tuple[Sweep, ...]
) -> Iterator[Migration]:
    """Yield the migrations of the sweeps that move pages: as those by regions, but page by page."""
    known = {one.id: one for one in by_region}
    for sweep in visiting:
        if sweep.moves:
            beside = known[sweep.beside]
            yield replace(
                beside,
                id=sweep.id,
                scheme=sweep.scheme,
                quota_bytes_max=sweep.quota_bytes,
                reason=_reason(sweep, beside.rate_max_bytes_per_s),
                grain=Grain.pages,
            )


def _id(visit: Visit, node: int, target: int) -> str:
    """Return the stable name of a sweep."""
    one_target = visit in (Visit.clear, Visit.age)
    return f"{visit}-pages-{node}" if one_target else f"{visit}-pages-{node}-{target}"


def _quota_bytes(
    visit: Visit,
    page_bytes: int,
    round_bytes: int,
    rate_bytes_per_s: float,
    window_us: int,
    *,
    gated: bool,
) -> int:
    """Return how much a sweep visits in one window: a whole number of pages.

    With a part of a page, kernels before 7.2 begin at the first address again in each window. If
    the rate limit is less than a page, nothing is visited.
    """
    round_s = _ROUND_S.get(visit, ROUND_S)
    speed = min(round_bytes / round_s, PAGES_PER_S_MAX * page_bytes)
    if visit in FEW and not gated:
        # Its quota is for what moves.
        speed = min(speed, rate_bytes_per_s)
    else:
        speed = min(speed, _speed_max(round_bytes, rate_bytes_per_s))
    visited = int(speed * window_us / 1e6)
    return visited // page_bytes * page_bytes or max(1, visited)


def _speed_max(round_bytes: int, rate_bytes_per_s: float) -> float:
    """Return how much of a node may be visited per second, so that the rate limit holds."""
    slow, fast = (times * rate_bytes_per_s for times in (VISITED_PER_RATE, VISITED_PER_RATE_MAX))
    return min(fast, max(slow, round_bytes / NOT_LONG_ROUND_S))


def _charge(sweep: Sweep) -> FailCharge:
    """Return what a page costs that is only passed: so that a sweep visits no more than it may."""
    most = PAGES_PER_S_MAX * sweep.page_bytes / sweep.bytes_per_s
    return FailCharge(1, max(1, min(PASSED_SHARE, int(most))))


def _reason(sweep: Sweep, rate_max_bytes_per_s: float) -> str:
    up = sweep.visit is Visit.promote
    if sweep.visit is Visit.push:
        return (
            f"move pages of groups that have more than their share of node {sweep.node} down to "
            f"node {sweep.target_node}, while another group lacks some of its own, at most "
            f"{format_rate(rate_max_bytes_per_s)} together with {sweep.beside}"
        )
    if sweep.visit is Visit.relieve:
        return (
            f"move hot pages of node {sweep.node} down to node {sweep.target_node} while slower "
            f"memory answers sooner, at most {format_rate(rate_max_bytes_per_s)} together with "
            f"{sweep.beside}"
        )
    what = "were touched" if up else "were not touched"
    return (
        f"visit the pages of node {sweep.node} one by one, and move those that {what} since the "
        f"last visit {'up' if up else 'down'} to node {sweep.target_node}, at most "
        f"{format_rate(rate_max_bytes_per_s)} together with {sweep.beside}"
        f"{' and with what goes to nearer nodes' if sweep.fallback else ''}"
    )
