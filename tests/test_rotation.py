"""The rare tests take turns. None is forgotten, and no run is too long."""

import itertools

import pytest

from tests import rotation
from tests.conftest import NEXT_TURN
from tests.fixtures import inner_run
from tests.rotation import TURN_S_MAX, expected_s, following, group, turns

REAL = "tests/contract/test_contract.py::test_real"
MOVES = "tests/e2e/test_moves.py::test_it_moves_hot_up_and_cold_down_and_leaves_no_trace"
NAMES = (
    *(f"{REAL}[6.16-quota.{name}]" for name in ("consist", "bytes", "ms")),
    *(f"{REAL}[6.18-quota.{name}]" for name in ("consist", "bytes", "ms")),
    *(f"{MOVES}[{series}-two-tier]" for series in ("6.12", "6.16", "6.18", "7.3")),
    "tests/e2e/test_pressed.py::test_nothing_is_promoted_while_tasks_wait_for_memory",
    "tests/faults/test_apply.py::test_restore_after_a_kill_at_each_operation[stop, 7.3, killed]",
    "tests/sim/test_new.py::test_that_nobody_has_timed",
)
GROUPS = tuple(map(group, NAMES))


def test_tests_of_one_guest_go_together() -> None:
    assert set(GROUPS[:6]) == {f"{REAL}[6.16", f"{REAL}[6.18"}
    assert GROUPS[6:] == NAMES[6:]
    protected = "tests/e2e/test_protected.py"
    assert group(f"{protected}::test_none_of_it_is_reclaimed[7.2]") == f"{protected}[7.2]"
    assert expected_s(f"{protected}[7.2]") < rotation.UNKNOWN_S
    # Chromium is installed in one turn only.
    browser = "tests/unit/views/test_browser.py"
    assert {group(f"{browser}::{name}") for name in ("test_a", "test_b[390]")} == {browser}


def test_every_rare_test_has_its_turn_and_one_only() -> None:
    dealt = [name for turn in turns(GROUPS) for name in turn]
    assert sorted(dealt) == sorted(set(GROUPS))


def test_no_turn_is_longer_than_the_bound() -> None:
    dealt = turns(GROUPS)
    assert all(sum(map(expected_s, turn)) <= TURN_S_MAX for turn in dealt)
    # There are as few turns as possible: no two of them fit into one.
    sums = [sum(map(expected_s, turn)) for turn in dealt]
    assert all(one + other > TURN_S_MAX for one, other in itertools.combinations(sums, 2))


def test_what_is_longer_than_the_bound_has_a_turn_to_itself() -> None:
    assert len(turns(GROUPS, turn_s_max=0)) == len(set(GROUPS))


def test_the_turns_are_the_same_whatever_the_order_of_collection() -> None:
    assert turns(GROUPS) == turns(reversed(GROUPS))


@pytest.mark.parametrize("commit", [None, "0" * 40, "cafe" * 10, "f" * 40])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_so_many_runs_as_there_are_turns_make_all_of_them(commit: str | None, count: int) -> None:
    made: list[int] = []
    for _ in range(count):
        made.append(following(made[-1] if made else None, commit, count))
    assert sorted(made) == list(range(1, count + 1))


def test_machines_that_keep_nothing_begin_anywhere() -> None:
    assert {following(None, f"{number:08x}", 5) for number in range(10)} == {1, 2, 3, 4, 5}


def test_a_turn_of_a_time_when_there_were_more_is_followed_by_one_that_is() -> None:
    assert following(9, None, 5) in range(1, 6)


def test_the_summary_says_how_to_have_the_same_again() -> None:
    first, *rest = rotation.told(GROUPS[:2] + GROUPS[6:8], 2, 5)
    assert "turn 2 of 5" in first
    assert first.endswith("make test TURN=2")
    assert rest == ["  test_it_moves_hot_up_and_cold_down_and_leaves_no_trace: 2", "  test_real: 2"]


def test_a_run_makes_all_that_is_not_rare_and_one_turn(
    request: pytest.FixtureRequest, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner_run.prepare(request, pytester)
    pytester.makepyfile(
        "import pytest\ndef test_usual(): pass\n"
        "@pytest.mark.rare\n@pytest.mark.parametrize('which', range(4))\n"
        "def test_rare(which): pass\n"
    )
    monkeypatch.setenv("TIERD_VM_CACHE", str(pytester.path / "cache"))
    seen: list[str] = []
    for _ in range(4):
        result = pytester.runpytest_subprocess("--turn", NEXT_TURN, "-v", "-p", "no:cacheprovider")
        result.assert_outcomes(passed=2, deselected=3)
        result.stdout.fnmatch_lines(["*test_usual PASSED*", "rare tests, turn * of 4;*"])
        seen += [line for line in result.outlines if "test_rare[" in line and "PASSED" in line]
    assert len({line.split()[0] for line in seen}) == 4
