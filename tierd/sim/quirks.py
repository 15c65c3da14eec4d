"""What each kernel series does differently: in its kdamonds, and in its sysfs interface.

The contract tests compare this with real kernels. The kdamonds of each series are described by
their differences from the next newer one, so that a reader sees what a release changed. Stable
releases backport fixes: a series is the newest release of it that Debian ships, not its first
release.
"""

from collections.abc import Callable
from enum import Enum, StrEnum, auto
from errno import ECANCELED, EINVAL, EPERM

from tierd.frozen import dataclass, replace
from tierd.sim import kstrto


class Serves(StrEnum):
    """When a kdamond serves the request of a writer of `state`."""

    sample = "sample"  # damon_call(): once per sampling interval (6.14 and later)
    callback = "callback"  # damon_callback hooks: after a sample; commit after an aggregation


class Fallback(StrEnum):
    """Where a page goes when the target of its migration is full.

    "anywhere" includes the source node: the page then counts as migrated although it stays there.
    """

    nowhere = "nowhere"  # damon_migrate_folio_list() with __GFP_THISNODE (7.3)
    # alloc_migrate_folio() loses the caller's empty node mask after its first success: later pages
    # of the same call find room anywhere (6.12, 6.16).
    anywhere_after_success = "anywhere after success"
    anywhere = "anywhere"  # without __GFP_THISNODE (6.17 to 7.2)


@dataclass(frozen=True, slots=True)
class KdamondQuirks:
    """How the kdamonds of a series behave. The defaults are those of the newest kernel (7.3)."""

    # --- Quotas.
    # damos_adjust_quota() sets only the start of the first charge window; its quota stays 0.
    first_window_unlimited: bool = False
    # A quota of 0 means no limit ("quota->esz &&"). Otherwise damos_quota_is_set() makes it full.
    zero_quota_unlimited: bool = False
    # damos_adjust_quota() returns at once when nothing limits the scheme any more. The last
    # effective quota and what was charged against it then stay for ever.
    unlimited_freezes: bool = False
    # damos_quota_is_full(): a quota is full if less than a minimum region is left. Otherwise the
    # rest is "tried" with regions of size 0 and qt_exceeds does not count it.
    full_below_min_region: bool = True
    # damos_set_effective_quota(): a time quota raises the goals' quota, too, to a minimum region.
    time_quota_floor_last: bool = False
    # damos_charge_quota(): quota->fail_charge_{num,denom} are known.
    fail_charge: bool = True
    # quota->goal_tuner is known.
    temporal: bool = True
    # Nodes that do not exist read as used 0, free 10000 (invalid_mem_node()).
    invalid_node_checked: bool = True

    # --- The walk over regions that applies schemes.
    # damos_skip_charged_region() skips the last region of the target, and then forgets where to
    # continue.
    skips_last_region: bool = False
    # The part that a quota splits off is visited in the same walk, otherwise in the next one.
    live_walk: bool = True
    # damos_apply_target() merges slices back at once if no information is lost.
    merges_slices: bool = True
    # damon_pa_stat(): ops filters apply to the action stat too (6.14).
    stat_runs_filters: bool = True

    # --- Regions.
    # damon_apply_min_nr_regions() splits regions that are above the size limit. Without it merging
    # respects the limit, but existing regions stay.
    splits_to_min_nr_regions: bool = True
    # damon_split_some_regions() splits some regions even above half of max_nr_regions (7.3).
    splits_when_crowded: bool = True
    # A change from or to zero accesses resets the age, whatever the threshold.
    zero_resets_age: bool = True
    # kdamond_merge_regions() counts the age once. Otherwise each retry for max_nr_regions counts.
    age_counted_once: bool = True
    # damon_nr_accesses_mvsum() instead of damon_moving_sum() (7.3).
    moving_by_window: bool = True

    # --- Migration.
    # damon_migrate_pages() loses pages that should go to a node that does not exist. They are on no
    # list any more and stay where they are until they are freed (6.16, 6.18).
    isolated_for_good: bool = False
    # Where a page goes if the target has no room.
    fallback: Fallback = Fallback.nowhere

    # --- Commands.
    # Commands use damon_call() or the older damon_callback.
    serves: Serves = Serves.sample
    # damon_commit_ctx() calls damon_set_attrs() even for equal attributes: apply timers restart.
    attrs_reset_on_commit: bool = False
    # damon_set_attrs() also throws the running aggregation away.
    aggregation_reset_on_commit: bool = True
    # damos_commit_quota_goals() does not copy the current value of a goal that is new.
    new_goal_value_lost: bool = False
    # damon_sysfs_new_test_ctx() makes the context for testing a commit with damon_new_scheme().
    # That function resets the quota of the running scheme instead of its copy.
    quota_forgotten_on_commit: bool = False
    # kdamond_tune_intervals() exists (6.15).
    intervals_goal: bool = True
    # refresh_ms has one timer for all kdamonds instead of one each.
    refresh_shared: bool = False
    # ctx->pause is known (7.2).
    pause: bool = True


class Numbering(Enum):
    """How the directories below tried_regions are numbered."""

    each_scheme = auto()
    # All schemes share one count, in the order of the walk.
    whole_walk = auto()
    # Each scheme has a count, which rises by two for a new region and falls by one for a removed.
    twice = auto()


class BadCommit(Enum):
    """The result of a commit whose staged values are wrong."""

    ends_kdamond = auto()
    refused = auto()


@dataclass(frozen=True, slots=True)
class SysfsQuirks:
    """How the sysfs interface of a series behaves. The defaults are the newest kernel's (7.3)."""

    bad_commit: BadCommit = BadCommit.refused
    # The errno of damon_stop() for a kdamond that has already ended; 0 is success.
    off_when_ended: int = 0
    # The errno of a command to a kdamond that has ended.
    command_when_ended: int = ECANCELED
    # clear_schemes_tried_regions works without a running kdamond.
    clears_always: bool = True
    numbering: Numbering = Numbering.each_scheme
    # damon_call() and damos_walk() on a kdamond that has ended leave their request registered, so
    # that the next request is refused.
    leaves_call: bool = False
    leaves_walk: bool = False
    # damon_set_regions() refuses regions that are empty or share a page.
    checks_regions: bool = True
    # DAMON modules watch from the first to the last RAM. Otherwise they watch the largest piece
    # without its last byte.
    modules_watch_all: bool = True
    # damon_sysfs_handle_cmd() checks that there is a context before it uses the pointer.
    checks_context: bool = True
    # memcg_path and path are read and written under DAMON's lock.
    locks_paths: bool = True
    boolean: Callable[[str], bool] = kstrto.boolean
    # damon_start() and damon_commit_ctx() require a power of two as the smallest region.
    start_checks_unit: bool = True
    commit_checks_unit: bool = True
    # damon_start() first commits the context to an empty one, as a test.
    start_tests_commit: bool = True
    tuned_intervals: bool = True
    # The file that has the kernel compute the weights of weighted interleave; empty before 6.16.
    interleave_auto: str = "auto"
    probe_weights: bool = True
    # Files in tried_regions/N/ besides the four that all series have.
    sz_filter_passed: bool = True
    probe_hits: bool = True


_V7_3 = KdamondQuirks()

# 7.3 brought damon_split_some_regions(), damon_nr_accesses_mvsum(), __GFP_THISNODE again, a commit
# that does not reset the running quotas (damos_quota_init()), and a refresh timer per kdamond.
_V7_2 = replace(
    _V7_3,
    splits_when_crowded=False,
    moving_by_window=False,
    fallback=Fallback.anywhere,
    refresh_shared=True,
    quota_forgotten_on_commit=True,
)

# 7.0 to 7.2 brought damos_quota_is_full(), damos_apply_target(), damon_apply_min_nr_regions(),
# fail_charge, goal_tuner and pause.
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

# 6.17 and 6.18 brought a damon_migrate_pages() that vaddr uses too and that lacks __GFP_THISNODE,
# refresh_ms, damon_attrs_equals(), a first charge window with its quota, and ages that start again
# when accesses begin or end.
_V6_16 = replace(
    _V6_18,
    first_window_unlimited=True,
    zero_resets_age=False,
    fallback=Fallback.anywhere_after_success,
    refresh_shared=False,
    attrs_reset_on_commit=True,
)

# 6.13 to 6.16 brought damon_call(), ops filters in damon_pa_stat(), intervals_goal and node goals.
# The stable releases between 6.12.107 and 6.12.117 took two changes from 7.2: its walk, but without
# the merging of slices, and its way to end a quota that is removed.
_V6_12 = replace(
    _V6_16,
    unlimited_freezes=False,
    skips_last_region=False,
    live_walk=True,
    merges_slices=False,
    isolated_for_good=False,
    stat_runs_filters=False,
    serves=Serves.callback,
    aggregation_reset_on_commit=False,
    new_goal_value_lost=True,
    intervals_goal=False,
)

KDAMOND = {"6.12": _V6_12, "6.16": _V6_16, "6.18": _V6_18, "7.2": _V7_2, "7.3": _V7_3}

_SYSFS_V6_18 = SysfsQuirks(
    numbering=Numbering.twice,
    leaves_walk=True,
    checks_context=False,
    locks_paths=False,
    modules_watch_all=False,
    checks_regions=False,
    off_when_ended=EPERM,
    command_when_ended=EINVAL,
    start_checks_unit=False,
    commit_checks_unit=False,
    start_tests_commit=False,
    probe_weights=False,
    probe_hits=False,
)

SYSFS: dict[str, SysfsQuirks] = {
    "6.12": SysfsQuirks(
        bad_commit=BadCommit.ends_kdamond,
        off_when_ended=EPERM,
        command_when_ended=EINVAL,
        clears_always=False,
        numbering=Numbering.whole_walk,
        boolean=kstrto.boolean_before_6_16,
        modules_watch_all=False,
        start_checks_unit=False,
        commit_checks_unit=False,
        start_tests_commit=False,
        tuned_intervals=False,
        interleave_auto="",
        probe_weights=False,
        sz_filter_passed=False,
        probe_hits=False,
    ),
    "6.16": replace(_SYSFS_V6_18, leaves_call=True),
    "6.18": replace(_SYSFS_V6_18, interleave_auto="__auto_type"),
    "7.2": SysfsQuirks(off_when_ended=EPERM, start_tests_commit=False, probe_weights=False),
    "7.3": SysfsQuirks(),
}
