"""Plants a fault, or a kill, at each operation of each scenario, one at a time.

After each run the plan runs, or the kernel is as before, or an error names the files that are not.
A restore afterwards always leaves the machine as tierd found it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import pytest

from tests.faults.faulty import Disk, Fault, Killed
from tests.faults.scenarios import CLOCK, SCENARIOS, Scenario, World, default, world
from tierd.errors import TierdError
from tierd.kdamonds import apply, inspection, restore
from tierd.kdamonds.applied import Applied, RolledBack, UndoFailed
from tierd.kdamonds.kernel import NR_KDAMONDS, Kernel, Status
from tierd.kdamonds.restore import Restored
from tierd.machine.neighbours import NUMA_BALANCING
from tierd.machine.numa_balancing import PROMOTE_RATE_LIMIT
from tierd.plans.damon import Command, state_path
from tierd.plans.knobs import DAMON_STAT_ENABLED, DEMOTION_ENABLED
from tierd.sim.sim_kernel import SimKernel
from tierd.sysfs import optional

FAULTS = tuple(fault for fault in Fault if not fault.startswith("killed"))
# Faults that have no effect on most operations.
SELDOM = {Fault.lost, Fault.lost_for_ever, Fault.replaced, Fault.ended, Fault.ended_late}
DEATHS = (Fault.killed, Fault.killed_after)
SETTINGS = (DAMON_STAT_ENABLED, DEMOTION_ENABLED, NUMA_BALANCING, PROMOTE_RATE_LIMIT)

# The whole sweep takes minutes, so `make check` runs the scenarios and faults that find most. 6.12
# differs only in a few commands, so `make test` gives it fewer faults. A kill before an operation
# is the same as a kill after the one before it.
QUICK_SCENARIOS = {"start", "adopt, half changed", "reload, other rate", "pause", "revive", "stop"}
QUICK_FAULTS = {Fault.after, Fault.file_for_ever, Fault.killed_after}


def cases(faults: tuple[Fault, ...]) -> pytest.MarkDecorator:
    """Parametrize a test by scenario, kernel series and fault."""
    return pytest.mark.parametrize(
        ("scenario", "series", "fault"),
        [
            pytest.param(
                scenario,
                series,
                fault,
                id=f"{scenario.name}, {series}, {fault}",
                marks=run_by(scenario, series, fault),
            )
            for scenario in SCENARIOS
            for series in scenario.series
            for fault in faults
            # From 6.15 on a commit that ends a kdamond is an error of its write.
            if fault is not Fault.ended_late or series == "6.12"
        ],
    )


def run_by(scenario: Scenario, series: str, fault: Fault) -> tuple[pytest.MarkDecorator, ...]:
    elsewhere = "7.3" in scenario.series and series != "7.3"
    if fault is Fault.killed or (elsewhere and fault not in QUICK_FAULTS):
        return (pytest.mark.thorough, pytest.mark.rare)
    if series != "7.3" or fault not in QUICK_FAULTS or scenario.name not in QUICK_SCENARIOS:
        return (pytest.mark.thorough,)
    return ()


@dataclass(frozen=True)
class Picture:
    """The settings, kdamonds and files of a kernel that a restore must put back."""

    settings: tuple[tuple[str, str | None], ...]
    kdamonds: tuple[Status, ...]
    tree: tuple[tuple[str, str], ...]

    @property
    def on(self) -> tuple[bool, ...]:
        return tuple(status.on for status in self.kdamonds)


def picture(kernel: SimKernel) -> Picture:
    look = Kernel(kernel, CLOCK)
    folder = NR_KDAMONDS.rpartition("/")[0]
    files = [
        path
        for path in kernel.files(folder)
        if not any(part in path for part in ("/stats/", "/pid", "/state", "tried_", "effective"))
    ]
    return Picture(
        settings=tuple((path, optional(kernel, path)) for path in SETTINGS),
        kdamonds=tuple(look.status(index) for index in range(look.count())),
        tree=tuple((path, kernel.read(f"{folder}/{path}")) for path in files),
    )


def untouched(scenario: Scenario, series: str) -> Picture:
    fresh = Scenario("", lambda _: None, scenario.act, scenario.machine)
    return picture(world(fresh, series, Disk()).kernel)


def struck(
    scenario: Scenario, series: str, fault: Fault
) -> Iterator[tuple[World, Picture, Applied | Restored | BaseException]]:
    """Yield a world with the fault at each operation, its state before, and how the act ended."""
    before = picture(world(scenario, series, Disk()).kernel)
    for at in count(1):
        made = world(scenario, series, Disk())
        made.sysfs.fault, made.sysfs.at = fault, at
        ended = ending(scenario, made)
        if made.sysfs.operations < at:
            assert not isinstance(ended, BaseException)
            assert at > 5, "the scenario does next to nothing"
            return
        if fault in SELDOM and not made.sysfs.hit:
            assert not isinstance(ended, BaseException)
            continue
        made.sysfs.heal()
        yield made, before, ended


def ending(scenario: Scenario, made: World) -> Applied | Restored | BaseException:
    try:
        return scenario.act(made)
    except (TierdError, Killed) as error:
        return error


@cases(FAULTS)
def test_after_each_fault_the_plan_runs_or_the_error_names_the_files(
    scenario: Scenario, series: str, fault: Fault
) -> None:
    clean = untouched(scenario, series)
    for made, before, ended in struck(scenario, series, fault):
        where = f"{fault} at operation {made.sysfs.at}, /{made.sysfs.struck}: {ended!r}"
        judge(scenario, made, before, clean, ended, where)
        if fault is Fault.busy:
            assert not isinstance(ended, BaseException), f"EBUSY taken for an answer: {where}"
        require_restorable(made, clean, where)


@cases(DEATHS)
def test_restore_after_a_kill_at_each_operation(
    scenario: Scenario, series: str, fault: Fault
) -> None:
    clean = untouched(scenario, series)
    for made, _, ended in struck(scenario, series, fault):
        assert isinstance(ended, Killed)
        require_restorable(made, clean, f"{fault} at {made.sysfs.at}, /{made.sysfs.struck}")


@cases(DEATHS)
def test_start_after_a_kill_at_each_operation(
    scenario: Scenario, series: str, fault: Fault
) -> None:
    clean = untouched(scenario, series)
    for made, _, _ in struck(scenario, series, fault):
        where = f"{fault} at {made.sysfs.at}, /{made.sysfs.struck}"
        again = apply.start(made.look, default(made), made.disk.record, saved=made.disk.saved())
        require_running(made, again, where)
        require_restorable(made, clean, where)


@pytest.mark.parametrize(
    ("scenario", "series"),
    [(scenario, series) for scenario in SCENARIOS for series in scenario.series],
    ids=lambda part: part if isinstance(part, str) else part.name,
)
def test_a_change_is_undone_if_the_disk_is_full(scenario: Scenario, series: str) -> None:
    clean = untouched(scenario, series)
    for at in count(1):
        made = world(scenario, series, Disk())
        before = picture(made.kernel)
        made.disk.fails_at = at
        ended = ending(scenario, made)
        if made.disk.records < at:
            assert not isinstance(ended, BaseException)
            return
        judge(scenario, made, before, clean, ended, f"record {at}: {ended!r}")
        require_restorable(made, clean, f"record {at}")


def judge(
    scenario: Scenario, made: World, before: Picture, clean: Picture, ended: object, where: str
) -> None:
    """Assert that the plan runs, or the kernel is as before, or the error names the files."""
    now = picture(made.kernel)
    match ended:
        case Applied():
            require_applied(made, ended, where)
        case Restored():
            assert now == clean, where
        case RolledBack() if made.sysfs.ended and scenario.name in ("tune", "resume"):
            # A kdamond that died by itself stays off. The next tick turns it on, unless paused.
            assert now.settings == before.settings, where
            assert paused(made.kernel) if scenario.name == "resume" else now.tree == before.tree
        case RolledBack():
            require_as_before(now, before, where)
            assert tuple(s.pid for s in now.kdamonds if s.on) == tuple(
                p for p, s in zip(ended.applied.pids, now.kdamonds, strict=False) if s.on
            ), where
        case UndoFailed():
            require_named(now, before, clean, ended, scenario.removes, where)
        case TierdError():
            assert now in (before, clean), where
        case _:
            raise AssertionError(where)


def require_applied(made: World, applied: Applied, where: str) -> None:
    if made.disk.text is not None and made.disk.saved() != applied.saved:
        raise AssertionError(f"the record is not of what runs: {where}")
    if applied.how == "paused":
        assert paused(made.kernel), where
    if paused(made.kernel):
        return
    require_running(made, applied, where)


def require_running(made: World, applied: Applied, where: str) -> None:
    drifted = inspection.drift(made.kernel, applied.plan)
    assert not drifted, f"{where}: {drifted}"
    health = inspection.health(Kernel.patient(made.kernel, CLOCK), applied)
    assert health, where
    assert all(kdamond.alive for kdamond in health), where


def paused(kernel: SimKernel) -> bool:
    """True if nothing moves: each kdamond is off, or its context is paused."""
    look = Kernel(kernel, CLOCK)
    flags = [
        optional(kernel, f"{state_path(index).removesuffix('state')}contexts/0/pause") == "Y"
        or look.status(index).state == Command.off
        for index in range(look.count())
    ]
    return bool(flags) and all(flags)


def require_as_before(now: Picture, before: Picture, where: str) -> None:
    """Assert the same settings, files and kdamonds. A restarted kdamond has another pid."""
    assert now.settings == before.settings, where
    assert now.tree == before.tree, where
    assert now.on == before.on, where


def require_named(
    now: Picture, before: Picture, clean: Picture, error: UndoFailed, removes: bool, where: str
) -> None:
    assert error.paths, where
    for path in error.paths:
        assert path in str(error), where
    changed = [
        path
        for (path, value), (_, was), (_, clean_value) in zip(
            now.settings, before.settings, clean.settings, strict=True
        )
        if value not in (was, clean_value)
    ]
    for path in changed:
        assert path in error.paths, f"{path} is not named: {where}"
    if (now.tree, now.on) in ((before.tree, before.on), (clean.tree, clean.on)):
        return
    folder = NR_KDAMONDS.rpartition("/")[0]
    below = {path for path in error.paths if path.startswith(folder)}
    if len(now.kdamonds) != len(before.kdamonds):
        # Half built or half removed: the error must name at least one of DAMON's files.
        assert below, f"nothing of the tree is named: {where}"
        return
    for index, (on, was_on) in enumerate(zip(now.on, before.on, strict=True)):
        mine = any(path.startswith((f"{folder}/{index}/", NR_KDAMONDS)) for path in below)
        # If the undo removes all kdamonds, one that is off counts as put back.
        assert mine or on == was_on or (removes and not on), f"{index} is not named: {where}"
    values = dict(before.tree)
    for path, value in now.tree:
        named = f"{folder}/{path}" in below or f"{folder}/{path.split('/')[0]}/state" in below
        assert named or removes or values.get(path) == value, f"/{path} is not named: {where}"


def require_restorable(made: World, clean: Picture, where: str) -> None:
    """Assert that a restore puts everything back, and that a second one does nothing."""
    saved = made.disk.saved()
    if saved is not None:
        restored = restore.restore_all(made.look, saved)
        assert not restored.left, where
        again = restore.restore_all(made.look, saved)
        assert again.done == (), where
    assert picture(made.kernel) == clean, where
