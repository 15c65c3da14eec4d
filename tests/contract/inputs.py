"""Which values a file refuses when they are written, and which only `on` refuses."""

from collections.abc import Mapping, Sequence

from tests.contract.behaviour import behaviour, since
from tests.contract.context import CONTEXT, FAST, UINT_MAX, Scheme, node_ranges
from tests.contract.staging import (
    ATTRS,
    EVERYTHING,
    SCHEME,
    STATE,
    after_rounds,
    answer,
    bare,
    regions,
    stage,
    taken,
)
from tests.contract.subject import Subject

_BYTES = f"{SCHEME}/quotas/bytes"


@behaviour(
    cites="sysfs_streq() over damos_wmark_metric_strs[] and the like",
    expect=dict.fromkeys(
        ("state", "operations", "action", "type", "target_metric", "metric"), "EINVAL"
    ),
)
def unknown_words(subject: Subject) -> Mapping[str, str]:
    """A keyword that this kernel does not know is refused when it is written."""
    stage(subject)
    subject.sysfs.write(f"{SCHEME}/filters/nr_filters", "1")
    subject.sysfs.write(f"{SCHEME}/quotas/goals/nr_goals", "1")
    paths = (
        STATE,
        f"{CONTEXT}/operations",
        f"{SCHEME}/action",
        f"{SCHEME}/filters/0/type",
        f"{SCHEME}/quotas/goals/0/target_metric",
        f"{SCHEME}/watermarks/metric",
    )
    return {path.rpartition("/")[2]: taken(subject, path, "no_such_word") for path in paths}


@behaviour(
    cites="sysfs_streq()",
    expect={"pageout\n": "ok", "pageout": "ok", " pageout": "EINVAL", "pageout ": "EINVAL",
            "PAGEOUT": "EINVAL", "page": "EINVAL", "pageout\n\n": "EINVAL"},
)  # fmt: skip
def words_exactly(subject: Subject) -> Mapping[str, str]:
    """A keyword must be complete and may end in one newline."""
    stage(subject)
    words = ("pageout\n", "pageout", " pageout", "pageout ", "PAGEOUT", "page", "pageout\n\n")
    return {word: taken(subject, f"{SCHEME}/action", word) for word in words}


def _reads(subject: Subject, path: str, values: Sequence[str]) -> dict[str, str]:
    """Return what the file reads after each value was written, or the errno."""
    seen: dict[str, str] = {}
    for value in values:
        refusal = taken(subject, path, value)
        seen[value] = subject.sysfs.read(path) if refusal == "ok" else refusal
    return seen


@behaviour(
    cites="kstrtoul(buf, 0): _parse_integer_fixup_radix()",
    expect={
        "12": "12", "0x1F": "31", "010": "8", "08": "EINVAL", "+7": "7", "9\n": "9",
        "-1": "EINVAL", " 1": "EINVAL", "1 ": "EINVAL", "1k": "EINVAL", "1.5": "EINVAL",
        "\n": "EINVAL", "18446744073709551615": "18446744073709551615",
        "18446744073709551616": "ERANGE",
    },
)  # fmt: skip
def numbers(subject: Subject) -> Mapping[str, str]:
    """A number can be hexadecimal or octal, has no unit and no blanks, and fits a long."""
    stage(subject)
    values = ("12", "0x1F", "010", "08", "+7", "9\n", "-1", " 1", "1 ", "1k", "1.5", "\n",
              "18446744073709551615", "18446744073709551616")  # fmt: skip
    return _reads(subject, f"{SCHEME}/access_pattern/sz/min", values)


@behaviour(
    cites="sz_permil_store(): kstrtouint(); target_nid_store(): kstrtoint(); bytes_store()",
    expect={
        "sz_permil": {"4294967295": "4294967295", "4294967296": "ERANGE", "-1": "EINVAL"},
        "target_nid": {"4294967295": "ERANGE", "4294967296": "ERANGE", "-1": "-1"},
        "bytes": {"4294967295": "4294967295", "4294967296": "4294967296", "-1": "EINVAL"},
        "damon_target_idx": {"4294967295": "ERANGE", "4294967296": "ERANGE", "-1": "-1"},
    },
)
def widths(subject: Subject) -> Mapping[str, Mapping[str, str]]:
    """Weights are unsigned ints, node ids and indices ints, sizes unsigned longs."""
    stage(subject)
    subject.sysfs.write(f"{SCHEME}/filters/nr_filters", "1")
    paths = (
        f"{SCHEME}/quotas/weights/sz_permil",
        f"{SCHEME}/target_nid",
        _BYTES,
        f"{SCHEME}/filters/0/damon_target_idx",
    )
    values = ("4294967295", "4294967296", "-1")
    return {path.rpartition("/")[2]: _reads(subject, path, values) for path in paths}


@behaviour(
    cites="bytes_store(), ms_store(): -EINVAL whatever kstrtoul() said",
    expect={
        "bytes": "EINVAL",
        "ms": "EINVAL",
        "reset_interval_ms": "EINVAL",
        "sample_us": "ERANGE",
    },
)
def too_large(subject: Subject) -> Mapping[str, str]:
    """A number that is too large for a long is ERANGE in most files, EINVAL in those of quotas."""
    stage(subject)
    paths = (
        _BYTES,
        f"{SCHEME}/quotas/ms",
        f"{SCHEME}/quotas/reset_interval_ms",
        f"{ATTRS}/intervals/sample_us",
    )
    return {path.rpartition("/")[2]: taken(subject, path, str(2**64)) for path in paths}


@behaviour(
    cites="kstrtobool()",
    expect={
        "Y": "Y", "n": "N", "1": "Y", "0": "N", "true": "Y", "f": "N", "on": "Y", "off": "N",
        "yes\n": "Y", "o": "EINVAL", "x": "EINVAL", "2": "EINVAL",
    },
)  # fmt: skip
def booleans(subject: Subject) -> Mapping[str, str]:
    """A boolean is recognised by its first letters, and reads as Y or N."""
    stage(subject)
    subject.sysfs.write(f"{SCHEME}/filters/nr_filters", "1")
    values = ("Y", "n", "1", "0", "true", "f", "on", "off", "yes\n", "o", "x", "2")
    return _reads(subject, f"{SCHEME}/filters/0/matching", values)


@behaviour(
    cites="addr_unit_store()",
    expect=since(
        {"6.12": {"0": "ENOENT", "4096": "ENOENT"}, "6.18": {"0": "EINVAL", "4096": "4096"}}
    ),
)
def address_unit(subject: Subject) -> Mapping[str, str]:
    """A unit of addresses is at least 1."""
    stage(subject)
    return _reads(subject, f"{CONTEXT}/addr_unit", ("0", "4096"))


@behaviour(
    cites="damos_sysfs_scheme_filter_valid_type()",
    expect=since(
        {
            "6.12": {"core": "ENOENT", "ops": "ENOENT"},
            "6.16": {
                "core": {"addr": "ok", "target": "ok", "young": "EINVAL", "memcg": "EINVAL"},
                "ops": {"addr": "EINVAL", "target": "EINVAL", "young": "ok", "memcg": "ok"},
            },
        }
    ),
)
def filter_directories(subject: Subject) -> dict[str, str | dict[str, str]]:
    """core_filters take types that DAMON's core handles, ops_filters those that need the page."""
    stage(subject)
    seen: dict[str, str | dict[str, str]] = {}
    for layer in ("core", "ops"):
        made = taken(subject, f"{SCHEME}/{layer}_filters/nr_filters", "1")
        seen[layer] = made
        if made == "ok":
            path = f"{SCHEME}/{layer}_filters/0/type"
            seen[layer] = {
                word: taken(subject, path, word) for word in ("addr", "target", "young", "memcg")
            }
    return seen


# What is wrong, and the writes that make a good context wrong in this way.
_WRONG_ATTRS: Mapping[str, Sequence[tuple[str, str]]] = {
    "fewer than 3 regions": ((f"{ATTRS}/nr_regions/min", "2"),),
    "3 regions": ((f"{ATTRS}/nr_regions/min", "3"),),
    "minimum above maximum": ((f"{ATTRS}/nr_regions/max", "9"),),
    "sample above aggregation": ((f"{ATTRS}/intervals/sample_us", "50001"),),
    "sample is the aggregation": ((f"{ATTRS}/intervals/sample_us", "50000"),),
    "aggregation of 0": ((f"{ATTRS}/intervals/aggr_us", "0"),),
}


@behaviour(
    cites="damon_set_attrs()",
    expect={
        "fewer than 3 regions": "EINVAL",
        "3 regions": "ok",
        "minimum above maximum": "EINVAL",
        "sample above aggregation": "EINVAL",
        "sample is the aggregation": "ok",
        "aggregation of 0": "EINVAL",
    },
)
def attributes(subject: Subject) -> dict[str, str]:
    """Impossible monitoring attributes are accepted by the write and refused by `on`."""
    return {what: _started(subject, writes) for what, writes in _WRONG_ATTRS.items()}


def _started(subject: Subject, writes: Sequence[tuple[str, str]]) -> str:
    stage(subject)
    for path, value in writes:
        subject.sysfs.write(path, value)
    seen = answer(subject, "on")
    if seen == "ok":
        subject.sysfs.write(STATE, "off")
    return seen


@behaviour(
    cites="damon_set_attrs(), damon_sysfs_set_attrs(): intervals_goal",
    expect=since(
        {
            "6.12": "no intervals_goal",
            "6.16": {"below": "EINVAL", "inside": "ok", "above": "EINVAL"},
        }
    ),
)
def tuned_interval_bounds(subject: Subject) -> str | dict[str, str]:
    """If the intervals have a goal, the sampling interval must be within its bounds."""
    goal = f"{ATTRS}/intervals/intervals_goal"
    bare(subject)
    if not subject.sysfs.exists(goal):
        return "no intervals_goal"
    bounds = {"below": (6_000, 9_000), "inside": (5_000, 9_000), "above": (1_000, 4_000)}
    return {
        what: _started(
            subject,
            (
                (f"{goal}/access_bp", "400"),
                (f"{goal}/aggrs", "3"),
                (f"{goal}/min_sample_us", str(least)),
                (f"{goal}/max_sample_us", str(most)),
            ),
        )
        for what, (least, most) in bounds.items()
    }


# Pages of arm64 have up to 64 KiB, and regions begin at whole pages.
PAGE_BYTES_MAX = 1 << 16

_REGIONS = {
    "in order": "ok",
    "touching": "ok",
    "not in order": "EINVAL",
    "overlapping": "EINVAL",
    "empty": "EINVAL",
    "backwards": "EINVAL",
    "none": "ok",
}


@behaviour(
    cites="damon_sysfs_set_regions(), damon_set_regions()",
    expect=since({"6.12": _REGIONS, "6.16": {**_REGIONS, "empty": "ok"}, "7.2": _REGIONS}),
)
def target_regions(subject: Subject) -> dict[str, str]:
    """Regions of a target have to be in order and apart, and there may be none. An empty one is
    refused, but not on 6.16 and 6.18.
    """
    start, end = node_ranges(subject.sysfs, FAST)[-1]
    third = (end - start) // 3 // PAGE_BYTES_MAX * PAGE_BYTES_MAX
    low, middle, high = (
        (start, start + third),
        (start + third, start + 2 * third),
        (start + 2 * third, end),
    )
    cases: Mapping[str, Sequence[tuple[int, int]]] = {
        "in order": (low, high),
        "touching": (low, middle),
        "not in order": (high, low),
        "overlapping": ((start, start + 2 * third), (start + third, end)),
        "empty": ((start, start),),
        "backwards": ((end, start),),
        "none": (),
    }
    return {what: _with_regions(subject, ranges) for what, ranges in cases.items()}


def _with_regions(subject: Subject, ranges: Sequence[tuple[int, int]]) -> str:
    stage(subject)
    regions(subject, *ranges)
    seen = answer(subject, "on")
    if seen == "ok":
        subject.sysfs.write(STATE, "off")
    return seen


@behaviour(cites="damon_sysfs_add_target(): one target for physical addresses", expect="EINVAL")
def two_targets(subject: Subject) -> str:
    """Physical memory is only one target."""
    stage(subject)
    return _started(subject, ((f"{CONTEXT}/targets/nr_targets", "2"),))


@behaviour(cites="damon_sysfs_set_targets(): find_get_pid()", expect="EINVAL")
def no_such_process(subject: Subject) -> str:
    """A virtual address space must belong to a process."""
    return _started(
        subject,
        (
            (f"{CONTEXT}/operations", "vaddr"),
            (f"{CONTEXT}/targets/nr_targets", "1"),
            # Above the largest pid that any kernel gives out.
            (f"{CONTEXT}/targets/0/pid_target", "4194305"),
        ),
    )


def _filtered(subject: Subject, *files: tuple[str, str]) -> str:
    folder = f"{SCHEME}/filters"
    writes = [(f"{folder}/nr_filters", "1")]
    writes += [(f"{folder}/0/{name}", value) for name, value in files]
    return _started(subject, writes)


@behaviour(
    cites="damon_sysfs_memcg_path_to_id(), damon_sysfs_mk_scheme(): NULL for every reason",
    expect={"missing": "ENOMEM", "there": "ok", "with a newline": "ok", "not set": "ENOMEM"},
)
def memcg_path(subject: Subject) -> dict[str, str]:
    """A cgroup that does not exist is ENOMEM, and only at `on`."""
    path = subject.make_cgroup("contract")
    kind = ("type", "memcg")
    try:
        return {
            "missing": _filtered(subject, kind, ("memcg_path", "/no/such/group")),
            "there": _filtered(subject, kind, ("memcg_path", path)),
            "with a newline": _filtered(subject, kind, ("memcg_path", f"{path}\n")),
            "not set": _filtered(subject, kind),
        }
    finally:
        subject.remove_cgroup("contract")


@behaviour(
    cites="damon_sysfs_add_scheme_filters()",
    expect={"backwards": "ENOMEM", "empty": "ok"},
)
def address_filter(subject: Subject) -> dict[str, str]:
    """A filter of addresses that end before they start gives ENOMEM; an empty one is accepted."""
    kind = ("type", "addr")
    return {
        "backwards": _filtered(subject, kind, ("addr_start", "8192"), ("addr_end", "4096")),
        "empty": _filtered(subject, kind, ("addr_start", "4096"), ("addr_end", "4096")),
    }


@behaviour(
    cites="damon_sysfs_add_scheme_filters()",
    expect=since({"6.12": "ENOENT", "6.16": {"backwards": "ENOMEM", "one size": "ok"}}),
)
def size_filter(subject: Subject) -> str | dict[str, str]:
    """A filter of huge pages whose least size is above its largest is ENOMEM."""
    stage(subject)
    subject.sysfs.write(f"{SCHEME}/filters/nr_filters", "1")
    if not subject.sysfs.exists(f"{SCHEME}/filters/0/min"):
        return "ENOENT"
    kind = ("type", "hugepage_size")
    return {
        "backwards": _filtered(subject, kind, ("min", "8192"), ("max", "4096")),
        "one size": _filtered(subject, kind, ("min", "4096"), ("max", "4096")),
    }


@behaviour(
    cites="damon_start(): is_power_of_2(min_region_sz)",
    expect=since(
        {
            "6.12": {"2": "ENOENT", "3": "ENOENT"},
            "6.18": {"2": "ok", "3": "ok"},
            "7.2": {"2": "ok", "3": "EINVAL"},
        }
    ),
)
def least_region(subject: Subject) -> dict[str, str]:
    """The smallest region, which depends on the unit of addresses, must be a power of two."""
    seen: dict[str, str] = {}
    for unit in ("2", "3"):
        stage(subject)
        regions(subject, (0, 2**20))
        seen[unit] = taken(subject, f"{CONTEXT}/addr_unit", unit)
        if seen[unit] == "ok":
            seen[unit] = answer(subject, "on")
        if seen[unit] == "ok":
            subject.sysfs.write(STATE, "off")
    return seen


@behaviour(
    cites="damon_sysfs_memcg_path_to_id() of damos_sysfs_add_quota_score()",
    expect=since(
        {"6.12": "ENOENT", "7.2": {"on": "ENOMEM", "commit_schemes_quota_goals": "EINVAL"}}
    ),
)
def goal_path(subject: Subject) -> str | dict[str, str]:
    """A goal for a control group that is not there is ENOMEM at `on`, EINVAL as a commit of goals
    alone.
    """
    goal = f"{SCHEME}/quotas/goals/0"
    context = stage(subject)
    context.command("on")
    subject.sysfs.write(f"{SCHEME}/quotas/goals/nr_goals", "1")
    if not subject.sysfs.exists(f"{goal}/path"):
        return "ENOENT"
    subject.sysfs.write(f"{goal}/target_metric", "node_memcg_used_bp")
    subject.sysfs.write(f"{goal}/target_value", "5000")
    subject.sysfs.write(f"{goal}/path", "/no/such/group")
    at_commit = answer(subject, "commit_schemes_quota_goals")
    context.command("off")
    return {"on": answer(subject, "on"), "commit_schemes_quota_goals": at_commit}


@behaviour(
    cites="struct damos_access_pattern: unsigned int min_nr_accesses",
    expect={"1": "nothing", str(UINT_MAX): "nothing", str(UINT_MAX + 1): "everything"},
)
def truncated_pattern(subject: Subject) -> dict[str, str]:
    """Accesses and ages are kept in 32 bits, so that 2^32 means 0."""
    return {
        str(least): _matched(subject, Scheme(accesses_min=least))
        for least in (1, UINT_MAX, UINT_MAX + 1)
    }


@behaviour(cites="damon_sysfs_access_pattern_add_dirs()", expect="nothing")
def default_pattern(subject: Subject) -> str:
    """A scheme whose pattern was never written matches no region, because its maximum size is 0."""
    return _matched(subject, Scheme(), ((f"{CONTEXT}/schemes/1/access_pattern/sz/max", "0"),))


def _matched(subject: Subject, scheme: Scheme, writes: Sequence[tuple[str, str]] = ()) -> str:
    """True if a scheme takes anything on the slow node, which is at rest."""
    context = stage(subject, EVERYTHING, scheme)
    for path, value in writes:
        subject.sysfs.write(path, value)
    context.command("on")
    after_rounds(context, 3)
    seen = context.stats()
    context.command("off")
    if seen[1].sz_tried == 0:
        return "nothing"
    return "everything" if seen[1].sz_tried == seen[0].sz_tried else "something"
