"""Random programs on random machines: where does tierd stop too early? `python -m bench.search`.

    python -m bench.search --first 1 --count 40
    python -m bench.search --first 127 --count 1 --reasons

Each number makes one machine, one kernel and one set of programs, always the same. A line says how
much of what the best placement would gain tierd has gained, at each look, and what it moved. A low
figure is no proof of a fault: where both nodes of a pair are full, nothing can change places. All
is in virtual time, so the figures do not depend on this machine.
"""

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from tests.sim.loop import MIB, Disk, Loop, Script
from tierd.configuration.config import Config
from tierd.sim.machine_model import MachineModel, load
from tierd.sim.memory import Memory, PageSet
from tierd.sim.sim_kernel import SimKernel
from tierd.sim.workload import Place, Scatter, Workload, WorkloadEvent
from tierd.sim.zipf import store

# Three tiers have the most ways to stand still.
MACHINES = ("two-tier", "three-tier", "three-tier", "two-socket")
SERIES = ("6.12", "6.16", "6.18", "7.2", "7.3")

# What the kernel, its watermarks and a little free memory leave of a node.
USABLE_SHARE, KERNEL_MIB = 0.85, 24
# The smallest set that is placed.
LEAST_MIB = 5
# What tierd keeps free on a fast node, about.
HEADROOM_SHARE = 0.02

# If the best placement gains less than this share of all accesses, a run tells nothing.
GAIN_MIN = 0.02

CELL_PAGES = 64
LOOKS_S = (15, 30, 60, 90, 120, 150)


@dataclass
class Draw:
    """A machine, and programs that are placed on it."""

    number: int
    machine: MachineModel
    series: str
    events: list[WorkloadEvent] = field(default_factory=list)
    rates_hz: dict[str, float] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)

    @property
    def level(self) -> Mapping[int, int]:
        """The tier of each node; the fastest is 0."""
        tiers = enumerate(nodes for _, nodes in self.machine.tiers)
        return {node: level for level, nodes in tiers for node in nodes}

    def height(self, level: int) -> float:
        """Return what an access to a tier is worth: 1 in the fastest, and 0 in the slowest."""
        return 1 - level / (len(self.machine.tiers) - 1)


def draw(number: int) -> Draw:
    """Return what this number makes."""
    rng = Random(number)
    machine = load(rng.choice(MACHINES))
    drawn = Draw(number, machine, rng.choice(SERIES))
    left = {one.id: int(one.size_mib * USABLE_SHARE) - KERNEL_MIB for one in machine.nodes}
    slower = [node for node, level in drawn.level.items() if level]
    for count in range(rng.randint(0, 3)):
        node, hz = rng.choice(slower), rng.choice((2.0, 10.0, 60.0))
        mib = min(left[node], rng.choice((8, 24, 64, 128)))
        _place(drawn, PageSet(f"hot{count}", hz, at_random=rng.random() < 0.5), node, mib, left)
    if rng.random() < 0.75:
        _scatter(drawn, rng, left)
    for node in left:
        if rng.random() < 0.7:
            mib = int(left[node] * rng.uniform(0.6, 1.0))
            _place(drawn, PageSet(f"idle{node}"), node, mib, left)
    return drawn


def _place(drawn: Draw, pages: PageSet, node: int, mib: int, left: dict[int, int]) -> None:
    if mib < LEAST_MIB:
        return
    left[node] -= mib
    drawn.events.append(Place(pages, mib * MIB, (node,)))
    drawn.rates_hz[pages.name] = pages.rate_hz
    drawn.words.append(f"{pages.name}: {mib} MiB on node {node}, {pages.rate_hz:g} Hz")


def _scatter(drawn: Draw, rng: Random, left: dict[int, int]) -> None:
    """Add a store that is scattered over all nodes, one after the other."""
    mib = int(sum(left.values()) * rng.uniform(0.2, 0.95))
    skew, mean_hz = rng.choice((0.6, 0.99, 1.2)), rng.choice((0.3, 1.0, 3.0))
    order = list(left)
    rng.shuffle(order)
    made = store("store", mib * MIB, skew=skew, mean_hz=mean_hz)
    drawn.events.append(Scatter(made.sets, tuple(order)))
    drawn.rates_hz |= {pages.name: pages.rate_hz for pages, _ in made.sets}
    drawn.words.append(f"store: {mib} MiB on nodes {order}, skew {skew}, {mean_hz:g} Hz")
    for node in order:
        taken = min(left[node], mib)
        left[node], mib = left[node] - taken, mib - taken


def worth(drawn: Draw, memory: Memory) -> float:
    """Return the mean height of all accesses where the pages are now."""
    height = {node: drawn.height(level) for node, level in drawn.level.items()}
    pages = {
        (name, node): memory.pages_of_set(name, node)
        for name in drawn.rates_hz
        for node in memory.nodes
    }
    whole = sum(drawn.rates_hz[name] * count for (name, _), count in pages.items())
    high = sum(drawn.rates_hz[name] * count * height[node] for (name, node), count in pages.items())
    return high / whole if whole else 1.0


def best(drawn: Draw, memory: Memory) -> float:
    """Return the same if the hottest pages were on the fastest nodes, wherever there is room."""
    room = [0] * len(drawn.machine.tiers)
    for node, level in drawn.level.items():
        mine = sum(memory.pages_of_set(name, node) for name in drawn.rates_hz)
        kept = int(HEADROOM_SHARE * memory.managed_pages(node))
        room[level] += mine + max(0, memory.free_pages(node) - kept)
    whole = high = 0.0
    level, last = 0, len(room) - 1
    for name, rate_hz in sorted(drawn.rates_hz.items(), key=lambda one: -one[1]):
        left = sum(memory.pages_of_set(name, node) for node in memory.nodes)
        whole += rate_hz * left
        while left:
            taken = left if level == last else min(left, room[level])
            room[level] -= taken
            high, left = high + rate_hz * taken * drawn.height(level), left - taken
            if left:
                level += 1
    return high / whole if whole else 1.0


@dataclass(frozen=True)
class Found:
    """What a run came to."""

    drawn: Draw
    begins: float
    best: float
    worths: tuple[float, ...]
    moved_bytes: int
    reasons: tuple[str, ...]

    @property
    def gains(self) -> tuple[float, ...] | None:
        """The part of the possible gain, at each look; None if there is little to gain."""
        possible = self.best - self.begins
        if possible < GAIN_MIN:
            return None
        return tuple((one - self.begins) / possible for one in self.worths)


def loop_of(drawn: Draw) -> Loop:
    """Return tierd with its defaults on the machine, where the programs have their memory."""
    scattered = any(isinstance(event, Scatter) for event in drawn.events)
    kernel = SimKernel(
        drawn.series,
        drawn.machine,
        seed=drawn.number,
        workload=Workload(drawn.events, seed=drawn.number),
        block_pages=None if scattered else CELL_PAGES,
        cell_pages=CELL_PAGES if scattered else None,
    )
    kernel.advance(0.001)
    return Loop(kernel, Script(kernel), Disk(), Config())


def run(drawn: Draw) -> Found:
    loop = loop_of(drawn)
    memory = loop.kernel.memory
    begins, most = worth(drawn, memory), best(drawn, memory)
    worths: list[float] = []
    for second in LOOKS_S:
        loop.do(second - 0.5, lambda: worths.append(worth(drawn, memory)))
    loop.run(LOOKS_S[-1])
    return Found(
        drawn,
        begins,
        most,
        tuple(worths),
        memory.counters.pgmigrate_success * memory.page_bytes,
        tuple(f"{one.scheme}: {one.reason}" for one in loop.snapshots[-1].schemes),
    )


def line(found: Found) -> str:
    drawn, gains = found.drawn, found.gains
    told = "-" if gains is None else " ".join(f"{one:.0%}" for one in gains)
    head = f"{drawn.number} {drawn.machine.name} {drawn.series}"
    return f"{head}: {told}; {found.moved_bytes // MIB} MiB; {'; '.join(drawn.words)}"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1, help="the first number")
    parser.add_argument("--count", type=int, default=40, help="how many numbers")
    parser.add_argument("--series", choices=SERIES, help="this kernel in place of a random one")
    parser.add_argument("--reasons", action="store_true", help="what each scheme does at the end")
    asked = parser.parse_args(words)
    say = sys.stdout.write
    say(f"number, machine, kernel: gain after {', '.join(map(str, LOOKS_S))} s; moved; programs\n")
    ends: list[float] = []
    for number in range(asked.first, asked.first + asked.count):
        drawn = draw(number)
        found = run(replace(drawn, series=asked.series) if asked.series else drawn)
        ends += [] if found.gains is None else [found.gains[-1]]
        say(line(found) + "\n")
        if asked.reasons:
            say("".join(f"    {reason}\n" for reason in found.reasons))
        sys.stdout.flush()
    if ends:
        say(f"{len(ends)} runs with something to gain: mean {statistics.mean(ends):.3f}, ")
        say(f"least {min(ends):.2f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
