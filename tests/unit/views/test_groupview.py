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


def test_a_group_that_the_daemon_does_not_know_is_said_to_be_new() -> None:
    assert "does not know yet" in groupview.sentences("new", [WEB])[0]
