"""tierd leaves foreign kdamonds, modules, and settings that somebody else has changed."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest

from tests.faults.faulty import Disk, Fault, FaultySysfs
from tests.faults.scenarios import CLOCK, DEFAULT, OTHER_RATE, World, default, plan_for
from tierd.configuration.config import Config, Tuner
from tierd.errors import Conflict, ExitCode, TierdError
from tierd.kdamonds import apply, inspection, ownership, restore
from tierd.kdamonds.applied import Applied, UndoFailed
from tierd.kdamonds.kernel import NR_KDAMONDS, Kernel
from tierd.kdamonds.ownership import Standing
from tierd.kdamonds.restore import Restored
from tierd.kdamonds.saved import KNOBS, SavedKnob, SavedState, changing, from_text, to_text
from tierd.machine.features import KDAMONDS, Capabilities
from tierd.plans.changes import ChangeMethod, values
from tierd.plans.damon import Command, Write, quota_path, state_path, writes
from tierd.plans.knobs import DAMON_STAT_ENABLED, DEMOTION_ENABLED
from tierd.plans.plan import TARGET, input_writes
from tierd.sim import machine_model
from tierd.sim.sim_kernel import SimKernel

SERIES = ("6.12", "7.3")
EACH_SERIES = pytest.mark.parametrize("series", SERIES)


def fresh(series: str) -> World:
    kernel = SimKernel(series, machine_model.load("two-tier"), block_pages=512)
    return World(kernel, FaultySysfs(kernel), Disk())


def start(world: World, **options: bool) -> Applied:
    return apply.start(
        world.look,
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
    """Make a kdamond as a tiering script leaves it: with our scheme, but without a limit."""
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
def test_take_over_replaces_a_foreign_kdamond(series: str, foreign: object) -> None:
    world = fresh(series)
    assert callable(foreign)
    foreign(world)
    applied = start(world, take_over=True)
    assert not inspection.drift(world.kernel, applied.plan)
    assert "somebody else" in applied.how


@EACH_SERIES
def test_restore_leaves_foreign_kdamonds(series: str) -> None:
    world = fresh(series)
    applied = start(world)
    for index in range(2):
        world.kernel.write(state_path(index), Command.off)
    world.kernel.write(NR_KDAMONDS, "0")
    running(world)
    if world.kernel.exists(DAMON_STAT_ENABLED):
        # DAMON is in use, so that damon_stat cannot start again.
        with pytest.raises(UndoFailed, match="not ours") as failed:
            restore.restore_all(world.look, applied.saved)
        assert failed.value.paths == (DAMON_STAT_ENABLED,)
    else:
        restored = restore.restore_all(world.look, applied.saved)
        assert any("not ours" in left for left in restored.left)
    assert Kernel(world.kernel, CLOCK).status(0).on


def scribbled(series: str) -> tuple[World, SavedState, str]:
    """Return our kdamonds, off, with one value that we did not write, and its path."""
    world = fresh(series)
    saved = start(world).saved
    for index in range(2):
        world.kernel.write(state_path(index), Command.off)
    path = f"{KDAMONDS}/1/contexts/0/schemes/0/quotas/bytes"
    world.kernel.write(path, "4096")
    return world, saved, path


@EACH_SERIES
def test_restore_neither_removes_nor_forgets_altered_kdamonds(series: str) -> None:
    world, saved, path = scribbled(series)
    with pytest.raises(UndoFailed) as failed:
        restore.restore_all(world.look, saved)
    assert failed.value.paths == (path,)
    with pytest.raises(UndoFailed, match=path) as printed:
        restore.restore_writes(world.look, saved)
    assert failed.value.hint == printed.value.hint
    assert f"echo 0 > /{NR_KDAMONDS}" in failed.value.hint
    assert world.kernel.read(NR_KDAMONDS) == "2"
    assert world.kernel.read(DEMOTION_ENABLED) == "false", "the settings are put back"
    # With our own value put back, the kdamonds prove to be ours again.
    (wrote,) = (one for one in saved.writes if one.path == path)
    world.kernel.write(path, wrote.value)
    assert not restore.restore_all(world.look, saved).left
    assert world.kernel.read(NR_KDAMONDS) == "0"


@EACH_SERIES
@pytest.mark.parametrize("theirs", ["runs", "new"])
def test_restore_succeeds_beside_foreign_kdamonds(series: str, theirs: str) -> None:
    world, saved, _ = scribbled(series)
    if theirs == "runs":
        world.kernel.write(state_path(1), Command.on)
    else:
        created(world)
    if world.kernel.exists(DAMON_STAT_ENABLED) and theirs == "runs":
        saved = replace(saved, knobs=())
    assert any("not ours" in left for left in restore.restore_all(world.look, saved).left)


@EACH_SERIES
@pytest.mark.parametrize("change", ["reload", "revive", "pause", "resume"])
def test_no_change_touches_foreign_kdamonds(series: str, change: str) -> None:
    world = fresh(series)
    applied = start(world)
    for index in range(2):
        world.kernel.write(state_path(index), Command.off)
    running(world)
    made = len(world.kernel.journal)
    record = world.disk.record
    acts = {
        "reload": lambda: apply.change_plan(
            world.look, applied, plan_for(world, OTHER_RATE), record
        ),
        "revive": lambda: apply.revive(world.look, applied, 1, record),
        "pause": lambda: apply.pause(world.look, applied, record),
        "resume": lambda: apply.resume(world.look, applied, record),
    }
    with pytest.raises(Conflict):
        acts[change]()
    assert len(world.kernel.journal) == made


def test_the_error_names_a_module_that_holds_damon() -> None:
    world = fresh("7.3")
    world.kernel.write(DAMON_STAT_ENABLED, "N")
    world.kernel.write("sys/module/damon_reclaim/parameters/enabled", "Y")
    with pytest.raises(Conflict, match="damon_reclaim"):
        start(world)


def test_damon_stat_is_a_conflict_if_tierd_may_not_stop_it() -> None:
    world = fresh("7.3")
    plan = plan_for(world, replace(DEFAULT, manage_damon_stat=False))
    with pytest.raises(Conflict, match="damon_stat"):
        apply.start(world.look, plan, world.disk.record)


@EACH_SERIES
def test_restore_leaves_a_setting_that_somebody_else_changed(series: str) -> None:
    world = fresh(series)
    applied = start(world)
    assert applied.saved.knobs[-1].path == DEMOTION_ENABLED
    world.kernel.write(DEMOTION_ENABLED, "false")
    restored = restore.restore_all(world.look, applied.saved)
    assert not restored.left, "it stands as it was before"
    odd = replace(applied.saved.knobs[-1], ours="3")
    changed = replace(applied.saved, knobs=(replace(odd, before="4"),))
    restored = restore.restore_all(world.look, changed)
    assert any("somebody else" in left for left in restored.left)
    assert world.kernel.read(DEMOTION_ENABLED) == "false"


@EACH_SERIES
def test_the_state_of_another_boot_is_not_restored_or_adopted(series: str) -> None:
    world = fresh(series)
    applied = start(world)
    old = replace(applied.saved, boot_id="another")
    assert restore.restore_all(world.look, old) == Restored((), ())
    with pytest.raises(Conflict):
        apply.start(world.look, applied.plan, world.disk.record, saved=old)


@EACH_SERIES
def test_restore_tries_a_failed_step_again(series: str) -> None:
    """A restore whose step fails once, at any operation, succeeds at its second try."""
    for at in count(1):
        world = fresh(series)
        start(world)
        saved = world.disk.saved()
        assert saved is not None
        world.sysfs.operations, world.sysfs.fault, world.sysfs.at = 0, Fault.once, at
        kernel = world.look
        if at == 1:
            # The boot_id decides if a restore may do anything. It is read first, and only once.
            with pytest.raises(UndoFailed, match="boot_id"):
                restore.restore_all(kernel, saved)
            continue
        restore.restore_all(kernel, saved)
        assert world.kernel.read(NR_KDAMONDS) == "0"
        assert world.kernel.read(DEMOTION_ENABLED) == "false"
        if world.sysfs.operations < at:
            assert at > 10, "it does next to nothing"
            return


@EACH_SERIES
def test_adoption_writes_nothing_and_keeps_regions(series: str) -> None:
    world = fresh(series)
    first = start(world)
    world.kernel.advance(3)
    made = len(world.kernel.journal)
    again = start(world)
    assert again.saved == first.saved
    assert len(world.kernel.journal) == made


@EACH_SERIES
def test_the_former_setting_is_kept_if_no_kdamond_is_left(series: str) -> None:
    world = fresh(series)
    first = start(world)
    for index in range(2):
        world.kernel.write(state_path(index), Command.off)
    world.kernel.write(NR_KDAMONDS, "0")
    again = start(world)
    assert again.saved.knobs == first.saved.knobs


# With demand the kernel does not refresh its files by itself, so they hold what was written. It
# tunes intervals only if no pages are visited.
UNASKED = replace(DEFAULT, tuner=Tuner.demand, cost_bp=0)


def reloaded(world: World, applied: Applied) -> None:
    plan = plan_for(world, replace(UNASKED, rate_max_bytes_per_s=50_000_000))
    apply.change_plan(world.look, applied, plan, world.disk.record)


def paused_and_resumed(world: World, applied: Applied) -> None:
    held = apply.pause(world.look, applied, world.disk.record)
    apply.resume(world.look, held, world.disk.record)


@pytest.mark.parametrize("commits", [reloaded, paused_and_resumed, None])
def test_tuned_intervals_survive_a_commit(
    commits: Callable[[World, Applied], None] | None,
) -> None:
    """A commit alone would reset them to the values in the files (damon_commit_ctx())."""
    world = fresh("7.3")
    applied = apply.start(world.look, plan_for(world, UNASKED), world.disk.record)
    sample = f"{KDAMONDS}/1/contexts/0/monitoring_attrs/intervals/sample_us"
    world.kernel.advance(60)
    assert world.kernel.read(sample) == "5000"
    if commits is not None:
        commits(world, applied)
    # By now the kernel samples the idle node less often. The command makes it write the new
    # intervals into its files.
    apply.command(world.look, applied, 1, Command.update_intervals)
    assert int(world.kernel.read(sample)) > 10_000


def test_after_a_change_that_was_not_completed_each_kdamond_gets_a_commit() -> None:
    """The files of one kdamond are as they should be, and nobody committed them."""
    world = fresh("7.3")
    applied = start(world)
    plan = plan_for(world, OTHER_RATE)
    wanted = values(plan.writes)
    for write in applied.plan.writes:
        if write.path.startswith(f"{KDAMONDS}/1/") and wanted[write.path] != write.value:
            world.kernel.write(write.path, wanted[write.path])
    begun = changing(applied.saved, plan.writes, applied.saved.knobs)
    made = len(world.kernel.journal)
    done = apply.change_plan(world.look, replace(applied, saved=begun), plan, world.disk.record)
    written = world.kernel.journal[made:]
    commits = [one.path for one in written if one.value == Command.commit]
    assert commits == [state_path(0), state_path(1)]
    files = {one.path for one in written}.difference(commits)
    assert files
    assert not any(path.startswith(f"{KDAMONDS}/1/") for path in files)
    assert done.saved.settled


def test_a_new_goal_value_needs_no_commit() -> None:
    world = fresh("7.3")
    config = replace(DEFAULT, tuner=Tuner.kernel)
    applied = apply.start(world.look, plan_for(world, config), world.disk.record)
    made = len(world.kernel.journal)
    plan = plan_for(world, replace(config, used_bp=9900))
    done = apply.change_plan(world.look, applied, plan, world.disk.record)
    assert done.how == apply.HOW[ChangeMethod.goals]
    assert done.pids == applied.pids
    commands = [w.value for w in world.kernel.journal[made:] if w.path.endswith("/state")]
    assert commands == [Command.commit_goals]


@EACH_SERIES
def test_drift_is_reported(series: str) -> None:
    world = fresh(series)
    applied = start(world)
    path = f"{KDAMONDS}/0/contexts/0/schemes/0/quotas/bytes"
    world.kernel.write(path, "12345")
    assert [(d.path, d.found) for d in inspection.drift(world.kernel, applied.plan)] == [
        (path, "12345")
    ]
    again = start(world)
    assert not inspection.drift(world.kernel, again.plan)


def test_a_sweep_that_was_made_slower_is_ours_and_no_drift() -> None:
    """Until the plan changes: then it has the speed of the plan again."""
    world = fresh("6.12")
    config = Config(tuner=Tuner.demand)
    applied = apply.start(world.look, plan_for(world, config), world.disk.record)
    sweep = applied.plan.sweeps[0]
    assert sweep.gated
    apply.tune(world.look, applied, input_writes(sweep, TARGET // 4))
    path = quota_path(sweep.kdamond, sweep.scheme)
    assert int(world.kernel.read(path)) < sweep.quota_bytes
    assert inspection.drift(world.kernel, applied.plan) == ()
    for index in range(len(applied.pids)):
        world.kernel.write(state_path(index), Command.off)
    # No pid tells who owns them now.
    assert ownership.standing(world.look, applied.saved) is Standing.ours
    assert ownership.altered(world.look, applied.saved) == ()
    again = apply.start(world.look, applied.plan, world.disk.record, saved=world.disk.saved())
    assert int(world.kernel.read(path)) == sweep.quota_bytes
    # The quota of a scheme by regions is not tierd's to change without a new plan.
    by_region = again.plan.of_regions[0]
    world.kernel.write(quota_path(by_region.kdamond, by_region.scheme), "12345")
    assert len(inspection.drift(world.kernel, again.plan)) == 1


@EACH_SERIES
def test_a_node_without_memory_is_never_given_to_the_kernel(series: str) -> None:
    world = fresh(series)
    plan = replace(default(world), nodes=(0, 1, 9))
    with pytest.raises(TierdError, match="node 9"):
        apply.start(world.look, plan, world.disk.record)
    assert not any(w.path.startswith(KDAMONDS) for w in world.kernel.journal)


@EACH_SERIES
def test_restore_writes_what_it_printed(series: str) -> None:
    world = fresh(series)
    applied = start(world)
    wanted = restore.restore_writes(world.look, applied.saved)
    made = len(world.kernel.journal)
    restore.restore_all(world.look, applied.saved)
    assert tuple(Write(w.path, w.value) for w in world.kernel.journal[made:]) == wanted
    assert restore.restore_writes(world.look, applied.saved) == ()


@EACH_SERIES
def test_health_reports_dead_and_removed_kdamonds(series: str) -> None:
    world = fresh(series)
    applied = start(world)
    world.kernel.end_kdamond(1)
    assert [one.alive for one in inspection.health(world.look, applied)] == [True, False]
    world.kernel.write(state_path(0), Command.off)
    world.kernel.write(NR_KDAMONDS, "0")
    gone = inspection.health(world.look, applied)
    assert [(one.state, one.alive) for one in gone] == [("gone", False)] * 2
    again = apply.revive(world.look, applied, 0, world.disk.record)
    assert all(one.alive for one in inspection.health(world.look, again))


TREE = f"{KDAMONDS}/0/contexts/0/operations"
SAVED = SavedState(
    "boot",
    (Write(TREE, "paddr"),),
    (5,),
    (SavedKnob(DAMON_STAT_ENABLED, "Y", "N"),),
    ((Write(TREE, "vaddr"),),),
)
TEXT = to_text(SAVED)


def test_the_saved_state_survives_text() -> None:
    assert from_text(TEXT) == SAVED


def test_the_saved_state_keeps_a_cgroup_name_that_is_not_utf_8() -> None:
    odd = replace(SAVED, writes=(Write(TREE, "/a\udcff\n"),))
    assert from_text(to_text(odd)) == odd


def test_every_setting_that_a_plan_changes_can_be_put_back() -> None:
    """Weights of interleaving have tests of their own: tests/unit/machine/test_interleave.py."""
    world = fresh("7.3")
    for tuner in Tuner:
        config = Config(tuner=tuner, manage_demotion_enabled=True, manage_damon_stat=True)
        paths = {knob.path for knob in plan_for(world, config).knobs}
        assert paths == {DEMOTION_ENABLED, DAMON_STAT_ENABLED} < KNOBS


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "null", "7", "[" * 100_000, '{"schema":"other/1"}', TEXT[:-9]]
    + [
        TEXT.replace(a, b, 1)
        for a, b in [
            ('"boot"', "7"),
            ("[5]", '["x"]'),
            ("[5]", "[true]"),
            ("[5]", "[-1]"),
            ("[5]", "[99999999]"),
            (f'"{TREE}",', ""),
            # A forged file with other paths, which root would write to.
            (TREE, "etc/passwd"),
            (TREE, f"{KDAMONDS}/../../../../../../etc/passwd"),
            (TREE, f"{KDAMONDS}/0/./state"),
            (TREE, f"{KDAMONDS}/" + "0" * 5000),
            (DAMON_STAT_ENABLED, "proc/sys/kernel/core_pattern"),
            (DAMON_STAT_ENABLED, "sys/module/damon_stat/parameters/../../x"),
            ('"Y"', '"; rm -rf /\\n"'),
        ]
    ],
)
def test_a_damaged_or_forged_state_is_refused_with_a_hint(text: str) -> None:
    assert text != TEXT
    with pytest.raises(TierdError) as refused:
        from_text(text)
    assert refused.value.hint
