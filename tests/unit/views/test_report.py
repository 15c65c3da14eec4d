"""`tierd report` in words and as a page."""

import re

from tests.fixtures.answers import REPORT
from tierd.views import report


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


def test_hostile_words_do_nothing_in_the_page() -> None:
    evil = report.Report("<script>alert(1)</script>", "one", (), ())
    assert "<script" not in report.as_page(evil)
