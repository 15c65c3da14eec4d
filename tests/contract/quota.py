"""Behaviours of DAMOS quotas: the goal law, limits, windows, and what is charged.

A tick is one charge window. The time of a look at a kernel is not exact, so no test counts ticks by
time: one scheme, the ticker, grows by a fifth at each tick, so that its value gives the tick.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tests.contract.behaviour import behaviour, since
from tests.contract.context import (
    FAST,
    LOOKS_MAX,
    MIB,
    SELDOM_US,
    SLOW,
    TICKER,
    TICKER_SCORE,
    Context,
    Goal,
    Scheme,
    node_kib,
    refusal_or,
    running,
)
from tests.contract.goal_law import MET, Law, Moment, changed, moments
from tests.contract.subject import Subject
from tierd.sysfs import Sysfs

TICKS = 20
# A window that does not end while a behaviour is watched.
HOUR_MS = 3_600_000

FOLLOWS = "follows the law"


class Left(AssertionError):
    """The effective quotas do not follow the law."""


def follow(context: Context, since: Iterable[Moment], ticks: int) -> frozenset[Moment]:
    """Look at the effective quotas for so many ticks; the moments that they may be at then."""
    now = frozenset(since)
    until = min(moment.ticks for moment in now) + ticks
    for _ in range(LOOKS_MAX):
        context.look()
        seen = context.effective()
        found = moments(now, seen)
        if not found:
            scores = [law.score for law in next(iter(now)).laws]
            raise Left(f"no tick of the scores {scores} shows {seen}")
        now = found
        if min(moment.ticks for moment in now) >= until:
            break
    return now


@dataclass(frozen=True, slots=True)
class Phase:
    """A score that stays the same for a number of ticks."""

    score: int
    ticks: int = TICKS


def phases(subject: Subject, *plan: Phase, cap_bytes: int = 0) -> str:
    """One scheme through phases of a user_input goal, beside the ticker."""

    def schemes(score: int) -> tuple[Scheme, Scheme]:
        return TICKER, Scheme(bytes=cap_bytes).scored(score)

    def laws(score: int) -> tuple[Law, Law]:
        return Law(TICKER_SCORE), Law(score, cap_bytes)

    try:
        with running(subject, SLOW, *schemes(plan[0].score)) as context:
            now = follow(context, [Moment(laws(plan[0].score))], plan[0].ticks)
            for phase in plan[1:]:
                context.commit_goals(*schemes(phase.score))
                now = follow(context, changed(now, laws(phase.score)), phase.ticks)
    except Left as left:
        return str(left)
    return FOLLOWS


# The law: damon_feed_loop_next_input().


@behaviour(
    cites="damon_feed_loop_next_input()",
    expect=FOLLOWS,
)
def consist(subject: Subject) -> str:
    """Goals of several scores below the target grow by the share that is missing."""
    scores = (0, 5_000, 7_777, 9_900)
    schemes = (TICKER, *(Scheme().scored(score) for score in scores))
    laws = (Law(TICKER_SCORE), *(Law(score) for score in scores))
    try:
        with running(subject, SLOW, *schemes) as context:
            follow(context, [Moment(laws)], TICKS + TICKS // 2)
    except Left as left:
        return str(left)
    return FOLLOWS


@behaviour(
    cites="damon_feed_loop_next_input()",
    expect=FOLLOWS,
)
def chosen_factor(subject: Subject) -> str:
    """A score that userspace chooses multiplies the quota by 2 minus its share of the target."""
    return phases(subject, Phase(0), Phase(6_300, 10), Phase(10_900, 10), Phase(14_400, 5))


@behaviour(
    cites="damon_feed_loop_next_input()",
    expect=FOLLOWS,
)
def hold(subject: Subject) -> str:
    """A score of exactly 10000 does not change the quota."""
    return phases(subject, Phase(0), Phase(MET, 10))


@behaviour(
    cites="damon_feed_loop_next_input()",
    expect=FOLLOWS,
)
def floor(subject: Subject) -> str:
    """Twice the target or more drops the quota to one byte at once."""
    return phases(subject, Phase(0), Phase(2 * MET, 5))


@behaviour(
    cites="damos_set_effective_quota()",
    expect=FOLLOWS,
)
def cap(subject: Subject) -> str:
    """`bytes` bounds what a goal asks for."""
    return phases(subject, Phase(0, 26), cap_bytes=MIB + 1)


@behaviour(
    cites="damos_set_effective_quota()",
    expect=FOLLOWS,
)
def windup(subject: Subject) -> str:
    """The goal's quota goes on growing above `bytes`, and must fall below it again to matter."""
    return phases(subject, Phase(0, 26), Phase(15_000, 12), cap_bytes=MIB)


@behaviour(
    cites="damos_quota_score()",
    expect=FOLLOWS,
)
def several_goals(subject: Subject) -> str:
    """If there are several goals, the one with the highest score counts (damos_quota_score())."""
    schemes = (TICKER, Scheme().scored(2_000, 9_000, 5_000))
    try:
        with running(subject, SLOW, *schemes) as context:
            follow(context, [Moment((Law(TICKER_SCORE), Law(9_000)))], TICKS)
    except Left as left:
        return str(left)
    return FOLLOWS


@behaviour(
    cites="damos_adjust_quota(): since 6.18 the first window sets the quota, and then begins anew",
    expect=since({"6.12": 2, "6.18": 4}),
)
def first_tick(subject: Subject) -> int:
    """The effective quota after the first tick of a goal that doubles it, from one byte."""
    with running(subject, SLOW, Scheme(apply_us=SELDOM_US).scored(0)) as context:
        return context.until(lambda: context.effective()[0])


@behaviour(
    cites="damos_goal_tune_esz_bp_temporal()",
    expect=since({"6.12": "ENOENT", "7.2": "(1048576, 0)"}),
)
def temporal(subject: Subject) -> str:
    """`temporal` gives all of `bytes` until the goal is met, and then nothing."""
    quota = Scheme(bytes=MIB, goal_tuner="temporal")
    schemes = (TICKER, quota.scored(MET - 1), quota.scored(MET))

    def shown() -> str:
        with running(subject, SLOW, *schemes) as context:
            context.after_ticks(2)
            return str(context.effective()[1:])

    return refusal_or(shown)


# Goals that the kernel measures: si_meminfo_node(), 6.16 and later.

BALLAST = 192 * MIB
# From here on a byte more or less is far below the tolerance.
_TELLING_BYTES = 1_000
_TOLERANCE = 0.01


@behaviour(
    cites="damos_get_node_mem_bp()",
    expect=since({"6.12": "EINVAL", "6.16": FOLLOWS}),
)
def used_goal(subject: Subject) -> str:
    """node_mem_used_bp is MemTotal less MemFree of the node; the quota follows it."""
    return refusal_or(lambda: _node_goal(subject, "node_mem_used_bp"))


@behaviour(
    cites="damos_get_node_mem_bp()",
    expect=since({"6.12": "EINVAL", "6.16": FOLLOWS}),
)
def free_goal(subject: Subject) -> str:
    """node_mem_free_bp is MemFree of the node; the quota follows it."""
    return refusal_or(lambda: _node_goal(subject, "node_mem_free_bp"))


@behaviour(
    cites="si_meminfo_node()",
    expect="used",
)
def cache_is_used(subject: Subject) -> str:
    """Page cache counts as used memory of its node."""
    before = used_bp(subject.sysfs, SLOW)
    subject.sets.cache("cache", SLOW, 32 * MIB)
    pages = sum(subject.sets.where("cache").values())
    more = used_bp(subject.sysfs, SLOW) - before
    total = node_kib(subject.sysfs, SLOW, "MemTotal") // 4
    return "used" if more * total >= 0.9 * pages * 10_000 else f"{more} bp of {pages} pages"


def used_bp(sysfs: Sysfs, nid: int) -> int:
    """The used share of a node, as its goals measure it."""
    total, free = (node_kib(sysfs, nid, name) for name in ("MemTotal", "MemFree"))
    return (total - free) * 10_000 // total


def _node_goal(subject: Subject, metric: str) -> str:
    """A goal of twice what is measured, beside the ticker: a score of 5000."""
    subject.sets.place("ballast", SLOW, BALLAST)
    used = used_bp(subject.sysfs, SLOW)
    measured = used if metric == "node_mem_used_bp" else 10_000 - used
    goal = Goal(0, 2 * measured, metric, SLOW)
    schemes = (TICKER, Scheme(goals=(goal,)))
    with running(subject, SLOW, *schemes) as context:
        now, law = frozenset([Moment((Law(TICKER_SCORE),))]), Law(0)
        worst, ticks = 0.0, 0
        for _ in range(LOOKS_MAX):
            context.look()
            ticker, seen = context.effective()
            now = moments(now, (ticker,))
            if not now:
                return "lost count of the ticks"
            passed = min(moment.ticks for moment in now) - ticks
            used = used_bp(subject.sysfs, SLOW)
            measured = used if metric == "node_mem_used_bp" else 10_000 - used
            law = _after(replace(law, score=measured * MET // goal.target_value), passed)
            ticks += passed
            if seen >= _TELLING_BYTES:
                worst = max(worst, abs(seen / law.effective_bytes - 1))
            if ticks >= TICKS + TICKS // 2:
                break
    return FOLLOWS if worst <= _TOLERANCE and ticks >= TICKS else f"off by {worst:.1%}"


def _after(law: Law, ticks: int) -> Law:
    for _ in range(ticks):
        law = law.tick()
    return law


# Windows: damos_adjust_quota().


@behaviour(
    cites="damos_adjust_quota()",
    expect=since({"6.12": "unlimited", "6.18": "1048576 bytes"}),
)
def first_window(subject: Subject) -> str:
    """What a quota with a long window allows before its first window has ended."""
    with running(subject, SLOW, TICKER, Scheme(bytes=MIB, reset_ms=HOUR_MS)) as context:
        context.after_ticks(4)
        tried = context.stats()[1].sz_tried
        return "unlimited" if tried >= context.size_bytes else f"{tried} bytes"


@behaviour(
    cites="damos_adjust_quota()",
    expect="1048576 bytes",
)
def window_of_each_apply(subject: Subject) -> str:
    """Without a reset interval every apply is a window of its own, also the first one."""
    with running(subject, SLOW, Scheme(bytes=MIB, apply_us=SELDOM_US)) as context:
        return f"{context.until(lambda: context.stats()[0].sz_tried)} bytes"


@behaviour(
    cites="damos_commit_quota()",
    expect=since(
        # 7.2 forgets what it keeps of a quota at each commit: commits.keeps_quota.
        {"6.12": "1 MiB, then 2 MiB", "7.2": "2 MiB, then 2 MiB", "7.3": "1 MiB, then 2 MiB"}
    ),
)
def bytes_of_next_window(subject: Subject) -> str:
    """Which `bytes` apply in the window of the commit, and which afterwards."""
    quota = Scheme(bytes=2 * MIB, reset_ms=HOUR_MS)
    with running(subject, SLOW, TICKER, Scheme(bytes=MIB)) as context:
        context.until(lambda: context.effective()[1] == MIB)
        context.commit(TICKER, quota)
        context.after_ticks(3)
        same_window = context.effective()[1]
        context.commit(TICKER, replace(quota, reset_ms=0))
        context.after_ticks(2)
        return f"{same_window // MIB} MiB, then {context.effective()[1] // MIB} MiB"


@behaviour(
    cites="damos_adjust_quota(), damos_quota_is_set(); 6.12.107 did as 6.16",
    expect=since({"6.12": "is unlimited", "6.16": "stands still", "7.2": "is unlimited"}),
)
def quota_taken_away(subject: Subject) -> str:
    """What a scheme does after its only quota is committed as 0."""
    with running(subject, SLOW, TICKER, Scheme(bytes=MIB)) as context:
        context.after_ticks(3)
        context.commit(TICKER, Scheme())
        context.after_ticks(2)
        before = context.stats()[1].sz_tried
        context.after_ticks(3)
        more = context.stats()[1].sz_tried - before
        if more >= 2 * context.size_bytes:
            return "is unlimited"
    return f"tries {more} bytes" if more else "stands still"


@behaviour(
    cites="damos_apply_scheme(), damos_quota_is_full()",
    expect=since(
        {
            "6.12": "quotas (1, 2048), 0 bytes tried, regions counted, never exceeded",
            "7.2": "quotas (1, 2048), 0 bytes tried, none counted, exceeded",
        }
    ),
)
def parked(subject: Subject) -> str:
    """A quota below a page moves nothing."""
    schemes = [Scheme("migrate_hot", FAST, bytes=size) for size in (1, 2_048)]
    subject.sets.place("still", SLOW, MIB)
    with running(subject, SLOW, TICKER, *schemes) as context:
        context.after_ticks(5)
        quotas, (_, *stats) = context.effective()[1:], context.stats()
    tried = sum(one.sz_tried for one in stats)
    counted = "regions counted" if any(one.nr_tried for one in stats) else "none counted"
    exceeds = "exceeded" if all(one.qt_exceeds for one in stats) else "never exceeded"
    return f"quotas {quotas}, {tried} bytes tried, {counted}, {exceeds}"


# Charges: damos_charge_quota().


@behaviour(
    cites="damos_apply_scheme(), damos_charge_quota()",
    expect="in full",
)
def charge(subject: Subject) -> str:
    """Tried bytes are charged, whether or not they could be moved."""
    return _charged(subject, Scheme("migrate_hot", SLOW, bytes=4 * MIB))


@behaviour(
    cites="damos_charge_quota()",
    expect=since({"6.12": "ENOENT", "7.2": "in part"}),
)
def fail_charge(subject: Subject) -> str:
    """Only a share of the bytes that could not be moved is charged (7.2)."""
    quota = Scheme("migrate_hot", SLOW, bytes=4 * MIB, fail_charge=(1, 1_024))
    return refusal_or(lambda: _charged(subject, quota))


def _charged(subject: Subject, quota: Scheme) -> str:
    with running(subject, SLOW, TICKER, quota) as context:
        context.after_ticks(10)
        ticks, tried = context.ticks(), context.stats()[1].sz_tried
    allowed = ticks * quota.bytes
    if tried > 2 * allowed:
        return "in part"
    return "in full" if tried > allowed // 2 else f"{tried} bytes of {allowed}"
