"""The arithmetic of DAMOS quotas, in the kernel's own integers: no state, no time, no memory.

An unsigned long is 64 bits here, and where a kernel's product could overflow it is not wrapped:
a test states which inputs are exact. Function names follow mm/damon/core.c and ops-common.c.
"""

from collections.abc import Iterable

from tierd.sim.spec import ULONG_MAX, Goal, Quota, Tuner

# damon_feed_loop_next_input(): the score at which a goal is met, and the floor of its input,
# which keeps the proportional step of an integer from being stuck at zero.
SCORE_MET = 10_000
MIN_INPUT = 10_000

MAX_SCORE = 99  # DAMOS_MAX_SCORE
_MAX_SUBSCORE = 100  # DAMON_MAX_SUBSCORE
_MAX_AGE_LOG = 32  # DAMON_MAX_AGE_IN_LOG

# A scheme's speed before anything is measured: damos_set_effective_quota().
_FIRST_BYTES_PER_MS = 4096 * 1024


def goal_score(current: int, target: int) -> int:
    """How far a goal is met: 10000 is met, more is too much (damos_quota_score())."""
    return current * SCORE_MET // target


def quota_score(goals: Iterable[Goal]) -> int:
    """The highest of the goals' scores, as the least aggressive wins."""
    return max((goal_score(goal.current_value, goal.target_value) for goal in goals), default=0)


def feed_loop_next_input(last: int, score: int) -> int:
    """damon_feed_loop_next_input(): the next input, from the last one and the score it made."""
    if score == SCORE_MET:
        return last
    if score >= SCORE_MET * 2:
        return MIN_INPUT
    diff = abs(score - SCORE_MET)
    # The kernel's own guard against overflow: large inputs are divided first.
    exact = last < ULONG_MAX // diff
    step = last * diff // SCORE_MET if exact else last // SCORE_MET * diff
    if score > SCORE_MET:
        return max(last - step, MIN_INPUT)
    return min(last + step, ULONG_MAX)


def consist(esz_bp: int, score: int) -> int:
    """The default tuner: a multiplicative integrator (damos_goal_tune_esz_bp_consist())."""
    return feed_loop_next_input(max(esz_bp, MIN_INPUT), score)


def temporal(quota_bytes: int, score: int) -> int:
    """All or nothing (damos_goal_tune_esz_bp_temporal(), 7.1 and later)."""
    if score >= SCORE_MET:
        return 0
    if 0 < quota_bytes <= ULONG_MAX // SCORE_MET:
        return quota_bytes * SCORE_MET
    return ULONG_MAX


def next_esz_bp(quota: Quota, esz_bp: int, score: int) -> int:
    """What the quota's tuner makes of the score."""
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
    floor_last: bool,
) -> int:
    """damos_set_effective_quota() after the tuner: the least of goals, time and bytes.

    `floor_last` is the older order (6.12): a time quota lifts what the goals ask for to a region.
    """
    if not quota.ms and not quota.goals:
        return quota.bytes
    esz = esz_bp // SCORE_MET if quota.goals else ULONG_MAX
    if quota.ms:
        speed = charged_bytes * 1_000_000 // charged_ns if charged_ns else _FIRST_BYTES_PER_MS
        by_time = speed * quota.ms
        if floor_last:
            esz = max(min(by_time, esz), min_region)
        else:
            esz = min(max(by_time, min_region), esz)
    return min(esz, quota.bytes) if quota.bytes else esz


def charge(quota: Quota, size: int, applied: int) -> int:
    """damos_charge_quota(): what trying a region of that size costs (fail_charge: 7.2)."""
    if not quota.fail_charge_denom or applied > size:
        return size
    return applied + (size - applied) * quota.fail_charge_num // quota.fail_charge_denom


def hot_score(nr_accesses: int, age: int, max_nr_accesses: int, aggr_us: int, quota: Quota) -> int:
    """damon_hot_score(): 0 to 99 from frequency and the logarithm of the age in seconds."""
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
    """damon_cold_score()."""
    return MAX_SCORE - hot_score(nr_accesses, age, max_nr_accesses, aggr_us, quota)


def min_score(histogram: list[int], esz: int) -> int:
    """damos_adjust_quota(): the lowest score whose regions, and all better, fill the quota."""
    total = 0
    for score in range(max_filled(histogram), 0, -1):
        total += histogram[score]
        if total >= esz:
            return score
    return 0


def max_filled(histogram: list[int]) -> int:
    """The highest score that any region has."""
    return next((score for score in range(MAX_SCORE, -1, -1) if histogram[score]), 0)


def rescaled_accesses(nr_accesses: int, old_max: int, new_max: int) -> int:
    """damon_nr_accesses_for_new_attrs(): through basis points, which may lose one."""
    return nr_accesses * 10_000 // old_max * new_max // 10_000


def adaptation_bp(access_events: int, max_access_events: int, access_bp: int) -> int:
    """damon_get_intervals_adaptation_bp(): 5000 halves the intervals, 20000 doubles them."""
    target = max_access_events * access_bp // 10_000 or 1
    score = access_events * 10_000 // target
    adaptation = feed_loop_next_input(100_000_000, score) // 10_000
    return 5_000 + adaptation // 2 if adaptation <= 10_000 else adaptation
