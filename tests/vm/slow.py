"""Makes the arguments of the plugin `slow.c`, which makes memory slow, from a machine's figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.vm.errors import VmError
from tierd.sim.machine_model import MachineModel, MachineNode

MIB = 1 << 20
GIB = 1 << 30
LINE_BYTES = 64

# The memory that q35 can have below 4 GiB (pc_q35_init()). A machine with less memory has all of it
# there. A machine with more has only BELOW_4G_BYTES there, so that the rest begins at a whole GiB.
BELOW_4G_BYTES_MAX = 0xB000_0000
BELOW_4G_BYTES = 0x8000_0000
ABOVE_4G = 4 * GIB


@dataclass(frozen=True, slots=True)
class Slowness:
    """How a machine's figures become waits.

    Latencies are multiplied by `stretch` and bandwidths divided by it. The kernel is told the
    machine's figures as they are.
    """

    # Python is 10 to 20 times as slow in such a guest as on its host. Slower memory keeps the ratio
    # of computing and waiting similar to that of a real machine. Ten is the cautious choice: with
    # more, the gain by tiering would look larger.
    stretch: int = 10
    # The cache of each processor. It is as small, compared with these nodes, as a real cache is
    # compared with real nodes. With a larger one, sets of a few MiB would never be slow.
    cache_bytes: int = MIB


@dataclass(frozen=True, slots=True)
class Span:
    """Physical addresses of a node, from start up to end, without end itself."""

    node: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment that a program in the guest has marked.

    It has the line that was touched, how many accesses of user code had missed the caches until
    then, by node, and for how long the emulator had waited for processors of the host.
    """

    line: int
    misses: tuple[int, ...]
    waited_ns: int = 0


def spans(machine: MachineModel) -> tuple[Span, ...]:
    """Return where QEMU's q35 puts the nodes: one after the other, around the hole below 4 GiB.

    Plugged modules come last. They begin at the next whole GiB above 4 GiB.
    """
    fixed = [node for node in machine.nodes if not node.plugged]
    plugged = [node for node in machine.nodes if node.plugged]
    total = sum(node.size_mib for node in fixed) * MIB
    low = total if total < BELOW_4G_BYTES_MAX else BELOW_4G_BYTES
    high = ABOVE_4G + total - low
    found: list[Span] = []
    for node, start, end in _laid(fixed, 0):
        if start < low:
            found.append(Span(node, start, min(end, low)))
        if end > low:
            found.append(Span(node, max(start, low) - low + ABOVE_4G, end - low + ABOVE_4G))
    found += [Span(*one) for one in _laid(plugged, -(-high // GIB) * GIB)]
    return tuple(found)


def _laid(nodes: Sequence[MachineNode], start: int) -> list[tuple[int, int, int]]:
    """Return node, start and end of nodes that follow each other."""
    bounds = [start]
    for node in nodes:
        bounds.append(bounds[-1] + node.size_mib * MIB)
    return [(node.id, *bound) for node, bound in zip(nodes, pairwise(bounds), strict=True)]


def latency_ps(node: MachineNode, slowness: Slowness) -> int:
    """Return how long a miss waits for the node."""
    return _figures(node)[0] * 1000 * slowness.stretch


def line_ps(node: MachineNode, slowness: Slowness) -> int:
    """Return how long a line occupies the node's bus."""
    return LINE_BYTES * 1_000_000 * slowness.stretch // _figures(node)[1]


def _figures(node: MachineNode) -> tuple[int, int]:
    if node.latency_ns is None or node.bandwidth_mbps is None:
        raise VmError(
            f"node {node.id} has no latency_ns and bandwidth_mbps, so nobody knows how slow it is; "
            "choose a machine whose nodes have them"
        )
    return node.latency_ns, node.bandwidth_mbps


def arguments(machine: MachineModel, slowness: Slowness) -> tuple[str, ...]:
    """Return the arguments of the plugin."""
    numbers = {node.id: number for number, node in enumerate(machine.nodes)}
    costs = [(latency_ps(node, slowness), line_ps(node, slowness)) for node in machine.nodes]
    return (
        f"cpus={sum(len(node.cpus) for node in machine.nodes)}",
        f"cache={slowness.cache_bytes}",
        *(f"node={latency}:{line}" for latency, line in costs),
        *(f"range={numbers[span.node]}:{span.start}:{span.end}" for span in spans(machine)),
    )


def parse_marks(text: str, machine: MachineModel) -> tuple[Mark, ...]:
    """Parse what the plugin wrote to its file. A last line that was cut off is left out."""
    lines = text.splitlines(keepends=True)
    rows = [tuple(map(int, line.split())) for line in lines if line.endswith("\n")]
    nodes = len(machine.nodes)
    wrong = next((row for row in rows if len(row) != nodes + 2), None)
    if wrong is not None:
        raise VmError(f"a mark of {nodes} nodes has {len(wrong)} numbers: {wrong}")
    return tuple(Mark(row[0], row[1:-1], row[-1]) for row in rows)
