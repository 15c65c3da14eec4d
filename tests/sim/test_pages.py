"""Heat that is scattered over pages, on the simulated kernel, in virtual time."""

from dataclasses import dataclass, field
from statistics import median

import pytest

from tests.sim.loop import MIB, Loop, cold, hot, loop
from tierd import planning
from tierd.configuration.config import Config, Tuner
from tierd.kdamonds.inspection import Drift, drift
from tierd.machine import discovery, features
from tierd.sim import zipf
from tierd.sim.workload import Scatter, Shuffle, WorkloadEvent
from tierd.sim.zipf import Store
from tierd.tuner import climbing
from tierd.tuner import gate as pages
from tierd.tuner.climb import Climb, Stage
from tierd.tuner.gate import Gates, Room

FAST = 0
STORE_BYTES = 900 * MIB
# The rate limit of the benchmark: real kernels were measured with it.
RATE = 20_000_000
DEFAULT_RATE = 200_000_000


@dataclass
class Seen:
    """A store on a machine with two tiers, and the share that the fast node served by second."""

    store: Store
    made: Loop
    served: dict[int, float] = field(default_factory=dict)
    best: dict[int, float] = field(default_factory=dict)
    moved_bytes: dict[int, int] = field(default_factory=dict)
    """The bytes that all schemes moved until then, by second."""

    def reached_s(self, share: float) -> float:
        """Return when the fast node first served this share of the best placement."""
        found = (s for s, now in self.served.items() if now >= share * self.best[s])
        return next(found, float("inf"))


def reads(
    series: str,
    seconds: int,
    config: Config,
    skew: float = 0.99,
    *,
    mean_hz: float = 1.0,
    again_s: int = 0,
) -> Seen:
    """Run the loop while a store is read whose values have the heat of Zipf's law."""
    store = zipf.store("store", STORE_BYTES, skew=skew, mean_hz=mean_hz)
    events: list[WorkloadEvent] = [Scatter(store.sets, (0, 1))]
    if again_s:
        events.append(Shuffle(store.names, again_s * 1_000_000))
    made = loop(series, "two-tier", *events, config=config)
    seen = Seen(store, made)

    def look(at: int) -> None:
        memory = made.kernel.memory
        seen.served[at] = store.served(memory, FAST)
        seen.best[at] = store.best(memory, FAST)
        counters = memory.counters.pgmigrate_success
        seen.moved_bytes[at] = counters * 4096

    for second in range(seconds):
        made.do(second, lambda at=second: look(at))  # type: ignore[misc]
    made.run(seconds)
    return seen


DEMAND = Config(tuner=Tuner.demand, rate_max_bytes_per_s=RATE)


@pytest.mark.parametrize("series", ["6.12", "7.2"])
def test_the_hottest_pages_come_up_and_the_exchange_ends(series: str) -> None:
    """6.12 opens and closes sweeps by watermarks, 7.2 by a goal."""
    seen = reads(series, 300, DEMAND)
    assert seen.served[0] < 0.5
    assert seen.reached_s(0.8) <= 40
    assert seen.reached_s(0.9) <= 60
    assert min(seen.served[at] for at in range(150, 300)) >= 0.8 * seen.best[299]
    early, late = (seen.moved_bytes[end] - seen.moved_bytes[end - 60] for end in (60, 299))
    assert late <= 0.25 * early


@pytest.mark.parametrize(("mean_hz", "by_s"), [(0.3, 30), (5.0, 30), (20.0, 30), (100.0, 60)])
def test_how_often_pages_are_touched_matters_little(mean_hz: float, by_s: int) -> None:
    """Neither bar is a number of seconds that somebody chose for one program."""
    at_default = Config(tuner=Tuner.demand, rate_max_bytes_per_s=DEFAULT_RATE)
    seen = reads("7.2", 80, at_default, mean_hz=mean_hz)
    assert seen.reached_s(0.8) <= by_s
    assert min(seen.served[at] for at in range(60, 80)) >= 0.9 * seen.best[79]


def test_visits_bring_more_than_regions_alone() -> None:
    by_page = reads("7.2", 60, DEMAND)
    by_region = reads("7.2", 60, Config(tuner=Tuner.demand, rate_max_bytes_per_s=RATE, cost_bp=0))
    by_page_lacks, by_region_lacks = (one.best[59] - one.served[59] for one in (by_page, by_region))
    assert by_page_lacks <= 0.75 * by_region_lacks
    assert by_region_lacks >= 0.1


def test_when_the_heat_turns_to_other_pages_these_come_up() -> None:
    seen = reads("7.2", 220, DEMAND, again_s=120)
    # The new ranks are drawn at random, so a part of the hot pages is above already.
    assert seen.served[121] < 0.75 * seen.served[119]
    assert max(seen.served[at] for at in range(180, 220)) >= 0.9 * seen.best[219]


def test_pages_that_are_all_alike_stay_where_they_are() -> None:
    seen = reads(
        "7.2", 120, Config(tuner=Tuner.demand, rate_max_bytes_per_s=DEFAULT_RATE), skew=0.0
    )
    # As much is served as memory fits: the fast node keeps some free for pages that come up.
    assert seen.served[119] >= seen.served[0] - pages.AHEAD_SHARE / 2
    late = seen.moved_bytes[119] - seen.moved_bytes[59]
    assert late <= 0.01 * DEFAULT_RATE * 60


@pytest.mark.parametrize("series", ["6.12", "7.2"])
def test_sweeps_that_open_and_close_are_no_drift(series: str) -> None:
    made = loop(series, "two-tier", cold("cold", 0, 440), hot("hot", 1, 94), config=DEMAND)
    found: list[tuple[Drift, ...]] = []
    plan = planning.plan_for(
        made.kernel, discovery.discover(made.kernel, None), features.probe(made.kernel), DEMAND
    )
    for tenth in range(5, 100):
        made.do(tenth / 10, lambda: found.append(drift(made.kernel, plan)))
    made.run(11)
    assert len(found) == 95
    assert set(found) == {()}


def steps_of(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Climb, pages.Seen, Climb]]:
    """Return a list that will have each step of promotion by page: before, seen, and after."""
    steps: list[tuple[Climb, pages.Seen, Climb]] = []
    step = climbing.step

    def spied(before: Climb, seen: pages.Seen, room: Room, idle_s: float) -> tuple[Climb, Gates]:
        after, gates = step(before, seen, room, idle_s)
        steps.append((before, seen, after))
        return after, gates

    monkeypatch.setattr(climbing, "step", spied)
    return steps


def test_sweeps_that_commits_open_come_as_close_as_the_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two commits are 0.2 s and more apart, and most pages of this store look young after that."""
    steps = steps_of(monkeypatch)
    reads("6.12", 60, Config(tuner=Tuner.demand, rate_max_bytes_per_s=DEFAULT_RATE), mean_hz=5.0)
    found = [
        (seen.behind_bytes / seen.bytes_per_s, after.bar_s(seen))
        for before, seen, after in steps
        if before.stage is after.stage is Stage.takes
    ]
    # It has come closer after the first rounds, in which two commits opened both.
    late = found[len(found) // 2 :]
    assert len(late) >= 10
    assert median(behind_s for behind_s, _ in late) <= 0.1
    assert min(behind_s for behind_s, _ in late) >= 0


@pytest.mark.parametrize(("series", "windows"), [("6.12", 1), ("7.2", 4)])
def test_the_first_lag_is_as_long_on_each_kernel(
    monkeypatch: pytest.MonkeyPatch, series: str, windows: int
) -> None:
    """Where a commit does not open them, windows are shorter. A busy kdamond makes both longer."""
    steps = steps_of(monkeypatch)
    reads(series, 5, DEMAND)
    for _, seen, _ in steps:
        assert seen.first_lag_s == pytest.approx(windows * seen.window_s)
        assert 0.018 <= seen.first_lag_s <= 0.03
    assert steps


@pytest.mark.parametrize("series", ["6.12", "7.2"])
def test_room_that_lies_unused_is_filled_with_what_is_lukewarm(series: str) -> None:
    """A page is touched every ten seconds on average, and nothing has to go down for it."""
    store = zipf.store("store", 150 * MIB, skew=0.99, mean_hz=0.1)
    made = loop(
        series, "two-tier", cold("cold", FAST, 200), Scatter(store.sets, (1,)),
        config=Config(tuner=Tuner.demand, rate_max_bytes_per_s=DEFAULT_RATE),
    )  # fmt: skip
    moved: list[int] = []
    made.do(115, lambda: moved.append(made.kernel.memory.counters.pgmigrate_success * 4096))
    made.run(120)
    # Half of its pages have 96 % of its touches.
    assert store.served(made.kernel.memory, FAST) >= 0.99
    # What came up stays: each page moved once.
    assert moved[0] <= 150 * MIB
