"""The simulated kernels behave over a minute as the real ones did: see trace.py."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.contract.simulated import SimSubject
from tests.sim.trace import DEMOTED_BYTES, HOT_BYTES, RECORDED, ROUNDS, WARM_BYTES, Trace, trace
from tierd.sim import machine_model
from tierd.sim.sim_kernel import SimKernel

PAGE = 4096
MIB = 2**20

# Every series that was recorded.
SERIES = tuple(sorted(path.stem.removeprefix("trace-") for path in RECORDED.glob("*.json")))


@cache
def simulated(series: str) -> Trace:
    return trace(SimSubject(SimKernel(series, machine_model.load("two-tier"), seed=3)))


def real(series: str) -> dict[str, Any]:
    path: Path = RECORDED / f"trace-{series}.json"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_there_are_recordings() -> None:
    assert SERIES == ("6.12", "6.16", "6.18", "7.2", "7.3")


EACH = pytest.mark.parametrize("series", SERIES)


@EACH
def test_the_hot_set_is_found_with_about_as_many_regions(series: str) -> None:
    for ours, theirs in zip(simulated(series)["monitor"], real(series)["monitor"], strict=True):
        assert ours["hot_mib"] == pytest.approx(HOT_BYTES // MIB, abs=4)
        assert theirs["hot_mib"] == pytest.approx(HOT_BYTES // MIB, abs=4)
        assert theirs["regions"] / 3 <= ours["regions"] <= 3 * theirs["regions"]


@EACH
def test_promotion_takes_as_many_rounds(series: str) -> None:
    def rounds_until(trace: Trace, share: float) -> int:
        wanted = share * HOT_BYTES / PAGE
        return next(r["rounds"] for r in trace["promote"] if r["arrived_pages"] >= wanted)

    for share in (0.25, 0.5, 0.75, 0.9):
        ours, theirs = (rounds_until(found, share) for found in (simulated(series), real(series)))
        assert abs(ours - theirs) <= 1.5 * ROUNDS


@EACH
def test_demotion_is_as_far_at_any_time(series: str) -> None:
    """Within a window or two: the address of the first old page differs between boots."""
    window_pages = 20 * MIB // PAGE
    for ours, theirs in zip(simulated(series)["demote"], real(series)["demote"], strict=True):
        assert abs(ours["tried_pages"] - theirs["tried_pages"]) <= 2 * window_pages
        assert abs(ours["arrived_pages"] - theirs["arrived_pages"]) <= DEMOTED_BYTES / PAGE / 8


@EACH
def test_a_walk_under_a_quota_tries_as_much(series: str) -> None:
    (ours,), (theirs,) = simulated(series)["walk"], real(series)["walk"]

    def per_round(row: dict[str, int], name: str) -> float:
        return row[name] / row["rounds"]

    for name in ("tried_pages", "exceeded"):
        assert per_round(ours, name) == pytest.approx(per_round(theirs, name), rel=0.05)


@EACH
def test_memory_that_is_touched_now_and_then_stays_young_where_it_does(series: str) -> None:
    def always_young(found: Trace) -> bool:
        return min(row["young_mib"] for row in found["ages"]) >= WARM_BYTES // MIB

    assert always_young(simulated(series)) == always_young(real(series))
