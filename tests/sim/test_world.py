"""Worlds by seed: minutes in each run, hours in a thorough run, and other seeds in rotation."""

import pytest

from tests.sim.happenings import HAPPENINGS
from tests.sim.loop import Disk
from tests.sim.world import Broken, World, play
from tierd.record.scheme_totals import Totals
from tierd.record.snapshot import State


@pytest.mark.parametrize("seed", [0, 1, 2, 5])
def test_a_short_world(seed: int) -> None:
    assert play(seed, 0.03).rounds > 10


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [0, 4, 5])
def test_a_world_of_an_hour(seed: int) -> None:
    """One of each series, on both machines."""
    made = play(seed, 1.0)
    kinds = {name for name, _ in HAPPENINGS}
    assert kinds <= {text.split(": ")[1] for text in made.happened}
    assert made.states[State.active] > sum(made.states.values()) / 2


@pytest.mark.thorough
@pytest.mark.rare
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(6, 12))
def test_a_world_of_hours(seed: int) -> None:
    assert play(seed, 2.0).rounds > 500


def test_a_failure_says_how_it_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(_disk: Disk) -> Totals:
        raise Broken("for the test")

    monkeypatch.setattr(Disk, "counters", lost)
    with pytest.raises(Broken) as broken:
        play(1, 0.01)
    assert "python -m tests.sim.world 1 0.01" in broken.value.__notes__[0]


def test_a_world_is_the_same_each_time() -> None:
    first, second = play(2, 0.01), play(2, 0.01)
    assert (first.rounds, first.happened) == (second.rounds, second.happened)
    assert isinstance(first, World)
