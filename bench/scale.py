"""The real loop on simulated machines from 4 GiB to 2 TiB: `python -m bench.scale`.

    python -m bench.scale --machines 64+512 --heats contiguous,uniform --seeds 1,2 --minutes 6
    python -m bench.scale --save after.json
    python -m bench.scale --show before.json after.json

All is in virtual time, so the figures do not depend on this machine. A run is saved after each
cell, and cells that are saved already are not run again.
"""

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench import choices, heats
from bench.heats import HEATS, SIZES, Heat, Size
from tests.sim.loop import Disk, Loop, Script
from tierd.configuration.config import Config
from tierd.loop.running import Running
from tierd.plans.plan import Direction
from tierd.record.snapshot import KdamondStatus, Snapshot
from tierd.sim.memory import Memory
from tierd.sim.sim_kernel import SimKernel
from tierd.sim.workload import Workload

SERIES = "7.3"

# The time that a kdamond needs to look at a page: 0.2 to 1 us on real machines.
LOOK_NS = 500

# How often the machine is looked at, in virtual time. Heat that has a period of whole seconds is
# seen in each of its phases.
LOOK_S = 2.5

# The allocations that wait between two looks, where the heat says so.
STALLS = 1_000

# A run counts as settled in its last seconds.
SETTLED_S = 60.0

# Moves that are not worth it should have ended after so many seconds.
FOUND_S = 120.0


@dataclass(frozen=True, slots=True)
class Look:
    """What a machine is like at one moment."""

    at_s: float
    arrived: float
    """The share of the hot set that is on the fast nodes; 0 if there is no such set."""
    served: float
    """The share of all accesses that go to the fast nodes."""
    promoted_bytes: int
    demoted_bytes: int
    cpu_s: float = 0.0
    """The processor time of the kdamond that has used the most."""


@dataclass(frozen=True, slots=True)
class Park:
    """Promotion to a node was stopped because moving did not help."""

    at_s: float
    node: int
    reason: str
    arrived: float


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: a machine, a heat and a seed."""

    machine: str
    heat: str
    seed: int
    hot_bytes: int
    rate_max_bytes_per_s: float
    served_by_nothing: float
    """The share of accesses that the first placement serves, on average."""
    looks: tuple[Look, ...]
    parks: tuple[Park, ...]
    real_s: float = 0.0

    @property
    def key(self) -> tuple[str, str, int]:
        return self.machine, self.heat, self.seed

    @property
    def served(self) -> float:
        """The share of accesses that the fast nodes serve in the settled part, on average."""
        return statistics.fmean(look.served for look in self.settled)

    @property
    def settled(self) -> tuple[Look, ...]:
        from_s = self.looks[-1].at_s - SETTLED_S
        return tuple(look for look in self.looks if look.at_s >= from_s)

    @property
    def moved_bytes(self) -> int:
        return _moved(self.looks[-1])

    @property
    def settled_bytes_per_s(self) -> float:
        return _moved_per_s(self.settled)

    @property
    def late_bytes_per_s(self) -> float | None:
        """What moved per second after FOUND_S; None if the run was not longer."""
        late = [look for look in self.looks if look.at_s >= FOUND_S]
        return _moved_per_s(late) if len(late) > 1 else None

    def arrived_by(self, second: float) -> float:
        return next((one.arrived for one in reversed(self.looks) if one.at_s <= second), 0.0)


def _moved(look: Look) -> int:
    return look.promoted_bytes + look.demoted_bytes


def _moved_per_s(looks: Sequence[Look]) -> float:
    first, last = looks[0], looks[-1]
    return (_moved(last) - _moved(first)) / (last.at_s - first.at_s)


@dataclass
class Watched(Loop):
    """A loop that keeps what a table needs, instead of every snapshot."""

    size: Size = SIZES[0]
    looks: list[Look] = field(default_factory=list)
    parks: list[Park] = field(default_factory=list)
    held_s: dict[int, float] = field(default_factory=dict)
    """How long promotion to each node was still to be stopped in the last round."""
    rate_max_bytes_per_s: float = 0.0

    def look(self) -> None:
        memory = self.kernel.memory
        fast = {one.name: _on(memory, one.name, self.size.fast_nodes) for one in memory.sets}
        every = {one.name: _on(memory, one.name, tuple(memory.nodes)) for one in memory.sets}
        rates = {one.name: one.rate_hz for one in memory.sets}
        accesses = sum(rates[name] * pages for name, pages in every.items())
        served = sum(rates[name] * pages for name, pages in fast.items())
        hot = every.get(heats.HOT, 0)
        self.looks.append(
            Look(
                at_s=self.kernel.now_us / 1e6,
                arrived=fast[heats.HOT] / hot if hot else 0.0,
                served=served / accesses if accesses else 0.0,
                promoted_bytes=self._applied(Direction.promote),
                demoted_bytes=self._applied(Direction.demote),
                cpu_s=max((one.cpu_seconds_total for one in self._kdamonds()), default=0.0),
            )
        )

    def stall(self) -> None:
        """Let a program wait that has used up the memory of its cgroup."""
        self.kernel.memory.counters.allocstall += STALLS

    def _kdamonds(self) -> Sequence[KdamondStatus]:
        return self.snapshots[-1].kdamonds if self.snapshots else ()

    def _applied(self, direction: Direction) -> int:
        if not self.snapshots:
            return 0
        schemes = self.snapshots[-1].schemes
        return sum(one.applied_bytes_total for one in schemes if one.action == direction)

    def _publish(self, snapshot: Snapshot, running: Running) -> None:
        self.snapshots = [snapshot]
        if running.applied is not None:
            migrations = running.applied.plan.migrations
            self.rate_max_bytes_per_s = max(one.rate_max_bytes_per_s for one in migrations)
        for node, known in running.tuning.controller.nodes.items():
            hold_off_s = known.check.hold_off_s
            if hold_off_s > self.held_s.get(node, 0.0):
                arrived = self.looks[-1].arrived if self.looks else 0.0
                self.parks.append(Park(snapshot.at, node, known.check.held_because, arrived))
            self.held_s[node] = hold_off_s


def _on(memory: Memory, name: str, nodes: Iterable[int]) -> int:
    return sum(memory.pages_of_set(name, node) for node in nodes)


def run(
    size: Size, heat: Heat, seed: int, minutes: float, config: Config, look_ns: int = LOOK_NS
) -> Cell:
    """Run one cell."""
    began_s = time.monotonic()
    kernel = SimKernel(
        SERIES,
        heats.machine(size),
        seed=seed,
        workload=Workload(list(heat.events(size)), seed=seed),
        cell_pages=heats.cell_pages(size, heat),
        look_ns=look_ns,
    )
    kernel.advance(0.001)
    heats.lay(kernel.memory, size, heat, seed)
    alike = heats.share_on(kernel.memory, size.fast_nodes)
    made = Watched(kernel, Script(kernel), Disk(), config, size=size)
    for number in range(int(minutes * 60 / LOOK_S)):
        made.do(number * LOOK_S, made.look)
        if heat.stalls:
            made.do(number * LOOK_S, made.stall)
    made.run(minutes * 60)
    made.look()
    names = {one.name for one in kernel.memory.sets}
    hot = _on(kernel.memory, heats.HOT, kernel.memory.nodes) if heats.HOT in names else 0
    return Cell(
        machine=size.name,
        heat=heat.name,
        seed=seed,
        hot_bytes=hot * made.kernel.memory.page_bytes,
        rate_max_bytes_per_s=made.rate_max_bytes_per_s,
        served_by_nothing=alike if heat.moves_in_vain else made.looks[0].served,
        looks=tuple(made.looks),
        parks=tuple(made.parks),
        real_s=time.monotonic() - began_s,
    )


# Files of cells.


def save(path: Path, cells: Iterable[Cell]) -> None:
    path.write_text(json.dumps([asdict(cell) for cell in cells]) + "\n")


def load(path: Path) -> list[Cell]:
    return [_cell(one) for one in json.loads(path.read_text())] if path.exists() else []


def _cell(raw: dict[str, Any]) -> Cell:
    looks = tuple(Look(**one) for one in raw.pop("looks"))
    parks = tuple(Park(**one) for one in raw.pop("parks"))
    return Cell(**raw, looks=looks, parks=parks)


# The table.

COLUMNS = (
    "GiB", "heat", "seeds", "arrived 1/2/4 min, end", "moved per hot byte",
    "from minute 3 on, of the rate", "last minute, of the rate", "moved/min", "served",
    "by nothing", "kdamond", "parks",
)  # fmt: skip


def table(cells: Iterable[Cell]) -> str:
    """Return a table in Markdown. Each row has the medians over seeds, and (the worst)."""
    groups: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    sizes, kinds = [one.name for one in SIZES], [one.name for one in HEATS]
    order = sorted(cells, key=lambda one: (sizes.index(one.machine), kinds.index(one.heat)))
    for cell in order:
        groups[cell.machine, cell.heat].append(cell)
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *map(_row, groups.values())]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _row(cells: Sequence[Cell]) -> tuple[str, ...]:
    first = cells[0]
    scattered = first.hot_bytes and not first.served_by_nothing
    arrived = "-"
    if scattered:
        minutes = (1, 2, 4, 1e9)
        shares = [[one.arrived_by(60 * minute) for one in cells] for minute in minutes]
        arrived = " ".join(f"{statistics.median(one):.0%}" for one in shares)
        arrived += f" ({min(shares[-1]):.0%})"
    per_hot = [one.moved_bytes / one.hot_bytes if one.hot_bytes else 0.0 for one in cells]
    settled = [one.settled_bytes_per_s for one in cells]
    late = [one.late_bytes_per_s for one in cells]
    rate = first.rate_max_bytes_per_s
    served = [one.served for one in cells]
    parks = [
        f"{park.at_s:.0f} s" + (f" at {park.arrived:.0%}" if scattered else "")
        for one in cells
        for park in one.parks
    ]
    return (
        first.machine,
        first.heat,
        str(len(cells)),
        arrived,
        f"{statistics.median(per_hot):.1f} ({max(per_hot):.1f})",
        _of_rate([one for one in late if one is not None], rate),
        _of_rate(settled, rate),
        f"{statistics.median(settled) * 60 / 1e9:.2f} GB",
        f"{statistics.median(served):.3f} ({min(served):.3f})",
        f"{statistics.median(one.served_by_nothing for one in cells):.3f}",
        f"{max(one.looks[-1].cpu_s / one.looks[-1].at_s for one in cells):.1%}",
        ", ".join(parks[:4]) + (f" and {len(parks) - 4} more" if len(parks) > 4 else "") or "-",
    )


def _of_rate(bytes_per_s: Sequence[float], rate: float) -> str:
    if not bytes_per_s:
        return "-"
    return f"{statistics.median(bytes_per_s) / rate:.1%} ({max(bytes_per_s) / rate:.1%})"


# The command.


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    if asked.show:
        for path in asked.show:
            print(f"{path}\n\n{table(load(path))}\n")
        return 0
    cells = load(asked.save) if asked.save else []
    cost_bp = None if asked.cost is None else round(asked.cost * 100)
    config = Config(regions=asked.regions, cost_bp=cost_bp)
    known = {cell.key for cell in cells}
    for size in asked.machines:
        for heat in asked.heats:
            for seed in asked.seeds:
                if (size.name, heat.name, seed) in known:
                    continue
                cells.append(run(size, heat, seed, asked.minutes, config, asked.look_ns))
                if asked.save:
                    save(asked.save, cells)
                speed = asked.minutes * 60 / cells[-1].real_s
                print(f"{table(cells[-1:]).splitlines()[-1]} {speed:.0f} x", file=sys.stderr)
    print(table(cells))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument(
        "--machines", type=choices.named({one.name: one for one in SIZES}), default=SIZES
    )
    parser.add_argument(
        "--heats", type=choices.named({one.name: one for one in HEATS}), default=HEATS
    )
    parser.add_argument(
        "--seeds", type=lambda text: [int(one) for one in text.split(",")], default=[1]
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument(
        "--cost",
        type=float,
        help="percent of a processor that visits may use; 0: regions only",
    )
    parser.add_argument("--look-ns", type=int, default=LOOK_NS)
    parser.add_argument("--regions", type=_two_numbers, help="least and most of each node")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--show", type=Path, nargs="+")
    return parser


def _two_numbers(text: str) -> tuple[int, int]:
    least, most = (int(one) for one in text.split(","))
    return least, most


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
