"""Whatever is written, the simulated kernel answers with an errno, and equal writes alike."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.answers.questions import COMMANDS, VALUES, WORDS, Asked, stage
from tests.sim.staged import build
from tierd.sim.kernel import DAMON, SimClock, SimKernel
from tierd.sim.profile import SERIES
from tierd.sim.tree import Oops

# Where a value is a time, a large one makes the next command wait for years: not tried.
TIMES = ("interval", "watermarks")
# What would only begin anew.
ROOTS = ("nr_kdamonds", "nr_contexts")
WAITS_S = (0.01, 0.3)

Step = tuple[int, str] | float

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just(-1), st.sampled_from(("on", "off", *COMMANDS))),
        st.tuples(st.integers(0, 10_000), st.sampled_from((*VALUES, *WORDS, "4096", "1048576"))),
        st.sampled_from(WAITS_S),
    ),
    min_size=20,
    max_size=80,
)


def play(kernel: SimKernel, steps: list[Step]) -> list[str]:
    """What each step is answered; a file is chosen among those there are."""
    asked = Asked(kernel, SimClock(kernel))
    stage(asked)
    seen = []
    for step in steps:
        if isinstance(step, float):
            kernel.advance(step)
            continue
        number, value = step
        path = "0/state" if number < 0 else chosen(kernel, number)
        try:
            seen.append(asked.write(f"{DAMON}/{path}", small(path, value)))
        except Oops as oops:
            # Some kernels die of this one; nothing can be asked of them any more.
            seen.append(str(oops))
            break
        seen.append(asked.read(f"{DAMON}/{path}"))
    return seen


def chosen(kernel: SimKernel, number: int) -> str:
    files = [
        path
        for path in kernel.files(DAMON)
        if path.rpartition("/")[2] not in ROOTS and not any(word in path for word in TIMES)
    ]
    return files[number % len(files)]


def small(path: str, value: str) -> str:
    """A number of objects that does not take the test all day."""
    counts = path.rpartition("/")[2].startswith("nr_")
    return str(len(value) % 4) if counts else value


@pytest.mark.parametrize("series", SERIES)
@settings(max_examples=50, deadline=None)
@given(steps=STEPS, seed=st.integers(0, 3))
def test_every_write_is_answered_and_always_the_same(
    series: str, steps: list[Step], seed: int
) -> None:
    first = play(build(series, seed, block_pages=256), steps)
    assert first == play(build(series, seed, block_pages=256), steps)
