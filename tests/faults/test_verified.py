"""tierd trusts only values that it has read back, and only kdamonds whose pid it knows."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from tests.faults.faulty import READS_OF_A_LOOK, Disk, Fault, FaultySysfs
from tests.faults.scenarios import (
    CLOCK,
    OTHER_RATE,
    World,
    default,
    paused,
    plan_for,
)
from tests.faults.scenarios import running as runs
from tierd.errors import Conflict, TierdError
from tierd.kdamonds import apply, inspection, restore
from tierd.kdamonds.applied import Applied
from tierd.kdamonds.build import build
from tierd.kdamonds.kernel import NR_KDAMONDS, KdamondDied, Kernel, NotVerified
from tierd.machine.features import KDAMONDS
from tierd.plans.changes import ChangeMethod
from tierd.plans.damon import Command, Write, kdamond_dir, state_path
from tierd.plans.knobs import DAMON_STAT_ENABLED, DEMOTION_ENABLED
from tierd.sim import machine_model
from tierd.sim.sim_kernel import SimKernel
from tierd.sysfs import SysfsError

SERIES = pytest.mark.parametrize("series", ["6.12", "7.3"])


def fresh(series: str = "7.3") -> World:
    kernel = SimKernel(series, machine_model.load("two-tier"), block_pages=512)
    return World(kernel, FaultySysfs(kernel), Disk())


def running(series: str = "7.3") -> tuple[World, Applied]:
    world = fresh(series)
    runs(default)(world)
    assert world.applied is not None
    return world, world.applied


def strike(world: World, fault: Fault, operation: int = 1) -> None:
    """Plant the fault at the operation of that number from now."""
    world.sysfs.fault, world.sysfs.at = fault, world.sysfs.operations + operation


def replaced(world: World, index: int) -> None:
    """Have somebody else turn our kdamond off and on again."""
    world.kernel.write(state_path(index), Command.off)
    world.kernel.write(state_path(index), Command.on)


@SERIES
def test_a_write_that_does_not_read_back_is_an_error(series: str) -> None:
    world, _ = running(series)
    strike(world, Fault.lost)
    with pytest.raises(NotVerified, match="wrote '12345'") as refused:
        world.look.put(Write(f"{kdamond_dir(0)}/contexts/0/schemes/0/quotas/bytes", "12345"))
    assert refused.value.hint
    assert world.sysfs.hit


@SERIES
def test_start_fails_if_a_setting_does_not_read_back(series: str) -> None:
    world = fresh(series)
    world.sysfs.wrote = lambda path, _: (
        world.kernel.write(path, "false") if path == DEMOTION_ENABLED else None
    )
    with pytest.raises(TierdError, match="demotion_enabled"):
        runs(default)(world)
    assert world.kernel.read(NR_KDAMONDS) == "0"


@SERIES
def test_a_kdamond_that_stays_off_is_an_error(series: str) -> None:
    world, _ = running(series)
    world.kernel.write(state_path(0), Command.off)
    strike(world, Fault.lost)
    with pytest.raises(NotVerified, match="state: wrote 'on', but it reads 'off"):
        world.look.turn_on(0)


@SERIES
def test_a_kdamond_that_stays_on_is_an_error(series: str) -> None:
    world, _ = running(series)
    strike(world, Fault.lost, READS_OF_A_LOOK + 1)
    with pytest.raises(NotVerified, match="state: wrote 'off', but it reads 'on"):
        world.look.turn_off(0)
    assert world.sysfs.hit


@pytest.mark.parametrize(
    ("series", "fault"),
    [
        *((series, fault) for series in ("6.12", "7.3") for fault in (Fault.ended, Fault.replaced)),
        # On 6.12 a commit returns success, and then the kdamond ends because of it.
        ("6.12", Fault.ended_late),
    ],
)
def test_a_kdamond_that_ends_at_a_commit_is_an_error(series: str, fault: Fault) -> None:
    world, applied = running(series)
    strike(world, fault)
    with pytest.raises(KdamondDied, match="kdamond 1 is not running after 'commit'") as died:
        world.look.command(1, Command.commit, applied.pids[1])
    assert world.sysfs.hit
    assert (died.value.index, died.value.path) == (1, state_path(1))
    assert died.value.hint


@pytest.mark.parametrize("what", [Command.update_stats, Command.commit_goals])
def test_a_kdamond_with_another_pid_gets_no_command(what: Command) -> None:
    world, applied = running()
    replaced(world, 1)
    with pytest.raises(KdamondDied):
        apply.command(world.look, applied, 1, what)
    with pytest.raises(KdamondDied):
        apply.tune(
            world.look,
            applied,
            (Write(f"{kdamond_dir(1)}/contexts/0/schemes/0/quotas/goals/0/target_value", "1"),),
        )


@SERIES
@pytest.mark.parametrize("happens", ["ended", "replaced"])
def test_build_checks_all_kdamonds_after_the_last_is_on(series: str, happens: str) -> None:
    """Turning many kdamonds on takes a while, and the first may end meanwhile."""
    world = fresh(series)
    if world.kernel.exists(DAMON_STAT_ENABLED):
        world.kernel.write(DAMON_STAT_ENABLED, "N")
    what: Callable[[int], None] = (
        world.kernel.end_kdamond if happens == "ended" else partial(replaced, world)
    )
    world.sysfs.wrote = lambda path, value: (
        what(0) if (path, value) == (state_path(1), Command.on) else None
    )
    plan = default(world)
    world.kernel.write(NR_KDAMONDS, plan.writes[0].value)
    with pytest.raises(KdamondDied, match="kdamond 0"):
        build(world.look, plan.writes)


@SERIES
def test_adoption_starts_anew_if_somebody_restarted_a_kdamond(series: str) -> None:
    """Its settings in use are those that the files held at the restart, which nobody knows."""
    world, before = running(series)
    replaced(world, 1)
    again = apply.start(world.look, default(world), world.disk.record, saved=world.disk.saved())
    assert again.how == apply.HOW[ChangeMethod.restart]
    assert not set(again.pids) & {before.pids[1]}
    assert all(one.alive for one in inspection.health(world.look, again))


@SERIES
@pytest.mark.parametrize("state", ["new", "staged"])
def test_kdamonds_that_are_off_with_other_values_are_foreign(series: str, state: str) -> None:
    """Default values prove that a kdamond is ours only while a change is under way."""
    world, applied = running(series)
    for index in range(2):
        world.kernel.write(state_path(index), Command.off)
    world.kernel.write(NR_KDAMONDS, "0")
    world.kernel.write(NR_KDAMONDS, "2")
    if state == "staged":
        for write in applied.plan.writes[1:]:
            foreign = "123456" if write.path.endswith("/quotas/bytes") else write.value
            if not write.path.endswith("/state"):
                world.kernel.write(write.path, foreign)
    made = len(world.kernel.journal)
    with pytest.raises(Conflict, match="kdamond 0"):
        apply.start(world.look, default(world), world.disk.record, saved=world.disk.saved())
    assert len(world.kernel.journal) == made
    with pytest.raises(Conflict, match="taken over"):
        apply.change_plan(world.look, applied, plan_for(world, OTHER_RATE), world.disk.record)
    assert len(world.kernel.journal) == made


@SERIES
def test_change_plan_refuses_a_node_without_memory(series: str) -> None:
    world, applied = running(series)
    made = len(world.kernel.journal)
    plan = replace(plan_for(world, OTHER_RATE), nodes=(0, 1, 9))
    with pytest.raises(TierdError, match="node 9"):
        apply.change_plan(world.look, applied, plan, world.disk.record)
    assert len(world.kernel.journal) == made


@SERIES
def test_a_pause_stops_every_kdamond(series: str) -> None:
    world = fresh(series)
    paused(world)
    for index in range(2):
        off = world.kernel.read(state_path(index)) == Command.off
        assert off or world.kernel.read(f"{kdamond_dir(index)}/contexts/0/pause") == "Y"


def others(world: World) -> None:
    """Make two foreign kdamonds."""
    world.kernel.write(NR_KDAMONDS, "2")
    world.kernel.write(f"{KDAMONDS}/0/contexts/nr_contexts", "1")


@SERIES
def test_a_count_that_is_absent_for_a_moment_is_not_zero(series: str) -> None:
    """If it were taken for zero, tierd would remove the kdamonds of others."""
    at = 0
    while True:
        at += 1
        world = fresh(series)
        others(world)
        made = len(world.kernel.journal)
        strike(world, Fault.absent, at)
        with pytest.raises((Conflict, SysfsError)):
            runs(default)(world)
        assert len(world.kernel.journal) == made, f"written after {world.sysfs.struck} was away"
        if world.sysfs.operations < at:
            assert at > 5
            return


@SERIES
def test_restore_puts_back_files_that_are_absent_for_a_moment(series: str) -> None:
    """A file that is absent for a moment does not mean that somebody removed the setting."""
    at = 0
    while True:
        at += 1
        world, applied = running(series)
        strike(world, Fault.absent, at)
        restored = restore.restore_all(world.look, applied.saved)
        assert not restored.left
        assert world.kernel.read(NR_KDAMONDS) == "0"
        assert world.kernel.read(DEMOTION_ENABLED) == "false"
        if world.sysfs.operations < at:
            assert at > 5
            return


def test_a_kernel_without_damon_has_no_kdamonds() -> None:
    class Bare(FaultySysfs):
        def read(self, path: str) -> str:
            self.fault, self.at = Fault.absent, self.operations + 1
            return super().read(path)

        def exists(self, _path: str) -> bool:
            return False

    assert Kernel.patient(Bare(fresh().kernel), CLOCK).count() == 0
