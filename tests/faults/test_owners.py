"""Who may be touched: foreign kdamonds, modules, settings that somebody else has changed."""

from dataclasses import replace

import pytest

from tests.faults.faulty import Disk, FaultySysfs
from tests.faults.scenarios import CLOCK, DEFAULT, OTHER_RATE, World, default, plan_for
from tierd.configuration.config import Tuner
from tierd.errors import Conflict, ExitCode, TierdError
from tierd.kdamonds import apply
from tierd.kdamonds.kernel import NR_KDAMONDS, Kernel
from tierd.kdamonds.saved import SavedState, from_text, to_text
from tierd.machine.observe import KDAMONDS, Capabilities
from tierd.plans.changes import Kind
from tierd.plans.damon import Command, Write, state_path, writes
from tierd.policy import DAMON_STAT_ENABLED, DEMOTION_ENABLED
from tierd.sim import machine
from tierd.sim.kernel import SimKernel

SERIES = ("6.12", "7.3")
EACH_SERIES = pytest.mark.parametrize("series", SERIES)


def fresh(series: str) -> World:
    kernel = SimKernel(series, machine.load("two-tier"), block_pages=512)
    return World(kernel, FaultySysfs(kernel), Disk())


def start(world: World, **options: bool) -> apply.Applied:
    return apply.start(
        world.sysfs,
        CLOCK,
        default(world),
        world.disk.record,
        saved=world.disk.saved(),
        **options,
    )


def put(world: World, name: str, value: str) -> None:
    world.kernel.write(f"{KDAMONDS}/{name}", value)


def created(world: World) -> None:
    put(world, "nr_kdamonds", "2")


def staged(world: World) -> None:
    created(world)
    put(world, "0/contexts/nr_contexts", "1")
    put(world, "0/contexts/0/operations", "paddr")


def running(world: World) -> None:
    """As a tiering script would leave it: the same scheme as ours, but without a limit."""
    if world.kernel.exists(DAMON_STAT_ENABLED):
        world.kernel.write(DAMON_STAT_ENABLED, "N")
    (kdamond, *_) = default(world).kdamonds
    for write in writes((kdamond,), Capabilities(frozenset())):
        if not write.path.endswith("/quotas/bytes"):
            world.kernel.write(write.path, write.value)


@EACH_SERIES
@pytest.mark.parametrize("foreign", [created, staged, running])
def test_a_foreign_kdamond_is_never_touched(series: str, foreign: object) -> None:
    world = fresh(series)
    assert callable(foreign)
    foreign(world)
    made = len(world.kernel.journal)
    with pytest.raises(Conflict) as refused:
        start(world)
    assert refused.value.exit_code is ExitCode.busy
    assert "kdamond 0" in str(refused.value)
    assert len(world.kernel.journal) == made, "something was written"
    assert world.disk.text is None


@EACH_SERIES
@pytest.mark.parametrize("foreign", [created, staged, running])
def test_a_foreign_kdamond_is_replaced_if_so_configured(series: str, foreign: object) -> None:
    world = fresh(series)
    assert callable(foreign)
    foreign(world)
    applied = start(world, take_over=True)
    assert not apply.drift(world.kernel, applied.plan)
    assert "somebody else" in applied.how


@EACH_SERIES
def test_restore_leaves_what_has_become_somebody_elses(series: str) -> None:
    world = fresh(series)
    applied = start(world)
    for index in range(2):
        world.kernel.write(state_path(index), Command.off)
    world.kernel.write(NR_KDAMONDS, "0")
    running(world)
    if world.kernel.exists(DAMON_STAT_ENABLED):
        # DAMON is in use, so that damon_stat cannot start again.
        with pytest.raises(apply.UndoFailed, match="not ours") as failed:
            apply.restore(world.sysfs, CLOCK, applied.saved)
        assert failed.value.paths == (DAMON_STAT_ENABLED,)
    else:
        restored = apply.restore(world.sysfs, CLOCK, applied.saved)
        assert any("not ours" in left for left in restored.left)
    assert Kernel(world.kernel, CLOCK).status(0).on


@EACH_SERIES
@pytest.mark.parametrize("change", ["reload", "revive", "pause", "resume"])
def test_nothing_is_done_to_what_has_become_somebody_elses(series: str, change: str) -> None:
    world = fresh(series)
    applied = start(world)
    for index in range(2):
        world.kernel.write(state_path(index), Command.off)
    running(world)
    made = len(world.kernel.journal)
    record = world.disk.record
    acts = {
        "reload": lambda: apply.replace(
            world.sysfs, CLOCK, applied, plan_for(world, OTHER_RATE), record
        ),
        "revive": lambda: apply.revive(world.sysfs, CLOCK, applied, 1, record),
        "pause": lambda: apply.pause(world.sysfs, CLOCK, applied, record),
        "resume": lambda: apply.resume(world.sysfs, CLOCK, applied, record),
    }
    with pytest.raises(Conflict):
        acts[change]()
    assert len(world.kernel.journal) == made


def test_a_module_that_holds_damon_is_named() -> None:
    world = fresh("7.3")
    world.kernel.write(DAMON_STAT_ENABLED, "N")
    world.kernel.write("sys/module/damon_reclaim/parameters/enabled", "Y")
    with pytest.raises(Conflict, match="damon_reclaim"):
        start(world)


def test_damon_stat_that_may_not_be_stopped_is_a_conflict() -> None:
    world = fresh("7.3")
    plan = plan_for(world, replace(DEFAULT, manage_damon_stat=False))
    with pytest.raises(Conflict, match="damon_stat"):
        apply.start(world.sysfs, CLOCK, plan, world.disk.record)


@EACH_SERIES
def test_a_setting_that_somebody_changed_meanwhile_is_left(series: str) -> None:
    world = fresh(series)
    applied = start(world)
    assert applied.saved.knobs[-1].path == DEMOTION_ENABLED
    world.kernel.write(DEMOTION_ENABLED, "false")
    restored = apply.restore(world.sysfs, CLOCK, applied.saved)
    assert not restored.left, "it stands as it was before"
    odd = replace(applied.saved.knobs[-1], ours="3")
    changed = replace(applied.saved, knobs=(replace(odd, before="4"),))
    restored = apply.restore(world.sysfs, CLOCK, changed)
    assert any("somebody else" in left for left in restored.left)
    assert world.kernel.read(DEMOTION_ENABLED) == "false"


@EACH_SERIES
def test_another_boot_leaves_nothing_to_restore_or_adopt(series: str) -> None:
    world = fresh(series)
    applied = start(world)
    old = replace(applied.saved, boot_id="another")
    assert apply.restore(world.sysfs, CLOCK, old) == apply.Restored((), ())
    with pytest.raises(Conflict):
        apply.start(world.sysfs, CLOCK, applied.plan, world.disk.record, saved=old)


@EACH_SERIES
def test_adoption_writes_nothing_and_keeps_what_was_learned(series: str) -> None:
    world = fresh(series)
    first = start(world)
    world.kernel.advance(3)
    made = len(world.kernel.journal)
    again = start(world)
    assert again.saved == first.saved
    assert len(world.kernel.journal) == made


@EACH_SERIES
def test_a_former_setting_survives_a_restart_that_finds_no_kdamond(series: str) -> None:
    world = fresh(series)
    first = start(world)
    for index in range(2):
        world.kernel.write(state_path(index), Command.off)
    world.kernel.write(NR_KDAMONDS, "0")
    again = start(world)
    assert again.saved.knobs == first.saved.knobs


def test_tuned_intervals_survive_a_commit() -> None:
    """A commit would set them back to what stands in the files (damon_commit_ctx())."""
    world = fresh("7.3")
    applied = start(world)
    base = f"{KDAMONDS}/1/contexts/0/monitoring_attrs/intervals"
    world.kernel.advance(60)
    apply.command(world.sysfs, CLOCK, applied, 1, Command.update_intervals)
    tuned = int(world.kernel.read(f"{base}/sample_us"))
    assert tuned > 5_000, "the idle node is sampled less often by now"
    apply.replace(world.sysfs, CLOCK, applied, plan_for(world, OTHER_RATE), world.disk.record)
    apply.command(world.sysfs, CLOCK, applied, 1, Command.update_intervals)
    assert int(world.kernel.read(f"{base}/sample_us")) >= tuned


def test_a_goal_alone_needs_no_commit() -> None:
    world = fresh("7.3")
    config = replace(DEFAULT, tuner=Tuner.kernel)
    applied = apply.start(world.sysfs, CLOCK, plan_for(world, config), world.disk.record)
    made = len(world.kernel.journal)
    plan = plan_for(world, replace(config, used_bp=9900))
    done = apply.replace(world.sysfs, CLOCK, applied, plan, world.disk.record)
    assert done.how == apply.HOW[Kind.goals]
    assert done.pids == applied.pids
    commands = [w.value for w in world.kernel.journal[made:] if w.path.endswith("/state")]
    assert commands == [Command.commit_goals]


@EACH_SERIES
def test_drift_is_seen(series: str) -> None:
    world = fresh(series)
    applied = start(world)
    path = f"{KDAMONDS}/0/contexts/0/schemes/0/quotas/bytes"
    world.kernel.write(path, "12345")
    assert [(d.path, d.found) for d in apply.drift(world.kernel, applied.plan)] == [(path, "12345")]
    again = start(world)
    assert not apply.drift(world.kernel, again.plan)


@EACH_SERIES
def test_a_node_that_went_is_never_given_to_the_kernel(series: str) -> None:
    world = fresh(series)
    plan = replace(default(world), nodes=(0, 1, 9))
    with pytest.raises(TierdError, match="node 9"):
        apply.start(world.sysfs, CLOCK, plan, world.disk.record)
    assert not any(w.path.startswith(KDAMONDS) for w in world.kernel.journal)


@EACH_SERIES
def test_what_restore_would_write_is_what_it_writes(series: str) -> None:
    world = fresh(series)
    applied = start(world)
    wanted = apply.restore_writes(world.sysfs, CLOCK, applied.saved)
    made = len(world.kernel.journal)
    apply.restore(world.sysfs, CLOCK, applied.saved)
    assert tuple(Write(w.path, w.value) for w in world.kernel.journal[made:]) == wanted
    assert apply.restore_writes(world.sysfs, CLOCK, applied.saved) == ()


@EACH_SERIES
def test_health_knows_the_dead_and_the_gone(series: str) -> None:
    world = fresh(series)
    applied = start(world)
    world.kernel.end_kdamond(1)
    assert [one.alive for one in apply.health(world.sysfs, CLOCK, applied)] == [True, False]
    world.kernel.write(state_path(0), Command.off)
    world.kernel.write(NR_KDAMONDS, "0")
    gone = apply.health(world.sysfs, CLOCK, applied)
    assert [(one.state, one.alive) for one in gone] == [("gone", False)] * 2
    again = apply.revive(world.sysfs, CLOCK, applied, 0, world.disk.record)
    assert all(one.alive for one in apply.health(world.sysfs, CLOCK, again))


SAVED = SavedState("boot", (Write("a", "1"),), (5,), (), ((Write("a", "0"),),))


def test_the_saved_state_is_text_and_back() -> None:
    assert from_text(to_text(SAVED)) == SAVED


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "null", "7", '{"schema":"other/1"}', to_text(SAVED)[:-9]]
    + [to_text(SAVED).replace(a, b) for a, b in [('"boot"', "7"), ("[5]", '["x"]'), ('"a",', "")]],
)
def test_a_damaged_state_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(TierdError) as refused:
        from_text(text)
    assert refused.value.hint
