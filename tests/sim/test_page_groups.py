"""Memory as groups of alike pages: no page is lost, and visits find what they find page by page."""

from random import Random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fixtures.pages import PAGE_BYTES
from tests.sim.loop import MIB, Disk, Loop, Script
from tierd.configuration.config import Config, Tuner
from tierd.sim import zipf
from tierd.sim.binomial import drawn
from tierd.sim.block_memory import BlockMemory
from tierd.sim.context_spec import Filter, FilterType
from tierd.sim.machine_model import load
from tierd.sim.memory import PageSet
from tierd.sim.page_groups import GroupMemory
from tierd.sim.sim_kernel import SimKernel
from tierd.sim.workload import Scatter, Workload

FAST, SLOW = 0, 1
COLD, HOT = PageSet("cold"), PageSet("hot", rate_hz=20.0, at_random=True)
YOUNG = (Filter(FilterType.young, matching=True, allow=True),)
S = 1_000_000


def memory(cell_pages: int = 512) -> GroupMemory:
    made = GroupMemory(load("two-tier"), Random(1), cell_pages=cell_pages)
    made.add_set(COLD)
    made.add_set(HOT)
    return made


@pytest.mark.parametrize(
    ("trials", "chance"),
    [(1, 0.3), (40, 0.02), (500, 0.5), (500, 0.99), (4000, 1e-17), (4000, 1e-310)],
)
def test_draws_have_the_mean_and_the_variance_of_the_binomial(trials: int, chance: float) -> None:
    rng = Random(1)
    found = [drawn(rng, trials, chance) for _ in range(20_000)]
    mean, variance = trials * chance, trials * chance * (1 - chance)
    assert fmean(found) == pytest.approx(mean, abs=0.02 + 0.02 * variance**0.5)
    assert fmean((one - mean) ** 2 for one in found) == pytest.approx(variance, rel=0.05, abs=0.01)
    assert 0 <= min(found) <= max(found) <= trials


def test_sizes_are_those_of_memory_that_is_kept_page_by_page() -> None:
    mine, other = memory(), BlockMemory(load("two-tier"), Random(1))
    for nid in (FAST, SLOW):
        assert mine.managed_pages(nid) == other.managed_pages(nid)
        assert mine.free_pages(nid) == other.free_pages(nid)


STEP = st.tuples(
    st.sampled_from(["populate", "release", "migrate", "mix", "shift", "kswapd", "look"]),
    st.sampled_from(["cold", "hot"]),
    st.sampled_from([FAST, SLOW]),
    st.integers(0, 60_000),
)


@given(st.lists(STEP, max_size=20), st.sampled_from([64, 4096]))
@settings(max_examples=40, deadline=None)
def test_no_page_is_ever_lost(steps: list[tuple[str, str, int, int]], cell_pages: int) -> None:
    mem = memory(cell_pages)
    mem.demotion_enabled = True
    system = {nid: mem.managed_pages(nid) - mem.free_pages(nid) for nid in mem.nodes}
    rng = Random(2)
    for now, (step, name, nid, count) in enumerate(steps):
        start, end = count * PAGE_BYTES, 3 * count * PAGE_BYTES
        match step:
            case "populate":
                mem.populate(name, count, [nid, 1 - nid])
            case "release":
                mem.release(name, count, nid)
            case "migrate":
                mem.pick(start, end, (), now, 1.0).away_from(nid).migrate([nid])
            case "mix":
                mem.mix(["cold", "hot"], rng)
            case "shift":
                mem.shift(name, "cold" if name == "hot" else "hot", 0.5, rng)
            case "look":
                mem.pick(start, end, YOUNG, now, 0.5)
            case _:
                mem.nodes[nid].kswapd_awake = True
                mem.run_kswapd(now * S)
    for nid in mem.nodes:
        groups = [pages for cell, known in enumerate(mem.cells) for pages in known.values()
                  if mem.nid_of(cell) == nid]  # fmt: skip
        sets = mem.pages_of_set("cold", nid) + mem.pages_of_set("hot", nid)
        assert sum(groups) == sets
        assert all(pages > 0 for pages in groups)
        assert mem.managed_pages(nid) - mem.free_pages(nid) == sets + system[nid]


def test_a_visit_finds_what_was_touched_since_the_last_one() -> None:
    mem = memory()
    mem.populate("hot", 50_000, [SLOW])
    everything = max(part.end for part in mem.ranges[SLOW])
    assert mem.pick(0, everything, YOUNG, S, 1.0).pages == 50_000, "young since they were filled"
    assert mem.pick(0, everything, YOUNG, S, 1.0).pages == 0, "a look makes them old"
    found = mem.pick(0, everything, YOUNG, S + 50_000, 1.0).pages
    assert found == pytest.approx(50_000 * 0.632, rel=0.02), "1 - exp(-20 Hz x 50 ms)"


def test_each_page_is_visited_once_wherever_a_quota_ends() -> None:
    mem = memory(4096)
    mem.populate("hot", 50_000, [SLOW])
    ends = [*range(0, max(part.end for part in mem.ranges[SLOW]), 5 * MIB + PAGE_BYTES)]
    pieces = zip(ends, [*ends[1:], max(part.end for part in mem.ranges[SLOW])], strict=True)
    assert sum(mem.pick(start, end, YOUNG, S, 1.0).pages for start, end in pieces) == 50_000


def test_filters_decide_as_they_do_page_by_page() -> None:
    mem = memory()
    mem.add_set(PageSet("file", anon=False))
    mem.populate("cold", 1_000, [SLOW])
    mem.populate("file", 500, [SLOW])
    whole = (0, max(part.end for part in mem.ranges[SLOW]))
    none = (
        Filter(FilterType.young, matching=True, allow=False),
        Filter(FilterType.anon, matching=True, allow=False),
        Filter(FilterType.anon, matching=False, allow=False),
    )
    assert mem.pick(*whole, none, S, 1.0).pages == 0
    assert mem.pick(*whole, YOUNG, 2 * S, 1.0).pages == 0, "the first filter has made them old"
    assert mem.pick(*whole, none[1:2], 2 * S, 1.0).pages == 500
    old = (Filter(FilterType.young, matching=True, allow=False),)
    assert mem.pick(*whole, old, 2 * S, 1.0).pages == 1_500


def store_after(
    seconds: int, block_pages: int | None, cell_pages: int | None, seed: int
) -> tuple[float, float]:
    """Return what a fast node serves of a store, and the memory that moved, after some time."""
    store = zipf.store("store", 900 * MIB, skew=0.99, mean_hz=1.0)
    kernel = SimKernel(
        "7.2",
        load("two-tier"),
        seed=seed,
        workload=Workload([Scatter(store.sets, (FAST, SLOW))], seed=seed),
        block_pages=block_pages,
        cell_pages=cell_pages,
    )
    kernel.advance(0.001)
    config = Config(tuner=Tuner.demand, rate_max_bytes_per_s=20_000_000)
    Loop(kernel, Script(kernel), Disk(), config).run(seconds)
    moved_bytes = kernel.memory.counters.pgmigrate_success * PAGE_BYTES
    return store.served(kernel.memory, FAST), moved_bytes / MIB


@pytest.mark.parametrize("seed", [1, 2])
def test_the_loop_serves_and_moves_as_much_as_page_by_page(seed: int) -> None:
    """The bounds are the spread of four seeds."""
    served, moved = store_after(25, 1, None, seed)
    for cell_pages in (64, 512):
        served_too, moved_too = store_after(25, None, cell_pages, seed)
        assert served_too == pytest.approx(served, abs=0.03)
        assert moved_too == pytest.approx(moved, rel=0.5)
