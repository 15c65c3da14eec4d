"""The least size for a target is right if a tenth less is too little and a tenth more is enough."""

from dataclasses import replace

import pytest

from bench import least, prediction_page
from bench.least import Least
from tierd.configuration.config import Config
from tierd.console import simulate
from tierd.console.simulate import Question
from tierd.profile.load import Heat, Load, Stretch, Work
from tierd.views.forecast import Answer

MADE = {"commit": "c0ffee", "date": "2026-01-02", "host": "h", "load": "1"}
CELL = Least("hot", 1, 0.9, 400, 300, smaller=0.85, there=0.89, larger=0.93, made=MADE)


@pytest.mark.parametrize(
    ("smaller", "larger", "verdict"),
    [
        (0.85, 0.93, "right"),
        (0.85, 0.90, "right"),
        (0.90, 0.93, "too large"),
        (0.85, 0.89, "too small"),
        (None, None, "no size was named"),
    ],
)
def test_a_verdict(smaller: float | None, larger: float | None, verdict: str) -> None:
    assert replace(CELL, smaller=smaller, larger=larger).verdict == verdict


def test_every_size_has_its_row_with_what_was_served_around_it() -> None:
    none = Least("hot", 1, 0.95, None, 500, made=MADE)
    lines = prediction_page.least_table([CELL, none])
    assert lines[2].endswith("| 1 | 90% | 400 MiB | 85.0% | 89.0% | 93.0% | right |")
    assert lines[3] == "|  | 1 | 95% | none | - | - | - | no size was named |"
    assert lines[-1].startswith("Within 10 %: 1 of 2 (50%). Kernel simulated 7.3; date 2026-01-02")


def test_the_size_that_is_tried_is_the_one_that_a_user_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No trial is run here; the tests of `tierd simulate` do that."""
    heats = (Heat(30.0, 200 << 20), Heat(0.0, 800 << 20))
    work = Work("a hot fifth", (Stretch(Load(heats, piece_bytes=4 << 20), 1.0),))
    asked: list[Question] = []

    def answer(work: Work, question: Question, _config: Config) -> Answer:
        asked.append(question)
        return Answer(work.about, 0, (), (), None, question.target, 225 << 20, question.costs)

    monkeypatch.setattr(simulate, "answer", answer)
    assert least.named(work, 0.9) == (225, 180)
    assert [(one.target, one.fast_bytes, one.slow_bytes) for one in asked] == [(0.9, None, None)]
