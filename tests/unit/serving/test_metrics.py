"""The table of metrics: its names, and that snapshots of a working loop fill it."""

import ast
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.sim.loop import Disk, Loop, cold, hot, loop
from tierd.configuration.config import Config, Mode, Tuner
from tierd.machine.neighbours import Owner
from tierd.record import bookkeeping, daemon_counts, rundir
from tierd.record.daemon_counts import DaemonCounts
from tierd.record.snapshot import GroupStatus, HintFaultsStatus, Snapshot
from tierd.serving import metrics
from tierd.serving.inbox import Verb
from tierd.serving.metrics import EVENTS, METRICS, Metric, MetricType, Seen, table

ROOT = Path(__file__).parents[3]

BY_NAME = {metric.name: metric for metric in METRICS}


def at_work(series: str = "7.2", config: Config | None = None, disk: Disk | None = None) -> Loop:
    happenings = (cold("cold", 0, 380), hot("hot", 1, 64))
    return loop(series, "two-tier", *happenings, config=config, disk=disk)


@pytest.fixture(scope="module")
def snapshots() -> list[Snapshot]:
    """Return the snapshots of a working loop in half a minute."""
    made = at_work()
    made.kernel.memory.swap_pages = 1 << 16
    made.run(30)
    group = GroupStatus(
        "web", 2 << 20, 1 << 20, 4 << 20, 0, 8 << 20, asks=True, waits=False, gives=False,
        bytes_by_tier=(("memory_tier4", 2 << 20), ("memory_tier22", 1 << 20)),
        up_bytes_total=5 << 20, down_bytes_total=3 << 20,
    )  # fmt: skip
    hinted = HintFaultsStatus("hint-faults-0", 0, 0, 0.0, 1e6, "")
    return [replace(one, groups=(group,), hint_faults=(hinted,)) for one in made.snapshots]


def values(name: str, snapshot: Snapshot) -> dict[tuple[str, ...], float]:
    return dict(BY_NAME[name].values(Seen(snapshot, DaemonCounts())))


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_are_as_prometheus_wants_them(metric: Metric) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", metric.name)
    assert metric.name.endswith("_total") is (metric.kind is MetricType.counter)
    assert not re.search(r"_(ms|us|kb|mb|mib|percent|bp)(_|$)", metric.name)
    assert not {"type", "node", "instance", "job", "le"} & set(metric.labels)
    assert metric.doc.endswith(".")


def test_the_documentation_is_of_these_metrics() -> None:
    """If this fails, run python tools/write_metrics_docs.py."""
    assert table() in (ROOT / "docs/metrics.md").read_text()


def test_no_name_stands_twice() -> None:
    assert len(BY_NAME) == len(METRICS)


def test_the_loop_at_work_fills_every_metric(snapshots: list[Snapshot]) -> None:
    seen = Seen(snapshots[-1], DaemonCounts())
    for metric in METRICS:
        found = dict(metric.values(seen))
        assert found, metric.name
        assert all(len(labels) == len(metric.labels) for labels in found), metric.name
        assert all(value >= 0 for value in found.values()), metric.name


def test_groups_have_their_bytes_by_tier_and_what_was_seen_to_move(
    snapshots: list[Snapshot],
) -> None:
    last = snapshots[-1]
    by_tier = {("web", "memory_tier4"): 2 << 20, ("web", "memory_tier22"): 1 << 20}
    assert values("group_memory_bytes", last) == by_tier
    assert values("group_up_bytes_total", last) == {("web",): 5 << 20}
    assert values("group_down_bytes_total", last) == {("web",): 3 << 20}


def test_bytes_are_those_of_the_schemes(snapshots: list[Snapshot]) -> None:
    last = snapshots[-1]
    moved = {scheme.scheme: scheme.applied_bytes_total for scheme in last.schemes}
    up = moved["promote-1-0"] + moved["promote-pages-1-0"]
    down = moved["demote-0-1"] + moved["demote-pages-0-1"]
    assert values("promoted_bytes_total", last) == {("1", "0"): up}
    assert values("demoted_bytes_total", last) == {("0", "1"): down}
    assert min(up, down) > 0


def test_who_only_observes_has_moved_nothing() -> None:
    disk = Disk()
    watching = at_work(config=Config(mode=Mode.observe, tuner=Tuner.kernel), disk=disk)
    watching.run(25)
    last = watching.snapshots[-1]
    assert not values("promoted_bytes_total", last)
    assert not values("demoted_bytes_total", last)
    found = values("scheme_tried_bytes_total", last)
    assert {name for name, _, _ in found} == {"promote-1-0:observe", "demote-0-1:observe"}
    assert sum(found.values()) > 0
    # Bytes that were only counted in observe mode do not count as moved.
    working = at_work(disk=disk)
    working.run(1)
    first = working.snapshots[0]
    assert set(values("demoted_bytes_total", first).values()) == {0}
    assert set(values("scheme_tried_bytes_total", first).values()) == {0}


def test_exactly_one_state_is_true(snapshots: list[Snapshot]) -> None:
    for snapshot in snapshots:
        assert sum(values("state", snapshot).values()) == 1


def test_counters_never_go_back_when_kdamonds_or_the_daemon_start_again() -> None:
    disk = Disk()
    first = at_work(disk=disk)
    first.do(15.5, lambda: first.kernel.end_kdamond(0))
    first.run(30)
    second = at_work(disk=disk)
    second.run(30)
    assert "kdamond_died" in first.names()
    # The second machine has booted again, so the kernel's own counters begin at zero.
    ours = [metric for metric in METRICS if "vmstat" not in metric.name]
    counted = [metric for metric in ours if metric.kind is MetricType.counter]
    runs = [*first.snapshots, *second.snapshots]
    for metric in counted:
        for before, after in pairwise(runs):
            now = values(metric.name, after)
            for labels, value in values(metric.name, before).items():
                assert now.get(labels, value) >= value, (metric.name, labels)


def test_who_else_moves_pages_is_told() -> None:
    made = at_work("6.12")
    made.kernel.write("proc/sys/kernel/numa_balancing", "2")
    made.run(2)
    found = values("conflicts", made.snapshots[-1])
    assert found == {(owner,): owner is Owner.numa_balancing for owner in Owner}


# The names under which `force.say` is called.
SAYS = ("force.say", "say")


def said() -> set[str]:
    """Return the names of events that the loop can log."""
    found = {f"{verb}_failed" for verb in (Verb.reload, Verb.pause, Verb.resume)}
    found |= {Verb.reload, Verb.pause, Verb.resume, bookkeeping.FAILED, bookkeeping.RECOVERED}
    for path in sorted((ROOT / "tierd").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                name = node.args[2] if len(node.args) > 2 else None
                if called in SAYS and isinstance(name, ast.Constant):
                    found.add(str(name.value))
    return found


def test_events_that_an_alert_may_wait_for_begin_at_zero() -> None:
    assert set(EVENTS) == said()


def test_files_that_may_fail_begin_at_zero() -> None:
    kept = (rundir.COUNTERS, rundir.EVENTS, rundir.HISTORY, rundir.TALLY)
    assert set(metrics.BOOKS) == set(kept)


def test_events_of_an_older_version_are_still_told(snapshots: list[Snapshot]) -> None:
    counted = daemon_counts.happened(DaemonCounts(), "invented", 1.0)
    told = dict(BY_NAME["events_total"].values(Seen(snapshots[-1], counted)))
    assert told["invented",] == 1
    assert told["degraded",] == 0


def test_a_time_that_nobody_could_read_is_not_told_as_none(snapshots: list[Snapshot]) -> None:
    """Without the kernel's threads in /proc, as in a container, there is no sample."""
    told = snapshots[-1]
    assert values("kdamond_cpu_seconds_total", told)
    hidden = tuple(replace(one, cpu_known=False) for one in told.kdamonds)
    assert not values("kdamond_cpu_seconds_total", replace(told, kdamonds=hidden))
    assert values("kdamond_up", replace(told, kdamonds=hidden))
