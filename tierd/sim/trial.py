"""One trial of `tierd simulate`: loads on a machine of a given size, with the daemon's own loop.

The machine is a small model of the real one, because a trial takes as long as there is memory. All
that has a size is smaller by one factor: nodes, loads, pieces, the rate at which pages may move.
Times stay as they are. A node of the real machine has more regions, so it sees heat a little finer.
"""

from collections.abc import Sequence
from dataclasses import field
from functools import partial
from math import ceil
from random import Random
from statistics import fmean

from tierd.configuration.config import Config
from tierd.frozen import dataclass, replace
from tierd.loop.running import Running
from tierd.plans import rates
from tierd.profile.load import Load
from tierd.record.snapshot import Snapshot
from tierd.serving.inbox import Event, Verb
from tierd.sim import virtual_loop
from tierd.sim.block_memory import BlockMemory
from tierd.sim.machine_model import MachineModel, MachineNode
from tierd.sim.memory import FIRST_SET, PageSet
from tierd.sim.sim_kernel import SimKernel

# The newest series has every feature that tierd can use.
SERIES = "7.3"
FAST, SLOW = 0, 1
MIB = 1 << 20

# The size of the model. A smaller one would have a fast node of which the kernel keeps a part.
MODEL_BYTES = 2 << 30
# Blocks of the model: enough to see a hundredth of a percent of it.
BLOCK_PAGES = 8

# Virtual seconds between two looks at where the touches go.
LOOK_S = 2.0
MINUTE_S = 60.0

# Programs that have run for hours have settled. So in the first minutes of a trial pages may move
# as fast as on a small machine, and heat stays where it is.
SETTLE_MINUTES = 4.0
# Settings that move little need longer. So parts are added while each serves more than the one
# before it, by this share. If that does not end, the loads begin after MORE_PARTS_MAX parts.
RISES_SHARE = 0.01
MORE_PARTS_MAX = 8
# Minutes of a part: of each load, and of what is added to settle. The first one shows what a
# change costs.
PART_MINUTES = 2.0
# Heat drifts in so many steps a minute.
DRIFTS_PER_MINUTE = 6
# Heat that drifts faster is gone before it is found, however fast it is.
DRIFT_MAX = 0.25


@dataclass(frozen=True, slots=True)
class Size:
    """A machine that does not exist: its fast and its slow memory."""

    fast_bytes: int
    slow_bytes: int

    @property
    def bytes(self) -> int:
        return self.fast_bytes + self.slow_bytes


@dataclass(frozen=True, slots=True)
class Seen:
    """What one load of a trial came to."""

    served: tuple[float, ...]
    """The share of the touches that the fast node served, at each look."""
    moved_bytes_per_s: float
    """Of the real machine, while the load did not change."""

    @property
    def steady(self) -> float:
        """The share that was served in the second half, when the change was over."""
        half = self.served[len(self.served) // 2 :]
        return sum(half) / len(half)

    @property
    def worst_minute(self) -> float:
        half = self.served[: len(self.served) // 2] or self.served
        return min(self.steady, sum(half) / len(half))


def factor(size: Size) -> float:
    """Return how many times smaller the model is."""
    return size.bytes / MODEL_BYTES


def machine(size: Size) -> MachineModel:
    """Return the model of a machine with one fast and one slow node."""
    times = factor(size)
    fast, slow = (round(one / times / MIB) for one in (size.fast_bytes, size.slow_bytes))
    nodes = (
        MachineNode(FAST, max(1, fast), (0, 1), FAST, 100, 200_000),
        MachineNode(SLOW, max(1, slow), (), FAST, 250, 60_000),
    )
    tiers = (("memory_tier4", (FAST,)), ("memory_tier22", (SLOW,)))
    distances = ((10, 20), (20, 10))
    return MachineModel("simulated", "of tierd simulate", nodes, distances, tiers, vm=False)


def rate_bytes_per_s(size: Size) -> float:
    """Return how fast pages may move on the real machine: as `plans/rates.py` has it."""
    by_size = size.fast_bytes * rates.FAST_BP_PER_S / 10_000
    return max(rates.RATE_MIN_BYTES_PER_S, by_size)


@dataclass(slots=True)
class Trial:
    """A machine at work."""

    kernel: SimKernel
    times: float
    rng: Random
    load: Load
    settled_s: float | None = None
    """When it had settled. From then on heat drifts."""
    looks: list[tuple[float, float, float]] = field(default_factory=list)
    """When, the share that was served, and the bytes that all schemes had moved."""
    moved_bytes: float = 0.0

    @property
    def memory(self) -> BlockMemory:
        # A machine of this size is kept block by block.
        assert isinstance(self.kernel.memory, BlockMemory)
        return self.kernel.memory

    def publish(self, snapshot: Snapshot, _running: Running) -> None:
        self.moved_bytes = sum(scheme.applied_bytes_total for scheme in snapshot.schemes)

    def look(self) -> None:
        memory = self.memory
        fast = whole = 0.0
        for known in memory.sets:
            reaches_hz = self.load.reaches_hz(known.rate_hz)
            if reaches_hz > 0:
                here = memory.pages_of_set(known.name, FAST)
                fast += here * reaches_hz
                whole += (here + memory.pages_of_set(known.name, SLOW)) * reaches_hz
        served = fast / whole if whole else 1.0
        self.looks.append((self.kernel.now_us / 1e6, served, self.moved_bytes))

    def rises(self, part_s: float) -> bool:
        """Return whether the last part served more than the one before it. At first, it may."""
        now_s = self.kernel.now_us / 1e6
        if now_s < 2 * part_s:
            return True
        last = self._served(now_s - part_s, now_s)
        return last >= self._served(now_s - 2 * part_s, now_s - part_s) + RISES_SHARE

    def _served(self, begin_s: float, end_s: float) -> float:
        return fmean(served for at_s, served, _ in self.looks if begin_s < at_s <= end_s)

    def begin(self) -> None:
        """Fill memory as programs do that start: nobody knows yet what will be hot."""
        memory = self.memory
        counts = self._counts()
        for number, heat in enumerate(self.load.heats):
            memory.add_set(PageSet(_name(number), heat.rate_hz, at_random=True))
        pages = sum(counts) * memory.block_pages
        memory.populate(_name(0), pages, (FAST, SLOW), self.kernel.now_us)
        blocks = memory.find(_name(0), len(memory.held))
        piece = self._piece_blocks()
        pieces = [blocks[at : at + piece] for at in range(0, len(blocks), piece)]
        self.rng.shuffle(pieces)
        ordered = [block for one in pieces for block in one]
        together = sum(
            count
            for count, in_pieces in zip(counts, self.load.is_in_pieces(), strict=True)
            if in_pieces
        )
        rest = ordered[together:]
        if not all(self.load.is_in_pieces()):
            self.rng.shuffle(rest)
        self._give([*ordered[:together], *rest], counts)

    def change(self, load: Load) -> None:
        """Turn to another load. What was hottest stays hottest."""
        memory = self.memory
        ranked = [
            block
            for number in range(len(self.load.heats))
            for block in memory.find(_name(number), len(memory.held))
        ]
        for number, heat in enumerate(load.heats):
            made = PageSet(_name(number), heat.rate_hz, at_random=True)
            if number < len(self.load.heats):
                memory.sets[memory.set_index(made.name) - FIRST_SET] = made
            else:
                memory.add_set(made)
        self.load = load
        counts = self._counts()
        wanted, there = sum(counts), len(ranked)
        if wanted > there:
            coldest = _name(len(load.heats) - 1)
            pages = (wanted - there) * memory.block_pages
            memory.populate(coldest, pages, (FAST, SLOW), self.kernel.now_us)
            known = set(ranked)
            ranked += [at for at in memory.find(coldest, len(memory.held)) if at not in known]
        for block in ranked[wanted:]:
            memory.put(block)
        self._give(ranked[:wanted], counts)

    def drift(self) -> None:
        """Let some memory of each heat change places with other memory, in whole pieces."""
        share = min(DRIFT_MAX, self.load.drift_per_minute) / DRIFTS_PER_MINUTE
        if self.settled_s is None or share <= 0:
            return
        memory = self.memory
        in_pieces = self.load.is_in_pieces()
        coldest = len(self.load.heats) - 1
        for number in range(coldest):
            piece = self._piece_blocks() if in_pieces[number] else 1
            hot = memory.find(_name(number), len(memory.held))
            cold = memory.find(_name(coldest), len(memory.held))
            wanted = len(hot) * share
            count = int(wanted) + (self.rng.random() < wanted % 1)
            for cools, heats in zip(
                _picked(hot, count, piece, self.rng),
                _picked(cold, count, piece, self.rng),
                strict=False,
            ):
                memory.exchange([cools], _name(coldest))
                memory.exchange([heats], _name(number))

    def _piece_blocks(self) -> int:
        return max(1, int(self.load.piece_bytes / self.times) // self.memory.block_bytes)

    def _counts(self) -> list[int]:
        """Return the blocks of each heat."""
        block = self.memory.block_bytes
        return [max(1, round(heat.bytes / self.times / block)) for heat in self.load.heats]

    def _give(self, blocks: Sequence[int], counts: Sequence[int]) -> None:
        at = 0
        for number, count in enumerate(counts):
            self.memory.exchange(blocks[at : at + count], _name(number))
            at += count


def _name(number: int) -> str:
    return f"heat{number}"


def _picked(blocks: Sequence[int], count: int, piece: int, rng: Random) -> list[int]:
    """Return blocks in pieces of neighbours, from random places."""
    found: dict[int, None] = {}
    while len(found) < min(count, len(blocks)):
        start = rng.randrange(len(blocks))
        for block in blocks[start : start + min(piece, count - len(found))]:
            found[block] = None
    return list(found)


def run(
    size: Size,
    loads: Sequence[Load],
    config: Config,
    seed: int = 1,
    minutes: tuple[float, float] = (SETTLE_MINUTES, PART_MINUTES),
) -> tuple[Seen, ...]:
    """Run the loads one after another, and return what was seen of each.

    `minutes` is the least time to settle, and the time of each load.
    """
    times = factor(size)
    kernel = SimKernel(SERIES, machine(size), seed=seed, block_pages=BLOCK_PAGES)
    kernel.advance(0.001)
    trial = Trial(kernel, times, Random(seed), loads[0])
    trial.begin()
    real = config.rate_max_bytes_per_s or rate_bytes_per_s(size)
    slow = replace(config, rate_max_bytes_per_s=max(1, int(real / times)))
    settle_s, part_s = (one * MINUTE_S for one in minutes)
    end_s = settle_s + (MORE_PARTS_MAX + len(loads)) * part_s
    waiting = list(loads[1:])

    def turn(*, last: bool) -> Event | None:
        """Do what is due at the end of a part."""
        if trial.settled_s is None:
            if trial.rises(part_s) and not last:
                return None
            trial.settled_s = kernel.now_us / 1e6
            return Event(Verb.reload, "the trial")
        if not waiting:
            return Event(Verb.stop, "the trial")
        trial.change(waiting.pop(0))
        return None

    moments: list[virtual_loop.Moment] = [
        (settle_s + part * part_s, partial(turn, last=part == MORE_PARTS_MAX))
        for part in range(MORE_PARTS_MAX + len(loads) + 1)
    ]
    step_s = MINUTE_S / DRIFTS_PER_MINUTE
    moments += [(number * step_s + 1.0, trial.drift) for number in range(ceil(end_s / step_s))]
    moments += [(number * LOOK_S, trial.look) for number in range(ceil(end_s / LOOK_S))]
    virtual_loop.run(kernel, config, slow, end_s, moments, trial.publish)
    assert trial.settled_s is not None
    return tuple(_seen(trial, trial.settled_s + n * part_s, part_s) for n in range(len(loads)))


def _seen(trial: Trial, begin_s: float, part_s: float) -> Seen:
    looks = [one for one in trial.looks if begin_s <= one[0] < begin_s + part_s]
    half = looks[len(looks) // 2 :]
    moved = (half[-1][2] - half[0][2]) / (half[-1][0] - half[0][0])
    return Seen(tuple(one[1] for one in looks), moved * trial.times)
