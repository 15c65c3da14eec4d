"""What is said about groups of cgroups that share the fast memory."""

from typing import Any

import pytest

from tierd.views import groupview

MIB = 1 << 20
WEB: dict[str, Any] = {
    "group": "web",
    "fast_bytes": 40 * MIB,
    "slow_bytes": 60 * MIB,
    "share_bytes": 90 * MIB,
    "floor_bytes": 80 * MIB,
    "ceiling_bytes": None,
    "asks": True,
    "waits": False,
    "gives": False,
}
BATCH = {**WEB, "group": "batch", "fast_bytes": 200 * MIB, "asks": False, "waits": True}


def test_the_table_has_a_row_for_each_group_with_memory() -> None:
    empty = {**BATCH, "group": "rest", "fast_bytes": 0, "slow_bytes": 0}
    assert groupview.lines([WEB, BATCH, empty]) == [
        "  GROUP  ON FAST  SHARE   ON SLOW  NOW",
        "  web    40 MiB   90 MiB  60 MiB   gets up to 50 MiB more",
        "  batch  200 MiB  90 MiB  60 MiB   waits: nothing comes up",
    ]


@pytest.mark.parametrize(
    ("group", "said"),
    [
        (WEB, "It lacks 50 MiB of it. Only memory of groups that lack some comes up"),
        ({**WEB, "asks": False}, "did not use more lately"),
        ({**WEB, "asks": False, "waits": True}, "Nothing of it comes up, because it is at its"),
        ({**WEB, "asks": False, "gives": True}, "because it is above its ceiling"),
    ],
)
def test_why_says_what_happens_with_a_group(group: dict[str, Any], said: str) -> None:
    assert said in groupview.sentences("web", [group])[-1]


def test_why_names_the_group_that_another_one_waits_for() -> None:
    first, last = groupview.sentences("batch", [WEB, {**BATCH, "gives": True}])
    assert "200 MiB on the fastest tier" in first
    assert "(at least 80 MiB if it has so much memory)" in first
    assert last == "Its memory goes down, even if it is hot, because web lacks some of its share."


def test_why_names_all_groups_that_another_one_waits_for() -> None:
    *_, last = groupview.sentences("batch", [WEB, {**WEB, "group": "pods"}, BATCH])
    assert last == "Nothing of it comes up, because web and pods lack some of their shares."


def test_why_says_where_its_memory_is_and_what_was_seen_to_move() -> None:
    tiers = [["memory_tier4", 40 * MIB], ["memory_tier22", 50 * MIB], ["memory_tier30", 10 * MIB]]
    told = {**WEB, "bytes_by_tier": tiers, "up_bytes_total": 7 * MIB, "down_bytes_total": 3 * MIB}
    _, second, _ = groupview.sentences("web", [told])
    assert "memory_tier4 40 MiB, memory_tier22 50 MiB, memory_tier30 10 MiB" in second
    assert "7 MiB of its memory came up to the fastest tier so far, and 3 MiB went down" in second
    assert "whoever moved it" in second


def test_why_says_where_memory_of_a_group_may_go() -> None:
    left = {**WEB, "moves": "none", "asks": False}
    assert groupview.sentences("web", [left])[-1].startswith("tierd leaves its memory where it is")
    assert groupview.state(left) == "left where it is"
    up = {**WEB, "moves": "up", "asks": False, "share_bytes": 40 * MIB}
    assert groupview.sentences("web", [up])[-1] == "Its memory never goes down (`moves: up`)."
    assert groupview.state(up) == "stays: it never goes down"


def test_a_group_that_the_daemon_does_not_know_is_said_to_be_new() -> None:
    assert "does not know yet" in groupview.sentences("new", [WEB])[0]
