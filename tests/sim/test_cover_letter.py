"""The machine of the cover letter, simulated: 250 GiB full, 10 GiB hot below, at most 200 MB/s."""

import pytest

from tests.sim.loop import KDAMONDS, MIB, cold, hot, loop
from tierd.configuration.config import Config, Tuner
from tierd.sim import law

GIB_MIB = 1024
HOT_MIB = 10 * GIB_MIB

# A block of 2 MiB is small beside any region of nodes that large.
BLOCK_PAGES = 512

GOAL = f"{KDAMONDS}/1/contexts/0/schemes/0/quotas/goals/0"


@pytest.mark.rare
@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("series", ["6.18", "7.3"])
def test_demand_has_the_hot_set_up_in_65_seconds(series: str) -> None:
    """At the rate alone it takes 51."""
    made = loop(
        series,
        "cover-letter",
        cold("cold", 0, 249 * GIB_MIB),
        hot("hot", 1, HOT_MIB),
        config=Config(tuner=Tuner.demand),
        block_pages=BLOCK_PAGES,
    )
    shares: list[float] = []
    made.do(65, lambda: shares.append(made.share("hot", 0)))
    made.run(66)
    assert shares[0] >= 0.95
    promoted = made.snapshots[-1].schemes[1].applied_bytes_total
    assert promoted <= 1.25 * HOT_MIB * MIB


def test_the_kernels_integrator_hardly_begins() -> None:
    """`consist` multiplies by how far the node is from its goal, and that is half a percent."""
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
        esz_bp = law.consist(esz_bp, law.goal_score(used_bp, targets[0]))
    assert promote.quota_effective_bytes is not None
    assert abs(promote.quota_effective_bytes - esz_bp / 10_000) <= 1
