"""Slow memory: the arguments for the emulator, and how slow memory is for a program in a guest."""

import json
from dataclasses import replace

import pytest

from bench.waiting import Mode
from tests.vm import built, guest, slow
from tests.vm.errors import VmError
from tests.vm.slow import GIB, MIB, Mark, Slowness, Span
from tierd.sim import machine_model
from tierd.sim.machine_model import MachineModel

TWO_TIER = machine_model.load("two-tier")
FAST, SLOW = TWO_TIER.nodes


def sized(*sizes_mib: int, plugged: int | None = None) -> MachineModel:
    """Return the machine two-tier with other sizes. The node `plugged` is a memory module."""
    nodes = tuple(
        replace(node, size_mib=size, plugged=node.id == plugged)
        for node, size in zip(TWO_TIER.nodes, sizes_mib, strict=True)
    )
    return replace(TWO_TIER, nodes=nodes)


# Not all of its memory fits below 4 GiB, so one node lies on both sides of the hole.
LARGE = sized(2560, 512)


@pytest.mark.parametrize(
    ("chosen", "spans"),
    [
        (TWO_TIER, (Span(0, 0, 512 * MIB), Span(1, 512 * MIB, 1536 * MIB))),
        (sized(2048, 767), (Span(0, 0, 2 * GIB), Span(1, 2 * GIB, 2815 * MIB))),
        (sized(2048, 768), (Span(0, 0, 2 * GIB), Span(1, 4 * GIB, 4 * GIB + 768 * MIB))),
        (
            LARGE,
            (
                Span(0, 0, 2 * GIB),
                Span(0, 4 * GIB, 4 * GIB + 512 * MIB),
                Span(1, 4 * GIB + 512 * MIB, 5 * GIB),
            ),
        ),
        (
            sized(512, 1024, plugged=1),
            (Span(0, 0, 512 * MIB), Span(1, 4 * GIB, 5 * GIB)),
        ),
        (
            sized(2560, 512, plugged=0),
            (Span(1, 0, 512 * MIB), Span(0, 4 * GIB, 6 * GIB + 512 * MIB)),
        ),
        (
            sized(3072, 512, plugged=1),
            (Span(0, 0, 2 * GIB), Span(0, 4 * GIB, 5 * GIB), Span(1, 5 * GIB, 5632 * MIB)),
        ),
    ],
    ids=["small", "just below", "beside", "across", "plugged", "plugged first", "plugged above"],
)
def test_nodes_lie_around_the_hole(chosen: MachineModel, spans: tuple[Span, ...]) -> None:
    assert slow.spans(chosen) == spans


def test_the_plugin_gets_the_machines_figures() -> None:
    assert slow.arguments(TWO_TIER, Slowness(stretch=1, cache_bytes=65536)) == (
        "cpus=2",
        "cache=65536",
        "node=100000:1280",
        "node=300000:6400",
        f"range=0:0:{512 * MIB}",
        f"range=1:{512 * MIB}:{1536 * MIB}",
    )


def test_a_stretched_machine_keeps_its_ratios() -> None:
    said = slow.arguments(machine_model.load("three-tier"), Slowness(stretch=10))
    assert [word for word in said if word.startswith("node")] == [
        "node=1000000:12800",
        "node=600000:3200",
        "node=3000000:64000",
    ]


def test_a_machine_without_figures_cannot_be_slow() -> None:
    with pytest.raises(VmError, match=r"node 0 has no latency_ns and bandwidth_mbps.*choose"):
        slow.arguments(machine_model.load("one-tier"), Slowness())


def test_marks_are_read_but_for_one_that_was_cut_off() -> None:
    assert slow.parse_marks("0 10 20 7\n1 30 40 9\n2 5", TWO_TIER) == (
        Mark(0, (10, 20), 7),
        Mark(1, (30, 40), 9),
    )
    assert slow.parse_marks("", TWO_TIER) == ()


def test_a_mark_of_another_machine_is_an_error() -> None:
    with pytest.raises(VmError, match="a mark of 2 nodes has 2 numbers"):
        slow.parse_marks("0 10\n", TWO_TIER)


# In guests.

# The bandwidths are divided by this. The bus times are then shorter than the latencies, but longer
# than an emulated processor needs between two lines, also on a busy host.
NARROWER = 40

SAMPLES = 200

# Eight times the size of a modelled cache, and a quarter of it.
LARGE_BYTES = 8 * MIB
SMALL_BYTES = MIB // 4

# The accepted error, with the noise of a shared host.
TOLERANCE = 0.15

SLOWNESS = Slowness()


def narrow(chosen: MachineModel) -> MachineModel:
    """Return the machine with less bandwidth on each node, in the same ratios."""
    return replace(
        chosen,
        nodes=tuple(
            replace(node, bandwidth_mbps=(node.bandwidth_mbps or 0) // NARROWER)
            for node in chosen.nodes
        ),
    )


def speed(*measures: str) -> guest.Command:
    return guest.Command(("/job/speed", str(SAMPLES), *measures), timeout_s=300)


def switched(mode: Mode) -> guest.Command:
    """Return a command that switches how memory waits, for the commands after it."""
    code = f"from bench.waiting import Mode, Switch; Switch().set(Mode.{mode.name})"
    return guest.Command(("python3", "-B", "-c", code))


def samples(result: guest.Result) -> dict[str, list[float]]:
    """Return the nanoseconds per line by `kind:node`, in ascending order."""
    assert (result.status, result.stderr) == (0, "")
    words = [line.split() for line in result.stdout.splitlines()]
    return {name.rpartition(":")[0]: sorted(map(float, rest)) for name, *rest in words}


def low(result: guest.Result) -> dict[str, float]:
    """Return the lower quartile of each, because other programs of the host only add time."""
    return {name: values[len(values) // 4] for name, values in samples(result).items()}


@pytest.mark.vm
@pytest.mark.parametrize("name", ["two-tier", "three-tier"])
def test_memory_is_as_slow_as_was_asked_for(name: str) -> None:
    chosen = narrow(machine_model.load(name))
    nodes = [node.id for node in chosen.nodes]
    kinds = ("chase", "stream", "pair")
    chases = [f"chase:{node}:{LARGE_BYTES}" for node in nodes]
    large, small, _, even, _, off = guest.run(
        "7.2",
        chosen,
        [
            speed(*(f"{kind}:{node}:{LARGE_BYTES}" for node in nodes for kind in kinds)),
            # A separate command, because the large ones would evict these from the caches.
            speed(*(f"chase:{node}:{SMALL_BYTES}" for node in (0, nodes[-1]))),
            switched(Mode.even),
            speed(*chases),
            switched(Mode.off),
            speed(*chases),
        ],
        {"speed": built.program("speed").read_bytes()},
        slow=SLOWNESS,
    ).results
    seen, within = low(large), low(small)
    told = json.dumps([seen, within])
    latency_ns = {node.id: slow.latency_ps(node, SLOWNESS) / 1000 for node in chosen.nodes}
    line_ns = {node.id: slow.line_ps(node, SLOWNESS) / 1000 for node in chosen.nodes}
    slowest = max(nodes, key=lambda node: latency_ns[node])
    widest = min(nodes, key=lambda node: line_ns[node])
    for node in nodes:
        if node != slowest:
            more_ns = seen[f"chase:{slowest}"] - seen[f"chase:{node}"]
            asked_ns = latency_ns[slowest] - latency_ns[node]
            assert more_ns == pytest.approx(asked_ns, rel=TOLERANCE), told
        narrower = seen[f"stream:{node}"] / seen[f"stream:{widest}"]
        assert narrower == pytest.approx(line_ns[node] / line_ns[widest], rel=TOLERANCE), told
        # Two processors get no more of the bus than one. With a bus for each, a line would take
        # half of this. The lowest sample counts, because on a busy host both seldom run at once.
        assert min(samples(large)[f"pair:{node}"]) >= (1 - TOLERANCE) * line_ns[node], told
    # When all nodes are as fast as the fastest one, or none waits, they are alike.
    fastest = min(nodes, key=lambda node: latency_ns[node])
    alike, idle = low(even), low(off)
    told = json.dumps([seen, alike, idle])
    for node in nodes:
        assert alike[f"chase:{node}"] == pytest.approx(seen[f"chase:{fastest}"], rel=TOLERANCE), (
            told
        )
        assert idle[f"chase:{node}"] < seen[f"chase:{fastest}"] - latency_ns[fastest] / 2, told
    # Memory that fits in the cache does not wait, on any node.
    apart_ns = abs(within[f"chase:{nodes[-1]}"] - within["chase:0"])
    assert apart_ns < TOLERANCE * (latency_ns[nodes[-1]] - latency_ns[0]), told


# Prints the node and the physical address of each block of memory that a guest's kernel has.
BLOCKS = """
import json, pathlib
root = pathlib.Path("/sys/devices/system")
size = int((root / "memory/block_size_bytes").read_text(), 16)
print(json.dumps([
    [int(node.name[4:]), int((block / "phys_index").read_text(), 16) * size, size]
    for node in root.glob("node/node[0-9]*") for block in node.glob("memory[0-9]*")
]))
"""


@pytest.mark.vm
@pytest.mark.parametrize("chosen", [LARGE, sized(2560, 512, plugged=1)], ids=["fixed", "plugged"])
def test_a_real_kernel_has_its_nodes_there(chosen: MachineModel) -> None:
    result = guest.run("7.2", chosen, [guest.Command(("python3", "-c", BLOCKS))]).results[0]
    assert (result.status, result.stderr) == (0, "")
    found: dict[int, set[int]] = {}
    for node, start, size in json.loads(result.stdout):
        found.setdefault(node, set()).update(range(start, start + size, MIB))
    asked: dict[int, set[int]] = {}
    for span in slow.spans(chosen):
        asked.setdefault(span.node, set()).update(range(span.start, span.end, MIB))
    assert found == asked
