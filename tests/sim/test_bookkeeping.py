"""If totals and history cannot be written, tiering goes on and can still be undone."""

import errno
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sim.loop import KDAMONDS, MIB, Loop, cold, hot, loop
from tests.sim.loop_with_files import Keeper
from tierd.errors import ExitCode
from tierd.loop import daemon
from tierd.record import ring, rundir
from tierd.record.bookkeeping import FAILED, RECOVERED
from tierd.record.rundir import COUNTERS, EVENTS, HISTORY, STATE, TALLY, FileError, RunDir
from tierd.sim.sim_kernel import SimKernel

BOOKS = (COUNTERS, TALLY, EVENTS, HISTORY)
RUN_S = 14.0
# Totals and history are written every ten seconds: once during the trouble, and once after it.
BREAKS_S = 1.5
HEALS_S = 12.5
LONG_S = 24.0


def at_work(series: str = "7.3") -> Loop:
    """On memory of large blocks, so that a minute is simulated quickly."""
    return loop(series, "two-tier", cold("cold", 0, 380), hot("hot", 1, 32), block_pages=512)


@pytest.fixture
def folder(tmp_path: Path) -> RunDir:
    made = RunDir(tmp_path / "run", tmp_path / "lib")
    made.make()
    made.make_state()
    return made


class Disk:
    """A directory whose files are broken in one way until it is healed."""

    def __init__(self, place: Path, patch: pytest.MonkeyPatch) -> None:
        self.place = place
        self.patch = patch

    def full(self) -> None:
        """There is no room for a new file; what is there already can be written to."""
        self._refuse(errno.ENOSPC, os.O_CREAT)

    def read_only(self) -> None:
        self._refuse(errno.EROFS, os.O_WRONLY | os.O_RDWR)
        real = Path.unlink

        def unlink(path: Path, missing_ok: bool = False) -> None:
            if self._is_here(path):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS))
            real(path, missing_ok)

        self.patch.setattr(Path, "unlink", unlink)

    def gone(self) -> None:
        """The directory is gone, and nothing can be created in its place."""
        shutil.rmtree(self.place)
        self.place.touch()

    def noise(self) -> None:
        """Each file has been replaced, as after a bad repair of the disk."""
        drawn = random.Random(1)
        for name in BOOKS:
            (self.place / name).unlink(missing_ok=True)
            (self.place / name).write_bytes(drawn.randbytes(5000))

    def heal(self) -> None:
        self.patch.undo()
        if not self.place.is_dir():
            self.place.unlink()

    def _is_here(self, path: Path) -> bool:
        return path.is_relative_to(self.place)

    def _refuse(self, code: int, flags: int) -> None:
        real = rundir.open_regular

        def refusing(path: Path, asked: int, mode: int = 0o600) -> int:
            if asked & flags and self._is_here(path):
                raise OSError(code, os.strerror(code))
            return real(path, asked, mode)

        for module in (rundir, ring):
            self.patch.setattr(module, "open_regular", refusing)


TROUBLES = {"full": Disk.full, "read-only": Disk.read_only, "gone": Disk.gone, "noise": Disk.noise}
each_trouble = pytest.mark.parametrize("trouble", TROUBLES)


@pytest.fixture
def disk(folder: RunDir, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(folder.state, monkeypatch)


def moved_and_undone(kept: Keeper) -> None:
    """The results that trouble with bookkeeping must not change."""
    assert kept.loop.share("hot", 0) > 0.9
    assert kept.loop.snapshots[-1].state == "active"
    assert kept.loop.kernel.read(f"{KDAMONDS}/nr_kdamonds") == "0"
    assert kept.store.saved() is None
    assert kept.texts("restored")
    assert not kept.texts("restore_failed")


def errors(kept: Keeper) -> dict[str, float]:
    return {
        labels[0]: value
        for (name, *labels), value in kept.counted().items()
        if name == "bookkeeping_errors_total" and value
    }


@each_trouble
def test_from_the_start(trouble: str, folder: RunDir, disk: Disk) -> None:
    TROUBLES[trouble](disk)
    kept = Keeper(at_work(), folder)
    assert kept.run(RUN_S) is ExitCode.ok
    moved_and_undone(kept)
    assert set(errors(kept)) == set(BOOKS)
    for name in BOOKS:
        about = [text for text in kept.texts(FAILED) if str(folder.state / name) in text]
        assert len(about) == 1, f"{name}: once per trouble"


@each_trouble
def test_while_it_runs_and_over_before_its_end(trouble: str, folder: RunDir, disk: Disk) -> None:
    kept = Keeper(at_work(), folder)
    kept.loop.do(BREAKS_S, lambda: TROUBLES[trouble](disk))
    kept.loop.do(HEALS_S, disk.heal)
    assert kept.run(LONG_S) is ExitCode.ok
    moved_and_undone(kept)
    assert errors(kept)
    failed, over = kept.texts(FAILED), kept.texts(RECOVERED)
    assert len(failed) == len(over) == len(set(over)) > 0
    shown = kept.loop.snapshots[-1].events
    assert {FAILED, RECOVERED} <= {one.event for one in shown}, "`tierd status` tells it"
    # After the trouble everything is normal again.
    again = Keeper(at_work(), folder)
    assert not again.store.books.failures()
    assert again.store.counters() == kept.store.counters()
    assert again.metrics_output.tally.events == kept.metrics_output.tally.events


@each_trouble
def test_until_after_its_end(trouble: str, folder: RunDir, disk: Disk) -> None:
    kept = Keeper(at_work(), folder)
    kept.loop.do(RUN_S - 0.01, lambda: TROUBLES[trouble](disk))
    assert kept.run(RUN_S) is ExitCode.ok
    moved_and_undone(kept)


def test_a_state_directory_that_is_removed_is_made_again(folder: RunDir) -> None:
    kept = Keeper(at_work(), folder)
    kept.loop.do(BREAKS_S, lambda: shutil.rmtree(folder.state))
    assert kept.run(RUN_S) is ExitCode.ok
    moved_and_undone(kept)
    assert {path.name for path in folder.state.iterdir()} == set(BOOKS)


@pytest.mark.parametrize("trouble", ["full", "read-only", "gone"])
def test_what_to_restore_is_a_promise(
    trouble: str, folder: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the state cannot be written, tierd starts nothing: nobody could restore it."""
    made = at_work()
    writes = len(made.kernel.journal)
    TROUBLES[trouble](Disk(folder.run, monkeypatch))
    with pytest.raises(FileError, match=STATE):
        Keeper(made, folder).run(RUN_S)
    assert len(made.kernel.journal) == writes


@pytest.mark.parametrize("trouble", ["full", "read-only"])
def test_a_run_directory_that_breaks_while_it_runs_costs_no_restore(
    trouble: str, folder: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Keeper(at_work(), folder)
    kept.loop.do(BREAKS_S, lambda: TROUBLES[trouble](Disk(folder.run, monkeypatch)))
    assert kept.run(RUN_S) is ExitCode.ok
    assert kept.loop.share("hot", 0) > 0.9
    assert kept.loop.kernel.read(f"{KDAMONDS}/nr_kdamonds") == "0"
    assert any(str(folder.run / COUNTERS) in text for text in kept.texts(FAILED))


class Killed(BaseException):
    """The daemon is dead: nothing of it runs any more."""


def strikes(at: int) -> Callable[[], None]:
    """Kills the daemon at its n-th call."""
    left = at

    def strike() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed

    return strike


def rebuilt(kernel: SimKernel) -> None:
    """The next daemon cannot adopt the kdamonds: the new ones count from zero."""
    for index in range(int(kernel.read(f"{KDAMONDS}/nr_kdamonds"))):
        if kernel.read(f"{KDAMONDS}/{index}/state") == "on":
            kernel.end_kdamond(index)
    kernel.write(f"{KDAMONDS}/nr_kdamonds", "0")


# Files written, or snapshots seen, by which it is killed: the start, and while memory moves.
KILLS = (2, 17, 18)


@pytest.mark.parametrize(
    ("point", "shared"),
    [
        ("before a file is written", False),
        ("after", False),
        ("after it was seen", False),
        ("after it was seen", True),
    ],
)
def test_no_kill_makes_a_counter_go_back(
    point: str, shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prometheus would take a decrease for a restart, and count the whole value again."""
    real = rundir.save_bytes
    moved = False
    for at in KILLS:
        folder = RunDir(tmp_path / f"{at}", tmp_path / (f"{at}" if shared else f"{at}-lib"))
        folder.make()
        folder.make_state()
        strike = strikes(at)

        def save(
            path: Path,
            content: bytes,
            mode: int = 0o600,
            *,
            lasting: bool = True,
            strike: Callable[[], None] = strike,
        ) -> None:
            if point.startswith("before"):
                strike()
            real(path, content, mode, lasting=lasting)
            if point == "after":
                strike()

        kept = Keeper(at_work("6.12"), folder, strike if "seen" in point else lambda: None)
        monkeypatch.setattr(rundir, "save_bytes", save)
        with pytest.raises(Killed):
            ticking(kept)
        monkeypatch.setattr(rundir, "save_bytes", real)
        seen = kept.counted()
        rebuilt(kept.loop.kernel)
        after = Keeper(kept.loop, folder)
        daemon.tick(after.outside(), daemon.begin(after.outside(), kept.loop.config))
        now = after.counted()
        back = {name: (value, now[name]) for name, value in seen.items() if now[name] < value}
        assert not back, f"killed {point}, number {at}"
        moved = moved or seen.get(("promoted_bytes_total", "1", "0"), 0) > 10 * MIB
    assert moved, "nothing moved, so nothing could go back"


def ticking(kept: Keeper) -> None:
    """A loop that is killed, so that its normal end never runs."""
    outside = kept.outside()
    running = daemon.begin(outside, kept.loop.config)
    for _ in range(100):
        running = daemon.tick(outside, daemon.settle(outside, running))
        outside.inbox.wait(0.5)


def test_of_two_copies_the_later_counts(folder: RunDir) -> None:
    """The state in the run directory is lost at a reboot, or cannot be written for a while."""
    kept = Keeper(at_work(), folder)
    assert kept.run(RUN_S) is ExitCode.ok
    whole = kept.store.counters()
    assert whole.total("promote-1-0").sz_applied > 0
    for name in (folder.run / COUNTERS, folder.state / COUNTERS):
        text = name.read_bytes()
        name.unlink()
        assert Keeper(at_work(), folder).store.counters() == whole
        name.write_bytes(b"noise")
        assert Keeper(at_work(), folder).store.counters() == whole
        name.write_bytes(text)
