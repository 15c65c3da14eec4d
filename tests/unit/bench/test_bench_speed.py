"""The page of programs on slow memory: made from its cells, and honest about losses."""

from typing import Any

import pytest

from bench import speed
from bench.cells import Cell, Key
from tests.unit.bench.test_bench_quick import seen


def cells(settled: dict[str, tuple[int, ...]], **other: Any) -> list[Cell]:
    """Return a cell for each contender and trial, with these operations a second."""
    return [
        Cell(Key("7.2", name, "redis", number), seen(after=rate, **other))
        for name, rates in settled.items()
        for number, rate in enumerate(rates, start=1)
    ]


def row(text: str, *begin: str) -> list[str]:
    """Return the cells of the first row of a table that begins so."""
    start = "| " + " | ".join(begin) + " |"
    line = next(line for line in text.splitlines() if line.startswith(start))
    return [word.strip() for word in line.strip("|").split("|")]


def test_a_loss_is_told_before_anything_else() -> None:
    found = cells({"none": (1000,) * 3, "numab2": (1200,) * 3, "tierd": (1100,) * 3})
    text = speed.page(found)
    head = text[: text.index("## Figures")]
    assert row(head, "redis", "7.2", "`none`")[3:] == [
        "1.10 (1.10 to 1.10)", "1.10 (1.10 to 1.10)", "tierd wins"
    ]  # fmt: skip
    assert row(head, "redis", "7.2", "`numab2`")[-1] == (
        "**tierd loses** in the first half minute and settled"
    )
    assert "tierd loses in: redis on 7.2 against `numab2`." in head


@pytest.mark.parametrize(
    ("early", "late", "waited", "verdict"),
    [
        ([1.0, 1.0, 1.0], [1.05, 1.1, 0.9], 0.0, "tierd wins"),
        ([1.0, 1.0, 1.0], [1.05, 1.1, 0.9], 0.3, "the host was too busy"),
        ([1.0, 1.0, 1.0], [0.99, 1.0, 1.01], 0.2, "alike"),
        ([0.9, 0.9, 0.9], [1.2, 1.2, 1.2], 0.0, "**tierd loses** in the first half minute"),
        ([1.0, 1.0, 1.0], [0.9, 0.97, 1.2], 0.0, "**tierd loses** settled"),
        ([1.2, 1.2], [1.2, 1.2], 0.0, "fewer than 3 trials"),
    ],
)
def test_verdicts(early: list[float], late: list[float], waited: float, verdict: str) -> None:
    assert speed.verdict(early, late, waited) == verdict


def test_figures_are_of_pairs_in_the_same_boot() -> None:
    found = cells({"none": (500, 1000), "tierd": (600, 1100), "all-fast": (1000, 2000)})
    text = speed.page(found)
    assert row(text, "`none`", "2")[3] == "0.50 (0.50 to 0.50)"
    assert "0 of 1 comparisons are decided." in text
    # Two trials have two middle values.
    assert row(text, "`tierd`", "2")[3] == "0.55 / 0.60 (0.55 to 0.60)"


def test_the_page_says_the_loads_and_lengths_of_its_cells() -> None:
    calm, busy = (
        {"date": "d", "load": load, "host": "h", "commit": "c"} for load in ("0.5", "3.5")
    )
    found = [*cells({"none": (1000,)}, made=calm), *cells({"tierd": (1000,)}, made=busy)]
    text = speed.page(found)
    assert "h, load 0.5 to 3.5; commit c; d." in text
    assert "A turn is 25 s without the contender, then 100 s with it." in text


def test_caps_are_not_mixed() -> None:
    found = [*cells({"none": (1000,)}), *cells({"none": (1000,)}, cap=200_000_000)]
    assert [key[2] for key, _ in speed.comparisons(found)] == [20_000_000, 200_000_000]
    assert set(speed.pictures(found)) == {"redis-on-7.2-at-20.svg", "redis-on-7.2-at-200.svg"}


def test_the_page_that_is_kept_is_made_from_the_cells_that_are_kept() -> None:
    found = speed.kept()
    assert speed.PAGE.read_text() == speed.page(found), "python -m bench.speed"
    beside = speed.PAGE.parent / speed.PICTURES
    kept = {path.name: path.read_text() for path in beside.glob("*.svg")}
    assert kept == speed.pictures(found), "python -m bench.speed"


def test_trials_that_are_compared_are_of_one_host_and_one_commit() -> None:
    for key, one in speed.comparisons(speed.kept()):
        made = [cell.seen["made"] for cells in one.cells.values() for cell in cells]
        assert len({(about["host"], about["commit"]) for about in made}) == 1, key


def test_programs_beside_cold_memory_have_a_table_of_their_own() -> None:
    rates = {"none": (800,) * 3, "tierd": (950,) * 3, "all-fast": (1000,) * 3}
    pages = {"first": {"0": 1000, "1": 3000}, "last": {"0": 3990, "1": 10}, "up": 2990, "down": 0}
    found = [
        Cell(Key("7.2", name, "redis-beside-98", number), seen(after=rate, pages=pages))
        for name, rates in rates.items()
        for number, rate in enumerate(rates, start=1)
    ]
    text = speed.page([*found, *cells({"none": (1000,) * 3, "tierd": (1000,) * 3})])
    assert row(text, "7.2", "98%", "`tierd`", "3")[4:7] == [
        "75.0%", "0.2%", "1.05 (1.05 to 1.05)"
    ]  # fmt: skip
    assert row(text, "7.2", "98%", "`none`", "3")[6] == "1.25 (1.25 to 1.25)"
    head = text[: text.index("## Figures")]
    assert "redis-beside" not in head
    assert "redis" in head
