"""Trials of `tierd simulate` on the simulated kernel, and when it says that it cannot tell."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from tierd.configuration.config import Config
from tierd.profile.load import Heat, Load, Stretch, Work
from tierd.sim import forecast, trial, work_file
from tierd.sim.forecast import Shown, Trials
from tierd.sim.sim_kernel import SimKernel
from tierd.sim.trial import Seen, Size

MIB = 1 << 20
GIB = 1 << 30
LOAD = Load((Heat(20.0, 20 * GIB), Heat(0.0, 70 * GIB)), 64 * MIB)
SIZE = Size(32 * GIB, 96 * GIB)
# Virtual minutes: shorter than the real trials, which take a hundred times as long as a test may.
BRIEF = (0.5, 0.5)


def test_the_daemon_s_own_loop_brings_what_is_hot_up() -> None:

    grown = Load((Heat(20.0, 40 * GIB), Heat(0.0, 60 * GIB)), 64 * MIB)
    first, second = trial.run(SIZE, [LOAD, grown], Config(), minutes=BRIEF)
    blind = SIZE.fast_bytes / LOAD.bytes
    assert first.steady > 0.8 > blind + 0.4
    assert len(first.served) == BRIEF[1] * 60 / trial.LOOK_S
    # Twice as much is hot now, and only 32 of these 40 GiB fit.
    assert second.steady < first.steady
    assert second.worst_minute <= second.steady < 0.85


@pytest.mark.parametrize("gib", [0.25, 1, 64, 4096])
def test_a_machine_of_any_size_becomes_a_model_of_the_same_shape(gib: float) -> None:
    size = Size(int(gib * GIB), int(3 * gib * GIB))
    fast, slow = trial.machine(size).nodes
    assert fast.size_mib + slow.size_mib == trial.MODEL_BYTES // MIB
    assert slow.size_mib == 3 * fast.size_mib
    assert trial.factor(size) == size.bytes / trial.MODEL_BYTES


def test_the_rate_of_a_large_node_is_that_of_the_plan() -> None:
    assert trial.rate_bytes_per_s(Size(64 * GIB, 1)) == 200e6
    assert trial.rate_bytes_per_s(Size(400 * 10**9, 1)) == 1e9


WORK = Work("w", (Stretch(Load((Heat(80.0, 8 * GIB), Heat(0.0, 24 * GIB))), 1.0),), 60, 1000)


@pytest.mark.parametrize(
    ("work", "size", "said"),
    [
        (WORK, Size(16 * GIB, 32 * GIB), ""),
        (replace(WORK, minutes=9), Size(16 * GIB, 32 * GIB), "9 minutes were recorded"),
        (WORK, Size(6 * GIB, 32 * GIB), "touched in nearly every sample"),
        (WORK, Size(16 * GIB, 8 * GIB), "does not fit"),
        # Who writes a workload down says himself what is touched most.
        (replace(WORK, minutes=None), Size(6 * GIB, 32 * GIB), ""),
    ],
)
def test_it_says_when_it_cannot_tell(work: Work, size: Size, said: str) -> None:
    found = forecast.cannot_tell(work, size)
    assert said in found
    assert bool(found) == bool(said)


def test_a_point_between_trials_says_that_it_was_not_simulated() -> None:
    trials = Trials({4 * GIB: Shown((0.45,), 0.4, 1e6), 16 * GIB: Shown((0.98,), 0.9, 2e6)})
    simulated, between = (
        forecast.point(WORK, trials, Size(size * GIB, 32 * GIB)) for size in (4, 8)
    )
    assert (simulated.simulated, between.simulated) == (True, False)
    assert simulated.moved_bytes_per_day == 1e6 * 86_400
    assert between.worst_minute is None
    assert 0.45 < between.guess.served < 0.98


def test_a_trial_settles_for_as_long_as_each_part_serves_more() -> None:
    """With so low a rate, half a minute is far too short."""
    slow = Config(rate_max_bytes_per_s=5_000_000)
    (seen,) = trial.run(SIZE, [LOAD], slow, minutes=BRIEF)
    (default,) = trial.run(SIZE, [LOAD], Config(), minutes=BRIEF)
    assert seen.steady > default.steady - 0.05


@pytest.mark.parametrize(
    ("served", "typical", "seeds"),
    [((0.7, 0.72, 0.0), 0.71, [1, 2]), ((0.4, 0.7, 0.72), 0.7, [1, 2, 3])],
)
def test_a_third_trial_decides_where_two_differ(
    monkeypatch: pytest.MonkeyPatch,
    served: tuple[float, ...],
    typical: float,
    seeds: list[int],
) -> None:
    asked: list[int] = []

    def run(
        _size: Size,
        _loads: Sequence[Load],
        _config: Config,
        seed: int,
        _minutes: tuple[float, float],
    ) -> tuple[Seen, ...]:
        asked.append(seed)
        return (Seen((served[seed - 1],) * 2, 1e6 * seed),)

    monkeypatch.setattr(trial, "run", run)
    size = Size(16 * GIB, 32 * GIB)
    trials = forecast.tried(WORK, [size], Config(), processes=1)
    assert asked == seeds
    shown = forecast.point(WORK, trials, size)
    assert shown.guess.served == pytest.approx(typical)
    assert shown.worst_minute == min(served[seed - 1] for seed in seeds)
    assert shown.guess.low <= min(served[seed - 1] for seed in seeds)


FILE = """{"schema": "tierd.workload/1", "drift_per_minute": "1%", "piece": "2MiB", "memory": [
  {"size": "4GiB", "touches_per_s": 20}, {"size": "12G", "touches_per_s": 1, "zipf": 0.99}]}"""


def test_a_workload_file_is_a_load() -> None:
    (stretch,) = work_file.parse("w", FILE).stretches
    load = stretch.load
    assert load.bytes == pytest.approx(16 * GIB)
    assert load.touches_hz == pytest.approx((4 * 20 + 12 * 1) * GIB, rel=0.01)
    assert (load.piece_bytes, load.drift_per_minute) == (2 * MIB, 0.01)
    assert [one.rate_hz for one in load.heats] == sorted(
        (one.rate_hz for one in load.heats), reverse=True
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("workload/1", "workload/9"),
        ('"4GiB"', '"0GiB"'),
        ('"4GiB"', "4"),
        ('"touches_per_s": 20', '"touches_per_s": -1'),
        ('"touches_per_s": 20', '"touches_per_s": 1e9'),
        ("0.99", "99"),
        ('"1%"', '"1"'),
        ("[", "{"),
    ],
)
def test_what_is_no_workload_is_refused(old: str, new: str) -> None:
    with pytest.raises(work_file.NoWorkload, match=r"^w: "):
        work_file.parse("w", FILE.replace(old, new))


@pytest.mark.parametrize("name", work_file.BUILTIN)
def test_each_workload_that_ships_can_be_simulated(name: str) -> None:
    work = work_file.builtin(name)
    assert work.bytes == pytest.approx(64 * GIB, rel=0.01)
    assert 0 < work.best(8 * GIB) <= 1


def test_a_name_that_does_not_ship_lists_those_that_do() -> None:
    with pytest.raises(work_file.NoWorkload) as error:
        work_file.builtin("nothing")
    assert all(name in error.value.hint for name in work_file.BUILTIN)


def test_only_hot_memory_lies_together_if_the_record_says_no_more() -> None:
    """The share of the neighbours of a block that have the same heat."""
    load = Load(
        (Heat(20.0, GIB // 4), Heat(2.0, GIB // 2), Heat(0.0, GIB)), 16 * MIB, pieces_share=0.5
    )
    hot, warm, cold = _together(load)
    assert hot > 0.95
    assert warm < 0.6
    assert cold < 0.8
    assert min(_together(replace(load, pieces_share=1.0))) > 0.95


def _together(load: Load) -> list[float]:
    kernel = SimKernel("7.3", trial.machine(Size(GIB, GIB)), seed=1, block_pages=trial.BLOCK_PAGES)
    kernel.advance(0.001)
    made = trial.Trial(kernel, 1.0, Random(1), load)
    made.begin()
    found = []
    for number in range(len(load.heats)):
        blocks = set(made.memory.find(f"heat{number}", len(made.memory.held)))
        found.append(sum(block + 1 in blocks for block in blocks) / len(blocks))
    return found
