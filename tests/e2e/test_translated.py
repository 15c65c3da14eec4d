"""A plan goes through the real damo unchanged, and a policy of another tool ends in the same files.

Where the files differ, the import has said so, or docs/import.md says so for all policies.
"""

from typing import Any

import pytest

from tests.e2e import trees
from tests.e2e.boots import told
from tests.e2e.explained import as_explained, differences
from tests.e2e.trees import Tree
from tierd.sim import machine_model

pytestmark = [pytest.mark.vm, pytest.mark.rare]

MOVING = ("migrate_hot", "migrate_cold")

# What differs in any case.
ALWAYS = {
    "ranges",
    "monitoring_attrs/intervals/update_us",
    "access_pattern/age/max",
    "apply_interval_us",
    "quotas/bytes",
    "quotas/reset_interval_ms",
    "quotas/weights/nr_accesses_permil",
    "quotas/weights/age_permil",
    "quotas/fail_charge_num",
    "quotas/fail_charge_denom",
    # Of a goal, its target: on this small node tierd keeps more free than the policy says.
    "quotas/goals",
}
NO_GOALS = {*ALWAYS, "quotas/ms"}
GOALS = {*ALWAYS, "access_pattern/sz/min", "quotas/weights/sz_permil", "quotas/goal_tuner"}
NO_LIMIT = "access_pattern/nr_accesses/max"

# All that differs of two policies: one without goals, and one whose goals stay with the kernel.
DIFFERING = {
    "hmsdk-4.0-demote-promote.yaml": (
        "planned",
        [("migrate_cold", {*NO_GOALS, "filters/young"}), ("migrate_hot", {*NO_GOALS, NO_LIMIT})],
    ),
    "damo-3.4.3-tuned.json": (
        "by_goals",
        [("migrate_cold", GOALS), ("migrate_hot", {*GOALS, NO_LIMIT, "filters/young"})],
    ),
}


def told_of(part: str, kernel: str = "7.2") -> dict[str, Any]:
    facts: dict[str, Any] = told(kernel, machine_model.load("two-tier"), "translated", part)
    return facts


def test_damo_starts_a_plan_as_tierd_would() -> None:
    for name, facts in told_of("plans").items():
        as_planned(name, facts)


def as_planned(name: str, facts: dict[str, Any]) -> None:
    """Assert that damo wrote the plan: it only knows no target of schemes that move nothing."""
    planned: Tree = facts["planned"]
    differing = trees.differing(planned, facts["tree"])
    without_target = {
        path.replace("/action", "/target_nid")
        for path, text in planned.items()
        if path.endswith("/action") and text not in MOVING
    }
    assert differing.keys() <= without_target, (name, differing)
    assert differing or not without_target, name
    code, said, complained = facts["diff"]
    assert code == (5 if differing else 0), (name, said, complained)
    if "again" in facts:
        # The import of damo's report of the plan gives the same plan: damo writes sizes with three
        # digits behind the point.
        for path, (before, after) in trees.differing(planned, facts["again"]).items():
            assert path.endswith("/quotas/bytes"), (name, path, before, after)
            assert float(after or 0) == pytest.approx(float(before or 0), rel=0.001)


def test_a_policy_ends_in_the_files_that_damo_start_gives_it() -> None:
    facts = told_of("originals")
    for name, original in facts.items():
        for way in ("planned", "by_goals"):
            if way in original:
                as_explained(f"{name}, {way}", original, original[way])
    for name, (way, files) in DIFFERING.items():
        found = differences(facts[name][way], facts[name]["tree"])
        assert [(action, set(files)) for action, files in found] == files, name
