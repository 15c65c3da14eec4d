"""The machine of the cover letter, simulated: 250 GiB full, 10 GiB hot below, at most 200 MB/s."""

import pytest

from tests.sim.loop import KDAMONDS, MIB, cold, hot, loop
from tierd.configuration.config import Config, Tuner
from tierd.sim import kernel_math

GIB_MIB = 1024
HOT_MIB = 10 * GIB_MIB

# A block of 2 MiB is small compared with any region of nodes of this size.
BLOCK_PAGES = 512

GOAL = f"{KDAMONDS}/1/contexts/0/schemes/0/quotas/goals/0"


@pytest.mark.rare
@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("series", "seconds"), [("6.18", 73), ("7.3", 65)])
def test_demand_has_the_hot_set_up_in_time(series: str, seconds: float) -> None:
    """The rate alone would allow it in 51 s; 73 s are 1.2 times the sum of that and 10 s.

    The bar for both is 65 s. 6.18 misses it: docs/benchmarks/missed.md.
    """
    made = loop(
        series,
        "cover-letter",
        cold("cold", 0, 249 * GIB_MIB),
        hot("hot", 1, HOT_MIB),
        config=Config(tuner=Tuner.demand),
        block_pages=BLOCK_PAGES,
    )
    shares: list[float] = []
    made.do(seconds, lambda: shares.append(made.share("hot", 0)))
    made.run(seconds + 1)
    assert shares[0] >= 0.95
    promoted = made.snapshots[-1].schemes[1].applied_bytes_total
    assert promoted <= 1.25 * HOT_MIB * MIB


def test_the_kernels_integrator_hardly_begins() -> None:
    """`consist` multiplies by the distance of the node from its goal: half a percent."""
    made = loop(
        "6.18",
        "cover-letter",
        cold("cold", 0, 249 * GIB_MIB),
        hot("hot", 1, HOT_MIB),
        config=Config(tuner=Tuner.kernel, auto_intervals=False),
        block_pages=8 * BLOCK_PAGES,
    )
    targets: list[int] = []
    made.do(59, lambda: targets.append(int(made.kernel.read(f"{GOAL}/target_value"))))
    made.run(60)
    assert made.share("hot", 0) == 0
    (promote,) = [one for one in made.snapshots[-1].schemes if one.action == "promote"]
    node = next(one for one in made.snapshots[-1].nodes if one.numa_node == 0)
    used_bp = (node.size_bytes - node.free_bytes) * 10_000 // node.size_bytes
    esz_bp = 10_000
    for _ in range(60):
        esz_bp = kernel_math.consist(esz_bp, kernel_math.goal_score(used_bp, targets[0]))
    assert promote.quota_effective_bytes is not None
    assert abs(promote.quota_effective_bytes - esz_bp / 10_000) <= 1
