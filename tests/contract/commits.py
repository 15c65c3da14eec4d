"""Behaviours of commands that change a running context: what they keep, lose and delay."""

from dataclasses import replace

from tests.contract.behaviour import behaviour, since
from tests.contract.context import (
    AGGR_US,
    CONTEXT,
    COUNTER,
    MIB,
    SAMPLE_US,
    SLOW,
    TICKER,
    Context,
    Scheme,
    Stats,
    refusal_or,
    running,
)
from tests.contract.subject import Subject

# Long enough for ages to show and for several merges and splits of the regions.
_SETTLED = 12
# The number of commits in a row. They come much faster than the apply interval of the scheme.
_COMMITS = 24
_COMMIT_S = 0.1
_APPLY_US = 1_000_000


@behaviour(
    cites="damos_sysfs_set_quota_scores()",
    expect="goal taken, bytes not taken, commit taken",
)
def goals_only(subject: Subject) -> str:
    """commit_schemes_quota_goals changes the goals and nothing else."""
    goal, other = Scheme(bytes=MIB).scored(0), Scheme(bytes=2 * MIB, action="lru_prio")
    with running(subject, SLOW, TICKER, goal) as context:
        context.until(lambda: context.effective()[1] == MIB)
        context.commit_goals(TICKER, other.scored(20_000))
        context.after_ticks(2)
        goal_taken = context.effective()[1] == 1
        context.commit_goals(TICKER, other.scored(0))
        context.after_ticks(24)
        bytes_kept = context.effective()[1] == MIB
        context.command("commit")
        context.after_ticks(24)
        committed = context.effective()[1] == 2 * MIB
    return f"goal {_yes(goal_taken)}, bytes {_yes(not bytes_kept)}, commit {_yes(committed)}"


@behaviour(
    cites="damon_commit_ctx(), damos_commit()",
    expect="keeps pid, counters",
)
def keeps_counts(subject: Subject) -> str:
    """A commit keeps the kdamond and the counters of its schemes."""
    with running(subject, SLOW, TICKER, COUNTER) as context:
        context.after_ticks(5)
        before = context.pid, context.stats()[1]
        context.command("commit")
        after = context.pid, context.stats()[1]
    kept = {"pid": before[0] == after[0], "counters": _grew(before[1], after[1])}
    return f"keeps {', '.join(name for name, same in kept.items() if same)}"


@behaviour(
    cites="damon_sysfs_new_test_ctx(), damos_quota_init(), which initialises what it was given",
    expect=since({"6.12": "kept", "7.2": "starts again", "7.3": "kept"}),
)
def keeps_quota(subject: Subject) -> str:
    """The quota that a goal has tuned, after a commit that changes nothing."""
    with running(subject, SLOW, TICKER, Scheme().scored(0)) as context:
        context.until(lambda: context.effective()[1] > MIB)
        context.commit_goals(TICKER, Scheme().scored(10_000))
        before = context.effective()[1]
        context.command("commit")
        context.after_ticks(2)
        after = context.effective()[1]
    return "kept" if after == before else "starts again" if after <= 1 else f"{before}, {after}"


@behaviour(
    cites="damon_commit_target_regions(), damon_set_regions()",
    expect="kept",
)
def keeps_ages(subject: Subject) -> str:
    """A commit of equal attributes keeps the regions and their ages."""
    with running(subject, SLOW, TICKER, COUNTER) as context:
        context.after_ticks(_SETTLED)
        before = _oldest(context)
        context.command("commit")
        after = _oldest(context)
    return "kept" if after >= before >= _SETTLED // 2 else f"{before} before, {after} after"


@behaviour(
    cites="damon_nth_scheme()",
    expect="stay with the index",
)
def by_index(subject: Subject) -> str:
    """Schemes are matched by index: counters belong to the index, not to the scheme."""
    idle = Scheme(accesses_min=1_000_000)
    with running(subject, SLOW, TICKER, COUNTER, idle) as context:
        context.after_ticks(5)
        _, whole, _ = context.stats()
        context.commit(TICKER, idle, COUNTER)
        _, first, second = context.stats()
    stays = first.sz_tried >= whole.sz_tried > second.sz_tried
    return "stay with the index" if stays else f"{whole}, then {first} and {second}"


@behaviour(
    cites="damon_commit_schemes()",
    expect="first kept, second lost",
)
def loses_dropped(subject: Subject) -> str:
    """A scheme beyond the committed number is removed; one that is added later starts at zero."""
    with running(subject, SLOW, TICKER, COUNTER, COUNTER) as context:
        context.after_ticks(12)
        before = context.stats()[1:]
        context.commit(TICKER, COUNTER)
        context.commit(TICKER, COUNTER, COUNTER)
        after = context.stats()[1:]
    first, second = (new.sz_tried >= old.sz_tried for new, old in zip(after, before, strict=True))
    return f"first {'kept' if first else 'lost'}, second {'kept' if second else 'lost'}"


@behaviour(
    cites="damon_set_attrs(), damon_attrs_equals()",
    expect=since({"6.12": "starved", "6.18": "applied"}),
)
def starves(subject: Subject) -> str:
    """Whether schemes are still applied while commits come faster than their interval."""
    with running(subject, SLOW, replace(COUNTER, apply_us=_APPLY_US)) as context:
        for _ in range(_COMMITS):
            subject.clock.sleep(_COMMIT_S)
            context.command("commit")
        rounds = context.applied()
        # The commits are the reason: without them the scheme is applied.
        context.until(lambda: context.applied() > rounds)
    return "applied" if rounds else "starved"


def _oldest(context: Context) -> int:
    return max(region.age for region in context.tried_regions(1))


def _grew(before: Stats, after: Stats) -> bool:
    return 0 < before.sz_tried <= after.sz_tried and 0 < before.nr_tried <= after.nr_tried


def _yes(taken: bool) -> str:
    return "taken" if taken else "not taken"


_INTERVALS = f"{CONTEXT}/monitoring_attrs/intervals"
# Few accesses, as on an idle node: the intervals double every third aggregation.
_TUNING = {"access_bp": 400, "aggrs": 3, "min_sample_us": SAMPLE_US, "max_sample_us": 1_000_000}


@behaviour(
    cites="kdamond_tune_intervals(), damon_sysfs_upd_tuned_intervals()",
    expect=since({"6.12": "ENOENT", "6.16": "written over what was staged"}),
)
def tuned_intervals(subject: Subject) -> str:
    """The file in which update_tuned_intervals shows the tuned intervals (6.15)."""

    def look() -> str:
        with running(subject, SLOW, COUNTER, intervals_goal=_TUNING) as context:
            context.until(lambda: _tuned(context) >= 2 * SAMPLE_US)
            return "written over what was staged"

    return refusal_or(look)


@behaviour(
    cites="damon_set_attrs()",
    expect=since({"6.12": "ENOENT", "6.16": "back to what is staged"}),
)
def commit_untunes(subject: Subject) -> str:
    """The tuned intervals after a commit of the first intervals."""

    def look() -> str:
        with running(subject, SLOW, COUNTER, intervals_goal=_TUNING) as context:
            context.until(lambda: _tuned(context) >= 8 * SAMPLE_US)
            context.sysfs.write(f"{_INTERVALS}/sample_us", str(SAMPLE_US))
            context.sysfs.write(f"{_INTERVALS}/aggr_us", str(AGGR_US))
            context.command("commit")
            return "back to what is staged" if _tuned(context) < 8 * SAMPLE_US else "still tuned"

    return refusal_or(look)


def _tuned(context: Context) -> int:
    context.command("update_tuned_intervals")
    return int(context.sysfs.read(f"{_INTERVALS}/sample_us"))
