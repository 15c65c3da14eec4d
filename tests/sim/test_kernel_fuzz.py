"""The simulated kernel answers every write with success or an errno, and equal writes equally."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.answers.questions import COMMANDS, VALUES, WORDS, Asked, stage
from tests.sim.staged_kernel import build
from tierd.sim.file_tree import Oops
from tierd.sim.kernel_series import SERIES
from tierd.sim.sim_kernel import DAMON, SimClock, SimKernel

# Large times are not tried, because the next command would wait for years.
TIMES = ("interval", "watermarks")
# Writes that would only delete everything.
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
    """Return the answer to each step; each step chooses one of the existing files."""
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
            # Some kernels crash at this command and cannot be used any more.
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
    """A number of objects that is small enough for a test."""
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
