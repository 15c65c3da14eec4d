"""A plan as damo's JSON, for `damo start FILE` and for damo's other commands.

Rules of this file:
1. Numbers are exact. A number has its unit where damo would assume another unit: it takes
   "1 samples" for a number of samples, but "1" for a percentage.
2. Optional keys are left out unless the plan uses them: older versions of damo do not know them.
"""

from typing import Any

from tierd.plans.damon import (
    GATE_CLOSED,
    GATE_INTERVAL_US,
    GATE_METRIC,
    UNTUNED,
    Action,
    Context,
    Filter,
    Goal,
    GoalTuner,
    Metric,
    Quota,
    Scheme,
    Span,
)
from tierd.plans.plan import Plan

MIGRATES = (Action.migrate_hot, Action.migrate_cold)


def document(plan: Plan) -> dict[str, Any]:
    """Return the parameters of all kdamonds of the plan, without the settings outside DAMON."""
    return {
        "kdamonds": [
            {"refresh_ms": kdamond.refresh_ms, "contexts": [_context(kdamond.context)]}
            for kdamond in plan.kdamonds
        ]
    }


def _context(context: Context) -> dict[str, Any]:
    intervals = context.intervals
    goal = intervals.goal or UNTUNED
    return {
        "ops": str(context.operations),
        "targets": [
            {
                "pid": None,
                "regions": [
                    {"start": str(part.start), "end": str(part.end)} for part in context.ranges
                ],
            }
        ],
        "intervals": {
            "sample_us": f"{intervals.sample_us} us",
            "aggr_us": f"{intervals.aggr_us} us",
            "ops_update_us": f"{intervals.update_us} us",
            "intervals_goal": {
                "access_bp": str(goal.access_bp),
                "aggrs": str(goal.aggrs),
                "min_sample_us": f"{goal.min_sample_us} us",
                "max_sample_us": f"{goal.max_sample_us} us",
            },
        },
        "nr_regions": _span(context.nr_regions),
        "schemes": [_scheme(scheme) for scheme in context.schemes],
    }


def _scheme(scheme: Scheme) -> dict[str, Any]:
    pattern = scheme.pattern
    return {
        "action": str(scheme.action),
        # damo takes a target only for actions that have one.
        "target_nid": scheme.target_nid if scheme.action in MIGRATES else None,
        "access_pattern": {
            "sz_bytes": _span(pattern.size_bytes, " B"),
            "nr_accesses": _span(pattern.nr_accesses, " samples"),
            "age": _span(pattern.age, " aggr_intervals"),
        },
        "apply_interval_us": f"{scheme.apply_interval_us} us",
        "quotas": _quota(scheme.quota),
        "watermarks": {
            "metric": GATE_METRIC if scheme.gated else "none",
            "interval_us": f"{GATE_INTERVAL_US if scheme.gated else 0} us",
            "high_permil": GATE_CLOSED,
            "mid_permil": GATE_CLOSED,
            "low_permil": GATE_CLOSED,
        },
        "filters": [_filter(entry) for entry in scheme.filters],
    }


def _quota(quota: Quota) -> dict[str, Any]:
    found: dict[str, Any] = {
        "time_ms": "0",
        "sz_bytes": f"{quota.bytes_max} B",
        "reset_interval_ms": "0",
        "goals": [_goal(goal) for goal in quota.goals],
        "weights": {
            "sz_permil": str(quota.weights.size),
            "nr_accesses_permil": str(quota.weights.nr_accesses),
            "age_permil": str(quota.weights.age),
        },
    }
    if quota.fail_charge is not None:
        found["fail_charge_num"] = str(quota.fail_charge.num)
        found["fail_charge_denom"] = str(quota.fail_charge.denom)
    if quota.goal_tuner is not GoalTuner.consist:
        found["goal_tuner"] = str(quota.goal_tuner)
    return found


def _goal(goal: Goal) -> dict[str, Any]:
    found = {
        "metric": str(goal.metric),
        "target_value": str(goal.target_value),
        "current_value": str(goal.current_value or 0),
    }
    if goal.metric is not Metric.user_input:
        found["nid"] = str(goal.nid)
    return found


def _filter(entry: Filter) -> dict[str, Any]:
    return {
        "filter_type": str(entry.type),
        "matching": entry.matching,
        "allow": entry.allow,
        "memcg_path": entry.memcg_path,
        "address_range": None,
        "damon_target_idx": None,
    }


def _span(span: Span, unit: str = "") -> dict[str, str]:
    return {"min": f"{span.min}{unit}", "max": f"{span.max}{unit}"}
