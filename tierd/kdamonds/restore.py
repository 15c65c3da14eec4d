"""The one way to put the machine back from a SavedState, with or without a daemon.

`restore_all` puts everything back. `park_quotas` is for the time between a kill and the next tierd.

Rules of this file:
1. A setting or a kdamond that is not ours, or that somebody else has changed, is left and reported.
2. If one step fails, the others are still tried. Then all are tried again.
3. If something could not be put back, the error names the files.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import partial

from tierd.errors import TierdError
from tierd.frozen import dataclass
from tierd.kdamonds.applied import RESTORE_AGAIN, UndoFailed
from tierd.kdamonds.build import keep_tuned_intervals
from tierd.kdamonds.kernel import NR_KDAMONDS, Attempts, Kernel, NotVerified
from tierd.kdamonds.ownership import ALTERED_HINT, Standing, altered, describe_all, standing
from tierd.kdamonds.saved import HINT, STEERED, SavedKnob, SavedState, from_text, same_value
from tierd.machine.features import KDAMONDS
from tierd.machine.neighbours import kdamonds
from tierd.plans.changes import Change, ChangeMethod, is_gate, kdamond_of, values
from tierd.plans.damon import GATE_CLOSED, Command, Metric, Write, Writes, state_path
from tierd.plans.plan import TARGET
from tierd.record import rundir
from tierd.record.rundir import RunDir
from tierd.sysfs import SysfsError, optional
from tierd.tuner.throttle import RESET

# Tries of a restore. A short failure is over at the second try. If that fails too, a third would.
PASSES_MAX = 2
# Seconds between two tries, so that a short failure can end.
PASS_WAIT_S = 0.1

ALTERED = "somebody else wrote into our kdamonds while they were off, and may own them now"

_METRIC = "/target_metric"

# With this rate limit hint faults promote nothing, unless a tenth of the node or so is free: then
# the kernel does not look at the limit (pgdat_free_space_enough()).
PARKED_SETTING = "0"


@dataclass(frozen=True, slots=True)
class Restored:
    """What was put back, and what was left because it is not ours (any more), as sentences."""

    done: tuple[str, ...]
    left: tuple[str, ...]


def saved_in(folder: RunDir) -> SavedState | None:
    """Return the state that an earlier tierd left in its run directory; None if there is none."""
    text = rundir.load(folder.run / rundir.STATE, rundir.STATE_BYTES_MAX)
    return None if text is None else from_text(text)


def restore_all(kernel: Kernel, saved: SavedState) -> Restored:
    """Put everything back. After an UndoFailed, keep `saved`: a later restore needs it."""
    try:
        boot_id = kernel.boot_id()
    except SysfsError as error:
        raise UndoFailed(f"could not put anything back: {error}", (error.path,)) from error
    if boot_id != saved.boot_id:
        return Restored((), ())
    return restore_same_boot(kernel, saved, known_ours=False)


def restore_same_boot(kernel: Kernel, saved: SavedState, *, known_ours: bool) -> Restored:
    """Put everything back, where `saved` is known to be of this boot.

    With `known_ours` the kdamonds are taken to be ours; else their files must prove it.
    """
    run = _Run(kernel, saved, known_ours)
    run.once()
    for _ in range(PASSES_MAX - 1):
        if run.attempts.failed:
            kernel.clock.sleep(PASS_WAIT_S)
            run.once()
    if not run.attempts.failed:
        return Restored(tuple(run.done), tuple(run.left))
    paths = tuple(run.attempts.failed)
    named = ", ".join(f"/{path}" for path in paths)
    reasons = "; ".join((run.attempts.reasons, *run.left))
    raise UndoFailed(f"could not put back {named}: {reasons}", paths, run.hint)


def restore_writes(kernel: Kernel, saved: SavedState) -> Writes:
    """Return the writes that `restore_all` would make now."""
    return tuple(_restore_writes(kernel, saved))


def _restore_writes(kernel: Kernel, saved: SavedState) -> Iterator[Write]:
    if saved.boot_id != kernel.boot_id():
        return
    whose = standing(kernel, saved)
    if whose is Standing.foreign and (reasons := _altered(kernel, saved)):
        named = "; ".join(reasons.values())
        raise UndoFailed(f"{ALTERED}: {named}", tuple(reasons), ALTERED_HINT)
    if whose is Standing.ours:
        for index in range(kernel.count()):
            if kernel.status(index).state != Command.off:
                yield Write(state_path(index), Command.off)
        yield Write(NR_KDAMONDS, "0")
    for knob in reversed(saved.knobs):
        found = optional(kernel.sysfs, knob.path)
        if found is not None and knob.is_in(found) and not same_value(found, knob.before):
            yield Write(knob.path, knob.before)


def _altered(kernel: Kernel, saved: SavedState) -> dict[str, str]:
    """Return a sentence for each file whose value somebody else changed, by path."""
    found = altered(kernel, saved)
    return {write.path: str(NotVerified(write, value)) for write, value in found}


@dataclass(slots=True)
class _Run:
    """One restore, which may need two tries. `attempts`, `left`, `hint` belong to the last try."""

    kernel: Kernel
    saved: SavedState
    known_ours: bool
    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    attempts: Attempts = field(default_factory=Attempts)
    hint: str = RESTORE_AGAIN

    def once(self) -> None:
        self.attempts = Attempts()
        self.hint = RESTORE_AGAIN
        self.left.clear()
        # DAMON's modules cannot start while a kdamond runs, so the kdamonds go first.
        self.attempts.run(self._remove_kdamonds)
        for knob in reversed(self.saved.knobs):
            self.attempts.run(partial(self._put_knob_back, knob))

    def _remove_kdamonds(self) -> None:
        whose = Standing.ours if self.known_ours else standing(self.kernel, self.saved)
        count = self.kernel.count()
        if whose is Standing.foreign:
            self._report_foreign()
        if whose is not Standing.ours or count == 0:
            return
        for index in range(count):
            self.attempts.run(partial(self.kernel.turn_off, index))
        if self.attempts.failed:
            return
        empty = Write(NR_KDAMONDS, "0")
        self.kernel.sysfs.write(empty.path, empty.value)
        # Our kdamonds are gone. From now on a kdamond counts as ours only with a proof.
        self.known_ours = False
        self.kernel.verify(empty)
        self.done.append(f"/{KDAMONDS}: {count} kdamonds removed")

    def _report_foreign(self) -> None:
        reasons = _altered(self.kernel, self.saved)
        if reasons:
            self.attempts.failed |= reasons
            self.left.append(ALTERED)
            self.hint = ALTERED_HINT
        else:
            self.left.append(f"not ours: {describe_all(kdamonds(self.kernel.sysfs))}")

    def _put_knob_back(self, knob: SavedKnob) -> None:
        found = optional(self.kernel.sysfs, knob.path)
        if found is not None and same_value(found, knob.before):
            return
        if found is None or not knob.is_in(found):
            self.left.append(
                f"/{knob.path}: {found or 'gone'}, changed by somebody else; left as it is"
            )
            return
        self.kernel.put(Write(knob.path, knob.before))
        self.done.append(f"/{knob.path}: {knob.before}")


def park_quotas(kernel: Kernel, saved: SavedState) -> tuple[int, ...]:
    """Park the quotas of our running kdamonds until the next tierd starts; return their indices.

    After a kill the kernel goes on using the last inputs of the quota goals: a quota may grow
    to its limit, or shrink too slowly. This resets each quota to one byte, which moves nothing.
    Kdamonds that are off, or not ours, are left. Hint faults that tierd limits promote nothing.
    """
    if kernel.boot_id() != saved.boot_id:
        return ()
    attempts = Attempts()
    attempts.run(partial(park_settings, kernel, saved))
    parked = attempts.run(partial(_park_all, kernel, saved, attempts)) or ()
    if attempts.failed:
        raise TierdError(
            f"quotas could not be parked, and may go on moving memory: {attempts.reasons}",
            "start tierd, which adopts them, or run `tierd restore`, which removes them",
        )
    return parked


def park_settings(kernel: Kernel, saved: SavedState) -> None:
    """Have hint faults that tierd limits promote nothing."""
    for knob in saved.knobs:
        found = optional(kernel.sysfs, knob.path) if knob.path in STEERED else None
        if found is not None and knob.is_in(found) and found != PARKED_SETTING:
            kernel.put(Write(knob.path, PARKED_SETTING))


def _park_all(kernel: Kernel, saved: SavedState, attempts: Attempts) -> tuple[int, ...]:
    """Park the quotas of each kdamond, even if another one failed; return the parked indices."""
    if standing(kernel, saved) is not Standing.ours:
        return ()
    parked = {
        path: str(target * RESET.value // TARGET)
        for path, target in goal_targets(saved.writes).items()
    }
    gates = {write.path: GATE_CLOSED for write in saved.writes if is_gate(write.path)}
    count = kernel.count()
    park = partial(_park, kernel, saved, {**parked, **gates})
    return tuple(i for i in range(count) if attempts.run(partial(park, i)))


def _park(kernel: Kernel, saved: SavedState, parked: Mapping[str, str], index: int) -> bool:
    """Return True if the kdamond has inputs or gates, and its quotas were parked."""
    status = kernel.status(index)
    # If tierd was killed while it changed the directories, some of the files may be missing.
    found = kernel.found(path for path in parked if kdamond_of(path) == index)
    if not status.on or not found:
        return False
    writes = tuple(Write(path, parked[path]) for path in found)
    gated = any(is_gate(path) for path in found)
    if gated:
        change = Change(ChangeMethod.commit, writes, (index,))
        keep_tuned_intervals(kernel, saved.writes, change, saved.pids)
    for write in writes:
        kernel.put(write)
    kernel.command(index, Command.commit if gated else Command.commit_goals, status.pid)
    return True


def goal_targets(writes: Writes) -> Mapping[str, int]:
    """Return the target of each `user_input` goal in the writes, by the path of its input."""
    held = values(writes)
    goals = (
        path.removesuffix(_METRIC)
        for path, value in held.items()
        if path.endswith(_METRIC) and value == Metric.user_input
    )
    try:
        return {f"{goal}/current_value": int(held[f"{goal}/target_value"]) for goal in goals}
    except (KeyError, ValueError) as error:
        raise TierdError(f"the saved state is damaged: no target ({error!r})", HINT) from error
