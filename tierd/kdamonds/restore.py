"""Puts back what a SavedState knows of, with or without a daemon, as often as need be.

Rules of this file:
1. What stands as it was is not touched; what somebody else has changed meanwhile is left, and
   so is a kdamond that is not ours. Both are reported.
2. One step that fails does not keep the others from being tried, and all are tried again.
3. What could not be put back is an error that names the files.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from tierd.clock import Clock
from tierd.errors import TierdError
from tierd.kdamonds.attempts import Attempts
from tierd.kdamonds.kernel import NR_KDAMONDS, Kernel, same
from tierd.kdamonds.ownership import Standing, describe_all, standing
from tierd.kdamonds.saved import SavedKnob, SavedState, from_text
from tierd.machine.neighbours import kdamonds
from tierd.machine.observe import KDAMONDS
from tierd.plans.damon import Command, Write, Writes, state_path
from tierd.record import rundir
from tierd.record.rundir import RunDir
from tierd.sysfs import Sysfs, optional

# A failure that passes is gone at the second try; one that stays is worth no third.
PASSES_MAX = 2
PASS_WAIT_S = 0.1


class UndoFailed(TierdError):
    """Something could not be put back: `paths` are the files that are not as they were."""

    def __init__(self, message: str, paths: tuple[str, ...]) -> None:
        super().__init__(message, "run `tierd restore`, which tries again")
        self.paths = paths


def saved_in(folder: RunDir) -> SavedState | None:
    """What an earlier tierd left to put back, if any."""
    text = rundir.load(folder.run / rundir.STATE)
    return None if text is None else from_text(text)


@dataclass(frozen=True, slots=True)
class Restored:
    """What was put back, and what was left because it is not, or not any more, ours; sentences."""

    done: tuple[str, ...]
    left: tuple[str, ...]


def restore(sysfs: Sysfs, clock: Clock, saved: SavedState) -> Restored:
    """Put everything back; UndoFailed names what could not be, and `saved` is worth keeping."""
    kernel = Kernel.patient(sysfs, clock)
    if kernel.boot_id() != saved.boot_id:
        return Restored((), ())
    return undo(kernel, saved, trusted=False)


def undo(kernel: Kernel, saved: SavedState, *, trusted: bool) -> Restored:
    """`restore` in the boot that `saved` is of.

    `trusted` is who knows that the kdamonds are ours without having to look.
    """
    run = _Run(kernel, saved, trusted)
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
    raise UndoFailed(f"could not put back {named}: {reasons}", paths)


def restore_writes(sysfs: Sysfs, clock: Clock, saved: SavedState) -> Writes:
    """What `restore` would write now."""
    return tuple(_wanted(Kernel.patient(sysfs, clock), saved))


def _wanted(kernel: Kernel, saved: SavedState) -> Iterator[Write]:
    if saved.boot_id != kernel.boot_id():
        return
    if standing(kernel, saved) is Standing.ours:
        for index in range(kernel.count()):
            if kernel.status(index).state != Command.off:
                yield Write(state_path(index), Command.off)
        yield Write(NR_KDAMONDS, "0")
    for knob in reversed(saved.knobs):
        found = optional(kernel.sysfs, knob.path)
        if found is not None and same(found, knob.ours):
            yield Write(knob.path, knob.before)


@dataclass(slots=True)
class _Run:
    """Tries at everything, and what came of them; `attempts` and `left` are of the last one."""

    kernel: Kernel
    saved: SavedState
    trusted: bool
    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    attempts: Attempts = field(default_factory=Attempts)

    def once(self) -> None:
        self.attempts = Attempts()
        self.left.clear()
        # DAMON's modules cannot start while a kdamond runs, so the kdamonds go first.
        self.attempts.run(self._kdamonds)
        for knob in reversed(self.saved.knobs):
            self.attempts.run(partial(self._knob, knob))

    def _kdamonds(self) -> bool:
        whose = Standing.ours if self.trusted else standing(self.kernel, self.saved)
        count = self.kernel.count()
        if whose is Standing.foreign:
            self.left.append(f"not ours: {describe_all(kdamonds(self.kernel.sysfs))}")
        if whose is not Standing.ours or count == 0:
            return True
        stopped = [self.attempts.run(partial(self._stop, index)) for index in range(count)]
        if all(stopped):
            empty = Write(NR_KDAMONDS, "0")
            self.kernel.sysfs.write(empty.path, empty.value)
            # Ours are gone: whatever is there from now on must show whose it is.
            self.trusted = False
            self.kernel.verify(empty)
            self.done.append(f"/{KDAMONDS}: {count} kdamonds removed")
        return True

    def _stop(self, index: int) -> bool:
        self.kernel.turn_off(index)
        return True

    def _knob(self, knob: SavedKnob) -> bool:
        found = optional(self.kernel.sysfs, knob.path)
        if found is not None and same(found, knob.before):
            return True
        if found is None or not same(found, knob.ours):
            self.left.append(
                f"/{knob.path}: {found or 'gone'}, changed by somebody else; left as it is"
            )
            return True
        self.kernel.put(Write(knob.path, knob.before))
        self.done.append(f"/{knob.path}: {knob.before}")
        return True
