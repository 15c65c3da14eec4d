"""Failures on the way to a virtual machine: each gives one sentence, and no half-filled cache."""

import errno
import io
import os
import select
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.vm import apt, cache, emulator, guest, kernels, rootfs
from tests.vm.errors import LostGuest, Missing, Panicked, VmError


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test a cache of its own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TIERD_VM_CACHE", str(folder))
    monkeypatch.setattr(cache, "ROOM_BYTES_MIN", 0)
    return folder


@pytest.fixture
def no_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def things(folder: Path) -> set[str]:
    """Return what a cache holds, without its locks and apt's lists."""
    return {path.name for path in folder.iterdir() if path.suffix != ".lock"} - {"apt"}


# The cache.


def nothing(into: Path) -> None:
    """Make an empty thing."""
    assert into.is_dir()


def test_a_thing_is_made_once(empty: Path) -> None:
    made = []

    def make(into: Path) -> None:
        made.append(into)
        (into / "file").write_text("content")

    first, second = cache.made("thing", make), cache.made("thing", make)
    assert first == second == empty / "thing"
    assert (first / "file").read_text() == "content"
    assert len(made) == 1
    assert things(empty) == {"thing"}


def broken_off(into: Path) -> None:
    (into / "half").write_text("half")
    raise KeyboardInterrupt


def test_a_maker_that_is_interrupted_leaves_nothing(empty: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        cache.made("thing", broken_off)
    assert things(empty) == set()


def full(into: Path) -> None:
    (into / "half").write_text("half")
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(into))


def test_a_disk_that_fills_up_is_said_and_leaves_nothing(empty: Path) -> None:
    with pytest.raises(Missing, match=r"no room left in .*cache while making thing"):
        cache.made("thing", full)
    assert things(empty) == set()


def test_a_disk_with_little_room_is_said_before_work_begins(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "ROOM_BYTES_MIN", 1 << 62)
    with pytest.raises(Missing, match=r"MiB free and needs \d+ MiB; set TIERD_VM_CACHE"):
        cache.made("thing", lambda into: pytest.fail(f"made {into}"))
    assert things(empty) == set()


def test_a_cache_that_cannot_be_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TIERD_VM_CACHE", str(tmp_path / "file/cache"))
    with pytest.raises(Missing, match=r"cannot create the cache .*: Not a directory"):
        cache.made("thing", nothing)


def test_a_cache_that_cannot_be_written_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    # Not even root can create files in this folder.
    monkeypatch.setenv("TIERD_VM_CACHE", "/proc/self")
    with pytest.raises(Missing, match=r"cannot write /proc/self/\.thing\.lock"):
        cache.made("thing", nothing)


def test_what_a_killed_maker_left_goes_with_the_next(empty: Path) -> None:
    (empty / ".thing.a1b2c3/tree").mkdir(parents=True)
    (empty / ".other.a1b2c3").mkdir()
    cache.made("thing", nothing)
    assert things(empty) == {"thing", ".other.a1b2c3"}


def test_two_makers_at_once_make_one_thing(empty: Path) -> None:
    begun, made = threading.Event(), []

    def make(into: Path) -> None:
        begun.set()
        made.append(into)
        # The second maker begins now or a little later. It finds either the lock or the thing.
        second.start()
        (into / "whole").touch()

    second = threading.Thread(target=lambda: cache.made("thing", make))
    assert (cache.made("thing", make) / "whole").exists()
    second.join()
    assert begun.is_set()
    assert len(made) == 1
    assert things(empty) == {"thing"}


MOUNTINFO = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:5 / /proc rw - proc proc rw
40 22 0:5 / /c/.rootfs-1.x/tree/proc rw - proc proc rw
41 22 0:20 / /c/.rootfs-1.x/tree/sys rw - sysfs sysfs rw
42 41 0:21 / /c/.rootfs-1.x/tree/sys/fs/cgroup rw - cgroup2 cgroup2 rw
43 22 0:22 / /c/.rootfs-1.xy/tree rw - tmpfs tmpfs rw
44 22 0:23 / /c/a\\040blank/tree rw - tmpfs tmpfs rw
"""


def test_mounts_below_a_tree_are_found_deepest_first() -> None:
    assert cache.mounts_below(MOUNTINFO, Path("/c/.rootfs-1.x")) == [
        "/c/.rootfs-1.x/tree/sys/fs/cgroup",
        "/c/.rootfs-1.x/tree/sys",
        "/c/.rootfs-1.x/tree/proc",
    ]
    assert cache.mounts_below(MOUNTINFO, Path("/c/a blank")) == ["/c/a blank/tree"]
    assert cache.mounts_below(MOUNTINFO, Path("/c/none")) == []


# Fails if the tree stays, or if files behind the mount are deleted with it.
MOUNTED = """
from pathlib import Path
import subprocess, sys
from tests.vm import cache
base = Path(sys.argv[1])
(base / "tree/inner").mkdir(parents=True)
(base / "precious").mkdir()
(base / "precious/file").touch()
subprocess.run(["mount", "--bind", base / "precious", base / "tree/inner"], check=True)
assert (base / "tree/inner/file").exists()
cache.remove(base / "tree")
assert (base / "precious/file").exists(), "deleted through a mount"
assert not (base / "tree").exists(), "still there"
"""


def test_nothing_is_deleted_through_a_mount(tmp_path: Path) -> None:
    unshare = ["unshare", "--mount", "--map-root-user", "--propagation", "private"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespaces here")
    done = subprocess.run(
        [*unshare, sys.executable, "-c", MOUNTED, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


# apt and other commands.

STANZAS = """\
# a comment
Types: deb
# http://old.invalid/debian
URIs: http://one.invalid/debian http://two.invalid/debian/
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /keys/debian.gpg

Types: deb
URIs: http://one.invalid/debian-security
Suites: bookworm-security
Components: main

Types: deb-src
URIs: http://source.invalid/debian
Suites: bookworm
Components: main

Types: deb
Enabled: no
URIs: http://off.invalid/debian
Suites: bookworm
Components: main
"""


def test_stanzas_are_read() -> None:
    assert apt.parse_sources(STANZAS) == [
        apt.Source("http://one.invalid/debian", "/keys/debian.gpg"),
        apt.Source("http://two.invalid/debian/", "/keys/debian.gpg"),
        apt.Source("http://one.invalid/debian-security", apt.KEYRING),
    ]


def test_lines_are_read() -> None:
    text = (
        "# deb http://off.invalid/debian bookworm main\n"
        "deb-src http://source.invalid/debian bookworm main\n"
        "deb http://one.invalid/debian bookworm main contrib\n"
        "deb [arch=amd64 signed-by=/k.gpg] http://two.invalid/debian bookworm main\n"
        "deb http://three.invalid/apt stable other\n"
    )
    assert apt.parse_list(text, "/default.gpg") == [
        apt.Source("http://one.invalid/debian", "/default.gpg"),
        apt.Source("http://two.invalid/debian", "/k.gpg"),
    ]


def test_a_machine_without_a_debian_source_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.sources").write_text(STANZAS.replace("/debian", "/ubuntu"))
    monkeypatch.setattr(apt, "SOURCES", (tmp_path, tmp_path / "no-such.list"))
    with pytest.raises(Missing, match=r"no Debian source .* TIERD_VM_MIRROR may name a mirror"):
        apt.machine_source()
    monkeypatch.setenv("TIERD_VM_MIRROR", "http://chosen.invalid/debian")
    assert apt.machine_source().uri == "http://chosen.invalid/debian"


@pytest.mark.parametrize(
    ("get", "sentence"),
    [
        (lambda: kernels.get("7.2"), "no apt-get"),
        (emulator.get, "no apt-get"),
        (rootfs.get, "debootstrap is not installed"),
        (kernels.static_busybox, "busybox is not installed .package busybox-static"),
    ],
    ids=["kernel", "emulator", "rootfs", "busybox"],
)
@pytest.mark.usefixtures("no_programs")
def test_a_machine_without_the_programs_is_said(
    get: Callable[[], object], sentence: str, empty: Path
) -> None:
    with pytest.raises(Missing, match=sentence):
        get()
    assert not empty.exists() or things(empty) == set()


def test_a_busybox_that_needs_a_library_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "busybox").write_bytes(b"\x7fELF /lib64/ld-linux-x86-64.so.2")
    (tmp_path / "busybox").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Missing, match="needs a C library"):
        kernels.static_busybox()


def test_a_command_that_fails_says_its_last_words() -> None:
    with pytest.raises(VmError, match=r"(?s)`sh … .*` failed \(3\): b / c / d"):
        apt.run(["sh", "-c", "printf 'a\nb\nc\nd\n' >&2; exit 3"])


def test_a_command_that_hangs_goes_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt, "COMMAND_S_MAX", 1)
    with pytest.raises(VmError, match="did not end within 1 s"):
        apt.run(["sh", "-c", f"sleep 1000 & echo $! > {tmp_path}/child; wait"])
    try:
        child = os.pidfd_open(int((tmp_path / "child").read_text()))
    except ProcessLookupError:
        return
    # The child has been killed and is about to end. If not, it sleeps longer than this waits.
    ended, _, _ = select.select([child], [], [], 60)
    os.close(child)
    assert ended


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt-get is not installed")
def test_no_network_is_said_and_tried_anew_the_next_time(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This fails like a network that is down, but without the pauses between apt's tries.
    monkeypatch.setenv("TIERD_VM_MIRROR", "file:///tierd-no-such-folder/debian")
    for _ in range(2):
        with pytest.raises(Missing, match=r"no package lists from file:///tierd-no-such-folder"):
            kernels.get("7.2")
        assert things(empty) == set()


# Kernels.


@pytest.mark.parametrize(
    ("packages", "release", "chosen"),
    [
        (
            ["linux-image-6.12.9+deb13-cloud-amd64", "linux-image-6.12.10+deb13-cloud-amd64"],
            "6.12.10+deb13-cloud-amd64",
            ["linux-image-6.12.10+deb13-cloud-amd64"],
        ),
        (
            [
                "linux-image-6.12.9+deb14-cloud-amd64",
                "linux-binary-6.12.9+deb14-cloud-amd64",
                "linux-modules-6.12.9+deb14-cloud-amd64",
            ],
            "6.12.9+deb14-cloud-amd64",
            ["linux-binary-6.12.9+deb14-cloud-amd64", "linux-modules-6.12.9+deb14-cloud-amd64"],
        ),
        (
            [
                "linux-binary-unsigned-6.12.9+deb13-cloud-amd64",
                "linux-modules-6.12.9+deb13-cloud-amd64",
                "linux-binary-6.12.10+deb13-cloud-amd64",
            ],
            "6.12.9+deb13-cloud-amd64",
            [
                "linux-binary-unsigned-6.12.9+deb13-cloud-amd64",
                "linux-modules-6.12.9+deb13-cloud-amd64",
            ],
        ),
    ],
    ids=["newest by number", "kernel and modules apart", "only whole ones"],
)
def test_the_newest_kernel_that_is_whole_is_chosen(
    packages: list[str], release: str, chosen: list[str]
) -> None:
    found, needed = kernels.newest(dict.fromkeys(packages, "1"), "6.12")
    assert found == release
    assert [package for package, _ in needed] == chosen


def test_a_series_that_no_suite_has_is_said() -> None:
    with pytest.raises(Missing, match=r"no kernel of series 6\.12 in the suites"):
        kernels.newest({}, "6.12")


def test_an_unknown_series_is_said() -> None:
    with pytest.raises(VmError, match=r"no series '6\.99'; there are 6\.12, "):
        kernels.get("6.99")


def test_the_newest_of_the_cached_kernels_is_used(empty: Path) -> None:
    for release in ("7.2.9+deb14-cloud-amd64", "7.2.13+deb14-cloud-amd64"):
        (empty / f"kernel-{release}").mkdir(parents=True)
    assert kernels.get("7.2").release == "7.2.13+deb14-cloud-amd64"


def test_lists_are_fetched_again_when_the_mirror_has_dropped_a_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bool] = []

    def ready(*, refresh: bool = False, architecture: str = "") -> apt.Apt:
        assert architecture == apt.ARCHITECTURE
        asked.append(refresh)
        return apt.Apt(Path("/no-such-folder"))

    def unpack(*_: object) -> None:
        raise VmError("`apt-get … linux-image` failed (100): 404 Not Found")

    packages = [("linux-image-6.12.9+deb13-cloud-amd64", "1")]
    monkeypatch.setattr(apt, "ready", ready)
    monkeypatch.setattr(apt.Apt, "versions", lambda *_: packages)
    monkeypatch.setattr(kernels, "_unpack", unpack)
    with pytest.raises(VmError, match="404"):
        kernels.get("6.12")
    assert asked == [False, True]


# The emulator.


@pytest.mark.parametrize(
    ("said", "major"),
    [
        ("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright", 10),
        ("QEMU emulator version 7.2.19 (Debian 1:7.2+dfsg-7)", 7),
        ("QEMU emulator version 11.0.50", 11),
        ("something else", 0),
    ],
)
def test_the_emulators_version_is_read(said: str, major: int) -> None:
    assert emulator.major(said) == major


@pytest.mark.parametrize(("version", "own"), [("10.0.2", True), ("7.2.19", False)])
def test_an_emulator_that_is_too_old_is_not_used(
    version: str, own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = tmp_path / emulator.BINARY
    binary.write_text(f"#!/bin/sh\necho QEMU emulator version {version}\n")
    binary.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    if own:
        assert emulator.get().argv == (str(binary),)
    else:
        with pytest.raises(Missing, match="no apt-get"):
            emulator.get()


# The verdict of a guest.


def answer(**members: bytes) -> bytes:
    """Make a guest's answer. Two underscores in a name stand for `/`."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as stream:
        for name, content in members.items():
            entry = tarfile.TarInfo(name.replace("__", "/"))
            entry.size = len(content)
            stream.addfile(entry, io.BytesIO(content))
    return raw.getvalue()


WHOLE: dict[str, bytes] = {
    "hello": b"7.2.13",
    "0__stdout": b"out",
    "0__stderr": b"",
    "0__status": b"0",
    "files__a": b"a",
    "done": b"",
}


def test_a_whole_answer_is_a_verdict() -> None:
    assert guest.verdict(answer(**{**WHOLE, "0__stdout": b"out"}), "", 1, "") == guest.Verdict(
        "7.2.13", (guest.Result(0, "out", ""),), {"a": b"a"}
    )


def test_an_answer_cut_off_anywhere_is_a_lost_guest() -> None:
    raw = answer(**WHOLE)
    end = raw.index(b"done")
    for length in range(0, end, 128):
        with pytest.raises(
            LostGuest, match=r"lost \(out of time\); its console ends with:\nfirst\nlast"
        ):
            guest.verdict(raw[:length], "first\nlast", 1, "out of time")


def test_a_panic_is_told_from_a_loss() -> None:
    console = "booting\n[    1.0] Kernel panic - not syncing: VFS\n---[ end ]---"
    with pytest.raises(Panicked, match="end"):
        guest.verdict(answer(hello=b"7.2.13"), console, 1, "the emulator ended with 0")
    # A guest that sent all its results has not panicked, whatever it printed.
    assert guest.verdict(answer(**WHOLE), console, 1, "").release == "7.2.13"
