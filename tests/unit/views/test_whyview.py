"""`tierd why`: decisions and their reasons. A reason is shown once for as long as it holds."""

from dataclasses import replace

import pytest

from tests.fixtures.snapshots import DEMOTE, PROMOTE, SNAPSHOT, with_nodes
from tierd.errors import ExitCode
from tierd.record.snapshot import GoalStatus, Snapshot, State, look
from tierd.views import whyview
from tierd.views.whyview import NoSuchNode, node_id


def at(second: float, reason: str, rate: float = 0.0) -> Snapshot:
    promote = replace(PROMOTE, reason=reason, applied_bytes_per_s=rate)
    return replace(with_nodes(at=second), schemes=(DEMOTE, promote))


LOOKS = [
    look(one)
    for one in (
        at(0.0, "waits: free memory of node 0 is 41 MiB below the mark"),
        at(1.0, "waits: free memory of node 0 is 3.5 MiB below the mark"),
        at(2.0, "up to 30 MB/s: 50 MiB hot on node 1", 30e6),
        at(3.0, "up to 10.5 MB/s: 20 MiB hot on node 1", 10e6),
    )
]


def test_a_reason_is_told_once_with_its_last_figures() -> None:
    text = whyview.text(LOOKS, 1, 120)
    assert "node1, over the last 3 s (4 readings)" in text
    assert "00:00:00Z for 1 s: waits: free memory of node 0 is 3.5 MiB below the mark" in text
    assert "00:00:02Z for 1 s: up to 10.5 MB/s: 20 MiB hot on node 1; moved 20 MB/s" in text
    assert "41 MiB" not in text


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        (
            "waits: free memory of node 0 is 41 MiB below the mark",
            "promotion from node1 to node0 waits because free memory of node 0 is 41 MiB below the "
            "mark",
        ),
        (
            "parked for 30 s: it came up, and as much waits",
            "promotion from node1 to node0 is parked for 30 s because it came up, and as much "
            "waits",
        ),
        (
            "up to 30 MB/s, as there is room on node 0: 50 MiB hot on node 1",
            "promotion from node1 to node0 goes up to 30 MB/s, as there is room on node 0, for "
            "50 MiB hot on node 1",
        ),
        ("as much as fits", "promotion from node1 to node0: as much as fits"),
    ],
)
def test_the_decision_is_said_as_one_would_say_it(reason: str, sentence: str) -> None:
    assert f"promote-1-0: {sentence}" in whyview.text([look(at(0.0, reason))], 1, 200)


def test_what_the_kernel_may_move() -> None:
    text = whyview.text(LOOKS, 1, 120)
    assert "quota: nothing per window now, 19.1 MiB per window at most" in text
    assert "quota: 5 MiB per window now" in text


def test_what_was_read_comes_first() -> None:
    lines = whyview.text(LOOKS, 0, 120).splitlines()
    assert lines[2:5] == [
        "  free: 120 MiB of 1000 MiB (12%)",
        "  headroom: 100 MiB (10%), kept",
        "  cold, could be demoted: 280 MiB",
    ]


def test_goals_are_told_where_they_steer() -> None:
    steered = replace(SNAPSHOT, tuner="kernel", goals=(GoalStatus("node_mem_free_bp:0", 90, 50),))
    assert "goal node_mem_free_bp:0: 0.9%, aims at 0.5%" in whyview.text([look(steered)], 0, 120)
    assert "goal " not in whyview.text(LOOKS, 0, 120)


def test_a_pause_is_a_reason() -> None:
    assert "paused by `tierd pause`" in whyview.text(
        [look(replace(SNAPSHOT, state=State.paused))], 0, 120
    )


def test_a_node_that_nothing_touches() -> None:
    alone = replace(SNAPSHOT, schemes=())
    assert "No scheme moves memory to or from this node" in whyview.text([look(alone)], 0, 120)


def test_an_unknown_node_is_a_sentence() -> None:
    with pytest.raises(NoSuchNode, match="no node 9") as caught:
        whyview.text(LOOKS, 9, 80)
    assert caught.value.hint == "there are: 0, 1"
    assert caught.value.exit_code is ExitCode.usage


@pytest.mark.parametrize("word", ["", "node", "x1", "-1", "node1x"])
def test_an_unknown_node_is_refused(word: str) -> None:
    with pytest.raises(NoSuchNode):
        node_id(word)


def test_both_spellings_of_a_node() -> None:
    assert (node_id("1"), node_id("node12")) == (1, 12)


def test_before_the_first_look() -> None:
    assert "has not read the machine" in whyview.text([], 0, 80)


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_lines_fit_the_width(columns: int) -> None:
    assert max(map(len, whyview.text(LOOKS, 1, columns).splitlines())) <= columns


def test_what_was_picked_and_not_moved_is_explained() -> None:
    text = whyview.text([look(with_nodes())], 0, 200)
    assert "moved 300 MiB of the 900 MiB that it picked: the rest was free, " in text
