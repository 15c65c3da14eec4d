"""The guard: a test can change only the kernel of a marked guest."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.vm import guard
from tests.vm.guard import NotAGuest

# A file in a directory that no kernel has, so that the tests do no harm if the guard fails.
NOWHERE = "/sys/tierd-guard-test/file"


@pytest.mark.parametrize(
    ("cmdline", "marked"),
    [
        ("console=ttyS0 quiet tierd.vm=1\n", True),
        ("tierd.vm=1 panic=-1", True),
        ("console=ttyS0 quiet\n", False),
        ("tierd.vm=10", False),
        ("not.tierd.vm=1", False),
        ("tierd.vm=0", False),
        ("", False),
    ],
)
def test_the_mark_is_a_word_of_its_own(cmdline: str, marked: bool) -> None:
    assert guard.in_guest(cmdline) is marked


def test_this_machine_is_no_guest() -> None:
    with pytest.raises(NotAGuest, match="is no guest of ours"):
        guard.require_guest()


WAYS: dict[str, Callable[[str], object]] = {
    "open for writing": lambda path: open(path, "w"),  # noqa: PTH123, SIM115
    "open for appending": lambda path: open(path, "ab"),  # noqa: PTH123, SIM115
    "open for update": lambda path: open(path, "r+"),  # noqa: PTH123, SIM115
    "os.open": lambda path: os.open(path, os.O_WRONLY),
    "os.open in bytes": lambda path: os.open(path.encode(), os.O_RDWR | os.O_CLOEXEC),
    "Path.write_text": lambda path: Path(path).write_text("0"),
    "Path.touch": lambda path: Path(path).touch(),
    "Path.mkdir": lambda path: Path(path).mkdir(),
    "Path.rmdir": lambda path: Path(path).rmdir(),
    "Path.unlink": lambda path: Path(path).unlink(),
    "Path.chmod": lambda path: Path(path).chmod(0o644),
    "os.chown": lambda path: os.chown(path, 0, 0),
    "os.truncate": lambda path: os.truncate(path, 0),
    "os.rename to it": lambda path: os.rename("/tierd-no-such-file", path),  # noqa: PTH104
    "os.symlink to it": lambda path: os.symlink("/tierd-no-such-file", path),  # noqa: PTH211
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", [NOWHERE, "/proc/sys/tierd-guard-test/file"])
def test_no_way_leads_to_the_kernel_of_this_machine(way: str, path: str) -> None:
    with pytest.raises(NotAGuest, match="this machine's kernel"):
        WAYS[way](path)


def test_links_and_detours_lead_there_too(tmp_path: Path) -> None:
    (tmp_path / "innocent").symlink_to("/sys")
    with pytest.raises(NotAGuest):
        (tmp_path / "innocent/tierd-guard-test/file").write_text("0")
    with pytest.raises(NotAGuest):
        Path("/tmp/../sys/tierd-guard-test/file").write_text("0")


def test_reading_is_free() -> None:
    assert Path("/proc/sys/kernel/osrelease").read_text().strip() == os.uname().release
    os.close(os.open("/sys", os.O_RDONLY | os.O_DIRECTORY))


def test_trees_that_look_like_it_are_free(tmp_path: Path) -> None:
    for name in ("sys/kernel/mm", "proc/sys"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "state").write_text("on")
        assert (folder / "state").read_text() == "on"
        (folder / "state").unlink()


def test_programs_that_tests_start_are_watched() -> None:
    script = f"open({NOWHERE!r}, 'w')"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "NotAGuest: open would change" in done.stderr
