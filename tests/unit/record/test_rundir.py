"""Our own files: whole or absent, and one tierd per machine."""

import errno
import os
from pathlib import Path

import pytest

from tierd.errors import Conflict, ExitCode
from tierd.record import rundir
from tierd.record.rundir import FileError, RunDir


@pytest.fixture
def folder(tmp_path: Path) -> RunDir:
    made = RunDir(tmp_path / "run", tmp_path / "lib" / "tierd")
    made.make()
    return made


def test_make_is_idempotent(folder: RunDir) -> None:
    folder.make()
    assert folder.run.is_dir()
    assert folder.state.is_dir()


def test_a_second_tierd_is_told_who_holds_the_lock(folder: RunDir) -> None:
    fd = folder.lock()
    with pytest.raises(Conflict, match=f"pid {os.getpid()}") as caught:
        folder.lock()
    assert caught.value.exit_code == ExitCode.busy
    os.close(fd)
    os.close(folder.lock())


def test_save_replaces_whole_and_load_returns_it(folder: RunDir) -> None:
    path = folder.run / rundir.STATE
    assert rundir.load(path) is None
    rundir.save(path, "one\n" * 1000)
    rundir.save(path, "two\n")
    assert rundir.load(path) == "two\n"
    assert [entry.name for entry in folder.run.iterdir()] == [rundir.STATE]


def test_a_failed_save_leaves_the_old_text_and_no_litter(
    folder: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder.run / rundir.STATE
    rundir.save(path, "old")

    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="No space left"):
        rundir.save(path, "new")
    monkeypatch.undo()
    assert rundir.load(path) == "old"
    assert [entry.name for entry in folder.run.iterdir()] == [rundir.STATE]


def test_saved_text_is_private_unless_said(folder: RunDir) -> None:
    path = folder.run / rundir.STATE
    rundir.save(path, "x")
    assert path.stat().st_mode & 0o777 == 0o600


def test_remove_twice(folder: RunDir) -> None:
    path = folder.run / rundir.STATE
    rundir.save(path, "x")
    rundir.remove(path)
    rundir.remove(path)
    assert rundir.load(path) is None


def test_an_unreadable_file_is_an_error_not_an_absence(folder: RunDir) -> None:
    path = folder.run / rundir.STATE
    path.mkdir()
    with pytest.raises(FileError, match=r"cannot read .*state\.json"):
        rundir.load(path)


def test_no_place_for_the_directories(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="cannot create"):
        RunDir(tmp_path / "file" / "run", tmp_path / "lib").make()
