"""After a kill: quotas begin again, and a fault on the way there is said."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest

from tests.faults.faulty import Disk, Fault, FaultySysfs
from tests.faults.scenarios import CLOCK, World, default, plan_for
from tierd.configuration.config import Config, Tuner
from tierd.errors import TierdError
from tierd.kdamonds import apply
from tierd.kdamonds.aftermath import targets
from tierd.kdamonds.saved import SavedState
from tierd.plans.changes import Kind
from tierd.plans.damon import PAGE_BYTES, Command, state_path
from tierd.plans.opening import GROWS
from tierd.plans.plan import Plan
from tierd.sim import machine
from tierd.sim.kernel import SimKernel
from tierd.tuner.throttle import FADE, RESET, TARGET

SERIES = pytest.mark.parametrize("series", ["6.12", "7.3"])
BOTH = (0, 1)


def grows(world: World) -> Plan:
    return plan_for(world, Config(tuner=Tuner.demand))


PLANS = {"grows": grows, "kernel": default}


def killed(series: str, make: str = "grows") -> World:
    """What a tierd that was killed has left."""
    kernel = SimKernel(series, machine.load("two-tier"), block_pages=512)
    world = World(kernel, FaultySysfs(kernel), Disk())
    plan = PLANS[make](world)
    world.applied = apply.start(world.sysfs, CLOCK, plan, world.disk.record)
    world.sysfs.operations = 0
    return world


def saved(world: World) -> SavedState:
    found = world.disk.saved()
    assert found is not None
    return found


def inputs(world: World) -> list[int]:
    """What the tree has, by kdamond."""
    return [int(world.kernel.read(path)) for path in sorted(targets(saved(world).writes))]


def quotas(world: World) -> list[int]:
    return [world.kernel.effective_bytes(index)[-1] for index in BOTH]


def rest(world: World) -> tuple[int, ...]:
    return apply.rest(world.sysfs, CLOCK, saved(world))


@SERIES
def test_quotas_that_grew_begin_again(series: str) -> None:
    """Far beyond their limits, where to shrink would take them minutes."""
    world = killed(series)
    assert inputs(world) == [GROWS, GROWS]
    world.kernel.advance(10)
    assert min(quotas(world)) > 1000 * PAGE_BYTES
    assert rest(world) == BOTH
    world.kernel.advance(1)
    assert quotas(world) == [1, 1]
    world.kernel.advance(60)
    assert quotas(world) == [1, 1]


@SERIES
@pytest.mark.parametrize("value", [FADE.value, TARGET, TARGET - 1])
def test_quotas_that_shrink_or_stay_begin_again_too(series: str, value: int) -> None:
    """In use they may be several times the rate."""
    world = killed(series)
    world.kernel.advance(10)
    for index, path in enumerate(sorted(targets(saved(world).writes))):
        world.kernel.write(path, str(value))
        world.kernel.write(state_path(index), Command.commit_goals)
    world.kernel.advance(1)
    assert min(quotas(world)) > 1000 * PAGE_BYTES
    assert rest(world) == BOTH
    assert inputs(world) == [RESET.value, RESET.value]
    world.kernel.advance(1)
    assert quotas(world) == [1, 1]


def test_what_was_written_and_not_committed_does_not_hide_what_is_in_force() -> None:
    world = killed("7.3")
    world.kernel.advance(10)
    for path in targets(saved(world).writes):
        world.kernel.write(path, str(RESET.value))
    assert rest(world) == BOTH
    world.kernel.advance(1)
    assert quotas(world) == [1, 1]


@SERIES
def test_the_next_tierd_takes_them_over_as_they_run(series: str) -> None:
    world = killed(series)
    rest(world)
    pids = saved(world).pids
    found = apply.start(world.sysfs, CLOCK, grows(world), world.disk.record, saved=saved(world))
    assert found.pids == pids
    assert found.how == apply.HOW[Kind.none]


def struck(series: str, fault: Fault) -> Iterator[tuple[World, tuple[int, ...] | TierdError]]:
    """A world for each operation that there is to strike, and how it ended."""
    for at in count(1):
        world = killed(series)
        world.sysfs.fault, world.sysfs.at = fault, at
        try:
            ended: tuple[int, ...] | TierdError = rest(world)
        except TierdError as error:
            ended = error
        if world.sysfs.operations < at:
            assert at > 10, "it does next to nothing"
            return
        yield world, ended


@SERIES
@pytest.mark.parametrize("fault", [Fault.once, Fault.busy, Fault.file_for_ever, Fault.after])
def test_what_could_not_be_told_is_said_and_the_other_is_told(series: str, fault: Fault) -> None:
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


def test_what_is_off_or_takes_no_inputs_is_left() -> None:
    world = killed("7.3")
    world.kernel.write(state_path(0), "off")
    assert rest(world) == (1,)
    assert inputs(world) == [GROWS, RESET.value]
    native = killed("7.3", "kernel")
    assert targets(saved(native).writes) == {}
    assert rest(native) == ()


def test_what_is_not_ours_is_left() -> None:
    ours, theirs = killed("7.3"), killed("7.3")
    strange = replace(saved(ours), pids=(1, 2), writes=saved(killed("7.3", "kernel")).writes)
    assert apply.rest(theirs.sysfs, CLOCK, strange) == ()
    assert inputs(theirs) == [GROWS, GROWS]


def test_what_another_boot_has_left_is_none_of_this_ones() -> None:
    world = killed("7.3")
    assert apply.rest(world.sysfs, CLOCK, replace(saved(world), boot_id="other")) == ()
    assert inputs(world) == [GROWS, GROWS]
