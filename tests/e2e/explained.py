"""Says why a policy ends in other files of DAMON with tierd than with `damo start`. Pure."""

from typing import Any

from tests.e2e import trees
from tests.e2e.trees import Tree, Way

# Why a file differs: the words of a remark of the import. Its row in docs/import.md is for all
# policies.
NEW = "new "
ANY = "docs/import.md says which of DAMON's files differ"
BY_TIERD = "tierd decides by what is hot and cold"
EXPLAINED = {
    "ranges": ("fixed when the policy was written",),
    "refresh_ms": ("tierd asks for statistics when it needs them",),
    **dict.fromkeys(
        (f"watermarks/{name}" for name in ("metric", "interval_us", "high", "mid", "low")),
        ("tierd is not switched on and off by free memory",),
    ),
    "dests": ("tierd has no weights of target nodes",),
    "target_nid": ("tierd has no weights of target nodes",),
    "filters/young": (
        "tierd has this filter itself",
        "tierd demotes by how long a region has been idle",
    ),
    # If the policy has none.
    f"{NEW}filters/young": (ANY,),
    "filters/memcg": ("with all cgroups below it",),
    "filters/anon": ("tierd moves anonymous memory and files alike",),
    "filters/unmapped": ("tierd moves mapped and unmapped memory alike",),
    "filters/hugepage_size": ("tierd moves huge pages like others",),
    "monitoring_attrs/intervals/update_us": ("tierd always uses 60 s", ANY),
    **dict.fromkeys(
        (
            "monitoring_attrs/intervals/sample_us",
            "monitoring_attrs/intervals/aggr_us",
            *(
                f"monitoring_attrs/intervals/intervals_goal/{name}"
                for name in ("access_bp", "aggrs", "min_sample_us", "max_sample_us")
            ),
        ),
        (BY_TIERD, "tierd lets the kernel tune its intervals"),
    ),
    "access_pattern/nr_accesses/min": (BY_TIERD, "the default stays in force"),
    "access_pattern/age/min": (BY_TIERD,),
    "monitoring_attrs/nr_regions/min": ("tierd chooses by the size of the node",),
    "monitoring_attrs/nr_regions/max": ("tierd chooses by the size of the node",),
    "access_pattern/sz/min": ("tierd moves regions of any size", ANY),
    "access_pattern/nr_accesses/max": (ANY,),
    "access_pattern/age/max": ("tierd has no maximum age", ANY),
    "apply_interval_us": ("a window must not be shorter than an aggregation", BY_TIERD, ANY),
    "quotas/bytes": ("rate_limit",),
    "quotas/ms": ("`rate_limit` also limits what moving costs", "the limit of time was the real"),
    "quotas/reset_interval_ms": ("rate_limit", ANY),
    "quotas/weights/sz_permil": ("tierd has its own order",),
    "quotas/weights/nr_accesses_permil": ("tierd has its own order",),
    "quotas/weights/age_permil": ("tierd has its own order",),
    "quotas/fail_charge_num": (ANY,),
    "quotas/fail_charge_denom": (ANY,),
    "quotas/goal_tuner": (ANY,),
    "quotas/goals": (BY_TIERD, "the policy has no goal"),
}


def as_explained(name: str, original: dict[str, Any], planned: Tree) -> None:
    """Assert that the import has said why a file differs, or that the page says it."""
    remarks = [f"{one['setting']}: {one['text']}" for one in original["imported"]["remarks"]]
    for action, files in differences(planned, original["tree"]):
        for file, texts in files.items():
            assert file in EXPLAINED, (name, action, file, texts)
            why = [word for word in EXPLAINED[file] if any(word in one for one in remarks)]
            assert why, (name, action, file, texts, remarks)


def differences(planned: Tree, theirs: Tree) -> list[tuple[str, dict[str, tuple[str, str]]]]:
    """Return for each scheme of a policy its action, and the files that tierd fills in another way.

    It is compared with the scheme of tierd that moves the same way, and differs least.
    """
    nodes = trees.starts(planned)
    ours = trees.ways(planned, nodes)
    found = []
    for way in trees.ways(theirs, nodes):
        alike = [differing(one, way) for one in ours if same_way(one, way)]
        assert alike, (way.source, way.action, way.files.get("target_nid"))
        found.append((way.action, min(alike, key=len)))
    return found


def same_way(one: Way, other: Way) -> bool:
    weighed = other.files["dests"] not in ("", "nr_dests=0")
    to_same = weighed or one.files["target_nid"] == other.files["target_nid"]
    return (one.source, one.action) == (other.source, other.action) and to_same


def differing(ours: Way, theirs: Way) -> dict[str, tuple[str, str]]:
    """Return the files with other texts, with both; a kind of filters that only we have is new."""
    found = {}
    for file in sorted({*ours.files, *theirs.files}):
        texts = ours.files.get(file, ""), theirs.files.get(file, "")
        if texts[0] != texts[1]:
            is_new = file.startswith("filters/") and not texts[1]
            found[f"{NEW}{file}" if is_new else file] = texts
    return found
