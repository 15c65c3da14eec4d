"""The DAMON tree of each series is the recorded one; objects come and go with nr_* writes."""

from errno import EACCES, EISDIR, ENOENT, ENOTDIR

import pytest

from tests.sim.staged_kernel import CONTEXT, SCHEME, SERIES, answer, build, stage
from tierd.sim.machine_model import load
from tierd.sim.sim_kernel import DAMON, SimKernel
from tierd.sysfs import SysfsError

# Each creates the directory of the next.
COUNTERS = (
    "nr_kdamonds",
    "0/contexts/nr_contexts",
    "0/contexts/0/targets/nr_targets",
    "0/contexts/0/schemes/nr_schemes",
    "0/contexts/0/schemes/0/filters/nr_filters",
    "0/contexts/0/schemes/0/core_filters/nr_filters",
    "0/contexts/0/schemes/0/ops_filters/nr_filters",
    "0/contexts/0/schemes/0/quotas/goals/nr_goals",
    "0/contexts/0/schemes/0/dests/nr_dests",
    "0/contexts/0/monitoring_attrs/probes/nr_probes",
)


def one_of_each(series: str) -> SimKernel:
    kernel = build(series)
    for path in COUNTERS:
        if kernel.exists(f"{DAMON}/{path}"):
            kernel.write(f"{DAMON}/{path}", "1")
    return kernel


@pytest.mark.parametrize("series", SERIES)
def test_the_tree_is_the_recorded_one(series: str) -> None:
    kernel = one_of_each(series)
    seen = {path: kernel.read(f"{DAMON}/{path}") for path in kernel.files(DAMON)}
    recorded = dict(kernel.series.listing)
    # The listing shows lines of a file as words.
    seen["0/contexts/0/avail_operations"] = seen["0/contexts/0/avail_operations"].replace("\n", " ")
    assert seen == recorded


@pytest.mark.parametrize("series", SERIES)
def test_listdir_shows_what_can_be_read(series: str) -> None:
    kernel = one_of_each(series)
    for path in kernel.files(DAMON):
        folder, _, name = f"{DAMON}/{path}".rpartition("/")
        assert name in kernel.listdir(folder)


def test_any_write_of_a_count_makes_its_objects_anew() -> None:
    kernel = build("7.3")
    stage(kernel)
    kernel.write(f"{SCHEME}/action", "pageout")
    kernel.write(f"{CONTEXT}/schemes/nr_schemes", "1")
    assert kernel.read(f"{SCHEME}/action") == "stat"


def test_a_count_deletes_what_is_too_many() -> None:
    kernel = build("7.3")
    stage(kernel, schemes=3)
    kernel.write(f"{CONTEXT}/schemes/nr_schemes", "2")
    assert kernel.listdir(f"{CONTEXT}/schemes") == ("0", "1", "nr_schemes")


@pytest.mark.parametrize(
    ("path", "value", "wanted"),
    [
        (f"{DAMON}/nr_kdamonds", "-1", "EINVAL"),
        (f"{DAMON}/nr_kdamonds", "x", "EINVAL"),
        (f"{DAMON}/nr_kdamonds", "2147483648", "ERANGE"),
        (f"{DAMON}/0/contexts/nr_contexts", "2", "EINVAL"),
        (f"{CONTEXT}/monitoring_attrs/probes/nr_probes", "4", "ok"),
        (f"{CONTEXT}/monitoring_attrs/probes/nr_probes", "5", "EINVAL"),
        (f"{SCHEME}/quotas/bytes", "99999999999999999999", "EINVAL"),
        (f"{SCHEME}/apply_interval_us", "99999999999999999999", "ERANGE"),
        (f"{SCHEME}/access_pattern/age/max", str(2**64 - 1), "ok"),
        (f"{SCHEME}/quotas/weights/age_permil", str(2**32), "ERANGE"),
        (f"{SCHEME}/action", "migrate_hot\n", "ok"),
        (f"{SCHEME}/action", "migrate_hot ", "EINVAL"),
        (f"{SCHEME}/action", "promote", "EINVAL"),
        (f"{CONTEXT}/operations", "ibs", "EINVAL"),
        (f"{CONTEXT}/addr_unit", "0", "EINVAL"),
        (f"{CONTEXT}/pause", "2", "EINVAL"),
        (f"{CONTEXT}/avail_operations", "paddr", "EACCES"),
        (f"{DAMON}/0/pid", "1", "EACCES"),
        (f"{DAMON}/0/nosuch", "1", "ENOENT"),
        (f"{DAMON}/0/pid/x", "1", "ENOTDIR"),
        (f"{DAMON}/0/contexts", "1", "EISDIR"),
        (f"{SCHEME}/action", "", "ok"),
    ],
)
def test_the_form_of_a_value_is_checked_at_once(path: str, value: str, wanted: str) -> None:
    kernel = build("7.3")
    stage(kernel)
    assert answer(kernel, path, value) == wanted


@pytest.mark.parametrize(
    ("folder", "word", "wanted"),
    [
        ("core_filters", "addr", "ok"),
        ("core_filters", "young", "EINVAL"),
        ("ops_filters", "young", "ok"),
        ("ops_filters", "target", "EINVAL"),
        ("filters", "target", "ok"),
        ("filters", "young", "ok"),
    ],
)
def test_a_filter_type_has_its_directories(folder: str, word: str, wanted: str) -> None:
    kernel = build("6.18")
    stage(kernel)
    kernel.write(f"{SCHEME}/{folder}/nr_filters", "1")
    assert answer(kernel, f"{SCHEME}/{folder}/0/type", word) == wanted


@pytest.mark.parametrize(
    ("series", "path", "word", "wanted"),
    [
        ("6.12", "action", "migrate_hot", "ok"),
        ("6.18", "action", "collapse", "EINVAL"),
        ("7.2", "action", "collapse", "ok"),
        ("6.12", "quotas/goals/0/target_metric", "node_mem_used_bp", "EINVAL"),
        ("6.16", "quotas/goals/0/target_metric", "node_mem_used_bp", "ok"),
        ("6.18", "quotas/goals/0/target_metric", "node_eligible_mem_bp", "EINVAL"),
        ("7.2", "quotas/goals/0/target_metric", "node_eligible_mem_bp", "ok"),
        ("7.2", "quotas/goal_tuner", "temporal", "ok"),
    ],
)
def test_words_are_those_of_the_series(series: str, path: str, word: str, wanted: str) -> None:
    kernel = build(series)
    stage(kernel)
    kernel.write(f"{SCHEME}/quotas/goals/nr_goals", "1")
    assert answer(kernel, f"{SCHEME}/{path}", word) == wanted


def test_a_refused_value_changes_nothing() -> None:
    kernel = build("7.3")
    stage(kernel)
    kernel.write(f"{SCHEME}/quotas/bytes", "4096")
    assert answer(kernel, f"{SCHEME}/quotas/bytes", "much") == "EINVAL"
    assert kernel.read(f"{SCHEME}/quotas/bytes") == "4096"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("sys/nosuch", ENOENT),
        ("run/tierd", ENOENT),
        (DAMON, EISDIR),
        ("sys", EISDIR),
        (f"{DAMON}/nr_kdamonds/x", ENOTDIR),
        ("proc/sys/vm/drop_caches", EACCES),
    ],
)
def test_what_cannot_be_read(path: str, code: int) -> None:
    with pytest.raises(SysfsError) as caught:
        build("7.3").read(path)
    assert (caught.value.errno, caught.value.path) == (code, path)


def test_without_root_damon_is_closed() -> None:
    kernel = SimKernel("7.3", load("two-tier"), root=False)
    assert answer(kernel, f"{DAMON}/nr_kdamonds", "1") == "EACCES"
    with pytest.raises(SysfsError) as caught:
        kernel.read(f"{DAMON}/nr_kdamonds")
    assert caught.value.errno == EACCES
    assert kernel.read("sys/devices/system/node/online") == "0-1"
