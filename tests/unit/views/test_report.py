"""`tierd report` in words and as a page."""

import re
from dataclasses import replace

import pytest

from tests.fixtures.answers import REPORT, turn
from tierd.report.compare import SERVED, Arm, Better, Difference, Measure, Slice
from tierd.views import report

OWN = Measure("application", "latency", "", Better.less)


def test_the_words_have_a_row_for_each_measure_with_its_verdict() -> None:
    said = report.as_text(REPORT, 80)
    rows = {line.partition(",")[0].partition("  ")[0]: line for line in said.splitlines()}
    assert re.search(r"71\.00 +92\.50 +\+21\.50 \(\+19\.70 to \+23\.30\)  better", said)
    assert "no difference" in rows["time under memory pressure (PSI)"]
    assert "not measured" in rows["major faults"]
    assert "Student's t" in said


def test_the_page_fetches_nothing_and_has_a_chart_for_what_was_measured() -> None:
    page = report.as_page(REPORT)
    assert page.startswith("<!DOCTYPE html>")
    assert not re.search(r"(?:src|href|url)\s*[=(]|@import|<script", page)
    assert page.count("<svg") == 3
    assert page.count('<rect class="off"') == page.count('<rect class="on"') == 9
    assert '<td class="better">better</td>' in page


def test_a_slice_without_a_value_is_not_one_with_zero() -> None:
    slices = (Slice(Arm.off, 1.0, {}), Slice(Arm.off, 1.0, {"served": 0.0}), *REPORT.slices[1:2])
    page = report.as_page(replace(REPORT, slices=slices, differences=REPORT.differences[1:2]))
    assert "<span>off ?</span>\n<span>off</span>\n<span>on</span>" in page
    assert re.findall(r'height="([0-9.]+)"', page) == ["1.0", "100.0"]


@pytest.mark.parametrize(
    ("method", "heads", "counted"),
    [
        ("turns", ("off", "on"), "3 slices off and 3 on"),
        ("before-after", ("before", "after"), "3 slices before and 3 after"),
        ("one", ("before", "now"), "3 slices"),
    ],
)
def test_what_is_compared_is_called_by_its_name(
    method: str, heads: tuple[str, str], counted: str
) -> None:
    kept = (
        REPORT.slices
        if method != "one"
        else tuple(one for one in REPORT.slices if one.arm is Arm.on)
    )
    about = report.about(kept, "a machine", method)
    assert about.startswith(f"a machine: {counted}, ")
    shown = replace(REPORT, method=method)
    assert report.as_text(shown, 80).splitlines()[2].split()[:2] == list(heads)
    assert "".join(f'<th scope="col">{head}</th>' for head in heads) in report.as_page(shown)


def test_hostile_words_do_nothing_in_the_page() -> None:
    evil = report.Report("<script>alert(1)</script>", "one", (), ())
    assert "<script" not in report.as_page(evil)


@pytest.mark.parametrize(
    ("measure", "on", "shown"),
    [
        (OWN, 1250.0, "1250.00"),
        (OWN, 1.0, "1.00"),
        (OWN, 0.05, "0.0500"),
        (OWN, 0.0004213, "0.000421"),
        (OWN, -0.0004213, "-0.000421"),
        (OWN, 1e-30, "0.000000000"),
        (OWN, 0.0, "0.00"),
        # A difference of less than a point matters to nobody.
        (SERVED, 0.0004213, "0.00"),
    ],
)
def test_a_small_figure_of_an_application_keeps_three_digits(
    measure: Measure, on: float, shown: str
) -> None:
    one = Difference(measure, 0.0, on, on, abs(on), 10)
    said = report.as_text(report.Report("", "before-after", (), (one,)), 80)
    assert re.search(rf" {re.escape(shown)} +[+-]{shown.lstrip('-')} \(", said)


def test_what_is_below_zero_has_no_bar() -> None:
    """A bar of negative height is an error in SVG."""
    slices = (turn(Arm.off, 1.0, -5.0), turn(Arm.on, 1.0, 5.0))
    below = report.Report("", "before-after", slices, (Difference(OWN, -5.0, 5.0, 10.0, 0.0, 1),))
    page = report.as_page(below)
    assert page.count("<rect") == 1
    assert 'height="-' not in page
    never = report.Report("", "one", slices[:1], below.differences)
    assert "<svg" not in report.as_page(never)
