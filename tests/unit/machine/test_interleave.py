"""Weights of weighted interleave: read, computed by bandwidth, shown, set and put back."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sim.loop import Disk, Loop, Script
from tierd.configuration.config import Config
from tierd.errors import TierdError
from tierd.kdamonds import saved
from tierd.kdamonds.saved import SavedKnob, SavedState
from tierd.machine import discovery, interleave
from tierd.machine.interleave import FOLDER, Interleave, weights_for
from tierd.planning import plan_here
from tierd.sim import machine_model
from tierd.sim.sim_kernel import SimKernel
from tierd.views import weights as view

AUTO = f"{FOLDER}/auto"

SET = Config(manage_interleave_weights=True)


def kernel(series: str = "7.3", machine: str = "two-tier") -> SimKernel:
    return SimKernel(series, machine_model.load(machine), block_pages=512)


def found(machine: SimKernel) -> dict[str, str]:
    return {name: machine.read(f"{FOLDER}/{name}") for name in machine.listdir(FOLDER)}


def test_the_kernels_weights_are_read() -> None:
    assert interleave.read(kernel()) == Interleave({0: 26, 1: 5}, auto=True, switch=AUTO)
    assert interleave.read(kernel("6.12")) == Interleave({0: 1, 1: 1}, auto=None)


def test_a_kernel_without_weights_is_told_apart() -> None:
    class Old:
        def exists(self, path: str) -> bool:
            assert path == FOLDER
            return False

    assert interleave.read(Old()) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "text"), [("auto", "maybe"), ("node0", "many"), ("node0", "256")])
def test_what_is_no_weight_is_an_error(name: str, text: str) -> None:
    class Garbled:
        def exists(self, path: str) -> bool:  # noqa: ARG002
            return True

        def listdir(self, path: str) -> tuple[str, ...]:  # noqa: ARG002
            return (name,)

        def read(self, path: str) -> str:  # noqa: ARG002
            return text

    with pytest.raises(TierdError, match=text):
        interleave.read(Garbled())  # type: ignore[arg-type]


def test_the_law_is_the_kernels() -> None:
    """The simulated kernel computes weights by itself, as a real one does (tests/contract)."""
    for name in ("two-tier", "three-tier", "two-socket", "cover-letter"):
        machine = kernel(machine=name)
        topology = discovery.survey(machine, None)
        known = interleave.read(machine)
        assert known is not None
        assert interleave.proposed(topology) == known.weights


def test_without_figures_nothing_is_proposed() -> None:
    machine = kernel(machine="one-tier")
    topology = discovery.survey(machine, None)
    assert interleave.proposed(topology) is None
    weights = interleave.read(machine)
    assert weights is not None
    assert view.as_lines(topology, weights)[1].endswith("does not tell it for every node")
    assert "`tierd doctor --measure`" in view.as_lines(topology, weights)[2]
    # There is nothing to measure where one node is all.
    alone = replace(topology, nodes=topology.nodes[:1])
    assert len(view.as_lines(alone, weights)) == 1
    assert view.as_document(topology, weights)["by_bandwidth"] is None


def test_bandwidths_that_were_measured_replace_what_firmware_tells() -> None:
    set_ = ((0, 40 * 10**9), (1, 20 * 10**9))
    for name in ("one-tier", "two-tier"):
        topology = discovery.survey(kernel(machine=name), None, set_)
        assert interleave.proposed(topology) == {0: 21, 1: 10}
    only_one = discovery.survey(kernel(machine="one-tier"), None, set_[:1])
    assert interleave.proposed(only_one) is None


def test_weights_by_measured_bandwidths_are_planned() -> None:
    config = replace(SET, tiers=((0,), (1,)), bandwidths=((0, 40 * 10**9), (1, 20 * 10**9)))
    plan = plan_here(kernel(machine="one-tier"), config)
    planned = {knob.id: knob.value for knob in plan.knobs}
    assert (planned["interleave-0"], planned["interleave-1"]) == ("21", "10")


BANDWIDTHS = st.dictionaries(st.integers(0, 9), st.integers(1, 10**6), min_size=1)


@given(BANDWIDTHS)
def test_weights_are_small_and_ordered_as_the_bandwidths(bandwidths: Mapping[int, int]) -> None:
    made = weights_for(bandwidths)
    assert made.keys() == bandwidths.keys()
    assert all(1 <= weight <= interleave.WEIGHTINESS for weight in made.values())
    for one, mine in bandwidths.items():
        for other, theirs in bandwidths.items():
            assert mine < theirs or made[one] >= made[other]


def test_both_are_shown() -> None:
    machine = kernel("6.12")
    topology = discovery.survey(machine, None)
    weights = interleave.read(machine)
    assert weights is not None
    lines = view.as_lines(topology, weights)
    assert lines[0] == "weighted interleave: node0 1, node1 1"
    assert lines[1] == "  by bandwidth: node0 26, node1 5"
    assert "interleave_weights: set" in lines[2]
    assert view.as_document(topology, weights) == {
        "auto": None,
        "weights": {"0": 1, "1": 1},
        "by_bandwidth": {"0": 26, "1": 5},
    }


def test_nothing_is_set_unless_it_is_asked_for() -> None:
    paths = {knob.path for knob in plan_here(kernel(), Config()).knobs}
    assert not any(path.startswith(FOLDER) for path in paths)


def test_the_switch_has_another_name_in_6_18() -> None:
    known = interleave.read(kernel("6.18"))
    assert known is not None
    assert (known.auto, known.switch) == (True, f"{FOLDER}/__auto_type")


@pytest.mark.parametrize("series", ["6.12", "6.18", "7.3"])
def test_weights_are_set_while_tierd_runs_and_put_back_at_the_end(series: str) -> None:
    machine = kernel(series)
    before = found(machine)
    made = Loop(machine, Script(machine), Disk(), replace(SET, cost_bp=0))
    meanwhile: list[dict[str, str]] = []
    made.do(3.0, lambda: meanwhile.append(found(machine)))
    made.run(5.0)
    assert meanwhile[0]["node0"] == "26"
    assert meanwhile[0]["node1"] == "5"
    assert "true" not in meanwhile[0].values()
    assert found(machine) == before


def test_weights_that_somebody_changed_meanwhile_are_left() -> None:
    machine = kernel("6.12")
    made = Loop(machine, Script(machine), Disk(), replace(SET, cost_bp=0))
    made.do(3.0, lambda: machine.write(f"{FOLDER}/node0", "77"))
    made.run(5.0)
    assert found(machine) == {"node0": "77", "node1": "1"}


def test_saved_weights_are_read_back_and_other_paths_are_refused() -> None:
    knobs = (SavedKnob(AUTO, "true", "false"), SavedKnob(f"{FOLDER}/node12", "1", "5"))
    state = SavedState("boot", (), knobs=knobs)
    assert saved.from_text(saved.to_text(state)).knobs == knobs
    bad = saved.to_text(state).replace("node12", "node1/../../x")
    with pytest.raises(TierdError, match="not a setting that tierd changes"):
        saved.from_text(bad)
