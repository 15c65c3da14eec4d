"""Behaviours of sweeps: a scheme that fits every region, has no weights, and has a quota.

Such a scheme goes through its memory by address, one quota a window. With a `young` filter each of
its visits checks whether a page was touched since the last one, and makes the page old. So a page
needs two visits: the first clears it, the second tells whether it was touched in between.
"""

from dataclasses import replace

from tests.contract.behaviour import behaviour, since
from tests.contract.context import (
    AGGR_US,
    FAST,
    MIB,
    PAGE,
    SLOW,
    TICKER,
    Context,
    Scheme,
    node_ranges,
    running,
    side_by_side,
)
from tests.contract.goal_law import MET, Law
from tests.contract.migration import ALL, MOST, NONE, share
from tests.contract.subject import Subject, text

SET_BYTES = 16 * MIB

# A round of the slow node takes so many windows, and a visit is so many behind the one before.
ROUND_WINDOWS = 20
LAG_WINDOWS = 6
# So slow that it is still in its first round after a few commands on a busy machine.
LONG_ROUND_WINDOWS = 50
LONG_WINDOW_US = 4 * AGGR_US

# Each page is touched several times while one visit is behind the other, and a single processor
# of an emulated machine can do it.
WARM_HZ = 16.0

# A quota of less than a page: the scheme waits.
PARKED_BYTES = PAGE // 2

# Goals that close a quota at once, and that open it: by a factor of 2 a window, or of 1.5.
CLOSED = 2 * MET
OPEN = 0
OPEN_SLOWLY = MET // 2

# Makes every page old that it visits, and takes none: whatever it is, one of these rejects it.
CLEAR = Scheme("migrate_hot", FAST, never="young", rejects=(("anon", "Y"), ("anon", "N")))
# Takes what was touched since it was last visited.
FIND = Scheme("migrate_hot", FAST, only="young")


def _node_bytes(subject: Subject) -> int:
    return sum(end - start for start, end in node_ranges(subject.sysfs, SLOW))


def _quota_bytes(subject: Subject) -> int:
    return _node_bytes(subject) // ROUND_WINDOWS // PAGE * PAGE


def _place(subject: Subject, *, warm: bool) -> None:
    subject.sets.place("hot", SLOW, SET_BYTES)
    subject.sets.place("cold", SLOW, SET_BYTES)
    if warm:
        subject.sets.heat("hot", WARM_HZ)


def _rounds(context: Context, index: int, rounds: float) -> None:
    """Wait until a scheme has tried so many times the memory that is watched."""
    goal = rounds * context.size_bytes
    context.until(lambda: context.stats()[index].sz_tried >= goal)


def _found(subject: Subject) -> str:
    """Return which of the two sets moved up."""
    hot, cold = share(subject, "hot", FAST), share(subject, "cold", FAST)
    if hot <= NONE and cold <= NONE:
        return "none"
    if hot >= MOST and cold <= NONE:
        return "hot"
    return "all" if min(hot, cold) >= ALL else f"{hot:.0%} of hot, {cold:.0%} of cold"


@behaviour(cites="damos_skip_charged_region(), damos_apply_scheme()", expect="all")
def round_in_order(subject: Subject) -> str:
    """A quota of whole pages continues where it stopped: one round visits every page."""
    return _one_round(subject, _quota_bytes(subject))


@behaviour(
    cites="damos_apply_scheme(), which remembers where it stopped if the quota is used up exactly",
    expect=since({"6.12": "not all", "7.2": "all"}),
)
def round_of_broken_pages(subject: Subject) -> str:
    """A quota that is not a multiple of pages begins at the first address again in each window."""
    return _one_round(subject, _quota_bytes(subject) + PAGE // 2)


def _one_round(subject: Subject, quota_bytes: int) -> str:
    _place(subject, warm=False)
    sweep = Scheme("migrate_hot", FAST, only="anon", bytes=quota_bytes)
    with running(subject, SLOW, TICKER, sweep) as context:
        # Where regions are cut while they are gone through, a tenth is tried twice.
        _rounds(context, 1, 1.1)
        seen = _found(subject)
    return seen if seen == "all" else "not all"


@behaviour(
    cites="damon_folio_young(): a page that was never asked about is young",
    expect=["all", "none"],
)
def first_visit(subject: Subject) -> list[str]:
    """The first visit finds every used page young, and the next one none."""
    _place(subject, warm=False)
    with running(subject, SLOW, TICKER, FIND) as context:
        context.after_ticks(2)
        first = _found(subject)
    for name in ("hot", "cold"):
        subject.sets.free(name)
    return [first, _after_clearing(subject, CLEAR)]


@behaviour(cites="damos_pa_filter_match(), damon_folio_mkold()", expect="none")
def clear_only(subject: Subject) -> str:
    """Filters that reject young, anonymous and other pages clear all pages and take none."""
    _place(subject, warm=False)
    with running(subject, SLOW, TICKER, CLEAR) as context:
        context.after_ticks(3)
        return _found(subject)


@behaviour(
    cites="damon_pa_stat(), from 6.14",
    expect=since({"6.12": "all", "6.16": "none"}),
)
def stat_clears(subject: Subject) -> str:
    """What is found after a `stat` scheme with a young filter: it clears pages since 6.14."""
    return _after_clearing(subject, Scheme(only="young"))


def _after_clearing(subject: Subject, first: Scheme) -> str:
    """What a scheme finds of idle pages after another scheme has visited them."""
    _place(subject, warm=False)
    with running(subject, SLOW, TICKER, first) as context:
        context.after_ticks(3)
        context.commit(TICKER, FIND)
        context.after_ticks(3)
        return _found(subject)


@behaviour(
    cites="damon_pa_stat(), sz_ops_filter_passed",
    expect=since({"6.12": "no count", "6.16": "counts what is young"}),
)
def stat_counts(subject: Subject) -> str:
    """A `stat` scheme with a young filter counts, visit by visit, the bytes that were touched."""
    _place(subject, warm=True)
    with running(subject, SLOW, TICKER, Scheme(only="young", apply_us=10 * AGGR_US)) as context:
        path = f"{context.folder}/schemes/1/stats/sz_ops_filter_passed"
        if text(subject.sysfs, path) is None:
            return "no count"

        def passed() -> tuple[int, int]:
            tried = context.stats()[1].sz_tried
            return tried, int(context.sysfs.read(path))

        # The first visit counts whatever was ever filled.
        context.until(lambda: passed()[0] >= context.size_bytes)
        tried, before = passed()
        context.until(lambda: passed()[0] >= tried + 2 * context.size_bytes)
        now, after = passed()
        a_visit = (after - before) / ((now - tried) / context.size_bytes)
    right = MOST * SET_BYTES <= a_visit <= (1 + NONE) * SET_BYTES
    return "counts what is young" if right else f"{a_visit / SET_BYTES:.2f} of it"


@behaviour(cites="kdamond_apply_schemes()", expect="hot")
def two_visits(subject: Subject) -> str:
    """If two kdamonds visit one after the other, the second finds what was touched in between."""
    _place(subject, warm=True)
    quota = _quota_bytes(subject)
    clear, find = replace(CLEAR, bytes=quota), replace(FIND, bytes=PARKED_BYTES)
    with side_by_side(subject, SLOW, (TICKER, clear), (TICKER, find)) as (first, second):
        # After a round all is cleared, and the second begins so far behind the next.
        goal = first.size_bytes + LAG_WINDOWS * quota
        first.until(lambda: first.stats()[1].sz_tried >= goal)
        second.commit(TICKER, replace(find, bytes=quota))
        _rounds(second, 1, 1.0)
        return _found(subject)


@behaviour(cites="kdamond_apply_schemes()", expect="hot")
def in_one_context(subject: Subject) -> str:
    """In one context the scheme that finds pages must come before the scheme that clears them."""
    _place(subject, warm=True)
    quota = _quota_bytes(subject)
    find, clear = replace(FIND, bytes=PARKED_BYTES), replace(CLEAR, bytes=quota)
    with running(subject, SLOW, TICKER, find, clear) as context:
        goal = context.size_bytes + LAG_WINDOWS * quota
        context.until(lambda: context.stats()[2].sz_tried >= goal)
        context.commit(TICKER, replace(find, bytes=quota), clear)
        _rounds(context, 1, 1.0)
        return _found(subject)


@behaviour(
    cites="damon_commit_ctx(), damos_commit_quota()",
    expect=since({"6.12": "goes on", "7.2": "begins again", "7.3": "goes on"}),
)
def committed(subject: Subject) -> str:
    """The position of a sweep after a commit that changes nothing."""
    return _place_after(subject, "commit")


@behaviour(cites="damos_sysfs_set_quota_scores()", expect="goes on")
def goals_committed(subject: Subject) -> str:
    """The position of a sweep after a commit of goals only."""
    return _place_after(subject, "commit_schemes_quota_goals")


@behaviour(
    cites="damos_skip_charged_region(), damos_quota_is_full(), which 6.18 lacks",
    expect=since({"6.12": "begins again", "7.2": "goes on"}),
)
def closed_and_opened(subject: Subject) -> str:
    """The position of a sweep after a goal has closed its quota and opened it again."""
    quota = _node_bytes(subject) // LONG_ROUND_WINDOWS // PAGE * PAGE
    sweep = replace(CLEAR, bytes=quota)
    with running(subject, SLOW, TICKER, sweep.scored(OPEN)) as context:
        _rounds(context, 1, 0.25)
        context.commit_goals(TICKER, sweep.scored(CLOSED))
        closed = _place_at_rest(context)
        if closed is None:
            return "never closed"
        context.commit_goals(TICKER, sweep.scored(OPEN))
        context.until(lambda: context.effective()[1] == quota)
        at = context.tried_regions(1)[0].start - context.ranges[0][0]
    return "goes on" if at >= closed else "begins again"


@behaviour(
    cites="damos_wmark_wait_us(), damos_commit()",
    expect=since({"6.12": "goes on", "7.2": "begins again", "7.3": "goes on"}),
)
def gated(subject: Subject) -> str:
    """The position of a sweep after watermarks have stopped it and let it act again."""
    quota = _node_bytes(subject) // LONG_ROUND_WINDOWS // PAGE * PAGE
    sweep = replace(CLEAR, bytes=quota, active=True)
    with running(subject, SLOW, TICKER, sweep) as context:
        _rounds(context, 1, 0.25)
        context.commit(TICKER, replace(sweep, active=False))
        stopped = _place_at_rest(context)
        if stopped is None:
            return "never stopped"
        context.commit(TICKER, sweep)
        context.until(lambda: context.stats()[1].sz_tried > stopped)
        at = context.tried_regions(1)[0].start - context.ranges[0][0]
    return "goes on" if at >= stopped else "begins again"


@behaviour(
    cites="damos_goal_tune_esz_bp_temporal(), damos_quota_is_full()",
    expect=since({"6.12": "absent", "7.2": "closes; opens at once; goes on"}),
)
def temporal(subject: Subject) -> str:
    """How the goal tuner `temporal` closes and opens a sweep."""
    quota = _node_bytes(subject) // LONG_ROUND_WINDOWS // PAGE * PAGE
    sweep = replace(CLEAR, bytes=quota, goal_tuner="temporal")
    with running(subject, SLOW, TICKER, replace(sweep, goal_tuner=None)) as context:
        path = f"{context.folder}/schemes/1/quotas/goal_tuner"
        if text(subject.sysfs, path) is None:
            return "absent"
    with running(subject, SLOW, TICKER, sweep.scored(OPEN)) as context:
        _rounds(context, 1, 0.25)
        context.commit_goals(TICKER, sweep.scored(CLOSED))
        closed = _place_at_rest(context)
        if closed is None:
            return "never closed"
        context.commit_goals(TICKER, sweep.scored(OPEN))
        context.after_ticks(2)
        if context.effective()[1] != quota:
            return "closes; opens slowly"
        at = context.tried_regions(1)[0].start - context.ranges[0][0]
    return "closes; opens at once; " + ("goes on" if at >= closed else "begins again")


@behaviour(
    cites="damon_feed_loop_next_input(), damos_apply_scheme()",
    expect="the windows of the goal law; stay so for two rounds",
)
def opened_together(subject: Subject) -> str:
    """One command opens two sweeps. One opens more slowly, so it is behind, and stays so."""
    quota = _quota_bytes(subject)
    ahead, behind = (replace(CLEAR, bytes=quota).scored(CLOSED) for _ in range(2))
    with running(subject, SLOW, TICKER, behind, ahead, last_page_alone=True) as context:
        context.after_ticks(2)
        context.commit_goals(TICKER, behind.scored(OPEN_SLOWLY), ahead.scored(OPEN))
        _rounds(context, 1, 0.5)
        lag = _windows_between(context, quota)
        _rounds(context, 1, 2.5)
        # At the end of a round a window is shorter, first for one and then for the other.
        context.until(lambda: _windows_between(context, quota) == lag)
    law = "the windows of the goal law" if lag == _windows_of_law(quota) else f"{lag} windows"
    return f"{law}; stay so for two rounds"


@behaviour(
    cites="damon_commit_ctx(), damos_commit_quota()",
    expect="half as fast; then as fast again",
)
def slowed(subject: Subject) -> str:
    """A commit halves the quota of one of two sweeps, and another one gives it back."""
    quota = _quota_bytes(subject)
    ahead = behind = replace(CLEAR, bytes=quota, active=True)
    slow = replace(behind, bytes=quota // 2 // PAGE * PAGE)
    with running(subject, SLOW, TICKER, behind, ahead, last_page_alone=True) as context:
        _rounds(context, 1, 0.25)
        context.commit(TICKER, slow, ahead)
        slower = _relative_speed(context, quota)
        context.commit(TICKER, behind, ahead)
        again = _relative_speed(context, quota)
    speeds = [
        "half" if 0.4 <= speed <= 0.6 else "as" if 0.9 <= speed <= 1.1 else f"{speed:.2f} times"
        for speed in (slower, again)
    ]
    return f"{speeds[0]} as fast; then {speeds[1]} fast again"


def _relative_speed(context: Context, quota: int) -> float:
    """How fast the first sweep is beside the second one, over a round of that."""
    _, first, second = context.stats()
    goal = second.sz_tried + ROUND_WINDOWS * quota
    context.until(lambda: context.stats()[2].sz_tried >= goal)
    _, first_now, second_now = context.stats()
    return (first_now.sz_tried - first.sz_tried) / (second_now.sz_tried - second.sz_tried)


def _place_at_rest(context: Context) -> int | None:
    """Return how much a sweep that was told to stop has tried, or None if it goes on."""
    context.after_ticks(2)
    stopped = context.stats()[1].sz_tried
    context.after_ticks(5)
    return stopped if context.stats()[1].sz_tried == stopped else None


def _windows_between(context: Context, quota: int) -> int:
    """How many windows the second sweep, which is the scheme before, is behind the first."""
    _, behind, ahead = context.stats()
    return round((ahead.sz_tried - behind.sz_tried) / quota)


def _windows_of_law(quota: int) -> int:
    """How many windows two such quotas are apart when both are open."""
    fast, slow, distance = Law(OPEN, quota), Law(OPEN_SLOWLY, quota), 0
    while slow.effective_bytes < quota:
        fast, slow = fast.tick(), slow.tick()
        distance += (fast.effective_bytes // PAGE - slow.effective_bytes // PAGE) * PAGE
    return round(distance / quota)


def _place_after(subject: Subject, command: str) -> str:
    """Whether a sweep is further on than before a command, or nearer to its beginning."""
    quota = _node_bytes(subject) // LONG_ROUND_WINDOWS // PAGE * PAGE
    sweep = replace(CLEAR, bytes=quota, apply_us=LONG_WINDOW_US)
    with running(subject, SLOW, TICKER, sweep) as context:
        _rounds(context, 1, 0.25)
        before = context.tried_regions(1)[0].start
        context.command(command)
        after = context.tried_regions(1)[0].start
    return "goes on" if after > before else "begins again"
