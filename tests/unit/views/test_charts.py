"""The axis of a chart on the page."""

import re

import pytest

from tierd.views.charts import LABELS, Chart, Span, figure

CHART = Chart("moved", (), (), most=1.0, label=str)


def times(span: Span) -> list[str]:
    below = figure(CHART, span).split('<div class="times">')[1]
    return re.findall(r"<span>([^<]*)</span>", below)


@pytest.mark.parametrize(
    ("length_s", "first", "last"),
    [
        (30, "00:01:00", "00:01:30"),
        (300, "00:01:00", "00:06:00"),
        (3_600, "00:01", "01:01"),
        (86_400, "00:01", "00:01"),
    ],
)
def test_labels_tell_the_time_as_finely_as_they_lie(length_s: int, first: str, last: str) -> None:
    found = times(Span(60, 60 + length_s))
    assert len(found) == LABELS
    assert (found[0], found[-1]) == (first, last)
    assert len(set(found[:-1])) == LABELS - 1


def test_a_text_that_explains_no_line_has_no_colour() -> None:
    text = figure(Chart("moved", (("hot", "a"), ("", "b")), (), most=1.0, label=str), Span(0, 60))
    assert '<span class="key hot">a</span><span>b</span>' in text
