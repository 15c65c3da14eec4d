"""`tierd doctor --measure`: what is taken, what is refused, and what the figures mean."""

import ctypes
import errno
import os
import re
from dataclasses import replace

import pytest

from tests.fixtures import machines, topologies
from tests.fixtures.machines import TextSysfs
from tests.unit.configuration.test_config import parse
from tierd.doctor import checkup, measure, speeds
from tierd.doctor.speeds import Speed
from tierd.errors import ExitCode, Unsupported
from tierd.machine import bound_memory, discovery, interleave
from tierd.machine.bound_memory import LINE_BYTES, bound
from tierd.machine.override import with_bandwidth
from tierd.machine.sample import Watermarks
from tierd.machine.sample_reader import watermarks
from tierd.sim import machine_model
from tierd.sim.sim_kernel import SimKernel
from tierd.topology import Topology

MIB = 1 << 20
ALL_CPUS = frozenset(range(8))


def machine(name: str = "two-tier-7.2") -> Topology:
    return discovery.survey(machines.load(name).sysfs, None)


# What is measured where.


def test_each_node_is_measured_from_the_nearest_processors() -> None:
    two = machine("two-socket-7.2")
    assert [two.nearest_cpus(node, ALL_CPUS) for node in two.nodes] == [
        (0,), (1,), (0,), (1,)
    ]  # fmt: skip
    # A container may have the other socket only.
    assert two.nearest_cpus(two.node(2), frozenset({1})) == (1,)
    assert two.nearest_cpus(two.node(2), frozenset()) == ()


def test_processors_of_a_node_without_memory_count() -> None:
    one = discovery.survey(topologies.load("12-listed-without-memory").sysfs(), None)
    assert one.nearest_cpus(one.node(2), frozenset({2, 3})) == (2, 3)


def marks(topology: Topology, high_bytes: int) -> tuple[Watermarks, ...]:
    known = watermarks(machines.load("two-tier-7.2").sysfs, topology)
    return tuple(replace(mark, high_bytes=high_bytes) for mark in known)


def test_a_node_without_room_is_refused() -> None:
    sysfs = machines.load("two-tier-7.2").sysfs
    topology = machine()
    found = measure.measure(sysfs, topology, marks(topology, 1 << 40), ALL_CPUS)
    assert [one.node for one in found] == [0, 1]
    assert all("no room" in one.refused for one in found)
    assert all(one.latency_ns is None for one in found)


def test_twice_of_what_it_takes_must_be_free() -> None:
    topology = machine()
    sysfs = machines.load("two-tier-7.2").sysfs
    folder = "sys/devices/system/cpu/cpu0/cache/index3"
    # Four times this cache is more than half of either node.
    cache = {f"{folder}/size": "131072K\n", f"{folder}/level": "3\n"}
    small = TextSysfs({**sysfs.files, **cache}, sysfs.folders)
    found = measure.measure(small, topology, marks(topology, 0), ALL_CPUS)
    assert all("no room: it takes 576 MiB, and 1.12 GiB must" in one.refused for one in found)


def test_without_a_processor_nothing_is_measured() -> None:
    topology = machine()
    found = measure.measure(
        machines.load("two-tier-7.2").sysfs, topology, marks(topology, 0), frozenset()
    )
    assert all("no processor" in one.refused for one in found)


def test_an_unknown_processor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "vax")
    topology = machine()
    found = measure.measure(
        SimKernel("7.3", machine_model.load("cover-letter")),
        topology,
        marks(topology, 0),
        frozenset(os.sched_getaffinity(0)),
    )
    assert all("cannot bind memory on vax" in one.refused for one in found)


# The memory.


def _here() -> int:
    """Return a node of this machine that this process may use; skip if there is none."""
    try:
        with bound(0, MIB) as memory:
            return memory.node
    except Unsupported as error:
        pytest.skip(f"this machine does not let us bind memory: {error}")


def test_a_chain_is_walked_line_by_line_in_its_order() -> None:
    node = _here()
    seen: list[int] = []

    def compare(_key: int, at: int) -> int:
        seen.append(at)
        return 1

    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(compare)

    order = [5, 2, 9, 0]
    with bound(node, MIB) as memory:
        chain = memory.chain(order)
        root = ctypes.c_void_p(chain.first)
        libc = bound_memory._libc()
        libc.tfind(b"b", ctypes.byref(root), ctypes.cast(callback, ctypes.c_void_p))
        assert [(at - memory.address) // LINE_BYTES for at in seen] == order
        # With the real comparison nothing is found, so every line is visited.
        found = libc.tfind(b"b", ctypes.byref(root), ctypes.cast(libc.strcmp, ctypes.c_void_p))
        assert found is None


def test_reading_touches_all_of_the_part() -> None:
    with bound(_here(), MIB) as memory:
        memory.read_s(0, MIB, threads=2, rounds=1)
        libc = bound_memory._libc()
        assert libc.memchr(memory.address, 1, MIB) is None
        memory.chain([3])
        assert libc.memchr(memory.address, ord("a"), MIB) is not None


def test_the_processors_are_as_before_afterwards() -> None:
    before = os.sched_getaffinity(0)
    with bound_memory.running_on([min(before)]):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before


def test_a_sandbox_may_forbid_to_choose_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_pid: int, _cpus: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    with (
        pytest.raises(Unsupported, match="sched_setaffinity: Operation not permitted"),
        bound_memory.running_on([0]),
    ):
        pass


# What is said.

FAST = Speed(0, (0, 1), 110.4, 48_000.0)
SLOW = Speed(1, (0, 1), 320.0, 9_500.0)


def test_the_table_has_both_figures() -> None:
    rows = speeds.as_rows((FAST, SLOW), machine())
    assert rows[1] == ("node0", "0-1", "110 ns (100)", "1.00", "48 GB/s (50)")
    assert rows[2] == ("node1", "0-1", "320 ns (300)", "2.90", "9.5 GB/s (10)")
    assert list(speeds.remarks((FAST, SLOW), machine())) == []


def test_a_refusal_is_said() -> None:
    found = (FAST, Speed(1, refused="no room"))
    assert speeds.as_rows(found, machine())[2] == ("node1", "-", "- ns (300)", "-", "- GB/s (10)")
    assert list(speeds.remarks(found, machine())) == ["node 1 was not measured: no room"]
    assert list(speeds.remarks((Speed(0, refused="x"),), machine())) == [
        "node 0 was not measured: x"
    ]


def test_firmware_that_is_far_off_is_named() -> None:
    (said,) = speeds.remarks((FAST, replace(SLOW, latency_ns=150.0)), machine())
    assert said == "node 1 answers 1.4 times as late as node 0; firmware says 3.0 times"


def test_tiers_that_do_not_fit_are_named() -> None:
    slow_first = (replace(FAST, latency_ns=400.0), replace(SLOW, latency_ns=100.0))
    said = list(speeds.remarks(slow_first, machine()))
    assert "node 1 is in a slower tier than node 0, but answers sooner" in said[0]


def test_one_tier_with_unequal_nodes_gets_a_configuration() -> None:
    two = machine()
    flat = replace(two, tiers=(replace(two.tiers[0], nodes=(0, 1)),))
    said = list(speeds.remarks((FAST, SLOW), flat))
    assert "`tiers: [[0], [1]]`" in said[0]
    equal = (FAST, replace(SLOW, latency_ns=120.0))
    assert not any("tiers" in one for one in speeds.remarks(equal, flat))


def silent(topology: Topology) -> Topology:
    """Return the machine with firmware that tells nothing."""
    nodes = tuple(replace(node, performance=None, cpu_performance=None) for node in topology.nodes)
    return replace(topology, nodes=nodes)


def test_bandwidths_that_firmware_does_not_tell_become_a_line_of_the_configuration() -> None:
    measured = (FAST, replace(SLOW, read_mbps=9_587.4))
    (said,) = speeds.remarks(measured, silent(machine()))
    assert said == (
        "firmware does not tell the bandwidth of node 0-1: to use what was measured (weights of "
        "weighted interleave: node0 26, node1 5), add this to the configuration: "
        "`bandwidths: {0: 48GB/s, 1: 9590MB/s}`"
    )
    # The line is a configuration, and its weights are those that were announced.
    (line,) = re.findall(r"`(bandwidths: .*)`", said)
    set_ = parse(line).config.bandwidths
    assert set_ == ((0, 48 * 10**9), (1, 9_590 * 10**6))
    topology = silent(machine())
    assert interleave.proposed(topology) is None
    nodes = tuple(with_bandwidth(node, dict(set_)) for node in topology.nodes)
    assert interleave.proposed(replace(topology, nodes=nodes)) == {0: 26, 1: 5}


@pytest.mark.parametrize("read_mbps", [None, 0.0])
def test_without_all_bandwidths_no_line_is_proposed(read_mbps: float | None) -> None:
    measured = (FAST, replace(SLOW, read_mbps=read_mbps))
    assert not any("bandwidths:" in said for said in speeds.remarks(measured, silent(machine())))


def test_a_bandwidth_that_is_far_from_firmwares_is_named() -> None:
    (said,) = speeds.remarks((FAST, replace(SLOW, read_mbps=20_000.0)), machine())
    assert said.startswith(
        "the bandwidth of node 1, compared with that of node 0, is not what firmware says"
    )
    assert "`bandwidths: {0: 48GB/s, 1: 20GB/s}`" in said


def test_the_document_adds_the_figures() -> None:
    (fast, slow) = speeds.as_documents((FAST, Speed(1, refused="no room")), machine())
    assert (fast["latency_ns"], fast["firmware_latency_ns"]) == (110.4, 100)
    assert (fast["read_mbps"], fast["firmware_read_mbps"]) == (48_000.0, 50_000)
    assert (slow["latency_ns"], slow["refused"]) == (None, "no room")


def test_another_machine_is_not_measured() -> None:
    with pytest.raises(checkup.ElsewhereError) as caught:
        checkup.measured(None, here=False)  # type: ignore[arg-type]
    assert caught.value.exit_code is ExitCode.usage
