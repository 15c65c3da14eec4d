"""Runs programs of unpacked Debian packages, with their own loader and C library."""

import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.vm import apt
from tests.vm.errors import Missing


def fetch(package: str, suite: str, into: Path) -> None:
    """Unpack a package with all its dependencies, as if nothing were installed."""
    source = apt.ready()
    if platform.machine() != "x86_64":
        raise Missing(f"Debian's {package} is unpacked on x86-64 only")
    unpack(source, (package,), suite, into)


def unpack(source: apt.Apt, packages: Sequence[str], suite: str, into: Path) -> None:
    """Unpack packages of the architecture of `source` with all that they depend on."""
    archives = into / "archives"
    (archives / "partial").mkdir(parents=True)
    options = ["-o", f"Dir::Cache::archives={archives}", "--target-release", suite]
    options += ["--no-install-recommends", "--download-only", "--yes"]
    source.run("apt-get", *options, "install", *packages)
    for deb in sorted(archives.glob("*.deb")):
        apt.run(["dpkg-deb", "-x", str(deb), str(into)])
    shutil.rmtree(archives)


def argv(tree: Path, program: str) -> tuple[str, ...]:
    """Return the words that run a program of the tree on any Linux."""
    libraries = [tree / "usr/lib/x86_64-linux-gnu", tree / "lib/x86_64-linux-gnu"]
    # Some libraries are in folders of their own (pulseaudio, systemd), and are found by rpath.
    folders = {path.parent for root in libraries for path in root.rglob("*.so*")}
    loader = next(tree.rglob("ld-linux-x86-64.so.2"))
    paths = ":".join(str(folder) for folder in sorted(folders))
    return (str(loader), "--library-path", paths, str(tree / program))
