"""The page of predictions has what the cells have, and says how far off they are."""

from dataclasses import replace

import pytest

from bench import prediction, prediction_page, prediction_vm
from bench.prediction import Cell
from tierd.profile.curve import Guess, Point

MADE = {"commit": "c0ffee", "date": "2026-01-02", "host": "h", "load": "1"}
CELL = Cell("store", 1, 320, 0.40, 0.30, 0.49, "", best=0.75, truth=0.31, made=MADE)


def test_the_page_is_made_of_the_cells() -> None:
    """After another run: `python -m bench.prediction_page`."""
    page = prediction_page.PAGE.read_text()
    assert prediction_page.renewed(page, prediction_page.section(*prediction_page.read())) == page


def test_every_cell_has_its_row_with_what_is_wrong_with_it() -> None:
    wrong = replace(CELL, fast_mib=768, predicted=0.9, low=0.85, high=0.95, truth=0.6)
    lines = prediction_page.table([CELL, wrong])
    assert lines[2].endswith("| 1 | 320 MiB | 40.0% | 30% to 49% | 31.0% | 75.0% | 9.0 |")
    assert lines[3] == "|  | 1 | 768 MiB | 90.0% | 85% to 95%, outside | 60.0% | 75.0% | 30.0 |"
    assert lines[-1].startswith("Within 10 points: 1 of 2 (50%); the worst is 30.0 off; 1 of 2 ")


def test_a_table_says_where_and_how_often_it_was_made() -> None:
    other = replace(CELL, made={**MADE, "commit": "facade", "load": "12.5"})
    assert prediction_page.made([other, CELL]) == (
        "Kernel simulated 7.3; date 2026-01-02; commit c0ffee, facade; host h; load 1 to 12.5; "
        "n = 1 for each cell."
    )


@pytest.mark.parametrize(("off", "near"), [(0.1, 1), (0.11, 0)])
def test_ten_points_are_near(off: float, near: int) -> None:
    cell = replace(CELL, predicted=0.5, truth=round(0.5 + off, 2))
    assert prediction.summary([cell]).startswith(f"within 10 points: {near} of 1")


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="expected the lines"):
        prediction_page.renewed("no marks", "x")


def test_a_prediction_is_made_anew_only_for_the_cells_of_its_record() -> None:
    known = replace(CELL, workload=prediction_vm.WORKLOAD, kernel="7.2.12+deb13-cloud-amd64")
    assert prediction_vm.is_of(known, {"series": "7.2"})
    assert not prediction_vm.is_of(known, {"series": "6.12"})
    assert not prediction_vm.is_of(known, {"series": "7.2", "program": "redis"})


def test_a_new_prediction_keeps_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Point(1, 1, Guess(0.62, 0.5, 0.7), best=0.9, simulated=True)
    monkeypatch.setattr(prediction_vm, "forecast", lambda _recorded, _fast_mib: row)
    found = prediction_vm.again({"program": "redis"}, CELL)
    assert (found.predicted, found.low, found.high, found.best) == (0.62, 0.5, 0.7, 0.9)
    assert (found.truth, found.made) == (CELL.truth, CELL.made)
    # The workload itself knows what the best placement of a store would serve.
    assert prediction_vm.again({}, CELL).best == CELL.best
