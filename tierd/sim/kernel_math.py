"""The integer arithmetic of DAMON's core: quotas, goals, scores and interval tuning.

All functions are pure. An unsigned long has 64 bits. A product that would overflow in the kernel
does not overflow here; a test states for which inputs the results are exact. The names follow
mm/damon/core.c and ops-common.c.
"""

from collections.abc import Iterable

from tierd.sim.context_spec import ULONG_MAX, Goal, Quota, Tuner

# damon_feed_loop_next_input(): the score at which a goal is met, and the lowest input. Below that
# input the proportional step would be rounded to zero.
SCORE_MET = 10_000
MIN_INPUT = 10_000

MAX_SCORE = 99  # DAMOS_MAX_SCORE
_MAX_SUBSCORE = 100  # DAMON_MAX_SUBSCORE
_MAX_AGE_LOG = 32  # DAMON_MAX_AGE_IN_LOG

# A scheme's speed before anything is measured: damos_set_effective_quota().
_FIRST_PAGES_PER_MS = 1024


def goal_score(current: int, target: int) -> int:
    """Return 10000 if the goal is met, more if the value is above it (damos_quota_score())."""
    return current * SCORE_MET // target


def quota_score(goals: Iterable[Goal]) -> int:
    """Return the highest score of the goals: the goal that asks for the least action wins."""
    return max((goal_score(goal.current_value, goal.target_value) for goal in goals), default=0)


def feed_loop_next_input(last: int, score: int) -> int:
    """Return the next input, from the last one and its score (damon_feed_loop_next_input())."""
    if score == SCORE_MET:
        return last
    if score >= SCORE_MET * 2:
        return MIN_INPUT
    diff = abs(score - SCORE_MET)
    # The kernel divides large inputs first, so that the product does not overflow.
    exact = last < ULONG_MAX // diff
    step = last * diff // SCORE_MET if exact else last // SCORE_MET * diff
    if score > SCORE_MET:
        return max(last - step, MIN_INPUT)
    return min(last + step, ULONG_MAX)


def consist(esz_bp: int, score: int) -> int:
    """Return the last quota multiplied: the default tuner (damos_goal_tune_esz_bp_consist())."""
    return feed_loop_next_input(max(esz_bp, MIN_INPUT), score)


def temporal(quota_bytes: int, score: int) -> int:
    """Return the whole quota until the goal is met, then 0.

    This is damos_goal_tune_esz_bp_temporal(), since 7.1.
    """
    if score >= SCORE_MET:
        return 0
    if 0 < quota_bytes <= ULONG_MAX // SCORE_MET:
        return quota_bytes * SCORE_MET
    return ULONG_MAX


def next_esz_bp(quota: Quota, esz_bp: int, score: int) -> int:
    """Return the next effective quota, in basis points of a byte, from the quota's tuner."""
    if quota.goal_tuner is Tuner.temporal:
        return temporal(quota.bytes, score)
    return consist(esz_bp, score)


def effective_bytes(
    quota: Quota,
    esz_bp: int,
    charged_bytes: int,
    charged_ns: int,
    min_region: int,
    *,
    page_bytes: int,
    floor_last: bool,
) -> int:
    """Return the lowest of the goal, time and byte quotas (damos_set_effective_quota()).

    With `floor_last` (the older order) a time quota also raises the goals' quota to the size of
    one region.
    """
    if not quota.ms and not quota.goals:
        return quota.bytes
    esz = esz_bp // SCORE_MET if quota.goals else ULONG_MAX
    if quota.ms:
        first = _FIRST_PAGES_PER_MS * page_bytes
        speed = charged_bytes * 1_000_000 // charged_ns if charged_ns else first
        by_time = speed * quota.ms
        if floor_last:
            esz = max(min(by_time, esz), min_region)
        else:
            esz = min(max(by_time, min_region), esz)
    return min(esz, quota.bytes) if quota.bytes else esz


def charge(quota: Quota, size: int, applied: int) -> int:
    """Return the bytes to charge for a tried region (damos_charge_quota()).

    Since 7.2 a failed try may cost less (fail_charge).
    """
    if not quota.fail_charge_denom or applied > size:
        return size
    return applied + (size - applied) * quota.fail_charge_num // quota.fail_charge_denom


def hot_score(nr_accesses: int, age: int, max_nr_accesses: int, aggr_us: int, quota: Quota) -> int:
    """Return 0 to 99, from the frequency and the logarithm of the age in s (damon_hot_score())."""
    frequency = nr_accesses * _MAX_SUBSCORE // max_nr_accesses
    age_seconds = age * aggr_us // 1_000_000
    age_log = min(age_seconds.bit_length(), _MAX_AGE_LOG)
    if frequency == 0:
        age_log = -age_log
    age_score = (age_log + _MAX_AGE_LOG) * _MAX_SUBSCORE // _MAX_AGE_LOG // 2
    hotness = quota.weight_nr_accesses * frequency + quota.weight_age * age_score
    if quota.weight_nr_accesses + quota.weight_age:
        hotness //= quota.weight_nr_accesses + quota.weight_age
    return max(min(hotness * MAX_SCORE // _MAX_SUBSCORE, MAX_SCORE), 0)


def cold_score(nr_accesses: int, age: int, max_nr_accesses: int, aggr_us: int, quota: Quota) -> int:
    """Return 99 for the coldest region, 0 for the hottest (damon_cold_score())."""
    return MAX_SCORE - hot_score(nr_accesses, age, max_nr_accesses, aggr_us, quota)


def min_score(histogram: list[int], esz: int) -> int:
    """Return the least score that a region needs (damos_adjust_quota()).

    It is the highest one with which the regions fill the quota.
    """
    total = 0
    for score in range(max_filled(histogram), 0, -1):
        total += histogram[score]
        if total >= esz:
            return score
    return 0


def max_filled(histogram: list[int]) -> int:
    """Return the highest score that any region has."""
    return next((score for score in range(MAX_SCORE, -1, -1) if histogram[score]), 0)


def rescaled_accesses(nr_accesses: int, old_max: int, new_max: int) -> int:
    """Return an access count for other intervals (damon_nr_accesses_for_new_attrs()).

    The conversion in basis points may lose one access.
    """
    return nr_accesses * 10_000 // old_max * new_max // 10_000


def adaptation_bp(access_events: int, max_access_events: int, access_bp: int) -> int:
    """Return the factor for the intervals in basis points: 5000 halves them, 20000 doubles them.

    This is damon_get_intervals_adaptation_bp().
    """
    target = max_access_events * access_bp // 10_000 or 1
    score = access_events * 10_000 // target
    adaptation = feed_loop_next_input(100_000_000, score) // 10_000
    return 5_000 + adaptation // 2 if adaptation <= 10_000 else adaptation
