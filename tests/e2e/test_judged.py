"""The checks of the tests in guests: absent pages and figures do not pass."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from bench import cells
from bench.configuration import CAP_BYTES_PER_S
from bench.figures import Figures, figures
from tests.contract.sets import PAGE
from tests.e2e import ahead, moves, shared, swapped

UPS = [(1, 0), (2, 1)]
PAGES = moves.HOT_BYTES // PAGE


def placed(first: dict[int, int], second: dict[int, int]) -> Mapping[str, Mapping[int, int]]:
    return {"hot-1-0": first, "hot-2-1": second}


def test_a_set_has_arrived_on_its_target_or_on_what_is_faster_still() -> None:
    assert moves.arrived(UPS, placed({0: PAGES}, {0: PAGES // 2, 1: PAGES // 2}))


def test_a_few_pages_may_lag() -> None:
    few = PAGES // 20
    assert moves.arrived(UPS, placed({0: PAGES - few, 1: few}, {1: PAGES - few, 2: few}))


def test_what_has_left_downwards_has_not_arrived() -> None:
    fifth = PAGES // 5
    assert not moves.arrived(UPS, placed({0: PAGES - fifth, 2: fifth}, {1: PAGES}))


def test_what_is_below_has_not_arrived() -> None:
    assert not moves.arrived(UPS, placed({0: PAGES}, {2: PAGES}))


HOT_BYTES = 98_566_144


def published(configuration: str, *names: str) -> dict[str, Figures]:
    """Return the figures of a published trial on 7.2."""
    kept = {cell.key: cell for cell in cells.load(cells.FOLDER)}
    return {name: figures(kept[cells.Key("7.2", configuration, name, 1)].seen) for name in names}


@pytest.fixture(scope="module")
def own() -> dict[str, Figures]:
    return published("demand", "static", "shift-1", "shift-2", "shift-3")


@pytest.fixture(scope="module")
def native() -> Figures:
    return published("damo", "static")["static"]


def judged(own: Mapping[str, Figures], native: Figures) -> list[str]:
    return ahead.problems(own, native, HOT_BYTES, CAP_BYTES_PER_S)


def test_what_was_published_passes(own: dict[str, Figures], native: Figures) -> None:
    assert judged(own, native) == []


def test_where_nothing_arrives_nothing_passes(own: dict[str, Figures], native: Figures) -> None:
    still = {
        name: replace(
            found, residency_end=0.0, residency_mean=0.0, promoted_bytes=0,
            promoted_per_hot_byte=None, first_second_bytes=None,
        )
        for name, found in own.items()
    }  # fmt: skip
    said = judged(still, replace(native, residency_mean=0.0, residency_end=0.0))
    assert len(said) == 2 + 2 * len(own)


@pytest.mark.parametrize(
    ("name", "changed", "words"),
    [
        ("static", {"residency_mean": 0.0}, "not ahead"),
        ("static", {"first_second_bytes": HOT_BYTES}, "in the first second"),
        ("shift-2", {"residency_end": 0.2}, "shift-2: 20% of the accesses"),
        ("shift-3", {"promoted_bytes": 4096}, "shift-3: only 4096 bytes arrived"),
        ("shift-1", {"promoted_bytes": 3 * HOT_BYTES}, "shift-1: "),
    ],
)
def test_each_defect_is_told(
    own: dict[str, Figures],
    native: Figures,
    name: str,
    changed: dict[str, float],
    words: str,
) -> None:
    worse = {**own, name: replace(own[name], **changed)}  # type: ignore[arg-type]
    (said,) = judged(worse, native)
    assert words in said


def test_an_exchange_on_a_full_machine_that_takes_much_longer_is_too_slow() -> None:
    room = [2.1, 4.1, 6.2, 0.5, 13.7, 4.0, 5.0]
    assert swapped.slowdown({"roomy_s": room, "full_s": room}) == 1.0
    late = {"roomy_s": room, "full_s": [4 * one for one in room]}
    assert swapped.slowdown(late) > swapped.SLOWER_MAX
    # One set that waits for the host says nothing.
    one = {"roomy_s": room, "full_s": [*room[:-1], 120.0]}
    assert swapped.slowdown(one) <= swapped.SLOWER_MAX


def test_two_percent_swapped_out_is_too_much() -> None:
    before = {"pswpout": 5, "demoted": 1000}
    assert swapped.swapped_share(before, {"pswpout": 5, "demoted": 2000}) == 0
    share = swapped.swapped_share(before, {"pswpout": 25, "demoted": 2000})
    assert share > swapped.SWAPPED_SHARE_MAX


def test_most_cgroups_may_wait_longer_and_the_quickest_quarter_may_not() -> None:
    busy = [*[1.2] * 60, *[5.0] * 90]
    assert shared.waited_s({"waited": busy, "churn_s": 60.0}) <= shared.FILTER_S
    slow = [*[1.2] * 40, *[5.0] * 90]
    assert shared.waited_s({"waited": slow, "churn_s": 60.0}) > shared.FILTER_S
    assert shared.waited_s({"waited": [0.3] * 40, "churn_s": 60.0}) > shared.FILTER_S
    # The guest itself took three times as long for everything.
    assert shared.waited_s({"waited": slow, "churn_s": 180.0}) <= shared.FILTER_S
