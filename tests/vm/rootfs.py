"""The guests' root file system: a minimal Debian with what tierd and its tests need."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

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

# damo is pure Python; tests start foreign kdamonds with it.
DAMO = "damo==3.4.3"
DAMO_FOLDER = "opt/damo"

# The packages need 0.4 GB; the rest is room for what tests write.
SIZE = "1500M"

# On a guest's kernel command line: systemd is to be the first process.
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


def get(suite: str = SUITE) -> Path:
    """The ext4 image, read only by convention: guests write to a snapshot."""
    return cache.made(f"rootfs-{recipe(suite)}", partial(_make, suite)) / "root.ext4"


def recipe(suite: str) -> str:
    """Names what the image is made of: another recipe is another image."""
    parts = (suite, PACKAGES, DAMO, SIZE, GUEST_INIT, AGENT_UNIT)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def _make(suite: str, into: Path) -> None:
    if shutil.which("debootstrap") is None:
        raise Missing("debootstrap is not installed")
    if os.geteuid() != 0:
        raise Missing("only root can run debootstrap; a cache made by root will do")
    source = apt.machine_source()
    scratch = Path(tempfile.mkdtemp(dir=into))
    tree = scratch / "tree"
    try:
        _fill(tree, suite, source)
        image = into / "root.ext4"
        apt.run(["truncate", "-s", SIZE, str(image)])
        apt.run(["mke2fs", "-q", "-t", "ext4", "-d", str(tree), str(image)])
    finally:
        cache.remove(scratch)


def _fill(tree: Path, suite: str, source: apt.Source) -> None:
    # With something in it, debootstrap takes /sys for mounted already: no package's script may
    # reach this machine's kernel through it.
    (tree / "sys").mkdir(parents=True)
    (tree / "sys/.not-mounted").touch()
    apt.run(
        [
            *_apart(),
            "debootstrap",
            "--variant=minbase",
            f"--keyring={source.signed_by}",
            f"--include={','.join(PACKAGES)}",
            suite,
            str(tree),
            source.uri,
        ]
    )
    apt.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps",
             "--target", str(tree / DAMO_FOLDER), DAMO])  # fmt: skip
    guest_init = tree / "sbin/tierd-guest"
    guest_init.write_text(GUEST_INIT)
    guest_init.chmod(0o755)
    unit = tree / "etc/systemd/system/tierd-agent.service"
    unit.write_text(AGENT_UNIT)
    wanted = unit.parent / "multi-user.target.wants"
    wanted.mkdir(exist_ok=True)
    (wanted / unit.name).symlink_to(f"../{unit.name}")
    shutil.rmtree(tree / "var/cache/apt", ignore_errors=True)


def _apart() -> list[str]:
    """How to run a program whose mounts nobody else sees, and which end with it."""
    words = ["unshare", "--mount", "--propagation", "private"]
    # Where that is not permitted (in most containers), nor are mounts, as a rule; if they are, then
    # whoever removes the tree unmounts them.
    permitted = subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    return words if permitted else []
