"""The simulated kernel ranks the configurations as real kernels do.

What real ones did is in docs/benchmarks/data: the cells of the benchmark are the traces. The same
layout, sizes and phases run here, and where two configurations were clearly apart there, they
have to be in the same order here. How far apart is not asked.
"""

import statistics
from collections.abc import Iterator
from functools import cache, partial
from itertools import combinations

import pytest

from bench import cells
from bench.configuration import CAP_BYTES_PER_S
from bench.figures import mean_over
from tests.sim.loop import cold, hot, loop
from tierd.configuration.config import Config, Tuner
from tierd.sim.memory import PageSet
from tierd.sim.workload import ChangeRate, Place, WorkloadEvent

FAST, SLOW = 0, 1
MIB = 1 << 20
HOT_MIB = 94
HOT_HZ = 100.0

# What the simulated kernel can run; the others are not tierd's, and it has no NUMA balancing.
TUNERS = {"none": None, "kernel": Tuner.kernel, "emulated": Tuner.emulated, "demand": Tuner.demand}
SERIES = ("6.12", "6.18", "7.2")
# The phases of a boot; a shift begins where the static phase has ended.
SCENES = {"full": ("static", "shift-1"), "half-empty": ("half-empty",)}
PHASES = tuple(phase for phases in SCENES.values() for phase in phases)

# A share of the hot accesses over a whole phase. Trials of one configuration differ by less.
APART = 0.2

# At most as long as the real phases.
STATIC_S = 45.0
SHIFT_S = 30.0


@cache
def seen_in_vms(series: str, phase: str) -> dict[str, float]:
    """The mean residency of the hot set per configuration, as the median of its trials."""
    found: dict[str, list[float]] = {}
    for cell in cells.load(cells.FOLDER):
        if (cell.key.series, cell.key.phase) == (series, phase):
            series_seen = cell.seen["series"]
            share = mean_over(series_seen["t"], series_seen["hit"])
            found.setdefault(cell.key.configuration, []).append(share)
    return {name: statistics.median(shares) for name, shares in found.items() if name in TUNERS}


def happenings(scene: str) -> Iterator[WorkloadEvent]:
    yield cold("cold", FAST, 250 if scene == "half-empty" else 440)
    yield hot("hot0", SLOW, HOT_MIB)
    yield Place(PageSet("hot1", 0.0), HOT_MIB * MIB, (SLOW,))
    if scene == "full":
        yield ChangeRate("hot0", 0.0, int(STATIC_S * 1e6))
        yield ChangeRate("hot1", HOT_HZ, int(STATIC_S * 1e6))


# Half a minute for each series; this one runs every kind of configuration.
OFTEN = {"7.2"}


@cache
def simulated(series: str, name: str, scene: str) -> dict[str, float]:
    """The same figures from the simulated kernel, for all phases of a boot."""
    tuner = TUNERS[name]
    if tuner is None:
        return dict.fromkeys(PHASES, 0.0)
    config = Config(tuner=tuner, rate_max_bytes_per_s=CAP_BYTES_PER_S)
    made = loop(series, "two-tier", *happenings(scene), config=config)
    phases = [("hot0", 0.0, STATIC_S)]
    if scene == "full":
        phases.append(("hot1", STATIC_S, STATIC_S + SHIFT_S))
    points: dict[str, list[tuple[float, float]]] = {watched: [] for watched, _, _ in phases}

    def look(watched: str) -> None:
        points[watched].append((made.kernel.now_us / 1e6, made.share(watched, FAST)))

    for watched, began_s, end_s in phases:
        for number in range(1, int((end_s - began_s) * 2)):
            made.do(began_s + number / 2, partial(look, watched))
    made.run(phases[-1][2])
    means = [mean_over(*zip(*points[watched], strict=True)) for watched, _, _ in phases]
    return dict(zip(SCENES[scene], means, strict=True))


# Two minutes of the simulated machine for each configuration.
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize(
    "series", [pytest.param(one, marks=[pytest.mark.rare] * (one not in OFTEN)) for one in SERIES]
)
def test_what_is_ahead_on_a_real_kernel_is_ahead_on_the_simulated_one(
    series: str, scene: str
) -> None:
    compared = 0
    for phase in SCENES[scene]:
        real = seen_in_vms(series, phase)
        for one, other in combinations(real, 2):
            if abs(real[one] - real[other]) < APART:
                continue
            ours = [simulated(series, name, scene)[phase] for name in (one, other)]
            assert (real[one] > real[other]) == (ours[0] > ours[1]), (phase, one, other, ours)
            compared += 1
    if not compared:
        pytest.skip(f"{scene} on {series}: no two configurations have been measured yet")
