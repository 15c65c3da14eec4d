"""RealSysfs on real files: what it refuses, what it tries again, and which files stay open."""

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tierd import sysfs
from tierd.errors import ExitCode
from tierd.sysfs import Patience, PatientSysfs, RealSysfs, SysfsError

Pread = Callable[[int, int, int], bytes]


@dataclass
class CountingClock:
    now: float = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Busy:
    """Returns EBUSY `times` times, then the value."""

    times: int
    code: int = errno.EBUSY
    asked: int = 0
    written: list[tuple[str, str]] = field(default_factory=list)

    def _maybe(self, operation: str, path: str) -> None:
        self.asked += 1
        if self.asked <= self.times:
            raise SysfsError(operation, path, self.code)

    def read(self, path: str) -> str:
        self._maybe("read", path)
        return "value"

    def reread(self, path: str) -> str:
        return self.read(path)

    def read_bytes(self, path: str) -> bytes:
        return self.read(path).encode()

    def write(self, path: str, value: str) -> None:
        self._maybe("write", path)
        self.written.append((path, value))

    def exists(self, path: str) -> bool:
        return bool(path)

    def listdir(self, path: str) -> tuple[str, ...]:
        return (path,)


def test_write_does_not_invent_attributes(tmp_path: Path) -> None:
    with pytest.raises(SysfsError) as caught:
        RealSysfs(tmp_path).write("missing", "1")
    assert caught.value.errno == errno.ENOENT
    assert not (tmp_path / "missing").exists()


def test_write_does_not_truncate(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("12345")
    RealSysfs(tmp_path).write("a", "9")
    assert (tmp_path / "a").read_text() == "92345"


def test_an_error_names_operation_path_value_and_errno(tmp_path: Path) -> None:
    with pytest.raises(SysfsError, match=r"write /sys/x 'off': .*\(ENOENT\)") as caught:
        RealSysfs(tmp_path).write("sys/x", "off")
    error = caught.value
    assert (error.operation, error.path, error.errno, error.value) == (
        "write",
        "sys/x",
        errno.ENOENT,
        "off",
    )


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM])
def test_a_refused_permission_has_its_own_exit_code(code: int) -> None:
    assert SysfsError("write", "a", code).exit_code == ExitCode.not_permitted


def test_read_keeps_all_but_the_last_newline(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n\n")
    assert RealSysfs(tmp_path).read("a") == "one\ntwo\n"


def test_reread_follows_changes_over_one_descriptor(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    kernel = RealSysfs(tmp_path)
    assert kernel.reread("a") == "1"
    before = open_descriptors()
    (tmp_path / "a").write_text("2\n")
    assert kernel.reread("a") == "2"
    assert open_descriptors() == before
    kernel.close()
    assert len(open_descriptors()) == len(before) - 1


def test_reread_opens_afresh_what_the_kernel_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("1\n")
    kernel = RealSysfs(tmp_path)
    kernel.reread("a")
    monkeypatch.setattr(os, "pread", enodev_once(os.pread))
    assert kernel.reread("a") == "1"


def enodev_once(pread: Pread) -> Pread:
    asked: list[int] = []

    def call(fd: int, count: int, offset: int) -> bytes:
        asked.append(fd)
        if len(asked) == 1:
            raise OSError(errno.ENODEV, "removed")
        return pread(fd, count, offset)

    return call


def test_reread_opens_afresh_when_a_process_has_ended() -> None:
    """procfs gives ESRCH then. A new process may have the same pid."""
    files = RealSysfs()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        path = f"proc/{child.pid}/stat"
        assert files.reread(path).startswith(f"{child.pid} (")
        assert child.stdin is not None
        child.stdin.close()
        child.wait()
        with pytest.raises(SysfsError) as caught:
            files.reread(path)
    assert caught.value.errno == errno.ENOENT
    assert sysfs.optional(files, path, often=True) is None


def test_a_file_longer_than_one_read_is_read_whole(tmp_path: Path) -> None:
    """The types of the kernel (BTF) are some megabytes."""
    content = bytes(range(256)) * (sysfs.READ_BYTES // 256 + 3)
    (tmp_path / "a").write_bytes(content)
    assert RealSysfs(tmp_path).read_bytes("a") == content


@pytest.mark.parametrize(
    ("path", "size", "reads"),
    [
        ("sys/kernel/mm/a", 10, 1),
        ("sys/devices/a", 4095, 1),
        ("sys/devices/a", 4096, 2),
        ("sys/devices/a", 9000, 3),
        ("proc/a", 10, 2),
        ("sys/fs/cgroup/a", 10, 2),
    ],
)
def test_a_file_of_sysfs_ends_with_a_read_that_is_shorter_than_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, size: int, reads: int
) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("x" * size)
    asked: list[int] = []

    def pread(fd: int, count: int, offset: int, pread: Pread = os.pread) -> bytes:
        asked.append(offset)
        return pread(fd, min(count, 4096), offset)

    monkeypatch.setattr(os, "pread", pread)
    assert RealSysfs(tmp_path).reread(path) == "x" * size
    assert len(asked) == reads


def test_reread_of_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(SysfsError, match="ENOENT"):
        RealSysfs(tmp_path).reread("a")


def test_kept_descriptors_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysfs, "KEPT_DESCRIPTORS_MAX", 3)
    kernel = RealSysfs(tmp_path)
    before = len(open_descriptors())
    for name in "abcdef":
        (tmp_path / name).write_text(name)
        assert kernel.reread(name) == name
    assert len(open_descriptors()) == before + 3
    assert kernel.reread("a") == "a", "a closed one is opened again"
    kernel.close()


def test_listdir_is_sorted_and_whole(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / name).touch()
    assert RealSysfs(tmp_path).listdir("") == ("a", "b", "c")
    with pytest.raises(SysfsError, match="list /nope"):
        RealSysfs(tmp_path).listdir("nope")


def test_a_short_write_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").touch()
    monkeypatch.setattr(os, "write", lambda _fd, data: len(data) - 1)
    with pytest.raises(SysfsError, match="EIO"):
        RealSysfs(tmp_path).write("a", "12")


def test_a_written_value_is_one_write(tmp_path: Path) -> None:
    reader, path = fifo(tmp_path)
    RealSysfs(tmp_path).write(path, "commit_schemes_quota_goals")
    assert os.read(reader, 100) == b"commit_schemes_quota_goals"
    os.close(reader)


def fifo(folder: Path) -> tuple[int, str]:
    os.mkfifo(folder / "state")
    assert stat.S_ISFIFO((folder / "state").stat().st_mode)
    return os.open(folder / "state", os.O_RDONLY | os.O_NONBLOCK), "state"


def test_patience_asks_again_and_then_succeeds() -> None:
    clock, busy = CountingClock(), Busy(times=3)
    assert PatientSysfs(busy, Patience.by(clock)).read("a") == "value"
    assert busy.asked == 4
    assert clock.now == pytest.approx(3 * sysfs.BUSY_WAIT_S)


def test_patience_ends() -> None:
    clock, busy = CountingClock(), Busy(times=10**6)
    with pytest.raises(SysfsError, match="EBUSY"):
        PatientSysfs(busy, Patience.by(clock)).write("a", "1")
    assert busy.asked == sysfs.BUSY_WAITS_MAX + 1
    assert busy.written == []


def test_all_files_together_are_waited_for_no_longer_than_one() -> None:
    """All files share one lock. A stop reads dozens, and each may return EBUSY for ever."""
    clock, busy = CountingClock(), Busy(times=10**6)
    patient = PatientSysfs(busy, Patience.by(clock))
    for path in "abcdefgh":
        with pytest.raises(SysfsError, match="EBUSY") as refused:
            patient.read(path)
        assert refused.value.hint
    assert clock.now == pytest.approx(sysfs.BUSY_WAITS_MAX * sysfs.BUSY_WAIT_S)
    patient.patience.renew()
    with pytest.raises(SysfsError, match="EBUSY"):
        patient.read("a")
    assert clock.now == pytest.approx(2 * sysfs.BUSY_WAITS_MAX * sysfs.BUSY_WAIT_S)


def test_a_stop_ends_all_waiting() -> None:
    busy, waits = Busy(times=10**6), []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) < 3

    patient = PatientSysfs(busy, Patience(wait))
    for path in "ab":
        with pytest.raises(SysfsError, match="EBUSY"):
            patient.read(path)
    assert len(waits) == 3


def test_patience_is_for_ebusy_alone() -> None:
    clock, busy = CountingClock(), Busy(times=1, code=errno.EINVAL)
    with pytest.raises(SysfsError, match="EINVAL"):
        PatientSysfs(busy, Patience.by(clock)).reread("a")
    assert (busy.asked, clock.now) == (1, 0.0)


def open_descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}
