"""Counters of memory traffic: read for each node, and what a node at its limit means."""

from dataclasses import replace

import pytest

from tests.fixtures import machines
from tests.fixtures.machines import TextSysfs
from tests.fixtures.readings import DOWN, LIMITS, MIB, UP, reading
from tierd.errors import TierdError
from tierd.machine import caches, discovery, resctrl, sample_reader
from tierd.machine.sample import Traffic
from tierd.tuner import demand
from tierd.tuner.demand import ControllerState
from tierd.tuner.measurement import _bandwidth_used
from tierd.tuner.round import SATURATED

ROOT = resctrl.FOLDER
MOUNTED = {
    f"{caches.CPUS}/cpu0/cache/index3/id": "0\n",
    f"{caches.CPUS}/cpu1/cache/index3/id": "1\n",
    f"{ROOT}/mon_data/mon_L3_00/mbm_local_bytes": "1000\n",
    f"{ROOT}/mon_data/mon_L3_01/mbm_local_bytes": "200\n",
    f"{ROOT}/mon_data/mon_L3_02/mbm_local_bytes": "7777\n",
    f"{ROOT}/databases/mon_data/mon_L3_00/mbm_local_bytes": "30\n",
    f"{ROOT}/databases/mon_groups/one/mon_data/mon_L3_00/mbm_local_bytes": "20\n",
    f"{ROOT}/info/L3_MON/num_rmids": "256\n",
}


def machine(**changed: str) -> TextSysfs:
    captured = machines.load("two-tier-7.2").sysfs
    return TextSysfs({**captured.files, **MOUNTED, **changed}, captured.folders)


def test_the_groups_are_added_up_for_the_caches_of_a_node() -> None:
    sysfs = machine()
    topology = discovery.survey(sysfs, None)
    assert [node.caches for node in topology.nodes] == [(0, 1), ()]
    # A monitoring group is counted in the group that it is in.
    assert resctrl.local_bytes(sysfs, (0, 1)) == 1230
    sample = sample_reader.read_sample(sysfs, topology, {}, 1.0)
    assert sample.node(0).traffic == Traffic(1230, 50_000 * 10**6)
    assert sample.node(1).traffic is None


def test_a_machine_that_does_not_count_has_no_figure() -> None:
    sysfs = machines.load("two-tier-7.2").sysfs
    topology = discovery.survey(sysfs, None)
    assert not resctrl.is_there(sysfs)
    assert topology.node(0).caches == ()
    assert sample_reader.read_sample(sysfs, topology, {}, 1.0).node(0).traffic is None


@pytest.mark.parametrize("word", ["Unavailable", "Unassigned", "Error"])
def test_a_counter_without_a_value_is_no_zero(word: str) -> None:
    path = f"{ROOT}/databases/mon_data/mon_L3_00/mbm_local_bytes"
    assert resctrl.local_bytes(machine(**{path: f"{word}\n"}), (0, 1)) is None
    with pytest.raises(TierdError, match="expected a number"):
        resctrl.local_bytes(machine(**{path: "lots\n"}), (0, 1))


def test_the_share_is_that_of_the_time_between_two_samples() -> None:
    sysfs = machine()
    topology = discovery.survey(sysfs, None)
    before = sample_reader.read_sample(sysfs, topology, {}, 1.0).node(0)
    after = replace(before, traffic=Traffic(1230 + 80 * 10**9, 50_000 * 10**6))
    assert _bandwidth_used(before, after, 2.0) == pytest.approx(0.8)
    # A group that was removed takes its counts with it.
    assert _bandwidth_used(after, before, 2.0) == 0.0
    assert _bandwidth_used(before, replace(after, traffic=None), 2.0) == 0.0


@pytest.mark.parametrize(("used", "parks"), [(SATURATED - 0.01, False), (SATURATED, True)])
def test_a_node_at_its_limit_gets_nothing_more(used: float, *, parks: bool) -> None:
    seen = reading(hot=200 * MIB, free=100 * MIB)
    nodes = {**seen.nodes, 0: replace(seen.nodes[0], bandwidth_used=used)}
    _, decision = demand.decide(ControllerState(), replace(seen, nodes=nodes), LIMITS)
    want = decision.wants[UP.id]
    assert (want.bytes_per_s == 0.0) is parks
    assert ("of the bandwidth of node 0 is in use" in want.reason) is parks
    # Room is kept as ever.
    assert DOWN.id in decision.wants
