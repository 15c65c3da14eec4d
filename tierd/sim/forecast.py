"""What a machine of another size would do with the same programs: the work of `tierd simulate`."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import field
from multiprocessing import get_context
from statistics import median

from tierd.configuration.config import Config, Mode
from tierd.frozen import dataclass, replace
from tierd.profile import curve
from tierd.profile.curve import Anchor, Point
from tierd.profile.load import Work
from tierd.profile.rates import BOUNDS_HZ
from tierd.sim import trial
from tierd.sim.trial import Size

# The least that a profile must have.
RECORDED_MIN = 10

# Virtual minutes of a trial: to settle, and with each load.
MINUTES = (trial.SETTLE_MINUTES, trial.PART_MINUTES)

DAY_S = 86_400

Outcome = tuple[trial.Seen, ...]
"""What each load of one trial came to."""

# How much of a tier the programs may fill. With more, an allocation may find no room.
FULL = 0.97
# Slow memory that is added if its size is not given: what does not fit above, and some room.
SPARE = 1.15

# Trials of a size differ by chance: by what lies where at first, and which regions DAMON samples.
# Where the first ones differ much, one more decides, because the median of three drops the outlier.
SEEDS = (1, 2)
SEED_MORE = 3


@dataclass(frozen=True, slots=True)
class Shown:
    """What the trials of one size showed."""

    served: tuple[float, ...]
    """The share that was served over all the time, in each trial."""
    worst_minute: float
    """The worst of all trials."""
    moved_bytes_per_s: float

    @property
    def typical(self) -> float:
        return median(self.served)

    @property
    def differ(self) -> bool:
        """True if the trials differ by more than trials usually do."""
        return max(self.served) - min(self.served) > curve.TRIAL_ERROR


@dataclass(frozen=True, slots=True)
class Trials:
    """What the trials showed, by the size of fast memory."""

    seen: dict[int, Shown] = field(default_factory=dict)

    @property
    def anchors(self) -> list[Anchor]:
        return [Anchor(size, shown.typical) for size, shown in self.seen.items()]


def slow_bytes(work: Work, fast_bytes: int, given: int | None) -> int:
    """Return the size of the slow memory: as given, or as much as is needed."""
    if given is not None:
        return given
    left = max(work.bytes * SPARE - fast_bytes, 0.1 * work.bytes)
    return round(left / (1 << 20) + 0.5) << 20


def tried(work: Work, sizes: Sequence[Size], config: Config, processes: int) -> Trials:
    """Run the trials of each size, several at once."""
    # Nodes and cgroups of a configuration are those of another machine.
    config = replace(config, mode=Mode.manage, tiers=None, cgroups=(), shares=())
    seen = {size: list[Outcome]() for size in sizes}
    jobs = [(size, seed) for size in sizes for seed in SEEDS]
    while jobs:
        for (size, _), found in zip(jobs, _run(work, jobs, config, processes), strict=True):
            seen[size].append(found)
        jobs = [
            (size, SEED_MORE)
            for size, trials in seen.items()
            if len(trials) == len(SEEDS) and _shown(work, trials).differ
        ]
    return Trials({size.fast_bytes: _shown(work, trials) for size, trials in seen.items()})


def _run(
    work: Work, jobs: Sequence[tuple[Size, int]], config: Config, processes: int
) -> Iterator[Outcome]:
    """Run a trial for each size and seed."""
    loads = [stretch.load for stretch in work.stretches]
    if processes == 1 or len(jobs) == 1:
        yield from (trial.run(size, loads, config, seed, MINUTES) for size, seed in jobs)
        return
    # A new process knows nothing of this one's sockets and signals.
    with ProcessPoolExecutor(min(processes, len(jobs)), get_context("spawn")) as pool:
        waiting = [
            pool.submit(trial.run, size, loads, config, seed, MINUTES) for size, seed in jobs
        ]
        yield from (one.result() for one in waiting)


def _shown(work: Work, trials: Sequence[Outcome]) -> Shown:
    """Return what trials of the same size showed, each load by its share of the time."""
    reach = [one.share * one.load.reach_hz for one in work.stretches]
    whole = sum(reach)
    served = tuple(
        sum(part * one.steady for part, one in zip(reach, seen, strict=True)) / whole
        if whole
        else 1.0
        for seen in trials
    )
    moved = (
        sum(
            stretch.share * one.moved_bytes_per_s
            for stretch, one in zip(work.stretches, seen, strict=True)
        )
        for seen in trials
    )
    worst = min(one.worst_minute for seen in trials for one in seen)
    return Shown(served, worst, median(moved))


def point(work: Work, trials: Trials, size: Size) -> Point:
    """Return what a size would do."""
    seen = trials.seen.get(size.fast_bytes)
    share = curve.served(work, trials.anchors, size.fast_bytes)
    found = None if seen is None else seen.served
    return Point(
        fast_bytes=size.fast_bytes,
        slow_bytes=size.slow_bytes,
        guess=curve.guess(work, share, size.fast_bytes, found),
        best=work.best(curve.USABLE * size.fast_bytes),
        simulated=seen is not None,
        worst_minute=None if seen is None else seen.worst_minute,
        moved_bytes_per_day=None if seen is None else seen.moved_bytes_per_s * DAY_S,
        cannot_tell=cannot_tell(work, size),
    )


def cannot_tell(work: Work, size: Size) -> str:
    """Return why the figures of a size cannot be trusted, in words; empty if they can."""
    if work.minutes is not None and work.minutes < RECORDED_MIN:
        return f"{work.minutes} minutes were recorded, and {RECORDED_MIN} are the least"
    if work.bytes > FULL * size.bytes:
        return "the memory in use does not fit into this machine"
    always = max(
        sum(heat.bytes for heat in one.load.heats if heat.rate_hz >= BOUNDS_HZ[-1])
        for one in work.stretches
    )
    if work.minutes is not None and always > curve.USABLE * size.fast_bytes:
        return (
            "more memory than this is touched in nearly every sample, and which of it is touched "
            "most cannot be seen"
        )
    return ""
