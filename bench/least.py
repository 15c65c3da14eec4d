"""The least fast memory that serves a target: predicted, and tried on the simulated machine.

    python -m bench.least --save docs/prediction/least.json
    python -m bench.least --workloads hot,mixed --targets 0.9

`tierd simulate --target-hit` names a size from a profile. Then the workload itself runs at this
size, at one that is a tenth smaller, and at one that is a tenth larger. The size is right if the
smaller one serves less than the target, and the larger one at least as much.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from bench import machines
from bench.prediction import MIB, SIMULATED, TOTAL_MIB, WORKLOADS, record, save, truth
from tierd.configuration.config import Config
from tierd.console import simulate
from tierd.console.simulate import Question
from tierd.profile.load import Work
from tierd.views.forecast import Costs

TARGETS = (0.8, 0.9, 0.95)

# A size that is off by no more than this share of itself is right.
NEAR = 0.10

# Workloads that have no least size: no placement of `alike` is better than another.
WITHOUT = ("alike",)


@dataclass(frozen=True, slots=True)
class Least:
    """One predicted size, and what was served around it."""

    workload: str
    seed: int
    target: float
    predicted_mib: int | None
    """None if no size was named."""
    best_mib: int
    """What a perfect placement would need, by the profile."""
    smaller: float | None = None
    """The share that a size smaller by NEAR really serves."""
    there: float | None = None
    larger: float | None = None
    made: dict[str, str] = field(default_factory=dict)
    kernel: str = SIMULATED

    @property
    def verdict(self) -> str:
        if self.smaller is None or self.larger is None:
            return "no size was named"
        if self.smaller >= self.target:
            return "too large"
        return "right" if self.larger >= self.target else "too small"


def named(work: Work, target: float) -> tuple[int | None, int]:
    """Return the size that `tierd simulate --target-hit` names, and that of the best placement."""
    question = Question(None, None, target, Costs(100, 250))
    found = simulate.answer(work, question, Config()).least_bytes
    best = max(one.load.needed_bytes(target) for one in work.stretches)
    return (None if found is None else found // MIB), round(best / MIB)


def tried(name: str, work: Work, target: float, seed: int) -> Least:
    """Return a predicted size, with what the workload is served there."""
    size_mib, best_mib = named(work, target)
    found = Least(name, seed, target, size_mib, best_mib, made=machines.made())
    if size_mib is None or size_mib * (1 + NEAR) >= TOTAL_MIB:
        return found
    smaller, there, larger = (
        round(truth(name, round(size_mib * part), seed), 4) for part in (1 - NEAR, 1, 1 + NEAR)
    )
    return replace(found, smaller=smaller, there=there, larger=larger)


def load(path: Path) -> list[Least]:
    return [Least(**raw) for raw in json.loads(path.read_text())] if path.exists() else []


def summary(cells: Sequence[Least]) -> str:
    right = sum(one.verdict == "right" for one in cells)
    return f"within 10 %: {right} of {len(cells)} ({right / len(cells):.0%})"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.least", description=__doc__)
    parser.add_argument(
        "--workloads", default=",".join(one for one in WORKLOADS if one not in WITHOUT)
    )
    parser.add_argument("--targets", default=",".join(map(str, TARGETS)))
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--save", type=Path)
    asked = parser.parse_args(arguments)
    cells = load(asked.save) if asked.save else []
    for name in asked.workloads.split(","):
        for seed in map(int, asked.seeds.split(",")):
            work = record(name, seed)
            for target in map(float, asked.targets.split(",")):
                cells.append(tried(name, work, target, seed))
                print(asdict(cells[-1]), cells[-1].verdict, file=sys.stderr, flush=True)
                if asked.save:
                    save(asked.save, cells)
    print(summary(cells))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
