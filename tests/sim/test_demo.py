"""The machine of `make run`: each act asks tierd for something else, and tierd masters it."""

import pytest

from tests.sim.loop import Disk, Loop, Script
from tierd.configuration.config import Config
from tierd.sim import demo
from tierd.views.scene import Chapter, told

# The first act of the second round is played too: it has to collect what was scattered.
LASTS_S = demo.ROUND_S + demo.ACTS[0].lasts_s - 1


@pytest.fixture(scope="module")
def chapters() -> tuple[Chapter, ...]:
    """Return what came of each act, with a look at every second."""
    machine = demo.demo("two-tier")
    loop = Loop(machine.kernel, Script(machine.kernel), Disk(), Config())
    found: tuple[Chapter, ...] = ()

    def look() -> None:
        nonlocal found
        found = told(found, machine.scene(), machine.kernel.now_us / 1e6)

    for second in range(1, LASTS_S):
        loop.script.at(float(second), look)
    loop.run(LASTS_S)
    return found


def test_every_act_is_played_in_turn(chapters: tuple[Chapter, ...]) -> None:
    assert [(one.round, one.act) for one in chapters] == [
        *((1, act) for act in demo.ACTS),
        (2, demo.ACTS[0]),
    ]


def test_heat_comes_from_where_the_act_says(chapters: tuple[Chapter, ...]) -> None:
    for one in chapters:
        match one.act.name:
            case "one piece" | "jump":
                assert one.share_first is not None
                assert one.share_first < 0.1
            case "scatter":
                assert one.share_first is not None
                assert 0.3 < one.share_first < 0.8
            case "idle":
                assert one.share_first is None
            case _:
                assert one.share_first is not None


def test_tierd_masters_every_act(chapters: tuple[Chapter, ...]) -> None:
    for one in chapters:
        if one.act.name != "idle":
            assert one.mastered_s is not None, one
            assert one.mastered_s <= one.act.lasts_s / 2, one
            assert one.share_last is not None
            assert one.share_last > 0.95, one


@pytest.mark.parametrize("name", ["three-tier", "two-socket"])
def test_it_can_be_played_on_other_machines(name: str) -> None:
    machine = demo.demo(name)
    scenes = []
    for act in demo.ACTS:
        scenes.append(machine.scene())
        machine.kernel.advance(act.lasts_s)
    assert {one.act for one in scenes} == set(demo.ACTS)
