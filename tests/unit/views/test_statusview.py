"""`tierd status`: the verdict and its reasons."""

from dataclasses import replace

import pytest

from tests.fixtures.snapshots import FAST, MIB, SLOW, SNAPSHOT, parked, with_nodes
from tierd.record.chronicle import reading_of
from tierd.record.snapshot import GoalStatus, Snapshot, State, document
from tierd.views import history, statusview
from tierd.views.plots import ASCII

NOW = 10_002.0

UNSENSED = with_nodes(replace(FAST, cold_bytes=None), replace(SLOW, hot_bytes=None))

VERDICTS: list[tuple[str, Snapshot, str]] = [
    (
        "all is well",
        SNAPSHOT,
        "ACTIVE: headroom is kept, 50 MiB is hot on slower nodes; promotes 30 MB/s, demotes 40 MB",
    ),
    ("its cost and age", SNAPSHOT, "kdamonds use 1% of a CPU; last reading 2 s ago"),
    (
        "no room",
        with_nodes(replace(FAST, free_bytes=30 * MIB)),
        "ACTIVE: headroom is short by 70 MiB on node0, 50 MiB is hot on slower nodes",
    ),
    (
        "a little short comes and goes",
        with_nodes(replace(FAST, free_bytes=95 * MIB)),
        "headroom is kept",
    ),
    (
        "nothing to do",
        with_nodes(slow=replace(SLOW, hot_bytes=MIB)),
        "no hot memory on slower nodes",
    ),
    ("not sensed, goals met", UNSENSED, "ACTIVE: headroom is kept; promotes 30 MB/s"),
    (
        "not sensed, room above",
        replace(UNSENSED, goals=(GoalStatus("node_mem_used_bp:0", 9000, 9970),)),
        "headroom is kept, room for more on node0",
    ),
    (
        "observing",
        replace(SNAPSHOT, state=State.observing),
        "OBSERVING: nothing moves; 50 MiB is hot on slower nodes, 280 MiB is cold on faster nodes",
    ),
    ("paused", replace(SNAPSHOT, state=State.paused), "PAUSED: nothing moves until `tierd resume`"),
    (
        "degraded",
        replace(SNAPSHOT, state=State.degraded, reason="kdamond of node 0 died"),
        "DEGRADED: kdamond of node 0 died; promotes 30 MB/s",
    ),
    ("stuck", replace(SNAPSHOT, at=9_000.0), "STUCK: no new reading for 1002 s"),
]


@pytest.mark.parametrize(
    ("snapshot", "said"), [row[1:] for row in VERDICTS], ids=[row[0] for row in VERDICTS]
)
def test_verdict(snapshot: Snapshot, said: str) -> None:
    assert said in statusview.verdict(document(snapshot), NOW)


def test_the_verdict_is_the_first_line_and_the_next_command_the_last() -> None:
    lines = statusview.text(document(SNAPSHOT), NOW, 200).splitlines()
    assert lines[0] == statusview.verdict(document(SNAPSHOT), NOW)
    assert lines[-1] == "next: tierd top | tierd history"


@pytest.mark.parametrize(
    ("snapshot", "step"),
    [
        (replace(SNAPSHOT, state=State.degraded), "tierd doctor | tierd events"),
        (replace(SNAPSHOT, state=State.paused), "tierd resume"),
        (replace(SNAPSHOT, state=State.observing), "tierd plan, then"),
        (parked(), "tierd why 1 | tierd top"),
        (SNAPSHOT, "tierd top"),
        # So little hot memory is noise, and the verdict does not mention it.
        (parked(with_nodes(slow=replace(SLOW, hot_bytes=MIB))), "tierd top"),
    ],
)
def test_the_next_command(snapshot: Snapshot, step: str) -> None:
    assert statusview.next_step(document(snapshot)).startswith(step)


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_lines_fit_the_width(columns: int) -> None:
    lines = statusview.text(document(SNAPSHOT), NOW, columns).splitlines()
    assert max(map(len, lines)) <= columns


def test_bars_show_what_is_used_cold_hot_free_and_kept() -> None:
    nodes = document(SNAPSHOT)["nodes"]
    assert statusview.bar(nodes[0], 50) == "#" * 30 + "-" * 14 + ".|...."
    assert statusview.bar(nodes[1], 50) == "#" * 11 + "+" + "." * 38


def test_a_little_that_is_hot_is_to_be_seen() -> None:
    node = document(with_nodes(slow=replace(SLOW, hot_bytes=25 * MIB)))["nodes"][1]
    assert "+" in statusview.bar(node, 10)


def test_the_fastest_tier_comes_first() -> None:
    nodes = document(with_nodes(replace(FAST, numa_node=5)))["nodes"]
    assert [line.split()[0] for line in statusview.node_lines(nodes[::-1], 80)] == [
        "node5",
        "node1",
    ]


def test_reasons_neighbours_losses_and_events_are_told() -> None:
    snapshot = replace(SNAPSHOT, degraded=("no pause",), conflicts=("numad runs",))
    text = statusview.text(document(snapshot), NOW, 100)
    for said in (
        "promote-1-0: up to 30 MB/s",
        "no pause",
        "numad runs",
        "01:46:40Z running: started",
    ):
        assert said in text


def test_what_kdamonds_used_before_this_daemon_is_not_its_cost() -> None:
    status = document(SNAPSHOT)
    cost = statusview.cpu_share(status)
    for kdamond in status["kdamonds"]:
        kdamond["cpu_seconds_total"] += 1000.0
        kdamond["cpu_seconds_before"] = 1000.0
    assert statusview.cpu_share(status) == pytest.approx(cost)


def test_what_a_scheme_may_move() -> None:
    lines = statusview.scheme_lines(document(SNAPSHOT), 120)
    assert lines[0].split() == ["SCHEME", "NOW", "MOVED", "QUOTA/WINDOW"]
    assert lines[1].split() == [
        "demote-0-1", "40", "MB/s", "300", "MiB", "5", "MiB", "of", "19.1", "MiB"
    ]  # fmt: skip
    assert lines[2].split()[-1] == "parked"


def test_during_a_pause_no_scheme_has_a_reason_of_its_own() -> None:
    text = statusview.text(document(replace(SNAPSHOT, state=State.paused)), NOW, 100)
    assert "promote-1-0  " in text
    assert "promote-1-0: " not in text


def test_status_and_history_mean_the_same_by_short() -> None:
    """Both use the same bound: a headroom that is short in one is short in the other."""
    target = FAST.headroom_target_bytes
    assert target is not None
    for free in range(target // 2, target, target // 50):
        now = with_nodes(replace(FAST, free_bytes=free))
        said = "is short by" in statusview.verdict(document(now), NOW)
        assert said is ("in 100% of" in history.as_text((reading_of(now),), 0.0, NOW, 120, ASCII))


def test_before_the_first_reading() -> None:
    starting = {"schema": "tierd.status/1", "state": "starting"}
    assert statusview.text(starting, NOW, 80).startswith("STARTING")


def test_an_older_daemon_is_drawn_as_far_as_it_goes() -> None:
    old = document(SNAPSHOT)
    for node in old["nodes"]:
        del node["hot_bytes"], node["cold_bytes"]
    for scheme in old["schemes"]:
        del scheme["reason"]
    assert "ACTIVE: headroom is kept" in statusview.text(old, NOW, 80)


def test_what_nobody_could_read_is_not_said_to_cost_nothing() -> None:
    status = document(SNAPSHOT)
    assert "of a CPU" in statusview.verdict(status, status["at"])
    status["kdamonds"][0]["cpu_known"] = False
    assert "of a CPU" not in statusview.verdict(status, status["at"])


def test_the_page_has_its_address_above_the_next_command() -> None:
    served = document(replace(SNAPSHOT, page="http://127.0.0.1:19100/"))
    lines = statusview.text(served, NOW, 100).splitlines()
    assert lines[-3:] == ["", "page: http://127.0.0.1:19100/", "next: tierd top | tierd history"]
    assert "page:" not in statusview.text(document(SNAPSHOT), NOW, 100)
