"""Every place at which a change of the kernel can fail, or tierd can die, one after another.

Each run must end verified and running, or as before, or with an error that names the files that
are not. Whatever happened, `restore` afterwards leaves the machine as tierd found it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import pytest

from tests.faults.faulty import Disk, Fault, Killed
from tests.faults.scenarios import CLOCK, SCENARIOS, Scenario, World, default, world
from tierd.errors import TierdError
from tierd.kdamonds import apply
from tierd.kdamonds.apply import Applied, UndoFailed, Undone
from tierd.kdamonds.kernel import NR_KDAMONDS, Kernel, Status
from tierd.plans.damon import Command, state_path
from tierd.policy import DAMON_STAT_ENABLED, DEMOTION_ENABLED
from tierd.sim.kernel import SimKernel
from tierd.sysfs import optional

FAULTS = tuple(fault for fault in Fault if not fault.startswith("killed"))
DEATHS = (Fault.killed, Fault.killed_after)

# All of it takes minutes. What `make check` leaves to `make test` is less likely to fail alone. The
# way of 6.12 differs in a few commands, so `make test` strikes it in three of the seven. To die
# before an operation is to die after the one before it.
QUICK_SCENARIOS = {"start", "adopt, half changed", "reload, other rate", "pause", "revive", "stop"}
QUICK_FAULTS = {Fault.after, Fault.file_for_ever, Fault.killed_after}


def cases(faults: tuple[Fault, ...]) -> pytest.MarkDecorator:
    """Every scenario on each of its series, with each of the faults."""
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
    """What of the kernel matters to those who come after us."""

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
        settings=tuple((p, optional(kernel, p)) for p in (DAMON_STAT_ENABLED, DEMOTION_ENABLED)),
        kdamonds=tuple(look.status(index) for index in range(look.count())),
        tree=tuple((path, kernel.read(f"{folder}/{path}")) for path in files),
    )


def untouched(scenario: Scenario, series: str) -> Picture:
    fresh = Scenario("", lambda _: None, scenario.act, scenario.machine)
    return picture(world(fresh, series, Disk()).kernel)


def struck(
    scenario: Scenario, series: str, fault: Fault
) -> Iterator[tuple[World, Picture, Applied | apply.Restored | BaseException]]:
    """A world for each operation that there is to strike, and how the act ended in it."""
    before = picture(world(scenario, series, Disk()).kernel)
    for at in count(1):
        made = world(scenario, series, Disk())
        made.sysfs.fault, made.sysfs.at = fault, at
        ended = ending(scenario, made)
        if made.sysfs.operations < at:
            assert not isinstance(ended, BaseException)
            assert at > 5, "the scenario does next to nothing"
            return
        made.sysfs.heal()
        yield made, before, ended


def ending(scenario: Scenario, made: World) -> Applied | apply.Restored | BaseException:
    try:
        return scenario.act(made)
    except (TierdError, Killed) as error:
        return error


@cases(FAULTS)
def test_each_fault_ends_well_or_loudly(scenario: Scenario, series: str, fault: Fault) -> None:
    clean = untouched(scenario, series)
    for made, before, ended in struck(scenario, series, fault):
        where = f"{fault} at operation {made.sysfs.at}, /{made.sysfs.struck}: {ended!r}"
        judge(scenario, made, before, clean, ended, where)
        if fault is Fault.busy:
            assert not isinstance(ended, BaseException), f"EBUSY taken for an answer: {where}"
        require_restorable(made, clean, where)


@cases(DEATHS)
def test_each_death_can_be_restored(scenario: Scenario, series: str, fault: Fault) -> None:
    clean = untouched(scenario, series)
    for made, _, ended in struck(scenario, series, fault):
        assert isinstance(ended, Killed)
        require_restorable(made, clean, f"{fault} at {made.sysfs.at}, /{made.sysfs.struck}")


@cases(DEATHS)
def test_each_death_can_be_started_from(scenario: Scenario, series: str, fault: Fault) -> None:
    clean = untouched(scenario, series)
    for made, _, _ in struck(scenario, series, fault):
        where = f"{fault} at {made.sysfs.at}, /{made.sysfs.struck}"
        again = apply.start(
            made.sysfs, CLOCK, default(made), made.disk.record, saved=made.disk.saved()
        )
        require_running(made, again, where)
        require_restorable(made, clean, where)


@pytest.mark.parametrize(
    ("scenario", "series"),
    [(scenario, series) for scenario in SCENARIOS for series in scenario.series],
    ids=lambda part: part if isinstance(part, str) else part.name,
)
def test_a_full_disk_stops_a_change(scenario: Scenario, series: str) -> None:
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
    """Running as planned, as before, or named."""
    now = picture(made.kernel)
    match ended:
        case Applied():
            require_applied(made, ended, where)
        case apply.Restored():
            assert now == clean, where
        case Undone():
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
    if paused(made.kernel):
        return
    require_running(made, applied, where)


def require_running(made: World, applied: Applied, where: str) -> None:
    drifted = apply.drift(made.kernel, applied.plan)
    assert not drifted, f"{where}: {drifted}"
    health = apply.health(made.kernel, CLOCK, applied)
    assert health, where
    assert all(kdamond.alive for kdamond in health), where


def paused(kernel: SimKernel) -> bool:
    """Whether nothing moves: every kdamond is off, or its context is paused."""
    look = Kernel(kernel, CLOCK)
    flags = [
        optional(kernel, f"{state_path(index).removesuffix('state')}contexts/0/pause") == "Y"
        or look.status(index).state == Command.off
        for index in range(look.count())
    ]
    return bool(flags) and all(flags)


def require_as_before(now: Picture, before: Picture, where: str) -> None:
    """The same settings, tree and kdamonds; one that had to be started again has another pid."""
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
        # Half built or half removed: any file of the tree that stands in the way will do.
        assert below, f"nothing of the tree is named: {where}"
        return
    for index, (on, was_on) in enumerate(zip(now.on, before.on, strict=True)):
        mine = any(path.startswith((f"{folder}/{index}/", NR_KDAMONDS)) for path in below)
        # Where the way back is to remove all, one that is off has been put back.
        assert mine or on == was_on or (removes and not on), f"{index} is not named: {where}"
    values = dict(before.tree)
    for path, value in now.tree:
        named = f"{folder}/{path}" in below or f"{folder}/{path.split('/')[0]}/state" in below
        assert named or removes or values.get(path) == value, f"/{path} is not named: {where}"


def require_restorable(made: World, clean: Picture, where: str) -> None:
    """`tierd restore` has what it needs, whenever it comes, and may come twice."""
    saved = made.disk.saved()
    if saved is not None:
        restored = apply.restore(made.sysfs, CLOCK, saved)
        assert not restored.left, where
        again = apply.restore(made.sysfs, CLOCK, saved)
        assert again.done == (), where
    assert picture(made.kernel) == clean, where
