"""Prediction against truth, on the simulated machine: `python -m bench.prediction`.

For each workload: `tierd record` watches it at one size, `tierd simulate` predicts other sizes from
the profile, and then the workload itself runs at these sizes under tierd. All in virtual time.

    python -m bench.prediction --save cells.json
    python -m bench.prediction --workloads store,mixed --seeds 1,2
    python -m bench.prediction --save cells.json --again   # predict anew, keep each truth
    python -m bench.prediction --show cells.json
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from bench import machines
from tierd.configuration.config import Config
from tierd.console import simulate
from tierd.console.simulate import Question
from tierd.kdamonds.kernel import Kernel
from tierd.loop import recorder
from tierd.loop.running import Running
from tierd.machine import discovery, features
from tierd.profile import from_profile, profile
from tierd.profile.curve import Point
from tierd.profile.load import Work
from tierd.record.snapshot import Snapshot
from tierd.sim import trial, virtual_loop
from tierd.sim.memory import PageSet
from tierd.sim.sim_kernel import SimClock, SimKernel
from tierd.sim.trial import Size
from tierd.sim.workload import Place, Scatter, Shift, Workload, WorkloadEvent
from tierd.sim.zipf import store
from tierd.views.forecast import Costs

MIB = 1 << 20
MINUTE_S = 60.0

# The machines. The first is where the profile is made, with nobody moving anything.
TOTAL_MIB = 2048
RECORDED_MIB = 512
PREDICTED_MIB = (192, 320, 768, 1024)

# Virtual minutes: of the profile, and of the truth, of which the last ones are measured.
RECORD_MINUTES = 20
TRUTH_MINUTES = 6
MEASURED_MINUTES = 2
LOOK_S = 2.0

# A prediction that is off by no more than this is right.
NEAR = 0.10

BLOCK_PAGES = 8
SERIES = "7.3"
SIMULATED = f"simulated {SERIES}"
BOTH = (0, 1)


def _hot(_seed: int) -> Iterator[WorkloadEvent]:
    """A hot set in one piece, below cold memory."""
    yield Place(PageSet("cold", 0.002), 900 * MIB, BOTH)
    yield Place(PageSet("hot", 30.0), 300 * MIB, BOTH)
    yield Place(PageSet("warm", 0.5), 400 * MIB, BOTH)


def _store(seed: int) -> Iterator[WorkloadEvent]:
    """A store whose heat falls by Zipf's law and is scattered over its pages."""
    made = store("s", 1600 * MIB, skew=0.99, mean_hz=1.0, seed=seed)
    yield Scatter(made.sets, BOTH)


def _mixed(seed: int) -> Iterator[WorkloadEvent]:
    """A store, and a hot set in one piece beside it."""
    made = store("s", 1000 * MIB, skew=0.8, mean_hz=2.0, seed=seed)
    yield Scatter(made.sets, BOTH)
    yield Place(PageSet("hot", 20.0), 150 * MIB, BOTH)
    yield Place(PageSet("cold", 0.001), 400 * MIB, BOTH)


def _drift(_seed: int) -> Iterator[WorkloadEvent]:
    """A hot set of which one percent changes every fifteen seconds."""
    yield Place(PageSet("cold", 0.001), 700 * MIB, BOTH)
    yield Place(PageSet("hot", 20.0), 300 * MIB, BOTH)
    yield Place(PageSet("rest", 0.001), 600 * MIB, BOTH)
    yield Shift("hot", "cold", 0.01, 15_000_000, 15_000_000)


def _alike(_seed: int) -> Iterator[WorkloadEvent]:
    """All memory is used alike, so no placement is better than another."""
    yield Place(PageSet("all", 2.0, at_random=True), 1600 * MIB, BOTH)


def _flat(seed: int) -> Iterator[WorkloadEvent]:
    """A store whose values are used more alike, and cold memory."""
    yield Place(PageSet("cold", 0.002), 400 * MIB, BOTH)
    made = store("s", 1200 * MIB, skew=0.6, mean_hz=0.5, seed=seed)
    yield Scatter(made.sets, BOTH)


def _walk(seed: int) -> Iterator[WorkloadEvent]:
    """Two sets that are touched in every sample, one far more often, and a store."""
    made = store("s", 900 * MIB, skew=0.9, mean_hz=1.0, seed=seed)
    yield Scatter(made.sets, BOTH)
    yield Place(PageSet("turn", 25.0), 200 * MIB, BOTH)
    yield Place(PageSet("often", 150.0, at_random=True), 60 * MIB, BOTH)
    yield Place(PageSet("cold", 0.001), 400 * MIB, BOTH)


WORKLOADS: dict[str, Callable[[int], Iterator[WorkloadEvent]]] = {
    "hot": _hot,
    "store": _store,
    "mixed": _mixed,
    "drift": _drift,
    "alike": _alike,
    # Nothing was mended by looking at these: the next ones, and all cells with another seed.
    "flat": _flat,
    "walk": _walk,
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One prediction, and the truth."""

    workload: str
    seed: int
    fast_mib: int
    predicted: float
    low: float
    high: float
    cannot_tell: str
    best: float
    truth: float
    made: dict[str, str] = field(default_factory=dict)
    """Commit, host, load and date."""
    kernel: str = SIMULATED
    """The kernel on which the workload was recorded and run."""

    @property
    def off(self) -> float:
        return abs(self.predicted - self.truth)

    @property
    def inside(self) -> bool:
        return self.low <= self.truth <= self.high


def _kernel(name: str, fast_mib: int, seed: int) -> SimKernel:
    machine = trial.machine(Size(fast_mib * MIB, (TOTAL_MIB - fast_mib) * MIB))
    workload = Workload(list(WORKLOADS[name](seed)), seed=seed)
    kernel = SimKernel(SERIES, machine, seed=seed, workload=workload, block_pages=BLOCK_PAGES)
    kernel.advance(0.001)
    return kernel


def record(name: str, seed: int, minutes: int = RECORD_MINUTES) -> Work:
    """Return the work that a profile of the workload shows."""
    kernel = _kernel(name, RECORDED_MIB, seed)
    lines: list[str] = []
    around = recorder.Around(
        kernel=Kernel.patient(kernel, SimClock(kernel)),
        inbox=virtual_loop.VirtualInbox(kernel),
        store=virtual_loop.VirtualStore(),
        wall_s=lambda: 0.0,
        write=lines.append,
    )
    topology, capabilities = discovery.survey(kernel, None), features.probe(kernel)
    recorder.run(around, topology, capabilities, Random(seed), minutes * MINUTE_S)
    return from_profile.work(profile.parse(name, "\n".join(lines) + "\n"), name)


@dataclass(slots=True)
class _Truth:
    """What the fast node serves of a workload, look by look."""

    kernel: SimKernel
    looks: list[float] = field(default_factory=list)

    def look(self) -> None:
        memory = self.kernel.memory
        fast = whole = 0.0
        for known in memory.sets:
            if known.rate_hz > 0:
                here = memory.pages_of_set(known.name, 0)
                fast += here * known.rate_hz
                whole += (here + memory.pages_of_set(known.name, 1)) * known.rate_hz
        self.looks.append(fast / whole)

    def publish(self, _snapshot: Snapshot, _running: Running) -> None:
        """The truth is in the memory, not in what tierd says of it."""


def truth(name: str, fast_mib: int, seed: int) -> float:
    """Return the share that the fast node serves after the daemon has run for some minutes."""
    kernel = _kernel(name, fast_mib, seed)
    seen = _Truth(kernel)
    end_s = TRUTH_MINUTES * MINUTE_S
    moments: list[virtual_loop.Moment] = [
        (number * LOOK_S, seen.look) for number in range(int(end_s / LOOK_S))
    ]
    virtual_loop.run(kernel, Config(), Config(), end_s, moments, seen.publish)
    return statistics.fmean(seen.looks[-int(MEASURED_MINUTES * MINUTE_S / LOOK_S) :])


def predicted(work: Work, fast_bytes: int, slow_bytes: int) -> Point:
    """Return what `tierd simulate` says of a size."""
    question = Question(fast_bytes, slow_bytes, None, Costs(100, 250))
    return simulate.answer(work, question, Config()).points[0]


def said(row: Point) -> dict[str, Any]:
    """Return the fields of a cell that the prediction says."""
    return {
        "predicted": round(row.guess.served, 4),
        "low": round(row.guess.low, 4),
        "high": round(row.guess.high, 4),
        "cannot_tell": row.cannot_tell,
        "best": round(row.best, 4),
    }


def cell(name: str, work: Work, fast_mib: int, seed: int, known: Cell | None = None) -> Cell:
    """Return a prediction and the truth, which may be known from a cell of before."""
    row = predicted(work, fast_mib * MIB, (TOTAL_MIB - fast_mib) * MIB)
    found = truth(name, fast_mib, seed) if known is None else known.truth
    return Cell(name, seed, fast_mib, truth=round(found, 4), made=machines.made(), **said(row))


def table(cells: Sequence[Cell]) -> str:
    """Return the cells as a table in Markdown, and below it how many are right."""
    lines = [
        "| workload | seed | fast | predicted | interval | truth | best | off |",
        "|---" * 8 + "|",
    ]
    for one in cells:
        mark = "" if one.inside else ", outside"
        lines.append(
            f"| {one.workload} | {one.seed} | {one.fast_mib} MiB | {one.predicted:.1%} | "
            f"{one.low:.0%} to {one.high:.0%}{mark} | {one.truth:.1%} | {one.best:.1%} | "
            f"{100 * one.off:.1f} |"
        )
    return "\n".join([*lines, "", summary(cells)])


def summary(cells: Sequence[Cell]) -> str:
    """Return how many predictions were right, and how far off the worst was."""
    near = sum(one.off <= NEAR for one in cells)
    worst = max(one.off for one in cells)
    inside = sum(one.inside for one in cells)
    return (
        f"within 10 points: {near} of {len(cells)} ({near / len(cells):.0%}); the worst is "
        f"{100 * worst:.1f} off; {inside} of {len(cells)} intervals hold the truth"
    )


def save(path: Path, cells: Sequence[Any]) -> None:
    """Write cells of one kind."""
    path.write_text(json.dumps([asdict(one) for one in cells], indent=1) + "\n")


def load(path: Path) -> list[Cell]:
    return [Cell(**raw) for raw in json.loads(path.read_text())] if path.exists() else []


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.prediction", description=__doc__)
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--fast", default=",".join(map(str, PREDICTED_MIB)), help="sizes in MiB")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--again", action="store_true", help="predict anew, keep the truths")
    parser.add_argument("--show", type=Path)
    asked = parser.parse_args(arguments)
    if asked.show:
        print(table(load(asked.show)))
        return 0
    cells = load(asked.save) if asked.save else []
    known = {(one.workload, one.seed, one.fast_mib): one for one in cells}
    for name in asked.workloads.split(","):
        for seed in map(int, asked.seeds.split(",")):
            sizes = [int(size) for size in asked.fast.split(",")]
            wanted = [size for size in sizes if asked.again == ((name, seed, size) in known)]
            work = record(name, seed) if wanted else None
            for fast_mib in wanted:
                assert work is not None
                before = known.get((name, seed, fast_mib))
                if before is not None:
                    cells.remove(before)
                cells.append(cell(name, work, fast_mib, seed, before))
                print(table(cells[-1:]).splitlines()[2], file=sys.stderr, flush=True)
                if asked.save:
                    save(asked.save, cells)
    print(table(cells))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
