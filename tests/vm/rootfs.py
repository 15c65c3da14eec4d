"""Makes the guests' root file system: a minimal Debian with what tierd and its tests need."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests import lock
from tests.vm import apt, cache
from tests.vm.errors import Missing

SUITE = "bookworm"

# The next Debian, with systemd 257 and Python 3.13.
NEWER_SUITE = "trixie"

# What tierd imports, what its tests run, and an init for the tests of the unit.
PACKAGES = (
    "python3",
    "python3-yaml",
    "python3-psutil",
    "python3-prometheus-client",
    "procps",
    "systemd-sysv",
    "dbus",
)

# Tests start foreign kdamonds with damo, which is pure Python. Its version and hashes are those of
# the lock file.
DAMO = "damo"
DAMO_FOLDER = "opt/damo"

# The packages need 0.4 GB. Tests can write into the rest.
SIZE = "1500M"

# With the programs of the benchmark the packages need 1.2 GB. A database is larger than the fast
# node of its machine.
SIZE_WITH_PROGRAMS = "4G"

# This word on a guest's kernel command line makes systemd the first process.
SYSTEMD = "tierd.init=systemd"

GUEST_INIT = """#!/bin/sh
# The first process of a guest: mounts, then the agent that the job disk carries. Or it becomes
# systemd, which starts the agent as a service.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
mount -t proc proc /proc
if grep -qw SYSTEMD_WORD /proc/cmdline; then
    exec /lib/systemd/systemd
fi
mount -t sysfs sys /sys
mount -t tracefs trace /sys/kernel/tracing 2>/dev/null
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
mkdir -p /dev/pts /dev/shm /job
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs job /job
tar -x -C /job -f /dev/vdb
hostname tierd-guest
cd /job/project
# No exec: this shell goes on as the first process, and reaps what others leave behind.
python3 -B /job/project/tests/vm/agent.py
echo b > /proc/sysrq-trigger
""".replace("SYSTEMD_WORD", SYSTEMD)

AGENT_UNIT = """[Unit]
Description=The agent that the job disk carries
[Service]
Environment=HOME=/root LANG=C.UTF-8
ExecStartPre=mkdir -p /job
ExecStartPre=mount -t tmpfs job /job
ExecStartPre=tar -x -C /job -f /dev/vdb
ExecStart=sh -c 'cd /job/project && exec python3 -B tests/vm/agent.py'
"""


def get(suite: str = SUITE, programs: Sequence[str] = ()) -> Path:
    """Return the ext4 image with these additional packages. Guests write only to a snapshot."""
    name = f"rootfs-{recipe(suite, programs)}"
    return cache.made(name, partial(_make, suite, programs)) / "root.ext4"


def recipe(suite: str, programs: Sequence[str] = ()) -> str:
    """Return a hash of all that the image is made of, as its name."""
    packages = (*PACKAGES, *programs)
    parts = (suite, packages, lock.requirement(DAMO), _size(programs), GUEST_INIT, AGENT_UNIT)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def _size(programs: Sequence[str]) -> str:
    return SIZE_WITH_PROGRAMS if programs else SIZE


def _make(suite: str, programs: Sequence[str], into: Path) -> None:
    source = apt.machine_source()
    scratch = Path(tempfile.mkdtemp(dir=into))
    tree = scratch / "tree"
    try:
        _fill(tree, suite, source, (*PACKAGES, *programs))
        image = into / "root.ext4"
        apt.run(["truncate", "-s", _size(programs), str(image)])
        apt.run(["mke2fs", "-q", "-t", "ext4", "-d", str(tree), str(image)])
    finally:
        cache.remove(scratch)


def _fill(tree: Path, suite: str, source: apt.Source, packages: Sequence[str]) -> None:
    bootstrap(tree, suite, source, packages)
    wanted = tree.parent / "damo.txt"
    wanted.write_text(lock.requirement(DAMO))
    apt.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--require-hashes",
             "--target", str(tree / DAMO_FOLDER), "-r", str(wanted)])  # fmt: skip
    guest_init = tree / "sbin/tierd-guest"
    guest_init.write_text(GUEST_INIT)
    guest_init.chmod(0o755)
    unit = tree / "etc/systemd/system/tierd-agent.service"
    unit.write_text(AGENT_UNIT)
    wants = unit.parent / "multi-user.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / unit.name).symlink_to(f"../{unit.name}")
    shutil.rmtree(tree / "var/cache/apt", ignore_errors=True)


def bootstrap(tree: Path, suite: str, source: apt.Source, packages: Sequence[str]) -> None:
    """Make a minimal Debian with these packages in a new folder."""
    if shutil.which("debootstrap") is None:
        raise Missing("debootstrap is not installed")
    if os.geteuid() != 0:
        raise Missing("only root can run debootstrap; a cache made by root will do")
    # debootstrap does not mount /sys if there is a file in it. So no script of a package can reach
    # this machine's kernel through it.
    (tree / "sys").mkdir(parents=True)
    (tree / "sys/.not-mounted").touch()
    apt.run(
        [
            *_apart(),
            "debootstrap",
            "--variant=minbase",
            f"--keyring={source.signed_by}",
            f"--include={','.join(packages)}",
            suite,
            str(tree),
            source.uri,
        ]
    )


def _apart() -> list[str]:
    """Return the words that run a program in a mount namespace of its own, if that is permitted."""
    words = ["unshare", "--mount", "--propagation", "private"]
    # Most containers permit neither this nor mounts. If mounts alone are permitted, `cache.remove`
    # unmounts them.
    permitted = subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    return words if permitted else []
