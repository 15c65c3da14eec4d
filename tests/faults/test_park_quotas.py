"""park_quotas: after a kill no quota stays in use, and a failure is reported."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest

from tests.faults.faulty import Disk, Fault, FaultySysfs
from tests.faults.scenarios import World, default, plan_for
from tests.fixtures.pages import PAGE_BYTES
from tierd.configuration.config import Config, Tuner
from tierd.errors import TierdError
from tierd.kdamonds import apply, restore
from tierd.kdamonds.restore import goal_targets
from tierd.kdamonds.saved import SavedState
from tierd.machine.features import KDAMONDS
from tierd.plans.changes import ChangeMethod
from tierd.plans.damon import Command, scheme_dir, state_path
from tierd.plans.plan import GROWING_INPUT, OPEN_INPUT, TARGET, Plan, input_writes
from tierd.sim import machine_model
from tierd.sim.sim_kernel import SimKernel
from tierd.tuner.throttle import FADE, RESET

SERIES = pytest.mark.parametrize("series", ["6.12", "7.3"])
BOTH = (0, 1)


def grows(world: World) -> Plan:
    return plan_for(world, Config(tuner=Tuner.demand, cost_bp=0))


def visits(world: World) -> Plan:
    return plan_for(world, Config(tuner=Tuner.demand))


PLANS = {"grows": grows, "kernel": default, "visits": visits}


def killed(series: str, make: str = "grows") -> World:
    """Return a world in which tierd was killed while its plan ran."""
    kernel = SimKernel(series, machine_model.load("two-tier"), block_pages=512)
    world = World(kernel, FaultySysfs(kernel), Disk())
    plan = PLANS[make](world)
    world.applied = apply.start(world.look, plan, world.disk.record)
    world.sysfs.operations = 0
    return world


def saved(world: World) -> SavedState:
    found = world.disk.saved()
    assert found is not None
    return found


def inputs(world: World) -> list[int]:
    """Return the inputs in DAMON's files of what exchanges pages, by kdamond."""
    return [
        int(world.kernel.read(f"{scheme_dir(*one)}/quotas/goals/0/current_value"))
        for one in exchanges(world)
    ]


def quotas(world: World) -> list[int]:
    return [world.kernel.effective_bytes(kdamond)[at] for kdamond, at in exchanges(world)]


def exchanges(world: World) -> list[tuple[int, int]]:
    """Return the kdamond and the index of each scheme that exchanges pages and grows at first."""
    plan = grows(world)
    return sorted((one.kdamond, one.scheme) for one in plan.of_regions if one.begins_ready)


def park(world: World) -> tuple[int, ...]:
    return restore.park_quotas(world.look, saved(world))


@SERIES
def test_quotas_that_grew_are_parked(series: str) -> None:
    """Such quotas are far beyond their limits, and would need minutes to shrink."""
    world = killed(series)
    assert inputs(world) == [GROWING_INPUT, GROWING_INPUT]
    world.kernel.advance(10)
    assert min(quotas(world)) > 1000 * PAGE_BYTES
    assert park(world) == BOTH
    world.kernel.advance(1)
    assert quotas(world) == [1, 1]
    world.kernel.advance(60)
    assert quotas(world) == [1, 1]


@SERIES
@pytest.mark.parametrize("value", [FADE.value, TARGET, TARGET - 1])
def test_quotas_that_shrink_or_stay_are_parked_too(series: str, value: int) -> None:
    """The quotas in use may be several times the rate limit."""
    world = killed(series)
    world.kernel.advance(10)
    for path in goal_targets(saved(world).writes):
        world.kernel.write(path, str(value))
    for index in BOTH:
        world.kernel.write(state_path(index), Command.commit_goals)
    world.kernel.advance(1)
    assert min(quotas(world)) > 1000 * PAGE_BYTES
    assert park(world) == BOTH
    assert inputs(world) == [RESET.value, RESET.value]
    world.kernel.advance(1)
    assert quotas(world) == [1, 1]


def test_quotas_are_parked_even_if_the_files_hold_the_reset_input() -> None:
    world = killed("7.3")
    world.kernel.advance(10)
    for path in goal_targets(saved(world).writes):
        world.kernel.write(path, str(RESET.value))
    assert park(world) == BOTH
    world.kernel.advance(1)
    assert quotas(world) == [1, 1]


@SERIES
def test_the_next_tierd_adopts_parked_kdamonds(series: str) -> None:
    world = killed(series)
    park(world)
    pids = saved(world).pids
    found = apply.start(world.look, grows(world), world.disk.record, saved=saved(world))
    assert found.pids == pids
    assert found.how == apply.HOW[ChangeMethod.none]


def struck(series: str, fault: Fault) -> Iterator[tuple[World, tuple[int, ...] | TierdError]]:
    """Yield a world with the fault at each operation, and how park_quotas ended."""
    for at in count(1):
        world = killed(series)
        world.sysfs.fault, world.sysfs.at = fault, at
        try:
            ended: tuple[int, ...] | TierdError = park(world)
        except TierdError as error:
            ended = error
        if world.sysfs.operations < at:
            assert at > 10, "it does next to nothing"
            return
        yield world, ended


@SERIES
@pytest.mark.parametrize("fault", [Fault.once, Fault.busy, Fault.file_for_ever, Fault.after])
def test_a_kdamond_that_fails_is_reported_and_the_other_is_parked(
    series: str, fault: Fault
) -> None:
    halves = 0
    for world, ended in struck(series, fault):
        where = f"{fault} at {world.sysfs.at}, /{world.sysfs.struck}: {ended!r}"
        if isinstance(ended, TierdError):
            assert fault is not Fault.busy, where
            assert world.sysfs.struck is not None
            assert world.sysfs.struck in str(ended), where
            halves += inputs(world).count(RESET.value) == 1
        else:
            assert ended == BOTH, where
            assert inputs(world) == [RESET.value, RESET.value], where
    assert halves or fault is Fault.busy


def test_kdamonds_that_are_off_or_have_no_inputs_are_left() -> None:
    world = killed("7.3")
    world.kernel.write(state_path(0), "off")
    assert park(world) == (1,)
    assert inputs(world) == [GROWING_INPUT, RESET.value]
    native = killed("7.3", "kernel")
    assert goal_targets(saved(native).writes) == {}
    assert park(native) == ()


def test_foreign_kdamonds_are_not_parked() -> None:
    """The foreign kdamonds have inputs at the same paths as ours, and differ in one value."""
    theirs = killed("7.3")
    ours = replace(saved(theirs), pids=(1, 2))
    assert goal_targets(ours.writes)
    world = World(theirs.kernel, FaultySysfs(theirs.kernel), theirs.disk)
    for index in BOTH:
        path = f"{KDAMONDS}/{index}/contexts/0/monitoring_attrs/nr_regions/max"
        world.kernel.write(path, "4711")
    writes = len(world.kernel.journal)
    assert restore.park_quotas(world.look, ours) == ()
    assert inputs(world) == [GROWING_INPUT, GROWING_INPUT]
    assert len(world.kernel.journal) == writes


def test_the_state_of_another_boot_parks_nothing() -> None:
    world = killed("7.3")
    assert restore.park_quotas(world.look, replace(saved(world), boot_id="other")) == ()
    assert inputs(world) == [GROWING_INPUT, GROWING_INPUT]


@SERIES
def test_sweeps_that_are_open_are_closed(series: str) -> None:
    """They are open by watermarks on 6.12, and by a goal on 7.3."""
    world = killed(series, "visits")
    plan = visits(world)
    for write in (write for one in plan.sweeps for write in input_writes(one, OPEN_INPUT)):
        world.kernel.write(write.path, write.value)
    for index in BOTH:
        world.kernel.write(state_path(index), Command.commit)

    def visited() -> list[int]:
        for index in BOTH:
            world.kernel.write(state_path(index), Command.update_stats)
        return [
            int(world.kernel.read(f"{scheme_dir(one.kdamond, one.scheme)}/stats/sz_tried"))
            for one in plan.sweeps
        ]

    world.kernel.advance(0.5)
    assert plan.sweeps
    assert all(visited())
    assert park(world) == BOTH
    world.kernel.advance(1)
    before = visited()
    world.kernel.advance(5)
    assert visited() == before
