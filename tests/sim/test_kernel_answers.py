"""The simulated kernel answers thousands of operations as the real one of its series did."""

import json

import pytest

from tests.sim.answers.table import AREAS, ask, recorded
from tierd.sim.kernel_series import SERIES
from tierd.sim.machine_model import load
from tierd.sim.sim_kernel import SimClock, SimKernel

# The words and values that each file takes, and the other areas.
QUESTIONS_MIN = 250


@pytest.mark.parametrize("area", AREAS)
@pytest.mark.parametrize("series", SERIES)
def test_the_answers_are_those_of_the_real_kernel(series: str, area: str) -> None:
    kernel = SimKernel(series, load("two-tier"), block_pages=64)
    seen = json.loads(json.dumps(ask(kernel, SimClock(kernel), area)))
    wanted = recorded(series)[area]
    assert seen.keys() == wanted.keys()
    different = {
        question: (seen[question], wanted[question])
        for question in seen
        if seen[question] != wanted[question]
    }
    assert not different


@pytest.mark.parametrize("series", SERIES)
def test_much_was_asked(series: str) -> None:
    assert sum(map(len, recorded(series).values())) >= QUESTIONS_MIN
