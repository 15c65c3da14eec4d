"""How a program finds out what a kernel can do: by keywords, by files, and by type names."""

from collections.abc import Sequence

from tests.contract.behaviour import behaviour, since
from tests.contract.context import CONTEXT, KDAMOND
from tests.contract.staging import ATTRS, SCHEME, bare, taken
from tests.contract.subject import Subject
from tierd.machine import btf

ACTIONS = (
    "willneed", "cold", "pageout", "hugepage", "nohugepage", "lru_prio", "lru_deprio",
    "migrate_hot", "migrate_cold", "stat",
)  # fmt: skip
METRICS = ("user_input", "some_mem_psi_us")
NODE_METRICS = ("node_mem_used_bp", "node_mem_free_bp")
LATE_METRICS = (
    "node_memcg_used_bp", "node_memcg_free_bp", "active_mem_bp", "inactive_mem_bp",
    "node_eligible_mem_bp",
)  # fmt: skip
FILTERS = ("anon", "memcg", "young", "addr", "target")
LATE_FILTERS = ("hugepage_size", "unmapped", "active")


def _known(subject: Subject, path: str, words: Sequence[str]) -> list[str]:
    """The words that a file takes."""
    return [word for word in words if taken(subject, path, word) == "ok"]


@behaviour(
    cites="damos_sysfs_action_names[]",
    expect=since({"6.12": list(ACTIONS), "7.2": [*ACTIONS, "collapse"]}),
)
def actions(subject: Subject) -> list[str]:
    """A scheme that is not running takes exactly the actions that the kernel knows."""
    bare(subject).write(f"{CONTEXT}/schemes/nr_schemes", "1")
    return _known(subject, f"{SCHEME}/action", (*ACTIONS, "collapse"))


@behaviour(
    cites="damos_sysfs_qgoal_metric_names[]",
    expect=since(
        {
            "6.12": list(METRICS),
            "6.16": [*METRICS, *NODE_METRICS],
            "7.2": [*METRICS, *NODE_METRICS, *LATE_METRICS],
        }
    ),
)
def metrics(subject: Subject) -> list[str]:
    """Goal metrics are found in this way too: nodes from 6.16, cgroups and eligible by 7.2."""
    bare(subject).write(f"{CONTEXT}/schemes/nr_schemes", "1")
    subject.sysfs.write(f"{SCHEME}/quotas/goals/nr_goals", "1")
    path = f"{SCHEME}/quotas/goals/0/target_metric"
    return _known(subject, path, (*METRICS, *NODE_METRICS, *LATE_METRICS))


@behaviour(
    cites="damos_sysfs_quota_goal_tuner_names[]",
    expect=since({"6.12": [], "7.2": ["consist", "temporal"]}),
)
def tuners(subject: Subject) -> list[str]:
    """Goal tuners are found in the same way."""
    bare(subject).write(f"{CONTEXT}/schemes/nr_schemes", "1")
    return _known(subject, f"{SCHEME}/quotas/goal_tuner", ("consist", "temporal"))


@behaviour(
    cites="damon_sysfs_scheme_filter_type_strs[]",
    expect=since({"6.12": list(FILTERS), "6.16": [*FILTERS, *LATE_FILTERS]}),
)
def filters(subject: Subject) -> list[str]:
    """Filter types are found in the same way."""
    bare(subject).write(f"{CONTEXT}/schemes/nr_schemes", "1")
    subject.sysfs.write(f"{SCHEME}/filters/nr_filters", "1")
    return _known(subject, f"{SCHEME}/filters/0/type", (*FILTERS, *LATE_FILTERS))


@behaviour(
    cites="damon_sysfs_ops_strs[], damon_registered_ops[]",
    expect={"listed": ["vaddr", "fvaddr", "paddr"], "taken": ["vaddr", "fvaddr", "paddr"]},
)
def operations(subject: Subject) -> dict[str, list[str]]:
    """Address spaces of processes and physical memory can be monitored."""
    listed = bare(subject).read(f"{CONTEXT}/avail_operations").split("\n")
    path = f"{CONTEXT}/operations"
    return {"listed": listed, "taken": _known(subject, path, ("vaddr", "fvaddr", "paddr"))}


# Files that programs decide by, as "what it is": "where it is".
FILES = {
    "refresh_ms": f"{KDAMOND}/refresh_ms",
    "addr_unit": f"{CONTEXT}/addr_unit",
    "pause": f"{CONTEXT}/pause",
    "intervals_goal": f"{ATTRS}/intervals/intervals_goal/aggrs",
    "probes": f"{ATTRS}/probes/nr_probes",
    "dests": f"{SCHEME}/dests/nr_dests",
    "core_filters": f"{SCHEME}/core_filters/nr_filters",
    "goal_tuner": f"{SCHEME}/quotas/goal_tuner",
    "fail_charge": f"{SCHEME}/quotas/fail_charge_num",
    "max_nr_snapshots": f"{SCHEME}/stats/max_nr_snapshots",
}


@behaviour(
    cites="damon_sysfs_scheme_add_dirs(), damon_sysfs_context_add_dirs()",
    expect=since(
        {
            "6.12": [],
            "6.16": ["intervals_goal", "core_filters"],
            "6.18": ["refresh_ms", "addr_unit", "intervals_goal", "dests", "core_filters"],
            "7.2": list(FILES),
        }
    ),
)
def files(subject: Subject) -> list[str]:
    """A feature that has files of its own exists if the files exist."""
    bare(subject).write(f"{CONTEXT}/schemes/nr_schemes", "1")
    return [name for name, path in FILES.items() if subject.sysfs.exists(path)]


NAMES = (
    "DAMOS_MIGRATE_HOT",
    "DAMOS_QUOTA_NODE_MEM_USED_BP",
    "DAMOS_QUOTA_NODE_MEMCG_USED_BP",
    "DAMOS_QUOTA_ACTIVE_MEM_BP",
    "DAMOS_QUOTA_NODE_ELIGIBLE_MEM_BP",
    "DAMOS_QUOTA_GOAL_TUNER_TEMPORAL",
    "DAMOS_FILTER_TYPE_UNMAPPED",
    "migrate_dests",
    "fail_charge_denom",
    "maybe_corrupted",
    "next_refresh_jiffies",
)


@behaviour(
    cites="enum damos_action, enum damos_quota_goal_metric, struct damos_quota, struct damon_ctx",
    expect=since(
        {
            "6.12": ["DAMOS_MIGRATE_HOT"],
            "6.16": [
                "DAMOS_MIGRATE_HOT",
                "DAMOS_QUOTA_NODE_MEM_USED_BP",
                "DAMOS_FILTER_TYPE_UNMAPPED",
            ],
            "6.18": [
                "DAMOS_MIGRATE_HOT",
                "DAMOS_QUOTA_NODE_MEM_USED_BP",
                "DAMOS_FILTER_TYPE_UNMAPPED",
                "migrate_dests",
            ],
            "7.2": list(NAMES[:-1]),
            "7.3": list(NAMES),
        }
    ),
)
def type_names(subject: Subject) -> list[str]:
    """The kernel's type information (BTF) names its features, and no write is needed."""
    known = btf.Btf.parse(subject.sysfs.read_bytes(btf.PATH))
    return [name for name in NAMES if known.has_name(name)]
