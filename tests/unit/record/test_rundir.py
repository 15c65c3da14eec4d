"""tierd's own files are whole or absent, and there is one tierd per machine."""

import errno
import os
from pathlib import Path

import pytest

from tierd.errors import Conflict, ExitCode
from tierd.record import rundir
from tierd.record.rundir import FileError, NotOurs, RunDir


@pytest.fixture
def folder(tmp_path: Path) -> RunDir:
    made = RunDir(tmp_path / "run", tmp_path / "lib" / "tierd")
    made.make()
    made.make_state()
    return made


def test_make_is_idempotent(folder: RunDir) -> None:
    folder.make()
    folder.make_state()
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


@pytest.fixture
def treasure(tmp_path: Path) -> Path:
    """Return a file of root that an attacker would like to destroy."""
    made = tmp_path / "treasure"
    made.write_text("gold")
    made.chmod(0o600)
    return made


def intact(treasure: Path) -> bool:
    return treasure.read_text() == "gold" and treasure.stat().st_mode & 0o777 == 0o600


def aside(path: Path) -> Path:
    """Return the path of the temporary file for new content."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def test_the_lock_follows_no_link(folder: RunDir, treasure: Path) -> None:
    (folder.run / rundir.LOCK).symlink_to(treasure)
    with pytest.raises(FileError, match="lock: it is a link"):
        folder.lock()
    assert intact(treasure)


@pytest.mark.parametrize("planted", ["itself", "aside", "both"])
def test_a_file_is_replaced_and_no_link_followed(
    folder: RunDir, treasure: Path, planted: str
) -> None:
    path = folder.run / rundir.STATE
    if planted != "aside":
        path.symlink_to(treasure)
    if planted != "itself":
        aside(path).symlink_to(treasure)
    rundir.save(path, "new", 0o644)
    assert intact(treasure)
    assert not path.is_symlink()
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o644)


def test_what_a_killed_tierd_of_the_same_pid_has_left_is_replaced(folder: RunDir) -> None:
    path = folder.run / rundir.STATE
    aside(path).write_text("half of a long te")
    rundir.save(path, "new")
    assert path.read_text() == "new"
    assert not aside(path).exists()


def test_reading_follows_no_link(folder: RunDir, treasure: Path) -> None:
    path = folder.run / rundir.STATE
    path.symlink_to(treasure)
    with pytest.raises(FileError, match="it is a link"):
        rundir.load(path)


def test_nobody_at_a_pipe_is_waited_for(folder: RunDir) -> None:
    for name in (rundir.STATE, rundir.LOCK):
        os.mkfifo(folder.run / name)
    with pytest.raises(FileError, match="no regular file"):
        rundir.load(folder.run / rundir.STATE)
    with pytest.raises(FileError, match="no regular file"):
        folder.lock()


def test_a_long_file_is_refused_unread(folder: RunDir) -> None:
    path = folder.run / rundir.STATE
    with path.open("wb") as file:
        # A sparse file, because no disk is this large.
        file.truncate(1 << 40)
    with pytest.raises(FileError, match="longer than 1048576 bytes"):
        rundir.load(path)
    path.write_text("x" * 10)
    assert rundir.load(path, 10) == "x" * 10
    with pytest.raises(FileError, match="longer than 9 bytes"):
        rundir.load(path, 9)


def test_what_is_no_text_is_said(folder: RunDir) -> None:
    path = folder.run / rundir.STATE
    path.write_bytes(b"\xff")
    with pytest.raises(FileError, match="it is no text"):
        rundir.load(path)


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o1777])
def test_a_directory_in_which_others_make_files_is_refused(tmp_path: Path, mode: int) -> None:
    made = RunDir(tmp_path / "run", tmp_path / "lib")
    for path, use in ((made.run, made.make), (made.state, made.make_state)):
        path.mkdir()
        path.chmod(mode)
        with pytest.raises(NotOurs, match=f"{path} has mode {mode:o}") as caught:
            use()
        assert caught.value.exit_code == ExitCode.not_permitted
        assert not list(path.iterdir())
    with pytest.raises(NotOurs):
        made.lock()


def test_a_directory_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = RunDir(tmp_path / "run", tmp_path / "lib")
    made.run.mkdir()
    real = Path.stat

    def theirs(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        found = list(real(path, follow_symlinks=follow_symlinks))
        # st_uid
        found[4] = 4711
        return os.stat_result(found)

    monkeypatch.setattr(Path, "stat", theirs)
    with pytest.raises(NotOurs, match="belongs to user 4711"):
        made.lock()
    with pytest.raises(NotOurs, match="belongs to user 4711"):
        made.make()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link to somebody else")
def test_a_link_of_somebody_else_to_a_directory_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    made = RunDir(tmp_path / "run", tmp_path / "lib")
    made.run.symlink_to(tmp_path / "ours")
    made.make()
    os.chown(made.run, 4711, 4711, follow_symlinks=False)
    with pytest.raises(NotOurs, match="belongs to user 4711"):
        made.make()


def test_a_full_disk_keeps_the_number_out_of_the_lock_and_nothing_else(
    folder: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    os.close(folder.lock())


def test_a_disk_that_lets_nothing_be_removed_is_one_error(
    folder: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only file system refuses to remove even files that do not exist."""

    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "unlink", read_only)
    with pytest.raises(FileError, match="Read-only file system"):
        rundir.save(folder.run / rundir.STATE, "x")


@pytest.mark.parametrize(("length", "fits"), [(107, True), (108, False), (300, False)])
def test_a_socket_has_room_for_so_long_a_path(length: int, fits: bool) -> None:
    path = Path("/" + "x" * (length - 1))
    if fits:
        assert rundir.socket_address(path) == str(path)
    else:
        with pytest.raises(FileError, match=f"{length} bytes.*may have 107") as caught:
            rundir.socket_address(path)
        assert "--run-dir" in caught.value.hint
