"""What comes up by page keeps to the rate limit, however long the lag is."""

from dataclasses import replace

import pytest

from tests.sim.loop import MIB, loop
from tierd.configuration.config import Config
from tierd.sim.memory import PageSet
from tierd.sim.workload import Place

RATE = 2_000_000
WARM_MIB = 96
# With so low a rate a round takes a minute, and the lag becomes as long as it may: 25 s.
FOR_S = 75


@pytest.mark.parametrize("series", ["6.18", "7.2"])
def test_warm_memory_comes_up_at_the_rate(series: str) -> None:
    warm = Place(PageSet("warm", 5.0, at_random=True), WARM_MIB * MIB, (1,))
    made = loop(
        series, "two-tier", warm, block_pages=8,
        config=replace(Config(), rate_max_bytes_per_s=RATE),
    )  # fmt: skip
    here: list[float] = []
    for second in range(FOR_S):
        made.do(second, lambda: here.append(made.share("warm", 0) * WARM_MIB * MIB))
    made.run(FOR_S)
    assert here[-1] > 20 * MIB, "it comes up at all"
    # A sweep visits up to eight times the rate limit, until the next tick shows what moves.
    at_once = 2 * 8 * RATE
    for seconds in (5, 10, 20):
        most = max(now - then for then, now in zip(here, here[seconds:], strict=False))
        assert most <= RATE * seconds + at_once
