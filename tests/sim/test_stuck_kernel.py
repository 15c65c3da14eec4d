"""The real loop on a kernel that makes it wait: it stays alive, reports it, and can be stopped."""

from errno import EBUSY
from itertools import pairwise

import pytest

from tests.sim.loop import KDAMONDS, WATCHDOG_S, Loop, Spins, hot, loop
from tests.sim.test_daemon import killed, taken_over, tree
from tierd.errors import ExitCode
from tierd.feedback import Tuning
from tierd.kdamonds import restore
from tierd.kdamonds.kernel import Kernel
from tierd.loop import daemon
from tierd.loop.systemd import FEEDS_PER_WATCHDOG
from tierd.record.snapshot import State
from tierd.serving.inbox import Answer, Event, Verb
from tierd.sim.sim_kernel import InjectedFailure, SimClock, SimKernel

NEW = "7.3"

# The longest time that a stop may take; systemd allows a minute.
STOP_S = 5.0


def busy_for_ever(kernel: SimKernel) -> None:
    """Every file answers EBUSY from now on."""
    kernel.fail(InjectedFailure(kernel.operations + 1, EBUSY, for_ever=True))


def gaps_s(made: Loop) -> list[float]:
    return [later - earlier for earlier, later in pairwise(made.fed_s)]


@pytest.mark.parametrize("series", ["6.12", NEW])
def test_a_kernel_that_is_busy_for_ever_is_waited_for_with_signs_of_life(series: str) -> None:
    made = loop(series, block_pages=512)
    made.do(5.5, lambda: busy_for_ever(made.kernel))
    made.stop(100.2)
    before = tree(made.kernel)
    assert made.run(1000) is not ExitCode.ok
    assert made.kernel.now_us / 1e6 <= 100.2 + STOP_S
    assert max(gaps_s(made)) <= WATCHDOG_S / FEEDS_PER_WATCHDOG
    late = made.before(99)
    assert late.state is State.degraded
    assert "EBUSY" in late.reason
    assert "tierd tries again" in late.reason
    assert made.names()[-2:] == ["stopping", "restore_failed"]
    assert "could not put anything back" in made.events[-1].text
    assert "tierd restore" in made.events[-1].text
    assert made.disk.state is not None, "what is left undone stays on disk"
    made.kernel.heal()
    restore.restore_all(Kernel.patient(made.kernel, SimClock(made.kernel)), made.disk.state)
    assert tree(made.kernel) == before


def test_rounds_come_one_after_another_however_long_the_kernel_is_busy() -> None:
    made = loop(NEW, block_pages=512)
    made.do(5.5, lambda: busy_for_ever(made.kernel))
    made.do(60.5, made.kernel.heal)
    made.run(80)
    rounds_s = [one.at for one in made.snapshots]
    assert max(later - earlier for earlier, later in pairwise(rounds_s)) <= STOP_S
    assert made.snapshots[-1].state is State.active


def test_a_stop_is_heard_in_the_middle_of_a_wait() -> None:
    made = loop(NEW, block_pages=512)
    made.do(5.5, lambda: busy_for_ever(made.kernel))
    made.stop(8.05)
    made.run(1000)
    stopped = next(one.at for one in made.events if one.event == "stopping")
    assert stopped <= 8.05 + 0.2


def test_a_stop_with_damon_held_by_another_and_a_module_to_be_put_back() -> None:
    """A module that was on cannot start while a kdamond runs: EBUSY, and not because of a lock."""
    made = loop(NEW, block_pages=512)

    def others_run() -> None:
        taken_over(made.kernel)
        folder = f"{KDAMONDS}/0/contexts"
        made.kernel.write(f"{folder}/nr_contexts", "1")
        made.kernel.write(f"{folder}/0/operations", "paddr")
        made.kernel.write(f"{folder}/0/targets/nr_targets", "1")
        regions = f"{folder}/0/targets/0/regions"
        made.kernel.write(f"{regions}/nr_regions", "1")
        made.kernel.write(f"{regions}/0/start", str(0x4000_0000))
        made.kernel.write(f"{regions}/0/end", str(0x4400_0000))
        made.kernel.write(f"{KDAMONDS}/0/state", "on")

    made.do(5.5, others_run)
    made.stop(9.5)
    assert made.run(1000) is not ExitCode.ok
    assert made.kernel.now_us / 1e6 <= 9.5 + STOP_S
    assert "damon_stat" in made.events[-1].text
    assert made.kernel.read(f"{KDAMONDS}/0/state") == "on", "it is not ours"


def test_what_nobody_waits_for_any_more_is_not_done() -> None:
    """A daemon that was frozen finds commands whose clients have given up."""
    made = loop(NEW, block_pages=512)
    answers: list[Answer] = []
    made.script.at(3.5, lambda: Event(Verb.pause, "api", answers.append, lambda: False))
    made.run(8)
    assert (answers, made.names().count("given_up")) == ([], 1)
    assert "pause" not in made.names()
    assert made.snapshots[-1].state is State.active


def test_before_a_stop_nothing_else_is_begun() -> None:
    made = loop(NEW, block_pages=512)
    made.ask(5.5, Verb.pause)
    made.stop(5.5)
    assert made.run(1000) is ExitCode.ok
    assert [answer.exit_code for answer in made.answers] == [ExitCode.not_running]
    assert "pause" not in made.names()


@pytest.mark.parametrize("series", ["6.12", NEW])
def test_what_was_to_be_written_to_a_plan_that_is_gone_is_forgotten(series: str) -> None:
    """Otherwise the loop spins, because it waits for a time that is past."""
    pending = 0
    for tenth in range(12):
        made = loop(series, "two-tier", hot("hot", 1, 256), block_pages=512)
        outside = made.outside()
        running = killed(made, 2)
        for _ in range(tenth):
            running = daemon.settle(outside, running)
            made.kernel.advance(0.1)
        pending += running.tuning.due_s is not None
        taken_over(made.kernel)
        running = daemon.tick(outside, running)
        assert running.applied is None
        assert running.tuning == Tuning()
    assert pending, "nothing was to be written"


def test_a_loop_that_spins_is_found() -> None:
    made = loop(NEW, block_pages=512)

    def wait() -> None:
        for _ in range(100):
            made.script.wait(0.0)

    with pytest.raises(Spins):
        wait()
    for _ in range(100):
        made.script.at(0.0, lambda: Event(Verb.hotplug, "test"))
        made.script.wait(0.0)
