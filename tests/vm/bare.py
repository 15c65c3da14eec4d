"""Runs a command where nothing is installed: `python -m tests.vm.bare bookworm make check`.

It runs in a copy of the checkout, in a Debian root with only git, Python, make and certificates. A
command that works there works for a newcomer. The root is deleted at the end. It is a copy of one
in the cache.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.vm import apt, cache, rootfs
from tests.vm.errors import Missing, VmError

PROJECT = Path(__file__).parents[2]

SUITES = (rootfs.SUITE, rootfs.NEWER_SUITE)

# What a newcomer has: packages to get the sources, and those that the README asks for.
PACKAGES = ("ca-certificates", "git", "make", "python3", "python3-venv")

# Where the checkout lies in the root.
PLACE = "src/tierd"

# How this machine reaches the network. A machine behind a proxy may have its own certificates.
FILES = ("etc/resolv.conf", "etc/hosts", "etc/pip.conf", "etc/ssl/certs/ca-certificates.crt")
VARIABLES = ("http_proxy", "https_proxy", "no_proxy", "PIP_INDEX_URL", "PIP_DEFAULT_TIMEOUT")

ENVIRONMENT = {
    "HOME": "/root",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "TERM": "dumb",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}

# The mounts end with the command. No program in there can change this machine's kernel.
MOUNTS = """\
set -e
mount -t proc proc "$0/proc"
mount --bind "$0/proc/sys" "$0/proc/sys"
mount -o remount,bind,ro "$0/proc/sys"
mount -t sysfs -o ro sysfs "$0/sys"
mount --rbind /dev "$0/dev"
mount -t tmpfs tmpfs "$0/run"
"""
ENTER = """\
exec chroot "$0" sh -c 'cd /PLACE && exec "$@"' sh "$@"
""".replace("PLACE", PLACE)

# These are large, and not part of the sources.
LEFT_OUT = shutil.ignore_patterns(".venv", "__pycache__", ".*_cache", ".hypothesis")


def base(suite: str) -> Path:
    """Return the root that is copied for each run."""
    return cache.made(f"bare-{suite}", partial(_make, suite)) / "root"


def _make(suite: str, into: Path) -> None:
    source = apt.machine_source()
    tree = into / "root"
    rootfs.bootstrap(tree, suite, source, PACKAGES)
    (tree / "etc/apt/sources.list").unlink(missing_ok=True)
    (tree / "etc/apt/sources.list.d/debian.sources").write_text(
        f"Types: deb\nURIs: {source.uri}\nSuites: {suite}\nComponents: main\n"
        f"Signed-By: {apt.KEYRING}\n"
    )


def run(suite: str, argv: list[str]) -> int:
    """Run a command in a new copy, on our terminal. Return its exit status."""
    if os.geteuid() != 0:
        raise Missing("only root can make a root file system and run a command in it")
    with copy(suite) as root:
        shutil.copytree(PROJECT, root / PLACE, ignore=LEFT_OUT, symlinks=True)
        passed = {name: os.environ[name] for name in VARIABLES if name in os.environ}
        return subprocess.run(
            [*mounted(root, ENTER), *argv], env={**ENVIRONMENT, **passed}, check=False
        ).returncode


@contextmanager
def copy(suite: str) -> Iterator[Path]:
    """Make a new copy of the root, which reaches the network as this machine does."""
    whole = base(suite)
    root = Path(tempfile.mkdtemp(prefix="tierd-bare.", dir=cache.folder()))
    try:
        apt.run(["cp", "-a", f"{whole}/.", str(root)])
        _equip(root)
        yield root
    finally:
        cache.remove(root)


def mounted(root: Path, then: str) -> list[str]:
    """Return the words that run a shell's lines beside the root, with its mounts made."""
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]
    return [*words, MOUNTS + then, str(root)]


def _equip(root: Path) -> None:
    """Copy how this machine reaches the network."""
    for name in FILES:
        if Path("/", name).is_file():
            shutil.copyfile(Path("/", name), root / name)
    way = apt.way(apt.run(["apt-config", "dump"]))
    (root / "etc/apt/apt.conf.d/50way").write_text(way)


def main() -> int:
    if len(sys.argv) < 3 or sys.argv[1] not in SUITES:
        print(f"usage: python -m tests.vm.bare {{{','.join(SUITES)}}} COMMAND…", file=sys.stderr)
        return 2
    try:
        return run(sys.argv[1], sys.argv[2:])
    except VmError as error:
        print(f"no bare machine: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
