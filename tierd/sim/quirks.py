"""How each kernel series runs DAMON, as the contract suite holds it to real kernels.

Fields say what they stand for in `spec.Quirks`; here each series differs from the next newer one,
so that a reader sees what a release changed. Stable releases backport, so a series here is the
newest one that Debian ships of it, not what its first release did.
"""

from dataclasses import replace

from tierd.sim.spec import Fallback, Quirks, Serves

_V7_3 = Quirks()

# 7.3: damon_split_some_regions(), damon_nr_accesses_mvsum(), __GFP_THISNODE again, a commit that
# leaves the running quotas alone (damos_quota_init()), a refresh
# timer for each kdamond.
_V7_2 = replace(
    _V7_3,
    splits_when_crowded=False,
    moving_by_window=False,
    fallback=Fallback.anywhere,
    refresh_shared=True,
    quota_forgotten_on_commit=True,
)

# 7.0 to 7.2: damos_quota_is_full(), damos_apply_target(), damon_apply_min_nr_regions(),
# fail_charge, goal_tuner, pause.
_V6_18 = replace(
    _V7_2,
    quota_forgotten_on_commit=False,
    isolated_for_good=True,
    zero_quota_unlimited=True,
    unlimited_freezes=True,
    full_below_min_region=False,
    time_quota_floor_last=True,
    fail_charge=False,
    temporal=False,
    invalid_node_checked=False,
    skips_last_region=True,
    live_walk=False,
    splits_to_min_nr_regions=False,
    age_counted_once=False,
    pause=False,
)

# 6.17 and 6.18: damon_migrate_pages() shared with vaddr and without __GFP_THISNODE, refresh_ms,
# damon_attrs_equals(), a first charge window that has its quota, and ages that end where
# accesses begin or end.
_V6_16 = replace(
    _V6_18,
    first_window_unlimited=True,
    zero_resets_age=False,
    fallback=Fallback.anywhere_after_success,
    refresh_shared=False,
    attrs_reset_on_commit=True,
)

# 6.13 to 6.16: damon_call(), ops filters in damon_pa_stat(), intervals_goal, and node goals.
_V6_12 = replace(
    _V6_16,
    isolated_for_good=False,
    stat_runs_filters=False,
    serves=Serves.callback,
    aggregation_reset_on_commit=False,
    new_goal_value_lost=True,
    intervals_goal=False,
)

SERIES = {"6.12": _V6_12, "6.16": _V6_16, "6.18": _V6_18, "7.2": _V7_2, "7.3": _V7_3}
