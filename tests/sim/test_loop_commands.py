"""The real loop on the simulated kernel: commands to it, and their immediate effect."""

from dataclasses import dataclass, replace
from errno import EINVAL
from functools import partial
from typing import Any

import pytest

from tests.sim.loop import KDAMONDS, Loop, Script, hot, loop
from tests.sim.test_daemon import NEW, taken_over
from tierd.configuration.config import CgroupClass, CgroupMode, Config, Promoter, Tuner
from tierd.errors import Conflict, ExitCode
from tierd.kdamonds import restore
from tierd.kdamonds.kernel import Kernel
from tierd.loop import supervise
from tierd.loop.daemon import RESCAN_S
from tierd.machine.numa_balancing import PROMOTE_RATE_LIMIT
from tierd.record.snapshot import Snapshot, State
from tierd.serving.inbox import Event, Verb
from tierd.sim.sim_kernel import SimClock, SimKernel
from tierd.sysfs import SysfsError

RELOADS = {
    "nothing": Config(),
    "rate": Config(rate_max_bytes_per_s=10_000_000),
    "headroom": Config(headroom_bp=700),
    "tuner": Config(tuner=Tuner.emulated),
}

# The longest window that a plan has.
WINDOW_S = 1.0


@pytest.mark.parametrize("series", ["6.12", NEW])
def test_nothing_is_started_during_a_pause(series: str) -> None:
    """On kernels without `pause` a pause is `off`, as if all kdamonds had ended."""
    made = loop(series, block_pages=512)
    made.ask(4.5, Verb.pause)
    seen: list[list[str]] = []
    for second in (6, 20, 39):
        made.do(second, lambda: seen.append(holds(made.kernel)))
    made.run(40)
    assert seen == [["held", "held"]] * 3
    assert "kdamond_died" not in made.names()
    assert made.before(39).state is State.paused


def holds(kernel: SimKernel) -> list[str]:
    """True if no kdamond moves anything."""
    found = []
    for index in range(int(kernel.read(f"{KDAMONDS}/nr_kdamonds"))):
        folder = f"{KDAMONDS}/{index}"
        off = kernel.read(f"{folder}/state") == "off"
        held = off or kernel.read(f"{folder}/contexts/0/pause") == "Y"
        found.append("held" if held else "moves")
    return found


def test_a_pause_outlasts_those_who_took_over() -> None:
    made = loop(NEW, block_pages=512)
    made.ask(3.5, Verb.pause)
    made.do(10.5, lambda: taken_over(made.kernel))
    made.do(60.5, lambda: made.kernel.write(f"{KDAMONDS}/nr_kdamonds", "0"))
    seen: list[str] = []
    made.do(299, lambda: seen.append(made.kernel.read(f"{KDAMONDS}/nr_kdamonds")))
    made.ask(300.5, Verb.resume)
    made.run(320)
    assert seen == ["0"], "nothing moves until `tierd resume`"
    assert made.snapshots[-1].state is State.active


@pytest.mark.parametrize("series", ["6.12", NEW])
def test_who_takes_over_during_a_pause_leaves_a_pause_and_one_resume_ends_it(series: str) -> None:
    made = loop(series, block_pages=512)
    made.ask(3.5, Verb.pause)
    made.do(10.5, lambda: taken_over(made.kernel))
    made.do(60.5, lambda: made.kernel.write(f"{KDAMONDS}/nr_kdamonds", "0"))
    made.ask(70.5, Verb.resume)
    made.run(80)
    assert [made.before(second).state for second in (12, 59, 69)] == [State.paused] * 3
    assert [answer.exit_code for answer in made.answers] == [0, 0]
    assert made.before(72).state is State.active
    told = [event.text for event in made.events if event.event == "degraded"]
    assert len(told) == 1
    assert "taken over" in told[0]


@pytest.mark.parametrize("series", ["6.12", NEW])
def test_who_removes_our_kdamonds_during_a_pause_leaves_a_pause(series: str) -> None:
    made = loop(series, block_pages=512)
    made.ask(3.5, Verb.pause)
    made.do(10.5, lambda: removed(made.kernel))
    made.ask(20.5, Verb.resume)
    made.run(30)
    assert made.before(19).state is State.paused
    assert [answer.exit_code for answer in made.answers] == [0, 0]
    assert made.snapshots[-1].state is State.active


def test_a_stop_says_what_somebody_has_made_unprovable_and_keeps_the_record() -> None:
    """On 6.12 a pause is `off`; then only the values below a kdamond prove that it is ours."""
    made = loop("6.12", block_pages=512)
    path = f"{KDAMONDS}/1/contexts/0/schemes/0/quotas/bytes"
    made.ask(3.5, Verb.pause)
    made.do(10.5, lambda: made.kernel.write(path, "4096"))
    assert made.run(20) is ExitCode.failed
    assert made.before(19).state is State.paused
    (told,) = [event.text for event in made.events if event.event == "restore_failed"]
    assert f"/{path}: wrote " in told
    assert "it reads '4096'" in told
    assert "echo 0 > " in told
    assert "restored" not in made.names()
    assert made.kernel.read(f"{KDAMONDS}/nr_kdamonds") == "2"
    assert made.disk.state is not None
    again = Loop(made.kernel, Script(made.kernel), made.disk, made.config)
    with pytest.raises(Conflict) as refused:
        again.run(5)
    assert "echo 0 > " in refused.value.hint
    # This is what the message asks for.
    made.kernel.write(f"{KDAMONDS}/nr_kdamonds", "0")
    restore.restore_all(Kernel.patient(made.kernel, SimClock(made.kernel)), made.disk.state)
    assert again.run(5) is ExitCode.ok


def removed(kernel: SimKernel) -> None:
    for index in range(2):
        if kernel.read(f"{KDAMONDS}/{index}/state") == "on":
            kernel.write(f"{KDAMONDS}/{index}/state", "off")
    kernel.write(f"{KDAMONDS}/nr_kdamonds", "0")


@pytest.mark.parametrize("series", ["6.12", NEW])
def test_a_pause_outlasts_a_change_of_the_machine(series: str) -> None:
    """A change during the pause is in the plan as soon as the pause is over."""
    pods = CgroupClass("pods", CgroupMode.exclude, ("/pods",))
    made = loop(series, config=Config(cgroups=(pods,)), block_pages=512)
    made.ask(3.5, Verb.pause)
    made.do(10, lambda: made.kernel.add_cgroup("/pods"))
    seen: list[list[str]] = []
    made.do(RESCAN_S + 5, lambda: seen.append(holds(made.kernel)))
    made.ask(RESCAN_S + 10, Verb.resume)
    made.run(RESCAN_S + 20)
    assert seen == [["held", "held"]]
    assert made.before(RESCAN_S + 9).state is State.paused
    assert made.snapshots[-1].state is State.active
    assert "/pods" in [one.value for one in made.kernel.journal]


@pytest.mark.parametrize("name", ["two-tier", "three-tier"])
@pytest.mark.parametrize("series", ["6.12", NEW])
def test_a_node_that_goes_during_a_pause_is_aimed_at_no_more(series: str, name: str) -> None:
    made = loop(series, name, block_pages=512)
    gone = max(made.kernel.memory.nodes)
    made.ask(3.5, Verb.pause)
    made.script.at(10, lambda: online(made.kernel, gone, yes=False))
    seen: list[str] = []
    made.do(20, lambda: seen.append(made.kernel.read(f"{KDAMONDS}/nr_kdamonds")))
    made.script.at(30, lambda: online(made.kernel, gone, yes=True))
    made.ask(40, Verb.resume)
    made.run(50)
    assert seen == ["0"]
    assert [made.before(second).state for second in (20, 39)] == [State.paused] * 2
    assert made.snapshots[-1].state is State.active


@dataclass
class Refusing:
    """A kernel that refuses commands to its kdamonds for some time."""

    kernel: SimKernel
    refuses: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kernel, name)

    def write(self, path: str, value: str) -> None:
        if self.refuses and path.endswith("/state"):
            raise SysfsError("write", path, EINVAL, value)
        self.kernel.write(path, value)


@pytest.mark.parametrize("series", ["6.12", NEW])
def test_a_pause_that_failed_does_not_count_as_one(series: str) -> None:
    """After the first one fails, tierd does not know its tree. Kdamonds may still run."""
    made = loop(series, block_pages=512)
    kernel = Refusing(made.kernel)
    made.sysfs = kernel
    made.do(4.5, lambda: setattr(kernel, "refuses", True))
    made.ask(5.5, Verb.pause)
    made.ask(5.6, Verb.pause)
    made.do(20.5, lambda: setattr(kernel, "refuses", False))
    made.run(20)
    states = [made.snapshots[-1].state]
    made.ask(25.5, Verb.pause)
    made.run(30)
    states.append(made.snapshots[-1].state)
    assert set(holds(made.kernel)) <= {"held"}
    made.ask(30.5, Verb.resume)
    made.run(35)
    states.append(made.snapshots[-1].state)
    assert states == [State.degraded, State.paused, State.active]
    worked = [answer.exit_code == ExitCode.ok for answer in made.answers]
    assert worked == [False, False, True, True]


def test_a_pause_after_one_that_failed_stops_hint_faults_too() -> None:
    made = loop("7.2", config=Config(promoter=Promoter.numa_balancing), block_pages=512)
    kernel = Refusing(made.kernel)
    made.sysfs = kernel
    limits: list[str] = []
    made.do(4.5, lambda: setattr(kernel, "refuses", True))
    made.ask(5.5, Verb.pause)
    made.do(5.55, lambda: setattr(kernel, "refuses", False))
    made.do(5.57, lambda: limits.append(made.kernel.read(PROMOTE_RATE_LIMIT)))
    made.ask(5.6, Verb.pause)
    made.do(7, lambda: limits.append(made.kernel.read(PROMOTE_RATE_LIMIT)))
    made.run(8)
    assert [answer.exit_code == ExitCode.ok for answer in made.answers] == [False, True]
    assert made.snapshots[-1].state is State.paused
    assert limits[0] != "0"
    assert limits[1] == "0"


def online(kernel: SimKernel, node: int, *, yes: bool) -> Event:
    kernel.set_node(node, online=yes)
    return Event(Verb.hotplug, "test")


@pytest.mark.parametrize("verb", [Verb.pause, Verb.resume])
def test_a_pause_may_come_while_nothing_can_run(verb: Verb) -> None:
    made = loop(NEW, block_pages=512)
    made.do(5.5, lambda: taken_over(made.kernel))
    made.ask(20.5, Verb.pause)
    if verb is Verb.resume:
        made.ask(25.5, Verb.resume)
    made.do(60.5, lambda: made.kernel.write(f"{KDAMONDS}/nr_kdamonds", "0"))
    made.run(supervise.RETRY_S_MAX)
    assert made.snapshots[-1].state is (State.paused if verb is Verb.pause else State.active)


@pytest.mark.parametrize("series", ["6.12", NEW])
@pytest.mark.parametrize("what", RELOADS)
def test_who_asks_at_once_after_a_reload_sees_a_whole_picture(series: str, what: str) -> None:
    made = loop(series, "two-tier", hot("hot", 1, 450), block_pages=512)
    made.read_config = lambda: RELOADS[what]
    seen: list[Snapshot] = []
    ask = Event(Verb.reload, "test", lambda _: seen.append(made.snapshots[-1]))
    made.script.at(3.35, lambda: ask)
    made.run(5)
    (now,) = seen
    assert [node.numa_node for node in now.nodes] == [0, 1]
    assert all(kdamond.up for kdamond in now.kdamonds)
    assert now.events[-1].event == "reload"
    if what == "rate":
        # The same kdamonds continue, and their counts are kept.
        before = made.before(now.at - 0.001)
        assert rates(before) == rates(now)
        assert sum(rates(now)) > 0


def rates(snapshot: Snapshot) -> list[float]:
    return [scheme.applied_bytes_per_s for scheme in snapshot.schemes]


@pytest.mark.parametrize("series", ["6.12", NEW])
def test_after_a_pause_and_its_end_kdamonds_are_shown_as_they_are(series: str) -> None:
    made = loop(series, block_pages=512)
    seen: list[list[bool]] = []
    for second, verb in ((3.5, Verb.pause), (6.5, Verb.resume)):
        made.script.at(second, partial(Event, verb, "test", lambda _: seen.append(ups(made))))
    made.run(8)
    assert seen == [[series != "6.12"] * 2, [True, True]]


def ups(made: Loop) -> list[bool]:
    return [kdamond.up for kdamond in made.snapshots[-1].kdamonds]


@pytest.mark.parametrize("tuner", [Tuner.kernel, Tuner.demand])
@pytest.mark.parametrize("series", ["6.12", "6.18", NEW])
def test_a_lower_rate_holds_from_the_first_window_after_the_answer(
    series: str, tuner: Tuner
) -> None:
    """The running window ends with the quota with which it began."""
    before = Config(tuner=tuner, cost_bp=0)
    made = loop(series, "two-tier", hot("hot", 1, 300), block_pages=512, config=before)
    made.read_config = lambda: replace(before, rate_max_bytes_per_s=1_000_000)
    answered: list[float] = []
    asked = Event(Verb.reload, "test", lambda _: answered.append(made.kernel.now_us / 1e6))
    made.script.at(3.5, lambda: asked)
    seen: list[tuple[float, int]] = []

    def look() -> None:
        quotas = [made.kernel.effective_bytes(index)[-1] for index in (0, 1)]
        seen.append((made.kernel.now_us / 1e6, max(quotas)))

    for twentieth in range(120):
        made.do(1 + twentieth / 20, look)
    made.run(7)
    cap = max(one.quota_bytes_max for one in made.snapshots[-1].schemes)
    (at,) = answered
    late = [quota for moment, quota in seen if moment > at + WINDOW_S]
    assert len(late) > 20
    assert max(late) <= cap
