"""A day of record that code has made: its size, and into how many trials it is digested."""

import os
from collections.abc import Sequence

import pytest

from bench import day
from tierd.configuration.config import Config
from tierd.console import simulate
from tierd.console.simulate import TRIES, Question
from tierd.profile import curve, from_profile, profile
from tierd.profile.load import Load, Work
from tierd.profile.panel import LOOKS
from tierd.sim import forecast, trial
from tierd.sim.trial import Seen, Size
from tierd.views.forecast import Costs

pytestmark = pytest.mark.thorough

# docs/simulate.md says 214 KB. Programs are scattered, and differ from minute to minute.
DAY_BYTES_MAX = 220_000
# With no two minutes alike it would be as much as this.
LINE_BYTES_MIN = 200

TARGET = 0.9


@pytest.fixture(scope="module")
def text() -> str:
    return day.recorded(1)


@pytest.fixture(scope="module")
def work(text: str) -> Work:
    return from_profile.work(profile.parse("day.jsonl", text), "day.jsonl")


def test_the_same_seed_makes_the_same_minutes() -> None:
    one = day.recorded(1, minutes=60)
    assert one == day.recorded(1, minutes=60)
    assert one != day.recorded(2, minutes=60)


def test_it_has_each_minute_of_a_day_once(text: str) -> None:
    found = profile.parse("day.jsonl", text)
    ends = [line.minute + line.minutes for line in found.lines]
    assert [line.minute for line in found.lines] == [0, *ends[:-1]]
    assert ends[-1] == found.minutes == day.MINUTES
    # There was a closer look at the end of each panel. A line may have the end of one panel only.
    assert day.MINUTES / 20 < sum(bool(line.close) for line in found.lines) <= day.MINUTES / LOOKS


def test_minutes_that_are_alike_share_a_line(text: str) -> None:
    assert len(text) < DAY_BYTES_MAX < day.MINUTES * LINE_BYTES_MIN


def test_what_the_recorder_saw_is_what_was_there(work: Work) -> None:
    programs = sum(one.bytes for one in day.PROGRAMS)
    assert work.minutes == day.MINUTES
    assert work.bytes == pytest.approx(programs, rel=0.05)
    # The services and the store have nearly all touches, and the nightly job and page cache none.
    by_day = work.stretches[-1].load
    assert by_day.needed_bytes(0.99) < day.STORE.bytes + day.SERVICES.bytes
    assert by_day.needed_bytes(0.5) < day.SERVICES.bytes


@pytest.mark.parametrize(
    ("fast_bytes", "target", "sizes"),
    [(64 * day.GIB, None, 1), (None, None, 3), (None, TARGET, 3 + TRIES)],
    ids=["one machine", "the curve", "the least for a target"],
)
def test_a_day_is_digested_into_few_loads_and_trials(
    work: Work,
    monkeypatch: pytest.MonkeyPatch,
    fast_bytes: int | None,
    target: float | None,
    sizes: int,
) -> None:
    """How long that takes is in docs/simulate.md. Here trials are counted, which take that time."""
    made: list[tuple[Size, int, int]] = []

    def run(
        size: Size, loads: Sequence[Load], _config: Config, seed: int, _minutes: object
    ) -> tuple[Seen, ...]:
        made.append((size, seed, len(loads)))
        # Trials differ, so that each size needs its third one.
        worse = 0.2 if seed == 1 else 0.0
        return tuple(
            Seen((load.best(curve.USABLE * size.fast_bytes) - worse,), 0.0) for load in loads
        )

    monkeypatch.setattr(trial, "run", run)
    # With one processor there is no other process, which would not count here.
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    question = Question(fast_bytes, None, target, Costs(100, 250))
    found = simulate.answer(work, question, Config())
    assert all(loads == len(work.stretches) <= len(from_profile.EDGES) for _, _, loads in made)
    assert len(made) == len(set(made))
    tried = {size for size, _, _ in made}
    assert 1 <= len(tried) <= sizes
    assert {seed for _, seed, _ in made} == {*forecast.SEEDS, forecast.SEED_MORE}
    assert len(made) == 3 * len(tried)
    assert sum(point.simulated for point in found.points) == len(tried)
