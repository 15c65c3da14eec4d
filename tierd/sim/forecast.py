"""What a machine of another size would do with the same programs: the work of `tierd simulate`."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context

from tierd.configuration.config import Config, Mode
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

# How much of a tier the programs may fill. With more, an allocation may find no room.
FULL = 0.97
# Slow memory that is added if its size is not given: what does not fit above, and some room.
SPARE = 1.15


@dataclass(frozen=True, slots=True)
class Trials:
    """What the trials showed, by the size of fast memory."""

    seen: dict[int, tuple[float, float, float]] = field(default_factory=dict)
    """The share over all the time, the worst minute, and the bytes moved per second."""

    @property
    def anchors(self) -> list[Anchor]:
        return [Anchor(size, shares[0]) for size, shares in self.seen.items()]


def slow_bytes(work: Work, fast_bytes: int, given: int | None) -> int:
    """Return the size of the slow memory: as given, or as much as is needed."""
    if given is not None:
        return given
    left = max(work.bytes * SPARE - fast_bytes, 0.1 * work.bytes)
    return round(left / (1 << 20) + 0.5) << 20


def tried(work: Work, sizes: Sequence[Size], config: Config, processes: int) -> Trials:
    """Run a trial of each size, several at once."""
    loads = [stretch.load for stretch in work.stretches]
    # Nodes and cgroups of a configuration are those of another machine.
    config = replace(config, mode=Mode.manage, tiers=None, cgroups=(), shares=())
    if processes > 1 and len(sizes) > 1:
        # A new process knows nothing of this one's sockets and signals.
        with ProcessPoolExecutor(min(processes, len(sizes)), get_context("spawn")) as pool:
            waiting = [pool.submit(trial.run, one, loads, config, 1, MINUTES) for one in sizes]
            found = [one.result() for one in waiting]
    else:
        found = [trial.run(size, loads, config, 1, MINUTES) for size in sizes]
    return Trials(
        {size.fast_bytes: _weighed(work, seen) for size, seen in zip(sizes, found, strict=True)}
    )


def _weighed(work: Work, seen: Sequence[trial.Seen]) -> tuple[float, float, float]:
    touches = [one.share * one.load.touches_hz for one in work.stretches]
    whole = sum(touches)
    served = (
        sum(part * one.steady for part, one in zip(touches, seen, strict=True)) / whole
        if whole
        else 1.0
    )
    moved = sum(
        stretch.share * one.moved_bytes_per_s
        for stretch, one in zip(work.stretches, seen, strict=True)
    )
    return served, min(one.worst_minute for one in seen), moved


def point(work: Work, trials: Trials, size: Size) -> Point:
    """Return what a size would do."""
    seen = trials.seen.get(size.fast_bytes)
    share = curve.served(work, trials.anchors, size.fast_bytes)
    return Point(
        fast_bytes=size.fast_bytes,
        slow_bytes=size.slow_bytes,
        guess=curve.guess(work, share, size.fast_bytes, simulated=seen is not None),
        best=work.best(curve.USABLE * size.fast_bytes),
        simulated=seen is not None,
        worst_minute=None if seen is None else seen[1],
        moved_bytes_per_day=None if seen is None else seen[2] * DAY_S,
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
