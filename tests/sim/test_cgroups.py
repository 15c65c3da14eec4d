"""A user who may only create cgroups below a configured class cannot stop the loop."""

import json
from dataclasses import dataclass, replace
from functools import partial

import pytest

from tests.contract.sets import PAGE as PAGE_BYTES
from tests.sim.loop import MIB, Loop, filtered, loop
from tierd.configuration.config import (
    BOUND,
    CgroupClass,
    CgroupMode,
    Config,
    Cpusets,
    ShareClass,
)
from tierd.errors import ExitCode
from tierd.kdamonds.applied import CgroupsGone
from tierd.loop import daemon, force
from tierd.loop.daemon import RESCAN_S
from tierd.loop.running import Running
from tierd.planning import plan_here
from tierd.plans.plan import Plan
from tierd.plans.reasons import VISITS_COMMIT_CGROUPS
from tierd.plans.scope import FILTERS_MAX
from tierd.record.snapshot import State
from tierd.serving.inbox import Verb
from tierd.sim.memory import PageSet
from tierd.sim.sim_kernel import SimKernel
from tierd.views import planned

TOP = "/kubepods"


def made(series: str, mode: CgroupMode) -> Loop:
    found = loop(series, config=Config(cgroups=(CgroupClass("pods", mode, (TOP,)),)))
    found.kernel.add_cgroup(TOP)
    return found


def crowd(made: Loop) -> None:
    """The operations of a user below a cgroup of their own."""
    made.kernel.add_cgroup(f"{TOP}/\udcff\udcfe\x1b]0;")
    for number in range(FILTERS_MAX + 1):
        made.kernel.add_cgroup(f"{TOP}/{number}")


@pytest.mark.parametrize("mode", CgroupMode)
@pytest.mark.parametrize("series", ["6.12", "7.3"])
def test_a_crowd_at_the_start_degrades(series: str, mode: CgroupMode) -> None:
    loop = made(series, mode)
    crowd(loop)
    assert loop.run(10) is ExitCode.ok
    last = loop.snapshots[-1]
    assert last.state is State.active
    assert any("the most memory" in reason for reason in last.degraded)


@pytest.mark.parametrize("mode", CgroupMode)
@pytest.mark.parametrize("series", ["6.12", "7.3"])
def test_a_crowd_that_comes_later_degrades_and_is_an_event(series: str, mode: CgroupMode) -> None:
    loop = made(series, mode)
    loop.do(5, lambda: crowd(loop))
    assert loop.run(RESCAN_S + 20) is ExitCode.ok
    assert loop.snapshots[-1].state is State.active
    told = [event.text for event in loop.events if event.event == "degraded"]
    assert len(told) == 1
    assert "the most memory" in told[0]


def test_a_name_that_is_not_text_reaches_the_kernel_and_every_document() -> None:
    loop = made("7.3", CgroupMode.exclude)
    name = f"{TOP}/\udcff\udcfe"
    loop.kernel.add_cgroup(name)
    assert loop.run(5) is ExitCode.ok
    written = [one.value for one in loop.kernel.journal if one.path.endswith("memcg_path")]
    assert name in written
    plan = plan_here(loop.kernel, loop.config)
    document = json.dumps(planned.as_document(plan)).encode()
    assert json.loads(document)["fingerprint"] == plan.fingerprint


def test_a_reload_says_what_its_classes_stand_for() -> None:
    loop = made("7.3", CgroupMode.exclude)
    typo = CgroupClass("typo", CgroupMode.exclude, ("/kubepod",))
    loop.read_config = lambda: Config(cgroups=(*loop.config.cgroups, typo))
    loop.ask(5, Verb.reload)
    loop.run(10)
    assert f"cgroup class pods (exclude {TOP}): 1 cgroup now: {TOP}" in loop.answers[0].text
    assert "cgroup class typo (exclude /kubepod): none exists now" in loop.answers[0].text


@dataclass
class Churn:
    """A kernel on which somebody creates and removes cgroups below a class all the time.

    There is always one; before each step of the kind it goes, and another is there in its place.
    """

    kernel: SimKernel
    at: str
    turn: int = 0
    turns_max: int | None = None

    def __post_init__(self) -> None:
        self.kernel.add_cgroup(self.newest)

    @property
    def newest(self) -> str:
        return f"{TOP}/{self.turn}"

    def read(self, path: str) -> str:
        text = self.kernel.read(path)
        if self.at == "look" and path == f"sys/fs/cgroup{self.newest}/memory.current":
            self._turn()
        return text

    reread = read

    def read_bytes(self, path: str) -> bytes:
        return self.kernel.read_bytes(path)

    def exists(self, path: str) -> bool:
        return self.kernel.exists(path)

    def listdir(self, path: str) -> tuple[str, ...]:
        return self.kernel.listdir(path)

    def write(self, path: str, value: str) -> None:
        if path.endswith("/state") and value == self.at:
            self._turn()
        self.kernel.write(path, value)

    def _turn(self) -> None:
        if self.turn == self.turns_max:
            return
        self.kernel.remove_cgroup(self.newest)
        self.turn += 1
        self.kernel.add_cgroup(self.newest)


@pytest.mark.parametrize("mode", CgroupMode)
@pytest.mark.parametrize("at", ["look", "on"])
@pytest.mark.parametrize("series", ["6.12", "7.3"])
def test_who_makes_and_removes_cgroups_all_the_time_keeps_nothing_from_a_start(
    series: str, at: str, mode: CgroupMode
) -> None:
    loop = made(series, mode)
    loop.sysfs = Churn(loop.kernel, at)
    assert loop.run(5) is ExitCode.ok
    assert loop.before(0.9).state is State.active, "at once, and not after a pause"
    assert "degraded" not in loop.names()


@pytest.mark.parametrize("at", ["look", "commit", "on"])
@pytest.mark.parametrize("series", ["6.12", "6.18", "7.3"])
def test_who_makes_and_removes_cgroups_all_the_time_is_planned_for_again(
    series: str, at: str
) -> None:
    """A plan that fails by it is taken back, or made again; and each minute is another try."""
    loop = made(series, CgroupMode.exclude)
    loop.sysfs = Churn(loop.kernel, at)
    assert loop.run(5 * RESCAN_S) is ExitCode.ok
    worked = [one.state is State.active for one in loop.snapshots]
    assert sum(worked) >= 0.95 * len(worked)


@pytest.mark.parametrize("series", ["6.12", "7.3"])
def test_a_kdamond_that_dies_is_back_at_once_where_cgroups_have_gone(series: str) -> None:
    loop = made(series, CgroupMode.exclude)
    loop.kernel.add_cgroup(f"{TOP}/0")
    loop.do(5, lambda: loop.kernel.remove_cgroup(f"{TOP}/0"))
    loop.do(6, lambda: loop.kernel.end_kdamond(1))
    loop.run(15)
    assert all(one.up for one in loop.before(10).kdamonds)
    assert loop.before(10).state is State.active


@pytest.mark.parametrize("series", ["6.12", "6.18", "7.3"])
def test_pages_are_visited_although_a_cgroup_that_is_left_out_goes_now_and_then(
    series: str,
) -> None:
    config = Config(cgroups=(CgroupClass("pods", CgroupMode.exclude, (TOP,)),))
    made = loop(series, config=config)
    made.kernel.add_cgroup(TOP)
    for number in range(10):
        made.do(2 * number + 1, partial(made.kernel.add_cgroup, f"{TOP}/{number}"))
        made.do(2 * number + 4, partial(made.kernel.remove_cgroup, f"{TOP}/{number}"))
    assert made.run(30) is ExitCode.ok
    assert not {"degraded", "kdamond_died"} & set(made.names())
    last = made.snapshots[-1]
    assert not [text for text in last.degraded if text == VISITS_COMMIT_CGROUPS]
    assert [one for one in last.schemes if one.scheme == "promote-pages-1-0"]


@dataclass
class Crumbling(Churn):
    """A kernel on which one more of the cgroups of a class is gone at each commit."""

    def _turn(self) -> None:
        self.kernel.remove_cgroup(self.newest)
        self.turn += 1


@pytest.mark.parametrize("series", ["6.12", "6.18"])
def test_visits_end_for_an_hour_where_commits_name_cgroups_that_have_gone(series: str) -> None:
    loop = made(series, CgroupMode.exclude)
    # Enough for all tries to open a sweep, and each of these commits new filters.
    for number in range(40):
        loop.kernel.add_cgroup(f"{TOP}/{number}")
    loop.sysfs = Crumbling(loop.kernel, "commit")
    loop.run(40)
    assert VISITS_COMMIT_CGROUPS in loop.snapshots[-1].degraded
    assert loop.snapshots[-1].state is State.active


def test_plans_are_careful_for_an_hour() -> None:
    loop = made("6.12", CgroupMode.exclude)
    outside = loop.outside()
    running = daemon.begin(outside, loop.config)
    now_s = outside.clock.monotonic()
    assert not force.is_careful(outside, running)
    for since_s, careful in ((1.0, True), (force.CAREFUL_S, False)):
        then = replace(running, careful_s=now_s - since_s)
        assert force.is_careful(outside, then) is careful


def test_what_goes_again_and_again_is_given_up_for_a_while() -> None:
    """The work is limited: the loop has other things to do."""
    tried: list[str] = []
    loop = made("7.3", CgroupMode.exclude)
    running = daemon.begin(loop.outside(), loop.config)

    def refused(_running: Running, plan: Plan) -> None:
        tried.append(plan.fingerprint)
        raise CgroupsGone((TOP,), frozenset())

    with pytest.raises(CgroupsGone):
        force.planned(loop.outside(), running, refused)
    assert len(tried) == force.PLANS_MAX


def test_filters_that_the_kernel_refuses_are_made_again_without_what_has_gone() -> None:
    """The former filters name cgroups that are gone too, so they cannot be taken back."""
    # A group that is to have nothing has filters all the time.
    shares = Config(shares=(ShareClass("pods", (TOP,), ceiling_bp=0),))
    made = loop("7.3", config=shares)
    made.kernel.add_cgroup(TOP)
    churn = Churn(made.kernel, "commit", turns_max=4)
    made.sysfs = churn
    made.do(5, lambda: made.kernel.add_cgroup(f"{TOP}/other"))
    seen: list[set[str]] = []
    made.do(8, lambda: seen.append(filtered(made.kernel)))
    assert made.run(9) is ExitCode.ok
    assert churn.turn == churn.turns_max
    assert seen == [{TOP, f"{TOP}/other", churn.newest}]
    assert not {"degraded", "kdamond_died", "replanned"} & set(made.names())
    assert len({one.pid for snapshot in made.snapshots for one in snapshot.kdamonds}) == 2
    assert made.snapshots[-1].state is State.active


@pytest.mark.parametrize("series", ["6.12", "7.3"])
@pytest.mark.parametrize("shared", [False, True])
def test_memory_that_a_cpuset_binds_stays_unless_cpusets_are_ignored(
    series: str, shared: bool
) -> None:
    shares = (ShareClass("pods", ("/pods",)),) if shared else ()
    for cpusets, stays in ((Cpusets.heed, True), (Cpusets.ignore, False)):
        made = loop(series, config=Config(shares=shares, cpusets=cpusets))
        made.kernel.add_cgroup("/pods")
        for path, mems, rate_hz, mib, node in (
            ("/pods/bound", "0", 0.0, 150, 0),
            ("/pods/free", "", 0.0, 250, 0),
            ("/pods/hot", "", 100.0, 90, 1),
        ):
            made.kernel.add_cgroup(path, mems)
            made.kernel.memory.add_set(PageSet(path, rate_hz, cgroup=path))
            made.kernel.memory.populate(path, mib * MIB // PAGE_BYTES, (node,))
        made.run(40)
        bound, free, hot = (
            made.kernel.memory.cgroup_pages(path, 0) * PAGE_BYTES // MIB
            for path in ("/pods/bound", "/pods/free", "/pods/hot")
        )
        assert (bound == 150) is stays
        assert free < 230
        assert hot >= 80


def test_what_a_cpuset_binds_is_found_later_too_and_is_said() -> None:
    made = loop("7.3")
    made.do(5, lambda: made.kernel.add_cgroup("/bound", "0"))
    seen: list[set[str]] = []
    made.do(RESCAN_S + 3, lambda: seen.append(filtered(made.kernel)))
    made.run(RESCAN_S + 5)
    assert seen == [{"/bound"}]
    plan = plan_here(made.kernel, made.config)
    assert [(one.name, one.cgroups) for one in plan.cgroups] == [(BOUND, ("/bound",))]
