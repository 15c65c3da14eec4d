"""What `python -m tests.vm` says on a machine that lacks something. There are no fakes.

A mount or network namespace takes it away. Each run must end with one sentence and a status other
than 0, and leave nothing half made in the cache.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.vm import apt, cache

ROOT = Path(__file__).parent.parent.parent

# The tests need root and Debian, as virtual machines do. None of them boots one.
pytestmark = pytest.mark.vm

PROGRAM = """
import sys
from tests.vm import cache
from tests.vm.__main__ import main
if len(sys.argv) == 2:
    cache.ROOM_BYTES_MIN = int(sys.argv.pop())
sys.argv += ["6.12", "two-tier", "--", "true"]
sys.exit(main())
"""


def said(apart: str, before: str, folder: Path, room_bytes: int = 0) -> str:
    """Run the command after `before` in a new namespace. Return the one sentence of its failure."""
    if subprocess.run(["unshare", apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip(f"this machine does not permit unshare {apart}")
    folder.mkdir()
    script = f'ls=$(command -v ls)\n{before}\n"$@"; status=$?; $ls -A {folder}; exit $status'
    program = [sys.executable, "-c", PROGRAM, str(room_bytes)]
    done = subprocess.run(
        ["unshare", apart, "sh", "-c", script, "sh", *program],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TIERD_VM_CACHE": str(folder)},
        check=False,
    )
    things = {name for name in done.stdout.split() if not name.endswith(".lock")}
    assert things <= {"apt"}, "something is half made"
    assert done.returncode == 1
    assert re.fullmatch(r"no virtual machine: [^\n]+\n", done.stderr), done.stderr
    return done.stderr


def test_no_network(tmp_path: Path) -> None:
    sentence = said("--net", "", tmp_path / "cache")
    assert "no package lists from" in sentence


def test_a_disk_without_room(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    sentence = said("--mount", f"mount -t tmpfs -o size=8m none {folder}", folder, 2 << 30)
    assert "MiB free and needs 2048 MiB" in sentence


def test_a_disk_that_fills_up_on_the_way(tmp_path: Path) -> None:
    apt.ready()
    lists, folder = tmp_path / "apt", tmp_path / "cache"
    shutil.copytree(cache.place() / "apt", lists)
    small = f"mount -t tmpfs -o size=8m none {folder}; mkdir {folder}/apt"
    sentence = said("--mount", f"{small}; mount --bind {lists} {folder}/apt", folder)
    # The first download fails: a kernel, or QEMU if the machine has none.
    assert "No space left" in sentence or "enough free space" in sentence


def test_a_disk_that_cannot_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    sentence = said("--mount", f"mount -t tmpfs -o ro none {folder}", folder)
    assert "cannot write" in sentence
    assert "Read-only file system" in sentence


def test_no_qemu_and_no_apt(tmp_path: Path) -> None:
    (tmp_path / "programs").mkdir()
    sentence = said("--mount", f"PATH={tmp_path}/programs", tmp_path / "cache")
    assert "no apt-get" in sentence
