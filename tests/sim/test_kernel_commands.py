"""The commands of `state`: the answers of each series, and the files after a command."""

from errno import EBUSY

import pytest

from tests.sim.staged_kernel import CONTEXT, SCHEME, SERIES, answer, build, command, stage, state
from tierd.sim.file_tree import Oops
from tierd.sim.sim_kernel import DAMON, SimKernel
from tierd.sysfs import SysfsError

UPDATES = (
    "commit",
    "commit_schemes_quota_goals",
    "update_schemes_stats",
    "update_schemes_tried_bytes",
    "update_schemes_tried_regions",
    "update_schemes_effective_quotas",
)


def running(series: str, schemes: int = 1) -> SimKernel:
    kernel = build(series)
    stage(kernel, schemes)
    kernel.write(f"{DAMON}/0/state", "on")
    return kernel


def tried(kernel: SimKernel, scheme: int) -> list[int]:
    names = kernel.listdir(f"{CONTEXT}/schemes/{scheme}/tried_regions")
    return sorted(int(name) for name in names if name.isdigit())


@pytest.mark.parametrize("series", SERIES)
def test_on_and_off(series: str) -> None:
    kernel = running(series)
    pid = int(kernel.read(f"{DAMON}/0/pid"))
    assert (state(kernel), pid > 0) == ("on", True)
    assert command(kernel, "on") == "EBUSY"
    assert command(kernel, "off") == "ok"
    assert (state(kernel), kernel.read(f"{DAMON}/0/pid")) == ("off", "-1")
    assert command(kernel, "on") == "ok"
    assert int(kernel.read(f"{DAMON}/0/pid")) != pid


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("word", [*UPDATES, "off", "nonsense"])
def test_before_the_first_on_every_command_is_invalid(series: str, word: str) -> None:
    kernel = build(series)
    stage(kernel)
    assert command(kernel, word) == "EINVAL"


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("word", UPDATES)
def test_while_on_every_command_is_served(series: str, word: str) -> None:
    kernel = running(series)
    assert command(kernel, word) == "ok"
    assert state(kernel) == "on"


@pytest.mark.parametrize("series", SERIES)
def test_the_array_stays_while_any_kdamond_runs(series: str) -> None:
    kernel = running(series)
    assert answer(kernel, f"{DAMON}/nr_kdamonds", "1") == "EBUSY"
    assert command(kernel, "off") == "ok"
    assert answer(kernel, f"{DAMON}/nr_kdamonds", "0") == "ok"


@pytest.mark.parametrize("series", SERIES)
def test_statistics_are_as_old_as_their_last_update(series: str) -> None:
    kernel = running(series)
    kernel.advance(1)
    assert kernel.read(f"{SCHEME}/stats/nr_tried") == "0"
    assert command(kernel, "update_schemes_stats") == "ok"
    updated = int(kernel.read(f"{SCHEME}/stats/nr_tried"))
    assert updated > 0
    # The files stay after their kdamond has ended.
    command(kernel, "off")
    command(kernel, "on")
    assert int(kernel.read(f"{SCHEME}/stats/nr_tried")) == updated
    command(kernel, "update_schemes_stats")
    assert int(kernel.read(f"{SCHEME}/stats/nr_tried")) < updated


@pytest.mark.parametrize("series", SERIES)
def test_tried_regions_come_and_are_cleared(series: str) -> None:
    kernel = running(series, schemes=2)
    assert command(kernel, "update_schemes_tried_regions") == "ok"
    for scheme in (0, 1):
        folder = f"{CONTEXT}/schemes/{scheme}/tried_regions"
        sizes = [
            int(kernel.read(f"{folder}/{number}/end"))
            - int(kernel.read(f"{folder}/{number}/start"))
            for number in tried(kernel, scheme)
        ]
        assert sum(sizes) == int(kernel.read(f"{folder}/total_bytes")) > 0
    assert command(kernel, "clear_schemes_tried_regions") == "ok"
    assert (tried(kernel, 0), kernel.read(f"{SCHEME}/tried_regions/total_bytes")) == ([], "0")


def test_on_6_12_tried_regions_of_all_schemes_are_numbered_together() -> None:
    kernel = running("6.12", schemes=2)
    command(kernel, "update_schemes_tried_regions")
    first, second = tried(kernel, 0), tried(kernel, 1)
    assert first[0] == 0
    assert sorted(first + second) == list(range(len(first) + len(second)))


@pytest.mark.parametrize("series", ["6.16", "6.18"])
def test_tried_regions_that_are_counted_twice(series: str) -> None:
    kernel = running(series)
    believed = 0
    for _ in range(3):
        command(kernel, "update_schemes_tried_regions")
        seen = tried(kernel, 0)
        assert seen == [believed + 1 + 2 * index for index in range(len(seen))]
        believed += len(seen)


def test_tried_bytes_makes_no_directories() -> None:
    kernel = running("7.3")
    assert command(kernel, "update_schemes_tried_bytes") == "ok"
    assert tried(kernel, 0) == []
    assert int(kernel.read(f"{SCHEME}/tried_regions/total_bytes")) > 0


@pytest.mark.parametrize("series", [series for series in SERIES if series != "6.12"])
def test_tuned_intervals_go_over_what_is_staged(series: str) -> None:
    kernel = running(series)
    kernel.write(f"{CONTEXT}/monitoring_attrs/intervals/sample_us", "7000")
    assert command(kernel, "update_tuned_intervals") == "ok"
    assert kernel.read(f"{CONTEXT}/monitoring_attrs/intervals/sample_us") == "5000"


def test_6_12_does_not_tune_intervals() -> None:
    assert command(running("6.12"), "update_tuned_intervals") == "EINVAL"


def test_a_bad_commit_ends_a_6_12_kdamond_and_succeeds() -> None:
    kernel = running("6.12")
    kernel.write(f"{CONTEXT}/monitoring_attrs/nr_regions/min", "2")
    assert command(kernel, "commit") == "ok"
    assert (state(kernel), kernel.read(f"{DAMON}/0/pid")) == ("off", "-1")
    assert command(kernel, "off") == "EPERM"


@pytest.mark.parametrize("series", ["7.2", "7.3"])
def test_a_bad_commit_is_refused_and_changes_nothing(series: str) -> None:
    kernel = running(series)
    pid = kernel.read(f"{DAMON}/0/pid")
    kernel.write(f"{CONTEXT}/monitoring_attrs/nr_regions/min", "2")
    assert command(kernel, "commit") == "EINVAL"
    assert (state(kernel), kernel.read(f"{DAMON}/0/pid")) == ("on", pid)


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize(
    ("path", "value", "wanted"),
    [
        ("monitoring_attrs/nr_regions/min", "2", "EINVAL"),
        ("monitoring_attrs/nr_regions/min", "1001", "EINVAL"),
        ("monitoring_attrs/intervals/sample_us", "100001", "EINVAL"),
        ("targets/nr_targets", "2", "EINVAL"),
        ("targets/0/regions/0/end", "1", "EINVAL"),
        ("schemes/0/filters/0/type", "memcg", "ENOMEM"),
    ],
)
def test_what_on_refuses(series: str, path: str, value: str, wanted: str) -> None:
    kernel = build(series)
    stage(kernel)
    kernel.write(f"{SCHEME}/filters/nr_filters", "1")
    kernel.write(f"{CONTEXT}/{path}", value)
    assert command(kernel, "on") == wanted
    assert state(kernel) == "off"


def test_regions_are_in_order_apart_and_not_empty() -> None:
    kernel = build("7.3")
    stage(kernel)
    regions = f"{CONTEXT}/targets/0/regions"
    cases = {
        (0, 0x3000, 0x3000, 0x5000): "ok",
        (0x3000, 0x5000, 0, 0x2000): "EINVAL",
        (0, 0x3000, 0x2000, 0x5000): "EINVAL",
        (0, 0x3800, 0x3800, 0x5000): "EINVAL",  # they overlap once they are whole pages
    }
    for values, wanted in cases.items():
        kernel.write(f"{regions}/nr_regions", "2")
        names = ("0/start", "0/end", "1/start", "1/end")
        for name, value in zip(names, values, strict=True):
            kernel.write(f"{regions}/{name}", str(value))
        assert command(kernel, "on") == wanted, values
        if wanted == "ok":
            command(kernel, "off")


@pytest.mark.parametrize("series", SERIES)
def test_a_cgroup_is_found_by_its_path(series: str) -> None:
    kernel = build(series)
    stage(kernel)
    kernel.write(f"{SCHEME}/filters/nr_filters", "1")
    kernel.write(f"{SCHEME}/filters/0/type", "memcg")
    kernel.write(f"{SCHEME}/filters/0/memcg_path", "/job\n")
    assert command(kernel, "on") == "ENOMEM"
    kernel.add_cgroup("/job")
    assert command(kernel, "on") == "ok"


def test_the_largest_age_is_an_unsigned_int() -> None:
    kernel = build("7.3")
    stage(kernel)
    kernel.write(f"{SCHEME}/access_pattern/age/max", str(2**32))
    kernel.write(f"{DAMON}/0/state", "on")
    kernel.advance(2)
    command(kernel, "update_schemes_tried_regions")
    ages = {kernel.read(f"{SCHEME}/tried_regions/{n}/age") for n in tried(kernel, 0)}
    assert ages <= {"0"}


def test_a_goal_without_target_is_no_goal() -> None:
    kernel = running("7.3")
    kernel.write(f"{SCHEME}/quotas/goals/nr_goals", "1")
    kernel.write(f"{SCHEME}/quotas/goals/0/target_metric", "node_memcg_used_bp")
    kernel.write(f"{SCHEME}/quotas/goals/0/path", "/nosuch")
    assert command(kernel, "commit_schemes_quota_goals") == "ok"
    kernel.write(f"{SCHEME}/quotas/goals/0/target_value", "1")
    assert command(kernel, "commit_schemes_quota_goals") == "EINVAL"
    assert command(kernel, "commit") == "ENOMEM"


def test_a_command_takes_as_long_as_on_the_real_kernel() -> None:
    older, newer = running("6.12"), running("7.3")
    for kernel, least_us, most_us in ((older, 100_000, 300_000), (newer, 1, 10_000)):
        before_us = kernel.now_us
        command(kernel, "commit")
        assert least_us <= kernel.now_us - before_us <= most_us


@pytest.mark.parametrize("series", SERIES)
def test_the_lock_is_for_one(series: str) -> None:
    kernel = running(series)
    with kernel.locked():
        for path in (f"{DAMON}/0/state", f"{DAMON}/0/pid"):
            with pytest.raises(SysfsError) as caught:
                kernel.read(path)
            assert caught.value.errno == EBUSY
        assert command(kernel, "off") == "EBUSY"
        assert answer(kernel, f"{CONTEXT}/schemes/nr_schemes", "1") == "EBUSY"
        assert answer(kernel, f"{SCHEME}/quotas/bytes", "1") == "ok"
    assert command(kernel, "off") == "ok"


@pytest.mark.parametrize(("series", "reading"), [("6.12", "on"), ("7.3", None)])
def test_a_second_writer_is_refused(series: str, reading: str | None) -> None:
    kernel = running(series)
    path = f"{DAMON}/0/state"
    assert kernel.during(path, "commit", lambda: command(kernel, "update_schemes_stats")) == "EBUSY"
    if reading is None:
        with pytest.raises(SysfsError):
            kernel.during(path, "commit", lambda: state(kernel))
    else:
        assert kernel.during(path, "commit", lambda: state(kernel)) == reading
    # The lock is free again, whatever the result of the attempt.
    assert state(kernel) == "on"


def test_a_kdamond_that_ended_by_itself() -> None:
    kernel = running("7.2")
    kernel.end_kdamond(0)
    assert state(kernel) == "off"
    assert command(kernel, "update_schemes_stats") == "ECANCELED"
    assert command(kernel, "off") == "EPERM"
    assert command(kernel, "on") == "ok"


def test_files_refresh_themselves() -> None:
    kernel = build("7.3")
    stage(kernel)
    kernel.write(f"{DAMON}/0/refresh_ms", "500")
    command(kernel, "on")
    kernel.advance(0.4)
    assert kernel.read(f"{SCHEME}/stats/nr_tried") == "0"
    kernel.advance(0.2)
    first = int(kernel.read(f"{SCHEME}/stats/nr_tried"))
    kernel.advance(0.2)
    assert int(kernel.read(f"{SCHEME}/stats/nr_tried")) == first > 0
    kernel.advance(0.3)
    assert int(kernel.read(f"{SCHEME}/stats/nr_tried")) > first


@pytest.mark.parametrize(("series", "both"), [("7.2", False), ("7.3", True)])
def test_one_timer_for_two_kdamonds_starves_one(series: str, both: bool) -> None:
    kernel = build(series)
    kernel.write(f"{DAMON}/nr_kdamonds", "2")
    for index in (0, 1):
        base = f"{DAMON}/{index}"
        kernel.write(f"{base}/refresh_ms", "500")
        kernel.write(f"{base}/contexts/nr_contexts", "1")
        context = f"{base}/contexts/0"
        kernel.write(f"{context}/operations", "paddr")
        kernel.write(f"{context}/targets/nr_targets", "1")
        kernel.write(f"{context}/targets/0/regions/nr_regions", "1")
        kernel.write(f"{context}/targets/0/regions/0/end", str(1 << 28))
        kernel.write(f"{context}/schemes/nr_schemes", "1")
        for name in ("sz", "nr_accesses", "age"):
            kernel.write(f"{context}/schemes/0/access_pattern/{name}/max", str(2**32 - 1))
        kernel.write(f"{base}/state", "on")
        kernel.advance(0.05)
    kernel.advance(3)
    refreshed = [
        kernel.read(f"{DAMON}/{index}/contexts/0/schemes/0/stats/nr_tried") != "0"
        for index in (0, 1)
    ]
    assert refreshed == [both, True]


@pytest.mark.parametrize(("series", "dies"), [("6.12", False), ("6.16", True), ("7.3", False)])
def test_a_command_without_a_context(series: str, dies: bool) -> None:
    kernel = build(series)
    kernel.write(f"{DAMON}/nr_kdamonds", "1")
    if dies:
        with pytest.raises(Oops):
            command(kernel, "clear_schemes_tried_regions")
    else:
        assert command(kernel, "clear_schemes_tried_regions") == "EINVAL"


def test_on_6_16_a_command_to_an_ended_kdamond_blocks_the_next() -> None:
    kernel = running("6.16")
    command(kernel, "off")
    assert command(kernel, "commit") == "EINVAL"
    assert command(kernel, "update_schemes_stats") == "EBUSY"
    assert command(kernel, "update_schemes_tried_bytes") == "EINVAL"
    assert command(kernel, "update_schemes_tried_regions") == "EBUSY"
    assert command(kernel, "on") == "ok"
    assert command(kernel, "update_schemes_stats") == "ok"


def test_6_16_takes_an_empty_region() -> None:
    for series, wanted in (("6.12", "EINVAL"), ("6.16", "ok"), ("7.2", "EINVAL")):
        kernel = build(series)
        stage(kernel)
        start = kernel.read(f"{CONTEXT}/targets/0/regions/0/start")
        kernel.write(f"{CONTEXT}/targets/0/regions/0/end", start)
        assert command(kernel, "on") == wanted, series
