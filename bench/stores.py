"""Stores of several sizes, skews and rates on one simulated machine: `python -m bench.stores`.

    python -m bench.stores --series 7.2,6.12 --seeds 1,2

A store is scattered over all its pages. One that is a little larger than the fast node and is used
alike nearly everywhere has the most to lose: room that demotion makes is taken from hot memory. So
each line has the lowest average of ten seconds, beside the gain. `idle` is memory that nobody uses,
which was there first. All is in virtual time, so the figures do not depend on this machine.
"""

import argparse
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from bench import choices
from bench.search import SERIES, Draw, best, loop_of, worth
from tests.sim.loop import MIB
from tierd.sim.machine_model import load
from tierd.sim.memory import PageSet
from tierd.sim.workload import Place, Scatter
from tierd.sim.zipf import store

MACHINE = "two-tier"
SECONDS = 100
LOOKS_S = (30, 60, 100)
# The bar: never a point less than at first, on average of so many seconds.
LOW_S = 10


@dataclass(frozen=True)
class Kind:
    """A store, and what lay on the fast node before it came."""

    mib: int
    skew: float
    mean_hz: float
    idle_mib: int = 0

    @property
    def words(self) -> str:
        beside = f", beside {self.idle_mib} MiB idle" if self.idle_mib else ""
        return f"{self.mib} MiB, skew {self.skew:g}, {self.mean_hz:g} Hz{beside}"


# The fast node of the machine has 512 MiB, and the kernel leaves some 440 MiB of it to a store.
GROUPS = {
    "a little larger than the fast node": tuple(
        Kind(mib, skew, hz) for mib in (470, 560) for skew in (0.6, 0.99) for hz in (0.3, 3.0, 20.0)
    ),
    "twice the fast node": tuple(
        Kind(900, skew, hz) for skew in (0.6, 0.99) for hz in (0.3, 1.0, 5.0, 20.0)
    ),
    "beside idle memory": tuple(
        Kind(mib, 0.99, hz, idle_mib=440) for mib in (53, 150) for hz in (0.12, 1.0, 10.0)
    ),
}


@dataclass(frozen=True)
class Seen:
    """The share of all accesses that the fast node serves, by second, and what was moved."""

    begins: float
    best: float
    shares: tuple[float, ...]
    moved_bytes: int

    def gain(self, second: int) -> float:
        """Return the part of the possible gain that there is after so many seconds."""
        return (self.shares[second - 1] - self.begins) / (self.best - self.begins)

    @property
    def lowest(self) -> float:
        """The lowest average of some seconds, less what was served at first."""
        ends = range(LOW_S, len(self.shares) + 1)
        return min(statistics.mean(self.shares[end - LOW_S : end]) for end in ends) - self.begins


def run(kind: Kind, series: str, seed: int, seconds: int = SECONDS) -> Seen:
    """Run tierd with its defaults while the store is read."""
    drawn = Draw(seed, load(MACHINE), series)
    fastest_first = tuple(sorted(drawn.level, key=lambda node: drawn.level[node]))
    if kind.idle_mib:
        drawn.events.append(Place(PageSet("idle"), kind.idle_mib * MIB, fastest_first[:1]))
        drawn.rates_hz["idle"] = 0.0
    made = store("store", kind.mib * MIB, skew=kind.skew, mean_hz=kind.mean_hz)
    drawn.events.append(Scatter(made.sets, fastest_first))
    drawn.rates_hz |= {pages.name: pages.rate_hz for pages, _ in made.sets}
    loop = loop_of(drawn)
    memory = loop.kernel.memory
    begins, most = worth(drawn, memory), best(drawn, memory)
    shares: list[float] = []
    for second in range(1, seconds + 1):
        loop.do(second - 0.3, lambda: shares.append(worth(drawn, memory)))
    loop.run(seconds)
    return Seen(begins, most, tuple(shares), memory.counters.pgmigrate_success * memory.page_bytes)


def line(words: str, seen: Iterable[Seen]) -> str:
    """Return the least of the lowest averages, and the means of the rest."""
    all_of = tuple(seen)
    gains = [f"{statistics.mean(one.gain(second) for one in all_of):.0%}" for second in LOOKS_S]
    moved = statistics.mean(one.moved_bytes for one in all_of) / MIB
    low = min(one.lowest for one in all_of)
    return f"{low * 100:+.1f} points; {' '.join(gains)}; {moved:.0f} MiB; {words}"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    kernels = choices.among(SERIES)
    parser.add_argument(
        "--series", type=kernels, default=("7.2", "6.12"), help="kernels (default: 7.2,6.12)"
    )
    parser.add_argument("--seeds", default="1", help="seeds (default: 1)")
    asked = parser.parse_args(words)
    seeds = tuple(map(int, asked.seeds.split(",")))
    looks = ", ".join(map(str, LOOKS_S))
    sys.stdout.write(f"lowest {LOW_S} s; gain after {looks} s; moved; store\n")
    for series, (name, kinds) in product(asked.series, GROUPS.items()):
        found: list[Seen] = []
        for kind in kinds:
            seen = [run(kind, series, seed) for seed in seeds]
            sys.stdout.write(f"{series}: {line(kind.words, seen)}\n")
            sys.stdout.flush()
            found += seen
        sys.stdout.write(f"{series}: {line(f'all of {len(found)} {name}', found)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
